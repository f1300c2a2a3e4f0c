"""One start and one end, whatever becomes of any single request: refused, lost on its way, or carried out and the answer lost."""

from __future__ import annotations

import contextlib
import shutil
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from clusters.engines.interface import (
    EngineUnreachable,
    Ensured,
    Forgotten,
    Gone,
    Stop,
    StopCause,
    Stopping,
    TaskState,
    Workload,
)
from clusters.engines.kubernetes import names, open_engine
from tests.builders import kubernetes
from tests.builders.api_proxy import ApiProxy, Fault, Rule, api_proxy
from tests.builders.prepared import short_folder
from tests.contract.engines.bench import Behaviour, Bench, Script, ends_politely, fails, runs_on, until_it_answers
from tests.contract.engines.kubernetes_bench import config_of, remove_everything
from tests.contract.engines.test_engine_contract import kept_in

if TYPE_CHECKING:
    pass

pytestmark = [pytest.mark.kubernetes, pytest.mark.timeout(600)]

FAULTS = (Fault.LOSE_REQUEST, Fault.LOSE_ANSWER, Fault.TOO_MANY, Fault.INTERNAL, Fault.CONFLICT)
GONE_SECONDS = 30.0
AT_ONCE = 6
CALLS_MAX = 40  # Of one start; more would say that it does not end.
COUNTS_ITS_STARTS = Behaviour('echo started >>"$BERTH_CHECKPOINT_DIR/starts"; exit 3', Script(code=3))


@dataclass
class Place:
    """One engine behind a proxy of its own, on the cluster and with the namespaces of all."""

    proxy: ApiProxy
    bench: Bench


@pytest.fixture(scope="module")
def directory() -> Iterator[Path]:
    made = short_folder("engine")
    made.chmod(0o711)
    yield made
    shutil.rmtree(made, ignore_errors=True)


@pytest.fixture(scope="module")
def open_place(directory: Path) -> Iterator[Callable[[], contextlib.AbstractContextManager[Place]]]:
    """Makes engines that share a cluster id and namespaces, each behind a proxy of its own."""
    kubernetes.skip_without_kubernetes()
    with kubernetes.shared() as cluster:
        config = config_of(cluster, directory)

        @contextlib.contextmanager
        def make() -> Iterator[Place]:
            with api_proxy(cluster) as proxy:
                changed = replace(config, kubeconfig=proxy.kubeconfig, read_seconds=10.0)
                bench = Bench("kubernetes", lambda: open_engine(changed))
                try:
                    yield Place(proxy, bench)
                finally:
                    bench.close()

        yield make
        remove_everything(cluster, config)


def calls_of(place: Place, work: Callable[[], object]) -> list[tuple[str, str]]:
    """What the engine asks while it does this."""
    before = len(place.proxy.requests)
    work()
    return [(method, path) for method, path in place.proxy.requests[before:] if "watch=true" not in path]


def in_turn(cases: list[Callable[[], str]]) -> list[str]:
    """Run all cases, some at once; what they complain about."""
    with ThreadPoolExecutor(AT_ONCE) as threads:
        return [told for told in threads.map(lambda case: case(), cases) if told]


def starts_of(directory: Path, workload: Workload) -> int:
    """How often the task began, as it wrote itself."""
    assert workload.checkpoint is not None
    file = Path(workload.checkpoint.location, "starts")
    return len(file.read_text().splitlines()) if file.exists() else 0


Open = Callable[[], contextlib.AbstractContextManager[Place]]


@pytest.mark.capability("6", "A start runs once, and a stop ends it, whatever becomes of any request to the API server")
def test_a_start_runs_once_whatever_becomes_of_any_of_its_requests(open_place: Open, directory: Path) -> None:
    with open_place() as place:
        first = place.bench.workload(COUNTS_ITS_STARTS, checkpoint=kept_in(directory, "first"))
        place.bench.engine.ensure([first])
        place.bench.wait_for_end(first.attempt_id)
        second = place.bench.workload(COUNTS_ITS_STARTS, checkpoint=kept_in(directory, "second"))
        asked = calls_of(place, lambda: place.bench.engine.ensure([second]))
        place.bench.wait_for_end(second.attempt_id)
        assert starts_of(directory, second) == 1
    assert 3 <= len(asked) <= CALLS_MAX, asked

    def case(fault: Fault, number: int) -> str:
        with open_place() as place:
            workload = place.bench.workload(COUNTS_ITS_STARTS, checkpoint=kept_in(directory, f"{fault.name.lower()}-{number}"))
            place.proxy.rules.append(Rule(fault, after=number))
            until_it_answers(lambda: place.bench.engine.ensure([workload]), Ensured)
            place.bench.restart()
            (task,) = place.bench.wait_for_end(workload.attempt_id)
            code, starts = task.exit.code if task.exit is not None else None, starts_of(directory, workload)
            return "" if (code, starts) == (3, 1) else f"{fault.name} at {asked[number]}: code {code}, {starts} starts"

    assert in_turn([lambda f=fault, n=number: case(f, n) for fault in FAULTS for number in range(len(asked))]) == []  # type: ignore[misc]


@pytest.mark.capability("6", "A start runs once, and a stop ends it, whatever becomes of any request to the API server")
def test_a_stop_ends_it_and_what_is_forgotten_is_gone_whatever_becomes_of_any_request(open_place: Open) -> None:
    with open_place() as place:
        workload = place.bench.start(ends_politely(4))
        place.bench.wait_for_output(workload.attempt_id, b"ready")
        stopping = calls_of(place, lambda: place.bench.engine.stop([_stop(workload)]))
        place.bench.wait_for_end(workload.attempt_id)
        forgetting = calls_of(place, lambda: place.bench.engine.forget([workload.attempt_id]))
    assert 2 <= len(stopping) <= CALLS_MAX
    assert 2 <= len(forgetting) <= CALLS_MAX

    def case(fault: Fault, number: int) -> str:
        with open_place() as place:
            workload = place.bench.start(ends_politely(4))
            place.bench.wait_for_output(workload.attempt_id, b"ready")
            place.proxy.rules.append(Rule(fault, after=number))
            until_it_answers(lambda: place.bench.engine.stop([_stop(workload)]), Stopping, Gone)
            place.bench.restart()
            (task,) = place.bench.wait_for_end(workload.attempt_id)
            place.proxy.rules[:] = [Rule(fault, after=number)]
            until_it_answers(lambda: place.bench.engine.forget([workload.attempt_id]), Forgotten)
            left = _left_of(place, workload)
            ended = task.exit is not None and (task.exit.code, task.exit.stop_cause) == (4, StopCause.USER)
            return "" if ended and not left else f"{fault.name} at request {number}: {task.exit}, left {left}"

    numbers = range(max(len(stopping), len(forgetting)))
    assert in_turn([lambda f=fault, n=number: case(f, n) for fault in FAULTS for number in numbers]) == []  # type: ignore[misc]


@pytest.mark.capability("6", "An end is seen although watches are refused")
@pytest.mark.parametrize("fault", [Fault.EXPIRED, Fault.EXPIRED_EVENT, Fault.LOSE_REQUEST, Fault.INTERNAL])
def test_an_end_is_seen_although_watches_are_refused(open_place: Open, fault: Fault) -> None:
    with open_place() as place:
        place.proxy.rules.append(Rule(fault, path="watch=true", times=4))
        workload = place.bench.start(fails(5))
        (task,) = place.bench.wait_for_end(workload.attempt_id)
        assert task.exit is not None
        assert task.exit.code == 5


def test_refused_watches_are_not_asked_for_without_a_pause(open_place: Open) -> None:
    with open_place() as place:
        place.proxy.rules.append(Rule(Fault.EXPIRED, path="watch=true", times=1_000))
        workload = place.bench.start(runs_on())
        place.bench.wait_until(lambda: _state(place, workload) is TaskState.RUNNING, "the start")
        before = len([path for _, path in place.proxy.requests if "watch=true" in path])
        time.sleep(3.0)
        asked = len([path for _, path in place.proxy.requests if "watch=true" in path]) - before
        assert asked <= 12, f"{asked} watches in three seconds"


def test_what_cannot_be_listed_is_no_end(open_place: Open) -> None:
    with open_place() as place:
        workload = place.bench.start(runs_on())
        place.bench.wait_until(lambda: _state(place, workload) is TaskState.RUNNING, "the start")
        place.bench.restart()
        for fault in (Fault.INTERNAL, Fault.LOSE_ANSWER, Fault.EXPIRED):
            place.proxy.rules[:] = [Rule(fault, method="GET", times=1_000)]
            place.bench.restart()
            with pytest.raises(EngineUnreachable):
                place.bench.engine.observe(None)
        place.proxy.rules.clear()
        assert _state(place, workload) is TaskState.RUNNING


def _state(place: Place, workload: Workload) -> TaskState:
    seen = place.bench.see(workload.attempt_id)
    assert seen is not None
    return seen.tasks[0].state


def _stop(workload: Workload) -> Stop:
    return Stop(workload.attempt_id, 60.0, StopCause.USER)


def _left_of(place: Place, workload: Workload) -> list[str]:
    """The pods that are still there after the kubelet had its time, and `observe` its looks."""
    place.proxy.rules.clear()
    engine, deadline = place.bench.engine, time.monotonic() + GONE_SECONDS
    while True:
        found = engine.api.get("/api/v1/pods", labelSelector=f"{names.ATTEMPT}={workload.attempt_id}")  # type: ignore[attr-defined]
        if not found["items"] or time.monotonic() > deadline:
            return [item["metadata"]["name"] for item in found["items"]]
        engine.observe(None)
        time.sleep(0.2)
