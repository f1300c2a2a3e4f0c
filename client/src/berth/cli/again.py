"""`berth rerun` and `berth clone`: the same job once more, and what is different shown before it goes."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Annotated, Any

import typer

from berth.cli.command import Session, YesOption, command, confirmed_submission
from berth.cli.jobs import JobArgument
from berth.cli.messages import _
from berth.cli.output import hint, json_text
from berth.cli.paint import is_terminal, paint
from berth.sanitize import plain
from berth.specs import MISSING, apply_changes, difference, in_single_role

if TYPE_CHECKING:
    from berth.jobs import Job

ChangesOption = Annotated[
    list[str] | None, typer.Option("--set", metavar="PATH=VALUE", help="Change the spec: roles.worker.resources.memory=32Gi.")
]


FromCheckpointOption = Annotated[bool, typer.Option("--from-checkpoint", help="Start from a copy of the job's last checkpoint.")]


@command()
def rerun(
    session: Session,
    job: JobArgument,
    changes: ChangesOption = None,
    from_checkpoint: FromCheckpointOption = False,
    follow_: Annotated[bool, typer.Option("--follow", "-f", help="Follow the new job's log.")] = False,
    yes: YesOption = False,
) -> None:
    """Resubmit a job's spec. --set changes it, and the difference is shown."""
    jobs = session.client.jobs
    job_id = jobs.resolve(job)
    if changes and not session.is_for_programs:
        before = jobs.spec(job_id)
        print_difference(before, apply_changes(before, in_single_role(before, changes)))
    if not confirmed_submission(session, yes=yes):
        return
    again = jobs.rerun(job_id, changes=changes or (), from_checkpoint=from_checkpoint)
    _finish(session, again, _("Job {name} submitted again: {id}"), follow_)


@command()
def clone(
    session: Session,
    job: JobArgument,
    name: Annotated[str | None, typer.Option("--name", help="Name of the copy.")] = None,
    changes: ChangesOption = None,
    secret: Annotated[
        list[str] | None,
        typer.Option("--secret", metavar="VARIABLE=SECRET", help="Environment variable with a secret as its value."),
    ] = None,
    from_checkpoint: FromCheckpointOption = False,
    follow_: Annotated[bool, typer.Option("--follow", "-f", help="Follow the new job's log.")] = False,
    yes: YesOption = False,
) -> None:
    """Submit a copy of a job. Secrets are not copied: give them again with --secret."""
    jobs = session.client.jobs
    secrets = {variable: other or None for variable, _equals, other in (entry.partition("=") for entry in secret or [])}
    if not confirmed_submission(session, yes=yes):
        return
    copied = jobs.clone(
        job, name=name, changes=changes or (), secrets=secrets if secret else None, from_checkpoint=from_checkpoint
    )
    _finish(session, copied, _("Job {name} submitted as a copy: {id}"), follow_)


def print_difference(before: dict[str, Any], after: dict[str, Any]) -> None:
    """Changed leaves as `- before` and `+ after`, on standard error."""
    for path, older, newer in difference(before, after):
        print(paint(plain(path), "bold", stream=sys.stderr), file=sys.stderr)
        for sign, value, style in (("-", older, "red"), ("+", newer, "green")):
            if value is not MISSING:
                print(paint(f"  {sign} {json_text(value)}", style, stream=sys.stderr), file=sys.stderr)


def _finish(session: Session, job: Job, text: str, follow_: bool) -> None:
    session.show_done(job.data, text.format(name=plain(job.name), id=job.id))
    if session.is_for_programs:
        return
    if follow_:
        from berth.cli.follow import follow

        raise typer.Exit(follow(session.client, job))
    if is_terminal(sys.stdout):
        hint(_("berth logs -f {job}   ·   berth get {job}", job=job.id))
    else:
        print(job.id)
