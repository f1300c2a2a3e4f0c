"""People from a file: what each line does, and what is wrong with each, told together and with nothing written."""

from __future__ import annotations

import pytest
from django.apps import apps
from hypothesis import given
from hypothesis import strategies as st

from kernel.actor import TenantRole
from kernel.errors import InvalidInput
from tenants import services
from tenants.identity.services import user_import
from tenants.identity.services.names import Problems
from tenants.identity.services.user_import import FORMULA_STARTS, ImportReport, export_users_csv
from tenants.models import Membership, Tenant, User
from tests.factories.tenants import Cast, actor_of, make_service_account, make_tenant, make_user, now

pytestmark = pytest.mark.database
HEADING = "name,email,tenant,role"


def imported(cast: Cast, *lines: str, heading: str = HEADING, dry_run: bool = False) -> ImportReport:
    return services.import_users_csv(actor=cast.otto.actor, text="\n".join([heading, *lines]) + "\n", dry_run=dry_run, now=now())


def refused(cast: Cast, *lines: str, heading: str = HEADING) -> list[tuple[str, str]]:
    """Where something is wrong and what, in the order in which it is told; nobody was made."""
    before = User.objects.count()
    with pytest.raises(InvalidInput) as found:
        imported(cast, *lines, heading=heading)
    assert User.objects.count() == before
    return [(entry.path, entry.code) for entry in found.value.fields]


def actions(report: ImportReport) -> dict[int, str]:
    return {line.line: line.action for line in report.lines}


@pytest.mark.parametrize("delimiter", [";", "\t"])
def test_spreadsheets_of_other_countries_are_read(cast: Cast, delimiter: str) -> None:
    rows = [delimiter.join(cells) for cells in (("name", "email", "tenant", "role"), ("ida", "ida@example.org", "", ""))]
    assert actions(imported(cast, rows[1], heading=rows[0])) == {2: "created"}


# --- What a file does ------------------------------------------------------------------------------------------------


def test_columns_stand_in_any_order_and_the_heading_in_any_letters(cast: Cast) -> None:
    imported(cast, "member,dora,vision,dora@example.org", heading="Role, NAME ,tenant,Email")

    dora = User.objects.get(name="dora")
    assert (dora.email, Membership.objects.get(user=dora).role) == ("dora@example.org", TenantRole.MEMBER)


def test_a_mark_of_byte_order_and_empty_lines_are_passed_over_and_lines_keep_their_numbers(cast: Cast) -> None:
    text = f"\ufeff{HEADING}\n\n , , ,\ndora,,,\n"

    report = services.import_users_csv(actor=cast.otto.actor, text=text, now=now())

    assert actions(report) == {4: "created"}


def test_a_person_with_two_tenants_is_made_once_with_both_roles(cast: Cast) -> None:
    report = imported(cast, "dora,dora@example.org,vision,member", "dora,dora@example.org,elsewhere,viewer")

    assert report.count("created") == 2
    roles = {row.tenant.name: row.role for row in Membership.objects.filter(user__name="dora").select_related("tenant")}
    assert roles == {"vision": "member", "elsewhere": "viewer"}
    assert User.objects.filter(name="dora").count() == 1


def test_a_known_person_gets_another_address_and_role_and_both_versions_rise(cast: Cast) -> None:
    membership = Membership.objects.get(user=cast.bob.user)

    report = imported(cast, "bob,robert@example.org,vision,manager", "vera,vera@example.org,vision,viewer")

    assert actions(report) == {2: "updated", 3: "unchanged"}
    bob = User.objects.get(name="bob")
    assert (bob.email, bob.version) == ("robert@example.org", cast.bob.user.version + 1)
    changed = Membership.objects.get(user=bob)
    assert (changed.role, changed.version) == ("manager", membership.version + 1)
    vera = User.objects.get(name="vera")
    assert vera.version == cast.vera.user.version


def test_a_line_without_an_address_leaves_the_one_that_is_there(cast: Cast) -> None:
    assert actions(imported(cast, "bob,,vision,member")) == {2: "unchanged"}
    assert User.objects.get(name="bob").email == "bob@example.org"


def test_an_address_that_somebody_only_claims_is_confirmed_by_the_file(cast: Cast) -> None:
    User.objects.filter(name="bob").update(email="", email_claimed="bob@example.net", email_claimed_at=now())

    assert actions(imported(cast, "bob,bob@example.net,,")) == {2: "updated"}
    bob = User.objects.get(name="bob")
    assert (bob.email, bob.email_claimed, bob.email_claimed_at) == ("bob@example.net", None, None)


def test_a_try_says_what_would_happen_and_neither_writes_nor_leaves_a_row_in_the_audit(cast: Cast) -> None:
    audit = apps.get_model("activity.AuditEvent").objects
    before = audit.count()

    report = imported(cast, "dora,,vision,member", "bob,bob@example.org,vision,viewer", dry_run=True)

    assert (report.dry_run, actions(report)) == (True, {2: "created", 3: "updated"})
    assert not User.objects.filter(name="dora").exists()
    assert Membership.objects.get(user=cast.bob.user).role == "member"
    assert audit.count() == before


def test_whoever_is_disabled_stays_so_and_whoever_the_file_leaves_out_stays_in(cast: Cast) -> None:
    User.objects.filter(name="bob").update(is_active=False)

    imported(cast, "bob,bob@example.org,vision,manager")

    assert not User.objects.get(name="bob").is_active
    assert Membership.objects.filter(user=cast.vera.user, role="viewer").exists()


def test_an_operator_who_manages_a_tenant_may_stand_in_the_file_with_that_role(cast: Cast) -> None:
    own = services.create_tenant(actor=cast.otto.actor, name="own", now=now())
    otto = actor_of(cast.otto.user)

    report = services.import_users_csv(actor=otto, text=f"{HEADING}\notto,otto@example.org,{own.slug},manager\n", now=now())

    assert actions(report) == {2: "unchanged"}


# --- What is wrong ---------------------------------------------------------------------------------------------------


def test_a_name_that_two_tenants_bear_is_not_guessed_and_a_slug_is(cast: Cast) -> None:
    twin = make_tenant("vision", parent=cast.elsewhere)

    assert refused(cast, "dora,,vision,member") == [("/lines/2/tenant", "not_found")]
    imported(cast, f"dora,,{twin.slug},member")
    assert Membership.objects.get(user__name="dora").tenant_id == twin.pk


def test_a_deleted_tenant_is_none(cast: Cast) -> None:
    Tenant.objects.filter(id=cast.elsewhere.pk).update(disabled_at=now(), deleted_at=now())

    assert refused(cast, "dora,,elsewhere,member") == [("/lines/2/tenant", "not_found")]
    assert refused(cast, f"dora,,{cast.elsewhere.slug},member") == [("/lines/2/tenant", "not_found")]


def test_contradictions_in_a_file_are_told_at_the_later_line(cast: Cast) -> None:
    found = refused(
        cast,
        "dora,dora@example.org,vision,member",
        "dora,dora@example.org,vision,viewer",  # The same place twice.
        "dora,other@example.org,elsewhere,viewer",  # Another address.
        "emil,DORA@example.org,,",  # Dora's address in capitals.
    )

    assert found == [("/lines/3", "repeated"), ("/lines/4/email", "contradiction"), ("/lines/5/email", "taken")]


def test_the_same_tenant_by_slug_and_by_name_is_one_place(cast: Cast) -> None:
    assert refused(cast, "dora,,vision,member", f"dora,,{cast.tenant.slug},viewer") == [("/lines/3", "repeated")]


def test_an_address_of_somebody_who_is_not_in_the_file_is_taken(cast: Cast) -> None:
    assert refused(cast, "dora,Bob@Example.org,,") == [("/lines/2/email", "taken")]


def test_an_address_that_somebody_only_claims_is_no_obstacle(cast: Cast) -> None:
    make_user("mallory", email_claimed="dora@example.org", email_claimed_at=now())

    imported(cast, "dora,dora@example.org,,")

    assert User.objects.get(email="dora@example.org").name == "dora"


def test_a_service_account_is_no_person_of_a_file(cast: Cast) -> None:
    account = make_service_account(cast.tenant)

    assert set(refused(cast, f"{account.name},,,")) >= {("/lines/2/name", "is_service")}


def test_an_address_longer_than_mail_allows_is_refused_and_not_left_to_the_database(cast: Cast) -> None:
    """RFC 5321 takes 254 signs: 64 before the sign, and 189 of a domain."""
    domain = ".".join(["d" * 61, "d" * 61, "d" * 61, "org"])
    longest = f"{'a' * 64}@{domain}"
    assert len(longest) == 254

    assert refused(cast, f"dora,{longest[:65]}x{domain},,") == [("/lines/2/email", "bad_email")]
    imported(cast, f"dora,{longest},,")
    assert User.objects.get(name="dora").email == longest


def test_every_line_that_has_not_four_cells_is_named_and_the_others_are_looked_at_too(cast: Cast) -> None:
    found = refused(cast, "dora,,vision", "emil,,,,more", "Frida,,,", '"two\nlines",,,')

    assert found == [
        ("/lines/2", "bad_line"),
        ("/lines/3", "bad_line"),
        ("/lines/4/name", "bad_user_name"),
        ("/lines/6/name", "bad_user_name"),
    ]


def test_what_is_no_csv_is_told_with_its_line(cast: Cast) -> None:
    assert refused(cast, "dora,,,", '"emil"x,,,') == [("/lines/3", "not_csv")]


@pytest.mark.parametrize("heading", ["", "name,email,tenant", "name,email,tenant,role,more", "name,name,tenant,role"])
def test_another_heading_is_refused_before_anything_else(cast: Cast, heading: str) -> None:
    assert refused(cast, "NOT A NAME,,,", heading=heading) == [("/lines/1", "bad_heading")]


def test_a_file_with_more_lines_than_may_be_is_refused_at_the_first_too_many(cast: Cast, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(user_import, "LINES_MAX", 2)
    imported(cast, "dora,,,", "emil,,,")

    assert refused(cast, "frida,,,", "gustav,,,", "hanna,,,", "ida,,,") == [("/lines/4", "too_many")]


def test_how_many_places_are_wrong_is_said_in_one_sentence(cast: Cast) -> None:
    with pytest.raises(InvalidInput, match="One place of the file is wrong; nothing was imported"):
        imported(cast, "NO,,,")
    with pytest.raises(InvalidInput, match="2 places of the file are wrong; nothing was imported"):
        imported(cast, "NO,none,,")


# --- There and back --------------------------------------------------------------------------------------------------

cells = st.text(st.characters(codec="utf-8", exclude_characters="\x00\r\n"), max_size=12)
begun = st.one_of(cells, st.builds(lambda sign, rest: sign + rest, st.sampled_from(["=", "+", "-", "@", "\t", "'"]), cells))


@given(st.lists(st.tuples(begun, begun, begun, begun), max_size=6))
def test_what_is_written_is_read_back_cell_by_cell(rows: list[tuple[str, str, str, str]]) -> None:
    """But for blanks around a cell, for what had the apostrophe of a formula already, and for lines with nothing in them."""
    rows = [row for row in rows if any(cell.strip() for cell in row)]
    rows = [row for row in rows if not any(cell.startswith("'") and cell[1:].startswith(FORMULA_STARTS) for cell in row)]
    problems = Problems()

    found = user_import._read(export_users_csv(rows), problems)

    assert not problems.fields
    assert [tuple(row.values()) for _, row in found] == [tuple(_as_read(cell) for cell in row) for row in rows]


def _as_read(cell: str) -> str:
    plain = cell.strip(" ")
    return plain[1:] if plain.startswith("'") and plain[1:].startswith(FORMULA_STARTS) else plain
