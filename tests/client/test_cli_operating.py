"""The command line of those who look after people, queues and machines; and how refusals read."""

from __future__ import annotations

import json
import stat
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import httpx2
import pytest
from client_stub import CODE, CPU_POOL, POOL, SERVER, TOKEN, USER, a_job, problem

from berth.cli.formats import RUNTIME_SECONDS_MAX
from berth.cli.messages import counted

UNSET: dict[str, str | None] = {"BERTH_SERVER": None, "BERTH_TOKEN": None}
PASSWORD = "a long pass phrase"

# --- Coming in --------------------------------------------------------------------------------------------------------


def test_an_invitation_is_a_command_and_a_code(run: Any) -> None:
    done = run("users", "invite", "bob@example.org", "--role", "manager")

    assert done.stdout == f"berth users accept --server {SERVER}\n{CODE}\n"
    assert CODE not in done.stderr


def test_accepting_makes_an_account_and_signs_in_with_it(run: Any, stub: Any, own_home: Path) -> None:
    done = run("users", "accept", "--server", SERVER, "--name", "bob", input=f"{CODE}\n{PASSWORD}\n", env=UNSET)

    assert done.exit_code == 0, done.stderr
    [request] = stub.sent("POST /invitations:accept")
    assert json.loads(request.content) == {"token": CODE, "name": "bob", "password": PASSWORD}
    assert "bob is member of vision." in done.stderr
    assert "Next: berth whoami" in done.stderr
    path = own_home / "config/berth/config.toml"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert TOKEN in path.read_text()
    assert not [secret for secret in (TOKEN, CODE, PASSWORD) if secret in done.output]
    assert run("whoami", env=UNSET).exit_code == 0


def test_accepting_for_a_program_keeps_the_token_and_does_not_print_it(run: Any) -> None:
    done = run("users", "accept", "--server", SERVER, "--name", "bob", "--json", input=f"{CODE}\n{PASSWORD}\n", env=UNSET)

    answer = json.loads(done.stdout)
    assert (answer["user"]["name"], answer["token"]["name"]) == ("bob", "first token")
    assert TOKEN not in done.output


def test_who_is_signed_in_joins_with_that_account(run: Any, stub: Any) -> None:
    done = run("users", "accept", input=f"{CODE}\n")

    assert done.exit_code == 0, done.stderr
    assert json.loads(stub.sent("POST /invitations:accept")[0].content) == {"token": CODE}
    assert "alice is member of vision." in done.stderr


def test_another_profile_is_another_account(run: Any, own_home: Path) -> None:
    run("login", "--server", SERVER, input=f"{TOKEN}\n", env=UNSET)
    words = ("users", "accept", "--server", SERVER, "--profile", "bob", "--name", "bob")
    done = run(*words, input=f"{CODE}\n{PASSWORD}\n", env=UNSET)

    assert done.exit_code == 0, done.stderr
    text = (own_home / "config/berth/config.toml").read_text()
    assert 'current = "bob"' in text
    assert '[profiles."default"]' in text


@pytest.mark.parametrize(
    ("typed", "code"),
    [("wrong\n", 2), ("", 2), (f"{CODE}\n", 2), (f"{CODE}\nshort\n", 2), (f"bi_used\n{PASSWORD}\n", 4)],
)
def test_an_invitation_that_cannot_be_accepted_keeps_nothing(run: Any, own_home: Path, typed: str, code: int) -> None:
    done = run("users", "accept", "--server", SERVER, "--name", "bob", input=typed, env=UNSET)

    assert done.exit_code == code, done.stderr
    assert not (own_home / "config/berth/config.toml").exists()


def test_a_token_that_cannot_be_kept_is_shown_rather_than_lost(run: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_words: object) -> None:
        raise OSError("no space left")

    monkeypatch.setattr("berth.cli.account.write_config", refuse)
    done = run("users", "accept", "--server", SERVER, "--name", "bob", input=f"{CODE}\n{PASSWORD}\n", env=UNSET)

    assert done.stdout == f"{TOKEN}\n"
    assert "no space left" in done.stderr
    assert "kept in" not in done.stderr


@pytest.mark.parametrize("form", ["json", "name"])
def test_a_token_that_cannot_be_kept_leaves_a_program_what_it_asked_for(
    run: Any, monkeypatch: pytest.MonkeyPatch, form: str
) -> None:
    def refuse(*_words: object) -> None:
        raise OSError("no space left")

    monkeypatch.setattr("berth.cli.account.write_config", refuse)
    words = ("users", "accept", "--server", SERVER, "--name", "bob", "-o", form)
    done = run(*words, input=f"{CODE}\n{PASSWORD}\n", env=UNSET)

    if form == "json":
        assert json.loads(done.stdout)["token"]["token"] == TOKEN
    else:
        assert (done.stdout, TOKEN in done.stderr) == ("member\n", True)
    assert "no space left" in done.stderr


def test_an_acceptance_whose_answer_was_lost_is_not_sent_twice(run: Any, stub: Any) -> None:
    import httpx2

    stub.fail("POST /invitations:accept", httpx2.ReadError("the line broke"))
    done = run("users", "accept", "--server", SERVER, "--name", "bob", input=f"{CODE}\n{PASSWORD}\n", env=UNSET)

    assert done.exit_code == 1
    assert len(stub.sent("POST /invitations:accept")) == 1


def test_signing_in_under_a_profile_goes_to_that_profiles_server(run: Any, own_home: Path) -> None:
    run("login", "--server", "http://127.0.0.1:8620", "--profile", "work", input=f"{TOKEN}\n", env=UNSET)
    run("login", "--server", SERVER, "--profile", "home", input=f"{TOKEN}\n", env=UNSET)
    done = run("login", "--profile", "work", input=f"{TOKEN}\n", env=UNSET)

    assert "http://127.0.0.1:8620" in done.stderr


def test_an_operator_called_operator_is_called_so_once(run: Any, stub: Any) -> None:
    import httpx2

    me = {"id": "x", "email": "", "is_operator": True, "kind": "person"}
    for name, shown in (("operator", "operator"), ("otto", "otto (operator)")):
        stub.fail("GET /whoami", httpx2.Response(200, json={"user": {**me, "name": name}, "token": None, "tenants": []}))
        assert f"User     {shown}\n" in run("whoami").stdout


# --- Machines ---------------------------------------------------------------------------------------------------------


def test_a_machine_is_taken_out_of_service_and_back(run: Any, stub: Any) -> None:
    done = run("nodes", "cordon", "node-1", "--reason", "Fan 3 is noisy.")
    assert "node-1 is cordoned: no new task starts" in done.stderr
    assert json.loads(stub.sent("PATCH /nodes/.+")[0].content) == {"cordoned": True, "cordon_reason": "Fan 3 is noisy."}
    assert "Fan 3 is noisy." in run("nodes", "node-1").stdout

    assert "node-1 accepts tasks again." in run("nodes", "uncordon", "node-1").stderr
    stub.node["ready"] = False
    assert "as soon as it is ready" in run("nodes", "uncordon", "node-1").stderr
    assert json.loads(run("nodes", "cordon", "node-1", "--json").stdout)["cordoned"] is True


def test_a_machine_is_tainted_and_what_others_gave_it_stays(run: Any, stub: Any) -> None:
    stub.node |= {"own_taints": {"old": "avoid"}}
    done = run("nodes", "taint", "node-1", "fpga", "flaky=avoid")
    assert "Taints of node-1: old=avoid, fpga, flaky=avoid." in done.stderr
    sent = stub.sent("PATCH /nodes/.+")[0]
    assert json.loads(sent.content) == {"taints": {"old": "avoid", "fpga": "keep-out", "flaky": "avoid"}}
    assert sent.headers["If-Match"] == '"3"'
    assert "fpga, flaky=avoid" in run("nodes", "node-1").stdout
    assert "Taints of node-1: fpga, flaky=avoid." in run("nodes", "untaint", "node-1", "old").stderr
    assert run("nodes", "taint", "node-1", "fpga=never").exit_code == 2


def test_how_a_pool_is_filled_is_changed_and_put_back(run: Any, stub: Any) -> None:
    options = (
        "--policy",
        "pack",
        "--weight",
        "taints=5",
        "--gpu-shares",
        "on",
        "--shared-gpus-max",
        "2",
        "--levels",
        "island,rack",
    )
    assert "has a new placement policy" in run("pools", "edit", "a100", *options).stderr
    run("pools", "edit", "a100", "--policy", "default", "--weight", "default", "--gpu-shares", "off", "--levels", "default")
    first, second = (json.loads(request.content) for request in stub.sent("PATCH /pools/.+"))
    rules = {"policy": "pack", "weights": {"taints": 5}, "gpu_shares": True}
    assert first == {**rules, "shared_devices_max": 2, "levels": ["island", "rack"]}
    assert second == {"policy": None, "weights": None, "gpu_shares": None, "levels": None}
    assert "GPU shares" in run("pools", "a100").stdout
    assert run("pools", "edit", "a100").exit_code == 2
    assert run("pools", "edit", "a100", "--weight", "pack=-1").exit_code == 2


def test_a_pool_is_renamed_and_the_answer_says_so(run: Any, stub: Any) -> None:
    assert "Pool a100 is renamed to h200." in run("pools", "edit", "a100", "--name", "h200").stderr
    (sent,) = stub.sent("PATCH /pools/.+")
    assert json.loads(sent.content) == {"name": "h200"}


def test_pools_show_how_fragmented_they_are_and_the_largest_that_could_start(run: Any) -> None:
    wide = {"COLUMNS": "200"}
    for command in ("pools", "gpus"):
        heads, row = run(command, env=wide).stdout.splitlines()[:2]
        assert ("LARGEST JOB" in heads, "FRAGMENTED" in heads) == (True, True)
        assert ("4 GPU" in row, "33%" in row) == (True, True)
    shown = run("pools", "a100", env=wide).stdout
    assert "a100: 6 on nodes 1 x 6; largest task 6, largest job 4" in shown
    assert "gpu_driver: 550, 560" in shown


def test_a_machine_may_be_shown_without_the_word_show(run: Any) -> None:
    assert run("nodes", "node-1").stdout == run("nodes", "show", "node-1").stdout
    assert json.loads(run("nodes", "node-1", "--json").stdout)["name"] == "node-1"
    assert json.loads(run("nodes", "--json").stdout)[0]["name"] == "node-1"
    assert run("nodes", "cordon", "nothing").exit_code == 4


def test_two_machines_of_one_name_are_not_guessed_between(run: Any, stub: Any) -> None:
    import httpx2

    twins = [stub.node, {**stub.node, "id": "0198c000-0000-7000-8000-000000000009"}]
    stub.fail("GET /nodes", httpx2.Response(200, json={"items": twins, "next": None}))
    done = run("nodes", "cordon", "node-1")

    assert done.exit_code == 2
    assert "Name it by its id" in done.stderr
    assert not stub.sent("PATCH /nodes/.+")


# --- Queues -----------------------------------------------------------------------------------------------------------


def test_a_limit_changes_what_is_named_and_keeps_the_rest(run: Any, stub: Any) -> None:
    done = run("queues", "limit", "vision", "--pool", "a100", "--gpu", "4", "--memory", "1.5Gi")

    assert done.exit_code == 0, done.stderr
    [request] = stub.sent("PUT /queues/.+/limits")
    assert request.headers["If-Match"] == '"1"'
    assert json.loads(request.content) == [
        {"pool": POOL["id"], "cpu_millis": None, "memory_bytes": 3 << 29, "gpu_millis": 4000},
        {"pool": CPU_POOL["id"], "cpu_millis": 16000, "memory_bytes": 64 << 30, "gpu_millis": None},
    ]
    assert "Queue vision, pool a100: GPU 4, CPU no limit, memory 1.5 GiB." in done.stderr
    assert "Usage exceeds the new limit" in done.stderr


def test_a_limit_is_lifted_by_none(run: Any, stub: Any) -> None:
    done = run("queues", "limit", "vision", "--pool", "local/a100", "--gpu", "none", "--json")

    assert json.loads(done.stdout)["pools"][0]["ceiling"]["gpu_millis"] is None
    assert [entry["pool"] for entry in json.loads(stub.sent("PUT /queues/.+")[0].content)] == [CPU_POOL["id"]]


def test_a_limit_is_tried_again_on_what_somebody_else_has_written_meanwhile(run: Any, stub: Any) -> None:
    def meanwhile(_request: object) -> None:
        stub.queue["version"] = 8
        stub.queue["pools"][1]["ceiling"] = {"cpu_millis": 1000, "memory_bytes": None, "gpu_millis": None}

    stub.fail("PUT /queues/.+/limits", meanwhile)
    done = run("queues", "limit", "vision", "--pool", "a100", "--cpu", "0.5")

    assert done.exit_code == 0, done.stderr
    assert [request.headers["If-Match"] for request in stub.sent("PUT /queues/.+")] == ['"1"', '"8"']
    assert [share["ceiling"]["cpu_millis"] for share in stub.queue["pools"]] == [500, 1000]


def test_a_limit_that_always_comes_too_late_gives_up(run: Any, stub: Any) -> None:
    stub.fail("PUT /queues/.+", *[problem(412, "precondition_failed", "Changed meanwhile.") for _ in range(9)])

    assert run("queues", "limit", "vision", "--pool", "a100", "--cpu", "1").exit_code == 1
    assert len(stub.sent("PUT /queues/.+")) == 5


@pytest.mark.parametrize(
    ("words", "code"),
    [
        (("--pool", "a100"), 2),
        (("--gpu", "8"), 2),
        (("--pool", "h100", "--gpu", "8"), 4),
        (("--pool", "a100", "--gpu", "many"), 2),
        (("--pool", "a100", "--gpu", "-1"), 2),
        (("--pool", "a100", "--gpu", "0.0001"), 2),
        (("--pool", "a100", "--memory", "64GB"), 2),
        (("--pool", "a100", "--memory", "1.2.3Gi"), 2),
    ],
)
def test_a_limit_that_means_nothing_is_not_sent(run: Any, stub: Any, words: tuple[str, ...], code: int) -> None:
    assert run("queues", "limit", "vision", *words).exit_code == code
    assert not stub.sent("PUT /queues/.+")


def test_the_time_that_jobs_are_planned_with_is_set_beside_the_longest(run: Any, stub: Any) -> None:
    done = run("queues", "runtime", "vision", "--default", "90m")
    assert done.exit_code == 0, done.stderr
    assert json.loads(stub.sent("PUT /queues/.+/rules")[0].content) == {"default_runtime_seconds": 5400}
    assert "Jobs of vision have no run time limit. Jobs without max_runtime are planned with 1h 30m." in done.stderr

    run("queues", "runtime", "vision", "12h", "--default", "none")
    assert json.loads(stub.sent("PUT /queues/.+/rules")[1].content) == {
        "max_runtime_seconds": 43_200, "default_runtime_seconds": None,
    }  # fmt: skip
    assert "planned with" not in run("queues", "runtime", "vision").stderr
    assert run("queues", "runtime", "vision", "--default", "soon").exit_code == 2
    assert len(stub.sent("PUT /queues/.+/rules")) == 2, "showing sets nothing, and no time is not sent"


@pytest.mark.parametrize("time", ["0s", "3651d", "40000d", "99999999d"])
def test_a_run_time_out_of_range_is_refused_with_the_queue_and_the_range(run: Any, stub: Any, time: str) -> None:
    for words in ((time,), ("--default", time)):
        refused = run("queues", "runtime", "vision", *words)
        assert refused.exit_code == 2
        assert f"{time} is not a valid run time for queue vision: it must be between 1s and 3650d." in refused.stderr
    assert not stub.sent("PUT /queues/.+")
    assert "须在 1s 到 3650d 之间" in run("queues", "runtime", "vision", time, env={"BERTH_LANG": "zh"}).stderr


def test_the_longest_run_time_of_a_queue_is_that_of_the_published_schema() -> None:
    schema = json.loads((Path(__file__).parents[2] / "client" / "openapi.json").read_text())["components"]["schemas"][
        "RulesInRequest"
    ]
    for name in ("max_runtime_seconds", "default_runtime_seconds"):
        assert schema["properties"][name]["maximum"] == RUNTIME_SECONDS_MAX


def test_limits_of_a_single_queue_are_spoken_of_in_the_singular() -> None:
    words = ("Limits of {count} queue are changed.", "Limits of {count} queues are changed.")
    assert [counted(count, *words) for count in (0, 1, 2)] == [
        "Limits of 0 queues are changed.", "Limits of 1 queue are changed.", "Limits of 2 queues are changed.",
    ]  # fmt: skip


def test_queues_are_split_and_renamed(run: Any, stub: Any) -> None:
    done = run("-t", "vision", "queues", "create", "training")
    assert "Queue vision/training is created." in done.stderr
    assert json.loads(stub.sent("POST /queues")[0].content) == {"name": "training", "tenant": "vision"}

    assert "Queue vision is renamed to sight." in run("queues", "rename", "vision", "sight").stderr
    assert json.loads(run("queues", "rename", "sight", "vision", "--json").stdout)["name"] == "vision"


# --- How it reads -----------------------------------------------------------------------------------------------------


def test_a_refusal_says_everything_once(run: Any, stub: Any) -> None:
    detail, advice = "Job huge asks for 16 GPUs; queue vision may use 8 of pool a100.", "Ask a manager to raise the ceiling."
    fields = [{"path": "/roles", "code": "ceiling_too_low", "message": detail, "hint": advice}]
    refusal = problem(422, "quota_exceeded", detail, hint=advice, fields=fields)
    Path("job.yaml").write_text("name: huge\nroles: {worker: {command: x}}\n")
    stub.fail("POST /jobs", refusal, refusal)

    done = run("submit", "-f", "job.yaml")
    assert (done.exit_code, done.stderr.count(detail), done.stderr.count(advice)) == (5, 1, 1)
    assert "job.yaml:2  /roles" in done.stderr
    done = run("submit", "true")
    assert (done.stderr.count(detail), done.stderr.count(advice)) == (1, 1)


def test_a_missing_tenant_is_no_fault_of_the_job_file(run: Any, stub: Any) -> None:
    detail = "Say which tenant: you belong to several tenants."
    fields = [{"path": "/tenant", "code": "required", "message": detail, "hint": "--tenant names one."}]
    Path("job.yaml").write_text("name: a\ncommand: x\n")
    stub.fail("POST /jobs", problem(422, "invalid_input", detail, hint="--tenant names one.", fields=fields))

    done = run("submit", "-f", "job.yaml")
    assert done.stderr == f"Error: {detail}\nHint: --tenant names one.\n"


def test_a_wait_for_other_jobs_names_them(run: Any, stub: Any) -> None:
    for detail, shown in (
        ({"open": 1}, "It waits for 1 other job."),
        ({"open": 1, "jobs": [{"id": "x", "name": "prepare"}]}, "It waits for job prepare."),
        ({"open": 2, "jobs": [{"name": "prepare"}, {"name": "clean"}]}, "It waits for jobs prepare, clean."),
        ({"open": 5, "jobs": [{"name": "a"}, {"name": "b"}, {"name": "c"}]}, "It waits for jobs a, b, c and 2 more."),
    ):
        reason = {"code": "dependency", "text": "It waits for 1 other job.", "detail": detail, "hint": ""}
        stub.jobs = [a_job("train", "queued", reason=reason)]
        assert shown in run("ps").stdout
        assert shown in run("get", "train").stdout


def test_measurements_that_are_not_there_yet_are_announced(run: Any, stub: Any) -> None:
    import httpx2

    now = datetime.now(UTC)
    for ended_at, shown in (
        (None, "they appear about 15 s later"),
        (now - timedelta(seconds=2), "they appear about 15 s later"),
        (now - timedelta(hours=1), "No measurements: the job was too short"),
    ):
        state = "succeeded" if ended_at else "running"
        stub.jobs = [a_job("digits", state, ended_at=ended_at.isoformat() if ended_at else None)]
        stub.fail("GET /jobs/.+/metrics", httpx2.Response(200, json={"items": []}))
        assert shown in run("metrics", "digits").stderr


def test_stopping_a_job_that_has_ended_says_so(run: Any, stub: Any) -> None:
    stub.jobs = [a_job("digits", "succeeded")]

    assert "Job digits had already ended: succeeded." in run("stop", "digits").stderr


def test_a_reason_goes_with_each_job_that_is_stopped(run: Any, stub: Any) -> None:
    stub.jobs = [a_job("one", "running", 1), a_job("two", "queued", 2)]
    done = run("stop", "one", "two", "--grace", "30s", "--reason", "wrong data: 数据有误")

    assert [json.loads(request.content) for request in stub.sent("POST /jobs/.+/stop")] == [
        {"grace_seconds": 30, "reason": "wrong data: 数据有误"}
    ] * 2
    assert "Job one was asked to stop; its state is running." in done.stderr
    assert "Job two was asked to stop; its state is queued." in done.stderr


@pytest.mark.parametrize("words", [(), ("--reason", "")])
def test_a_stop_without_a_reason_sends_none(run: Any, stub: Any, words: tuple[str, ...]) -> None:
    stub.jobs = [a_job("one", "running")]
    assert run("stop", "one", *words).exit_code == 0
    assert json.loads(stub.sent("POST /jobs/.+/stop")[0].content or "{}").get("reason", "") == ""


def test_a_reason_that_is_refused_is_told_with_its_rule(run: Any, stub: Any) -> None:
    stub.jobs = [a_job("one", "running")]
    field = {"path": "/reason", "code": "too_long", "message": "Give 200 characters at most.", "hint": ""}
    stub.faults.append(("POST /jobs/.+/stop", problem(422, "validation_failed", "One value is wrong.", fields=[field])))
    refused = run("stop", "one", "--reason", "x" * 201)

    assert refused.exit_code == 2
    assert "--reason" in refused.stderr
    assert "Give 200 characters at most." in refused.stderr


@pytest.mark.parametrize(
    ("words", "guess"),
    [
        (("users", "invit"), "invite"),
        (("queues", "limits", "vision"), "limit"),
        (("nodes", "cordn", "node-1"), "cordon"),
        (("job", "stp"), "stop"),
    ],
)
def test_a_misspelt_subcommand_is_guessed(run: Any, words: tuple[str, ...], guess: str) -> None:
    done = run(*words)

    assert done.exit_code == 2
    assert f"There is no command '{words[1]}'. Did you mean" in done.stderr
    assert guess in done.stderr.partition("Did you mean")[2]


# --- Tenants that end -------------------------------------------------------------------------------------------------

TOUCHED = {"tenant": {"name": "vision", "slug": "v"}, "tenants": 2, "people": 3, "waiting": 4, "running": 5, "stopped": 0}
GOING = {
    "tenant": {"name": "vision", "slug": "v"},
    "goes": {
        "members": 3, "service_accounts": 1, "invitations": 0, "secrets": 2, "bookings": 0, "volumes": 6, "images": 1,
    },
    "stays": {"jobs": 70},
    "plan": "plan-1",
}  # fmt: skip


def test_disabling_a_tenant_shows_whom_it_touches_before_it_asks(run: Any, stub: Any) -> None:
    path = "POST /tenants/vision/disable"
    stub.fail(path, httpx2.Response(200, json=TOUCHED))
    refused = run("tenants", "disable", "vision", "--reason", "Over.", input="n\n")
    assert len(stub.sent(path)) == 1, refused.output

    stub.fail(path, httpx2.Response(200, json=TOUCHED), httpx2.Response(200, json={**TOUCHED, "stopped": 5}))
    done = run("tenants", "disable", "vision", "--reason", "Over.", "--stop-jobs", "--yes")

    assert done.exit_code == 0, done.stderr
    asked, did = stub.sent(path)[-2:]
    assert asked.url.params["dry_run"] == "true"
    assert (json.loads(did.content), "dry_run" in did.url.params) == ({"reason": "Over.", "stop_jobs": True}, False)
    assert "vision is disabled; 5 running jobs were asked to stop." in done.output


def test_deleting_a_tenant_wants_its_name_and_does_what_was_shown(run: Any, stub: Any) -> None:
    path = "POST /tenants/vision/delete"
    stub.fail(path, httpx2.Response(200, json=GOING))
    assert run("tenants", "delete", "vision").exit_code != 0, "without a terminal nobody can be asked"
    assert len(stub.sent(path)) == 1

    stub.fail(path, httpx2.Response(200, json=GOING), httpx2.Response(200, json=GOING))
    done = run("tenants", "delete", "vision", "--confirm", "vision")

    assert done.exit_code == 0, done.stderr
    last = stub.sent(path)[-1]
    assert (json.loads(last.content), last.url.params["plan"]) == ({"confirm": "vision"}, "plan-1")
    assert "ledger, statements and audit stay" in done.output


def test_adding_who_is_a_member_already_changes_the_role(run: Any, stub: Any) -> None:
    already = problem(409, "conflict", "alice already belongs to this tenant.", hint="Change the role instead.")
    stub.fail("POST /tenants/[^/]+/members", already)
    changed = {"user": {"name": "alice"}, "role": "viewer"}
    stub.fail(f"PATCH /tenants/[^/]+/members/{USER['id']}", httpx2.Response(200, json=changed))

    done = run("members", "add", "alice", "--role", "viewer")
    assert done.exit_code == 0, done.stderr
    assert "alice is viewer of vision." in done.stderr
    [sent] = stub.sent("PATCH /tenants/[^/]+/members/[^/]+")
    assert json.loads(sent.content) == {"role": "viewer"}


def test_adding_a_member_again_without_a_role_takes_none_away(run: Any, stub: Any) -> None:
    stub.fail("POST /tenants/[^/]+/members", problem(409, "conflict", "alice already belongs to this tenant."))

    assert run("members", "add", "alice").exit_code == 1
    assert stub.sent("PATCH .*") == []


def test_a_conflict_about_who_is_no_member_is_told(run: Any, stub: Any) -> None:
    stub.fail("POST /tenants/[^/]+/members", problem(409, "conflict", "That is not possible."))

    refused = run("members", "add", "nobody", "--role", "viewer")
    assert (refused.exit_code, stub.sent("PATCH .*")) == (1, [])
    assert "That is not possible." in refused.stderr


def test_a_cluster_whose_condition_is_one_word_is_shown(run: Any, stub: Any) -> None:
    row = {"id": "c", "name": "old", "kind": "slurm", "condition": "reachable", "isolation": ["a uid per tenant"]}
    stub.fail("GET /clusters", httpx2.Response(200, json={"items": [row], "next": None}))
    shown = run("clusters")

    assert shown.exit_code == 0, shown.output
    assert "✓ reachable" in shown.stdout
