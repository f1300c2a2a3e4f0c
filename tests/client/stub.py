"""A small stand-in for the server, behind httpx2's MockTransport: the shapes of the API, and faults on demand.

Only what the client must cope with is here; how the real server behaves is shown by its own tests, and the client is run
against it in `test_live.py`."""

from __future__ import annotations

import copy
import hashlib
import json
import re
import uuid
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import unquote

import httpx2
from client_stub_rows import API as API
from client_stub_rows import CEILING as CEILING
from client_stub_rows import CLUSTER as CLUSTER
from client_stub_rows import CODE as CODE
from client_stub_rows import CPU_POOL as CPU_POOL
from client_stub_rows import LISTS as LISTS
from client_stub_rows import NODE as NODE
from client_stub_rows import NOON as NOON
from client_stub_rows import POOL as POOL
from client_stub_rows import QUEUE as QUEUE
from client_stub_rows import SERVER as SERVER
from client_stub_rows import TENANT as TENANT
from client_stub_rows import TOKEN as TOKEN
from client_stub_rows import USER as USER

import berth

Handler = Callable[[httpx2.Request], httpx2.Response]


class CutOff(httpx2.SyncByteStream):
    """A body whose connection breaks after some pieces."""

    def __init__(self, *pieces: bytes) -> None:
        self._pieces = pieces

    def __iter__(self) -> Iterator[bytes]:
        yield from self._pieces
        raise httpx2.ReadError("the line broke")


@dataclass
class Upload:
    """What the server has of an upload."""

    size_bytes: int
    sha256: str
    target: dict[str, Any]
    data: bytearray = field(default_factory=bytearray)

    def as_dict(self, upload_id: str, chunk_bytes: int) -> dict[str, Any]:
        return {
            "id": upload_id,
            "offset_bytes": len(self.data),
            "size_bytes": self.size_bytes,
            "chunk_bytes_max": chunk_bytes,
            "complete": len(self.data) == self.size_bytes,
        }


def problem(status: int, code: str, detail: str, **more: Any) -> httpx2.Response:
    """A refusal as the API writes it."""
    headers = more.pop("headers", {})
    body = {
        "type": "about:blank",
        "title": code,
        "status": status,
        "code": code,
        "detail": detail,
        "hint": "",
        "fields": [],
        **more,
    }
    return httpx2.Response(
        status, json=body, headers={"Content-Type": "application/problem+json", "X-Request-ID": "r-1", **headers}
    )


def a_job(name: str = "digits", state: str = "running", number: int = 1, **changes: Any) -> dict[str, Any]:
    """A job as the API shows it."""
    ended = state in ("succeeded", "failed", "stopped")
    return {
        "id": f"0198c0de-{number:04x}-7000-8000-{number:012x}",
        "name": name,
        "kind": "batch",
        "tenant": TENANT,
        "queue": QUEUE,
        "user": USER,
        "state": state,
        "desired": "run",
        "reason": None,
        "exit": None,
        "priority": 500,
        "hold": False,
        "tags": [],
        "labels": {},
        "framework": "none",
        "image": {"name": "host", "digest": ""},
        "resources": {"cpu_millis": 1000, "memory_bytes": 2 << 30, "gpu_millis": 0},
        "parent_id": None,
        "array": None,
        "attempt": 0 if state == "queued" else 1,
        "cluster": "local",
        "pool": "a100",
        "isolation": "uid",
        "gpus_simulated": False,
        "counts": None,
        "spec_digest": "d" * 64,
        "max_runtime_seconds": None,
        "planned_runtime_seconds": 7200,
        "submitted_at": NOON,
        "started_at": None if state == "queued" else "2026-11-20T12:00:05Z",
        "ended_at": "2026-11-20T12:01:05Z" if ended else None,
        "version": 1,
        **changes,
    }


@dataclass
class Stub:
    """The server's state. `faults` are answers (or errors) given before the real one, per "METHOD path" pattern."""

    jobs: list[dict[str, Any]] = field(default_factory=list)
    specs: dict[str, dict[str, Any]] = field(default_factory=dict)
    logs: list[dict[str, Any]] = field(default_factory=list)
    artifacts: dict[str, bytes] = field(default_factory=dict)
    looks_until_collected: int = 0  # So many readings of the manifest are answered before anything was brought in.
    left_behind: str = ""
    volumes: dict[str, dict[str, bytes]] = field(default_factory=dict)
    uploads: dict[str, Upload] = field(default_factory=dict)
    known_code: set[str] = field(default_factory=set)
    keys: dict[str, dict[str, Any]] = field(default_factory=dict)
    requests: list[httpx2.Request] = field(default_factory=list)
    faults: list[tuple[str, Any]] = field(default_factory=list)
    imported: dict[str, Any] = field(default_factory=dict)
    plan_extra: dict[str, Any] = field(default_factory=dict)
    chunk_bytes: int = 1 << 20
    page_size: int = 500
    streams: list[Any] = field(default_factory=list)
    states_to_come: list[str] = field(default_factory=list)
    attempts: int = 1
    demo: bool = False
    node: dict[str, Any] = field(default_factory=lambda: dict(NODE))
    queue: dict[str, Any] = field(default_factory=lambda: copy.deepcopy(LISTS["queues"][0]))
    rules: dict[str, int | None] = field(
        default_factory=lambda: dict.fromkeys(("max_runtime_seconds", "default_runtime_seconds", "max_jobs", "max_containers"))
    )

    def transport(self) -> httpx2.MockTransport:
        return httpx2.MockTransport(self.handle)

    def fail(self, pattern: str, *answers: Any) -> None:
        """Give these answers first, one per matching request; an exception is raised, None lets the request through."""
        self.faults += [(pattern, answer) for answer in answers]

    def sent(self, pattern: str) -> list[httpx2.Request]:
        """Requests that match "METHOD path"."""
        return [request for request in self.requests if re.fullmatch(pattern, _line(request))]

    def handle(self, request: httpx2.Request) -> httpx2.Response:
        self.requests.append(request)
        for position, (pattern, answer) in enumerate(self.faults):
            if re.fullmatch(pattern, _line(request)):
                del self.faults[position]
                if isinstance(answer, Exception):
                    raise answer
                if callable(answer):
                    answer = answer(request)
                if answer is not None:
                    return answer
                break
        is_public = _line(request) in ("GET /info", "POST /invitations:accept")
        if request.headers.get("Authorization") not in (f"Bearer {TOKEN}", *([None] if is_public else [])):
            return problem(401, "not_authenticated", "This needs a token.", hint="Run `berth login`.")
        for pattern, method in ROUTES:
            match = re.fullmatch(pattern, _line(request))
            if match:
                return getattr(self, method)(request, *map(unquote, match.groups()))
        return problem(404, "not_found", f"No {_line(request)}")

    # --- Answers --------------------------------------------------------------------------------------------------

    def whoami(self, request: httpx2.Request) -> httpx2.Response:
        token = {
            "id": "t",
            "name": "laptop",
            "prefix": "bth_te",
            "scopes": ["read", "jobs"],
            "expires_at": "2027-01-31T00:00:00Z",
        }
        user = {**USER, "email": "alice@example.org", "is_operator": False, "kind": "person", "password_in": "here"}
        return _json({"user": user, "token": token, "tenants": [{**TENANT, "role": "manager", "parent": None}]})

    def info(self, request: httpx2.Request) -> httpx2.Response:
        return _json(
            {"name": "berth", "version": berth.__version__, "time_zone": "UTC", "now": NOON, "profile": "embedded", "url": SERVER}
        )

    def list_jobs(self, request: httpx2.Request) -> httpx2.Response:
        rows = sorted(self.jobs, key=lambda job: job["id"], reverse=True)
        wanted = request.url.params
        if wanted.get("name"):
            rows = [row for row in rows if row["name"] == wanted["name"]]
        states = wanted.get_list("state")
        rows = [row for row in rows if not states or row["state"] in states]
        start = int(wanted.get("cursor") or 0)
        size = min(int(wanted.get("limit", 50)), self.page_size)
        end = start + size
        return _json({"items": rows[start:end], "next": str(end) if end < len(rows) else None})

    def create_job(self, request: httpx2.Request) -> httpx2.Response:
        body = json.loads(request.content)
        spec = body["spec"]
        mistakes = [
            {"path": f"/{key}", "code": "unknown_key", "message": f"There is no key {key}.", "hint": "Did you mean command?"}
            for key in spec
            if key in ("comand", "imagee")
        ]
        if mistakes:
            return problem(422, "invalid_input", f"The spec has {len(mistakes)} mistakes.", fields=mistakes)
        if (spec.get("code") or {}).get("path"):
            fields = [{"path": "/code/path", "code": "code_not_uploaded", "message": "The server cannot read your machine."}]
            return problem(422, "invalid_input", "The code is not uploaded.", fields=fields)
        if spec.get("name") == "huge":
            return problem(422, "quota_exceeded", "Job huge asks for 16 GPUs; tenant vision may use 8.", hint="Ask a manager.")
        if request.url.params.get("dry_run") == "true":
            return _json({**a_plan(spec), **self.plan_extra})
        key = request.headers["Idempotency-Key"]
        if key not in self.keys:
            job = a_job(spec.get("name", "job"), "queued", len(self.jobs) + 1)
            self.jobs.append(job)
            self.specs[job["id"]] = spec
            self.keys[key] = job
        return _json(self.keys[key], 201)

    def get_job(self, request: httpx2.Request, job_id: str) -> httpx2.Response:
        job = self._job(job_id)
        if job and self.states_to_come:
            state = self.states_to_come.pop(0)
            job.update(a_job(job["name"], state, int(job["id"][9:13], 16)), version=job["version"] + 1, attempt=self.attempts)
        return _json(job) if job else problem(404, "not_found", f"There is no job {job_id}.")

    def get_spec(self, request: httpx2.Request, job_id: str) -> httpx2.Response:
        short = {"roles": {"worker": {"replicas": {"min": 1, "max": 1}, "command": "true"}}, "env": {"SEED": "7"}}
        return _json(self.specs.get(job_id, short))

    def act(self, request: httpx2.Request, job_id: str, verb: str) -> httpx2.Response:
        job = self._job(job_id)
        if job is None:
            return problem(404, "not_found", f"There is no job {job_id}.")
        if verb == "stop":
            job["desired"] = "stop"
            return _json(job)
        new = a_job(job["name"], "queued", len(self.jobs) + 1)
        self.jobs.append(new)
        return _json(new, 201)

    def get_logs(self, request: httpx2.Request, job_id: str) -> httpx2.Response:
        attempt = int(request.url.params["attempt"])
        items = [item for item in self.logs if item["attempt"] == attempt]
        start = int(request.url.params.get("cursor") or 0)
        page = items[start : start + 2]
        end = start + len(page)
        complete = end >= len(items) and self._ended(attempt)
        return _json({"items": [_shown(item) for item in page], "cursor": str(end), "complete": complete})

    def stream_logs(self, request: httpx2.Request, job_id: str) -> httpx2.Response:
        attempt = int(request.url.params["attempt"])
        items = [item for item in self.logs if item["attempt"] == attempt]
        start = int(request.headers.get("Last-Event-ID") or 0)
        events = [f"id: {place + 1}\nevent: log\ndata: {json.dumps(_shown(item))}\n\n" for place, item in enumerate(items)]
        body = (
            self.streams.pop(0)(events[start:])
            if self.streams
            else "".join([*events[start:], "event: end\ndata: {}\n\n"]).encode()
        )
        headers = {"Content-Type": "text/event-stream"}
        return (
            httpx2.Response(200, headers=headers, stream=body)
            if isinstance(body, CutOff)
            else httpx2.Response(200, headers=headers, content=body)
        )

    def list_artifacts(self, request: httpx2.Request, job_id: str) -> httpx2.Response:
        if self.looks_until_collected:
            self.looks_until_collected -= 1
            return _json({"items": [], "next": None, "complete": False, "attempt": 1})
        rows = [
            {"path": path, "size_bytes": len(data), "sha256": hashlib.sha256(data).hexdigest()}
            for path, data in sorted(self.artifacts.items())
        ]
        return _json({"items": rows, "next": None, "complete": True, "marker": self.left_behind or None, "attempt": 1})

    def get_artifact(self, request: httpx2.Request, job_id: str, path: str) -> httpx2.Response:
        return (
            _ranged(request, self.artifacts[path])
            if path in self.artifacts
            else problem(404, "not_found", f"No artifact {path}.")
        )

    def list_volumes(self, request: httpx2.Request) -> httpx2.Response:
        rows = [
            {"id": _volume_id(name), "name": name, "mount_as": name, "tenant": TENANT, "read_only": False, "created_at": NOON}
            for name in self.volumes
        ]
        return _json({"items": rows, "next": None})

    def create_volume(self, request: httpx2.Request) -> httpx2.Response:
        name = json.loads(request.content)["name"]
        self.volumes[name] = {}
        return _json({"id": _volume_id(name), "name": name, "tenant": TENANT}, 201)

    def list_files(self, request: httpx2.Request, volume_id: str) -> httpx2.Response:
        prefix = request.url.params.get("path", "").strip("/")
        below = f"{prefix}/" if prefix else ""
        files = next(files for name, files in self.volumes.items() if _volume_id(name) == volume_id)
        rows: dict[str, dict[str, Any]] = {}
        for path, data in files.items():
            if path.startswith(below):
                name, slash, _rest = path.removeprefix(below).partition("/")
                kind = "directory" if slash else "file"
                rows[name] = {
                    "path": f"{below}{name}",
                    "kind": kind,
                    "size_bytes": 0 if slash else len(data),
                    "modified_at": NOON,
                }
        return _json({"items": list(rows.values()), "next": None})

    def get_content(self, request: httpx2.Request, volume_id: str) -> httpx2.Response:
        files = next(files for name, files in self.volumes.items() if _volume_id(name) == volume_id)
        return _ranged(request, files[request.url.params["path"]])

    def start_upload(self, request: httpx2.Request) -> httpx2.Response:
        body = json.loads(request.content)
        if body["target"].get("code") and body["sha256"] in self.known_code:
            return _json({"complete": True, "sha256": body["sha256"]})
        upload_id = str(uuid.uuid4())
        self.uploads[upload_id] = Upload(body["size_bytes"], body["sha256"], body["target"])
        self._finish(upload_id)
        return _json(self.uploads[upload_id].as_dict(upload_id, self.chunk_bytes), 201)

    def get_upload(self, request: httpx2.Request, upload_id: str) -> httpx2.Response:
        found = self.uploads.get(upload_id)
        return _json(found.as_dict(upload_id, self.chunk_bytes)) if found else problem(404, "not_found", "No such upload.")

    def append(self, request: httpx2.Request, upload_id: str) -> httpx2.Response:
        upload = self.uploads[upload_id]
        if int(request.headers["Upload-Offset"]) != len(upload.data):
            return problem(409, "offset_mismatch", "Another offset is expected.")
        upload.data += request.content
        self._finish(upload_id)
        return _json(upload.as_dict(upload_id, self.chunk_bytes))

    def page(self, request: httpx2.Request, noun: str) -> httpx2.Response:
        return _json({"items": LISTS.get(noun, []), "next": None})

    def job_page(self, request: httpx2.Request, job_id: str, noun: str) -> httpx2.Response:
        return _json({"items": LISTS.get(noun, []), "next": None})

    def create(self, request: httpx2.Request, noun: str) -> httpx2.Response:
        body = json.loads(request.content) if request.content and noun != "users:import" else {}
        if noun == "users:import":
            return _json(self.imported)
        more = {
            "tokens": {"token": "bth_new_secret"},
            "subscriptions": {"secret": "whsec_1", "problem": "no_mail_server" if body.get("channel") == "mail" else None},
            "queues": {"path": f"vision/{body.get('name')}"},
            "invitations": {"token": CODE, "command": f"berth users accept --server {SERVER}", "expires_at": NOON},
        }
        return _json({"id": "0198c000-0000-7000-8000-00000000ffff", **body, **more.get(noun, {})}, 201)

    def accept(self, request: httpx2.Request) -> httpx2.Response:
        body = json.loads(request.content)
        if body["token"] != CODE:
            return problem(
                404, "not_found", "This invitation does not exist, is used, or older than 7 days.", hint="Ask for a new one."
            )
        answer: dict[str, Any] = {"user": USER, "tenant": TENANT, "role": "member", "token": None}
        if request.headers.get("Authorization") is None:
            if len(body.get("password", "")) < 12:
                fields = [{"path": "/password", "code": "bad_password", "message": "A password has 12 to 1000 characters."}]
                return problem(422, "invalid_input", "A password has 12 to 1000 characters.", fields=fields)
            answer["user"] = {**USER, "name": body["name"]}
            answer["token"] = {"name": "first token", "prefix": "0123", "expires_at": "2027-02-18T12:00:00Z", "token": TOKEN}
        return _json(answer, 201)

    def change_node(self, request: httpx2.Request, node_id: str) -> httpx2.Response:
        body = json.loads(request.content)
        if request.headers.get("If-Match") not in (None, f'"{self.node["version"]}"'):
            return problem(412, "precondition_failed", "Node node-1 was changed meanwhile.", hint="Read it again.")
        if "taints" in body:
            self.node |= {"own_taints": body["taints"], "taints": body["taints"]}
        else:
            self.node |= {"cordoned": body["cordoned"], "cordon_reason": body.get("cordon_reason") or None}
        return _json(self.node)

    def change_pool(self, request: httpx2.Request, pool_id: str) -> httpx2.Response:
        rules = json.loads(request.content)
        return _json({**LISTS["pools"][0], "name": rules.pop("name", LISTS["pools"][0]["name"]), "rules": rules})

    def list_nodes(self, request: httpx2.Request) -> httpx2.Response:
        return _json({"items": [self.node], "next": None})

    def list_queues(self, request: httpx2.Request) -> httpx2.Response:
        return _json({"items": [self.queue], "next": None})

    def get_queue(self, request: httpx2.Request, queue_id: str) -> httpx2.Response:
        return _json(self.queue)

    def rename_queue(self, request: httpx2.Request, queue_id: str) -> httpx2.Response:
        self.queue["name"] = json.loads(request.content)["name"]
        return _json(self.queue)

    def limit_queue(self, request: httpx2.Request, queue_id: str) -> httpx2.Response:
        if request.headers.get("If-Match") not in (None, f'"{self.queue["version"]}"'):
            return problem(412, "precondition_failed", "Queue 'vision' was changed meanwhile.", hint="Read it again.")
        given = {entry.pop("pool"): entry for entry in json.loads(request.content)}
        for share in self.queue["pools"]:
            share["ceiling"] = given.get(share["pool"]["id"], dict.fromkeys(CEILING))
        self.queue["version"] += 1
        return _json(self.queue)

    def rules_of(self, request: httpx2.Request, queue_id: str) -> httpx2.Response:
        if request.method == "PUT":
            self.rules.update(json.loads(request.content))
        effective = {f"effective_{name}": self.rules[name] for name in ("max_runtime_seconds", "default_runtime_seconds")}
        return _json({**self.rules, **effective, "version": 2})

    def done(self, request: httpx2.Request, *_parts: str) -> httpx2.Response:
        return httpx2.Response(204)

    def _job(self, job_id: str) -> dict[str, Any] | None:
        named = [job for job in self.jobs if job["id"].startswith(job_id) or job["name"] == job_id]
        return max(named, key=lambda job: job["id"], default=None)

    def _ended(self, attempt: int) -> bool:
        if self.demo:
            return True
        return attempt < self.attempts or all(job["state"] in ("succeeded", "failed", "stopped") for job in self.jobs)

    def _finish(self, upload_id: str) -> None:
        upload = self.uploads[upload_id]
        if len(upload.data) == upload.size_bytes:
            assert hashlib.sha256(upload.data).hexdigest() == upload.sha256
            for name, files in self.volumes.items():
                if upload.target.get("volume") == _volume_id(name):
                    files[upload.target["path"]] = bytes(upload.data)


def a_log(text: str, offset: int, task: str = "worker-0", attempt: int = 1, **more: Any) -> dict[str, Any]:
    """A piece of a log."""
    role, _dash, index = task.rpartition("-")
    place = {"role": role, "index": int(index)}
    return {
        "task": place,
        "stream": "stdout",
        "offset": offset,
        "text": text,
        "at": NOON,
        "marker": None,
        "attempt": attempt,
        **more,
    }


def a_plan(spec: dict[str, Any]) -> dict[str, Any]:
    """What a dry run answers."""
    roles = spec.get("roles") or {"worker": {"replicas": spec.get("replicas", 1), "command": spec.get("command")}}
    each = {"cpu_millis": 1000, "memory_bytes": 2 << 30, "gpu_millis": 500}
    longest = int(spec["max_runtime"]) if str(spec.get("max_runtime", "")).isdigit() else None
    return {
        "name": spec.get("name", "job"),
        "tenant": TENANT,
        "queue": QUEUE,
        "image": {"name": spec.get("image", "host"), "kind": "host", "digest": "sha256:" + "ab" * 32},
        "framework": "none",
        "roles": [
            {"name": name, "replicas": role.get("replicas", 1), "command": role["command"], "resources": each}
            for name, role in roles.items()
        ],
        "total": {"cpu_millis": 2000, "memory_bytes": 4 << 30, "gpu_millis": 1000},
        "jobs": 1,
        "spec_digest": "d" * 64,
        "spec": {**spec, "roles": roles},
        "max_runtime_seconds": longest,
        "planned_runtime_seconds": 7200 if longest is None else longest,
        "warnings": [],
    }


def _shown(item: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in item.items() if key != "attempt"}


def _line(request: httpx2.Request) -> str:
    return f"{request.method} {request.url.raw_path.decode().partition('?')[0].removeprefix(API)}"


def _volume_id(name: str) -> str:
    return str(uuid.uuid5(uuid.NAMESPACE_URL, name))


def _json(body: Any, status: int = 200) -> httpx2.Response:
    return httpx2.Response(status, json=body)


def _ranged(request: httpx2.Request, data: bytes) -> httpx2.Response:
    headers = {"ETag": f'"{hashlib.sha256(data).hexdigest()[:8]}"'}
    wanted = re.fullmatch(r"bytes=(\d+)-", request.headers.get("Range", ""))
    if not wanted:
        return httpx2.Response(200, content=data, headers=headers)
    start = int(wanted[1])
    if start >= len(data):
        return problem(416, "range_not_satisfiable", "No files.")
    return httpx2.Response(
        206, content=data[start:], headers={**headers, "Content-Range": f"bytes {start}-{len(data) - 1}/{len(data)}"}
    )


ROUTES = (
    (r"GET /whoami", "whoami"),
    (r"GET /info", "info"),
    (r"GET /jobs", "list_jobs"),
    (r"POST /jobs", "create_job"),
    (r"GET /jobs/([^/]+)", "get_job"),
    (r"GET /jobs/([^/]+)/spec", "get_spec"),
    (r"POST /jobs/([^/]+)/(stop|rerun|clone)", "act"),
    (r"GET /jobs/([^/]+)/logs", "get_logs"),
    (r"GET /jobs/([^/]+)/logs/stream", "stream_logs"),
    (r"GET /jobs/([^/]+)/artifacts", "list_artifacts"),
    (r"GET /jobs/([^/]+)/artifacts/(.+)", "get_artifact"),
    (r"GET /jobs/([^/]+)/(events|attempts|tasks|metrics)", "job_page"),
    (r"GET /volumes", "list_volumes"),
    (r"POST /volumes", "create_volume"),
    (r"GET /volumes/([^/]+)/files", "list_files"),
    (r"GET /volumes/([^/]+)/content", "get_content"),
    (r"POST /uploads", "start_upload"),
    (r"GET /uploads/([^/]+)", "get_upload"),
    (r"PATCH /uploads/([^/]+)", "append"),
    (r"GET /nodes", "list_nodes"),
    (r"PATCH /nodes/([^/]+)", "change_node"),
    (r"PATCH /pools/([^/]+)", "change_pool"),
    (r"GET /queues", "list_queues"),
    (r"GET /queues/([^/]+)", "get_queue"),
    (r"PATCH /queues/([^/]+)", "rename_queue"),
    (r"PUT /queues/([^/]+)/limits", "limit_queue"),
    (r"(?:GET|PUT) /queues/([^/]+)/rules", "rules_of"),
    (r"POST /invitations:accept", "accept"),
    (r"GET /tenants/[^/]+/(members|secrets)", "page"),
    (r"PUT /tenants/[^/]+/secrets/([^/]+)", "done"),
    (r"GET /([a-z-]+)", "page"),
    (r"PATCH /(subscriptions)/.+", "create"),
    (r"POST /(subscriptions)/.+/test", "create"),
    (r"POST /([a-z:]+)", "create"),
    (r"DELETE /(.+)", "done"),
)
