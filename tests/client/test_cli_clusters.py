"""`berth clusters add`, `change`, `check`, `enable`, `disable` and `remove`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import httpx2
import pytest
from client_stub import NOON, problem

ID = "01936f3e-8d1c-7a40-9c2b-5f0e6a7d1004"
CLUSTER = {
    "id": ID,
    "name": "research",
    "kind": "kubernetes",
    "is_enabled": True,
    "condition": {"name": "reachable", "detail": "", "since_at": NOON},
    "isolation": {"tenants_kept_apart": True, "facts": ["Pods are restricted."]},
    "inventory_read_at": NOON,
    "config": {"node_selector": {"team": "vision"}, "default_image": "base:2"},
    "access": {
        "server": "https://k8s:6443",
        "account": "berth",
        "origin": "kubeconfig",
        "expires_at": None,
        "verifies_tls": True,
    },
    "version": 3,
}
FINE = {"outcome": "ok", "items": [{"check": "reachable", "outcome": "ok", "text": "The API server answers.", "hint": ""}]}
WEAK = {
    "outcome": "failed",
    "items": [
        *FINE["items"],
        {"check": "metrics", "outcome": "warning", "text": "There is no Metrics API.", "hint": "Install metrics-server."},
        {
            "check": "permissions",
            "outcome": "failed",
            "text": "The account may not list on nodes.",
            "hint": "Bind the ClusterRole.",
        },
    ],
}


@pytest.fixture
def there(stub: Any) -> Any:
    """A server with this cluster."""
    stub.fail("GET /clusters", *[httpx2.Response(200, json={"items": [CLUSTER], "next": None}) for _ in range(3)])
    stub.fail(f"PATCH /clusters/{ID}", httpx2.Response(200, json=CLUSTER))
    return stub


def answers(stub: Any, line: str, body: Any, status: int = 200) -> None:
    stub.fail(line, httpx2.Response(status, json=body))


def bodies(stub: Any, line: str) -> list[Any]:
    return [json.loads(request.content) for request in stub.sent(line)]


def test_a_cluster_is_checked_then_added(run: Any, stub: Any) -> None:
    Path("k.yaml").write_text("kind: Config\n")
    Path("settings.yaml").write_text("default_image: base:1\nnode_selector: {team: vision}\n")
    answers(stub, "POST /clusters:check", FINE)
    answers(stub, "POST /clusters", CLUSTER, 201)
    words = ("--kubeconfig", "k.yaml", "-f", "settings.yaml", "--set", "pod_addresses=true", "--set", "node_selector.a.b/c=1")
    done = run("clusters", "add", "research", *words)
    assert done.exit_code == 0, done.output
    assert "Cluster research is added." in done.stderr
    wanted = {
        "name": "research",
        "kind": "kubernetes",
        "config": {"default_image": "base:1", "node_selector": {"team": "vision", "a.b/c": "1"}, "pod_addresses": True},
        "credentials": "kind: Config\n",
    }
    assert bodies(stub, "POST /clusters:check") == [wanted]
    assert bodies(stub, "POST /clusters") == [{**wanted, "is_enabled": True}]


def test_what_fails_its_check_is_not_added_unless_it_is_wanted(run: Any, stub: Any) -> None:
    answers(stub, "POST /clusters:check", WEAK)
    refused = run("clusters", "add", "research", "--kubeconfig", "-", input="kind: Config\n")
    assert (refused.exit_code, stub.sent("POST /clusters")) == (1, [])
    assert "✗ permissions  The account may not list on nodes." in refused.stderr
    assert "→ Bind the ClusterRole." in refused.stderr
    assert "API server answers" not in refused.stderr
    answers(stub, "POST /clusters", CLUSTER, 201)
    done = run("clusters", "add", "research", "--in-cluster", "--skip-check", "--disabled")
    assert done.exit_code == 0
    [sent] = bodies(stub, "POST /clusters")
    assert (sent["credentials"], sent["is_enabled"]) == (None, False)


def test_a_dry_run_stores_nothing(run: Any, stub: Any) -> None:
    answers(stub, "POST /clusters:check", WEAK)
    shown = run("clusters", "add", "research", "--in-cluster", "--dry-run")
    assert (shown.exit_code, stub.sent("POST /clusters")) == (1, [])
    assert "! metrics" in shown.stdout


@pytest.mark.parametrize(
    "words",
    [
        (),
        ("--kubeconfig", "absent.yaml"),
        ("--kubeconfig", "-", "--in-cluster"),
        ("--in-cluster", "--set", "nothing"),
        ("--in-cluster", "-f", "list.yaml"),
    ],
)
def test_what_cannot_be_meant_is_told_before_anything_is_sent(run: Any, stub: Any, words: tuple[str, ...]) -> None:
    Path("list.yaml").write_text("- a\n")
    assert run("clusters", "add", "research", *words).exit_code == 2
    assert stub.requests == []


def test_errors_stand_at_their_settings(run: Any, stub: Any) -> None:
    fields = [{"path": "/config/paralel", "code": "unknown_field", "message": "paralel: not known.", "hint": ""}]
    stub.fail("POST /clusters:check", problem(422, "invalid_input", "paralel: not known.", fields=fields))
    refused = run("clusters", "add", "research", "--in-cluster", "--set", "paralel=2")
    assert refused.exit_code == 2
    assert "paralel: not known." in refused.stderr


def test_settings_are_changed_one_by_one(run: Any, there: Any) -> None:
    words = ("--set", "node_selector.zone=a", "--unset", "default_image", "--name", "lab")
    assert run("clusters", "change", "research", *words).exit_code == 0
    [request] = there.sent(f"PATCH /clusters/{ID}")
    assert request.headers["If-Match"] == '"3"'
    config = {"node_selector": {"team": "vision", "zone": "a"}, "default_image": None}
    assert json.loads(request.content) == {"name": "lab", "config": config}


def test_a_change_of_nothing_is_a_mistake(run: Any, there: Any) -> None:
    assert run("clusters", "change", "research").exit_code == 2
    assert there.sent("PATCH .*") == []


@pytest.mark.parametrize(("verb", "enabled"), [("enable", True), ("disable", False)])
def test_a_cluster_is_enabled_and_disabled(run: Any, there: Any, verb: str, enabled: bool) -> None:
    assert run("clusters", verb, "research").exit_code == 0
    assert bodies(there, f"PATCH /clusters/{ID}") == [{"is_enabled": enabled}]


def test_a_cluster_is_declared_lost_after_a_question(run: Any, there: Any) -> None:
    asked = run("clusters", "lose", "research")
    assert (asked.exit_code, there.sent("PATCH .*")) == (2, [])
    assert run("clusters", "lose", "research", "-y").exit_code == 0
    assert bodies(there, f"PATCH /clusters/{ID}") == [{"is_lost": True}]


def test_a_check_ends_with_one_where_something_fails(run: Any, there: Any) -> None:
    answers(there, f"POST /clusters/{ID}/check", WEAK)
    shown = run("clusters", "check", "research")
    assert shown.exit_code == 1
    assert [line.split()[:2] for line in shown.stdout.splitlines() if not line.startswith(" ")] == [
        ["✓", "reachable"],
        ["!", "metrics"],
        ["✗", "permissions"],
    ]
    answers(there, f"POST /clusters/{ID}/check", FINE)
    fine = run("clusters", "check", "research", "--json", "--set", "default_image=b:3")
    assert (fine.exit_code, json.loads(fine.stdout)) == (0, FINE)
    assert bodies(there, f"POST /clusters/{ID}/check") == [{}, {"config": {"default_image": "b:3"}}]


def test_a_cluster_is_removed_after_a_question(run: Any, there: Any) -> None:
    assert run("clusters", "remove", "research").exit_code == 2
    there.fail(f"DELETE /clusters/{ID}", httpx2.Response(204))
    done = run("clusters", "remove", "research", "--yes")
    assert (done.exit_code, len(there.sent(f"DELETE /clusters/{ID}"))) == (0, 1)


def test_what_stands_against_a_removal_is_told(run: Any, there: Any) -> None:
    fields = [{"path": "", "code": "live_attempts", "message": "1 attempt lives there (train).", "hint": "Drain it first."}]
    there.fail(f"DELETE /clusters/{ID}", problem(409, "conflict", "Cluster research cannot be removed.", fields=fields))
    refused = run("clusters", "remove", "research", "-y")
    assert refused.exit_code == 1
    assert "1 attempt lives there (train)." in refused.stderr


def test_a_cluster_is_shown_with_its_address_and_settings(run: Any, there: Any) -> None:
    shown = run("clusters", "research").stdout
    assert "https://k8s:6443" in shown
    assert 'node_selector: {"team": "vision"}' in shown
