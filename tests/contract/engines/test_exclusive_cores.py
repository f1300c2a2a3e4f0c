"""Cores that belong to one task alone, as the tasks themselves see it: leased like GPUs, and nobody else runs there."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

import pytest

from clusters.engines.fake import Script
from clusters.engines.interface import Ensured, GiveUp, Retry, Stop, StopCause, Workload
from clusters.engines.local.launching import DirectLauncher
from kernel.resources import Resources
from tests.contract.engines.bench import Behaviour, Bench, local_bench, open_bench, policy_of, succeeds

pytestmark = [pytest.mark.engines, pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="there is only one core")]
CORES = sorted(os.sched_getaffinity(0))
SHOWS_CORES = Behaviour(
    """exec /usr/bin/python3 -c '
import os, time
last = None
while True:
    cores = sorted(os.sched_getaffinity(0))
    if cores != last:
        print("runs on", cores, flush=True)
        last = cores
    time.sleep(0.02)
'""",
    Script(),
)


def asking(bench: Bench, *, cores: int, alone: bool) -> Workload:
    workload = bench.workload(SHOWS_CORES)
    return replace(
        workload,
        tasks=tuple(
            replace(task, resources=Resources(cores * 1000, 256 << 20, 0), cpu_exclusive=alone) for task in workload.tasks
        ),
    )


def shows(cores: list[int]) -> bytes:
    return f"runs on {cores}\n".encode()


@pytest.mark.capability("71", "A task has its cores alone until it has ended, also over a restart of the platform")
@pytest.mark.parametrize("name", ["local", "launcher", "bare"])
def test_a_task_has_its_cores_alone_until_it_has_ended_whatever_becomes_of_the_platform(name: str, engine_dir: Path) -> None:
    with open_bench(name, engine_dir) as bench:
        shared, first, second = (
            asking(bench, cores=1, alone=False),
            asking(bench, cores=len(CORES) - 1, alone=True),
            asking(bench, cores=1, alone=True),
        )
        assert bench.engine.ensure([shared, first]) == [
            Ensured(shared.attempt_id, created=True),
            Ensured(first.attempt_id, created=True),
        ]
        bench.wait_for_output(first.attempt_id, shows(CORES[:-1]))
        bench.wait_for_output(shared.attempt_id, shows(CORES[-1:]))
        for _ in range(2):  # Also after a restart.
            (busy,) = bench.engine.ensure([second])
            assert isinstance(busy, Retry)
            assert busy.code == "cores_busy"
            assert busy.detail == (
                f"Cores of its own that it needs: 1; that can be given: 0. Of {len(CORES)} on this host {len(CORES) - 1} belong "
                "to one task alone, and 1 are used by tasks that share them."
            )
            bench.restart()
        bench.engine.stop([Stop(first.attempt_id, 0, StopCause.USER)])
        bench.wait_for_end(first.attempt_id)
        assert bench.engine.ensure([second]) == [Ensured(second.attempt_id, created=True)]
        bench.wait_for_output(second.attempt_id, shows(CORES[:1]))


@pytest.mark.capability("71", "Tasks on shared cores leave the exclusive ones, and return when these are free")
def test_who_runs_already_leaves_the_cores_and_comes_back_when_they_are_free(engine_dir: Path) -> None:
    with open_bench("local", engine_dir) as bench:
        shared, alone = asking(bench, cores=1, alone=False), asking(bench, cores=len(CORES) - 1, alone=True)
        bench.engine.ensure([shared])
        bench.wait_for_output(shared.attempt_id, shows(CORES))
        bench.engine.ensure([alone])
        bench.wait_for_output(shared.attempt_id, shows(CORES) + shows(CORES[-1:]))
        bench.restart()
        bench.engine.stop([Stop(alone.attempt_id, 0, StopCause.USER)])
        bench.wait_for_end(alone.attempt_id)
        bench.engine.observe(None)
        bench.wait_for_output(shared.attempt_id, shows(CORES) + shows(CORES[-1:]) + shows(CORES))


def test_while_all_cores_belong_to_one_task_no_other_starts(engine_dir: Path) -> None:
    with open_bench("local", engine_dir) as bench:
        alone, other = asking(bench, cores=len(CORES), alone=True), bench.workload(succeeds())
        bench.engine.ensure([alone])
        bench.wait_for_output(alone.attempt_id, shows(CORES))
        (busy,) = bench.engine.ensure([other])
        assert isinstance(busy, Retry)
        assert busy.code == "cores_busy"


def test_more_cores_than_there_are_and_cores_of_a_host_that_claims_more_than_it_has_are_refused(engine_dir: Path) -> None:
    with open_bench("local", engine_dir) as bench:
        (answer,) = bench.engine.ensure([asking(bench, cores=len(CORES) + 1, alone=True)])
        assert isinstance(answer, GiveUp)
        assert f"asks for {len(CORES) + 1} cores of its own; here can give {len(CORES)}." in answer.detail
        assert bench.engine.inventory().nodes[0].labels["exclusive_cores"] == str(len(CORES))
    claims = local_bench("local", engine_dir, DirectLauncher(policy_of(engine_dir)), cpu_millis=64_000 + len(CORES) * 1000)
    assert claims.engine.inventory().nodes[0].labels["exclusive_cores"] == "0"
    (answer,) = claims.engine.ensure([asking(claims, cores=1, alone=True)])
    assert isinstance(answer, GiveUp)
    claims.close()
