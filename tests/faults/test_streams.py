"""Output and its readers at their worst: one endless line, a flood, a file that its job cuts, readers that drop, stall or throng.

The platform is the real one, and so are the bytes. What it may use of memory is bounded whatever a job prints and whoever reads.
"""

from __future__ import annotations

import asyncio
import json
import time
import uuid
from collections.abc import Iterator

import psutil
import pytest
import websockets

from tests.builders.live import Json, LivePlatform, LiveUser, running_platform, wait_until

pytestmark = [pytest.mark.engines, pytest.mark.database]

SMALL = {"cpu": 1, "memory": "256Mi"}
MIB = 1024**2
GROWTH_BYTES_MAX = 100 * MIB
SLOW_CLOSED = 1013


@pytest.fixture(scope="module")
def platform() -> Iterator[LivePlatform]:
    with running_platform() as made:
        made.submit({"command": "echo warm", "resources": SMALL}, wait=True)
        yield made


@pytest.fixture
def user(platform: LivePlatform) -> LiveUser:
    return platform.operator


def resident_bytes(platform: LivePlatform) -> int:
    assert platform.process is not None
    return int(psutil.Process(platform.process.pid).memory_info().rss)


def python(program: str) -> list[str]:
    return ["/usr/bin/python3", "-c", program]


# --- Output -------------------------------------------------------------------------------------------------------------


def test_a_line_of_ten_megabytes_arrives_whole_and_costs_no_memory(platform: LivePlatform, user: LiveUser) -> None:
    before = resident_bytes(platform)
    job = user.submit({"command": python("print('x' * 10_000_000)\nprint('end')"), "resources": SMALL}, wait=True)
    assert job["state"] == "succeeded"
    text = user.logs(job)
    assert len(text) == 10_000_000 + len("\nend\n")
    assert text.endswith("x\nend\n")
    assert resident_bytes(platform) - before < GROWTH_BYTES_MAX


@pytest.mark.parametrize("mebibytes", [200, pytest.param(1_024, marks=pytest.mark.slow)])
def test_a_flood_is_cut_at_its_quota_marked_and_costs_no_memory(mebibytes: int, platform: LivePlatform, user: LiveUser) -> None:
    """The default quota is 256 MiB for a stream; the flood is written as fast as the machine takes it."""
    before, peak = resident_bytes(platform), 0
    program = (
        f"import os\nblock = b'y' * 1023 + b'\\n'\nfor _ in range({mebibytes}): os.write(1, block * 1024)\nos.write(2, b'end')"
    )
    job = user.submit({"command": python(program), "resources": SMALL})
    while user.job(job)["state"] not in ("succeeded", "failed"):
        peak = max(peak, resident_bytes(platform))
        beside = user.request("GET", "/jobs")
        assert beside.is_success
    assert user.job(job)["state"] == "succeeded"

    def stored() -> int:
        return int(platform.rows("SELECT COALESCE(max(file_bytes), 0) FROM storage_logstreamstate WHERE stream = 'stdout'")[0][0])

    wait_until(lambda: platform.rows("SELECT count(*) FROM jobs_attempt WHERE NOT forgotten") == [(0,)], "the log in the store")
    peak = max(peak, resident_bytes(platform))
    assert peak - before < GROWTH_BYTES_MAX
    assert stored() >= min(mebibytes, 256) * MIB
    if mebibytes > 256:
        marked = platform.rows("SELECT sum(skipped_bytes) FROM storage_logchunkindex WHERE marker <> ''")
        assert int(marked[0][0]) == (mebibytes - 256) * MIB


def test_a_job_that_cuts_its_own_output_has_a_marker_and_goes_on(platform: LivePlatform, user: LiveUser) -> None:
    program = (
        "import os, sys, time\n"
        "for n in range(100): print('before', n, flush=True)\n"
        "while not os.path.exists('/told/stored'): time.sleep(0.05)\n"
        "os.truncate('/proc/self/fd/1', 0)\n"
        "for n in range(100): print('after', n, flush=True)\n"
    )
    told = user.make_volume(f"told-{uuid.uuid4().hex[:8]}")
    mounts = [{"volume": told["name"], "path": "/told"}]
    job = user.submit({"command": python(program), "mounts": mounts, "resources": SMALL})
    user.wait_for_line(job, "before 99\n")
    (platform.folder_of(told) / "stored").touch(mode=0o666)
    job = user.wait(job)
    assert job["state"] == "succeeded"
    text = user.logs(job)
    assert all(f"before {number}\n" in text for number in range(100)), "what was stored before the cut stays"
    assert text.count("after 99\n") == 1


# --- Readers ------------------------------------------------------------------------------------------------------------


def address(platform: LivePlatform) -> str:
    return platform.url.replace("http://", "ws://") + "/ws/v1/live"


def connect(platform: LivePlatform, **how: object) -> websockets.connect:
    headers = {"Authorization": f"Bearer {platform.token}"}
    how = {"open_timeout": 60, **how}
    return websockets.connect(address(platform), additional_headers=headers, proxy=None, compression=None, **how)  # type: ignore[arg-type]


async def read_events(platform: LivePlatform, job: Json, *, drops: int) -> list[int]:
    """Follow a job to its end, and drop the connection now and then without a word."""
    seen: list[int] = []
    after, dropped = 0, 0
    while True:
        async with connect(platform) as socket:
            await socket.send(json.dumps({"subscribe": {"job": job["id"]}, "after": after}))
            async for text in socket:
                message = json.loads(text)
                if message["type"] != "event":
                    continue
                seen.append(message["event"]["seq"])
                after = seen[-1]
                if message["event"]["kind"] in ("job.succeeded", "job.failed"):
                    return seen
                if dropped < drops:
                    dropped += 1
                    socket.transport.abort()
                    break


def test_readers_that_drop_go_on_by_their_cursor_without_gap_or_repeat(platform: LivePlatform, user: LiveUser) -> None:
    job = user.submit({"command": "sleep 2", "resources": SMALL})
    seen = asyncio.run(asyncio.wait_for(read_events(platform, job, drops=4), 120))
    sql = "SELECT seq FROM activity_event WHERE job_id = '{}' AND seq IS NOT NULL ORDER BY seq"  # The last have none yet.
    stored = job["id"] if platform.is_on_servers else uuid.UUID(job["id"]).hex
    wanted = [row[0] for row in platform.rows(sql.format(stored)) if row[0] <= seen[-1]]
    assert seen == wanted


async def throng(platform: LivePlatform, user: LiveUser, number: int) -> list[float]:
    """So many readers of all that the user may see; how long after its submission each heard of one job."""
    sockets = []
    try:
        for _ in range(number):
            socket = await connect(platform).__aenter__()
            sockets.append(socket)
            await socket.send(json.dumps({"subscribe": {"user": "me"}}))
        for socket in sockets:
            while json.loads(await asyncio.wait_for(socket.recv(), 60))["type"] != "subscribed":
                pass
        began = time.monotonic()
        job = await asyncio.to_thread(user.submit, {"command": "true", "resources": SMALL})

        async def hear(socket: websockets.ClientConnection) -> float:
            while True:
                message = json.loads(await asyncio.wait_for(socket.recv(), 60))
                if message["type"] == "event" and message["event"]["job_id"] == job["id"]:
                    return time.monotonic() - began

        return await asyncio.gather(*(hear(socket) for socket in sockets))
    finally:
        await asyncio.gather(*(socket.close() for socket in sockets), return_exceptions=True)


def test_many_readers_hear_everything_and_the_platform_answers_beside(platform: LivePlatform, user: LiveUser) -> None:
    number = 90  # One user may have 100 in a process.
    before = resident_bytes(platform)
    delays = asyncio.run(throng(platform, user, number))
    assert len(delays) == number
    assert max(delays) < 30
    assert user.request("GET", "/jobs").is_success
    assert resident_bytes(platform) - before < GROWTH_BYTES_MAX


async def stall(platform: LivePlatform, job: Json) -> int | None:
    """Ask for a log much larger than any buffer, and read nothing; the code that the server closes with."""
    async with connect(platform, max_queue=1, ping_interval=None, close_timeout=1) as socket:
        await socket.send(json.dumps({"subscribe_logs": {"job": job["id"]}}))
        socket.transport.pause_reading()
        await asyncio.sleep(30)  # Three times what the server waits for a reader that takes nothing.
        socket.transport.resume_reading()
        try:
            while True:
                await asyncio.wait_for(socket.recv(), 60)
        except websockets.ConnectionClosed as closed:
            return closed.rcvd.code if closed.rcvd else None


def test_a_reader_that_stalls_is_closed_with_1013_and_others_read_on(platform: LivePlatform, user: LiveUser) -> None:
    program = "block = 'z' * 999\nfor _ in range(40_000): print(block)"
    job = user.submit({"command": python(program), "resources": SMALL}, wait=True)
    wait_until(lambda: user.api("GET", f"/jobs/{job['id']}/logs")["complete"] or True, "its log")
    before = resident_bytes(platform)
    code = asyncio.run(stall(platform, job))
    assert code in (SLOW_CLOSED, None), "told so, or cut where even that could not be told"
    assert resident_bytes(platform) - before < GROWTH_BYTES_MAX
    beside = user.submit({"command": "echo beside", "resources": SMALL}, wait=True)
    assert user.logs(beside) == "beside\n"
