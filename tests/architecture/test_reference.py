"""Pages that are made from the code say what the code says."""

import json

import pytest

from jobs.lifecycle.wait_page import wait_reasons_page
from webapi.documents import ROOT, error_classes, errors_page, settings_page
from webapi.reference import REFERENCE


def test_the_error_reference_is_up_to_date():
    assert (ROOT / "docs" / "errors.md").read_text(encoding="utf-8") == errors_page(), "run `manage.py reference`"


def test_the_settings_reference_is_up_to_date():
    assert (ROOT / "docs" / "settings.md").read_text(encoding="utf-8") == settings_page(), "run `manage.py reference`"


def test_the_page_of_wait_reasons_is_up_to_date():
    assert (ROOT / "docs" / "wait-reasons.md").read_text(encoding="utf-8") == wait_reasons_page(), "run `manage.py reference`"


@pytest.mark.capability("122", "Every error says what to do next")
def test_every_error_code_has_a_meaning_a_next_step_and_a_chinese_title():
    errors = error_classes()

    assert {error.code for error in errors} == set(REFERENCE) - {"error"}
    assert not [error.code for error in errors if not (error.meaning and error.title and error.status)]
    assert not [error.code for error in errors if error.title and not (error.title.en and error.title.zh)]
    assert not [code for code, next_step in REFERENCE.items() if not next_step.endswith(".")]


def test_the_error_classes_found_in_the_source_are_those_that_exist():
    from kernel.errors import BerthError

    def below(error):
        return {error} | {entry for child in error.__subclasses__() for entry in below(child)}

    ours = [error for error in below(BerthError) if not error.__module__.startswith("tests.")]
    documented = {error.code for error in error_classes()} | {"error"}
    assert {error.code for error in ours} <= documented


@pytest.mark.database
def test_the_committed_description_of_the_api_is_up_to_date():
    from webapi.description import describe

    committed = ROOT / "client" / "openapi.json"

    assert json.loads(committed.read_text(encoding="utf-8")) == describe(), "run `manage.py openapi --file client/openapi.json`"
