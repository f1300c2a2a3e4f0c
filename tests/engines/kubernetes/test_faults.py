"""Jobs outlive what goes wrong around them: on a cluster of its own, which this file breaks."""

from __future__ import annotations

import shutil
import time
from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

from clusters.engines.interface import EngineUnreachable, Retry, Stop, StopCause, Stopping, TaskState
from clusters.engines.kubernetes import open_engine
from tests.builders.kubernetes import resets_before_handshakes
from tests.builders.prepared import short_folder
from tests.contract.engines.bench import Bench, ends_politely
from tests.contract.engines.kubernetes_bench import config_of, remove_everything

if TYPE_CHECKING:
    from tools.kubernetes.cluster import Cluster

pytestmark = [pytest.mark.kubernetes, pytest.mark.timeout(300), resets_before_handshakes]
LOST_SECONDS = 120.0  # The control plane believes a node for 40 to 50 seconds.


@pytest.fixture
def bench(own_kubernetes_cluster: Cluster) -> Iterator[Bench]:
    directory = short_folder("engine")
    config = config_of(own_kubernetes_cluster, directory)
    opened = Bench("kubernetes", lambda: open_engine(config))
    yield opened
    opened.close()
    remove_everything(own_kubernetes_cluster, config)
    shutil.rmtree(directory, ignore_errors=True)


def test_a_job_runs_through_the_api_servers_death_and_its_end_is_seen(bench: Bench, own_kubernetes_cluster: Cluster) -> None:
    plane = own_kubernetes_cluster.control_plane
    workload = bench.start(ends_politely(4))
    bench.wait_for_output(workload.attempt_id, b"ready")
    plane.kill("kube-apiserver")
    for call in (
        lambda: bench.engine.observe(None),
        lambda: bench.engine.stop([Stop(workload.attempt_id, 60, StopCause.USER)]),
        lambda: bench.engine.ensure([bench.workload(ends_politely(0))]),
        lambda: bench.engine.forget([workload.attempt_id]),
    ):
        began = time.monotonic()
        with pytest.raises(EngineUnreachable):
            call()
        assert time.monotonic() - began < 15
    plane.start("kube-apiserver")
    plane.wait_ready()
    seen = bench.see(workload.attempt_id)
    assert seen is not None
    assert seen.tasks[0].state is TaskState.RUNNING
    assert bench.engine.stop([Stop(workload.attempt_id, 60, StopCause.USER)]) == [Stopping(workload.attempt_id)]
    (task,) = bench.wait_for_end(workload.attempt_id)
    assert task.exit is not None
    assert task.exit.code == 4


def test_a_job_runs_through_a_restart_of_its_kubelet(bench: Bench, own_kubernetes_cluster: Cluster) -> None:
    node = own_kubernetes_cluster.nodes[0]
    workload = bench.start(ends_politely(5))
    bench.wait_for_output(workload.attempt_id, b"ready")
    node.kill("kubelet")
    node.start("kubelet")
    bench.engine.stop([Stop(workload.attempt_id, 60, StopCause.USER)])
    (task,) = bench.wait_for_end(workload.attempt_id)
    assert task.exit is not None
    assert task.exit.code == 5
    assert bench.read_all(workload.attempt_id, task.name) == b"ready\n"


def test_a_node_that_is_cut_off_is_lost_contact_and_no_end(bench: Bench, own_kubernetes_cluster: Cluster) -> None:
    node = own_kubernetes_cluster.nodes[0]
    workload = bench.start(ends_politely(6))
    bench.wait_for_output(workload.attempt_id, b"ready")

    def state() -> TaskState:
        seen = bench.see(workload.attempt_id)
        assert seen is not None
        return seen.tasks[0].state

    node.cut_off()
    try:
        deadline = time.monotonic() + LOST_SECONDS
        while state() is not TaskState.UNREACHABLE:
            assert time.monotonic() < deadline
            time.sleep(0.5)
        assert bench.engine.stop([Stop(workload.attempt_id, 1, StopCause.USER)]) == [Stopping(workload.attempt_id)]
        time.sleep(3)
        assert state() is TaskState.UNREACHABLE
        (answer,) = bench.engine.forget([workload.attempt_id])
        assert isinstance(answer, Retry)
    finally:
        node.reconnect()
    bench.wait_until(lambda: state() is TaskState.ENDED, "its end once the node is back")
