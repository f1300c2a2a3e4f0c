"""What is kept of a decision: enough to answer why here, why now and why not there, and nothing without a bound."""

from __future__ import annotations

import json

from jobs.scheduling.core.snapshot import State
from jobs.scheduling.core.state.decisions import Reserve, WaitReason
from jobs.scheduling.questions.explain import Settled
from jobs.scheduling.questions.records import Names, Record, policy_version, record_of, records_of
from tenants.capacity.quota.limits import Limit
from tests.builders.scheduling import a_job, a_state, passed

NAMES = Names(("pool",), ("", "queue-a", "queue-b"), "v1")


def kept(state: State, **waited: WaitReason | None) -> dict[str, Record]:
    settled = Settled(state)
    made = records_of(settled.decisions, settled.core, NAMES, waited=waited)
    assert json.loads(json.dumps([dict(record.payload) for record in made])) == [dict(record.payload) for record in made]
    return {record.job_id: record for record in made}


def test_a_start_says_where_of_how_many_by_which_scores_and_what_kept_it_out_of_others() -> None:
    state = passed(a_state(a_job("old", tasks=2, gpus=4)), a_job("one", gpus=2, at=400))
    found = kept(state)["one"]
    assert (found.kind, found.pool) == ("start", "pool")
    payload = found.payload
    assert (payload["nodes"], payload["nodes_count"], payload["candidates"]) == (["node-002"], 1, 3)
    assert (payload["standing"], payload["queue"], payload["waited_seconds"]) == ("borrowed", "queue-a", 600)
    assert payload["policy"] == "v1"
    assert payload["roles"][0]["filters"] == [{"code": "gpu", "machines": 2, "need": 2000}]
    assert payload["scores"][0]["rows"][0]["machine"] == "node-002"


def test_the_machine_that_was_chosen_is_not_among_those_left_out() -> None:
    found = kept(passed(a_state(a_job("old", tasks=1, gpus=4)), a_job("one", gpus=4, at=400)))["one"]
    assert found.payload["roles"][0]["filters"] == [{"code": "gpu", "machines": 1, "need": 4000}]


def test_a_start_after_a_wait_says_what_it_waited_for() -> None:
    found = kept(a_state(a_job("one")), one=WaitReason("no_room", 0, need=1))["one"]
    assert found.kind == "wait_turned_start"
    assert found.payload["waited_for"] == {"code": "no_room", "pool": "pool", "need": 1}


def test_a_claim_names_its_victims_with_what_they_lose_and_they_name_the_claimant() -> None:
    full = a_state(a_job("guest", queue=2, tasks=3, gpus=4), limits={"a": Limit(deserved=8000), "b": Limit(deserved=4000)})
    found = kept(passed(full, a_job("owner", gpus=4, at=1500), at=2000))
    claim, evict = found["owner"], found["guest"]
    assert (claim.kind, evict.kind) == ("claim", "evict")
    assert claim.payload["victims"] == [{"job": "guest", "cost": 12_000_000, "standing": "borrowed"}]
    assert (evict.payload["claimant"], evict.payload["cost"], evict.payload["ran_seconds"]) == ("owner", 12_000_000, 1000)


def test_a_refusal_keeps_its_reason_with_the_filters() -> None:
    found = kept(a_state(a_job("one", models=("H100",))))["one"]
    assert (found.kind, found.pool) == ("refuse", "pool")
    assert found.payload["reason"]["filters"] == [{"code": "gpu_model", "machines": 3}]


def test_of_many_machines_so_many_are_named_and_all_counted() -> None:
    found = kept(a_state(a_job("one", tasks=100, gpus=4), nodes=100))["one"]
    assert (len(found.payload["nodes"]), found.payload["nodes_count"]) == (64, 100)


def test_reserved_starts_are_not_kept_here() -> None:
    settled = Settled(a_state())
    assert record_of(Reserve("one", 5, ()), settled.core, NAMES) is None


def test_another_policy_has_another_version() -> None:
    versions = {policy_version(Settled(state).core) for state in (a_state(), a_state(), a_state(in_order=True))}
    assert len(versions) == 2
