from __future__ import annotations

import subprocess
from datetime import UTC, datetime

import pytest
import yaml

from jobs import bounds
from jobs.spec import JobSpec, parse_document, parse_spec
from jobs.spec.advice import advise
from kernel import limits
from kernel.errors import InvalidInput
from kernel.words import as_text

FULL = """
name: digits
kind: batch
queue: vision                  # default: the tenant's top queue
pool: a100                     # or cluster; default: the scheduler picks
image: jax-cpu                 # a catalogue name or a registry reference
code: {path: .}
framework: jax
roles:
  worker:
    replicas: 2                # or {min: 1, max: 4}
    resources: {gpu: 1, cpu: 4, memory: 16Gi, shm: 8Gi}
    command: python train.py --epochs 3
    ports: [metrics]
priority: normal
max_runtime: 2h
retry: {limit: 3, on: [platform]}
checkpoint: {path: ckpt, signal: USR1, grace: 60s}
outputs: [model]
env: {SEED: "7"}
secrets: {HF_TOKEN: null}      # null: must exist in the tenant
mounts: [{volume: digits, path: /data, read_only: true}]
labels: {project: ocr}
"""


def a_spec(**keys: object) -> JobSpec:
    return parse_spec({"command": "true", **keys})


def errors_of(document: object) -> dict[str, str]:
    """Code by path of every error of a document."""
    with pytest.raises(InvalidInput) as refused:
        parse_spec(document)
    return {error.path: error.code for error in refused.value.fields}


def error_of(**keys: object) -> tuple[str, str]:
    found = errors_of({"command": "true", **keys})
    assert len(found) == 1, found
    return next(iter(found.items()))


def hint_of(**keys: object) -> str:
    with pytest.raises(InvalidInput) as refused:
        parse_spec({"command": "true", **keys})
    return str(refused.value.fields[0].hint)


# --- What is accepted ------------------------------------------------------------------------------------------------


def test_the_documented_job_is_read_with_its_units_normalised():
    spec = parse_document(FULL)
    worker = spec.roles["worker"]
    assert (worker.replicas.min, worker.replicas.max) == (2, 2)
    assert worker.resources.cpu_millis == 4000
    assert worker.resources.memory_bytes == 16 * limits.GIB
    assert worker.resources.shm_bytes == 8 * limits.GIB
    assert worker.resources.gpu.millis == 1000
    assert (worker.argv[:2], worker.argv[3:]) == (("/bin/sh", "-c"), ("python train.py --epochs 3",))
    assert worker.ports == ("metrics",)
    assert spec.max_runtime_seconds == 7200
    assert spec.retry is not None
    assert (spec.retry.limit, spec.retry.on) == (3, ("platform",))
    assert spec.checkpoint is not None
    assert (spec.checkpoint.path, spec.checkpoint.signal, spec.checkpoint.grace_seconds) == ("ckpt", "USR1", 60)
    assert spec.env == {"SEED": "7"}
    assert spec.secrets == {"HF_TOKEN": "HF_TOKEN"}
    assert spec.mounts[0].read_only
    assert spec.priority == 500


def test_a_command_is_all_that_a_job_needs():
    spec = parse_spec({"command": "true"})
    assert spec.name == "job"
    assert list(spec.roles) == ["worker"]
    assert spec.roles["worker"].resources.amounts.as_dict() == {
        "cpu_millis": 1000,
        "memory_bytes": 2 * limits.GIB,
        "gpu_millis": 0,
    }
    assert spec.retry is None
    assert spec.max_runtime_seconds is None


def run(spec, folder, **variables):
    return subprocess.run(spec.roles["worker"].argv, cwd=folder, env=variables, capture_output=True, text=True, check=False)


def test_text_is_run_by_bash_where_there_is_one_and_by_the_shell_that_is_asked_for(tmp_path):
    text = 'echo ${BASH_VERSION:+bash} "$X"; exit 3'
    assert [
        run(a_spec(command=text, **chosen), tmp_path, X="$Y 'a").stdout for chosen in ({}, {"shell": "bash"}, {"shell": "sh"})
    ] == [
        "bash $Y 'a\n",
        "bash $Y 'a\n",
        "$Y 'a\n",
    ]
    assert run(a_spec(command=text), tmp_path).returncode == 3
    assert errors_of({"command": ["x"], "shell": "bash"}) == {"/shell": "shell_unused"}


def test_variables_are_what_was_written():
    text = "command: x\nenv: {A: 3.10, B: True, C: 010, D: 1e3, E: 7, F: yes}"
    assert parse_document(text).env == {"A": "3.10", "B": "True", "C": "010", "D": "1e3", "E": "7", "F": "yes"}
    assert parse_spec({"command": "x", "env": {"A": 7, "B": True}}).env == {"A": "7", "B": "true"}
    with pytest.raises(InvalidInput) as refused:
        parse_spec({"command": "x", "env": {"A": 3.10}})
    assert "3.1" not in str(refused.value.fields[0].hint)


def test_a_search_path_that_a_shell_would_have_to_extend_is_refused_with_the_way_to_do_it():
    with pytest.raises(InvalidInput) as refused:
        parse_spec(
            {"roles": {"a": {"command": "x", "env": {"LD_LIBRARY_PATH": "/x:${LD_LIBRARY_PATH}"}}}, "env": {"PATH": "/x:$PATH"}}
        )
    assert [field.path for field in refused.value.fields] == ["/env/PATH", "/roles/a/env/LD_LIBRARY_PATH"]
    assert 'export PATH="/x:$PATH"' in str(refused.value.fields[0].hint)


def test_secrets_and_references_in_variables_are_told_and_never_refused():
    token = "ghp_" + "a" * 36
    spec = a_spec(env={"WANDB_API_KEY": "x", "PLAIN": token, "TOKENIZER": "bert", "OUT": "$HOME/out", "PASSWORD": ""})
    first, second, third = advise(spec)
    assert ("/env/WANDB_API_KEY" in first.en, "/env/PLAIN" in second.en, "OUT" in third.en) == (True, True, True)
    assert token not in second.en


def test_a_list_is_the_exact_argument_list():
    assert a_spec(command=["python", "-c", "print(1)"]).roles["worker"].argv == ("python", "-c", "print(1)")


@pytest.mark.parametrize("text", ["  spaced  ", "$HOME ${X} {x} %(x)s {{x}} <% $y %>", "a\n\tb\r\n", "ünïcödé 训练 🚢"])
def test_a_users_text_arrives_as_it_was_written(text):
    spec = a_spec(command=text + "x", env={"X": text})
    assert spec.roles["worker"].command == text + "x"
    assert spec.env["X"] == text


def test_keys_without_a_value_ask_for_the_default():
    assert parse_document("command: 'true'\nenv:\npool:\nroles:\nresources: {gpu: }\n") == parse_spec({"command": "true"})


def test_one_thresholds_shorthand_is_for_the_only_role():
    spec = a_spec(replicas=3, completion={"min_failed": 2, "min_succeeded": "never"})
    assert spec.completion.roles["worker"].min_failed == 2
    assert spec.completion.roles["worker"].min_succeeded == "never"


def test_a_number_is_an_array_of_that_size():
    assert a_spec(array=10) == a_spec(array={"size": 10})


def test_roles_come_in_the_order_of_their_names():
    roles = {name: {"command": "true"} for name in ("zeta", "alpha", "mid")}
    assert list(parse_spec({"roles": roles}).roles) == ["alpha", "mid", "zeta"]


def test_mpi_workers_need_no_command():
    roles = {"launcher": {"command": "mpirun ./solve"}, "worker": {"replicas": 4}}
    assert parse_spec({"framework": "mpi", "roles": roles}).roles["worker"].command == ":"
    assert errors_of({"framework": "mpi", "roles": {"launcher": {}, "worker": {}}}) == {"/roles/launcher/command": "missing"}


@pytest.mark.parametrize(
    ("written", "millis", "model"),
    [
        (1, 1000, ""),
        (0, 0, ""),
        (0.5, 500, ""),
        ("2", 2000, ""),
        ("a100:1", 1000, "a100"),
        ("NVIDIA-H100.80:0.25", 250, "NVIDIA-H100.80"),
    ],
)
def test_forms_of_gpu(written, millis, model):
    gpu = a_spec(resources={"gpu": written}).roles["worker"].resources.gpu
    assert (gpu.millis, gpu.model) == (millis, model)


@pytest.mark.parametrize(
    ("written", "millis"), [(4, 4000), (0.5, 500), ("500m", 500), ("4", 4000), (0.1, 100), (".5", 500), ("1.25", 1250)]
)
def test_forms_of_cpu(written, millis):
    assert a_spec(resources={"cpu": written}).roles["worker"].resources.cpu_millis == millis


@pytest.mark.parametrize(
    ("written", "amount"),
    [("16Gi", 16 * 2**30), ("1.5Gi", 3 * 2**29), ("512Mi", 2**29), ("2G", 2 * 10**9), (2**30, 2**30), ("1Ti", 2**40)],
)
def test_forms_of_memory(written, amount):
    assert a_spec(resources={"memory": written}).roles["worker"].resources.memory_bytes == amount


@pytest.mark.parametrize(
    ("written", "seconds"), [("2h", 7200), ("90s", 90), (90, 90), ("1h30m", 5400), ("1d", 86_400), ("1w", 604_800)]
)
def test_forms_of_durations(written, seconds):
    assert a_spec(max_runtime=written).max_runtime_seconds == seconds


@pytest.mark.parametrize(("written", "value"), [("low", 100), ("normal", 500), ("high", 900), (0, 0), (1000, 1000)])
def test_forms_of_priority(written, value):
    assert a_spec(priority=written).priority == value


def test_a_moment_is_kept_in_utc():
    assert a_spec(start_after="2027-01-31T18:00:00+08:00").start_after == datetime(2027, 1, 31, 10, tzinfo=UTC)


# --- What is refused -------------------------------------------------------------------------------------------------


@pytest.mark.capability("37", "A file with mistakes gets all of them at once, each with its place")
def test_all_errors_come_at_once_each_with_its_place():
    found = errors_of(
        {
            "roles": {
                "Worker": {"command": "x"},
                "ps": 3,
                "chief": {"command": "x", "replica": 2, "resources": {"gpu": 1.5, "mem": "1Gi"}},
            },
            "max_runtime": "2 h",
            "mounts": [{"volume": "a", "path": "/etc/x"}, {"volume": "b"}, 3],
            "env": {"A": 1.5, "A-B": "x", "BERTH_X": "y", "TOKEN": "z"},
            "secrets": {"TOKEN": None},
            "hold": "yes",
        }
    )
    assert found == {
        "/roles/Worker": "grammar",
        "/roles/ps": "mapping",
        "/roles/chief/replica": "unknown_key",
        "/roles/chief/resources/gpu": "gpu_share",
        "/roles/chief/resources/mem": "unknown_key",
        "/max_runtime": "duration_form",
        "/mounts/0/path": "path_system",
        "/mounts/1/path": "missing",
        "/mounts/2": "mapping",
        "/env/A": "text",
        "/env/A-B": "grammar",
        "/env/BERTH_X": "reserved",
        "/env/TOKEN": "env_and_secret",
        "/hold": "boolean",
    }


@pytest.mark.capability("37", "A file with mistakes gets all of them at once, each with its place")
def test_errors_of_a_yaml_text_carry_their_lines():
    with pytest.raises(InvalidInput) as refused:
        parse_document("command: x\nreplica: 3\nresources:\n  cpu: 1\n  gpu: many\n")
    assert {error.path: error.line for error in refused.value.fields} == {"/replica": 2, "/resources/gpu": 5}


def test_messages_are_free_of_the_librarys_own_words():
    with pytest.raises(InvalidInput) as refused:
        parse_spec({"command": 3, "env": [], "roles": 3, "array": {"size": "x"}, "code": 1, "mounts": {}, "x": 1, "retry": "a"})
    text = " ".join(f"{error.message} {error.hint}" for error in refused.value.fields).lower()
    assert not any(
        word in text for word in ("pydantic", "validation", "input should", "str type", "dictionary", "instance", "none")
    )


@pytest.mark.parametrize(
    ("key", "value", "hint"),
    [
        ("replica", 2, "Did you mean replicas?"),
        ("gpus", 2, "gpu belongs under resources."),
        ("timeout", "2h", "Did you mean max_runtime?"),
        ("Max-Runtime", "2h", "Did you mean max_runtime?"),
        ("depends_on", [], "Did you mean after_ok?"),
        ("commnad", "x", "Did you mean command?"),
        ("shm_size", "1Gi", "shm belongs under resources."),
    ],
)
def test_an_unknown_key_brings_the_one_that_was_meant(key, value, hint):
    assert error_of(**{key: value}) == (f"/{key}", "unknown_key")
    assert hint_of(**{key: value}) == hint


@pytest.mark.capability("38", "A refusal brings the edit that helps")
@pytest.mark.parametrize(
    ("key", "value", "start"),
    [
        ("max_runtime", "2 h", "Write max_runtime: 2h."),
        ("max_runtime", "2 hours", "Write max_runtime: 2h."),
        ("max_runtime", "1:30:00", "Write max_runtime: 1h30m."),
        ("max_runtime", "1-12:00:00", "Write max_runtime: 1d12h."),
        ("hold", "on", "Write hold: true."),
        ("replicas", "4", "Write replicas: 4 without quotes."),
        ("resources", {"memory": "16 GB"}, "Write memory: 16Gi."),
        ("outputs", ["/model"], "Write model."),
        ("mounts", [{"volume": "a", "path": "data"}], "Write /data."),
        ("framework", "torch", "Did you mean pytorch?"),
        ("checkpoint", {"path": "c", "signal": "SIGUSR1"}, "Write signal: USR1."),
        ("tags", "nightly", "Write tags: [nightly]."),
    ],
)
def test_a_refused_value_brings_the_edit_that_helps(key, value, start):
    assert hint_of(**{key: value}).startswith(start)


@pytest.mark.parametrize(
    ("keys", "path", "code"),
    [
        ({"replicas": 0}, "/replicas", "range"),
        ({"replicas": -1}, "/replicas", "range"),
        ({"replicas": 10_001}, "/replicas", "range"),
        ({"replicas": 1.5}, "/replicas", "integer"),
        ({"replicas": True}, "/replicas", "integer"),
        ({"replicas": {"min": 3, "max": 2}}, "/replicas", "range"),
        ({"resources": {"cpu": 0}}, "/resources/cpu", "cpu_too_small"),
        ({"resources": {"cpu": -1}}, "/resources/cpu", "cpu_form"),
        ({"resources": {"cpu": 0.0001}}, "/resources/cpu", "cpu_precision"),
        ({"resources": {"cpu": 1e300}}, "/resources/cpu", "cpu_form"),
        ({"resources": {"cpu": 5000}}, "/resources/cpu", "cpu_too_large"),
        ({"resources": {"memory": "1e30"}}, "/resources/memory", "memory_form"),
        ({"resources": {"memory": "2000Pi"}}, "/resources/memory", "memory_too_large"),
        ({"resources": {"memory": 0}}, "/resources/memory", "memory_too_small"),
        ({"resources": {"memory": -1}}, "/resources/memory", "memory_form"),
        ({"resources": {"memory": "0.3"}}, "/resources/memory", "memory_precision"),
        ({"resources": {"gpu": -1}}, "/resources/gpu", "gpu_form"),
        ({"resources": {"gpu": 0.0001}}, "/resources/gpu", "gpu_precision"),
        ({"resources": {"gpu": 2.5}}, "/resources/gpu", "gpu_share"),
        ({"resources": {"gpu": "a100:0"}}, "/resources/gpu", "gpu_form"),
        ({"resources": {"gpu": 2_000}}, "/resources/gpu", "gpu_too_large"),
        ({"array": 100_001}, "/array", "range"),
        ({"array": {"size": -5}}, "/array/size", "range"),
        ({"array": {"size": 10, "parallelism": 11}}, "/array/parallelism", "range"),
        ({"array": 100_000, "replicas": 11}, "/array", "too_many_tasks"),
        ({"max_runtime": 0}, "/max_runtime", "range"),
        ({"max_runtime": "99999w"}, "/max_runtime", "range"),
        ({"priority": 1001}, "/priority", "range"),
        ({"name": ".hidden"}, "/name", "grammar"),
        ({"name": "a" * 256}, "/name", "too_long"),
        ({"name": "a\n"}, "/name", "grammar"),
        ({"env": {"1A": "x"}}, "/env/1A", "grammar"),
        ({"env": {"berth_x": "x"}}, "/env/berth_x", "reserved"),
        ({"env": {"A": 1.5}}, "/env/A", "text"),
        ({"env": {f"V{n}": "x" for n in range(513)}}, "/env", "too_many"),
        ({"env": {f"V{n}": "x" * 60_000 for n in range(10)}}, "/env", "env_too_large"),
        ({"secrets": {"BERTH_KEY": None}}, "/secrets/BERTH_KEY", "reserved"),
        ({"labels": {"-a": "x"}}, "/labels/-a", "grammar"),
        ({"labels": {"a": "x y"}}, "/labels/a", "grammar"),
        ({"tags": ["a", "a"]}, "/tags", "duplicate"),
        ({"tags": ["a,b"]}, "/tags/0", "grammar"),
        ({"ports": ["Metrics"]}, "/ports/0", "grammar"),
        ({"ports": ["a", "a"]}, "/ports", "duplicate"),
        ({"ports": ["berth-x"]}, "/ports/0", "reserved"),
        ({"outputs": ["a/../../b"]}, "/outputs/0", "path_escape"),
        ({"workdir": "/abs"}, "/workdir", "path_absolute"),
        ({"mounts": [{"volume": "a", "path": "/"}]}, "/mounts/0/path", "path_system"),
        ({"mounts": [{"volume": "a", "path": "/proc/self"}]}, "/mounts/0/path", "path_system"),
        ({"mounts": [{"volume": "a", "path": "/usr"}]}, "/mounts/0/path", "path_system"),
        ({"mounts": [{"volume": "a", "path": "/data/../etc"}]}, "/mounts/0/path", "path_normal"),
        ({"mounts": [{"volume": "a", "path": "//data"}]}, "/mounts/0/path", "path_normal"),
        ({"mounts": [{"volume": "a", "path": "/d"}, {"volume": "b", "path": "/d/"}]}, "/mounts/1/path", "duplicate"),
        ({"mounts": [{"volume": "a", "path": "/d/x"}, {"volume": "b", "path": "/d"}]}, "/mounts/0/path", "nested"),
        ({"checkpoint": {"path": "/data/ckpt"}}, "/checkpoint/path", "checkpoint_place"),
        ({"completion": {"chief": "head"}}, "/completion/chief", "unknown_role"),
        ({"completion": {"roles": {"head": {"min_failed": 1}}}}, "/completion/roles/head", "unknown_role"),
        ({"completion": {"min_failed": 2}}, "/completion/min_failed", "range"),
        ({"completion": {"min_failed": 0}}, "/completion/min_failed", "range"),
        ({"completion": {"min_failed": -1}}, "/completion/min_failed", "threshold"),
        ({"after": ["a"], "after_ok": ["a"]}, "/after_ok/0", "duplicate"),
        ({"after_ok": ["a/b"]}, "/after_ok/0", "grammar"),
        ({"after": [f"j{n}" for n in range(1001)]}, "/after", "too_many"),
        ({"start_after": "2027-01-01"}, "/start_after", "moment_form"),
        ({"start_after": "2027-01-01T00:00:00"}, "/start_after", "moment_form"),
        ({"start_after": "0001-01-01T00:00:00+14:00"}, "/start_after", "moment_form"),
        ({"code": {}}, "/code", "code_source"),
        ({"code": {"path": ".", "git": "https://x.test/a"}}, "/code", "code_source"),
        ({"code": {"path": ".", "ref": "main"}}, "/code/ref", "code_ref"),
        ({"code": {"git": "--upload-pack=x"}}, "/code/git", "grammar"),
        ({"code": {"git": "https://x.test/a", "ref": "-x"}}, "/code/ref", "grammar"),
        ({"code": {"git": "https://x.test/a", "ref": "a..b"}}, "/code/ref", "grammar"),
        ({"code": {"git": "https://x.test/a", "ref": "feature//x"}}, "/code/ref", "grammar"),
        ({"code": {"git": "https://x.test/a", "ref": "main/"}}, "/code/ref", "grammar"),
        ({"code": {"snapshot": "A" * 64}}, "/code/snapshot", "grammar"),
        ({"image": "a b"}, "/image", "grammar"),
        ({"framework": "pytorch", "env": {"RANK": "0"}}, "/env/RANK", "reserved"),
        ({"retry": {"limit": 20}}, "/retry/limit", "range"),
        ({"retry": {"limit": 1, "on": ["preempted"]}}, "/retry/on/0", "choice"),
        ({"command": ""}, "/command", "command_empty"),
        ({"command": []}, "/command", "command_form"),
        ({"command": ["a", 3]}, "/command", "text"),
        ({"command": "x" * 65_537}, "/command", "too_long"),
        ({"command": "a\0b"}, "/command", "nul"),
        ({"command": "\ud800"}, "/command", "encoding"),
        ({"roles": {"worker": {"command": "x"}}}, "/command", "shorthand"),
    ],
)
def test_what_breaks_a_rule_is_refused_at_its_place(keys, path, code):
    assert error_of(**keys) == (path, code)


def test_roles_together_stay_within_the_limit_of_tasks():
    roles = {name: {"command": "x", "replicas": 9_000} for name in ("a", "b")}
    assert errors_of({"roles": roles}) == {"/roles": "too_many_tasks"}


def test_roles_whose_variables_would_collide_are_refused():
    roles = {"worker": {"command": "x", "ports": ["count"]}, "worker-ports": {"command": "x"}}
    assert errors_of({"roles": roles}) == {"/roles/worker-ports": "role_collision"}


@pytest.mark.parametrize("document", [None, [], "command: x", 3, True, {}, {"roles": {}}, {"roles": None}])
def test_a_document_without_a_command_is_refused(document):
    assert errors_of(document)


def test_an_endless_number_of_errors_is_cut():
    with pytest.raises(InvalidInput) as refused:
        parse_spec({"command": "x", **{f"k{n}": 1 for n in range(1000)}})
    assert len(refused.value.fields) == bounds.SPEC_ERRORS
    assert refused.value.fields[-1].code == "more_errors"


def test_a_message_repeats_only_the_beginning_of_a_long_value():
    with pytest.raises(InvalidInput) as refused:
        parse_spec({"command": "x", "priority": "\x1b[31m" + "x" * 10_000})
    assert len(str(refused.value.fields[0].message)) < 200
    assert "\x1b" not in str(refused.value.fields[0].message)


@pytest.mark.parametrize("volume", ["digits", "k3v9x2m4qa/digits", "01980c2e-6f3a-7c4e-9a55-0d1f2a3b4c5d"])
def test_a_mount_names_a_volume_of_its_own_or_of_another_tenant(volume):
    spec = parse_spec({"command": "true", "mounts": [{"volume": volume, "path": "/data"}]})
    assert spec.mounts[0].volume == volume


@pytest.mark.parametrize("volume", ["/digits", "a/b/c", "a/", "../digits", ""])
def test_a_mount_that_names_no_volume_is_refused(volume):
    with pytest.raises(InvalidInput) as refused:
        parse_spec({"command": "true", "mounts": [{"volume": volume, "path": "/data"}]})
    assert refused.value.fields[0].path == "/mounts/0/volume"


@pytest.mark.parametrize("key", ["after", "after_ok", "after_any"])
def test_a_job_where_a_list_of_jobs_belongs_is_shown_as_one_that_can_be_written(key: str) -> None:
    with pytest.raises(InvalidInput) as refused:
        parse_spec({"command": "true", key: "train"})
    [field] = refused.value.fields
    assert (as_text(field.message).zh, as_text(field.hint).zh) == ('作业列表须为列表，而非"train"。', "请写 [train]。")
    assert str(field.hint) == "Write [train]."
    written = yaml.safe_load(str(field.hint).removeprefix("Write ").removesuffix("."))
    assert getattr(parse_spec({"command": "true", key: written}), key) == ("train",)
