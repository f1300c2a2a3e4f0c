"""`manage.py quarantine`: what clusters run that a restored database does not know, and what becomes of it."""

from __future__ import annotations

import os
import pwd
import sys
import uuid
from argparse import ArgumentTypeError
from typing import Any

from django.core.management.base import BaseCommand, CommandParser

from clusters.services import quarantine
from jobs.services import adopt
from kernel.actor import Actor, system_actor
from kernel.clock import database_now
from kernel.errors import BerthError


class Command(BaseCommand):
    help = "List attempts in quarantine after a restore, give them to their jobs, or stop them. Nothing is done by itself."
    requires_system_checks: list[str] = []

    def add_arguments(self, parser: CommandParser) -> None:
        chosen = parser.add_mutually_exclusive_group()
        chosen.add_argument("--adopt", type=_attempt, metavar="ATTEMPT", help="give this attempt to the job that waits for it")
        chosen.add_argument("--adopt-fitting", action="store_true", help="the same for all that fit a waiting job")
        chosen.add_argument("--stop", type=_attempt, metavar="ATTEMPT", help="have the cluster end this attempt and forget it")
        chosen.add_argument("--nothing-runs-on", metavar="CLUSTER", help="start restored jobs although this cluster is silent")

    def handle(self, *args: Any, **options: Any) -> None:
        try:
            if options["adopt"]:
                self._adopt([options["adopt"]])
            elif options["adopt_fitting"]:
                self._adopt(adopt.list_fitting())
            elif options["stop"]:
                quarantine.stop_quarantined(actor=_operator(), attempt_id=options["stop"], now=database_now())
                self.stdout.write(f"{options['stop']} is being stopped; it leaves the list when its cluster has forgotten it.")
            elif options["nothing_runs_on"]:
                quarantine.trust_cluster(actor=_operator(), name=options["nothing_runs_on"], now=database_now())
                self.stdout.write(f"Restored jobs start without asking {options['nothing_runs_on']}.")
            else:
                self._list()
        except BerthError as error:
            sys.exit(f"berth: {error.detail} {error.hint}".rstrip())

    def _adopt(self, attempts: list[uuid.UUID]) -> None:
        refused = 0
        for attempt_id in attempts:
            try:
                job_id = adopt.adopt(actor=_operator(), attempt_id=attempt_id, now=database_now())
                self.stdout.write(f"{attempt_id} is an attempt of job {job_id} again.")
            except BerthError as error:
                refused += 1
                self.stderr.write(f"{attempt_id}: {error.detail} {error.hint}".rstrip())
        if refused:
            sys.exit(1)
        if not attempts:
            self.stdout.write("Nothing in quarantine fits a waiting job.")

    def _list(self) -> None:
        rows, holds = quarantine.list_open(), quarantine.current_holds()
        fitting = set(adopt.list_fitting())
        for _, name in holds.unlooked:
            self.stdout.write(f"Cluster {name} was not asked yet; restored jobs wait for it.")
        if not rows:
            self.stdout.write("Nothing is in quarantine.")
            return
        self.stdout.write(f"{'ATTEMPT':<38}{'CLUSTER':<16}{'JOB':<38}{'NO':<4}{'NAME':<24}{'STATE':<10}DECISION")
        for row in rows:
            state = "running" if row.runs else "ended"
            decision = "stopping" if row.stop_asked_at else "fits its job" if row.attempt_id in fitting else "no job waits for it"
            self.stdout.write(
                f"{row.attempt_id!s:<38}{row.cluster.name[:15]:<16}{row.job_id or '?'!s:<38}{row.number or '?'!s:<4}"
                f"{row.name[:23]:<24}{state:<10}{decision}"
            )
        self.stdout.write("\n--adopt ATTEMPT or --adopt-fitting gives back what fits; --stop ATTEMPT ends one.")
        self.stdout.write("Nothing is done to what nobody decides about: it runs on, and its job waits.")


def _operator() -> Actor:
    """The user who types on the server, by the name that the server knows them under."""
    name = os.environ.get("SUDO_USER", "")
    if not name:
        try:
            name = pwd.getpwuid(os.getuid()).pw_name
        except KeyError:
            name = str(os.getuid())
    return system_actor(f"quarantine by {name}")


def _attempt(text: str) -> uuid.UUID:
    try:
        return uuid.UUID(text)
    except ValueError:
        raise ArgumentTypeError(f"{text!r} is no attempt's id") from None
