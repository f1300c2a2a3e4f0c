"""Versions of objects as entity tags."""

import pytest


def test_an_answer_names_its_version(alice):
    assert alice.get("/api/v1/versioned")["ETag"] == '"3"'


@pytest.mark.parametrize("header", ['"3"', '"2", "3"', "*", ""])
def test_a_change_of_the_seen_version_is_made(alice, header):
    assert alice.patch("/api/v1/versioned", {}, format="json", HTTP_IF_MATCH=header).status_code == 200


@pytest.mark.parametrize("header", ['"2"', "3", '"30"', 'W/"3"', "nonsense"])
def test_a_change_of_another_version_is_refused(alice, header):
    response = alice.patch("/api/v1/versioned", {}, format="json", HTTP_IF_MATCH=header)

    assert (response.status_code, response.json()["code"]) == (412, "precondition_failed")


def test_an_unchanged_object_is_not_sent_again(alice):
    response = alice.get("/api/v1/versioned", HTTP_IF_NONE_MATCH='"3"')

    assert (response.status_code, response.content) == (304, b"")
