"""Redis is a courier: dead, emptied or frozen, it costs time and nothing else."""

from __future__ import annotations

import asyncio
import json
import time

import pytest
import websockets.asyncio.client

from tests.builders.watch import Watch
from tests.chaos.watching import spread
from tests.faults.ground import Ground

pytestmark = [pytest.mark.engines, pytest.mark.database, pytest.mark.timeout(900)]

JOBS = 10
FROZEN_SECONDS = 6.0
FROZEN_SECONDS_LONG = 120.0
SUBMIT_SECONDS_P99 = 2.0


@pytest.mark.capability("113", "Redis killed, and started again with or without its data: no job is lost")
@pytest.mark.parametrize("empty", [False, True])
def test_redis_that_is_killed_and_comes_back_loses_no_job(ground: Ground, empty: bool) -> None:
    jobs = [ground.submit(seconds=0.5) for _ in range(JOBS)]
    ground.servers.redis.kill()
    jobs += [ground.submit() for _ in range(JOBS)]
    ground.servers.redis.start(empty=empty)
    jobs += [ground.submit() for _ in range(JOBS)]
    for job in jobs:
        ground.wait(job, "succeeded")
    ground.check()
    assert ground.platform.log_events("worker_ended_by_itself") == []


@pytest.mark.capability("113", "Without Redis jobs start, stop and end")
def test_jobs_run_to_their_end_while_there_is_no_redis(ground: Ground) -> None:
    ground.servers.redis.kill()
    job = ground.submit()
    endless = ground.submit(seconds=1000)
    ground.wait(job, "succeeded")
    ground.wait(endless, "running")
    ground.client.stop(endless)
    ground.wait(endless, "stopped")
    ground.rest()
    ground.heal()
    again = ground.submit()
    ground.wait(again, "succeeded")
    ground.check()


@pytest.mark.capability("113", "Redis emptied at any moment: no job is lost")
def test_everything_in_redis_may_vanish_at_any_moment(ground: Ground) -> None:
    jobs = []
    for _ in range(JOBS):
        jobs += [ground.submit(), ground.submit(seconds=0.5)]
        ground.servers.flush_redis()
    for job in jobs:
        ground.wait(job, "succeeded")
    ground.check()


def test_a_platform_starts_on_a_redis_that_was_emptied(ground: Ground) -> None:
    ground.servers.redis.kill()
    ground.servers.redis.start(empty=True)
    ground.wait(ground.submit(), "succeeded")  # Celery's keys are there again; whose they are, nobody has said yet.
    ground.platform.kill()
    ground.platform.start()
    ground.wait(ground.submit(), "succeeded")
    ground.check()


@pytest.mark.capability("113", "While Redis is frozen, submissions are answered in time")
def test_submissions_are_answered_in_time_while_redis_is_frozen(ground: Ground) -> None:
    frozen(ground, FROZEN_SECONDS)


@pytest.mark.slow
def test_submissions_are_answered_in_time_while_redis_is_frozen_for_two_minutes(ground: Ground) -> None:
    frozen(ground, FROZEN_SECONDS_LONG)


def frozen(ground: Ground, seconds: float) -> None:
    ground.submit()
    ground.servers.redis.freeze()
    until = time.monotonic() + seconds
    waits, jobs, retries = [], [], sum(ground.client.tally.retries.values())
    with Watch() as watch:
        while time.monotonic() < until:
            asked_at = watch.seconds
            jobs.append(ground.submit())
            waits.append(watch.seconds - asked_at)
            time.sleep(0.2)  # Somebody who submits now and then, for as long as the freeze lasts.
    ground.servers.redis.thaw()
    assert sum(ground.client.tally.retries.values()) == retries, "a submission was not answered at once"
    assert spread(waits)["p95"] < SUBMIT_SECONDS_P99
    for job in jobs:
        ground.wait(job, "succeeded")
    ground.check()


def test_a_live_channel_goes_on_or_says_so_when_redis_freezes_and_returns(ground: Ground) -> None:
    """Whoever follows a job sees its end, by the same connection or by one that was made anew from where it was."""
    asyncio.run(asyncio.wait_for(_follow(ground), 240))


async def _follow(ground: Ground) -> None:
    address = ground.platform.url.replace("http", "ws", 1) + "/ws/v1/live"
    headers = {"Authorization": f"Bearer {ground.client.user.token}"}
    job = await asyncio.to_thread(ground.submit, seconds=10.0, hold=True)  # It is looked at while it runs.
    seen: list[tuple[int, str]] = []
    after = 0
    frozen = False
    while not seen or seen[-1][1] != "job.succeeded":
        async with websockets.asyncio.client.connect(address, additional_headers=headers, open_timeout=60) as socket:
            await socket.send(json.dumps({"subscribe": {"job": job}, "after": after}))
            async for text in socket:  # Ends when the platform says by a close code that one shall come back.
                message = json.loads(text)
                if message["type"] == "subscribed" and not frozen:
                    frozen = True
                    ground.servers.redis.freeze()
                    asyncio.get_running_loop().call_later(FROZEN_SECONDS, ground.servers.redis.thaw)
                    await asyncio.to_thread(ground.client.release, job)
                if message["type"] == "event":
                    after = message["event"]["seq"]
                    seen.append((after, message["event"]["kind"]))
                    if message["event"]["kind"] == "job.succeeded":
                        break
    assert [seq for seq, _ in seen] == sorted({seq for seq, _ in seen}), "an event came twice or out of order"
    kinds = [kind for _, kind in seen if kind.startswith("job.")]
    assert kinds[-4:] == ["job.admitted", "job.starting", "job.running", "job.succeeded"]
    await asyncio.to_thread(ground.heal)
    await asyncio.to_thread(ground.check)
