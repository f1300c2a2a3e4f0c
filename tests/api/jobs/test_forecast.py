"""What a dry run forecasts: start and cost of an ask, and of two smaller ones; each comes true when it is submitted so."""

from __future__ import annotations

import json
from datetime import timedelta
from typing import Any

import pytest

from clusters.engines.fake import Script
from jobs.models import Job
from jobs.scheduling.core.place.gangs import GangAsk, RoleAsk
from jobs.scheduling.core.place.machines import TaskAsk
from jobs.services.forecast import half_of
from tenants.models import Budget, Price
from tests.builders.quay import Quay

pytestmark = pytest.mark.database
Api = Any
SPEC = {"name": "train", "command": "true"}


def planned(api: Api, person: Any, **spec: Any) -> dict[str, Any]:
    body = json.dumps({"spec": {**SPEC, **spec}})
    answer = api(person).post("/api/v1/jobs?dry_run=true&forecast=true", body, content_type="application/json")
    assert answer.status_code == 200, answer.content
    return dict(answer.json())


def forecast_of(api: Api, person: Any, **spec: Any) -> dict[str, Any]:
    return dict(planned(api, person, **spec)["forecast"])


def free_at(quay: Quay, seconds: int) -> None:
    """Six of eight cores are held for so long."""
    quay.submit(
        "before", resources={"cpu": 6, "memory": "1Gi"}, max_runtime=f"{seconds}s", script=Script(duration_seconds=seconds)
    )
    quay.turn()


@pytest.mark.capability("39", "A dry run shows start and cost of the ask, of half and of a quarter of it")
def test_a_smaller_ask_starts_now_where_the_whole_has_to_wait(quay: Quay, api: Api) -> None:
    free_at(quay, 1000)
    found = forecast_of(api, quay.cast.bob, replicas=4, resources={"cpu": 2, "memory": "1Gi"}, max_runtime="1h")

    assert [(option["size"], option["roles"][0]["replicas"], option["starts_now"]) for option in found["options"]] == [
        ("asked", 4, False),
        ("half", 2, False),
        ("quarter", 1, True),
    ]
    asked = found["options"][0]
    assert (asked["p50_at"], asked["reason"]) == (None, "little_history"), "nothing has ended yet"
    assert asked["p90_at"] is not None, "by then all have taken as long as they may"
    assert not Job.objects.filter(name="train").exists()


@pytest.mark.capability("39", "What was forecast for each size comes true")
def test_what_was_forecast_for_each_size_comes_true(quay: Quay, api: Api) -> None:
    free_at(quay, 1000)
    ask: dict[str, Any] = {"resources": {"cpu": 2, "memory": "1Gi"}, "max_runtime": "1h"}
    options = forecast_of(api, quay.cast.bob, replicas=4, **ask)["options"]
    expected = {option["roles"][0]["replicas"]: option for option in options}

    small = quay.submit("small", replicas=1, script=Script(duration_seconds=10), **ask)
    quay.turn()
    assert quay.state(small) != "queued"
    assert expected[1]["starts_now"]
    quay.pass_time(11)
    quay.turn(2)
    whole = quay.submit("whole", replicas=4, script=Script(duration_seconds=10), **ask)
    for _ in range(30):
        quay.turn()
        if quay.state(whole) != "queued":
            break
        quay.pass_time(60)
    late = quay.now.isoformat()
    assert expected[4]["p90_at"][:16] <= late[:16]
    assert abs(quay.now.timestamp() - _second(expected[4]["p90_at"])) <= 120


@pytest.mark.capability("39", "A dry run shows start and cost of the ask, of half and of a quarter of it")
@pytest.mark.capability("6.4", "The cost of an ask is told before, for as long as such jobs run")
def test_the_cost_is_that_of_the_time_it_is_thought_to_run(quay: Quay, api: Api) -> None:
    Price.objects.create(
        pool_id=quay.pool.pk, resource="cpu_millis", micros_per_hour=1_000_000, currency="EUR",
        effective_at=quay.now - timedelta(days=1), created_at=quay.now,
    )  # fmt: skip
    ask: dict[str, Any] = {"resources": {"cpu": 4, "memory": "1Gi"}}
    found = forecast_of(api, quay.cast.bob, **ask)
    assert (found["runs_seconds"], found["options"][0]["cost"]["micros"]) == (None, None)
    assert found["options"][0]["cost"]["micros_per_hour"] == 4_000_000
    found = forecast_of(api, quay.cast.bob, max_runtime="2h", **ask)
    assert (found["runs_by"], found["runs_seconds"], found["currency"]) == ("asked", 7200, "EUR")
    assert [option["cost"]["micros"] for option in found["options"]] == [8_000_000, 4_000_000, 2_000_000]
    for _ in range(2):  # Now its own past is known.
        quay.submit("train", script=Script(duration_seconds=1800), **ask)
    quay.turn()
    quay.pass_time(1801)
    quay.turn(2)

    found = forecast_of(api, quay.cast.bob, max_runtime="2h", **ask)
    assert found["runs_by"] == "name"
    assert abs(found["runs_seconds"] - 1800) <= 5
    assert abs(found["options"][0]["cost"]["micros"] - 2_000_000) <= 10_000


def test_what_withholds_a_job_is_said_instead_of_a_start(quay: Quay, api: Api) -> None:
    held = forecast_of(api, quay.cast.bob, hold=True)["options"][0]
    assert (held["p50_at"], held["reason"]) == (None, "held")
    queue = quay.submit("any").queue
    month = quay.now.year * 100 + quay.now.month
    Budget.objects.create(
        queue=queue, kind="money", amount=1, spent=1, spent_month=month, stops=True, warn_at=[], created_at=quay.now
    )  # fmt: skip
    assert forecast_of(api, quay.cast.bob)["options"][0]["reason"] == "budget"


def test_a_plan_without_the_question_has_no_forecast(quay: Quay, api: Api) -> None:
    body = json.dumps({"spec": SPEC})
    answer = api(quay.cast.bob).post("/api/v1/jobs?dry_run=true", body, content_type="application/json")
    assert "forecast" not in answer.json()


@pytest.mark.capability("39", "A dry run shows start and cost of the ask, of half and of a quarter of it")
def test_an_ask_is_halved_by_tasks_then_gpus_then_cores() -> None:
    def gang(tasks: int, gpus: int, cpu: int = 4000) -> GangAsk:
        return GangAsk((RoleAsk("worker", TaskAsk(cpu, 8 << 30, gpus * 1000), tasks, tasks),))

    assert half_of(gang(5, 4)) == gang(3, 4)
    assert half_of(gang(1, 4)) == GangAsk((RoleAsk("worker", TaskAsk(2000, 4 << 30, 2000), 1, 1),))
    assert half_of(gang(1, 1)) == GangAsk((RoleAsk("worker", TaskAsk(2000, 4 << 30, 1000), 1, 1),))
    assert half_of(gang(1, 0, cpu=1000)) is None


def _second(text: str) -> float:
    from datetime import datetime

    return datetime.fromisoformat(text.replace("Z", "+00:00")).timestamp()


@pytest.mark.capability("110", "Without billing nothing says a cost")
def test_a_tenant_without_billing_is_told_when_and_not_what_it_costs(quay: Quay, api: Api) -> None:
    def costs() -> list[Any]:
        return [option["cost"] for option in forecast_of(api, quay.cast.bob, replicas=4)["options"]]

    assert all(costs())
    switched = api(quay.cast.otto).put(
        "/api/v1/features/billing", {"enabled": False, "tenant": quay.cast.tenant.slug}, format="json"
    )
    assert switched.status_code == 204
    assert set(costs()) == {None}


def test_a_dry_run_says_what_will_be_made(quay: Quay, api: Api) -> None:
    layout = planned(api, quay.cast.bob, framework="mxnet", command="python train.py", replicas=2)["layout"]

    assert [(role["role"], role["count"]) for role in layout["roles"]] == [("scheduler", 1), ("server", 1), ("worker", 2)]
    assert layout["roles"][2]["environment"]["DMLC_PS_ROOT_URI"] == "<scheduler-0>"
    assert (layout["chief"], layout["roles"][2]["installs"]) == (None, ["mxnet"])
