"""The engine with exactly the rights that it says it needs."""

from __future__ import annotations

import uuid
from collections.abc import Callable

import pytest

from clusters.engines.interface import Asker, CheckpointRef, EngineUnreachable, Forgotten, Stop, StopCause, TaskName
from clusters.engines.kubernetes.permissions import missing
from tests.contract.engines.bench import Bench, ends_politely, saves, succeeds

pytestmark = pytest.mark.kubernetes


@pytest.mark.capability("6", "The documented role is enough, and a right that is missing is named")
def test_its_own_role_is_enough_for_all_that_it_does(with_rights: Callable[..., Bench]) -> None:
    bench = with_rights()
    engine = bench.engine
    assert missing(engine.api, engine.config) == []  # type: ignore[attr-defined]
    shared = engine.config.shared_paths[0]  # type: ignore[attr-defined]
    kept = CheckpointRef(uuid.uuid4(), f"{shared}/tenant/job", "ckpt")
    first = bench.start(saves(b"7"), succeeds(), secret_env={"TOKEN": "hush"}, checkpoint=kept, ports=("main",))
    bench.wait_for_end(first.attempt_id)
    second = bench.start(ends_politely(3))
    bench.wait_for_output(second.attempt_id, b"ready")
    execution = engine.execute(second.attempt_id, TaskName("worker", 0), ["true"], None, Asker("t", "u"))  # type: ignore[attr-defined]
    execution.close()
    engine.stop([Stop(second.attempt_id, 60, StopCause.USER, "TERM")])
    bench.wait_for_end(second.attempt_id)
    attempts = [first.attempt_id, second.attempt_id]
    assert engine.forget(attempts) == [Forgotten(attempt) for attempt in attempts]
    engine._gates.purge()  # type: ignore[attr-defined]
    assert engine.inventory().nodes


@pytest.mark.capability("6", "The documented role is enough, and a right that is missing is named")
def test_a_right_that_is_missing_is_named(with_rights: Callable[..., Bench]) -> None:
    bench = with_rights(frozenset({"pods/exec", "nodes"}))
    engine = bench.engine
    lacking = missing(engine.api, engine.config)  # type: ignore[attr-defined]
    assert [text.split(" (")[0] for text in lacking] == [
        "list on nodes",
        "get, create on pods/exec",
        "list on nodes.metrics.k8s.io",
        "get, patch on nodes",
    ]
    with pytest.raises(EngineUnreachable, match="nodes"):
        engine.inventory()


def test_a_start_without_rights_waits_and_says_why(with_rights: Callable[..., Bench]) -> None:
    bench = with_rights(frozenset({"pods"}))
    (answer,) = bench.engine.ensure([bench.workload(succeeds())])
    assert getattr(answer, "code", "") == "cluster_refuses"
    assert "pods" in getattr(answer, "detail", "")
