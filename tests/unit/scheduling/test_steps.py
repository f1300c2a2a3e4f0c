"""The steps of a pass, each on and off alone, and the page on which they stand beside Volcano's actions and plugins."""

from __future__ import annotations

from typing import Any

import pytest

from jobs.scheduling.core.core import Core
from jobs.scheduling.core.place.scores import PoolRules
from jobs.scheduling.core.state.decisions import Claim, Decision, Reserve
from tests.architecture.sources import ROOT
from tests.unit.scheduling.test_core import a_core, a_job, admitted, evicted, owed, submit

PAGE = ROOT / "docs" / "scheduling.md"
ACTIONS = {"enqueue", "allocate", "reclaim", "gangreclaim", "preempt", "gangpreempt", "backfill", "shuffle"}
PLUGINS = {
    *("gang", "proportion", "capacity", "drf", "priority", "predicates", "nodeorder", "binpack", "task-topology"),
    *("network-topology-aware", "sla", "tdm", "cdp", "deviceshare", "resourcequota", "rescheduling", "conformance", "numaaware"),
    *("usage", "overcommit", "extender", "nodegroup", "pdb", "resource-strategy-fit"),
}  # Of Volcano, pkg/scheduler/actions and pkg/scheduler/plugins.


def lent(**policy: Any) -> Core:
    """The first queue borrows all of twelve GPUs by jobs of low priority, also four that the second deserves."""
    core = a_core(limits={"a": owed(8), "b": owed(4)}, least_runtime_seconds=0, **policy)
    submit(core, *(a_job(f"low-{number}", gpus=4, priority=100) for number in range(3)))
    assert len(admitted(core.decide(0))) == 3
    return core


@pytest.mark.capability("14", "Reclaim, preempt, backfill and rebalancing are switched off one by one")
def test_reclaim_is_switched_off_alone() -> None:
    for reclaims in (True, False):
        core = lent(reclaims=reclaims)
        submit(core, a_job("owed", queue=2, gpus=4, at=10))
        assert bool(evicted(core.decide(10))) == reclaims
        submit(core, a_job("high", gpus=4, at=20, priority=900))
        assert evicted(core.decide(20)), "preemption goes on"


@pytest.mark.capability("14", "Reclaim, preempt, backfill and rebalancing are switched off one by one")
def test_preempt_is_switched_off_alone() -> None:
    for preempts in (True, False):
        core = lent(preempts=preempts)
        submit(core, a_job("high", gpus=4, at=10, priority=900))
        assert bool(evicted(core.decide(10))) == preempts
        submit(core, a_job("owed", queue=2, gpus=4, at=20))
        assert evicted(core.decide(20)), "reclaim goes on"


@pytest.mark.capability("14", "Reclaim, preempt, backfill and rebalancing are switched off one by one")
def test_backfill_is_switched_off_alone() -> None:
    for depth in (0, 1):
        core = a_core(nodes=1, backfill_depth=depth)
        submit(core, a_job("runs", gpus=2, max_runtime=100))
        core.decide(0)
        submit(core, a_job("wide", gpus=4, at=1), a_job("long", gpus=2, at=2, max_runtime=1_000))
        decisions = core.decide(2)
        assert any(isinstance(decision, Reserve) for decision in decisions) == bool(depth)
        assert admitted(decisions) == ([] if depth else ["long"])


@pytest.mark.capability("14", "Reclaim, preempt, backfill and rebalancing are switched off one by one")
def test_rebalancing_and_migrations_are_switched_off_alone() -> None:
    for rebalances in (True, False):
        core = a_core(limits={"a": owed(2), "b": owed(2)}, rebalances=rebalances)
        submit(core, *(a_job(f"much-{number}", gpus=1) for number in range(12)))
        core.decide(0)
        submit(core, *(a_job(f"less-{number}", queue=2, gpus=1, at=10) for number in range(4)))
        for name in evicted(core.decide(10)):
            core.ended(name)
        core.decide(11)
        assert bool(evicted(core.decide(600))) == rebalances
    for migrations in (0, 2):
        core = a_core(nodes=4, migrations=migrations, migrates_after_seconds=60)
        core.machines.set_rules(0, PoolRules(policy="spread"))
        submit(core, *(a_job(f"small-{number}", gpus=2, checkpoint_seconds=60) for number in range(4)))
        core.decide(0)
        submit(core, a_job("large", gpus=4))
        assert bool(claims(core.decide(1_200))) == bool(migrations)


def claims(decisions: tuple[Decision, ...]) -> list[str]:
    return [decision.id for decision in decisions if isinstance(decision, Claim)]


@pytest.mark.capability("14", "A page names Volcano's actions, and the step and the setting that do the same")
def test_the_page_names_every_action_with_its_step() -> None:
    rows = table("action")
    assert named(rows) == ACTIONS
    assert all("step" in text for text in rows.values())


@pytest.mark.capability("15", "A page says of each of Volcano's plugins whether Berth has it, or why it has not")
def test_the_page_says_of_every_plugin_have_or_have_not() -> None:
    rows = table("plugin")
    assert named(rows) == PLUGINS
    for names, text in rows.items():
        assert text.startswith(("have", "needs nothing")), names
        assert len(text) > len("have not: ") + 10, f"{names}: no reason"


def table(head: str) -> dict[str, str]:
    """The rows of a table of the page by their first column."""
    lines = PAGE.read_text(encoding="utf-8").splitlines()
    begin = lines.index(f"| {head} | here |") + 2
    found = {}
    for line in lines[begin:]:
        if not line.startswith("|"):
            break
        name, text = (cell.strip() for cell in line.strip("|").split("|", 1))
        found[name] = text.strip()
    return found


def named(rows: dict[str, str]) -> set[str]:
    return {name.strip("` ") for names in rows for name in names.split(",")}
