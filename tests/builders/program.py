"""The command line on the product in this process, as one of the cast."""

from __future__ import annotations

import contextlib
import io
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx2
import pytest
from django.test import Client
from typer.testing import CliRunner, Result

Run = Callable[..., Result]


class InProcess(httpx2.BaseTransport):
    """Requests to the product in this process, inside the test's own transaction."""

    def handle_request(self, request: httpx2.Request) -> httpx2.Response:
        sent = request.headers
        with contextlib.redirect_stdout(io.StringIO()):  # The server's log is none of the command's output.
            answer = Client().generic(
                request.method,
                request.url.raw_path.decode(),
                request.read(),
                content_type=sent.get("Content-Type", "application/json"),
                headers={
                    name: value for name, value in sent.items() if name.lower() not in ("content-type", "content-length", "host")
                },
            )
        return httpx2.Response(answer.status_code, headers=list(answer.headers.items()), content=answer.content)


def program(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    """`berth ...`: gives what runs it as a person, and what it printed."""
    from berth.cli.command import Session
    from berth.cli.root import app

    monkeypatch.setattr(Session, "http", InProcess())
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.setenv("BERTH_LANG", "en")
    monkeypatch.setenv("BERTH_SERVER", "http://testserver")
    monkeypatch.chdir(tmp_path)

    def run(person: Any, *words: str, code: int = 0) -> Result:
        monkeypatch.setenv("BERTH_TOKEN", person.token)
        done = CliRunner().invoke(app, list(words), prog_name="berth", catch_exceptions=False)
        assert done.exit_code == code, done.output
        return done

    return run
