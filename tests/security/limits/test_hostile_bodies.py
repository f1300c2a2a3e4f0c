"""Bodies made to cost: each is refused in words after little work, whoever sends it, and the server goes on."""

from __future__ import annotations

import json
import resource
import tracemalloc
from collections.abc import Callable
from typing import Any

import pytest

from tests.factories.tenants import Cast

pytestmark = pytest.mark.database

Api = Callable[..., Any]
MIB = 1024**2
CPU_SECONDS = 2.0  # A hundredth would do on an idle machine; a body that grows with a power of its size takes minutes.
MEMORY_BYTES = 120 * MIB

JSON = "application/json"
YAML = "application/yaml"
JOB = {"command": "true"}


def spec(**facts: Any) -> bytes:
    return json.dumps({"spec": {**JOB, **facts}}).encode()


def aliases(depth: int = 12) -> bytes:
    lines = ["a0: &a0 [x,x,x,x,x,x,x,x,x,x]"]
    lines += [f"a{level}: &a{level} [{','.join([f'*a{level - 1}'] * 10)}]" for level in range(1, depth)]
    return "\n".join(lines).encode()


BOMBS: dict[str, tuple[str, bytes]] = {
    "brackets": (JSON, b"[" * 500_000),
    "closed brackets": (JSON, b"[" * 100_000 + b"]" * 100_000),
    "objects in objects": (JSON, b'{"a":' * 100_000 + b"1" + b"}" * 100_000),
    "commas": (JSON, b"[" + b"1," * 450_000 + b"1]"),
    "names": (JSON, json.dumps({"spec": {f"k{number}": 1 for number in range(60_000)}}).encode()),
    "one name again and again": (JSON, b'{"spec":{' + b'"a":1,' * 100_000 + b'"a":1}}'),
    "digits": (JSON, b'{"spec":{"priority":' + b"9" * 900_000 + b"}}"),
    "an exponent": (JSON, b'{"spec":{"priority":1e999999999}}'),
    "escapes": (JSON, b'{"spec":{"command":"' + b"\\u0041" * 150_000 + b'"}}'),
    "half surrogates": (JSON, b'{"spec":{"command":"' + b"\\ud800" * 150_000 + b'"}}'),
    "an open text": (JSON, b'{"spec":"' + b"a" * 1_000_000),
    "quotes and strokes": (JSON, b'{"spec":"' + b'\\"' * 490_000),
    "aliases": (YAML, aliases()),
    "an anchor on itself": (YAML, b"a: &a [*a]"),
    "yaml brackets": (YAML, b"[" * 100_000),
    "yaml nesting": (YAML, b"".join(b" " * level + b"a:\n" for level in range(1_000))),
    "yaml keys": (YAML, b"? " * 50_000),
    "yaml tags": (YAML, b"a: !!python/object/apply:os.system [id]"),
    "yaml merges": (YAML, b"a: &a {b: 1}\n" + b"".join(b"c%d: {<<: *a}\n" % number for number in range(5_000))),
    "a long yaml line": (YAML, b"command: " + b"a" * 1_000_000),
    "an array": (JSON, spec(array=10**6)),
    "an array beyond all": (JSON, spec(array=10**18)),
    "replicas": (JSON, spec(replicas=10**9)),
    "an array of gangs": (JSON, spec(array=100_000, replicas=10_000)),
    "roles": (JSON, json.dumps({"spec": {"roles": {f"r{number}": JOB for number in range(5_000)}}}).encode()),
    "variables": (JSON, spec(env={f"K{number}": "x" for number in range(50_000)})),
    "labels": (JSON, spec(labels={f"k{number}": "x" for number in range(50_000)})),
    "arguments": (JSON, spec(command=["true"] + ["x"] * 100_000)),
    "dependencies": (JSON, spec(after=["x"] * 50_000)),
    "mounts": (JSON, spec(mounts=[{"volume": f"v{number}", "path": f"/{number}"} for number in range(10_000)])),
    "a memory of digits": (JSON, spec(resources={"memory": "9" * 60_000 + "Gi"})),
    "a duration of words": (JSON, spec(max_runtime="1h" * 30_000)),
    "a name for patterns": (JSON, spec(name="a" * 60_000 + "!")),
    "an image for patterns": (JSON, spec(image="a/" * 30_000 + "!")),
    "an image of dots": (JSON, spec(image="a" + ".a" * 30_000 + ":" + "-" * 200)),
    "a queue for patterns": (JSON, spec(queue="-" * 60_000)),
    "outputs of stars": (JSON, spec(outputs=["*" * 1_000 + "/**" * 300])),
    "a start in no time": (JSON, spec(start_after="2026-" + "1" * 60_000)),
}


@pytest.mark.parametrize("who", ["nobody", "a member"])
@pytest.mark.parametrize("name", BOMBS)
def test_a_bomb_is_refused_after_little_work(name: str, who: str, cast: Cast, api: Api, configure: Callable[..., Any]) -> None:
    configure(requests_per_minute=0)
    content_type, body = BOMBS[name]
    client = api(cast.bob) if who == "a member" else api()
    client.get("/api/v1/info")  # What a process does once is not this request's.
    tracemalloc.start()
    try:
        before = resource.getrusage(resource.RUSAGE_THREAD)
        response = client.generic("POST", "/api/v1/jobs", body, content_type=content_type)
        after = resource.getrusage(resource.RUSAGE_THREAD)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    cpu = (after.ru_utime + after.ru_stime) - (before.ru_utime + before.ru_stime)

    assert response.status_code in ({401} if who == "nobody" else {400, 413, 422}), response.content[:300]
    assert len(response.content) < 100_000
    assert cpu < (CPU_SECONDS if who == "nobody" else 4 * CPU_SECONDS)  # Memory is traced here, which costs several times.
    assert peak < MEMORY_BYTES


@pytest.mark.parametrize("path", ["/api/v1/jobs:batch", "/api/v1/jobs"])
def test_ten_thousand_and_one_items_are_refused_before_they_are_looked_at(path: str, cast: Cast, api: Api) -> None:
    body = json.dumps({"spec": JOB, "items": [{}] * 10_001}).encode()

    assert api(cast.bob).generic("POST", path, body, content_type=JSON).status_code in {413, 422}


@pytest.mark.parametrize(
    ("header", "value"),
    [
        ("HTTP_AUTHORIZATION", "Bearer " + "a" * 100_000),
        ("HTTP_AUTHORIZATION", "Bearer berth_0123456789ab_" + "a" * 10_000),
        ("HTTP_X_REQUEST_ID", "a" * 100_000),
        ("HTTP_USER_AGENT", "a" * 1_000_000),
        ("HTTP_IDEMPOTENCY_KEY", "a" * 100_000),
        ("HTTP_IF_MATCH", '"' * 100_000),
        ("HTTP_ACCEPT_LANGUAGE", "zh;q=0," * 50_000),
        ("HTTP_ACCEPT", "text/x," * 50_000),
        ("HTTP_LAST_EVENT_ID", "9" * 100_000),
        ("HTTP_RANGE", "bytes=" + "0-," * 50_000),
    ],
)
def test_a_giant_header_costs_little_and_reaches_no_log(
    header: str, value: str, cast: Cast, api: Api, caplog: pytest.LogCaptureFixture
) -> None:
    client = api(cast.bob) if header != "HTTP_AUTHORIZATION" else api()
    before = resource.getrusage(resource.RUSAGE_THREAD).ru_utime
    response = client.get("/api/v1/jobs", **{header: value})

    assert response.status_code < 500
    assert resource.getrusage(resource.RUSAGE_THREAD).ru_utime - before < CPU_SECONDS
    assert all(len(record.getMessage()) < 5_000 for record in caplog.records)


def test_a_giant_name_at_the_door_is_refused_and_reaches_no_log(api: Api, db: None, caplog: pytest.LogCaptureFixture) -> None:
    body = {"token": "x", "name": "n" * 500_000, "password": "a long password of nobody"}
    response = api().post("/api/v1/invitations:accept", body, format="json")

    assert response.status_code in {404, 422}
    assert len(response.content) < 5_000
    assert all(len(record.getMessage()) < 5_000 for record in caplog.records)
