"""The canonical form, the published schema, overrides of batch items, and differences."""

from __future__ import annotations

import copy
import json
import time

import jsonschema
import pytest

from jobs.spec import (
    apply_overrides,
    canonical,
    diff_specs,
    json_schema,
    parse_document,
    parse_spec,
    spec_digest,
    to_document,
)
from jobs.spec.schema import SCHEMA_DIALECT
from kernel.errors import InvalidInput
from tests.unit.jobs_spec.test_parse import FULL, a_spec

# --- Canonical form --------------------------------------------------------------------------------------------------


def test_two_spellings_of_one_job_are_the_same_bytes():
    shorthand = {
        "command": "x",
        "replicas": 2,
        "resources": {"cpu": "4", "memory": "1Gi", "gpu": "2"},
        "max_runtime": "1h",
        "secrets": {"T": None},
    }
    written_out = {
        "priority": "normal",
        "roles": {
            "worker": {"resources": {"gpu": 2, "memory": 2**30, "cpu": 4}, "replicas": {"min": 2, "max": 2}, "command": "x"}
        },
        "max_runtime": 3600,
        "secrets": {"T": "T"},
    }
    assert canonical(parse_spec(shorthand)) == canonical(parse_spec(written_out))
    assert spec_digest(parse_spec(shorthand)) == spec_digest(canonical(parse_spec(written_out)))


@pytest.mark.parametrize(
    "document",
    [
        {"command": "x"},
        {"command": ["x", ""], "array": {"size": 3, "parallelism": 2}, "completion": {"roles": {"worker": {}}}},
        {"command": "x", "resources": {"gpu": "a100:0.5", "cpu": "1m", "memory": "1Mi", "shm": 1, "cpu_exclusive": True}},
        {"command": "x", "replicas": {"min": 1, "max": 4}, "retry": {"limit": 0, "on": []}, "hold": True, "kind": "transfer"},
        {
            "command": "x",
            "shell": "sh",
            "checkpoint": {"path": "c", "before_deadline": "2m"},
            "retry": {"limit": 1, "on": ["deadline"]},
        },
        {"command": "x", "start_after": "2027-01-31T18:00:00Z", "code": {"git": "https://x.test/a", "ref": "main"}},
        {"command": "x", "placement": {"together": "rack", "labels": {"a.io/b": ["x y", "z"], "n": 1}, "tolerates": ["fpga"]}},
        {"roles": {"a": {"command": "x", "env": {"E": "训练"}}, "b": {"command": "y"}}, "completion": {"chief": "a"}},
    ],
)
def test_the_canonical_form_is_a_document_of_the_same_job(document):
    spec = parse_spec(document)
    assert parse_spec(json.loads(canonical(spec))) == spec
    assert canonical(parse_spec(to_document(spec))) == canonical(spec)


def test_the_canonical_form_fixes_what_was_asked_for():
    document = to_document(parse_spec({"command": "x"}))
    assert document == {
        "name": "job",
        "priority": 500,
        "roles": {"worker": {"command": "x", "resources": {"cpu": 1, "memory": 2**31}}},
    }


@pytest.mark.parametrize("nothing", [None, {}, {"together": None, "labels": {}, "tolerates": []}])
def test_a_job_that_says_nothing_of_its_placement_keeps_its_digest(nothing):
    assert spec_digest(parse_spec({"command": "x", "placement": nothing})) == spec_digest(parse_spec({"command": "x"}))


def test_the_documented_job_survives_the_round_trip():
    spec = parse_document(FULL)
    assert parse_document(canonical(spec)) == spec


# --- JSON Schema -----------------------------------------------------------------------------------------------------

VALIDATOR = jsonschema.Draft202012Validator(json_schema())


def test_the_schema_is_valid_and_says_its_dialect():
    jsonschema.Draft202012Validator.check_schema(json_schema())
    assert json_schema()["$schema"] == SCHEMA_DIALECT


def test_the_caller_may_change_its_copy_of_the_schema():
    json_schema()["properties"].clear()
    assert json_schema()["properties"]


@pytest.mark.capability("37", "A published JSON Schema says the same as the parser")
@pytest.mark.parametrize("number", range(len(json_schema()["examples"])))
def test_every_example_satisfies_schema_and_parser(number):
    example = json_schema()["examples"][number]
    VALIDATOR.validate(example)
    parse_spec(copy.deepcopy(example))


ACCEPTED = [
    {"command": "x", "array": 3},
    {"command": ["x"], "resources": {"gpu": 0.5, "cpu": 0.5, "memory": 1048576, "shm": "1Gi"}},
    {"command": "x", "resources": {"gpu": "a100:2", "cpu": "500m", "memory": "1.5Gi", "cpu_exclusive": True}},
    {"command": "x", "replicas": {"min": 1, "max": 2}, "ports": ["a"], "completion": {"min_failed": "never", "min_succeeded": 1}},
    {"command": "x", "env": {"A": 1}, "labels": {"a": 1, "b": ""}, "tags": ["夜间"], "priority": 7, "max_runtime": 60},
    {"command": "x", "pool": None, "env": None, "retry": None, "resources": {"gpu": None}, "replicas": None},
    {"framework": "mpi", "roles": {"launcher": {"command": "mpirun x"}, "worker": {"replicas": 2}}},
    {"roles": {"a": {"command": "x"}, "b": {"command": "y"}}, "completion": {"chief": "a", "roles": {"b": {"min_failed": 1}}}},
    {"command": "x", "placement": {"together": "pack", "labels": {"os": "Debian 12", "n": [1, "2"]}, "tolerates": ["a.b-c"]}},
    {"command": "x", "placement": {"together": None, "labels": None, "tolerates": None}},
    {"command": "x", "code": {"snapshot": "a" * 64}, "hold": True, "start_after": "2027-01-31T18:00:00Z", "after": ["a"]},
]

REFUSED = [
    {},
    {"name": "x"},
    {"command": "x", "roles": {"a": {"command": "y"}}},
    {"command": "x", "unknown": 1},
    {"command": ""},
    {"command": "x", "replicas": 0},
    {"command": "x", "replicas": {"min": 1}},
    {"command": "x", "env": {"1": "x"}},
    {"command": "x", "labels": {"-": "x"}},
    {"command": "x", "code": {"path": ".", "git": "https://x.test/a"}},
    {"command": "x", "framework": "caffe"},
    {"command": "x", "array": 0},
    {"command": "x", "placement": {"together": "near"}},
    {"command": "x", "placement": {"labels": {"a": []}}},
    {"command": "x", "placement": {"labels": {"a/": "x"}}},
    {"command": "x", "placement": {"tolerates": ["A"]}},
    {"command": "x", "placement": {"unknown": 1}},
    {"command": "x", "max_runtime": "2 h"},
    {"command": "x", "resources": {"gpu": "many"}},
    {"roles": {"A": {"command": "x"}}},
]


@pytest.mark.parametrize("document", ACCEPTED)
def test_what_users_may_write_satisfies_both(document):
    VALIDATOR.validate(document)
    parse_spec(document)


@pytest.mark.parametrize("document", REFUSED)
def test_what_is_wrong_in_shape_satisfies_neither(document):
    assert not VALIDATOR.is_valid(document)
    with pytest.raises(InvalidInput):
        parse_spec(document)


def test_the_canonical_form_satisfies_the_schema():
    for document in (*ACCEPTED, *json_schema()["examples"]):
        VALIDATOR.validate(to_document(parse_spec(document)))


def test_every_field_is_described():
    schema = json_schema()
    for name, part in (("", schema), *schema["$defs"].items()):
        for key, field in part.get("properties", {}).items():
            assert "description" in field or "$ref" in field or name in {"ReplicaRange", "GpuAsk"}, f"{name}.{key}"


# --- Overrides -------------------------------------------------------------------------------------------------------


def test_an_item_is_the_base_with_its_differences():
    base = a_spec(env={"A": "1", "B": "2"}, labels={"x": "1"}, tags=["t"], resources={"cpu": 2, "memory": "1Gi"})
    item = apply_overrides(
        base,
        {
            "name": "item-7",
            "env": {"B": "3", "C": 4},
            "labels": {"y": "2"},
            "tags": ["u", "t"],
            "priority": "high",
            "command": "other",
            "resources": {"gpu": 1},
        },
    )
    assert item == a_spec(
        name="item-7",
        command="other",
        env={"A": "1", "B": "3", "C": "4"},
        labels={"x": "1", "y": "2"},
        tags=["t", "u"],
        priority=900,
        resources={"cpu": 2, "memory": "1Gi", "gpu": 1},
    )
    assert parse_spec(json.loads(canonical(item))) == item


def test_an_item_without_differences_is_the_base():
    base = parse_document(FULL)
    assert canonical(apply_overrides(base, {})) == canonical(base)


def test_an_item_changes_roles_by_name():
    base = parse_spec({"roles": {"a": {"command": "x"}, "b": {"command": "y"}}})
    item = apply_overrides(base, {"roles": {"b": {"command": ["z"], "env": {"E": "1"}, "resources": {"cpu": 3}}}})
    assert item.roles["a"] == base.roles["a"]
    assert (item.roles["b"].command, item.roles["b"].env, item.roles["b"].resources.cpu_millis) == (("z",), {"E": "1"}, 3000)
    assert base.roles["b"].command == "y"


@pytest.mark.parametrize(
    ("item", "path", "code"),
    [
        (3, "", "mapping"),
        ({"nam": "x"}, "/nam", "unknown_key"),
        ({"replicas": 3}, "/replicas", "unknown_key"),
        ({"name": "-"}, "/name", "grammar"),
        ({"env": {"1": "x"}}, "/env/1", "grammar"),
        ({"env": {"BERTH_A": "x"}}, "/env/BERTH_A", "reserved"),
        ({"env": {"TOKEN": "x"}}, "/env/TOKEN", "env_and_secret"),
        ({"resources": {"gpus": 1}}, "/resources/gpus", "unknown_key"),
        ({"resources": {"cpu": "x"}}, "/resources/cpu", "cpu_form"),
        ({"roles": {"other": {"command": "x"}}}, "/roles/other", "unknown_role"),
        ({"roles": {"worker": {"resources": {"cpu": 0}}}}, "/roles/worker/resources/cpu", "cpu_too_small"),
        ({"command": "x", "roles": {"worker": {"command": "y"}}}, "/command", "shorthand"),
        ({"tags": [f"t{n}" for n in range(64)]}, "/tags", "too_many"),
        ({"env": {"A": "\ud800"}}, "/env/A", "encoding"),
    ],
)
def test_a_wrong_item_is_refused_at_its_place(item, path, code):
    base = a_spec(secrets={"TOKEN": None}, tags=["first"])
    with pytest.raises(InvalidInput) as refused:
        apply_overrides(base, item)
    assert [(error.path, error.code) for error in refused.value.fields] == [(path, code)]


def test_ten_thousand_items_cost_little():
    base = parse_document(FULL)
    began = time.process_time()
    for number in range(10_000):
        canonical(apply_overrides(base, {"name": f"item-{number}", "env": {"NUMBER": str(number)}}))
    assert time.process_time() - began < 8  # A guard against validating each item as a whole; measured 0.7 s when idle.


# --- Differences -----------------------------------------------------------------------------------------------------


def test_differences_name_every_place_that_changed():
    older = a_spec(name="a", env={"A": "1", "B": "2"}, tags=["x"])
    newer = a_spec(name="b", env={"A": "1", "C": "3"}, tags=["x", "y"], max_runtime="1h")
    assert [difference.as_dict() for difference in diff_specs(older, newer)] == [
        {"path": "/env/B", "from": "2", "to": None},
        {"path": "/env/C", "from": None, "to": "3"},
        {"path": "/max_runtime", "from": None, "to": 3600},
        {"path": "/name", "from": "a", "to": "b"},
        {"path": "/tags", "from": ["x"], "to": ["x", "y"]},
    ]


def test_a_job_does_not_differ_from_itself():
    assert diff_specs(parse_document(FULL), parse_document(canonical(parse_document(FULL)))) == []
