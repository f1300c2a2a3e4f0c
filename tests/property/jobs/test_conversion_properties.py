"""Whatever text is handed in: a document with notes, or a refusal that says why; never another end."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from jobs.conversion import Converted, Source, convert
from jobs.conversion.slurm_options import NAMES
from jobs.spec import check_document
from kernel.errors import FieldError, InvalidInput

CORPUS = Path(__file__).parents[2] / "unit" / "conversion" / "corpus"
TEXTS = [path.read_text() for path in sorted(CORPUS.iterdir()) if path.name != "specs.json"]
KEYS = st.sampled_from(
    [
        *("name", "type", "taskRoles", "prerequisites", "parameters", "secrets", "deployments", "defaults", "extras", "tags"),
        *("instances", "completion", "dockerImage", "commands", "resourcePerInstance", "ports", "cpu", "gpu", "memoryMB", "uri"),
        *("hivedScheduler", "com.microsoft.pai.runtimeplugin", "minFailedInstances", "jobRetryCount", "taskRetryCount", "script"),
    ]
)
SCALARS = st.one_of(
    st.none(), st.booleans(), st.integers(), st.floats(allow_nan=False), st.text(max_size=20),
    st.sampled_from(["<% $parameters.a %>", "<% $secrets.b %>", "$PAI_HOST_IP_w_0", "dockerimage", "github.com/a/b", "w", "i"]),
)  # fmt: skip
VALUES = st.recursive(
    SCALARS, lambda inner: st.one_of(st.lists(inner, max_size=4), st.dictionaries(KEYS, inner, max_size=6)), max_leaves=30
)
ROLES = st.dictionaries(st.sampled_from(["w", "ps_server", "W", "0"]), st.dictionaries(KEYS, VALUES, max_size=6), max_size=3)
ARGUMENTS = st.one_of(
    st.text(max_size=12), st.sampled_from(["2", "1-4", "gpu:a100:2", "16G", "1-0:0", "0-9%3", "1,5", "ALL,A=b", "'x y'"])
)
DIRECTIVES = st.builds(lambda name, value: f"#SBATCH --{name}={value}", st.sampled_from(sorted(NAMES)), ARGUMENTS)


def outcome_of(text: str, source: Source | None) -> tuple[tuple[FieldError, ...], Converted | None]:
    """What is wrong, or what came of it; any other exception is the test's failure."""
    try:
        return (), convert(text, source)
    except InvalidInput as refused:
        return refused.fields, None


def ends_well(text: str, source: Source | None = None) -> None:
    fields, made = outcome_of(text, source)
    if made is None:
        assert fields
        assert all(entry.message and entry.code for entry in fields)
        return
    if not made.problems:
        check_document(made.spec)
    for note in made.notes:
        assert note.text("en")
        assert note.text("zh")


@pytest.mark.capability("6.23", "Any text ends as a job with notes or as a refusal that says why")
@given(st.text(), st.sampled_from([None, *Source]))
def test_any_text_ends_well(text, source):
    ends_well(text, source)


@given(st.dictionaries(KEYS, VALUES, max_size=8), ROLES)
def test_any_document_ends_well(document, roles):
    ends_well(yaml.safe_dump({**document, "taskRoles": roles}), Source.OPENPAI)


@given(st.lists(DIRECTIVES, max_size=12), st.text(max_size=60))
def test_any_directives_end_well(directives, body):
    ends_well("\n".join(["#!/bin/bash", *directives, body]), Source.SBATCH)


@pytest.mark.capability("6.23", "Any text ends as a job with notes or as a refusal that says why")
@given(st.sampled_from(TEXTS), st.data())
@settings(max_examples=200)
def test_a_damaged_file_ends_well(text, data):
    start = data.draw(st.integers(0, len(text)))
    end = data.draw(st.integers(start, min(len(text), start + 40)))
    ends_well(text[:start] + data.draw(st.text(max_size=10)) + text[end:])
