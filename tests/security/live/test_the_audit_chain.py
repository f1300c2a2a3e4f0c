"""Who did what, on the running platform: sealed within a second, and whoever edits a row afterwards is found out."""

from __future__ import annotations

import uuid
from collections.abc import Callable

import pytest

from tests.builders.live import LivePlatform, wait_until
from tests.builders.operating import manage

pytestmark = [pytest.mark.engines, pytest.mark.database]

SEALED_SECONDS = 60.0  # One, on a machine with nothing else to do; the figure is in the row's own times.


def unsealed(platform: LivePlatform) -> int:
    return int(platform.rows("SELECT count(*) FROM activity_auditevent WHERE seq IS NULL")[0][0])


@pytest.fixture
def sealed_row(live_platform: LivePlatform) -> tuple[str, str]:
    """A call's row, by id and name of its target."""
    name = f"audited-{uuid.uuid4().hex[:8]}"
    live_platform.operator.make_volume(name)
    wait_until(lambda: unsealed(live_platform) == 0, "the seal of the row", timeout=SEALED_SECONDS)
    [(row_id,)] = live_platform.rows(
        f"SELECT id FROM activity_auditevent WHERE target_name = '{name}' AND verb = 'volume.create'"
    )
    return str(row_id), name


def test_a_row_is_sealed_by_itself_and_the_chain_holds(live_platform: LivePlatform, sealed_row: tuple[str, str]) -> None:
    assert "The chain holds" in manage(live_platform, "verify_audit").stdout


Tampering = Callable[[str], tuple[str, str]]
EDITS: dict[str, Tampering] = {
    "somebody else did it": lambda row: (
        f"UPDATE activity_auditevent SET actor_name = 'nobody' WHERE id = '{row}'",
        f"UPDATE activity_auditevent SET actor_name = 'admin' WHERE id = '{row}'",
    ),
    "something else was done": lambda row: (
        f"UPDATE activity_auditevent SET verb = 'volume.edit' WHERE id = '{row}'",
        f"UPDATE activity_auditevent SET verb = 'volume.create' WHERE id = '{row}'",
    ),
    "it was another number of things": lambda row: (
        f"UPDATE activity_auditevent SET count = 2 WHERE id = '{row}'",
        f"UPDATE activity_auditevent SET count = 1 WHERE id = '{row}'",
    ),
}


@pytest.mark.parametrize("edit", EDITS)
def test_an_edit_past_the_platform_is_found(edit: str, live_platform: LivePlatform, sealed_row: tuple[str, str]) -> None:
    row, _ = sealed_row
    key = row if live_platform.is_on_servers else row.replace("-", "")
    [(actor,)] = live_platform.rows(f"SELECT actor_name FROM activity_auditevent WHERE id = '{key}'")
    [(seq,)] = live_platform.rows(f"SELECT seq FROM activity_auditevent WHERE id = '{key}'")
    tamper, undo = EDITS[edit](key)
    live_platform.execute(tamper)
    try:
        said = manage(live_platform, "verify_audit", refused=True)
    finally:
        live_platform.execute(undo.replace("'admin'", f"'{actor}'"))

    assert f"row {seq}: its content was changed after sealing" in said.stderr
    assert "The chain holds" in manage(live_platform, "verify_audit").stdout
