"""Jobs from Python: submit, find, watch, stop, and bring home what they made."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias, cast

from berth import limits
from berth.errors import ApiError, NotFound, WaitTimeout
from berth.job_files import JobFiles
from berth.job_reads import job_path
from berth.logs import ENDED_STATES, LogFilter, LogLine, LogReader
from berth.metrics import Series, read_series
from berth.paging import iterate, list_all
from berth.specs import Spec, SpecSource, apply_changes, in_single_role, load_spec
from berth.transfers import Progress, upload
from berth.transport import Call, post

if TYPE_CHECKING:
    from berth.execution import ExecResult
    from berth.snapshots import Snapshot
    from berth.types import ArtifactData, JobData, TaskData


Rows: TypeAlias = "list[dict[str, Any]]"
Tasks: TypeAlias = "list[TaskData]"
Measured: TypeAlias = "list[Series]"


@dataclass(eq=False)
class Job:
    """One job as last read, with what can be done to it. `data` holds everything that the server said."""

    data: JobData
    _jobs: Jobs = field(repr=False)

    @property
    def id(self) -> str:
        return self.data["id"]

    @property
    def name(self) -> str:
        return self.data["name"]

    @property
    def state(self) -> str:
        return self.data["state"]

    @property
    def has_ended(self) -> bool:
        return self.state in ENDED_STATES

    @property
    def succeeded(self) -> bool:
        return self.state == "succeeded"

    def __str__(self) -> str:
        return f"{self.name} {self.id} {self.state}"

    def refresh(self) -> Job:
        """Read the job again, in place."""
        self.data = self._jobs.read(self.id)
        return self

    def wait(self, timeout: float | None = None, on_change: Callable[[Job], None] | None = None) -> Job:
        """Return when the job has ended; raise `WaitTimeout` when `timeout` seconds are over first."""
        self.data = self._jobs.wait(self.id, timeout=timeout, on_change=on_change).data
        return self

    def logs(self, **options: Any) -> Iterator[LogLine]:
        """Lines of the log; options as `client.jobs.logs`."""
        return self._jobs.logs(self.id, **options)

    def exec(self, argv: Sequence[str], **options: Any) -> ExecResult:
        """Run a command in a running task and wait for it; options as `client.jobs.exec`."""
        return self._jobs.exec(self.id, argv, **options)

    def stop(self, grace_seconds: float | None = None, reason: str = "") -> Job:
        self.data = self._jobs.stop(self.id, grace_seconds=grace_seconds, reason=reason).data
        return self

    def rerun(self, changes: Sequence[str] | Mapping[str, Any] = ()) -> Job:
        return self._jobs.rerun(self.id, changes=changes)

    def artifacts(self) -> list[ArtifactData]:
        return self._jobs.artifacts(self.id)

    def download(self, path: str, dest: str | Path = ".", progress: Progress | None = None) -> list[Path]:
        return self._jobs.download(self.id, path, dest, progress=progress)

    def metrics(self, metric: str | None = None, task: str | None = None) -> list[Series]:
        return self._jobs.metrics(self.id, metric=metric, task=task)

    def spec(self) -> Spec:
        return self._jobs.spec(self.id)


class Jobs(JobFiles):
    """`client.jobs`. Wherever a job is asked for, its id, a unique prefix of it, or a name (its latest job) will do."""

    # --- Submitting ---------------------------------------------------------------------------------------------------

    def submit(
        self,
        spec: Mapping[str, Any] | str | Path,
        *,
        dry_run: bool = False,
        tenant: str | None = None,
        idempotency_key: str | None = None,
        progress: Progress | None = None,
    ) -> Job:
        """Submit a spec given as mapping, path of a YAML file, or YAML text; uploads `code.path`.

        `dry_run` checks everything and submits nothing; use `plan` for what would happen. The same `idempotency_key`
        gives the same job, however often it is sent.
        """
        source = load_spec(spec)
        if dry_run:
            self.plan(source, tenant=tenant)
            return Job(cast("JobData", {"id": "", "name": str(source.spec.get("name", "")), "state": "planned"}), self)
        prepared = self.with_code_uploaded(source, tenant=tenant, progress=progress)
        return self.submit_prepared(source, prepared, tenant=tenant, idempotency_key=idempotency_key)

    def submit_prepared(
        self,
        source: SpecSource,
        spec: Spec,
        *,
        tenant: str | None = None,
        idempotency_key: str | None = None,
        priority_reason: str | None = None,
    ) -> Job:
        """Submit a spec whose code is on the server already; `source` names the lines of mistakes. With a `priority_reason` a
        priority above your own is requested for that reason, and the job waits with your own meanwhile."""
        body, params = {"spec": spec, **self._in_tenant(tenant)}, {"priority_reason": priority_reason}
        return Job(self._checked(source, post("/jobs", body, params=params, idempotency_key=idempotency_key)), self)

    def plan(
        self,
        source: SpecSource | Mapping[str, Any] | str | Path,
        *,
        tenant: str | None = None,
        priority_reason: str | None = None,
        forecast: bool = False,
    ) -> dict[str, Any]:
        """What would happen: where, with what in total, and every mistake with its line. Nothing is stored or uploaded.

        With `forecast` also when it would start and what it would cost, and the same for half and a quarter of it.
        """
        source = source if isinstance(source, SpecSource) else load_spec(source)
        body = {"spec": _without_folder(source), **self._in_tenant(tenant)}
        params = {"dry_run": True, "forecast": True if forecast else None, "priority_reason": priority_reason}
        return dict(self._checked(source, post("/jobs", body, params=params)))

    def with_code_uploaded(self, source: SpecSource, *, tenant: str | None = None, progress: Progress | None = None) -> Spec:
        """Give the spec with `code.path` replaced by the digest of the uploaded folder. What the server has is not sent."""
        path = code_path(source)
        if path is None:
            return source.spec
        from berth.snapshots import pack_code

        snapshot = pack_code(path)
        try:
            self.upload_code(snapshot, tenant=tenant, progress=progress)
        finally:
            snapshot.close()
        return with_snapshot(source.spec, snapshot.sha256)

    def upload_code(self, snapshot: Snapshot, *, tenant: str | None = None, progress: Progress | None = None) -> None:
        """Send a packed folder."""
        from berth.transfers import upload_memory

        upload(
            self._transport,
            snapshot.file,
            tenant=tenant or self._tenant,
            target={"code": True},
            size_bytes=snapshot.size_bytes,
            sha256=snapshot.sha256,
            progress=progress,
            memory=upload_memory(),
        )

    def submit_batch(
        self,
        spec: Mapping[str, Any],
        items: Sequence[Mapping[str, Any]],
        *,
        tenant: str | None = None,
        idempotency_key: str | None = None,
    ) -> dict[str, Any]:
        """Submit one spec many times with overrides, up to 10,000 in one request."""
        body = {"spec": dict(spec), "items": [dict(item) for item in items], **self._in_tenant(tenant)}
        return dict(self._transport.json(post("/jobs:batch", body, idempotency_key=idempotency_key)))

    def convert(self, text: str, *, source: str | None = None, name: str = "") -> dict[str, Any]:
        """A job of OpenPAI (protocol v2) or a script for sbatch as a spec: `spec`, `notes` on what was carried over, changed and
        lost, and `problems`. Nothing is submitted. `source`: openpai or sbatch, else it is found out; `name` is the file's."""
        body = {"text": text, **({"from": source} if source else {}), **({"name": name} if name else {})}
        try:
            return dict(self._transport.json(post("/jobs:convert", body)))
        except ApiError as error:
            error.fields = tuple(replace(problem, file=name or "text") for problem in error.fields)
            raise

    # --- Finding ------------------------------------------------------------------------------------------------------

    def list(self, *, limit: int | None = None, **filters: object) -> Iterator[Job]:
        """Jobs, newest first, read page by page while you iterate. Filters: tenant, state, queue, user, name, tag, label,
        kind, since, until (of the submission; of the end where `sort` is finished), parent, q (text in name or tags); `sort`:
        created, finished or priority. `standing=True`: also `place` and `expected_start` of those that wait, and what those that
        run hold (`held`)."""
        filters.setdefault("tenant", self._tenant or None)
        for data in iterate(self._transport, "/jobs", filters, limit=limit):
            yield Job(data, self)

    def get(self, job: str) -> Job:
        """Find a job by id, unique prefix of an id, or name (the latest of that name)."""
        return Job(self.read(job), self)

    def spec(self, job: str) -> Spec:
        """The spec as stored, complete with defaults."""
        return dict(self._transport.json(Call("GET", f"{job_path(job)}/spec")))

    # --- Doing --------------------------------------------------------------------------------------------------------

    def stop(self, job: str, *, grace_seconds: float | None = None, reason: str = "") -> Job:
        """Ask the job to end; its tasks get `grace_seconds` after the signal. A job that has ended stays as it is.

        `reason` is shown to all users who can see the job.
        """
        return Job(self._transport.json(post(f"{job_path(job)}/stop", stop_body(grace_seconds, reason))), self)

    def edit(self, job: str, **changes: object) -> Job:
        """Change `hold`, `priority`, `tags`, `queue` (while it waits) or `max_runtime_seconds` (upwards by managers only).

        `retry_now=True` starts the next attempt without the wait after the last one.
        """
        return Job(self._transport.json(Call("PATCH", job_path(job), json=changes)), self)

    def move(
        self,
        job: str,
        *,
        before: str | None = None,
        after: str | None = None,
        last: bool = False,
        everybody: bool = False,
        dry_run: bool = False,
        plan: str | None = None,
    ) -> dict[str, Any]:
        """Move a queued job: before or after another, or first (last) of its owner's or, for managers, of all users' jobs.

        With `dry_run` the moves are only listed; with the `plan` of that exactly this is done, or nothing (`plan_changed`).
        """
        body: dict[str, Any] = {"among": "queue" if everybody else "own"}
        if before is not None or after is not None:
            body |= {"before": before} if before is not None else {}
            body |= {"after": after} if after is not None else {}
        else:
            body["to"] = "last" if last else "first"
        params = {"dry_run": True if dry_run else None, "plan": plan}
        return dict(self._transport.json(post(f"{job_path(self.resolve(job))}/move", body, params=params)))

    def rerun(
        self,
        job: str,
        *,
        changes: Sequence[str] | Mapping[str, Any] = (),
        from_checkpoint: bool = False,
        idempotency_key: str | None = None,
    ) -> Job:
        """Submit the job's spec again. `changes`: a mapping whose keys replace the spec's top-level keys (None removes
        one), or texts such as `roles.worker.replicas=4`, which reach inside. `from_checkpoint`: start from a copy of this job's
        last checkpoint."""
        job_id = self.resolve(job)
        document = self.changed_keys(job_id, changes)
        document |= self.start_from(job_id, document) if from_checkpoint else {}
        return self._again(job_id, "rerun", document, idempotency_key)

    def clone(
        self,
        job: str,
        *,
        name: str | None = None,
        changes: Sequence[str] | Mapping[str, Any] = (),
        secrets: Mapping[str, Any] | None = None,
        from_checkpoint: bool = False,
    ) -> Job:
        """Submit a copy under another name. Secrets are not copied: name them again in `secrets`."""
        job_id = self.resolve(job)
        document = self.changed_keys(job_id, changes)
        document |= self.start_from(job_id, document) if from_checkpoint else {}
        document |= {"name": name} if name else {}
        document |= {"secrets": dict(secrets)} if secrets is not None else {}
        return self._again(job_id, "clone", document, None)

    def start_from(self, job_id: str, changes: Mapping[str, Any]) -> Spec:
        """The changes by which a job's spec starts from a copy of that job's last checkpoint."""
        checkpoint = changes.get("checkpoint") or self.spec(job_id).get("checkpoint")
        if not checkpoint:
            raise NotFound("The job keeps no checkpoint.", hint="Write `checkpoint: {path: ckpt}` in the job file.", status=404)
        return {"checkpoint": {**checkpoint, "from": job_id}}

    def changed_keys(self, job_id: str, changes: Sequence[str] | Mapping[str, Any]) -> Spec:
        """Changes as the server takes them: whole top-level keys, None for one that goes away."""
        if isinstance(changes, Mapping):
            return dict(changes)
        if not changes:
            return {}
        before = self.spec(job_id)
        after = apply_changes(before, in_single_role(before, changes))
        return {key: after.get(key) for key in {**before, **after} if before.get(key) != after.get(key)}

    def _again(self, job_id: str, verb: str, changes: Spec, idempotency_key: str | None) -> Job:
        call = post(f"{job_path(job_id)}/{verb}", {"changes": changes} if changes else {}, idempotency_key=idempotency_key)
        return Job(self._transport.json(call), self)

    def wait(
        self,
        job: str,
        *,
        timeout: float | None = None,
        on_change: Callable[[Job], None] | None = None,
        until: frozenset[str] = ENDED_STATES,
    ) -> Job:
        """Return when the job's state is one of `until`. `on_change` sees every reading that differs from the one before."""
        job_id = self.resolve(job)
        deadline = None if timeout is None else time.monotonic() + timeout
        pause, seen = limits.POLL_SECONDS, None
        while True:
            current = Job(self.read(job_id, patient=deadline is None), self)
            version = (
                current.state,
                current.data.get("version"),
                str(current.data.get("reason")),
                str(current.data.get("counts")),
            )
            if version != seen:
                seen, pause = version, limits.POLL_SECONDS
                if on_change:
                    on_change(current)
            if current.state in until or current.has_ended:
                return current
            if deadline is not None and time.monotonic() >= deadline:
                raise WaitTimeout(
                    f"The time to wait is over, and job {current.name} is {current.state}; it goes on.",
                    hint=f"berth logs -f {current.id}",
                )
            remaining = pause if deadline is None else min(pause, max(0.0, deadline - time.monotonic()))
            self._transport.sleep(remaining)
            pause = min(pause * 1.5, limits.POLL_SECONDS_MAX)

    # --- Looking ------------------------------------------------------------------------------------------------------

    def logs(
        self,
        job: str,
        *,
        follow: bool = False,
        role: str | None = None,
        index: int | None = None,
        stream: str | None = None,
        attempt: int | None = None,
        since: datetime | None = None,
        tail: int | None = None,
        bars: bool = False,
    ) -> Iterator[LogLine]:
        """Lines of the log, each once and none lost, over broken connections too. `tail` begins with the last so many.

        With `bars` progress bars come as they go, again and again with `is_open`, before they come as a line.
        """
        chosen = LogFilter(attempt=attempt, role=role, index=index, stream=stream)
        reader = self.log_reader(job, chosen, tail=tail)
        if tail is not None:
            from collections import deque

            yield from deque((line for line in reader.lines() if _is_since(line, since)), maxlen=tail)
            if not follow:
                return
            reader = reader.after()
        yield from (line for line in reader.lines(follow=follow, bars=bars) if _is_since(line, since))

    def exec(
        self, job: str, argv: Sequence[str], *, role: str | None = None, index: int | None = None, stdin: bytes = b""
    ) -> ExecResult:
        """Run a command beside a running task, as its user and within its limits, and wait until it has ended.

        Without `role` and `index` in the first task. `stdin` is what the command reads. Ask in the task's own words to end
        it after a time: ["timeout", "60", ...].
        """
        from berth.execution import run

        return run(
            self._transport.settings,
            self.resolve(job),
            argv,
            role=role,
            index=index,
            stdin=stdin,
            language=self._transport.headers.get("Accept-Language", ""),
        )

    def log_reader(
        self, job: str, log_filter: LogFilter | None = None, *, cursor: str = "", tail: int | None = None
    ) -> LogReader:
        """A reader whose place you may keep: name its `attempt` in the filter and its `cursor`, and it goes on there."""
        return LogReader(self._transport, self.resolve(job), log_filter or LogFilter(), cursor=cursor, tail=tail)

    def events(self, job: str, *, limit: int | None = None) -> Iterator[dict[str, Any]]:
        """Transitions and reasons, oldest first."""
        return iterate(self._transport, f"{job_path(job)}/events", {}, limit=limit)

    def attempts(self, job: str) -> Rows:
        return list_all(self._transport, f"{job_path(job)}/attempts")

    def tasks(self, job: str, *, attempt: int | None = None) -> Tasks:
        return cast("list[TaskData]", list_all(self._transport, f"{job_path(job)}/tasks", attempt=attempt))

    def metrics(self, job: str, *, metric: str | None = None, task: str | None = None) -> Measured:
        """Measured series of the job's tasks, as plain lists."""
        return read_series(self._transport.json(Call("GET", f"{job_path(job)}/metrics", {"metric": metric, "task": task})))

    def compare(self, a: str, b: str) -> dict[str, Any]:
        """Two runs side by side: `a` and `b` with job, seconds waited and ran, attempts, cost and use; `spec`: what differs."""
        from berth.compare import compare

        return compare(self, self._transport, a, b)

    def _in_tenant(self, tenant: str | None) -> dict[str, str]:
        chosen = tenant or self._tenant
        return {"tenant": chosen} if chosen else {}

    def _checked(self, source: SpecSource, call: Call) -> Any:
        """Send; mistakes that the server finds get the lines of the file."""
        try:
            return self._transport.json(call)
        except ApiError as error:
            error.fields = source.locate(error.fields)
            raise


def code_path(source: SpecSource) -> Path | None:
    """The folder that the spec's `code.path` names, or None."""
    code = source.spec.get("code")
    path = code.get("path") if isinstance(code, Mapping) else None
    return source.folder / Path(str(path)).expanduser() if path else None


def _without_folder(source: SpecSource) -> Spec:
    """The spec without the folder that only this machine can read; a plan does not upload."""
    if code_path(source) is None or set(source.spec["code"]) != {"path"}:
        return source.spec
    return {key: value for key, value in source.spec.items() if key != "code"}


def with_snapshot(spec: Spec, sha256: str) -> Spec:
    """The spec with its local folder replaced by what was uploaded."""
    kept = {key: value for key, value in spec["code"].items() if key != "path"}
    return {**spec, "code": {**kept, "snapshot": sha256}}


def stop_body(grace_seconds: float | None, reason: str) -> dict[str, Any]:
    """The body of a stop: only what was said."""
    return {**({} if grace_seconds is None else {"grace_seconds": grace_seconds}), **({"reason": reason} if reason else {})}


def _is_since(line: LogLine, since: datetime | None) -> bool:
    return since is None or line.at is None or line.at >= since
