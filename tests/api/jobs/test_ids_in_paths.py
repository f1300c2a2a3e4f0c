"""A name, or a typing mistake, where an id belongs: the answer says so, for every path alike."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tests.factories.tenants import Cast

pytestmark = pytest.mark.database


@pytest.mark.parametrize(
    ("path", "word", "list_path"),
    [
        ("/api/v1/tokens/my-laptop", "my-laptop", "/api/v1/tokens"),
        ("/api/v1/announcements/0192", "0192", "/api/v1/announcements"),
    ],
)
def test_a_word_where_an_id_belongs_is_told_as_one(
    cast: Cast, api: Callable[..., Any], path: str, word: str, list_path: str
) -> None:
    answer = api(cast.bob).delete(path)
    body = answer.json()

    assert (answer.status_code, body["code"]) == (404, "not_found")
    assert repr(word) in body["detail"]
    assert f"GET {list_path} tells them." in body["hint"]


def test_a_path_that_leads_nowhere_with_any_id_is_still_told_as_one(cast: Cast, api: Callable[..., Any]) -> None:
    answer = api(cast.bob).get("/api/v1/tokens/train/nothing")

    assert (answer.status_code, answer.json()["code"]) == (404, "route_not_found")
