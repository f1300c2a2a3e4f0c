"""What a job printed and what it left behind: logs merged or by stream, followed live, and artifacts."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from dataclasses import replace
from typing import Any

from django.http.response import HttpResponseBase
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import OpenApiParameter, extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from activity.sessions import sessions
from activity.threads import in_thread
from clusters.engines.interface import Stream, TaskName
from jobs.api.history import find_attempt, get_attempt
from jobs.lifecycle.states import JOB_LIFECYCLE
from jobs.models import Attempt, Job
from jobs.selectors.find import fetch_job
from jobs.selectors.output import has_given_up_output
from kernel.clock import utc_text
from kernel.errors import FieldError, InvalidInput, NotFound
from kernel.words import Text
from storage.bounds import ARTIFACT_FILES_MAX
from storage.downloads import archive_response, artifact_response, log_response
from storage.logs import LogFilter, LogPage, find_stream, follow, read_merged, tail_cursor
from storage.selectors import artifact_facts, collections_of, get_artifact, list_artifacts
from storage.tar_stream import artifact_members, pack
from webapi.bounds import PAGE_SIZE_MAX
from webapi.pagination import page
from webapi.schema import PAGE_QUERY
from webapi.sse import Event, event_stream, last_event_id
from webapi.views import ApiView, known_query
from webapi.wording import reader_language

IDLE_SECONDS = 3.0  # Between looks whether a quiet reader may still read.
TAIL_LINES_MAX = 10_000


class LogItemOut(serializers.Serializer[Any]):
    """A run of text of one stream, or a marker where bytes are missing."""

    task = serializers.DictField()
    stream = serializers.ChoiceField(choices=["stdout", "stderr"])
    offset = serializers.IntegerField(help_text="Offset of the first byte in its stream.")
    text = serializers.CharField()
    at = serializers.DateTimeField()
    marker = serializers.CharField(allow_null=True)
    skipped_bytes = serializers.IntegerField()


class LogPageOut(serializers.Serializer[Any]):
    items = LogItemOut(many=True)
    cursor = serializers.CharField(help_text="Cursor to continue from; also the `Last-Event-ID` of the stream.")
    complete = serializers.BooleanField(help_text="The attempt has ended and no output follows.")
    attempt = serializers.IntegerField()


class ArtifactOut(serializers.Serializer[Any]):
    path = serializers.CharField()
    size_bytes = serializers.IntegerField()
    sha256 = serializers.CharField()
    mode = serializers.CharField()
    created_at = serializers.DateTimeField()


class ArtifactPageOut(serializers.Serializer[Any]):
    items = ArtifactOut(many=True)
    next = serializers.CharField(allow_null=True)
    complete = serializers.BooleanField(help_text="All outputs of the attempt are stored.")
    marker = serializers.CharField(allow_null=True, help_text="Outputs that were not stored, and why.")
    attempt = serializers.IntegerField()


_WHICH = [
    OpenApiParameter("attempt", int, description="Number of the attempt; default: the latest attempt."),
    OpenApiParameter("role", str),
    OpenApiParameter("index", int),
    OpenApiParameter("stream", str, enum=["stdout", "stderr"]),
    OpenApiParameter("tail", int, description="Start with about this number of last lines."),
]


class LogView(ApiView):
    """Get the output of all tasks, in the order of arrival."""

    @extend_schema(
        operation_id="jobs_logs",
        parameters=[*_WHICH, OpenApiParameter("cursor", str), OpenApiParameter("limit", int)],
        responses=LogPageOut,
    )
    def get(self, request: Request, job: str) -> Response:
        known_query(request, ("attempt", "role", "index", "stream", "tail"))
        found = fetch_job(self.actor, job, "job.logs")
        attempt = find_attempt(found, request.query_params.get("attempt"))
        if attempt is None:
            over = JOB_LIFECYCLE.is_terminal(found.state)
            return Response({"items": [], "cursor": "0-0", "complete": over, "attempt": 0})
        wanted = _wanted(request)
        cursor = request.query_params.get("cursor") or _tail(request, attempt, wanted)
        answer = read_merged(
            attempt.id, cursor=cursor, limit=_number(request, "limit", PAGE_SIZE_MAX, PAGE_SIZE_MAX), wanted=wanted
        )
        is_over = not answer.complete and not answer.more and attempt.ended_at is not None and has_given_up_output(attempt.id)
        return Response(_page(replace(answer, complete=True) if is_over else answer, attempt))


class LogStreamView(ApiView):
    """The same as it is printed, as server-sent events."""

    @extend_schema(
        operation_id="jobs_logs_stream",
        parameters=[*_WHICH, OpenApiParameter("Last-Event-ID", str, OpenApiParameter.HEADER)],
        responses={(200, "text/event-stream"): OpenApiTypes.STR},
    )
    def get(self, request: Request, job: str) -> HttpResponseBase:
        """Follow the log: pages as `log` events with their cursor as id, then `end`. A queued job is followed from its start."""
        known_query(request, ("attempt", "role", "index", "stream", "tail", "after"))
        found = fetch_job(self.actor, job, "job.logs")
        attempt = find_attempt(found, request.query_params.get("attempt"))
        wanted = _wanted(request)
        cursor = last_event_id(request) or (_tail(request, attempt, wanted) if attempt is not None else None)
        return event_stream(
            _events(self.actor, found, attempt, cursor, wanted),
            heartbeat_seconds=IDLE_SECONDS,
            language=reader_language(request),
        )


async def _events(actor: Any, job: Job, attempt: Attempt | None, cursor: str | None, wanted: LogFilter) -> AsyncGenerator[Event]:
    over = False

    def end() -> None:
        nonlocal over
        over = True

    async with sessions().opened(actor, on_end=end):
        attempt = attempt or await _first_attempt(job, lambda: over)
        if attempt is None:
            if not over:
                yield Event({"attempt": 0}, id="0-0", event="end")
            return
        async for answer in follow(attempt.id, cursor=cursor, wanted=wanted, idle_seconds=IDLE_SECONDS):
            if over:
                return
            if answer.items:
                yield Event(_page(answer, attempt), id=answer.cursor, event="log")
            is_idle = not answer.items and not answer.complete
            if answer.complete or (is_idle and await in_thread(has_given_up_output, attempt.id)):
                yield Event({"attempt": attempt.number}, id=answer.cursor, event="end")
                return


async def _first_attempt(job: Job, is_over: Any) -> Attempt | None:
    """Wait until a queued job has an attempt; None when it ended without one, or the reader may not read any more."""

    def look() -> tuple[Attempt | None, bool]:
        fresh = Job.objects.get(id=job.id)
        return find_attempt(fresh, None), JOB_LIFECYCLE.is_terminal(fresh.state)

    while not is_over():
        attempt, ended = await in_thread(look)
        if attempt is not None or ended:
            return attempt
        await asyncio.sleep(0.5)
    return None


class RawLogView(ApiView):
    """Download a stream of a task as it was printed, by byte ranges."""

    @extend_schema(operation_id="jobs_logs_raw", responses={(200, "text/plain"): OpenApiTypes.BINARY})
    def get(self, request: Request, job: str, number: int, role: str, index: int, stream: str) -> HttpResponseBase:
        found = fetch_job(self.actor, job, "job.logs")
        attempt = get_attempt(found, number)
        if stream not in {"stdout", "stderr"}:
            raise NotFound(
                Text(f"There is no stream {stream[:40]!r}.", f"没有输出流 {stream[:40]!r}。"),
                hint=Text("stdout or stderr.", "stdout 或 stderr。"),
            )
        facts = find_stream(attempt.id, TaskName(role, index), Stream(stream))
        if facts is None:
            raise NotFound(
                Text(
                    f"Attempt {number} of {found.name} has no log of {role}-{index}.",
                    f"{found.name} 的第 {number} 次尝试没有 {role}-{index} 的日志。",
                )
            )
        return log_response(request, facts)


class ArtifactListView(ApiView):
    """List the artifacts of an attempt: all files below the job's `outputs`."""

    @extend_schema(operation_id="jobs_artifacts", parameters=[_WHICH[0], *PAGE_QUERY], responses=ArtifactPageOut)
    def get(self, request: Request, job: str) -> Response:
        known_query(request, ("attempt",))
        found = fetch_job(self.actor, job, "job.artifacts")
        attempt = find_attempt(found, request.query_params.get("attempt"))
        if attempt is None:
            return Response({"items": [], "next": None, "complete": False, "marker": None, "attempt": 0})
        facts = collections_of([attempt.id]).get(attempt.id)
        response = page(
            request, list_artifacts(attempt.id), order=("path",), serialize=lambda rows: [_artifact(row) for row in rows]
        )
        response.data |= {
            "complete": facts is not None,
            "marker": (facts.marker or None) if facts is not None else None,
            "attempt": attempt.number,
        }
        return response


class ArtifactArchiveView(ApiView):
    """Everything that an attempt left, as one file."""

    @extend_schema(
        operation_id="jobs_artifacts_archive",
        parameters=[_WHICH[0]],
        responses={(200, "application/x-tar"): OpenApiTypes.BINARY},
    )
    def get(self, request: Request, job: str) -> HttpResponseBase:
        """Download all artifacts of an attempt as a tar archive, written while it is sent."""
        known_query(request, ("attempt",))
        found = fetch_job(self.actor, job, "job.artifacts")
        attempt = find_attempt(found, request.query_params.get("attempt"))
        artifacts = [] if attempt is None else list(list_artifacts(attempt.id).order_by("path")[:ARTIFACT_FILES_MAX])
        if not artifacts:
            raise NotFound(
                Text(f"Job {found.name} has no outputs to put into an archive.", f"作业 {found.name} 没有可打包的产物。"),
                hint=Text(
                    "Outputs are stored when an attempt ends; which ones is said by `outputs` of the job file.",
                    "产物在尝试结束时保存；保存哪些由作业文件的 `outputs` 说明。",
                ),
            )
        return archive_response(pack(artifact_members(artifacts, folder=found.name)), name=f"{found.name}.tar")


class ArtifactView(ApiView):
    """Download an artifact, by byte ranges."""

    @extend_schema(
        operation_id="jobs_artifact", parameters=[_WHICH[0]], responses={(200, "application/octet-stream"): OpenApiTypes.BINARY}
    )
    def get(self, request: Request, job: str, path: str) -> HttpResponseBase:
        known_query(request, ("attempt",))
        found = fetch_job(self.actor, job, "job.artifacts")
        attempt = find_attempt(found, request.query_params.get("attempt"))
        if attempt is None:
            raise NotFound(
                Text(f"Job {found.name} has not started, so it left nothing.", f"作业 {found.name} 尚未启动，因此没有产物。")
            )
        try:
            artifact = get_artifact(attempt.id, path)
        except NotFound as error:
            if attempt.outputs_stored:
                raise
            hint = Text(
                "They are being stored while the attempt ends; ask again until the list says `complete`.",
                "尝试结束时正在保存；请等到列表显示 `complete` 后再请求。",
            )
            raise NotFound(
                Text(f"{error.detail} Its outputs are not complete yet.", f"{error.detail_text.zh}其产物尚不完整。"), hint=hint
            ) from None
        return artifact_response(request, artifact)


def _artifact(row: Any) -> dict[str, Any]:
    facts = artifact_facts(row)
    return {**facts, "created_at": utc_text(row.created_at)}


def _page(answer: LogPage, attempt: Attempt) -> dict[str, Any]:
    items = [{**item.as_dict(), "at": utc_text(item.at)} for item in answer.items]
    return {"items": items, "cursor": answer.cursor, "complete": answer.complete, "attempt": attempt.number}


def _wanted(request: Request) -> LogFilter:
    query = request.query_params
    index = _number(request, "index", None, 1_000_000) if "index" in query else None
    if query.get("stream", "stdout") not in {"stdout", "stderr"}:
        message = Text("stream is stdout or stderr; leave it out for both.", "stream 为 stdout 或 stderr；省略则包含两者。")
        raise InvalidInput(message, fields=[FieldError("/stream", "choice", message)])
    return LogFilter(query.get("role"), index, query.get("stream"))


def _tail(request: Request, attempt: Attempt, wanted: LogFilter) -> str | None:
    if "tail" not in request.query_params:
        return None
    return tail_cursor(attempt.id, lines=_number(request, "tail", 0, TAIL_LINES_MAX) or 0, wanted=wanted)


def _number(request: Request, name: str, default: Any, most: int) -> Any:
    text = request.query_params.get(name)
    if text is None:
        return default
    if not (text.isascii() and text.isdecimal() and len(text) <= 9):
        message = Text(f"{name} must be a whole number.", f"{name} 须为整数。")
        raise InvalidInput(message, fields=[FieldError(f"/{name}", "invalid", message)])
    return min(int(text), most)
