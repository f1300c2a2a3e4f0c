"""Job files and `--set`: what is read, what is changed, what is refused with its line, and what is sent in the end."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml
from client_stub import a_job

from berth import limits
from berth.cli.blocks import BlockDumper
from berth.compare import spec_difference
from berth.errors import FieldProblem, SpecInvalid
from berth.specs import MISSING, SpecSource, apply_changes, difference, in_single_role, load_spec, parse_spec, parse_value

SPEC = {
    "name": "train",
    "env": {"SEED": "7", "DEBUG": None},
    "outputs": ["model", "log"],
    "roles": {"worker": {"command": "true", "replicas": 2, "resources": {"gpu": 1}}},
}


def read(text: str) -> Any:
    return parse_spec(text, name="job.yaml", folder=Path()).spec


# --- Reading ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("a: on", "on"),
        ("a: yes", "yes"),
        ("a: No", "No"),
        ("a: true", True),
        ("a: FALSE", False),
        ("a: null", None),
        ("a: ~", None),
        ("a:", None),
        ("a: 2027-01-31", "2027-01-31"),
        ("a: 12:30:45", "12:30:45"),
        ("a: 010", 10),
        ("a: 0o17", 15),
        ("a: 0xff", 255),
        ("a: -3", -3),
        ("a: 1_000", "1_000"),
        ("a: .5", 0.5),
        ("a: 1e3", 1000.0),
        ("a: 1.", 1.0),
        ("a: .inf", ".inf"),
        ("a: '7'", "7"),
        ("a: =", "="),
        ("a: <<", "<<"),
        ("a: [1, b, {c: 2}]", [1, "b", {"c": 2}]),
        ('{"a": {"b": "中"}}', {"b": "中"}),
        ("a: |\n  x\n  y\n", "x\ny\n"),
    ],
)
def test_a_scalar_is_what_yaml_1_2_says(text: str, value: Any) -> None:
    found = read(text)["a"]
    assert found == value
    assert type(found) is type(value)


@pytest.mark.parametrize(
    ("text", "line", "told"),
    [
        ("a: 1\na: 2\n", 2, "written twice"),
        ("x: {b: 1,\n  b: 2}\n", 2, "written twice"),
        ("a: 1\nb: &x 2\n", 2, "anchors"),
        ("a: &x [1]\nb: *x\n", 1, "anchors"),
        ("a: 1\n? [b, c]\n: 2\n", 2, "plain text"),
        ("a: 1\n\nb: !!python/object:os.system x\n", 3, "tag"),
        ("a: 1\nb: !secret x\n", 2, "tag"),
        ("a: 1e999\n", 1, "too large"),
        (f"a: {'9' * 5000}\n", 1, "too large"),
        ("a: [1\nb: 2\n", 2, ""),
        ("a: 1\n\tb: 2\n", 2, ""),
        (f"a: 1\nb: {'[' * 40}{']' * 40}\n", 2, "deeper"),
    ],
)
def test_a_mistake_is_told_with_its_line(text: str, line: int, told: str) -> None:
    with pytest.raises(SpecInvalid) as caught:
        read(text)
    [problem] = caught.value.fields
    assert (problem.file, problem.line, problem.place) == ("job.yaml", line, f"job.yaml:{line}")
    assert told in problem.message
    assert caught.value.exit_code == 2


def test_all_mistakes_are_told_at_once() -> None:
    with pytest.raises(SpecInvalid, match="3 mistakes") as caught:
        read("a: 1\na: 2\nb: !x 3\nc: 1e999\n")
    assert [problem.line for problem in caught.value.fields] == [2, 3, 4]


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("", "empty"),
        ("# only a remark\n", "empty"),
        ("- a\n", "key: value"),
        ("just words", "key: value"),
        ("7", "key: value"),
        ("#!/bin/bash\n#SBATCH --gres=gpu:1\n", "OpenPAI or Slurm"),
        ("protocolVersion: 2\ntaskRoles: {}\n", "OpenPAI or Slurm"),
    ],
)
def test_what_is_no_job_file_is_said_to_be_none(text: str, told: str) -> None:
    with pytest.raises(SpecInvalid, match=told):
        read(text)


def test_a_file_is_read_with_its_folder_and_refused_when_it_is_none(own_home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = own_home / "work/项目"
    folder.mkdir()
    (folder / "job.yaml").write_text("command: echo 你好\n")
    assert load_spec(folder / "job.yaml").folder == folder
    assert load_spec("项目/job.yaml").spec == {"command": "echo 你好"}
    assert load_spec("command: x").folder == own_home / "work"
    (folder / "job.yaml").write_bytes(b"command: \xff\xfe\n")
    for absent in (folder / "job.yaml", folder, folder / "absent.yaml"):
        with pytest.raises(SpecInvalid, match="cannot be read"):
            load_spec(absent)
    monkeypatch.setattr(limits, "SPEC_BYTES", 10)
    (folder / "job.yaml").write_text("command: 0123456789\n")
    for large in (folder / "job.yaml", "command: 0123456789"):
        with pytest.raises(SpecInvalid, match="larger"):
            load_spec(large)


def test_a_mapping_is_copied_before_anything_is_laid_over_it() -> None:
    given = {"env": {"A": "1"}}
    source = load_spec(given)
    source.spec["env"]["A"] = "2"
    assert given == {"env": {"A": "1"}}


@pytest.mark.parametrize(
    ("pointer", "line"),
    [
        ("/name", 1),
        ("/roles/worker/resources/gpu", 5),
        ("/roles/worker/resources/absent", 4),
        ("/spec/roles/worker", 3),
        ("/outputs/1", 8),
        ("/outputs/9", 6),
        ("/a~1b", 9),
        ("/absent", 1),
        ("", 1),
    ],
)
def test_a_place_gets_its_line_or_that_of_what_surrounds_it(pointer: str, line: int) -> None:
    text = "name: x\nroles:\n  worker:\n    resources:\n      gpu: 1\noutputs:\n- a\n- b\na/b: 1\n"
    source = parse_spec(text, name="job.yaml", folder=Path())
    [located] = source.locate([FieldProblem(pointer, "m")])
    assert (located.file, located.line) == ("job.yaml", line)


def test_a_tenant_is_no_line_of_the_file() -> None:
    problem = FieldProblem("/tenant", "m")
    assert parse_spec("name: x\n", name="job.yaml", folder=Path()).locate([problem]) == (problem,)
    assert SpecSource({}).locate([FieldProblem("/name", "m")])[0].place == "/name"


# --- Changing ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("change", "path", "value"),
    [
        ("roles.worker.replicas=4", ("roles", "worker", "replicas"), 4),
        ("roles.worker.resources.memory=32Gi", ("roles", "worker", "resources", "memory"), "32Gi"),
        ("roles.worker.command=echo a=b", ("roles", "worker", "command"), "echo a=b"),
        ("env.SEED=8", ("env", "SEED"), "8"),
        ("env.NEW=8", ("env", "NEW"), "8"),
        ("env.DEBUG=true", ("env", "DEBUG"), "true"),
        ("env.NEW='8'", ("env", "NEW"), "8"),
        ("outputs.1=日志", ("outputs", 1), "日志"),
        ("outputs=[a, b]", ("outputs",), ["a", "b"]),
        ("checkpoint.path=ckpt", ("checkpoint", "path"), "ckpt"),
        ("name=", ("name",), ""),
        ("hold=", ("hold",), None),
        ("hold=[", ("hold",), "["),
    ],
)
def test_a_change_reaches_its_place_and_no_other(change: str, path: tuple[Any, ...], value: Any) -> None:
    before = json.dumps(SPEC)
    changed: Any = apply_changes(SPEC, [change])
    assert json.dumps(SPEC) == before, "what was given stays"
    found = changed
    for step in path:
        found = found[step]
    assert found == value
    assert len(difference(SPEC, changed)) <= 2


@pytest.mark.parametrize(
    "change",
    ["", "name", "=x", ".=x", "a..b=x", "a.=x", "name.x=1", "env.SEED.x=1", "outputs.2=x", "outputs.-1=x", "outputs.a=x"],
)
def test_a_change_that_leads_nowhere_is_refused(change: str) -> None:
    with pytest.raises(SpecInvalid) as caught:
        apply_changes(SPEC, [change])
    assert caught.value.exit_code == 2


@pytest.mark.parametrize(
    ("text", "value"), [("", None), ("4", 4), ("true", True), ("{a: 1}", {"a": 1}), ("a: b: c", "a: b: c"), ("中", "中")]
)
def test_a_value_of_one_line_is_yaml_where_it_can_be(text: str, value: Any) -> None:
    assert parse_value(text) == value


def test_what_only_a_role_has_is_changed_in_the_only_role() -> None:
    changes = ["replicas=4", "resources.gpu=2", "env.A=1", "name=x"]
    assert in_single_role(SPEC, changes) == ["roles.worker.replicas=4", "roles.worker.resources.gpu=2", "env.A=1", "name=x"]
    assert in_single_role({"roles": {"a": {}, "b": {}}}, changes) == changes
    assert in_single_role({"command": "true"}, changes) == changes


def test_what_differs_is_told_leaf_by_leaf() -> None:
    after = apply_changes(SPEC, ["env.SEED=8", "env.NEW=1", "outputs.0=x"])
    del after["roles"]
    assert difference(SPEC, after) == [
        ("env.SEED", "7", "8"),
        ("outputs", ["model", "log"], ["x", "log"]),
        ("roles.worker.command", "true", MISSING),
        ("roles.worker.replicas", 2, MISSING),
        ("roles.worker.resources.gpu", 1, MISSING),
        ("env.NEW", MISSING, "1"),
    ]
    sides = {entry["path"]: (entry["a"], entry["b"], entry["only_in"]) for entry in spec_difference(SPEC, after)}
    assert sides["env.SEED"] == ("7", "8", None)
    assert sides["env.NEW"] == (None, "1", "b")
    assert sides["roles.worker.replicas"] == (2, None, "a")
    assert difference(SPEC, SPEC) == []
    assert difference({"a": {}}, {"a": {"b": 1}}) == [("a", {}, MISSING), ("a.b", MISSING, 1)]


@pytest.mark.parametrize(
    "text", ["a\nb\n", "a\n\n  b", "\tx\ny", "x \ny", "\n", " \n ", "a\r\nb", "a\x1b[2J\nb", "中\n文", "a: b\n- c\n", "x\ny "]
)
def test_a_block_is_read_back_as_it_was(text: str) -> None:
    dumped = yaml.dump({"command": text}, Dumper=BlockDumper, allow_unicode=True)
    assert yaml.safe_load(dumped) == {"command": text}
    assert "\x1b" not in dumped


# --- What a submission sends ------------------------------------------------------------------------------------------


def sent(stub: Any) -> Any:
    return json.loads(stub.sent("POST /jobs")[-1].content)["spec"]


@pytest.mark.parametrize(
    ("words", "spec"),
    [
        (("echo", "a b"), {"name": "echo", "command": "echo 'a b'"}),
        (("echo a | wc",), {"name": "echo", "command": "echo a | wc"}),
        (("--name", "x", "-i", "jax", "-q", "nlp", "true"), {"name": "x", "image": "jax", "queue": "nlp", "command": "true"}),
        (
            ("-g", "a100:2", "-c", "4", "-m", "16Gi", "true"),
            {"name": "true", "command": "true", "resources": {"gpu": "a100:2", "cpu": 4, "memory": "16Gi"}},
        ),
        (("-g", "0.5", "-r", "3", "true"), {"name": "true", "command": "true", "replicas": 3, "resources": {"gpu": 0.5}}),
        (
            ("-e", "A=1", "-e", "B=x=y", "-e", "C=", "true"),
            {"name": "true", "command": "true", "env": {"A": "1", "B": "x=y", "C": ""}},
        ),
        (("--priority", "700", "--pool", "a100", "true"), {"name": "true", "command": "true", "priority": 700, "pool": "a100"}),
        (
            ("--priority", "high", "--max-runtime", "2h", "true"),
            {"name": "true", "command": "true", "priority": "high", "max_runtime": "2h"},
        ),
        (
            ("--keep", "model", "--keep", "log", "--framework", "pytorch", "true"),
            {"name": "true", "command": "true", "outputs": ["model", "log"], "framework": "pytorch"},
        ),
        (
            ("--set", "env.A=1", "--set", "hold=true", "true"),
            {"name": "true", "command": "true", "env": {"A": "1"}, "hold": True},
        ),
        (("训练",), {"name": "job", "command": "训练"}),
        (("/usr/bin/python3.11", "-m", "x"), {"name": "python3", "command": "/usr/bin/python3.11 -m x"}),
        (("a" * 100,), {"name": "a" * 60, "command": "a" * 100}),
    ],
)
def test_options_become_a_spec(run: Any, stub: Any, words: tuple[str, ...], spec: Any) -> None:
    done = run("submit", *words)
    assert done.exit_code == 0, done.output
    assert sent(stub) == spec
    assert done.stdout == f"{stub.jobs[-1]['id']}\n"


def test_options_are_laid_over_the_only_role_of_a_file_and_refused_over_several(run: Any, stub: Any) -> None:
    Path("one.yaml").write_text("name: x\nroles: {worker: {command: 'true', resources: {cpu: 1}}}\nenv: {A: '1'}\n")
    Path("two.yaml").write_text("name: x\nroles: {a: {command: 'true'}, b: {command: 'true'}}\n")
    assert run("submit", "-f", "one.yaml", "-g", "2", "-r", "4", "-e", "B=2").exit_code == 0
    assert sent(stub)["roles"] == {"worker": {"command": "true", "resources": {"cpu": 1, "gpu": 2}, "replicas": 4}}
    assert sent(stub)["env"] == {"A": "1", "B": "2"}

    before = len(stub.requests)
    for option in (("-g", "1"), ("-r", "2"), ("-m", "1Gi")):
        assert run("submit", "-f", "two.yaml", *option).exit_code == 2
    assert len(stub.requests) == before
    assert run("submit", "-f", "two.yaml", "--set", "roles.a.resources.gpu=1").exit_code == 0
    assert sent(stub)["roles"]["a"]["resources"] == {"gpu": 1}


@pytest.mark.parametrize(
    "words",
    [
        (),
        ("-f", "job.yaml", "true"),
        ("-f", "absent.yaml"),
        ("-e", "A", "true"),
        ("-e", "=x", "true"),
        ("--set", "x", "true"),
        ("-r", "0", "true"),
    ],
)
def test_a_submission_that_cannot_be_meant_sends_nothing(run: Any, stub: Any, words: tuple[str, ...]) -> None:
    Path("job.yaml").write_text("command: 'true'\n")
    done = run("submit", *words)
    assert (done.exit_code, done.stdout, stub.requests) == (2, "", [])


@pytest.mark.parametrize(
    ("words", "changes"),
    [
        (("--set", "env.SEED=8"), {"env": {"SEED": "8"}}),
        (("--set", "replicas=4"), {"roles": {"worker": {"replicas": 4, "command": "true"}}}),
        (("--set", "name=again", "--set", "hold=true"), {"name": "again", "hold": True}),
        ((), None),
    ],
)
def test_a_rerun_sends_whole_keys_of_what_changes(run: Any, stub: Any, words: tuple[str, ...], changes: Any) -> None:
    stub.jobs = [a_job("train", "failed")]
    done = run("rerun", "train", *words)
    assert done.exit_code == 0, done.output
    [request] = stub.sent("POST /jobs/.+/rerun")
    assert json.loads(request.content) == ({} if changes is None else {"changes": changes})
    assert ("+ " in done.stderr) is bool(words), "the difference is shown"
    assert "- " not in run("rerun", "train", *words, "--json").stderr
