"""Users from CSV and back. An import is checked as a whole first: every error of every line, or nothing at all is written."""

from __future__ import annotations

import csv
import io
import uuid
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime

from django.contrib.auth.hashers import make_password
from django.db import transaction

from activity.services import record_audit
from activity.sessions import recheck
from kernel.actor import Actor, TenantRole
from kernel.errors import InvalidInput
from kernel.ids import new_id
from kernel.words import Text
from reconciling import bulk
from tenants.identity.access import demand
from tenants.identity.models import Membership, Tenant, User, UserKind
from tenants.identity.permissions import ROLE_RANK
from tenants.identity.services import names

COLUMNS = ("name", "email", "tenant", "role")
DELIMITERS = ",;\t"  # What spreadsheets write, by the language of their user.
LINES_MAX = 10_000
FORMULA_STARTS = ("=", "+", "-", "@", "\t", "\r")  # A spreadsheet would run such a cell (security T9).


@dataclass(frozen=True, slots=True)
class ImportedLine:
    """What becomes of one line; `action` is created, updated or unchanged."""

    line: int
    name: str
    action: str


@dataclass(frozen=True, slots=True)
class ImportReport:
    """Result of an import, or of its dry run."""

    dry_run: bool
    lines: tuple[ImportedLine, ...]

    def count(self, action: str) -> int:
        return sum(line.action == action for line in self.lines)


@dataclass(frozen=True, slots=True)
class _Line:
    number: int
    name: str
    email: str
    tenant_text: str
    tenant: Tenant | None
    role: TenantRole | None


def import_users_csv(*, actor: Actor, text: str, dry_run: bool = False, now: datetime) -> ImportReport:
    """Create users and memberships from lines `name,email,tenant,role` with a heading; tenant and role may be empty.

    A user has as many lines as tenants. The same file twice changes nothing the second time. Addresses and roles of known
    users are updated; no user is disabled or removed. New users have no password: they come in by an operator's invitation.
    """
    demand(actor, None, "user.create")
    problems = names.Problems()
    lines = _check(_read(text, problems), problems)
    users = {user.name: user for user in User.objects.filter(name__in={line.name for line in lines})}
    _check_against(actor, lines, users, problems)
    if problems.fields:
        raise InvalidInput(
            Text(
                f"{_places(len(problems.fields))} wrong; nothing was imported.",
                f"有 {len(problems.fields)} 处错误；未导入任何内容。",
            ),
            fields=problems.fields,
            hint=Text("Correct all of them and send the file again.", "请全部改正后重新发送文件。"),
        )
    with transaction.atomic():
        actions = _write(lines, users, dry_run=dry_run, now=now)
        report = ImportReport(dry_run, tuple(ImportedLine(line.number, line.name, actions[line.number]) for line in lines))
        if not dry_run:
            recheck()
            record_audit(
                actor=actor,
                verb="user.create",
                tenant_id=None,
                target_kind="user",
                target_id=None,
                after={"created": report.count("created"), "updated": report.count("updated")},
                count=len(lines),
                at=now,
            )
    return report


def export_users_csv(rows: Iterable[tuple[str, str, str, str]]) -> str:
    """Rows of (name, email, tenant, role) as CSV that no spreadsheet takes for formulas; `import_users_csv` reads it back."""
    output = io.StringIO()
    writer = csv.writer(output, lineterminator="\n")
    writer.writerow(COLUMNS)
    for row in rows:
        writer.writerow([f"'{cell}" if cell.startswith(FORMULA_STARTS) else cell for cell in row])
    return output.getvalue()


def _read(text: str, problems: names.Problems) -> list[tuple[int, dict[str, str]]]:
    if "\x00" in text:
        problems.add(
            "", "bad_characters", Text("The file holds NUL characters; it is not CSV.", "该文件含有 NUL 字符，不是 CSV。")
        )
        return []
    heading_text = text.partition("\n")[0]
    delimiter = max(DELIMITERS, key=heading_text.count)  # The names of columns hold none of them.
    reader = csv.reader(io.StringIO(text.removeprefix("\ufeff")), delimiter=delimiter, strict=True)
    rows: list[tuple[int, dict[str, str]]] = []
    try:
        heading = [cell.strip().lower() for cell in next(reader, [])]
        if sorted(heading) != sorted(COLUMNS):
            problems.add(
                "/lines/1",
                "bad_heading",
                Text(f"The first line must be {','.join(COLUMNS)}.", f"第一行须为 {','.join(COLUMNS)}。"),
            )
            return []
        for cells in reader:
            if not any(cell.strip() for cell in cells):
                continue
            if len(rows) >= LINES_MAX:
                problems.add(
                    f"/lines/{reader.line_num}",
                    "too_many",
                    Text(f"A file has at most {LINES_MAX} lines; split it.", f"一个文件最多 {LINES_MAX} 行；请拆分。"),
                )
                break
            if len(cells) != len(COLUMNS):
                problems.add(
                    f"/lines/{reader.line_num}",
                    "bad_line",
                    Text(
                        f"A line has {len(COLUMNS)} cells, not {len(cells)}.",
                        f"一行应有 {len(COLUMNS)} 个单元格，而非 {len(cells)} 个。",
                    ),
                )
                continue
            rows.append((reader.line_num, dict(zip(heading, map(_plain, cells), strict=True))))
    except csv.Error as error:
        problems.add(f"/lines/{reader.line_num}", "not_csv", Text(f"This line is not CSV: {error}.", f"该行不是 CSV：{error}。"))
    return rows


def _plain(cell: str) -> str:
    """A cell as it was before it was made safe for spreadsheets."""
    cell = cell.strip(" ")
    return cell[1:] if cell.startswith("'") and cell[1:].startswith(FORMULA_STARTS) else cell


def _check(rows: Sequence[tuple[int, dict[str, str]]], problems: names.Problems) -> list[_Line]:
    tenants: dict[str, list[Tenant]] = {}
    for known in Tenant.objects.filter(deleted_at__isnull=True):
        tenants.setdefault(known.name, []).append(known)
    by_slug = {known.slug: known for same_name in tenants.values() for known in same_name}
    lines = []
    for number, row in rows:
        path = f"/lines/{number}"
        names.user_name(row["name"], problems, path=f"{path}/name")
        email = names.email_address(row["email"], problems, path=f"{path}/email")
        tenant: Tenant | None = None
        role: TenantRole | None = None
        if bool(row["tenant"]) != bool(row["role"]):
            problems.add(
                f"{path}/role",
                "incomplete",
                Text("Tenant and role stand together, or both are empty.", "租户与角色须同时填写，或同时留空。"),
            )
        elif row["tenant"]:
            role = names.role_name(row["role"], problems, path=f"{path}/role")
            found = [by_slug[row["tenant"]]] if row["tenant"] in by_slug else tenants.get(row["tenant"], [])
            tenant = found[0] if len(found) == 1 else None
            if tenant is None:
                problems.add(
                    f"{path}/tenant",
                    "not_found",
                    Text("There is no such tenant, or several: use the slug.", "没有这个租户，或有多个同名：请使用 slug。"),
                )
        lines.append(_Line(number, row["name"], email, row["tenant"], tenant, role))
    return lines


def _check_against(actor: Actor, lines: Sequence[_Line], users: dict[str, User], problems: names.Problems) -> None:
    """Contradictions inside the file and with what exists. Operators are told whose an address is; unconfirmed ones
    are no obstacle, or people could keep others from being imported."""
    emails = {line.email.lower() for line in lines if line.email}
    owners = {
        user.email.lower(): user.name
        for user in User.objects.exclude(email="").only("email", "name")
        if user.email.lower() in emails
    }
    address_of: dict[str, str] = {}
    seen: set[tuple[str, uuid.UUID | str]] = set()
    for line in lines:
        path = f"/lines/{line.number}"
        user = users.get(line.name)
        if user is not None and user.kind == UserKind.SERVICE:
            problems.add(f"{path}/name", "is_service", Text("This is a service account.", "这是服务账户。"))
        if address_of.setdefault(line.name, line.email) != line.email:
            problems.add(
                f"{path}/email",
                "contradiction",
                Text("Another line gives this user another address.", "另一行为该用户填写了不同的邮箱。"),
            )
        if line.email and owners.setdefault(line.email.lower(), line.name) != line.name:
            problems.add(f"{path}/email", "taken", Text("This address belongs to another user.", "该邮箱属于其他用户。"))
        tenant_id = line.tenant.pk if line.tenant else None
        place = (line.name, tenant_id or line.tenant_text)
        if place in seen:
            problems.add(
                path, "repeated", Text("The same user and tenant stand in an earlier line.", "同一用户和租户已在前面的行中出现。")
            )
        seen.add(place)
        if user is not None and user.pk == actor.user_id and line.role is not None and not _holds(actor, tenant_id, line.role):
            problems.add(
                f"{path}/role",
                "beyond_own",
                Text("Operators do not give themselves a role in a tenant.", "运维人员不能给自己授予租户中的角色。"),
            )


def _holds(actor: Actor, tenant_id: uuid.UUID | None, role: TenantRole) -> bool:
    own = None if tenant_id is None else actor.roles.get(tenant_id)
    return own is not None and ROLE_RANK[own] >= ROLE_RANK[role]


def _write(lines: Sequence[_Line], users: dict[str, User], *, dry_run: bool, now: datetime) -> dict[int, str]:
    """Rows for all lines in a constant number of statements; what each line's action is."""
    ids = {name: user.pk for name, user in users.items()}
    actions: dict[int, str] = {}
    new_users: dict[str, dict[str, object]] = {}
    changed_users: dict[str, dict[str, object]] = {}
    for line in lines:
        user = users.get(line.name)
        actions[line.number] = "unchanged"
        if user is None:
            actions[line.number] = "created"
            row_id = ids.setdefault(line.name, new_id())
            new_users.setdefault(line.name, _new_user(row_id, line, now))
        elif line.email and (user.email != line.email or user.email_claimed):
            actions[line.number] = "updated"
            changed_users[line.name] = {
                "id": user.pk, "email": line.email, "email_claimed": None, "email_claimed_at": None, "version": 1
            }  # fmt: skip
    known = {
        (row.user_id, row.tenant_id): row for row in Membership.objects.filter(user_id__in=[user.pk for user in users.values()])
    }
    new_rows, changed_rows = [], []
    for line in lines:
        if line.tenant is None or line.role is None:
            continue
        row = known.get((ids[line.name], line.tenant.pk))
        if row is None:
            new_rows.append(_new_membership(ids[line.name], line.tenant.pk, line.role, now))
        elif row.role != line.role:
            changed_rows.append({"id": row.pk, "role": line.role, "version": 1})
        else:
            continue
        if actions[line.number] == "unchanged":
            actions[line.number] = "updated"
    if not dry_run:
        bulk.insert(User, list(new_users.values()))
        bulk.update(User, list(changed_users.values()), increment=("version",))
        bulk.insert(Membership, new_rows)
        bulk.update(Membership, changed_rows, increment=("version",))
    return actions


def _new_user(row_id: uuid.UUID, line: _Line, now: datetime) -> dict[str, object]:
    return {
        "id": row_id,
        "password": make_password(None),
        "name": line.name,
        "email": line.email,
        "kind": UserKind.PERSON,
        "tenant_id": None,
        "is_operator": False,
        "is_active": True,
        "version": 1,
        "created_at": now,
    }


def _new_membership(user_id: uuid.UUID, tenant_id: uuid.UUID, role: TenantRole, now: datetime) -> dict[str, object]:
    return {"id": new_id(), "tenant_id": tenant_id, "user_id": user_id, "role": role, "version": 1, "created_at": now}


def _places(number: int) -> str:
    return "One place of the file is" if number == 1 else f"{number} places of the file are"
