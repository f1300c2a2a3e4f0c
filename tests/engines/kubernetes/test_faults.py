"""Jobs outlive what goes wrong around them: on a cluster of its own, which this file breaks."""

from __future__ import annotations

import shutil
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from clusters.engines.interface import EngineUnreachable, Ensured, Retry, Stop, StopCause, Stopping, TaskState
from clusters.engines.kubernetes import KubernetesConfig, names, open_engine
from tests.builders.kubernetes import resets_before_handshakes
from tests.builders.prepared import short_folder
from tests.contract.engines.bench import Bench, ends_politely, until_it_answers
from tests.contract.engines.kubernetes_bench import config_of, remove_everything

if TYPE_CHECKING:
    from tools.kubernetes.cluster import Cluster

pytestmark = [pytest.mark.kubernetes, pytest.mark.timeout(300), resets_before_handshakes]
FLAPS = 12
LOST_SECONDS = 120.0  # The control plane believes a node for 40 to 50 seconds.


@pytest.fixture
def config(own_kubernetes_cluster: Cluster) -> Iterator[KubernetesConfig]:
    directory = short_folder("engine")
    made = config_of(own_kubernetes_cluster, directory)
    yield made
    remove_everything(own_kubernetes_cluster, made)
    shutil.rmtree(directory, ignore_errors=True)


@pytest.fixture
def bench(config: KubernetesConfig) -> Iterator[Bench]:
    opened = Bench("kubernetes", lambda: open_engine(config))
    yield opened
    opened.close()


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


@pytest.mark.capability("6", "A node that is cut off, or whose kubelet restarts, ends no task by that alone")
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


@pytest.mark.capability("6", "A node that is cut off, or whose kubelet restarts, ends no task by that alone")
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


@pytest.mark.capability("6", "A start runs once, and a stop ends it, whatever becomes of any request to the API server")
def test_a_network_that_loses_answers_and_flaps_starts_nothing_twice(
    bench: Bench, config: KubernetesConfig, own_kubernetes_cluster: Cluster
) -> None:
    cluster, hasty = own_kubernetes_cluster, open_engine(replace(config, connect_seconds=3.0, read_seconds=4.0))
    runs, comes = bench.start(ends_politely(7)), bench.workload(ends_politely(8))
    bench.wait_for_output(runs.attempt_id, b"ready")
    cluster.drop("OUTPUT")  # Requests arrive, and answers do not.
    with pytest.raises(EngineUnreachable):
        hasty.ensure([comes])
    cluster.pass_all()
    is_over = threading.Event()

    def flap() -> None:
        for _ in range(FLAPS):
            if is_over.is_set():
                break
            for chain in ("INPUT", "OUTPUT"):
                cluster.drop(chain)
            time.sleep(0.7)
            cluster.pass_all()
            time.sleep(0.7)

    with ThreadPoolExecutor(1) as threads:
        flapping = threads.submit(flap)
        try:
            until_it_answers(lambda: hasty.ensure([comes]), Ensured)
            until_it_answers(lambda: hasty.stop([Stop(runs.attempt_id, 60, StopCause.USER)]), Stopping)
        finally:
            is_over.set()
            flapping.result()
            hasty.close()
    bench.wait_for_output(comes.attempt_id, b"ready")
    until_it_answers(lambda: bench.engine.stop([Stop(comes.attempt_id, 60, StopCause.USER)]), Stopping)
    for workload, code in ((runs, 7), (comes, 8)):
        (task,) = bench.wait_for_end(workload.attempt_id)
        assert task.exit is not None
        assert task.exit.code == code
        assert bench.read_all(workload.attempt_id, task.name) == b"ready\n"
        pods = cluster.kubectl("get", "pods", "-A", "-l", f"{names.ATTEMPT}={workload.attempt_id}", "--no-headers")
        assert len(pods.splitlines()) == 1
