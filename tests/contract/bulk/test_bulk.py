"""`reconciling.bulk` stores what the ORM would store, on both databases, in one statement per 1,000 rows."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator
from datetime import UTC, date, datetime, timedelta, timezone
from enum import StrEnum
from typing import Any

import pytest
from django.db import DataError, IntegrityError, connection, models, transaction
from django.db.models import Q, QuerySet

from kernel.ids import new_id, new_ids
from reconciling import bulk

pytestmark = pytest.mark.database


class Owner(models.Model):
    """What a `Sheet` points to."""

    id = models.UUIDField(primary_key=True)

    class Meta:
        app_label = "bulk_contract"


class Sheet(models.Model):
    """One column of every type that a model of Berth uses."""

    id = models.UUIDField(primary_key=True)
    owner = models.ForeignKey(Owner, on_delete=models.CASCADE, null=True)
    name = models.CharField(max_length=20, unique=True)
    email = models.EmailField(null=True)  # noqa: DJ001
    text = models.TextField(default="")
    count = models.IntegerField(default=0)
    small = models.PositiveSmallIntegerField(default=0)
    positive = models.PositiveIntegerField(default=0)
    big = models.BigIntegerField(default=0)
    big_positive = models.PositiveBigIntegerField(default=0)
    ratio = models.FloatField(null=True)
    flag = models.BooleanField(default=False)
    maybe = models.BooleanField(null=True)
    at = models.DateTimeField(null=True)
    key = models.UUIDField(null=True)
    data = models.JSONField(default=dict)
    maybe_data = models.JSONField(null=True)

    class Meta:
        app_label = "bulk_contract"
        constraints = [models.CheckConstraint(condition=Q(big__gte=-(2**63)), name="sheet_big")]


class Numbered(models.Model):
    """A table whose key the database counts, as the outbox has."""

    row = models.BigAutoField(primary_key=True)
    name = models.CharField(max_length=20)

    class Meta:
        app_label = "bulk_contract"


class Colour(StrEnum):
    RED = "red"


@pytest.fixture(scope="module", autouse=True)
def _tables(django_db_setup: None, django_db_blocker: Any) -> Iterator[None]:
    with django_db_blocker.unblock():
        with connection.schema_editor() as editor:
            for model in (Owner, Sheet, Numbered):
                editor.create_model(model)
        connection.close()
        yield
        with connection.schema_editor() as editor:
            for model in (Numbered, Sheet, Owner):
                editor.delete_model(model)
        connection.close()


def a_row(name: str = "a", **given: Any) -> dict[str, Any]:
    """A full row; what matters to a test is given."""
    row: dict[str, Any] = {
        "id": new_id(),
        "owner_id": None,
        "name": name,
        "email": "a@example.org",
        "text": "",
        "count": 0,
        "small": 0,
        "positive": 0,
        "big": 0,
        "big_positive": 0,
        "ratio": None,
        "flag": False,
        "maybe": None,
        "at": None,
        "key": None,
        "data": {},
        "maybe_data": None,
    }
    return {**row, **given}


def rows() -> QuerySet[Sheet]:
    return Sheet.objects.order_by("name")


def stored(name: str) -> dict[str, Any]:
    return Sheet.objects.filter(name=name).values().get()


AT = datetime(2026, 11, 20, 8, 15, 30, 123456, tzinfo=UTC)

VALUES = [
    ("text", "plain"),
    ("text", ""),
    ("text", "quotes \" and ' and \\ and $[0] and %s and %%"),
    ("text", "中文, emoji 🚢, tab\t, newline\n, line separator \u2028"),
    ("text", "null"),
    ("text", "123"),
    ("text", "{}"),
    ("text", "x" * 100_000),
    ("text", Colour.RED),
    ("email", None),
    ("count", -(2**31)),
    ("count", 2**31 - 1),
    ("small", 32767),
    ("positive", 2**31 - 1),
    ("big", 2**63 - 1),
    ("big", -(2**63)),
    ("big_positive", 2**53 + 1),
    ("ratio", 0.1),
    ("ratio", 3),
    ("ratio", 5e-324),
    ("ratio", -1.7976931348623157e308),
    ("ratio", None),
    ("flag", True),
    ("flag", False),
    ("maybe", None),
    ("maybe", True),
    ("maybe", False),
    ("at", None),
    ("at", AT),
    ("at", AT.replace(microsecond=0)),
    ("at", AT.replace(microsecond=100)),
    ("at", AT.astimezone(timezone(timedelta(hours=8)))),
    ("at", datetime(1970, 1, 1, tzinfo=UTC)),
    ("at", datetime(9999, 12, 31, 23, 59, 59, 999999, tzinfo=UTC)),
    ("key", uuid.UUID(int=0)),
    ("key", uuid.UUID(int=2**128 - 1)),
    ("key", None),
    ("data", {}),
    ("data", []),
    ("data", {"b": [1, 2.5, None, True, "ä", {"n": {}}], "a": ""}),
    ("data", "text"),
    ("data", 0),
    ("data", False),
    ("maybe_data", None),
    ("maybe_data", {"x": None}),
]


@pytest.mark.parametrize(("column", "value"), VALUES, ids=lambda value: repr(value)[:40])
class TestEveryType:
    def test_an_insert_reads_back_as_if_the_orm_had_written_it(self, column: str, value: Any) -> None:
        bulk.insert(Sheet, [a_row("bulk", **{column: value})])
        Sheet.objects.create(**a_row("orm", **{column: value}))
        assert stored("bulk")[column] == stored("orm")[column]
        assert type(stored("bulk")[column]) is type(stored("orm")[column])

    def test_an_update_reads_back_as_if_the_orm_had_written_it(self, column: str, value: Any) -> None:
        row = a_row("bulk", text="before", data={"before": True}, maybe_data=[1], flag=not value)
        bulk.insert(Sheet, [row])
        Sheet.objects.create(**a_row("orm", **{column: value}))
        changed = bulk.update(Sheet, [{"id": row["id"], column: value}], returning=(column,))
        assert changed == [{"id": row["id"], column: stored("orm")[column]}]
        assert stored("bulk")[column] == stored("orm")[column]

    def test_the_orm_finds_what_was_inserted_by_its_value(self, column: str, value: Any) -> None:
        bulk.insert(Sheet, [a_row("bulk", **{column: value})])
        found = Q(**{f"{column}__isnull": True}) if value is None else Q(**{column: value})
        assert Sheet.objects.filter(found).count() == 1

    def test_a_guard_of_this_value_matches_and_another_does_not(self, column: str, value: Any) -> None:
        row = a_row("bulk", **{column: value})
        bulk.insert(Sheet, [row])
        change = {"id": row["id"], "count": 7, column: value}
        if column == "count":
            change = {"id": row["id"], "big": 7, column: value}
        assert len(bulk.update(Sheet, [change], guard=(column,))) == 1
        Sheet.objects.filter(pk=row["id"]).update(**{column: _another(column)})
        assert bulk.update(Sheet, [change], guard=(column,)) == []


def _another(column: str) -> Any:
    others: dict[str, Any] = {
        "text": "another",
        "email": "b@example.org",
        "ratio": 0.25,
        "at": AT + timedelta(microseconds=1),
        "key": uuid.UUID(int=5),
        "data": {"another": 1},
        "maybe_data": {"another": 1},
    }
    if column in ("flag", "maybe"):
        return not bool(Sheet.objects.values_list(column, flat=True).get())
    return others.get(column, 5)


def test_times_of_both_writers_sort_and_compare_alike() -> None:
    moments = [AT + timedelta(microseconds=step) for step in (0, 1, 500_000, 876_544)]
    for index, moment in enumerate(moments):
        if index % 2:
            Sheet.objects.create(**a_row(f"row-{index}", at=moment))
        else:
            bulk.insert(Sheet, [a_row(f"row-{index}", at=moment)])
    assert list(Sheet.objects.order_by("at").values_list("at", flat=True)) == moments
    for index, moment in enumerate(moments):
        assert Sheet.objects.filter(at__lte=moment).count() == index + 1


def test_none_in_a_json_column_is_sql_null_and_never_json_null() -> None:
    bulk.insert(Sheet, [a_row("none", maybe_data=None), a_row("inner", maybe_data={"x": None})])
    assert list(Sheet.objects.filter(maybe_data__isnull=True).values_list("name", flat=True)) == ["none"]
    assert not Sheet.objects.filter(maybe_data=models.Value(None, models.JSONField())).exists()
    assert stored("inner")["maybe_data"] == {"x": None}


def test_none_in_a_column_that_is_not_nullable_is_refused() -> None:
    with pytest.raises(IntegrityError), transaction.atomic():
        bulk.insert(Sheet, [a_row(data=None)])
    with pytest.raises(IntegrityError), transaction.atomic():
        bulk.insert(Sheet, [a_row(text=None)])


def test_a_foreign_key_that_leads_nowhere_is_refused() -> None:
    owner = Owner.objects.create(id=new_id())
    assert bulk.insert(Sheet, [a_row(owner_id=owner.pk)]) == 1
    assert stored("a")["owner_id"] == owner.pk


@pytest.mark.parametrize("value", [date(2026, 11, 20), b"bytes", 1j], ids=["date", "bytes", "complex"])
def test_a_value_without_a_bulk_form_is_refused_and_named(value: Any) -> None:
    with pytest.raises(TypeError, match="text"):
        bulk.insert(Sheet, [a_row(text=value)])


def test_a_name_that_is_no_column_is_our_mistake() -> None:
    with pytest.raises(AssertionError, match="colour"):
        bulk.insert(Sheet, [{**a_row(), "colour": "red"}])
    with pytest.raises(AssertionError, match="owner"):  # Columns go by attribute name: owner_id.
        bulk.insert(Sheet, [{**a_row(), "owner": None}])


def test_a_text_longer_than_its_column_is_never_cut_silently() -> None:
    long = "x" * 21
    if connection.vendor == "postgresql":
        with pytest.raises(DataError), transaction.atomic():
            bulk.insert(Sheet, [a_row(long)])
    else:  # SQLite has no lengths; the ORM stores it whole too.
        bulk.insert(Sheet, [a_row(long)])
        assert stored(long)["name"] == long


class TestInsert:
    def test_no_rows_are_no_statement(self, django_assert_num_queries: Callable[..., Any]) -> None:
        with django_assert_num_queries(0):
            assert bulk.insert(Sheet, []) == 0

    def test_it_says_how_many_went_in(self) -> None:
        assert bulk.insert(Sheet, [a_row("a"), a_row("b")]) == 2

    def test_a_conflict_is_an_error_and_nothing_stays(self) -> None:
        bulk.insert(Sheet, [a_row("a")])
        with pytest.raises(IntegrityError), transaction.atomic():
            bulk.insert(Sheet, [a_row("b"), a_row("a")])
        assert [row.name for row in rows()] == ["a"]

    def test_conflicts_can_be_skipped_and_the_first_row_stays(self) -> None:
        first = a_row("a", count=1)
        bulk.insert(Sheet, [first])
        again = [a_row("a", count=2), a_row("b"), a_row("b", count=3), {**a_row("c"), "id": first["id"]}]
        assert bulk.insert(Sheet, again, ignore_conflicts=True) == 1
        assert [(row.name, row.count) for row in rows()] == [("a", 1), ("b", 0)]

    def test_the_database_counts_keys_that_are_left_out(self) -> None:
        bulk.insert(Numbered, [{"name": f"row-{number}"} for number in range(3)])
        found = list(Numbered.objects.order_by("row"))
        assert [row.name for row in found] == ["row-0", "row-1", "row-2"]
        assert len({row.pk for row in found}) == 3

    def test_keys_that_the_database_counts_may_be_given(self) -> None:
        bulk.insert(Numbered, [{"row": 2**40, "name": "x"}])
        assert bulk.update(Numbered, [{"row": 2**40, "name": "y"}], key="row", returning=("name",)) == [
            {"row": 2**40, "name": "y"}
        ]


class TestUpdate:
    def test_only_rows_whose_guard_holds_change_and_come_back(self) -> None:
        given = [a_row("a", count=1), a_row("b", count=2), a_row("c", count=1)]
        bulk.insert(Sheet, given)
        changes = [{"id": row["id"], "count": 1, "text": "new"} for row in given]
        changed = bulk.update(Sheet, changes, guard=("count",), returning=("name", "text"))
        assert {(row["name"], row["text"]) for row in changed} == {("a", "new"), ("c", "new")}
        assert stored("b")["text"] == ""

    def test_a_guard_of_none_matches_null_only(self) -> None:
        empty, full = a_row("empty"), a_row("full", key=uuid.UUID(int=1))
        bulk.insert(Sheet, [empty, full])
        changes = [{"id": row["id"], "key": None, "count": 1} for row in (empty, full)]
        assert [row["id"] for row in bulk.update(Sheet, changes, guard=("key",))] == [empty["id"]]

    def test_a_column_can_be_both_expected_and_changed(self) -> None:
        given = [a_row("a", text="OLD"), a_row("b", text="OTHER")]
        bulk.insert(Sheet, given)
        changes = [{"id": row["id"], "text": "NEW"} for row in given]
        assert [row["id"] for row in bulk.update(Sheet, changes, equals={"text": "OLD"})] == [given[0]["id"]]
        assert [row.text for row in rows()] == ["NEW", "OTHER"]

    def test_increments_add_and_other_columns_are_set(self) -> None:
        row = a_row("a", big=10, count=5)
        bulk.insert(Sheet, [row])
        changed = bulk.update(Sheet, [{"id": row["id"], "big": -3, "count": 1}], increment=("big",), returning=("big", "count"))
        assert changed == [{"id": row["id"], "big": 7, "count": 1}]

    def test_an_increment_does_not_pass_its_bound_and_may_always_shrink(self) -> None:
        given = [a_row(f"holds-{held}", big=held, big_positive=10) for held in (5, 10, 15)]
        bulk.insert(Sheet, given)

        def change(amount: int) -> list[int]:
            wanted = [{"id": row["id"], "big": amount} for row in given]
            changed = bulk.update(Sheet, wanted, increment=("big",), within={"big": "big_positive"}, returning=("big",))
            return sorted(row["big"] for row in changed)

        assert change(+5) == [10]
        assert change(-1) == [9, 9, 14]

    def test_another_column_can_be_the_key(self) -> None:
        bulk.insert(Sheet, [a_row("a"), a_row("b")])
        assert bulk.update(Sheet, [{"name": "b", "count": 3}], key="name", returning=("count",)) == [{"name": "b", "count": 3}]

    def test_rows_that_do_not_exist_are_missing_from_the_answer(self) -> None:
        assert bulk.update(Sheet, [{"id": new_id(), "count": 1}]) == []

    def test_values_are_typed_as_the_orm_would_give_them(self) -> None:
        row = a_row("a", at=AT, data={"x": [1]}, key=uuid.UUID(int=9), flag=True)
        bulk.insert(Sheet, [row])
        columns = ("at", "data", "key", "flag", "maybe_data", "ratio")
        changed = bulk.update(Sheet, [{"id": row["id"], "count": 1}], returning=columns)
        assert changed == [Sheet.objects.values("id", *columns).get()]


class TestNumber:
    def test_rows_without_a_number_get_the_next_ones_in_their_order(self, django_assert_num_queries: Callable[..., Any]) -> None:
        bulk.insert(Sheet, [a_row(name, big=big, at=AT) for name, big in (("c", 3), ("a", 1), ("b", 2), ("z", 9))])
        Sheet.objects.filter(name="z").update(ratio=7.0)
        with django_assert_num_queries(1):
            assert bulk.number(Sheet, column="ratio", order="big", after=10, limit=2, returning="at") == [AT, AT]
        assert dict(Sheet.objects.values_list("name", "ratio")) == {"a": 11.0, "b": 12.0, "c": None, "z": 7.0}
        assert bulk.number(Sheet, column="ratio", order="big", after=12, limit=2, returning="name") == ["c"]
        assert bulk.number(Sheet, column="ratio", order="big", after=13, limit=2, returning="name") == []


class TestStatements:
    @pytest.mark.parametrize(("count", "statements"), [(1, 1), (1_000, 1), (1_001, 2), (3_000, 3)])
    def test_a_batch_is_one_statement_per_thousand_rows(
        self, count: int, statements: int, django_assert_num_queries: Callable[..., Any]
    ) -> None:
        ids = list(new_ids(count))
        given = [a_row(f"row-{number}", id=row_id, at=AT) for number, row_id in enumerate(ids)]
        with django_assert_num_queries(statements):
            assert bulk.insert(Sheet, given) == count
        with django_assert_num_queries(statements):
            changed = bulk.update(Sheet, [{"id": row_id, "count": number} for number, row_id in enumerate(ids)])
        assert len(changed) == count
        assert Sheet.objects.filter(count=count - 1).get().name == f"row-{count - 1}"
        with django_assert_num_queries(statements):
            assert bulk.insert(Sheet, given, ignore_conflicts=True) == 0


@pytest.mark.django_db(transaction=True)
def test_it_knows_whether_the_caller_holds_a_transaction() -> None:
    assert not bulk.in_transaction(Sheet)
    with transaction.atomic():
        assert bulk.in_transaction(Sheet)
