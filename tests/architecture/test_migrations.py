"""Migrations since the last release only add: the release before goes on working on the tables, and can come back to them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import pytest
from django.apps import apps
from django.db.migrations import Migration, operations
from django.db.migrations.loader import MigrationLoader
from django.db.migrations.operations.base import Operation

from webapi.online import AddIndexOnline

OURS = ("webapi", "activity", "reconciling", "clusters", "tenants", "images", "storage", "jobs")

# What 0.1.0 brought. A migration of a release never changes; whatever is not here is new.
RELEASED = frozenset(
    {
        ("activity", "0001_initial"),
        ("clusters", "0001_initial"),
        ("images", "0001_initial"),
        ("jobs", "0001_initial"),
        ("jobs", "0002_terminal_states"),
        ("reconciling", "0001_initial"),
        ("storage", "0001_initial"),
        ("tenants", "0001_initial"),
        ("tenants", "0002_guards"),
        ("webapi", "0001_initial"),
    }
)
# Tables of a handful of rows, whose indexes are built before anybody notices.
SMALL = frozenset({"clusters.cluster", "clusters.pool", "reconciling.lease", "reconciling.tick", "activity.cursor"})
NAMES_ALONE = {"choices", "related_name"}  # Of a field: what Django knows and no table has.
ADDING = (
    operations.CreateModel,
    operations.AddField,
    operations.AddIndex,
    operations.AddConstraint,
    operations.RunPython,
    operations.AlterModelOptions,
    operations.AlterModelManagers,
    operations.SeparateDatabaseAndState,
)


def new_migrations() -> list[tuple[str, str, Migration]]:
    loader = MigrationLoader(None)
    found = [(app, name, migration) for (app, name), migration in loader.disk_migrations.items() if app in OURS]
    assert {(app, name) for app, name, _ in found} >= RELEASED, "a released migration is gone"
    return sorted(
        ((app, name, migration) for app, name, migration in found if (app, name) not in RELEASED), key=lambda entry: entry[:2]
    )


def problems_of(app: str, migration: Migration) -> Iterator[str]:
    """Why the release before would not survive it, in words. Tables that it does not know may change as they like."""
    made = _made_by([migration, *(other for of_app, _, other in new_migrations() if of_app == app)])
    for operation in migration.operations:
        model = str(getattr(operation, "model_name_lower", ""))
        if not isinstance(operation, ADDING) and model not in made:
            yield f"{operation.describe()}: it takes away or changes what the release before uses"
        elif isinstance(operation, operations.SeparateDatabaseAndState):
            yield from _problems_of_separate(app, operation, migration)
        elif isinstance(operation, operations.RunPython) and operation.reverse_code is None:
            yield f"{operation.describe()}: it cannot be taken back"
        elif model and model not in made:
            yield from _problems_of_existing(app, model, operation, migration)


def _made_by(migrations: Iterable[Migration]) -> set[str]:
    return {
        operation.name_lower
        for migration in migrations
        for operation in migration.operations
        if isinstance(operation, operations.CreateModel)
    }


def _problems_of_separate(app: str, operation: operations.SeparateDatabaseAndState, migration: Migration) -> Iterator[str]:
    """Indexes may be built by hand where AddIndexOnline does not do: outside a transaction, and so that it can be taken back.

    They may be taken away as well: the release before is slower without one, and nothing worse. Choices and the names of models
    and of their reverse relations are in no database, where a renamed model keeps its table.
    """
    by_hand = all(
        isinstance(each, operations.RunPython) and each.reverse_code is not None for each in operation.database_operations
    )
    is_without_effect = _keeps_tables(operation.state_operations, app, migration) and all(
        isinstance(each, (operations.AddIndex, operations.RemoveIndex, operations.RenameModel, operations.AlterModelTable))
        or _leaves_the_column(each, app, migration)
        for each in operation.state_operations
    )
    if not (by_hand and is_without_effect) or (operation.database_operations and migration.atomic):
        yield f"{operation.describe()}: hides what it does to the database"


def _keeps_tables(state_operations: Sequence[Operation], app: str, migration: Migration) -> bool:
    """Whether each model, under its old name or a new one, has its table still, and so the primary key of every row."""
    state = MigrationLoader(None).project_state(migration.dependencies[0])
    before = {(model._meta.app_label, model._meta.db_table) for model in state.apps.get_models()}
    for each in state_operations:
        each.state_forwards(app, state)
    return {(model._meta.app_label, model._meta.db_table) for model in state.apps.get_models()} == before


def _leaves_the_column(operation: Operation, app: str, migration: Migration) -> bool:
    if not isinstance(operation, operations.AlterField):
        return False
    before = MigrationLoader(None).project_state(migration.dependencies[0]).models[app, operation.model_name_lower]
    *_, given = before.fields[operation.name].deconstruct()
    *_, wanted = operation.field.deconstruct()
    given, wanted = ({name: value for name, value in each.items() if name not in NAMES_ALONE} for each in (given, wanted))
    return wanted in (given, {**given, "db_index": False})


def _problems_of_existing(app: str, model: str, operation: Operation, migration: Migration) -> Iterator[str]:
    if isinstance(operation, operations.AddField):
        field = operation.field
        if not field.many_to_many and not field.null and not field.has_db_default():
            yield f"{operation.describe()}: the release before does not fill it; make it nullable, or give it a db_default"
        if (field.db_index or field.unique) and f"{app}.{model}" not in SMALL:
            yield f"{operation.describe()}: its index would be built while nobody may write; add it with AddIndexOnline"
    elif isinstance(operation, operations.AddConstraint):
        yield f"{operation.describe()}: rows of the release before may break it"
    elif isinstance(operation, AddIndexOnline):
        if migration.atomic or len(migration.operations) > 1:
            yield f"{operation.describe()}: it stands alone in a migration with atomic = False"
    elif isinstance(operation, operations.AddIndex) and f"{app}.{model}" not in SMALL:
        yield f"{operation.describe()}: nobody may write while it is built; use AddIndexOnline"


@pytest.mark.capability("120", "New migrations only add")
@pytest.mark.parametrize(("app", "name", "migration"), new_migrations())
def test_a_new_migration_only_adds(app: str, name: str, migration: Migration) -> None:
    assert list(problems_of(app, migration)) == []


@pytest.mark.parametrize(
    ("operation", "words"),
    [
        (operations.RemoveField("job", "name"), "takes away"),
        (operations.RenameField("job", "name", "title"), "takes away"),
        (operations.DeleteModel("Job"), "takes away"),
        (operations.AlterField("job", "name", apps.get_model("jobs.Job")._meta.get_field("name")), "takes away"),
        (operations.RunSQL("SELECT 1"), "takes away"),
        (operations.RunPython(lambda apps, editor: None), "cannot be taken back"),
        (operations.AddField("job", "extra", apps.get_model("jobs.Job")._meta.get_field("priority")), "db_default"),
        (operations.AddIndex("job", apps.get_model("jobs.Job")._meta.indexes[0]), "AddIndexOnline"),
        (operations.AddConstraint("job", apps.get_model("jobs.Job")._meta.constraints[0]), "may break it"),
    ],
)
def test_what_the_release_before_would_not_survive_is_named(operation: Operation, words: str) -> None:
    migration = type("Migration", (Migration,), {"operations": [operation]})("0009_example", "jobs")
    [problem] = problems_of("jobs", migration)
    assert words in problem


def test_a_renamed_model_keeps_its_table_and_no_migration_says_otherwise() -> None:
    renamed, table = operations.RenameModel("Job", "Work"), operations.AlterModelTable("Work", "jobs_job")

    def problems(*state_operations: Operation) -> list[str]:
        separate = operations.SeparateDatabaseAndState(state_operations=list(state_operations))
        kind = type("Migration", (Migration,), {"operations": [separate], "dependencies": [("jobs", "0018_expected_error")]})
        return list(problems_of("jobs", kind("0019_example", "jobs")))

    assert problems(renamed, table) == []
    assert "hides what it does" in problems(renamed)[0]
    assert "hides what it does" in problems(operations.AlterModelTable("Job", "jobs_other"))[0]


def test_no_two_migrations_wait_for_each_other() -> None:
    assert MigrationLoader(None).detect_conflicts() == {}
