"""The command line on the product itself: limits tried and changed, caps, time limits and bookings."""

from __future__ import annotations

import json
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from kernel.resources import Resources
from tenants.services import reserve
from tests.builders.program import Run, program
from tests.factories.clusters import a_cluster
from tests.factories.tenants import Cast, ask, make_queue, now, top_queue

pytestmark = pytest.mark.database


@pytest.fixture
def pool(db: None) -> Any:
    """16 GPUs on two nodes."""
    return a_cluster("here").with_nodes(2, gpus=8).build().pools.get()


@pytest.fixture
def berth(cast: Cast, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    """`berth ...` as one of the cast, against the product in this process."""
    return program(tmp_path, monkeypatch)


def test_limits_are_tried_then_changed_and_shown(berth: Run, cast: Cast, pool: Any) -> None:
    queue = make_queue(cast.tenant, "day")
    reserve([ask(queue, pool.pk, Resources(gpu_millis=6000))], now=now())
    words = (
        "queues",
        "edit",
        "vision",
        "--pool",
        pool.name,
        "--guarantee",
        "gpu=4",
        "--deserved",
        "gpu=5,cpu=2",
        "--weight",
        "gpu=3",
    )

    tried = berth(cast.otto, *words, "--dry-run")
    assert "holds 6 GPU of pool a100: more than its deserved of 5" in tried.stderr
    assert "nothing was changed" in tried.stderr
    assert "GUARANTEE" in berth(cast.vera, "quota").stdout
    berth(cast.otto, *words)
    rows = json.loads(berth(cast.vera, "quota", "vision", "--json").stdout)
    (gpu,) = [row for row in rows if row["resource"] == "gpu_millis"]
    assert (gpu["guarantee"], gpu["deserved"], gpu["used"]) == (4000, 5000, 6000)
    refused = berth(cast.otto, "queues", "edit", "vision", "--pool", pool.name, "--guarantee", "gpu=17", "--dry-run", code=1)
    assert "pool a100 has 16 GPUs" in refused.stderr
    assert "would be refused" in refused.stderr


def test_a_file_changes_a_whole_tree_later_and_the_edit_is_cancelled(berth: Run, cast: Cast, pool: Any) -> None:
    Path("tree.yaml").write_text(
        f"""
- {{queue: {top_queue(cast.tenant).pk}, pool: {pool.name}, guarantee: {{gpu: 8}}, ceiling: {{gpu: none}}}}
- {{queue: {top_queue(cast.elsewhere).pk}, pool: {pool.name}, guarantee: {{gpu: 8, memory: 4Gi}}, weight: {{gpu: 2}}}}
"""
    )
    planned = json.loads(
        berth(cast.otto, "queues", "edit", "-f", "tree.yaml", "--from", "3d", "--comment", "Q1", "--json").stdout
    )
    assert planned["state"] == "pending"
    assert len(planned["changes"]) == 3
    listed = berth(cast.otto, "queues", "edits").stdout
    assert "pending" in listed
    assert "vision GPU: guarantee 8, ceiling none" in listed
    berth(cast.otto, "queues", "cancel", planned["id"])
    assert "cancelled" in berth(cast.otto, "queues", "edits", "--state", "cancelled").stdout
    Path("bad.yaml").write_text("- {queue: x, pools: y}\n")
    assert "An entry has queue, pool" in berth(cast.otto, "queues", "edit", "-f", "bad.yaml", code=2).stderr
    berth(cast.otto, "queues", "edit", "-f", "none.yaml", code=2)
    berth(cast.otto, "queues", "edit", "vision", code=2)
    berth(cast.otto, "queues", "edit", "vision", "--pool", pool.name, "--ceiling", "gpu", code=2)


def test_people_are_capped_line_by_line(berth: Run, cast: Cast) -> None:
    berth(cast.alice, "queues", "cap", "--gpu", "4", "--jobs", "10")
    berth(cast.alice, "queues", "cap", "--user", "bob", "--gpu", "8")
    berth(cast.alice, "queues", "cap", "--user", "bob", "--containers", "3")
    rows = json.loads(berth(cast.bob, "queues", "caps", "--json").stdout)
    assert [(row["user"] and row["user"]["name"], row["gpu_millis"], row["jobs"], row["containers"]) for row in rows] == [
        (None, 4000, 10, None),
        ("bob", 8000, None, 3),
    ]
    berth(cast.alice, "queues", "cap", "--user", "bob", "--gpu", "none", "--containers", "none")
    assert "all users" in berth(cast.bob, "queues", "caps").stdout
    assert "bob" not in berth(cast.bob, "queues", "caps").stdout
    berth(cast.bob, "queues", "cap", "--jobs", "100", code=3)
    berth(cast.alice, "queues", "cap", code=2)
    assert "'many' is not an integer" in berth(cast.alice, "queues", "cap", "--jobs", "many", code=2).stderr


def test_the_time_of_jobs_is_limited_and_shown(berth: Run, cast: Cast) -> None:
    make_queue(cast.tenant, "day")
    assert "may run for at most 1d 12h" in berth(cast.alice, "queues", "runtime", "day", "36h").stderr
    assert "may run for at most 1d 12h" in berth(cast.vera, "queues", "runtime", "day").stderr
    assert "have no run time limit" in berth(cast.alice, "queues", "runtime", "day", "none").stderr


def test_gpus_are_booked_refused_listed_and_given_up(berth: Run, cast: Cast, pool: Any) -> None:
    start = (now() + timedelta(days=1)).isoformat()
    made = json.loads(berth(cast.alice, "reserve", "12", "--pool", pool.name, "--from", start, "--for", "10h", "--json").stdout)
    assert made["gpu_millis"] == 12000
    refused = berth(cast.carol, "reserve", "8", "--pool", pool.name, "--from", start, "--for", "2h", code=1)
    assert "12 GPUs are booked from" in refused.stderr
    assert "vision" not in refused.stderr
    assert made["id"] in berth(cast.vera, "reserve").stdout
    berth(cast.alice, "reserve", "cancel", made["id"])
    assert "cancelled" in berth(cast.vera, "reserve", "list").stdout
    berth(cast.alice, "reserve", "8", "--pool", pool.name, code=2)
