"""The door to the API server: what is tried again, what is not, and what each refusal means."""

from __future__ import annotations

import base64
import json
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from clusters.engines.interface import EngineUnreachable
from clusters.engines.kubernetes.api import (
    AlreadyExists,
    Api,
    ApiRefused,
    Conflict,
    Expired,
    Forbidden,
    NotFound,
    TokenBucket,
    refusal,
)
from clusters.engines.kubernetes.client import ClientTransport
from clusters.engines.kubernetes.config import ConfigInvalid
from clusters.engines.kubernetes.credentials import read_kubeconfig


class Answer:
    def __init__(self, status: int, document: object, headers: Mapping[str, str] | None = None) -> None:
        self.status, self.headers = status, headers or {}
        self._data = document if isinstance(document, bytes) else json.dumps(document).encode()

    def body(self) -> bytes:
        return self._data

    def chunks(self) -> Iterator[bytes]:
        for start in range(0, len(self._data), 7):
            yield self._data[start : start + 7]

    def close(self) -> None:
        pass


class Server:
    """Gives prepared answers, one a call; an exception is raised."""

    def __init__(self, *answers: Answer | OSError) -> None:
        self.answers, self.asked, self.slept = list(answers), [], []  # type: ignore[var-annotated]

    def __call__(self, method: str, path: str, body: Any, headers: Mapping[str, str], **_: float) -> Answer:
        self.asked.append((method, path, body, dict(headers)))
        answer = self.answers.pop(0)
        if isinstance(answer, OSError):
            raise answer
        return answer

    def api(self) -> Api:
        return Api(self, sleep=self.slept.append)


def status(code: int, reason: str = "", message: str = "why") -> Answer:
    return Answer(code, {"kind": "Status", "reason": reason, "message": message})


def test_429_waits_as_long_as_it_was_told() -> None:
    server = Server(Answer(429, {}, {"Retry-After": "3"}), Answer(200, {"a": 1}))
    assert server.api().get("/x") == {"a": 1}
    assert server.slept[0] >= 3.0


def test_a_lost_connection_is_tried_again_and_then_no_answer() -> None:
    assert Server(ConnectionError("reset"), Answer(200, {})).api().create("/x", {}) == {}
    server = Server(ConnectionError("reset"), ConnectionError("reset"))
    with pytest.raises(EngineUnreachable, match="reset"):
        server.api().get("/x")
    assert len(server.asked) == 2


def test_a_server_that_stays_broken_is_no_answer() -> None:
    server = Server(*[status(503)] * 4)
    with pytest.raises(EngineUnreachable):
        server.api().get("/x")
    assert len(server.asked) == 4


@pytest.mark.parametrize(
    ("method", "code", "reason", "kind"),
    [
        ("GET", 404, "NotFound", NotFound),
        ("POST", 409, "AlreadyExists", AlreadyExists),
        ("PUT", 409, "Conflict", Conflict),
        ("DELETE", 409, "Conflict", Conflict),
        ("GET", 410, "Expired", Expired),
        ("POST", 403, "Forbidden", Forbidden),
        ("GET", 401, "Unauthorized", Forbidden),
        ("POST", 422, "Invalid", ApiRefused),
    ],
)
def test_a_refusal_has_its_type(method: str, code: int, reason: str, kind: type[ApiRefused]) -> None:
    found = refusal(method, code, status(code, reason).body())
    assert type(found) is kind
    assert (found.reason, found.message) == (reason, "why")


def test_a_refusal_that_is_no_json_keeps_its_text() -> None:
    assert refusal("GET", 502, b"<html>bad gateway</html>").message == "<html>bad gateway</html>"


def test_a_watch_gives_whole_lines() -> None:
    server = Server(Answer(200, b'{"type":"ADDED"}\n{"type":"BOOKMARK"}\n{"cut'))
    assert list(server.api().lines("/x", silence_seconds=1.0, watch=True)) == [b'{"type":"ADDED"}', b'{"type":"BOOKMARK"}']
    assert server.asked[0][1] == "/x?watch=true"


def test_a_watch_that_cannot_begin_is_an_unreachable_server() -> None:
    with pytest.raises(EngineUnreachable, match="did not begin"):
        list(Server(ConnectionError("refused")).api().lines("/x", silence_seconds=1.0))


def test_a_watch_from_too_old_a_version_is_expired() -> None:
    with pytest.raises(Expired):
        list(Server(status(410, "Expired")).api().lines("/x", silence_seconds=1.0))


def test_a_patch_and_an_apply_name_their_kinds() -> None:
    server = Server(Answer(200, {}), Answer(200, {}))
    api = server.api()
    api.patch("/x", {})
    api.apply("/x", {})
    assert [asked[3]["Content-Type"] for asked in server.asked] == [
        "application/merge-patch+json",
        "application/apply-patch+yaml",
    ]
    assert server.asked[1][1] == "/x?fieldManager=berth&force=true"


def test_the_rate_is_kept_and_those_who_wait_keep_their_order() -> None:
    now, slept = [0.0], []
    bucket = TokenBucket(rate=10.0, burst=2.0, clock=lambda: now[0], sleep=slept.append)
    for _ in range(4):
        bucket.take()
    assert slept == pytest.approx([0.1, 0.2])
    now[0] = 1.0
    bucket.take()
    assert len(slept) == 2


@pytest.mark.parametrize(
    ("text", "word"),
    [
        ("users: [{name: a, user: {exec: {command: evil}}}]", "exec"),
        ("users: [{name: a, user: {client-key: /etc/shadow}}]", "client-key"),
        ("users: [{name: a, user: {tokenFile: /etc/shadow}}]", "tokenFile"),
        ("clusters: [{name: a, cluster: {certificate-authority: /etc/x}}]", "certificate-authority"),
        ("[", "YAML"),
        ("text", "mapping"),
    ],
)
def test_a_kubeconfig_that_reaches_for_this_server_is_refused(text: str, word: str) -> None:
    with pytest.raises(ConfigInvalid, match=word):
        read_kubeconfig(text)


def kubeconfig(*, authority: str) -> str:
    names = {"client-certificate-data": "certificate", "client-key-data": "key"}
    user = {name: base64.b64encode(text.encode()).decode() for name, text in names.items()}
    return json.dumps(
        {
            "current-context": "there",
            "contexts": [{"name": "there", "context": {"cluster": "there", "user": "us"}}],
            "clusters": [{"name": "there", "cluster": {"server": "https://k.test", "certificate-authority-data": authority}}],
            "users": [{"name": "us", "user": user}],
        }
    )


def test_keys_of_a_cluster_are_on_no_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A process that is killed removes no file, and the client's own way is a temporary one for each."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))

    transport = ClientTransport(kubeconfig(authority=base64.b64encode(b"authority").decode()), connections=1)

    given = transport._client.configuration
    assert [Path(name).read_text() for name in (given.ssl_ca_cert, given.cert_file, given.key_file)] == [
        "authority",
        "certificate",
        "key",
    ]
    assert list(tmp_path.iterdir()) == []
    transport.close()
    assert not Path(given.key_file).exists()


def test_a_certificate_that_is_no_base64_is_refused() -> None:
    with pytest.raises(ConfigInvalid, match="certificate-authority-data"):
        ClientTransport(kubeconfig(authority="!"), connections=1)
