"""`berth.AsyncClient`: the same server for programs that run an event loop; the operations that such programs repeat."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Mapping
from dataclasses import replace
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self, cast
from urllib.parse import quote

from berth import limits
from berth.config import resolve_settings
from berth.errors import WaitTimeout
from berth.job_reads import as_job
from berth.jobs import code_path, stop_body
from berth.logs import ENDED_STATES, LineAssembler, LogFilter, LogLine, LogMarks
from berth.paging import items_of
from berth.specs import load_spec
from berth.transport import AsyncTransport, Call, post

if TYPE_CHECKING:
    import httpx2

    from berth.types import JobData


class AsyncClient:
    """Submits, lists, watches and stops jobs. For files use `berth.Client`; `request` reaches everything else.

    Jobs are plain dictionaries here, and are named by id, unique prefix or name as the server resolves them.
    """

    def __init__(
        self,
        server: str | None = None,
        token: str | None = None,
        *,
        tenant: str | None = None,
        profile: str | None = None,
        config_path: Path | None = None,
        http: httpx2.AsyncBaseTransport | None = None,
        tries: int = limits.TRIES,
    ) -> None:
        self.settings = resolve_settings(server=server, token=token, tenant=tenant, profile=profile, path=config_path)
        self.transport = AsyncTransport(self.settings, http=http, tries=tries)

    async def whoami(self) -> dict[str, Any]:
        return dict(await self.transport.json(Call("GET", "/whoami")))

    async def submit(self, spec: Mapping[str, Any] | str | Path, *, idempotency_key: str | None = None) -> JobData:
        """Submit a spec that needs no upload: `code.path` is for the blocking client."""
        source = load_spec(spec)
        if code_path(source) is not None:
            raise ValueError("code.path needs an upload: use berth.Client, or name a snapshot.")
        body = {"spec": source.spec, **({"tenant": self.settings.tenant} if self.settings.tenant else {})}
        return cast("JobData", await self.transport.json(post("/jobs", body, idempotency_key=idempotency_key)))

    async def get(self, job: str) -> JobData:
        return as_job(await self.transport.json(Call("GET", _path(job.strip()))))

    async def list(self, *, limit: int | None = None, **filters: object) -> AsyncIterator[JobData]:
        """Jobs, newest first, read page by page while you iterate."""
        filters.setdefault("tenant", self.settings.tenant or None)
        left = limit
        cursor: object = None
        while left is None or left > 0:
            size = limits.PAGE_SIZE if left is None else min(left, limits.PAGE_SIZE)
            page = await self.transport.json(Call("GET", "/jobs", {**filters, "limit": size, "cursor": cursor}))
            items = items_of(page)[:left]
            for item in items:
                yield item
            left = None if left is None else left - len(items)
            cursor = page.get("next")
            if not cursor or not items:
                return

    async def stop(self, job: str, *, grace_seconds: float | None = None, reason: str = "") -> JobData:
        return cast("JobData", await self.transport.json(post(f"{_path(job)}/stop", stop_body(grace_seconds, reason))))

    async def rerun(self, job: str, *, changes: Mapping[str, Any] | None = None) -> JobData:
        """Submit the job's spec again; keys of `changes` replace the spec's, None removes one."""
        body = {"changes": dict(changes)} if changes else {}
        return cast("JobData", await self.transport.json(post(f"{_path(job)}/rerun", body)))

    async def wait(self, job: str, *, timeout: float | None = None) -> JobData:
        """Return when the job has ended; raise `WaitTimeout` when `timeout` seconds are over first."""
        deadline = None if timeout is None else time.monotonic() + timeout
        pause = limits.POLL_SECONDS
        while True:
            data = await self.get(job)
            if data["state"] in ENDED_STATES:
                return data
            if deadline is not None and time.monotonic() >= deadline:
                raise WaitTimeout(f"The time to wait is over, and job {data['name']} is {data['state']}; it goes on.")
            await asyncio.sleep(pause if deadline is None else min(pause, max(0.0, deadline - time.monotonic())))
            pause = min(pause * 1.5, limits.POLL_SECONDS_MAX)

    async def logs(
        self, job: str, *, attempt: int, log_filter: LogFilter | None = None, follow: bool = False
    ) -> AsyncIterator[LogLine]:
        """Lines of one attempt's log, each once; following asks again from the last cursor until the log is complete."""
        chosen = replace(log_filter or LogFilter(), attempt=attempt)
        marks, assembler, cursor = LogMarks(), LineAssembler(), None
        while True:
            page = await self.transport.json(Call("GET", f"{_path(job)}/logs", {**chosen.as_params(), "cursor": cursor}))
            cursor, items = page.get("cursor") or cursor, items_of(page)
            for chunk in marks.new(items, attempt):
                for line in assembler.add(chunk):
                    yield line
            if page.get("complete") or not (items or follow):
                break
            if not items:
                await asyncio.sleep(limits.POLL_SECONDS)
        for line in assembler.finish():
            yield line

    async def request(self, method: str, path: str, *, params: dict[str, object] | None = None, json: object = None) -> Any:
        """Any other operation of the API; `path` is below /api/v1."""
        return await self.transport.json(
            Call(method, path, params or {}, json=json, repeatable=method in ("GET", "PUT", "DELETE"))
        )

    async def close(self) -> None:
        await self.transport.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        await self.close()


def _path(job: str) -> str:
    return f"/jobs/{quote(job, safe='')}"
