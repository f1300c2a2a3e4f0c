"""The description of the whole API: valid, complete, and the same at every start."""

import json
import re
import subprocess
import sys

import pytest
from drf_spectacular.validation import validate_schema

from tests.architecture.sources import ROOT
from webapi.description import as_json, describe
from webapi.schema import PROBLEM, operations


@pytest.fixture(scope="module")
def document():
    return describe()


def test_it_is_a_valid_openapi_3_1_document(document):
    assert document["openapi"].startswith("3.1")
    validate_schema(document)


def test_every_view_can_be_described(capfd):
    describe.__wrapped__()

    assert not re.findall(r"(?:Error|Warning) \[[^]]*\].*", capfd.readouterr().err)


def test_operation_names_are_unique_and_start_with_their_tag(document):
    found = [(operation["operationId"], operation["tags"][0], path) for path, operation in operations(document)]
    names = [name for name, _, _ in found]

    assert len(set(names)) == len(names), sorted(name for name in names if names.count(name) > 1)
    assert not [name for name, tag, _ in found if not name.startswith(re.sub(r"[^a-z0-9]+", "_", tag))]


def test_every_operation_says_what_it_does_and_how_it_fails(document):
    wrong = []
    for path, operation in operations(document):
        name = operation["operationId"]
        if not operation.get("summary") or not operation.get("description"):
            wrong.append(f"{name} has no words")
        if operation["responses"].get("default") != {"$ref": PROBLEM}:
            wrong.append(f"{name} documents no problem")
        if operation.get("security") and "401" not in operation["responses"]:
            wrong.append(f"{name} documents no 401")
        if "{" in path and "404" not in operation["responses"]:
            wrong.append(f"{name} documents no 404")
        if not any(status.startswith("2") for status in operation["responses"]) and "302" not in operation["responses"]:
            wrong.append(f"{name} documents no success")

    assert not wrong


def test_a_second_process_describes_the_same_bytes(document):
    command = [sys.executable, str(ROOT / "manage.py"), "openapi"]

    printed = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True, timeout=100).stdout

    assert printed == as_json(document)
    assert json.loads(printed) == document
