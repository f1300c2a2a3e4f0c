"""`--yes` means the same on every command: it skips the confirmation, and what cannot be taken back has one."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import httpx2
import pytest
from client_stub import CLUSTER, NODE, QUEUE, TENANT, USER

from berth.cli.root import COMMANDS, load_command

VERBS = frozenset({"delete", "remove", "rm", "revoke", "lose", "drain"})
"""What a command is called that takes something away for good."""
OTHERS = frozenset({"tenants disable", "users disable"})
"""The same by another name: people are locked out."""
BY_NAME = frozenset({"tenants delete"})
"""It asks for the tenant's name, which no --yes stands for: `--confirm`."""


def commands() -> Iterator[tuple[str, Any]]:
    """Every command of the program, with its groups taken apart."""
    for name, entry in COMMANDS.items():
        yield from _apart(name, load_command(name, entry))


def _apart(name: str, found: Any) -> Iterator[tuple[str, Any]]:
    subcommands = getattr(found, "commands", None)
    if not subcommands:
        yield name, found
    for word, subcommand in (subcommands or {}).items():
        yield from _apart(f"{name} {word}", subcommand)


ALL = dict(commands())
FINAL = sorted(name for name in ALL if (name.split()[-1] in VERBS or name in OTHERS) and name not in BY_NAME)


def option(found: Any) -> Any:
    return next((parameter for parameter in found.params if "--yes" in parameter.opts), None)


def test_yes_is_one_option_wherever_it_is() -> None:
    given = {name: option(found) for name, found in ALL.items() if option(found) is not None}
    assert len(given) > 20
    seen = {(tuple(sorted(each.opts)), each.is_flag, each.default, each.help, each.required) for each in given.values()}
    assert seen == {(("--yes", "-y"), True, False, "Skip the confirmation.", False)}
    letters = {name for name, found in ALL.items() for each in found.params if "-y" in each.opts and "--yes" not in each.opts}
    assert not letters, "-y is --yes and nothing else"


def test_what_cannot_be_taken_back_has_it() -> None:
    assert {name for name in FINAL if option(ALL[name]) is None} == set()


# Their arguments, and what the stub has to answer before the question.
LINES: dict[str, tuple[tuple[str, ...], str, Any]] = {
    "volumes rm": (("volumes", "rm", "digits", "a.txt"), "", None),
    "volumes delete": (("volumes", "delete", "digits"), "", None),
    "images delete": (("images", "delete", "jax-cpu"), "", None),
    "nodes drain": (("nodes", "drain", "node-1"), "POST /nodes/[^/]+/drain", {"node": NODE, "jobs": [], "plan": "plan-1"}),
    "clusters lose": (("clusters", "lose", CLUSTER["name"]), "", None),
    "clusters remove": (("clusters", "remove", CLUSTER["name"]), "", None),
    "queues delete": (("queues", "delete", QUEUE["name"]), "", None),
    "budgets remove": (("budgets", "remove", QUEUE["name"]), "", None),
    "tenants disable": (
        ("tenants", "disable", "vision"),
        "POST /tenants/vision/disable",
        {"tenant": TENANT, "tenants": 1, "people": 1, "waiting": 0, "running": 0, "stopped": 0},
    ),
    "members remove": (("members", "remove", USER["name"]), "", None),
    "secrets delete": (("secrets", "delete", "HF"), "", None),
    "registries remove": (("registries", "remove", "registry.example.org"), "", None),
    "users disable": (("users", "disable", USER["name"]), "", None),
    "notify remove": (("notify", "remove", "s-1"), "", None),
    "announcements delete": (("announcements", "delete", "a-1"), "", None),
    "tokens revoke": (("tokens", "revoke", "laptop"), "", None),
}


def writes(stub: Any) -> list[httpx2.Request]:
    return [request for request in stub.requests if request.method != "GET" and request.url.params.get("dry_run") != "true"]


def test_every_command_that_cannot_be_taken_back_is_tried_here() -> None:
    assert sorted(LINES) == FINAL


@pytest.mark.parametrize("name", sorted(LINES))
def test_without_a_terminal_it_is_refused_and_with_yes_it_is_done(run: Any, stub: Any, name: str) -> None:
    words, line, plan = LINES[name]
    stub.volumes = {"digits": {}}
    if line:
        stub.fail(line, *[httpx2.Response(200, json=plan)] * 3)
    refused = run(*words)
    assert (refused.exit_code, "--yes" in refused.stderr) == (2, True), refused.stderr
    assert not writes(stub), "nothing was asked of the server"

    run(*words, "--yes")
    assert len(writes(stub)) == 1


LEFT = {
    "user": USER,
    "kinds": [
        {"kind": "running", "count": 0, "first": [], "can_be_handed_over": True},
        {"kind": "waiting", "count": 21, "first": [{"id": "1", "name": "train", "tenant": TENANT}], "can_be_handed_over": True},
        {"kind": "schedules", "count": 1, "first": [], "can_be_handed_over": True},
    ],
}


@pytest.mark.parametrize(
    ("words", "path"),
    [
        (("members", "remove"), f"GET /tenants/{TENANT['slug']}/members/{USER['id']}/left"),
        (("users", "disable"), f"GET /users/{USER['id']}/left"),
    ],
)
def test_what_a_user_leaves_is_shown_before_the_question(run: Any, stub: Any, words: tuple[str, ...], path: str) -> None:
    stub.fail(path, *[httpx2.Response(200, json=LEFT)] * 2)
    shown = run(*words, USER["name"])
    rows = [line.split() for line in shown.stdout.splitlines()]
    assert rows[1] == ["waiting", "jobs", "21", "train,", "..."]
    assert rows[2][:2] == ["schedules", "1"], "a kind that the client does not know is shown by its name"
    assert "running" not in shown.stdout
    run(*words, USER["name"], "--json", "-y")
    assert len(stub.sent(path)) == 1, "programs have asked for nothing but the change"
    both = run(*words, USER["name"], "--stop-jobs", "--hand-to", "bob", "-y")
    assert (both.exit_code, "not both" in both.stderr) == (2, True)
