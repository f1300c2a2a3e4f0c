"""What each method of the SDK sends: method, path, query and body, with names that are no plain path segments."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx2
import pytest
from client_stub import SERVER, TOKEN, a_job, problem

import berth
from berth import limits

ID = "0198c000-0000-7000-8000-00000000abcd"
OTHER = "0198c000-0000-7000-8000-00000000dcba"
ANSWER = {"id": ID, "name": "x", "state": "queued", "items": [], "next": None, "public_key": "k1", "former": ["k0"],
          "own_taints": {"old": "avoid"}, "version": 7, "pools": []}  # fmt: skip
Ask = Callable[[berth.Client], object]


@pytest.fixture
def sent() -> list[httpx2.Request]:
    return []


@pytest.fixture
def anywhere(sent: list[httpx2.Request]) -> Iterator[berth.Client]:
    """A client of a server that accepts everything, in the tenant `vision`."""

    def accept(request: httpx2.Request) -> httpx2.Response:
        sent.append(request)
        return httpx2.Response(200, json=ANSWER)

    with berth.Client(SERVER, TOKEN, tenant="vision", http=httpx2.MockTransport(accept)) as client:
        yield client


def line(request: httpx2.Request) -> str:
    """Method and path as they go over the wire, the query left out."""
    return f"{request.method} {request.url.raw_path.decode().partition('?')[0].removeprefix('/api/v1')}"


def query(request: httpx2.Request) -> dict[str, Any]:
    """The query without the size of a page, which every list has; a key that is repeated as a list."""
    pairs: dict[str, Any] = {}
    for key, value in request.url.params.multi_items():
        pairs[key] = value if key not in pairs else [*([pairs[key]] if isinstance(pairs[key], str) else pairs[key]), value]
    pairs.pop("limit", None)
    return pairs


# --- Reading ----------------------------------------------------------------------------------------------------------

READS: list[tuple[Ask, str, dict[str, Any]]] = [
    (lambda c: c.info(), "GET /info", {}),
    (lambda c: c.job_schema(), "GET /schemas/job-spec", {}),
    (lambda c: list(c.tenants.list()), "GET /tenants", {}),
    (lambda c: c.tenants.get("a/b 中"), "GET /tenants/a%2Fb%20%E4%B8%AD", {}),
    (lambda c: c.tenants.members("vision"), "GET /tenants/vision/members", {}),
    (lambda c: c.tenants.secrets("vision"), "GET /tenants/vision/secrets", {}),
    (lambda c: list(c.tokens.list()), "GET /tokens", {}),
    (lambda c: list(c.tokens.list(user="bob")), "GET /tokens", {"user": "bob"}),
    (lambda c: list(c.users.list()), "GET /users", {}),
    (lambda c: list(c.queues.list()), "GET /queues", {"tenant": "vision"}),
    (lambda c: c.queues.get(ID), f"GET /queues/{ID}", {}),
    (lambda c: list(c.clusters.list()), "GET /clusters", {}),
    (lambda c: list(c.clusters.pools()), "GET /pools", {}),
    (lambda c: list(c.clusters.nodes()), "GET /nodes", {}),
    (lambda c: c.clusters.node(ID), f"GET /nodes/{ID}", {}),
    (lambda c: c.clusters.pool(ID), f"GET /pools/{ID}", {}),
    (
        lambda c: c.clusters.pool_metrics(ID, metric="gpu", points=60),
        f"GET /pools/{ID}/metrics",
        {"metric": "gpu", "points": "60"},
    ),
    (lambda c: c.clusters.node_metrics(ID, since="2026-11-20"), f"GET /nodes/{ID}/metrics", {"since": "2026-11-20"}),
    (lambda c: list(c.images.list()), "GET /images", {"tenant": "vision"}),
    (lambda c: c.images.get(ID), f"GET /images/{ID}", {}),
    (lambda c: c.images.builds(ID), f"GET /images/{ID}/builds", {}),
    (lambda c: list(c.templates.list()), "GET /templates", {"tenant": "vision"}),
    (lambda c: list(c.templates.list(q="jax", tag="中")), "GET /templates", {"tenant": "vision", "q": "jax", "tag": "中"}),
    (lambda c: c.templates.get(ID), f"GET /templates/{ID}", {}),
    (lambda c: list(c.volumes.list()), "GET /volumes", {"tenant": "vision"}),
    (lambda c: c.volumes.get(ID), f"GET /volumes/{ID}", {}),
    (lambda c: c.volumes.files(ID), f"GET /volumes/{ID}/files", {}),
    (lambda c: c.volumes.files(ID, "a b/中"), f"GET /volumes/{ID}/files", {"path": "a b/中"}),
    (lambda c: list(c.activity.events()), "GET /events", {"tenant": "vision"}),
    (lambda c: list(c.activity.events(after="e-1")), "GET /events", {"tenant": "vision", "after": "e-1"}),
    (lambda c: list(c.activity.audit()), "GET /audit", {"tenant": "vision"}),
    (lambda c: list(c.activity.audit(verb="job.stop")), "GET /audit", {"tenant": "vision", "verb": "job.stop"}),
    (lambda c: list(c.activity.audit(tenant=None)), "GET /audit", {}),
    (lambda c: c.activity.subscriptions(), "GET /subscriptions", {}),
    (lambda c: c.activity.channels(), "GET /notification-channels", {}),
    (lambda c: list(c.activity.deliveries()), "GET /deliveries", {}),
    (lambda c: list(c.announcements.list()), "GET /announcements", {}),
    (lambda c: list(c.announcements.list(all_=True)), "GET /announcements", {"all": "true"}),
    (lambda c: list(c.maintenance.list()), "GET /maintenance", {"open": "true"}),
    (lambda c: list(c.maintenance.list(open_=False)), "GET /maintenance", {}),
    (lambda c: c.features.list(), "GET /features", {}),
    (lambda c: c.features.list(tenant="a"), "GET /features", {"tenant": "a"}),
    (lambda c: list(c.quota.edits()), "GET /quota/edits", {"tenant": "vision"}),
    (lambda c: list(c.quota.edits(state="pending")), "GET /quota/edits", {"tenant": "vision", "state": "pending"}),
    (lambda c: c.quota.get_edit("e/1"), "GET /quota/edits/e%2F1", {}),
    (lambda c: list(c.quota.requests(state="denied")), "GET /quota/requests", {"tenant": "vision", "state": "denied"}),
    (lambda c: c.quota.caps("t 1"), "GET /tenants/t%201/caps", {}),
    (lambda c: c.quota.rules(ID), f"GET /queues/{ID}/rules", {}),
    (lambda c: list(c.bookings.list(state="held")), "GET /bookings", {"tenant": "vision", "state": "held"}),
    (lambda c: c.bookings.get("b/1"), "GET /bookings/b%2F1", {}),
    (lambda c: c.priorities.grants("vision"), "GET /tenants/vision/priority-grants", {}),
    (lambda c: list(c.priorities.requests(state="expired")), "GET /priority-requests", {"tenant": "vision", "state": "expired"}),
    (lambda c: c.priorities.get_request("r 1"), "GET /priority-requests/r%201", {}),
    (lambda c: c.usage(group_by="day"), "GET /usage", {"tenant": "vision", "group_by": "day"}),
    (lambda c: c.costs.held(pool="a100"), "GET /usage:held", {"tenant": "vision", "pool": "a100"}),
    (lambda c: c.costs.export(since="2026-11-01"), "GET /usage:export", {"tenant": "vision", "since": "2026-11-01"}),
    (lambda c: c.costs.of_job("my job"), "GET /jobs/my%20job/cost", {}),
    (lambda c: c.costs.estimate(gpu_millis=8000, seconds=60), "GET /prices:estimate", {"gpu_millis": "8000", "seconds": "60"}),
    (lambda c: list(c.costs.prices()), "GET /prices", {}),
    (lambda c: list(c.costs.prices(pool="a100", everything=True)), "GET /prices", {"pool": "a100", "all": "true"}),
    (lambda c: c.costs.statements("vision"), "GET /tenants/vision/statements", {}),
    (lambda c: c.costs.statement("a/b", "2026-11"), "GET /tenants/a%2Fb/statements/2026-11", {}),
    (lambda c: c.costs.statement_csv("vision", "2026-11"), "GET /tenants/vision/statements/2026-11", {"format": "csv"}),
    (lambda c: list(c.costs.budgets()), "GET /budgets", {"tenant": "vision"}),
    (lambda c: c.costs.break_even(days=30, pool=None), "GET /breakeven", {"days": "30"}),
    (lambda c: c.shares.list(pool="a100"), "GET /shares", {"tenant": "vision", "pool": "a100"}),
    (lambda c: c.shares.list(tenant="other"), "GET /shares", {"tenant": "other"}),
    (lambda c: c.shares.export(), "GET /shares", {"tenant": "vision", "format": "csv"}),
    (lambda c: c.shares.weeks("vision"), "GET /tenants/vision/shares", {}),
    (lambda c: c.shares.week("vision", "2026-W47"), "GET /tenants/vision/shares/2026-W47", {}),
    (lambda c: c.shares.keys(), "GET /signing-keys", {}),
    (lambda c: c.questions.explain("a b"), "GET /jobs/a%20b/explain", {}),
    (lambda c: c.questions.explain(ID, quick=True), f"GET /jobs/{ID}/explain", {"quick": "true"}),
    (lambda c: list(c.questions.decisions(ID)), f"GET /jobs/{ID}/decisions", {}),
    (lambda c: list(c.jobs.list()), "GET /jobs", {"tenant": "vision"}),
    (
        lambda c: list(c.jobs.list(state=["queued", "running"], mine=True)),
        "GET /jobs",
        {"tenant": "vision", "state": ["queued", "running"], "mine": "true"},
    ),
    (lambda c: list(c.jobs.list(tenant=None, label=["a:1", "b:2"])), "GET /jobs", {"label": ["a:1", "b:2"]}),
    (lambda c: c.jobs.get("a/b"), "GET /jobs/a%2Fb", {}),
    (lambda c: c.jobs.get("  padded "), "GET /jobs/padded", {}),
    (lambda c: c.jobs.spec(ID), f"GET /jobs/{ID}/spec", {}),
    (lambda c: list(c.jobs.events(ID)), f"GET /jobs/{ID}/events", {}),
    (lambda c: c.jobs.attempts(ID), f"GET /jobs/{ID}/attempts", {}),
    (lambda c: c.jobs.tasks(ID, attempt=2), f"GET /jobs/{ID}/tasks", {"attempt": "2"}),
    (
        lambda c: c.jobs.metrics(ID, metric="cpu_millis", task="worker-0"),
        f"GET /jobs/{ID}/metrics",
        {"metric": "cpu_millis", "task": "worker-0"},
    ),
    (lambda c: c.jobs.artifacts(ID), f"GET /jobs/{ID}/artifacts", {}),
    (lambda c: c.jobs.left_behind(ID), f"GET /jobs/{ID}/artifacts", {}),
    (lambda c: c.jobs.checkpoint(ID), f"GET /jobs/{ID}/checkpoint", {}),
    (lambda c: c.jobs.checkpoint_files(ID, "a/b"), f"GET /jobs/{ID}/checkpoint/files", {"path": "a/b"}),
    (lambda c: c.request("GET", "/odd", params={"a": True, "b": None, "c": [1, 2]}), "GET /odd", {"a": "true", "c": ["1", "2"]}),
]


@pytest.mark.parametrize(("ask", "wanted", "params"), READS)
def test_a_reading_asks_for_what_it_names(
    anywhere: berth.Client, sent: list[httpx2.Request], ask: Ask, wanted: str, params: dict[str, Any]
) -> None:
    ask(anywhere)

    request = sent[-1]
    assert (line(request), query(request)) == (wanted, params)
    assert all(earlier.method == "GET" and not earlier.content for earlier in sent), "a reading changes nothing"
    assert request.headers["Authorization"] == f"Bearer {TOKEN}"
    assert "Idempotency-Key" not in request.headers


def test_the_present_key_comes_before_the_former_ones(anywhere: berth.Client) -> None:
    assert list(anywhere.shares.keys()) == ["k1", "k0"]


# --- Writing ----------------------------------------------------------------------------------------------------------

WRITES: list[tuple[Ask, str, dict[str, Any], Any]] = [
    (lambda c: c.tenants.create("lab"), "POST /tenants", {}, {"name": "lab"}),
    (
        lambda c: c.tenants.create("lab", parent="p", description=""),
        "POST /tenants",
        {},
        {"name": "lab", "parent": "p", "description": ""},
    ),
    (lambda c: c.tenants.disable("a/b", dry_run=True), "POST /tenants/a%2Fb/disable", {"dry_run": "true"}, {"stop_jobs": False}),
    (
        lambda c: c.tenants.disable("a", reason="Unpaid.", stop_jobs=True),
        "POST /tenants/a/disable",
        {},
        {"stop_jobs": True, "reason": "Unpaid."},
    ),
    (lambda c: c.tenants.enable("a"), "POST /tenants/a/enable", {}, {}),
    (lambda c: c.tenants.delete("a", confirm="a", plan="p-1"), "POST /tenants/a/delete", {"plan": "p-1"}, {"confirm": "a"}),
    (lambda c: c.tenants.delete("a", dry_run=True), "POST /tenants/a/delete", {"dry_run": "true"}, {"confirm": ""}),
    (lambda c: c.tenants.add_member("a", "bob", "viewer"), "POST /tenants/a/members", {}, {"user": "bob", "role": "viewer"}),
    (lambda c: c.tenants.change_member("a", "u/1", "member"), "PATCH /tenants/a/members/u%2F1", {}, {"role": "member"}),
    (lambda c: c.tenants.remove_member("a", "u 1"), "DELETE /tenants/a/members/u%201", {}, None),
    (lambda c: c.tenants.set_secret("a", "HF/T", "v"), "PUT /tenants/a/secrets/HF%2FT", {}, {"value": "v"}),
    (lambda c: c.tenants.set_secret("a", "EMPTY", ""), "PUT /tenants/a/secrets/EMPTY", {}, {"value": ""}),
    (lambda c: c.tenants.delete_secret("a", "HF"), "DELETE /tenants/a/secrets/HF", {}, None),
    (
        lambda c: c.tenants.create_service_account("a", "ci", "member"),
        "POST /tenants/a/service-accounts",
        {},
        {"name": "ci", "role": "member"},
    ),
    (lambda c: c.tokens.create("ci"), "POST /tokens", {}, {"name": "ci"}),
    (
        lambda c: c.tokens.create("ci", scopes=("read",), expires_at="T"),
        "POST /tokens",
        {},
        {"name": "ci", "scopes": ["read"], "expires_at": "T"},
    ),
    (lambda c: c.tokens.create("ci", scopes=[]), "POST /tokens", {}, {"name": "ci", "scopes": []}),
    (lambda c: c.tokens.revoke("t/1"), "DELETE /tokens/t%2F1", {}, None),
    (lambda c: c.users.change("u/1", is_active=False), "PATCH /users/u%2F1", {}, {"is_active": False}),
    (lambda c: c.users.invite("b@x.org"), "POST /invitations", {}, {"email": "b@x.org"}),
    (
        lambda c: c.users.invite("b@x.org", tenant="a", role="viewer"),
        "POST /invitations",
        {},
        {"email": "b@x.org", "tenant": "a", "role": "viewer"},
    ),
    (lambda c: c.queues.create("sub"), "POST /queues", {}, {"name": "sub", "tenant": "vision"}),
    (lambda c: c.queues.create("sub", parent="top"), "POST /queues", {}, {"name": "sub", "parent": "top", "tenant": "vision"}),
    (lambda c: c.queues.rename(ID, "新"), f"PATCH /queues/{ID}", {}, {"name": "新"}),
    (
        lambda c: c.queues.set_limits("q/1", [{"pool": "p", "gpu_millis": None}]),
        "PUT /queues/q%2F1/limits",
        {},
        [{"pool": "p", "gpu_millis": None}],
    ),
    (lambda c: c.clusters.cordon(ID), f"PATCH /nodes/{ID}", {}, {"cordoned": True, "cordon_reason": ""}),
    (lambda c: c.clusters.uncordon(ID), f"PATCH /nodes/{ID}", {}, {"cordoned": False}),
    (lambda c: c.clusters.drain(ID, dry_run=True), f"POST /nodes/{ID}/drain", {"dry_run": "true"}, {"reason": ""}),
    (lambda c: c.clusters.drain(ID, reason="Fan.", plan="p"), f"POST /nodes/{ID}/drain", {"plan": "p"}, {"reason": "Fan."}),
    (
        lambda c: c.clusters.taint(ID, {"fpga": "keep-out"}),
        f"PATCH /nodes/{ID}",
        {},
        {"taints": {"old": "avoid", "fpga": "keep-out"}},
    ),
    (lambda c: c.clusters.taint(ID, {"old": None, "absent": None}), f"PATCH /nodes/{ID}", {}, {"taints": {}}),
    (
        lambda c: c.clusters.edit_pool(ID, policy=None, gpu_shares=True),
        f"PATCH /pools/{ID}",
        {},
        {"policy": None, "gpu_shares": True},
    ),
    (
        lambda c: c.images.create("jax", kind="python", requirements=""),
        "POST /images",
        {},
        {"tenant": "vision", "name": "jax", "kind": "python", "requirements": ""},
    ),
    (
        lambda c: c.images.create("jax", kind="registry", reference="r"),
        "POST /images",
        {},
        {"tenant": "vision", "name": "jax", "kind": "registry", "reference": "r"},
    ),
    (
        lambda c: c.images.create("jax", kind="registry", reference="r", containerfile="FROM scratch", context_sha256="c" * 64),
        "POST /images",
        {},
        {
            "tenant": "vision",
            "name": "jax",
            "kind": "registry",
            "reference": "r",
            "containerfile": "FROM scratch",
            "context_sha256": "c" * 64,
        },
    ),
    (lambda c: c.images.delete(ID), f"DELETE /images/{ID}", {}, None),
    (lambda c: c.templates.render(ID), f"POST /templates/{ID}/render", {}, {"parameters": {}, "preview": True}),
    (
        lambda c: c.templates.render(ID, {"lr": 0}, name="n", queue="q", preview=False),
        f"POST /templates/{ID}/render",
        {},
        {"parameters": {"lr": 0}, "name": "n", "queue": "q", "preview": False},
    ),
    (lambda c: c.templates.test(ID), f"POST /templates/{ID}/test", {}, {"tenant": "vision", "queue": ""}),
    (
        lambda c: c.templates.test(ID, tenant="other", queue="q"),
        f"POST /templates/{ID}/test",
        {},
        {"tenant": "other", "queue": "q"},
    ),
    (
        lambda c: c.volumes.create("data", quota_bytes=1),
        "POST /volumes",
        {},
        {"tenant": "vision", "name": "data", "quota_bytes": 1},
    ),
    (lambda c: c.volumes.delete(ID), f"DELETE /volumes/{ID}", {}, None),
    (lambda c: c.volumes.grant(ID, "other"), f"POST /volumes/{ID}/grants", {}, {"tenant": "other", "read_only": True}),
    (
        lambda c: c.volumes.grant(ID, "other", read_only=False),
        f"POST /volumes/{ID}/grants",
        {},
        {"tenant": "other", "read_only": False},
    ),
    (lambda c: c.volumes.revoke(ID, "g/1"), f"DELETE /volumes/{ID}/grants/g%2F1", {}, None),
    (lambda c: c.volumes.remove(ID, "a b"), f"DELETE /volumes/{ID}/content", {"path": "a b"}, None),
    (
        lambda c: c.activity.subscribe(channel="mail", kinds=["failed"], target=None),
        "POST /subscriptions",
        {},
        {"channel": "mail", "kinds": ["failed"]},
    ),
    (
        lambda c: c.activity.change_subscription("s/1", is_active=False, kinds=None),
        "PATCH /subscriptions/s%2F1",
        {},
        {"is_active": False},
    ),
    (lambda c: c.activity.test_subscription("s"), "POST /subscriptions/s/test", {}, {}),
    (lambda c: c.activity.unsubscribe("s"), "DELETE /subscriptions/s", {}, None),
    (lambda c: c.activity.retry_delivery("d 1"), "POST /deliveries/d%201/retry", {}, {}),
    (lambda c: c.announcements.create("Hi"), "POST /announcements", {}, {"text": "Hi", "text_zh": "", "level": "info"}),
    (
        lambda c: c.announcements.create("Hi", text_zh="好", level="critical", tenant="a", starts_at="S", ends_at="E"),
        "POST /announcements",
        {},
        {"text": "Hi", "text_zh": "好", "level": "critical", "tenant": "a", "starts_at": "S", "ends_at": "E"},
    ),
    (lambda c: c.announcements.delete("a/1"), "DELETE /announcements/a%2F1", {}, None),
    (
        lambda c: c.maintenance.create(starts_at="S", ends_at="E", pool="a100"),
        "POST /maintenance",
        {},
        {"starts_at": "S", "ends_at": "E", "pool": "a100", "drain": False, "reason": ""},
    ),
    (
        lambda c: c.maintenance.create(starts_at="S", ends_at="E", nodes=("n",), drain=True),
        "POST /maintenance",
        {},
        {"starts_at": "S", "ends_at": "E", "drain": True, "reason": "", "nodes": ["n"]},
    ),
    (lambda c: c.maintenance.cancel("w/1"), "DELETE /maintenance/w%2F1", {}, None),
    (lambda c: c.features.set("chat", None), "PUT /features/chat", {}, {"enabled": None, "tenant": None}),
    (lambda c: c.features.set("a/b", True, tenant="t"), "PUT /features/a%2Fb", {}, {"enabled": True, "tenant": "t"}),
    (
        lambda c: c.quota.edit([{"queue": "q"}]),
        "POST /quota/edits",
        {},
        {"changes": [{"queue": "q"}], "dry_run": False, "comment": "", "tenant": "vision"},
    ),
    (
        lambda c: c.quota.edit([], dry_run=True, effective_from="T", versions={"q": 3}, plan="p"),
        "POST /quota/edits",
        {"plan": "p"},
        {"changes": [], "dry_run": True, "comment": "", "effective_from": "T", "versions": {"q": 3}, "tenant": "vision"},
    ),
    (lambda c: c.quota.cancel_edit("e"), "DELETE /quota/edits/e", {}, None),
    (
        lambda c: c.quota.request([{"queue": "q"}], reason="Why."),
        "POST /quota/requests",
        {},
        {"changes": [{"queue": "q"}], "reason": "Why.", "tenant": "vision"},
    ),
    (
        lambda c: c.quota.approve("r", answer="Yes.", effective_from="T"),
        "POST /quota/requests/r/approve",
        {},
        {"answer": "Yes.", "effective_from": "T"},
    ),
    (lambda c: c.quota.deny("r"), "POST /quota/requests/r/deny", {}, {"answer": ""}),
    (lambda c: c.quota.withdraw("r"), "DELETE /quota/requests/r", {}, None),
    (lambda c: c.quota.set_caps("t", [{"user": None, "jobs": 0}]), "PUT /tenants/t/caps", {}, [{"user": None, "jobs": 0}]),
    (lambda c: c.quota.set_rules("q", max_runtime_seconds=None), "PUT /queues/q/rules", {}, {"max_runtime_seconds": None}),
    (
        lambda c: c.bookings.create("a100", 8000, starts_at="S", ends_at="E"),
        "POST /bookings",
        {},
        {"pool": "a100", "gpu_millis": 8000, "starts_at": "S", "ends_at": "E", "comment": "", "tenant": "vision"},
    ),
    (lambda c: c.bookings.cancel("b"), "DELETE /bookings/b", {}, None),
    (
        lambda c: c.priorities.set_grants("t", member=None, manager=900),
        "PUT /tenants/t/priority-grants",
        {},
        {"member": None, "manager": 900},
    ),
    (lambda c: c.priorities.set("j", 0), "PATCH /jobs/j", {}, {"priority": 0}),
    (lambda c: c.priorities.request("j", "high"), "POST /priority-requests", {}, {"job": "j", "priority": "high", "reason": ""}),
    (
        lambda c: c.priorities.request_window(700, ends_at="E", user="bob"),
        "POST /priority-requests",
        {},
        {"priority": 700, "ends_at": "E", "user": "bob", "reason": "", "tenant": "vision"},
    ),
    (lambda c: c.priorities.approve("r"), "POST /priority-requests/r/approve", {}, {"answer": ""}),
    (lambda c: c.priorities.deny("r", answer="No."), "POST /priority-requests/r/deny", {}, {"answer": "No."}),
    (lambda c: c.priorities.withdraw("r"), "DELETE /priority-requests/r", {}, None),
    (
        lambda c: c.costs.set_prices("a100", {"gpu": 2_500_000, "memory": 0}),
        "POST /prices",
        {},
        {"pool": "a100", "gpu_hour_micros": 2_500_000, "memory_gib_hour_micros": 0},
    ),
    (lambda c: c.costs.withdraw_price("p/1"), "DELETE /prices/p%2F1", {}, None),
    (
        lambda c: c.costs.set_budget(ID, kind="gpu_time", amount=5, warn_at=[50], stops=True),
        f"PUT /queues/{ID}/budget",
        {},
        {"kind": "gpu_time", "amount": 5, "stops": True, "warn_at": [50]},
    ),
    (
        lambda c: c.costs.set_budget(ID, kind="money", amount=0),
        f"PUT /queues/{ID}/budget",
        {},
        {"kind": "money", "amount": 0, "stops": False},
    ),
    (lambda c: c.costs.remove_budget(ID), f"DELETE /queues/{ID}/budget", {}, None),
    (
        lambda c: c.questions.what_if([{"end": {"job": "j"}}]),
        "POST /what-if",
        {},
        {"changes": [{"end": {"job": "j"}}], "tenant": "vision"},
    ),
    (
        lambda c: c.jobs.submit_batch({"command": "true"}, [{"name": "a"}]),
        "POST /jobs:batch",
        {},
        {"spec": {"command": "true"}, "items": [{"name": "a"}], "tenant": "vision"},
    ),
    (
        lambda c: c.jobs.convert("#!", source="sbatch", name="run.sh"),
        "POST /jobs:convert",
        {},
        {"text": "#!", "from": "sbatch", "name": "run.sh"},
    ),
    (lambda c: c.jobs.convert("#!"), "POST /jobs:convert", {}, {"text": "#!"}),
    (
        lambda c: c.jobs.plan({"command": "true"}, forecast=True, priority_reason="Why."),
        "POST /jobs",
        {"dry_run": "true", "forecast": "true", "priority_reason": "Why."},
        {"spec": {"command": "true"}, "tenant": "vision"},
    ),
    (
        lambda c: c.jobs.submit({"command": "true"}, tenant="other"),
        "POST /jobs",
        {},
        {"spec": {"command": "true"}, "tenant": "other"},
    ),
    (lambda c: c.jobs.stop("a b"), "POST /jobs/a%20b/stop", {}, {}),
    (
        lambda c: c.jobs.stop(ID, grace_seconds=0, reason="Why."),
        f"POST /jobs/{ID}/stop",
        {},
        {"grace_seconds": 0, "reason": "Why."},
    ),
    (lambda c: c.jobs.edit(ID, hold=False, tags=[]), f"PATCH /jobs/{ID}", {}, {"hold": False, "tags": []}),
    (lambda c: c.jobs.move(ID), f"POST /jobs/{ID}/move", {}, {"among": "own", "to": "first"}),
    (
        lambda c: c.jobs.move(ID, last=True, everybody=True, plan="p"),
        f"POST /jobs/{ID}/move",
        {"plan": "p"},
        {"among": "queue", "to": "last"},
    ),
    (
        lambda c: c.jobs.move(ID, after="j", dry_run=True),
        f"POST /jobs/{ID}/move",
        {"dry_run": "true"},
        {"among": "own", "after": "j"},
    ),
    (lambda c: c.jobs.rerun(ID), f"POST /jobs/{ID}/rerun", {}, {}),
    (lambda c: c.jobs.rerun(ID, changes={"env": None}), f"POST /jobs/{ID}/rerun", {}, {"changes": {"env": None}}),
    (
        lambda c: c.jobs.clone(ID, name="copy", secrets={}),
        f"POST /jobs/{ID}/clone",
        {},
        {"changes": {"name": "copy", "secrets": {}}},
    ),
    (lambda c: c.request("POST", "/odd", json={"a": 1}), "POST /odd", {}, {"a": 1}),
]


@pytest.mark.parametrize(("do", "wanted", "params", "body"), WRITES)
def test_a_change_sends_what_was_said_and_nothing_else(
    anywhere: berth.Client, sent: list[httpx2.Request], do: Ask, wanted: str, params: dict[str, Any], body: Any
) -> None:
    do(anywhere)

    request = sent[-1]
    assert (line(request), query(request)) == (wanted, params)
    assert (json.loads(request.content) if request.content else None) == body
    assert all(earlier.method == "GET" for earlier in sent[:-1]), "one change a call"


def test_only_a_post_that_may_be_repeated_has_a_key(anywhere: berth.Client, sent: list[httpx2.Request]) -> None:
    anywhere.jobs.stop(ID)
    anywhere.jobs.stop(ID)
    anywhere.request("POST", "/odd")
    anywhere.device_codes.ask("laptop")
    anywhere.jobs.rerun(ID, idempotency_key="mine")

    keys = [request.headers.get("Idempotency-Key") for request in sent]
    assert len({*keys[:2]}) == 2, "two stops are two requests"
    assert all(keys[:2])
    assert keys[2:] == [None, None, "mine"]


# --- Versions, and changes that come between --------------------------------------------------------------------------


def test_a_version_goes_as_a_precondition_and_only_where_there_is_one(anywhere: berth.Client, sent: list[httpx2.Request]) -> None:
    anywhere.quota.set_rules("q", version=0, max_jobs=1)
    anywhere.queues.set_limits("q", [], version=7)
    anywhere.queues.set_limits("q", [])

    assert [request.headers.get("If-Match") for request in sent] == ['"0"', '"7"', None]


def test_a_taint_is_tried_again_on_what_another_operator_has_written(stub: Any, client: Any) -> None:
    def another_wins(request: httpx2.Request) -> httpx2.Response:
        stub.node |= {"version": 4, "own_taints": {"old": "avoid", "theirs": "keep-out"}}
        return problem(412, "precondition_failed", "It was changed.")

    stub.fail("PATCH /nodes/.+", another_wins)
    stub.fail("GET /nodes/.+", lambda _request: httpx2.Response(200, json=stub.node))
    client.clusters.taint("node-1", {"mine": "avoid"})

    last = stub.sent("PATCH /nodes/.+")[-1]
    assert last.headers["If-Match"] == '"4"'
    assert json.loads(last.content) == {"taints": {"old": "avoid", "theirs": "keep-out", "mine": "avoid"}}


def test_a_taint_that_always_comes_too_late_is_given_up(stub: Any, client: Any) -> None:
    refusal = problem(412, "precondition_failed", "It was changed.")
    stub.fail("PATCH /nodes/.+", *[refusal] * 9)
    stub.fail("GET /nodes/.+", *[lambda _request: httpx2.Response(200, json=stub.node)] * 9)

    with pytest.raises(berth.errors.PreconditionFailed):
        client.clusters.taint("node-1", {"mine": "avoid"})
    assert len(stub.sent("PATCH /nodes/.+")) == 5


def test_a_change_with_a_version_is_not_sent_again_where_it_may_have_arrived(stub: Any, client: Any) -> None:
    stub.fail("PUT /queues/q/rules", httpx2.ReadError("the line broke"))

    with pytest.raises(berth.ServerUnreachable):
        client.quota.set_rules("q", version=3, max_jobs=1)
    assert len(stub.sent("PUT /queues/q/rules")) == 1


def test_a_price_has_a_field_for_each_resource_that_is_charged(anywhere: berth.Client) -> None:
    with pytest.raises(KeyError):
        anywhere.costs.set_prices("a100", {"disk": 1})


# --- Names ------------------------------------------------------------------------------------------------------------

NAMED = (
    {"id": ID, "name": "a", "path": "root/a", "tenant": {"slug": "t-1", "name": "vision"}},
    {"id": OTHER, "name": "root/a", "path": "root/b", "tenant": {"slug": "t-2", "name": "audio"}},
)


def named(stub: Any, *rows: dict[str, Any]) -> None:
    stub.fail("GET /queues", httpx2.Response(200, json={"items": list(rows), "next": None}))


def test_the_more_exact_of_two_names_wins(stub: Any, client: Any) -> None:
    named(stub, *NAMED)
    assert client.queues.get("root/a")["id"] == ID, "a path says more than a name"


def test_of_two_with_one_name_that_of_the_chosen_tenant_is_meant(stub: Any) -> None:
    rows = [{**NAMED[0], "name": "x"}, {**NAMED[1], "name": "x"}]
    with berth.Client(SERVER, TOKEN, tenant="audio", http=stub.transport()) as client:
        named(stub, *rows)
        assert client.queues.get("x")["id"] == OTHER
    with berth.Client(SERVER, TOKEN, tenant="t-1", http=stub.transport()) as client:
        named(stub, *rows)
        assert client.queues.get("x")["id"] == ID
    with berth.Client(SERVER, TOKEN, http=stub.transport()) as client:
        named(stub, *rows)
        with pytest.raises(berth.errors.Ambiguous) as caught:
            client.queues.get("x")
    assert caught.value.exit_code == 2
    assert "berth queues -o wide" in caught.value.hint


@pytest.mark.parametrize(
    ("find", "noun", "plural"),
    [
        (lambda c: c.queues.get("absent"), "queue", "queues"),
        (lambda c: c.clusters.node("absent"), "node", "nodes"),
        (lambda c: c.clusters.pool("absent"), "pool", "pools"),
        (lambda c: c.images.get("absent"), "image", "images"),
        (lambda c: c.templates.get("absent"), "template", "templates"),
        (lambda c: c.volumes.get("absent"), "volume", "volumes"),
    ],
)
def test_a_name_that_is_not_there_is_named_with_the_command_that_lists(client: Any, find: Ask, noun: str, plural: str) -> None:
    with pytest.raises(berth.NotFound) as caught:
        find(client)
    assert f"{noun} 'absent'" in caught.value.detail
    assert caught.value.hint.endswith(f"berth {plural}")
    assert (caught.value.status, caught.value.exit_code) == (404, 4)


def test_a_child_queue_below_a_path_gets_the_id_of_its_parent(stub: Any, client: Any) -> None:
    named(stub, *NAMED)
    client.queues.create("sub", parent="root/b")
    assert json.loads(stub.sent("POST /queues")[0].content) == {"name": "sub", "parent": OTHER}


def test_a_pool_that_two_clusters_have_is_named_with_its_cluster(stub: Any, client: Any) -> None:
    pools = stub.queue["pools"]
    pools[1]["pool"] |= {"name": "a100", "cluster": "remote"}

    with pytest.raises(berth.errors.Ambiguous) as caught:
        client.queues.limit("vision", "a100", gpu_millis=1)
    assert "local/a100, remote/a100" in caught.value.hint
    client.queues.limit("vision", "remote/a100", gpu_millis=1000)
    sent = {entry["pool"]: entry for entry in json.loads(stub.sent("PUT /queues/.+")[0].content)}
    assert sent[pools[1]["pool"]["id"]]["gpu_millis"] == 1000
    with pytest.raises(berth.NotFound, match="h200"):
        client.queues.limit("vision", "h200", gpu_millis=1)


# --- Pages ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("wanted", [0, 1, 4, 5, 7, 99])
def test_a_limit_is_kept_over_pages_that_are_larger_than_asked_for(stub: Any, client: Any, wanted: int) -> None:
    stub.jobs = [a_job(number=number) for number in range(1, 8)]
    stub.page_size = 4

    found = [job.id for job in client.jobs.list(limit=wanted)]
    assert found == [job["id"] for job in reversed(stub.jobs)][:wanted]
    assert len(stub.sent("GET /jobs")) == (0 if wanted == 0 else 1 if wanted <= 4 else 2)


def test_a_page_asks_for_no_more_than_is_wanted_and_never_for_more_than_a_page(stub: Any, client: Any) -> None:
    list(client.jobs.list(limit=3))
    list(client.jobs.list(limit=100_000))
    list(client.jobs.list())
    assert [request.url.params["limit"] for request in stub.sent("GET /jobs")] == ["3", *[str(limits.PAGE_SIZE)] * 2]


def test_filters_go_with_every_page(stub: Any, client: Any) -> None:
    stub.jobs = [a_job(state="failed", number=number) for number in range(1, 6)]
    stub.page_size = 2
    assert len(list(client.jobs.list(state="failed", q="中"))) == 5
    asked = stub.sent("GET /jobs")
    assert [request.url.params.get("cursor") for request in asked] == [None, "2", "4"]
    assert {(request.url.params["state"], request.url.params["q"]) for request in asked} == {("failed", "中")}


@pytest.mark.parametrize(
    ("line", "ask"),
    [
        ("GET /jobs/[^/]+/attempts", lambda c: c.jobs.attempts(ID)),
        ("GET /jobs/[^/]+/artifacts", lambda c: c.jobs.artifacts(ID)),
        ("GET /subscriptions", lambda c: c.activity.subscriptions()),
        ("GET /tenants/v/members", lambda c: c.tenants.members("v")),
        ("GET /usage", lambda c: c.usage()),
    ],
)
def test_a_list_that_is_given_whole_has_all_of_its_pages(stub: Any, client: Any, line: str, ask: Callable[[Any], Any]) -> None:
    for number in range(3):
        page = {"items": [{"id": f"row-{number}"}], "next": f"c-{number}" if number < 2 else None, "currency": "EUR"}
        stub.fail(line, httpx2.Response(200, json=page))

    assert [row["id"] for row in ask(client)] == ["row-0", "row-1", "row-2"]
    assert [request.url.params.get("cursor") for request in stub.sent(line)] == [None, "c-0", "c-1"]


@pytest.mark.parametrize("items", [None, {}, "abc", [1], [None], [["a"]]])
def test_rows_that_are_no_objects_are_no_list_of_berths(stub: Any, client: Any, items: Any) -> None:
    stub.fail("GET /(jobs|subscriptions)", *[httpx2.Response(200, json={"items": items, "next": None})] * 2)
    with pytest.raises(berth.errors.AnswerInvalid):
        list(client.jobs.list())
    with pytest.raises(berth.errors.AnswerInvalid):
        client.activity.subscriptions()


# --- Jobs -------------------------------------------------------------------------------------------------------------


def test_a_job_acts_on_itself_by_its_id(stub: Any, client: Any) -> None:
    stub.jobs = [a_job("digits", "running")]
    job = client.jobs.get("digits")
    again = job.rerun(changes={"env": {"A": "1"}})

    assert str(job) == f"digits {job.id} running"
    assert (job.has_ended, job.succeeded) == (False, False)
    assert job.stop(grace_seconds=1.5).data["desired"] == "stop"
    assert again.id != job.id
    assert [line(request) for request in stub.requests[1:]] == [f"POST /jobs/{job.id}/rerun", f"POST /jobs/{job.id}/stop"]
    stub.states_to_come = ["succeeded"]
    assert job.refresh().succeeded
    assert job.spec()["env"] == {"SEED": "7"}


@pytest.mark.parametrize("missing", ["id", "name", "state"])
def test_an_answer_that_lacks_what_every_job_has_is_no_job(stub: Any, client: Any, missing: str) -> None:
    shown = {key: value for key, value in a_job().items() if key != missing}
    stub.fail("GET /jobs/.+", httpx2.Response(200, json=shown))
    with pytest.raises(berth.errors.AnswerInvalid):
        client.jobs.get("digits")


def test_a_checkpoint_that_is_not_there_is_none_and_starts_nothing(stub: Any, client: Any) -> None:
    stub.jobs = [a_job("digits", "failed")]
    assert client.jobs.checkpoint("digits") is None
    with pytest.raises(berth.NotFound) as caught:
        client.jobs.rerun("digits", from_checkpoint=True)
    assert "checkpoint:" in caught.value.hint
    assert not stub.sent("POST .*")


def test_a_job_starts_from_the_checkpoint_of_another_with_the_changed_path(stub: Any, client: Any) -> None:
    stub.jobs = [a_job("digits", "failed")]
    job_id = stub.jobs[0]["id"]
    stub.specs[job_id] = {"name": "digits", "command": "true", "checkpoint": {"path": "ckpt", "every": "10m"}}

    client.jobs.rerun(job_id, from_checkpoint=True)
    client.jobs.clone(job_id, name="next", changes=["checkpoint.path=other"], from_checkpoint=True)
    first, second = (json.loads(request.content)["changes"] for request in stub.sent("POST .*"))
    assert first == {"checkpoint": {"path": "ckpt", "every": "10m", "from": job_id}}
    assert second == {"checkpoint": {"path": "other", "every": "10m", "from": job_id}, "name": "next"}


def test_a_folder_of_code_is_left_out_of_a_plan_and_sent_as_its_digest(stub: Any, client: Any, own_home: Path) -> None:
    (own_home / "work/code").mkdir()
    (own_home / "work/code/a.py").write_text("print(1)\n")
    spec = {"name": "x", "command": "python a.py", "code": {"path": "code"}}
    client.jobs.plan(spec)
    client.jobs.submit(spec)

    planned, submitted = (json.loads(request.content)["spec"] for request in stub.sent("POST /jobs"))
    assert planned == {"name": "x", "command": "python a.py"}
    [upload] = stub.uploads.values()
    assert upload.target == {"code": True}
    assert submitted["code"] == {"snapshot": upload.sha256}
    assert spec["code"] == {"path": "code"}, "what was given stays as it was"


def test_code_that_the_server_has_is_not_sent(stub: Any, client: Any, own_home: Path) -> None:
    (own_home / "work/a.py").write_text("print(1)\n")
    spec = {"command": "python a.py", "code": {"path": "."}}
    client.jobs.submit(spec)
    [upload] = stub.uploads.values()
    stub.known_code.add(upload.sha256)
    sent = len(stub.sent("PATCH /uploads/.+"))
    seen: list[int] = []

    client.jobs.submit(spec, progress=seen.append)
    assert len(stub.sent("PATCH /uploads/.+")) == sent
    assert seen == [upload.size_bytes]
