"""Invitations for all new people of an import: one each, with the links in a file that only its owner reads."""

from __future__ import annotations

import csv
import io
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

import typer

from berth.cli.command import UsageMistake
from berth.cli.messages import _
from berth.cli.output import note
from berth.errors import BerthError
from berth.sanitize import plain

if TYPE_CHECKING:
    from berth.client import Client

HEAD = ("name", "email", "tenant", "role", "link", "problem")
ROLES = ("viewer", "member", "manager")
INTERRUPTED = 130
NAMES_SHOWN = 20


@dataclass(frozen=True, slots=True)
class Person:
    """A line of an import that made an account."""

    name: str
    email: str
    tenant: str
    role: str


@dataclass(frozen=True, slots=True)
class Refused:
    """A new user without an invitation, with the reason."""

    name: str
    why: str


class LinkFile:
    """A new CSV file for links, which are passwords of a kind: readable by its owner alone, and never one that was there before.

    It is made before anything is imported, so that no invitation is lost to a disk or a path that cannot be written.
    """

    def __init__(self, path: str) -> None:
        self.path = path
        self.count = 0
        try:
            descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        except FileExistsError as error:
            raise UsageMistake(_("{path} exists already. Name a new file for the links.", path=path)) from error
        except OSError as error:
            raise UsageMistake(_("{path} cannot be written: {reason}", path=path, reason=error.strerror)) from error
        self._file = os.fdopen(descriptor, "w", encoding="utf-8", newline="")
        self._rows = csv.writer(self._file)
        self._is_empty = True

    def add(self, person: Person, *, link: str = "", problem: str = "") -> None:
        """Written through at once: what was sent is in the file, whatever happens next."""
        if self._is_empty:
            self._rows.writerow(HEAD)
            self._is_empty = False
        self._rows.writerow([_cell(text) for text in (person.name, person.email, person.tenant, person.role, link, problem)])
        self._file.flush()
        self.count += bool(link)

    def close(self) -> None:
        self._file.close()
        if self._is_empty:
            os.unlink(self.path)


def new_people(text: str, result: Mapping[str, Any]) -> list[Person]:
    """Of a file that was imported: one entry for each new account, by the first of its lines that names a tenant."""
    made = {str(line["name"]) for line in result.get("lines") or () if line.get("action") == "created"}
    found: dict[str, Person] = {}
    heading = text.partition("\n")[0]
    for row in csv.DictReader(io.StringIO(text), delimiter=max(",;\t", key=heading.count)):
        cells = {(key or "").strip().lower(): (value or "").strip() for key, value in row.items() if isinstance(value, str)}
        role = cells.get("role", "")
        person = Person(
            cells.get("name", ""), cells.get("email", ""), cells.get("tenant", ""), role if role in ROLES else "member"
        )
        if person.name in made and person.email and person.tenant:
            found.setdefault(person.name, person)
    return list(found.values())


def invite_all(client: Client, people: Sequence[Person], links: LinkFile) -> list[Refused]:
    """An invitation for each; those that were refused are in the file too, with the reason.

    A second import does not find these people new any more: after Ctrl+C the file and the message say who is left.
    """
    refused = []
    done = 0
    try:
        server = _address(client) if people else ""
        for person in people:
            try:
                made = client.users.invite(person.email, tenant=person.tenant, role=person.role)
            except BerthError as error:
                refused.append(Refused(person.name, str(error)))
                links.add(person, problem=str(error))
            else:
                # The code stands behind the `#`, which browsers send to no server.
                links.add(person, link=f"{server}/invitation#{quote(str(made['token']), safe='')}")
            done += 1
    except KeyboardInterrupt:
        _tell_interrupted(people[done:], links)
        raise typer.Exit(INTERRUPTED) from None
    return refused


def _address(client: Client) -> str:
    """Where people reach the server; that may be another address than the one this client uses."""
    try:
        told = str(client.info().get("url") or "")
    except BerthError:
        told = ""
    return (told if told.startswith(("https://", "http://")) else client.settings.server).rstrip("/")


def _tell_interrupted(left: Sequence[Person], links: LinkFile) -> None:
    for person in left:
        links.add(person, problem=_("not invited yet"))
    note(
        _(
            "Interrupted. Invited: {count}. Not invited yet: {left}; these are in {path}, too.",
            count=links.count,
            left=len(left),
            path=links.path,
        ),
        style="red",
    )
    for person in left[:NAMES_SHOWN]:
        note(f"berth users invite {plain(person.email)} --tenant {plain(person.tenant)} --role {plain(person.role)}")
    if len(left) > NAMES_SHOWN:
        note(_("… and {count} more.", count=len(left) - NAMES_SHOWN))


def tell_invited(links: LinkFile, refused: Sequence[Refused]) -> None:
    """What came of it. Ends with status 1 where a new user got no invitation."""
    if links.count == 0 and not refused:
        note(_("No new account has both an address and a tenant; no invitation was created."))
        return
    note(
        _(
            "Invited: {count}. Their links are in {path}, each works once; send them and delete the file.",
            count=links.count,
            path=links.path,
        )
    )
    for each in refused:
        note(_("{name} has no invitation: {reason}", name=plain(each.name), reason=plain(each.why)), style="red")
    if refused:
        raise typer.Exit(1)


def _cell(text: str) -> str:
    """A spreadsheet takes a text that begins so for a formula."""
    return f"'{text}" if text.startswith(("=", "+", "-", "@", "\t", "\r")) else text
