"""Many rows in one statement, on PostgreSQL and SQLite alike, and what else of rows the ORM cannot say.

Other raw SQL is about one table of one app, or about the database itself; `docs/raw-sql.md` lists all of it.

The ORM splits a batch of 5,000 rows into dozens of statements on SQLite and has no UPDATE ... RETURNING. Here a batch of any
size is one statement: its rows travel as one JSON document, taken apart by `json_each` (SQLite) or
`jsonb_array_elements` (PostgreSQL). Table and column names come from Django models, never from input.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from django.db import connections, models, router, transaction

Row = Mapping[str, Any]

_insert_texts: dict[Any, str] = {}  # As many as there are shapes of rows in our code.

BATCH_ROWS = 1_000  # Design rule 4: a constant number of statements per 1,000 rows.
SAME_ROWS_MIN = 50  # From so many rows on it pays to look for columns that hold one value in all of them.


def insert(model: type[models.Model], rows: Sequence[Row], *, ignore_conflicts: bool = False) -> int:
    """Insert rows given by attribute name (`tenant_id`); every row must have the same keys. Returns how many went in.

    Columns left out must have a database default or be nullable. With `ignore_conflicts` rows that break a unique
    constraint are skipped. Runs in the caller's transaction.
    """
    inserted = 0
    if not rows:
        return 0
    connection = connections[router.db_for_write(model)]
    columns = _columns(model, rows[0].keys())
    with statement_cursor(connection) as cursor:
        for batch in _batches(rows):
            same = _same_in_all(batch, columns)
            varying = [column for column in columns if column.attname not in same]
            sql = _insert_sql(connection, model, tuple(rows[0].keys()), frozenset(same), ignore_conflicts)
            cursor.execute(sql, [*_plain_values(connection, columns, same), _document(connection, varying, batch)])
            inserted += cursor.rowcount
    return inserted


def insert_together(inserts: Sequence[tuple[type[models.Model], Sequence[Row]]]) -> None:
    """Insert into several tables of one database, as `insert` does for each. One statement for all of them where it can be.

    That is PostgreSQL, and no more rows for any table than one batch holds. Rows may refer to each other: foreign keys are
    checked when the transaction commits.
    """
    wanted = [(model, rows) for model, rows in inserts if rows]
    if not wanted:
        return
    connection = connections[router.db_for_write(wanted[0][0])]
    if connection.vendor != "postgresql" or len(wanted) == 1 or max(len(rows) for _, rows in wanted) > SAME_ROWS_MIN:
        for model, rows in wanted:
            insert(model, rows)
        return
    parts, parameters = [], []
    for model, rows in wanted:
        parts.append(_insert_sql(connection, model, tuple(rows[0].keys()), frozenset(), False))
        parameters.append(_document(connection, _columns(model, rows[0].keys()), rows))
    texts = ", ".join(f"i{position} AS ({text})" for position, text in enumerate(parts))
    with statement_cursor(connection) as cursor:
        cursor.execute(f"WITH {texts} SELECT 1", parameters)


def update(
    model: type[models.Model],
    rows: Sequence[Row],
    *,
    key: str = "id",
    guard: Sequence[str] = (),
    equals: Mapping[str, str] | None = None,
    increment: Sequence[str] = (),
    within: Mapping[str, str] | None = None,
    returning: Sequence[str] = (),
) -> list[dict[str, Any]]:
    """Update each row by its own `key`, only where every `guard` column still has the value that the row gives.

    `equals` asks the same fixed text of a column of every row, also of one that the update changes (the expected state).
    `increment` names columns whose value in the row is added instead of stored. `within` names, for such a column, the column
    of the same row that it must not pass by growing (null: no bound); shrinking is always allowed. Returns one dictionary per
    row that really changed, with `key` and the `returning` columns as they are after the update. A row that is not returned
    was changed by another process first, or would have passed a bound.
    """
    changed: list[dict[str, Any]] = []
    if not rows:
        return changed
    columns = _columns(model, rows[0].keys())
    connection = connections[router.db_for_write(model)]
    position = {column.attname: index for index, column in enumerate(columns)}
    by_name = {column.attname: column for column in columns}
    table = _quote(connection, model._meta.db_table)
    guards = tuple(guard)
    source = ", ".join(
        f"{_extract(connection, column, index)} AS {_quote(connection, 'v_' + column.attname)}"
        for index, column in enumerate(columns)
    )

    def given(name: str) -> str:
        return f"given.{_quote(connection, 'v_' + name)}"

    def stored(name: str) -> str:
        return f"{table}.{_quote(connection, by_name[name].column)}"

    assignments = ", ".join(
        f"{_quote(connection, by_name[name].column)} = "
        + (f"{stored(name)} + {given(name)}" if name in increment else given(name))
        for name in position
        if name != key and name not in guards
    )
    # Rows are found by their key. SQLite would rather take an index on the state, and read every row of that state for each
    # row given; a plus sign before a column keeps its indexes out.
    unindexed = "+" if connection.vendor == "sqlite" else ""
    conditions = " AND ".join(
        [f"{stored(key)} = {given(key)}"] + [f"{unindexed}{stored(name)} IS NOT DISTINCT FROM {given(name)}" for name in guards]
    )
    fixed = dict(equals or {})
    fixed_columns = _columns(model, fixed)
    conditions = " AND ".join(
        [conditions, *(f"{unindexed}{table}.{_quote(connection, column.column)} = %s" for column in fixed_columns)]
    )
    for name, column in zip(within or {}, _columns(model, (within or {}).values()), strict=True):
        bound = f"{table}.{_quote(connection, column.column)}"
        conditions += f" AND ({given(name)} <= 0 OR {bound} IS NULL OR {stored(name)} + {given(name)} <= {bound})"
    wanted = _columns(model, (key, *returning))
    output = ", ".join(f"{table}.{_quote(connection, column.column)}" for column in wanted)
    if connection.vendor == "sqlite":  # RETURNING on SQLite does not take a table name before the column.
        output = ", ".join(_quote(connection, column.column) for column in wanted)
        conditions = conditions.replace("IS NOT DISTINCT FROM", "IS")
    sql = (
        f"UPDATE {table} SET {assignments} FROM (SELECT {source} FROM {_each(connection)}) AS given "  # noqa: S608 - see insert.
        f"WHERE {conditions} RETURNING {output}"
    )
    with statement_cursor(connection) as cursor:
        for batch in _batches(rows):
            cursor.execute(sql, [_document(connection, columns, batch), *fixed.values()])
            changed += [_decode(connection, wanted, values) for values in cursor.fetchall()]
    return changed


def number(model: type[models.Model], *, column: str, order: str, after: int, limit: int, returning: str) -> list[Any]:
    """Give rows whose `column` is null the numbers behind `after`, by their unique `order` column, at most `limit` of them.

    One value of the `returning` column for each of them, in any order. The caller holds a lock that keeps others from it.
    """
    connection = connections[router.db_for_write(model)]
    table = _quote(connection, model._meta.db_table)
    fields = _columns(model, (column, order, returning))
    given, by, told = (_quote(connection, field.column) for field in fields)
    output = told if connection.vendor == "sqlite" else f"{table}.{told}"
    sql = (
        f"UPDATE {table} SET {given} = %s + placed.place FROM ("  # noqa: S608 - only names from models go into the text.
        f"SELECT {by} AS row_key, row_number() OVER (ORDER BY {by}) AS place FROM {table} "
        f"WHERE {given} IS NULL ORDER BY {by} LIMIT %s) AS placed WHERE {table}.{by} = placed.row_key RETURNING {output}"
    )
    with statement_cursor(connection) as cursor:
        cursor.execute(sql, [after, limit])
        return [_decode(connection, fields[2:], values)[returning] for values in cursor.fetchall()]


def leave_out_keys(model: type[models.Model], count: int) -> None:
    """Let SQLite leave out the next `count` keys of a table that counts them. In the caller's transaction; SQLite alone."""
    connection = connections[router.db_for_write(model)]
    assert connection.vendor == "sqlite", "PostgreSQL counts by sequences"
    table, key = model._meta.db_table, model._meta.pk.name
    highest = model._default_manager.aggregate(last=models.Max(key))["last"] or 0
    with connection.cursor() as cursor:
        cursor.execute("SELECT seq FROM sqlite_sequence WHERE name = %s", [table])
        given = cursor.fetchone()
        cursor.execute("DELETE FROM sqlite_sequence WHERE name = %s", [table])
        next_key = max(highest, given[0] if given else 0) + count
        cursor.execute("INSERT INTO sqlite_sequence (name, seq) VALUES (%s, %s)", [table, next_key])


def read_for_key_share(rows: models.QuerySet[Any, Any]) -> list[Any]:
    """Read columns (`values_list`) with PostgreSQL's weakest lock on the rows, which Django cannot ask for; on SQLite plainly."""
    connection = connections[rows.db]
    if connection.vendor != "postgresql":
        return list(rows)
    sql, parameters = rows.query.sql_with_params()
    with connection.cursor() as cursor:
        cursor.execute(f"{sql} FOR KEY SHARE", parameters)
        return list(cursor.fetchall())


def statement_cursor(connection: Any) -> Any:
    """A cursor for a statement whose text is always the same; a backend that can keep its plan does."""
    return connection.prepared_cursor() if hasattr(connection, "prepared_cursor") else connection.cursor()


def _insert_sql(
    connection: Any, model: type[models.Model], names: tuple[str, ...], same: frozenset[str], ignore_conflicts: bool
) -> str:
    """The statement, made once: the same few are used again and again."""
    key = (connection.vendor, model, names, same, ignore_conflicts)
    text = _insert_texts.get(key)
    if text is None:
        text = _insert_texts[key] = _make_insert_sql(connection, model, names, same, ignore_conflicts)
    return text


def _make_insert_sql(
    connection: Any, model: type[models.Model], names: tuple[str, ...], same: frozenset[str], ignore_conflicts: bool
) -> str:
    """Values of the `same` columns travel as parameters of their own, before the document of the others."""
    columns = _columns(model, names)
    once = [column for column in columns if column.attname in same]
    each = [column for column in columns if column.attname not in same]
    targets = ", ".join(_quote(connection, column.column) for column in (*once, *each))
    values = ", ".join(
        [
            *(_typed(connection, column, "%s") for column in once),
            *(_extract(connection, column, position) for position, column in enumerate(each)),
        ]
    )
    conflict = " ON CONFLICT DO NOTHING" if ignore_conflicts else ""
    table = _quote(connection, model._meta.db_table)
    # "WHERE true" keeps SQLite from reading ON CONFLICT as a join constraint.
    # S608: only names from models and positions go into the text; values travel as parameters.
    return f"INSERT INTO {table} ({targets}) SELECT {values} FROM {_each(connection)} WHERE true{conflict}"  # noqa: S608


def _same_in_all(rows: Sequence[Row], columns: Sequence[models.Field[Any, Any]]) -> dict[str, Any]:
    """Columns that hold one value in all of many rows: most of an array's, which then cost nothing a row."""
    if len(rows) < SAME_ROWS_MIN:
        return {}
    found = {}
    for column in columns[1:]:  # One column at least must vary, or there would be nothing to count rows by.
        name = column.attname
        value = rows[0][name]
        if all(row[name] is value or row[name] == value for row in rows):
            found[name] = value
    return found


def _plain_values(connection: Any, columns: Sequence[models.Field[Any, Any]], values: Row) -> list[Any]:
    return [_plain(connection, column, values[column.attname]) for column in columns if column.attname in values]


def _batches(rows: Sequence[Row]) -> list[Sequence[Row]]:
    return [rows[start : start + BATCH_ROWS] for start in range(0, len(rows), BATCH_ROWS)]


def _columns(model: type[models.Model], names: Any) -> list[models.Field[Any, Any]]:
    fields = {field.attname: field for field in model._meta.concrete_fields}
    unknown = [name for name in names if name not in fields]
    if unknown:
        raise AssertionError(f"{model.__name__} has no columns {unknown}")
    return [fields[name] for name in names]


def _quote(connection: Any, name: str | None) -> str:
    quoted: str = connection.ops.quote_name(name)
    return quoted


def _each(connection: Any) -> str:
    return "json_each(%s)" if connection.vendor == "sqlite" else "jsonb_array_elements(%s::jsonb)"


def _document(connection: Any, columns: Sequence[models.Field[Any, Any]], rows: Sequence[Row]) -> str:
    is_sqlite = connection.vendor == "sqlite"
    named = [(column.attname, column, isinstance(column, models.JSONField)) for column in columns]
    document = []
    for row in rows:
        values = []
        for name, column, is_json in named:
            value = row[name]
            kind = type(value)
            if value is None or ((kind is str or kind is int) and not is_json):
                values.append(value)
            elif kind is uuid.UUID:
                values.append(value.hex if is_sqlite else str(value))
            else:
                values.append(_plain(connection, column, value))
        document.append(values)
    return json.dumps(document, separators=(",", ":"))


def _plain(connection: Any, column: models.Field[Any, Any], value: Any) -> Any:
    """A value as JSON, in the form that the column's type is stored in."""
    if value is None:
        return None
    if isinstance(column, models.JSONField):
        return json.dumps(value, cls=column.encoder)  # Letter for letter what the ORM writes: SQLite compares it as text.
    if isinstance(value, uuid.UUID):
        return value.hex if connection.vendor == "sqlite" else str(value)
    if isinstance(value, datetime):
        return connection.ops.adapt_datetimefield_value(value) if connection.vendor == "sqlite" else value.isoformat()
    if isinstance(value, str):
        return str(value)  # A member of a StrEnum becomes plain text.
    if isinstance(value, (bool, int, float)):
        return value
    raise TypeError(f"{column.name}: {type(value).__name__} has no bulk form")


def _extract(connection: Any, column: models.Field[Any, Any], position: int) -> str:
    if connection.vendor == "sqlite":
        return f"json_extract(value, '$[{position}]')"
    return _typed(connection, column, f"value->>{position}")


def _typed(connection: Any, column: models.Field[Any, Any], text: str) -> str:
    """A value's text as what its column is stored as."""
    if connection.vendor == "sqlite":
        return text
    kind = column.db_type(connection) or "text"
    kind = {"serial": "integer", "bigserial": "bigint"}.get(kind.split(" ")[0], kind.split(" GENERATED")[0])
    if kind.startswith("varchar"):
        kind = "text"  # A cast to varchar(n) would cut a longer text in silence; storing it is refused.
    return f"({text})::{kind}"


def _decode(connection: Any, columns: Sequence[models.Field[Any, Any]], values: Sequence[Any]) -> dict[str, Any]:
    decoded = {}
    for column, value in zip(columns, values, strict=True):
        converters = [*connection.ops.get_db_converters(_Expression(column)), *column.get_db_converters(connection)]
        for convert in converters:
            value = convert(value, _Expression(column), connection)
        decoded[column.attname] = value
    return decoded


class _Expression:
    """Just enough of a Django expression for the backends' own converters."""

    def __init__(self, column: models.Field[Any, Any]) -> None:
        self.output_field = column


def in_transaction(model: type[models.Model]) -> bool:
    """Whether the caller already opened a transaction on the model's database."""
    return not transaction.get_connection(router.db_for_write(model)).get_autocommit()
