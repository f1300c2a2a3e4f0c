"""Whatever is handed in: a job or a refusal, never another end; and what was accepted survives every way of writing it."""

from __future__ import annotations

import contextlib
import json
import math
import re
from collections.abc import Callable

import jsonschema
from hypothesis import given, settings
from hypothesis import strategies as st

from jobs import bounds
from jobs.spec import (
    Format,
    JobSpec,
    apply_overrides,
    canonical,
    json_schema,
    parse_document,
    parse_spec,
    parse_text,
    to_document,
)
from jobs.spec.values import BadValue, parse_cpu, parse_gpu, parse_memory, whole
from jobs.spec.vocabulary import keys_of
from kernel import limits
from kernel.errors import FieldError, InvalidInput, TooLarge
from kernel.words import as_text, format_duration

CHINESE = re.compile(r"[\u4e00-\u9fff]")


def outcome_of(parse: Callable[[object], JobSpec], value: object) -> tuple[JobSpec | None, tuple[FieldError, ...]]:
    """The job, or the errors of its refusal; any other exception is the test's failure."""
    try:
        return parse(value), ()
    except InvalidInput as refused:
        return None, refused.fields


WORDS = st.sampled_from(
    [
        *(*keys_of(JobSpec), "command", "replicas", "resources", "ports", "gpu", "cpu", "memory", "min", "max", "limit", "on"),
        *(
            "a100:1",
            "500m",
            "16Gi",
            "2h",
            "90s",
            "worker",
            "launcher",
            "mpi",
            "jax",
            "user",
            "[key]",
            "path",
            "/data",
            "..",
            "~1",
        ),
    ]
)
SCALARS = st.one_of(
    st.none(), st.booleans(), st.integers(), st.integers(-2, 3), st.floats(), st.text(max_size=20), WORDS, st.binary(max_size=3)
)
KEYS = st.one_of(WORDS, st.text(max_size=10), st.integers())
ANYTHING = st.recursive(
    SCALARS, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(KEYS, inner, max_size=6), max_leaves=30
)
DOCUMENTS = st.dictionaries(WORDS, ANYTHING, max_size=8)


@settings(max_examples=400, deadline=None)
@given(st.one_of(ANYTHING, DOCUMENTS, DOCUMENTS.map(lambda document: {"command": "x", **document})))
def test_any_document_is_a_job_or_a_refusal_with_places(document):
    spec, errors = outcome_of(parse_spec, document)
    assert (spec is None) == bool(errors)
    assert all(error.path == "" or error.path.startswith("/") for error in errors)
    assert all(error.code and error.message for error in errors)
    # What is said is said in both languages; an edit that is suggested may be only a command.
    assert all(CHINESE.search(as_text(error.message).zh) for error in errors), [error.message for error in errors]
    assert all(CHINESE.search(as_text(error.hint).zh) for error in errors if str(error.hint)), [error.hint for error in errors]
    assert spec is None or parse_spec(json.loads(canonical(spec))) == spec


@settings(max_examples=300, deadline=None)
@given(st.one_of(st.binary(max_size=200), st.text(max_size=200).map(str.encode)), st.sampled_from(list(Format)))
def test_any_text_is_a_job_or_a_refusal(text, form):
    with contextlib.suppress(InvalidInput, TooLarge):
        parse_document(text, form)


@settings(max_examples=200, deadline=None)
@given(ANYTHING)
def test_any_item_of_a_batch_is_a_job_or_a_refusal(item):
    base = parse_spec({"command": "x", "env": {"A": "1"}})
    changed, errors = outcome_of(lambda overrides: apply_overrides(base, overrides), item)
    assert (changed is None) == bool(errors)
    assert changed is None or parse_spec(json.loads(canonical(changed))) == changed


NAMES = st.from_regex(r"[A-Za-z0-9][A-Za-z0-9._-]{0,20}", fullmatch=True)
NODE_LABELS = st.from_regex(r"[A-Za-z0-9]([A-Za-z0-9._/-]{0,20}[A-Za-z0-9])?", fullmatch=True)
ROLES = st.from_regex(r"[a-z]([a-z0-9-]{0,10}[a-z0-9])?", fullmatch=True)
ENV_NAMES = st.from_regex(r"[A-Z_][A-Z0-9_]{0,20}", fullmatch=True).filter(lambda name: not name.startswith("BERTH_"))
TEXTS = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=50)
COMMANDS = TEXTS.filter(str.strip) | st.lists(TEXTS, min_size=1, max_size=4).filter(lambda argv: bool(argv[0]))
ROLE_DOCUMENTS = st.fixed_dictionaries(
    {"command": COMMANDS},
    optional={
        "replicas": st.integers(1, 100) | st.integers(1, 50).map(lambda least: {"min": least, "max": least * 2}),
        "resources": st.fixed_dictionaries(
            {},
            optional={
                "cpu": st.integers(1, 4096) | st.integers(1, 4_096_000).map(lambda millis: f"{millis}m"),
                "memory": st.integers(2**20, 2**50) | st.integers(1, 1024).map(lambda count: f"{count}Gi"),
                "gpu": st.integers(0, 1024) | st.integers(1, 999).map(lambda millis: millis / 1000) | st.just("a100:2"),
                "cpu_exclusive": st.booleans(),
                "rdma": st.booleans(),
            },
        ),
        "env": st.dictionaries(ENV_NAMES, TEXTS, max_size=3),
    },
)
VALID = st.fixed_dictionaries(
    {"roles": st.dictionaries(ROLES, ROLE_DOCUMENTS, min_size=1, max_size=3)},
    optional={
        "name": NAMES,
        "priority": st.integers(0, 1000) | st.sampled_from(["low", "normal", "high"]),
        "max_runtime": st.integers(1, bounds.RUNTIME_SECONDS),
        "env": st.dictionaries(ENV_NAMES, TEXTS, max_size=4),
        "tags": st.lists(NAMES, max_size=4, unique=True),
        "hold": st.booleans(),
        "after_ok": st.lists(NAMES, max_size=3, unique=True),
        "array": st.integers(1, 100),
        "retry": st.fixed_dictionaries({"limit": st.integers(0, 19)}),
        "placement": st.fixed_dictionaries(
            {},
            optional={
                "together": st.sampled_from(["pack", "spread", "island", "switch", "rack"]) | st.none(),
                "labels": st.dictionaries(NODE_LABELS, st.lists(ROLES, min_size=1, max_size=3, unique=True) | ROLES, max_size=3),
                "tolerates": st.lists(ROLES, max_size=3, unique=True),
            },
        ),
    },
)
SCHEMA = jsonschema.Draft202012Validator(json_schema())


@settings(max_examples=200, deadline=None)
@given(VALID)
def test_a_valid_job_is_itself_however_it_is_written(document):
    spec = parse_spec(document)
    assert parse_spec(json.loads(canonical(spec))) == spec
    assert canonical(parse_document(canonical(spec), Format.JSON)) == canonical(spec)
    if canonical(spec).isprintable():  # YAML knows no other characters, even in quotes.
        assert canonical(parse_document(canonical(spec), Format.YAML)) == canonical(spec)
    SCHEMA.validate(document)
    SCHEMA.validate(to_document(spec))


@settings(max_examples=200, deadline=None)
@given(VALID)
def test_no_text_of_a_user_is_changed(document):
    spec = parse_spec(document)
    for name, role in document["roles"].items():
        command = role["command"]
        assert spec.roles[name].command == (command if isinstance(command, str) else tuple(command))
        assert spec.roles[name].env == role.get("env", {})
    assert spec.env == document.get("env", {})


@settings(max_examples=200, deadline=None)
@given(VALID)
def test_amounts_are_integers_within_their_bounds(document):
    spec = parse_spec(document)
    for role in spec.roles.values():
        amounts = role.resources.amounts
        assert all(type(amount) is int for amount in amounts.as_dict().values())
        assert 1 <= amounts.cpu_millis <= bounds.TASK_CPU_MILLIS
        assert limits.MIB <= amounts.memory_bytes <= bounds.TASK_MEMORY_BYTES
        assert 0 <= amounts.gpu_millis <= bounds.TASK_GPU_MILLIS
    assert 1 <= spec.task_count_min <= spec.task_count_max <= bounds.TASKS_PER_JOB


NUMBERS = st.one_of(
    st.integers(),
    st.floats(),
    st.text(max_size=12),
    st.from_regex(r"[-+]?[0-9]{1,20}(\.[0-9]{1,10})?(m|[KMGTP]i?)?", fullmatch=True),
)


@given(NUMBERS)
def test_no_way_of_writing_a_number_gets_past_its_bounds(value):
    for parse, least, most in (
        (parse_cpu, 1, bounds.TASK_CPU_MILLIS),
        (parse_memory, limits.MIB, bounds.TASK_MEMORY_BYTES),
        (lambda written: parse_gpu(written)[1], 0, bounds.TASK_GPU_MILLIS),
        (whole("count", 1, 10), 1, 10),
    ):
        with contextlib.suppress(BadValue):
            amount = parse(value)
            assert type(amount) is int
            assert least <= amount <= most


@given(st.integers(1, bounds.TASK_CPU_MILLIS))
def test_decimal_and_thousandths_of_a_core_are_the_same(millis):
    assert parse_cpu(f"{millis}m") == parse_cpu(millis / 1000) == millis


@given(st.integers(1, 999))
def test_a_share_of_a_gpu_is_exact(millis):
    assert parse_gpu(millis / 1000) == parse_gpu(f"{millis / 1000}") == ("", millis)


@given(st.integers(0, bounds.RUNTIME_SECONDS))
def test_a_duration_reads_back_as_it_was_written(seconds):
    document = {"command": "x", "checkpoint": {"path": "c", "grace": format_duration(min(seconds, bounds.GRACE_SECONDS))}}
    checkpoint = parse_spec(document).checkpoint
    assert checkpoint is not None
    assert checkpoint.grace_seconds == min(seconds, bounds.GRACE_SECONDS)


PRINTABLE = st.text(st.characters(exclude_categories=["Cs", "Cc", "Cn", "Co", "Zl", "Zp"]), max_size=20)
PLAIN = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63) + 1, 2**63 - 1) | PRINTABLE,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text("abc0 ü", max_size=8), inner, max_size=3),
    max_leaves=20,
)


@settings(max_examples=200, deadline=None)
@given(PLAIN)
def test_json_is_read_the_same_by_both_readers(value):
    text = json.dumps(value, ensure_ascii=False)
    assert parse_text(text, Format.JSON) == value
    assert parse_text(text, Format.YAML) == value


@given(st.floats(allow_nan=False, allow_infinity=False))
def test_numbers_of_json_are_read_exactly(number):
    found = parse_text(json.dumps({"a": number}), Format.JSON)["a"]
    assert math.isclose(found, number, rel_tol=0, abs_tol=0)
