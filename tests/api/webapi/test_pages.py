"""Lists in pages: every row once, in order, whatever happens between two pages."""

import uuid
from datetime import UTC, datetime, timedelta

import pytest
from django.db.models import F, Value
from django.db.models.functions import NullIf
from rest_framework.request import Request

from webapi.models import IdempotencyKey
from webapi.pagination import slice_page

pytestmark = pytest.mark.database

START = datetime(2026, 11, 20, 8, tzinfo=UTC)


def make(count, *, offset=0):
    IdempotencyKey.objects.bulk_create(
        IdempotencyKey(
            id=uuid.UUID(int=offset + number),
            actor_id=uuid.UUID(int=5),
            key=f"row-{offset + number:03}",
            operation="row",
            body_digest="",
            status=number % 3,
            created_at=START + timedelta(seconds=number // 4),  # Four rows of each time: the id decides.
            expires_at=START,
        )
        for number in range(count)
    )


def walk(client, path):
    keys, cursor, pages = [], None, 0
    while cursor is not None or not pages:
        body = client.get(path + (f"&cursor={cursor}" if cursor else "")).json()
        keys += [item["key"] for item in body["items"]]
        cursor, pages = body["next"], pages + 1
        assert pages < 50
    return keys, pages


@pytest.mark.parametrize("path", ["/api/v1/rows", "/api/v1/value-rows"])
@pytest.mark.parametrize(
    "order", ["-created_at,id", "created_at,-id", "status,-created_at,id", "-status,created_at,-id", "id", "-id"]
)
def test_pages_show_every_row_once_and_in_order(alice, path, order):
    make(23)
    terms = order.split(",")
    expected = list(IdempotencyKey.objects.filter(operation="row").order_by(*terms).values_list("key", flat=True))

    keys, pages = walk(alice, f"{path}?limit=5&order={order}")

    assert keys == expected
    assert pages == 5


def test_a_last_page_that_is_just_full_has_no_next(alice):
    make(10)

    _, pages = walk(alice, "/api/v1/rows?limit=5")

    assert pages == 2


def test_rows_that_come_and_go_do_not_shift_a_page(alice):
    make(12)
    first = alice.get("/api/v1/rows?limit=4&order=-created_at,id").json()
    IdempotencyKey.objects.filter(key=first["items"][0]["key"]).delete()
    make(4, offset=100)  # As new as the oldest; their ids come later.

    rest, _ = walk(alice, f"/api/v1/rows?limit=4&order=-created_at,id&cursor={first['next']}")

    assert not set(rest) & {item["key"] for item in first["items"]}
    assert len([key for key in rest if key < "row-100"]) == 8


def test_a_page_takes_one_query(alice, django_assert_num_queries):
    make(20)
    cursor = alice.get("/api/v1/rows?limit=5").json()["next"]

    with django_assert_num_queries(1):
        alice.get(f"/api/v1/rows?limit=5&cursor={cursor}")


def test_a_cursor_works_only_for_the_list_that_made_it(alice):
    make(20)
    cursor = alice.get("/api/v1/rows?limit=5").json()["next"]

    for path in ("/api/v1/value-rows?limit=5", "/api/v1/rows?order=id&limit=5"):
        response = alice.get(f"{path}&cursor={cursor}")
        assert (response.status_code, response.json()["code"]) == (400, "invalid_cursor")


@pytest.mark.parametrize(
    "change",
    [
        lambda text: text[:-1],
        lambda text: "~" + text[1:],
        lambda text: text + "A",
        lambda text: "x",
        lambda text: "é" * 30,
        lambda text: "a" * 5000,
    ],
)
def test_a_changed_cursor_is_refused(alice, change):
    make(20)
    cursor = alice.get("/api/v1/rows?limit=5").json()["next"]

    response = alice.get("/api/v1/rows", {"cursor": change(cursor)})

    assert (response.status_code, response.json()["code"]) == (400, "invalid_cursor")


@pytest.mark.parametrize("limit", ["0", "501", "-1", "x", "1.5", "٣", "99999999999999999999"])
def test_a_page_size_out_of_bounds_is_refused(alice, limit):
    response = alice.get("/api/v1/rows", {"limit": limit})

    assert response.status_code == 422
    assert response.json()["fields"][0]["path"] == "/limit"


@pytest.mark.parametrize("order", [("rank", "id"), ("-rank", "id"), ("-rank", "-id"), ("-created_at", "rank", "id")])
def test_rows_without_a_value_come_last_in_both_directions(order, rf):
    make(9)
    rows = IdempotencyKey.objects.filter(operation="row").annotate(rank=NullIf(F("status"), Value(0)))

    found, cursor = [], ""
    while cursor is not None:
        request = Request(rf.get("/rows", {"limit": "2", **({"cursor": cursor} if cursor else {})}))
        page, cursor = slice_page(request, rows, order=order)
        found += page

    def key(row):
        parts = []
        for name in order:
            value = getattr(row, name.removeprefix("-"))
            number = value.timestamp() if isinstance(value, datetime) else value.int if isinstance(value, uuid.UUID) else value
            parts.append((number is None, 0 if number is None else -number if name.startswith("-") else number))
        return parts

    assert len({row.id for row in found}) == 9
    assert [row.id for row in found] == [row.id for row in sorted(rows, key=key)]
