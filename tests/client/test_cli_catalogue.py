"""Templates, images, volumes, features, people and conversion at the command line."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import httpx2
import pytest
from client_stub import NOON, TENANT, USER, a_job, a_log

TEMPLATE = {
    "id": "0198c000-0000-7000-8000-00000000a001", "name": "train", "title": "Train a model", "title_zh": "训练模型",
    "description": "Trains.", "description_zh": "", "tenant": TENANT, "tags": ["vision"], "uses": 3,
    "test": {"result": "passed", "at": NOON, "job": {"id": "job-1"}},
    "parameters": [
        {"name": "epochs", "type": "integer", "default": 3, "choices": [], "minimum": 1, "maximum": 90, "title": "Epochs"},
        {"name": "note", "type": "string", "default": None, "choices": ["a", "b"], "title": "Note"},
        {"name": "rate", "type": "number", "default": 0.1, "choices": [], "minimum": None, "maximum": None, "title": "Rate"},
    ],
}  # fmt: skip
RENDERED = {"spec": {"name": "train", "command": "true"}, "problems": []}
IMAGE = {"id": "0198c000-0000-7000-8000-00000000a002", "name": "jax", "kind": "python", "state": "queued", "tenant": TENANT,
         "created_at": NOON, "requirements": "jax==0.5\n", "digest": "", "build_job_id": None}  # fmt: skip


def answer(stub: Any, line: str, body: Any, status: int = 200) -> None:
    stub.fail(line, httpx2.Response(status, json=body))


def body_of(stub: Any, pattern: str) -> Any:
    return json.loads(stub.sent(pattern)[-1].content)


# --- Templates --------------------------------------------------------------------------------------------------------


def with_template(stub: Any, **changes: Any) -> None:
    answer(stub, "GET /templates", {"items": [{**TEMPLATE, **changes}], "next": None})


def test_templates_are_searched_and_titled_in_the_users_language(run: Any, stub: Any) -> None:
    with_template(stub)
    assert "Train a model" in run("templates", "list", "-s", "model", "--tag", "vision").stdout
    params = stub.sent("GET /templates")[-1].url.params
    assert (params["q"], params["tag"]) == ("model", "vision")

    with_template(stub)
    chinese = run("templates", env={"BERTH_LANG": "zh"}).stdout
    assert "训练模型" in chinese
    assert "通过" in chinese


def test_a_template_shows_the_range_of_each_parameter(run: Any, stub: Any) -> None:
    with_template(stub)
    shown = run("templates", "show", "train").stdout
    rows = {line.split()[0]: line for line in shown.splitlines() if line.strip()}

    assert "1 - 90" in rows["epochs"]
    assert "a, b" in rows["note"]
    assert " - " not in rows["rate"].replace("number", "")
    assert "job-1" in shown


@pytest.mark.parametrize(
    ("word", "sent"),
    [("epochs=7", 7), ("epochs=many", "many"), ("note=7", "7"), ("note=a=b", "a=b"), ("unknown=true", True)],
)
def test_a_parameter_is_sent_as_its_type_has_it(run: Any, stub: Any, word: str, sent: Any) -> None:
    """A word that fits no type goes as it is: the server says what is wrong with it."""
    with_template(stub)
    answer(stub, "GET /templates/.+", TEMPLATE)
    answer(stub, "POST /templates/.+/render", RENDERED)
    done = run("templates", "render", "train", "-p", word)

    body = body_of(stub, "POST /templates/.+/render")
    assert body["parameters"] == {word.partition("=")[0]: sent}
    assert body["preview"] is True
    assert json.loads(done.stdout) == RENDERED["spec"]
    assert not stub.sent("POST /jobs")


def test_using_a_template_counts_it_and_submits_its_job(run: Any, stub: Any) -> None:
    with_template(stub)
    answer(stub, "GET /templates/.+", TEMPLATE)
    answer(stub, "POST /templates/.+/render", RENDERED)
    done = run("templates", "use", "train", "--name", "train", "-y")

    assert "Job train submitted" in done.stderr
    assert body_of(stub, "POST /templates/.+/render")["preview"] is False
    assert body_of(stub, "POST /jobs")["spec"] == RENDERED["spec"]


def test_a_template_whose_job_is_refused_submits_nothing_and_names_the_places(run: Any, stub: Any) -> None:
    with_template(stub)
    answer(stub, "GET /templates/.+", TEMPLATE)
    problems = [{"path": "/image", "message": "There is no image jax.", "hint": ""}]
    answer(stub, "POST /templates/.+/render", {**RENDERED, "problems": problems})
    done = run("templates", "use", "train", "-y")

    assert done.exit_code == 2
    assert "/image: There is no image jax." in done.stderr
    assert not stub.sent("POST /jobs")

    with_template(stub)
    assert run("templates", "use", "train", "-p", "epochs").exit_code == 2


def test_a_template_is_tested_by_a_job(run: Any, stub: Any) -> None:
    with_template(stub)
    answer(stub, "POST /templates/.+/test", {**TEMPLATE, "test": {"result": "running", "job": {"id": "job-2"}}})

    assert "Template train is being tested by job job-2." in run("templates", "test", "train").stderr


# --- Images -----------------------------------------------------------------------------------------------------------


def test_an_image_is_built_from_a_file_or_is_a_reference(run: Any, stub: Any) -> None:
    Path("requirements.txt").write_text("jax==0.5\n")
    answer(stub, "POST /images", IMAGE, 201)
    answer(stub, "GET /images/.+", IMAGE)
    answer(stub, "GET /images/.+/builds", {"items": [], "next": None})
    assert run("images", "build", "jax", "-r", "requirements.txt").exit_code == 0
    sent = body_of(stub, "POST /images")
    assert (sent["kind"], sent["requirements"]) == ("python", "jax==0.5\n")

    for words in ((), ("-r", "requirements.txt", "--reference", "registry/x"), ("-r", "absent.txt")):
        assert run("images", "build", "jax", *words).exit_code == 2, words
    assert len(stub.sent("POST /images")) == 1


def test_a_container_image_is_built_from_a_containerfile_or_a_base(run: Any, stub: Any) -> None:
    Path("Containerfile").write_text("FROM scratch\n")
    Path("requirements.txt").write_text("jax==0.5\n")
    answer(stub, "POST /images", IMAGE, 201)
    answer(stub, "GET /images/.+", IMAGE)
    answer(stub, "GET /images/.+/builds", {"items": [], "next": None})
    assert run("images", "build", "jax", "-c", "Containerfile", "--reference", "r.example.org/a:1").exit_code == 0
    sent = body_of(stub, "POST /images")
    assert (sent["kind"], sent["containerfile"], sent["reference"]) == ("registry", "FROM scratch\n", "r.example.org/a:1")
    answer(stub, "POST /images", {**IMAGE, "build_job_id": "job-1"}, 201)
    assert run("images", "build", "jax", "--base", "python:3", "-r", "requirements.txt", "--reference", "r/a").exit_code == 0

    for words in (
        ("-c", "Containerfile"),
        ("-c", "Containerfile", "--base", "python:3", "--reference", "r/a"),
        ("-c", "Containerfile", "-r", "requirements.txt", "--reference", "r/a"),
        ("--base", "python:3", "--reference", "r/a"),
        ("--context", ".", "--reference", "r/a"),
        ("-c", "absent", "--reference", "r/a"),
    ):
        assert run("images", "build", "jax", *words).exit_code == 2, words
    assert len(stub.sent("POST /images")) == 2
    assert "--containerfile FILE" in run("images", "build", "jax", "--context", ".").stderr


def test_an_image_is_built_again(run: Any, stub: Any) -> None:
    for _ in range(2):
        answer(stub, "GET /images", {"items": [{**IMAGE, "build_job_id": "job-1"}], "next": None})
    answer(stub, "POST /images/.+/builds", {"id": "build-2", "state": "queued"}, 201)
    done = run("images", "rebuild", "jax")
    assert done.exit_code == 0, done.stderr
    assert len(stub.sent("POST /images/.+/builds")) == 1


def test_the_folder_of_a_containerfile_is_uploaded_first(run: Any, stub: Any) -> None:
    Path("Containerfile").write_text("FROM scratch\nCOPY a /a\n")
    Path("context").mkdir()
    Path("context/a").write_text("a")
    answer(stub, "POST /images", IMAGE, 201)
    answer(stub, "GET /images/.+", IMAGE)
    answer(stub, "GET /images/.+/builds", {"items": [], "next": None})
    done = run("images", "build", "jax", "-c", "Containerfile", "--context", "context", "--reference", "r.example.org/a:1")
    assert done.exit_code == 0, done.stderr
    [upload] = stub.uploads.values()
    assert body_of(stub, "POST /images")["context_sha256"] == upload.sha256


def test_a_build_that_is_followed_ends_as_its_job_does(run: Any, stub: Any) -> None:
    Path("requirements.txt").write_text("jax==0.5\n")
    for state, code in (("succeeded", 0), ("failed", 1)):
        job = a_job("build-jax", state)
        stub.jobs, stub.logs = [job], [a_log("Collecting jax\n", 0)]
        answer(stub, "POST /images", IMAGE, 201)
        answer(stub, "GET /images/.+", {**IMAGE, "build_job_id": job["id"]})
        done = run("images", "build", "jax", "-r", "requirements.txt", "--follow")

        assert done.exit_code == code
        assert "Collecting jax" in done.stdout


@pytest.mark.parametrize("words", [("build", "jax", "-r", "requirements.txt"), ("rebuild", "jax")])
def test_a_build_that_never_started_is_told_and_no_earlier_one_is_followed(run: Any, stub: Any, words: tuple[str, ...]) -> None:
    Path("requirements.txt").write_text("jax==0.5\n")
    refused = {**IMAGE, "state": "failed", "build_job_id": None, "error": "The tenant may have 5 jobs."}
    answer(stub, "POST /images", {**IMAGE, "state": "queued", "build_job_id": None}, 201)
    for _ in range(2):
        answer(stub, "GET /images", {"items": [refused], "next": None})
    answer(stub, "GET /images/.+", refused)
    answer(stub, "POST /images/.+/builds", {"id": "build-2", "state": "queued"}, 201)
    stub.jobs, stub.logs = [a_job("build-jax", "succeeded")], [a_log("An earlier log\n", 0)]
    done = run("images", *words, "--follow")

    assert done.exit_code == 1
    assert "The build of image jax did not start: The tenant may have 5 jobs." in done.stderr
    assert "berth images rebuild jax" in done.stderr
    assert "An earlier log" not in done.stdout


def test_an_image_shows_its_requirements_and_builds_and_is_deleted_by_name(run: Any, stub: Any) -> None:
    build = {"job_id": "job-1", "state": "failed", "created_at": NOON, "started_at": NOON, "ended_at": "2026-11-20T12:01:00Z"}
    answer(stub, "GET /images", {"items": [IMAGE], "next": None})
    answer(stub, "GET /images/.+", IMAGE)
    answer(stub, "GET /images/.+/builds", {"items": [build], "next": None})
    shown = run("images", "get", "jax").stdout
    assert "jax==0.5" in shown
    assert "1m" in shown

    answer(stub, "GET /images", {"items": [IMAGE], "next": None})
    assert run("images", "delete", "jax").exit_code == 2, "without a terminal it needs --yes"
    assert not stub.sent("DELETE /images/.+")
    answer(stub, "GET /images", {"items": [IMAGE], "next": None})
    assert "Image jax is deleted." in run("images", "delete", "jax", "-y").stderr
    assert stub.sent(f"DELETE /images/{IMAGE['id']}")


# --- Volumes ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("words", "sent"),
    [
        (("--size", "1Gi"), {"size_quota_bytes": 1 << 30}),
        (("--cluster", "research"), {"kind": "claim", "cluster": "research", "claim": ""}),
        (("--cluster", "research", "--claim", "digits"), {"kind": "claim", "cluster": "research", "claim": "digits"}),
        (
            ("--nfs", "nas.example.org:/exports/a", "--read-only"),
            {"kind": "nfs", "server": "nas.example.org", "export": "/exports/a", "read_only": True},
        ),
    ],
)
def test_a_volume_is_made_where_its_words_say(run: Any, stub: Any, words: tuple[str, ...], sent: dict[str, Any]) -> None:
    assert "Volume data is created." in run("volumes", "create", "data", *words).stderr
    assert body_of(stub, "POST /volumes") == {"name": "data", **sent}


def test_a_share_without_its_directory_is_not_sent(run: Any, stub: Any) -> None:
    refused = run("volumes", "create", "data", "--nfs", "nas.example.org")
    assert refused.exit_code == 2
    assert "nas.example.org:/exports/data" in refused.stderr
    assert not stub.sent("POST /volumes")


def test_a_volume_is_granted_for_reading_unless_writing_is_asked_for(run: Any, stub: Any) -> None:
    stub.volumes = {"digits": {}}
    for words, read_only, told in (((), True, "may read"), (("--write",), False, "may write")):
        answer(stub, "POST /volumes/.+/grants", {"id": "grant-1"}, 201)
        assert f"Tenant speech {told} volume digits." in run("volumes", "grant", "digits", "speech", *words).stderr
        assert body_of(stub, "POST /volumes/.+/grants")["read_only"] is read_only


def test_files_of_a_volume_are_listed_and_removed(run: Any, stub: Any) -> None:
    stub.volumes = {"digits": {"raw/a.txt": b"abc", "b.txt": b"x"}}
    assert "raw" in run("volumes", "files", "digits").stdout
    assert "a.txt" in run("volumes", "files", "digits", "raw").stdout
    assert "raw/a.txt is deleted." in run("volumes", "rm", "digits", "raw/a.txt", "-y").stderr
    (request,) = stub.sent("DELETE /volumes/.+")
    assert request.url.params["path"] == "raw/a.txt"


def test_a_volume_is_deleted_after_a_yes_only(run: Any, stub: Any) -> None:
    stub.volumes = {"digits": {}}
    assert run("volumes", "delete", "digits").exit_code == 2
    assert not stub.sent("DELETE /.+")
    assert "Volume digits is deleted." in run("volumes", "delete", "digits", "-y").stderr


# --- Features, people, notifications ----------------------------------------------------------------------------------


@pytest.mark.parametrize(("verb", "value"), [("enable", True), ("disable", False), ("inherit", None)])
def test_a_feature_has_three_settings(run: Any, stub: Any, verb: str, value: bool | None) -> None:
    answer(stub, "PUT /features/terminals", {})
    assert run("features", verb, "terminals", "-t", "vision").exit_code == 0
    assert body_of(stub, "PUT /features/terminals") == {"enabled": value, "tenant": "vision"}


def test_a_user_is_disabled_and_enabled_by_name_or_id(run: Any, stub: Any) -> None:
    for verb, active, told in (("disable", False, "alice is disabled."), ("enable", True, "alice is enabled.")):
        answer(stub, "GET /users", {"items": [USER], "next": None})
        answer(stub, f"PATCH /users/{USER['id']}", {**USER, "is_active": active})
        assert told in run("users", verb, "alice", *(() if active else ("-y",))).stderr
        assert body_of(stub, "PATCH /users/.+") == {"is_active": active}
    answer(stub, "GET /users", {"items": [USER], "next": None})
    assert run("users", "disable", "bob", "-y").exit_code == 4
    answer(stub, f"PATCH /users/{USER['id']}", USER)
    assert run("users", "disable", USER["id"], "-y").exit_code == 0
    assert len(stub.sent("GET /users")) == 3, "an id needs no list"


def test_a_member_is_removed_after_a_yes_and_a_stranger_is_none(run: Any, stub: Any) -> None:
    for words, code in ((("alice",), 2), (("alice", "-y"), 0), (("mallory", "-y"), 4)):
        answer(stub, "GET /tenants/.+/members", {"items": [{"id": "member-1", "user": USER, "role": "member"}], "next": None})
        assert run("members", "remove", *words).exit_code == code, words
    assert len(stub.sent("DELETE /tenants/.+/members/.+")) == 1
    answer(stub, "GET /tenants/.+/members", {"items": [{"id": "member-1", "user": USER, "role": "member"}], "next": None})
    assert run("members", "remove", "alice", "--hand-to", "bob", "-y").exit_code == 0
    assert dict(stub.sent("DELETE /tenants/.+/members/.+")[-1].url.params) == {"hand_to": "bob"}


def test_a_token_is_revoked_by_its_name_where_one_has_it(run: Any, stub: Any) -> None:
    rows = [{"id": "t-1", "name": "ci", "prefix": "aaa"}, {"id": "t-2", "name": "ci", "prefix": "bbb"}]
    answer(stub, "GET /tokens", {"items": rows, "next": None})
    refused = run("tokens", "revoke", "ci")
    assert refused.exit_code == 2
    assert "2 tokens have the name ci." in refused.stderr
    assert not stub.sent("DELETE /.+")

    answer(stub, "GET /tokens", {"items": rows, "next": None})
    assert run("tokens", "revoke", "bbb", "-y").exit_code == 0
    assert stub.sent("DELETE /tokens/t-2")


def test_a_delivery_is_resent_and_a_subscription_ends(run: Any, stub: Any) -> None:
    answer(stub, "POST /deliveries/d-1/retry", {"id": "d-1"})
    assert "will be sent again" in run("notify", "retry", "d-1").stderr
    assert "You are unsubscribed." in run("notify", "remove", "s-1", "-y").stderr
    assert stub.sent("DELETE /subscriptions/s-1")


def test_the_page_of_a_job_is_printed_where_there_is_no_browser(run: Any, stub: Any) -> None:
    stub.jobs = [a_job("train")]
    assert run("open", "train").stdout.strip() == f"http://berth.test/jobs/{stub.jobs[0]['id']}"
    assert run("open").stdout.strip() == "http://berth.test/"


# --- Converting -------------------------------------------------------------------------------------------------------

NOTES = [
    {"kind": "carried", "place": "--gres", "line": 3, "text": "2 GPUs", "hint": ""},
    {"kind": "lost", "place": "--mail-user", "line": None, "text": "has no counterpart.", "hint": "berth notify add --mail"},
]


def test_a_script_becomes_a_job_file_and_says_what_was_lost(run: Any, stub: Any) -> None:
    Path("job.sh").write_text("#SBATCH --gres=gpu:2\n")
    answer(stub, "POST /jobs:convert", {"spec": {"command": "true"}, "notes": NOTES, "problems": []})
    done = run("convert", "job.sh", "--from", "sbatch")

    assert body_of(stub, "POST /jobs:convert") == {"text": "#SBATCH --gres=gpu:2\n", "from": "sbatch", "name": "job.sh"}
    assert done.stdout.strip() == "command: 'true'"
    assert "--mail-user: has no counterpart. berth notify add --mail" in done.stderr
    assert "--gres, line 3: 2 GPUs" in done.stderr
    assert done.stderr.index("Lost") < done.stderr.index("Carried over")


def test_a_converted_job_with_problems_says_so_and_standard_input_has_no_name(run: Any, stub: Any) -> None:
    problems = [{"path": "/image", "message": "is missing.", "hint": "Name one."}]
    answer(stub, "POST /jobs:convert", {"spec": {}, "notes": [], "problems": problems})
    done = run("convert", "-", input="protocolVersion: 2\n")

    assert body_of(stub, "POST /jobs:convert") == {"text": "protocolVersion: 2\n"}
    assert "/image: is missing. Name one." in done.stderr


def test_what_cannot_be_converted_is_refused_at_its_line_of_the_file(run: Any, stub: Any) -> None:
    fields = [{"path": "", "code": "bad", "message": "There is no --gress.", "hint": "", "line": 2}]
    body = {"code": "invalid_input", "detail": "The script has a mistake.", "fields": fields}
    Path("job.sh").write_text("x")
    answer(stub, "POST /jobs:convert", body, 422)

    assert "job.sh:2" in run("convert", "job.sh").stderr
    assert run("convert", "absent.sh").exit_code == 2
    Path("binary.sh").write_bytes(b"\x80\xff")
    assert run("convert", "binary.sh").exit_code == 2
