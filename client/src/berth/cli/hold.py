"""`berth hold` and `release`: keep waiting jobs from starting, and let them go; `retry-now`: without the wait after a failure."""

from __future__ import annotations

from berth.cli import formats
from berth.cli.command import Session, command
from berth.cli.jobs import JobsArgument
from berth.cli.messages import _
from berth.cli.output import hint
from berth.errors import Conflict
from berth.sanitize import plain


@command()
def hold(session: Session, jobs: JobsArgument) -> None:
    """Hold queued jobs: they do not start until they are released. Running jobs continue."""
    _set(session, jobs, on=True)


@command()
def release(session: Session, jobs: JobsArgument) -> None:
    """Release held jobs: they start as soon as there is room."""
    _set(session, jobs, on=False)


@command()
def retry_now(session: Session, jobs: JobsArgument) -> None:
    """Start the next attempt as soon as there is room, without the wait after the last one."""
    changed = []
    for job_id in [session.client.jobs.resolve(job) for job in jobs]:
        job = session.client.jobs.edit(job_id, retry_now=True)
        changed.append(job.data)
        if not session.is_for_programs:
            session.show_done(job.data, _("Job {name} is tried again as soon as there is room.", name=plain(job.name)))
    if session.is_for_programs:
        session.show(changed, [])


def _set(session: Session, jobs: list[str], *, on: bool) -> None:
    """Every job is found before the first is changed: a mistyped name changes nothing."""
    changed = []
    for job_id in [session.client.jobs.resolve(job) for job in jobs]:
        job = session.client.jobs.edit(job_id, hold=on)
        if not on and job.has_ended:  # Nothing of it changes, so the server has nothing to refuse.
            raise Conflict(
                _(
                    "Job {name} is {state}; only a queued job can be released.",
                    name=plain(job.name),
                    state=formats.state_word(job.state),
                ),
                hint=_("berth rerun {job} submits it again.", job=plain(job.name)),
            )
        changed.append(job.data)
        if not session.is_for_programs:
            text = _("Job {name} is held; it is {state}.") if on else _("Job {name} is released; it is {state}.")
            session.show_done(job.data, text.format(name=plain(job.name), state=formats.state_word(job.state)))
    if session.is_for_programs:
        session.show(changed, [])
    else:
        hint(_("berth release {job}", job=plain(jobs[0])) if on else _("berth get {job}", job=plain(jobs[0])))
