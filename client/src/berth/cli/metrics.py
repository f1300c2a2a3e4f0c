"""`berth metrics`: what the tasks of a job use, once or live."""

from __future__ import annotations

import sys
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated, Any

import typer

from berth.cli import formats
from berth.cli.command import Session, UsageMistake, command
from berth.cli.jobs import JobArgument
from berth.cli.messages import _
from berth.cli.output import Column, console, note, print_data, table_text
from berth.cli.paint import is_terminal
from berth.sanitize import plain

if TYPE_CHECKING:
    from berth.jobs import Job
    from berth.metrics import Series

WATCH_SECONDS = 3.0
SPARK_WIDTH = 24
SHOWN_AFTER_SECONDS = 15  # From a measurement until it can be read, with some room.
GIVEN_UP_SECONDS = 60  # After the end of a job, what is not there will not come.
_SIGNS = {"ratio 0-1": (100, "%"), "watts": (1, "W"), "degrees Celsius": (1, "°C")}


@command()
def metrics(
    session: Session,
    job: JobArgument,
    metric: Annotated[str | None, typer.Option("--metric", help="Only this metric.")] = None,
    task: Annotated[str | None, typer.Option("--task", help="Only this task, such as worker-0.")] = None,
    watch: Annotated[bool, typer.Option("--watch", "-w", help="Refresh until the job has ended.")] = False,
) -> None:
    """Show CPU, memory, disk and GPU usage of each task: latest value, maximum and trend."""
    jobs = session.client.jobs
    job_id = jobs.resolve(job)
    if watch and not session.is_for_programs:
        _watch(session, job_id, metric, task)
        return
    series = jobs.metrics(job_id, metric=metric, task=task)
    if session.is_for_programs:
        print_data([_document(entry) for entry in series], session.form)
    elif series:
        sys.stdout.write(table_text(series, COLUMNS))
    else:
        note(_nothing_text(jobs.get(job_id)))


def _watch(session: Session, job_id: str, metric: str | None, task: str | None) -> None:
    if not is_terminal(sys.stdout):
        raise UsageMistake(_("--watch needs a terminal."), hint=_("Use berth metrics --json in a program."))
    from rich.console import Group
    from rich.live import Live
    from rich.text import Text

    jobs = session.client.jobs
    with Live(console=console(), auto_refresh=False) as live:
        try:
            while True:
                job = jobs.get(job_id)
                series = jobs.metrics(job_id, metric=metric, task=task)
                sign, style = formats.state_text(job.state)
                title = Text.assemble((f"{plain(job.name)}  ", "bold"), (sign, style), "\n")
                body = Text.from_ansi(table_text(series, COLUMNS)) if series else Text(_nothing_text(job))
                live.update(Group(title, body), refresh=True)
                if job.has_ended:
                    return
                session.client.transport.sleep(WATCH_SECONDS)
        except KeyboardInterrupt:
            return


def _nothing_text(job: Job) -> str:
    """Placement is nothing to show: it is too early, or too late."""
    ended_at = formats.moment(job.data.get("ended_at"))
    if ended_at and (datetime.now(UTC) - ended_at).total_seconds() > GIVEN_UP_SECONDS:
        return _("No measurements: the job was too short, or their retention is over.")
    return _("No measurements yet; they appear about {seconds} s later.", seconds=SHOWN_AFTER_SECONDS)


def value_text(value: float | None, unit: str) -> str:
    """A measured value with its unit."""
    if value is None:
        return formats.NOTHING
    if unit == "bytes":
        return formats.size_text(value)
    if unit == "bytes per second":
        return f"{formats.size_text(value)}/s"
    if unit == "thousandths of a core":
        return _("{cores} cores", cores=f"{value / 1000:.2f}")
    scale, sign = _SIGNS.get(unit, (1, ""))
    return f"{value * scale:.0f} {sign}".strip()


def _document(series: Series) -> dict[str, Any]:
    return {
        "subject": series.subject,
        "metric": series.metric,
        "unit": series.unit,
        "simulated": series.simulated,
        "times": [at.isoformat().replace("+00:00", "Z") for at in series.times],
        "values": list(series.values),
    }


def _highest(series: Series) -> float | None:
    return max((value for value in series.values if value is not None), default=None)


COLUMNS = [
    Column("TASK", lambda series: plain(series.name)),
    Column("METRIC", lambda series: plain(series.metric) + (f" ({_('simulated')})" if series.simulated else "")),
    Column("NOW", lambda series: value_text(series.latest, series.unit), right=True),
    Column("HIGHEST", lambda series: value_text(_highest(series), series.unit), right=True),
    Column("TREND", lambda series: (formats.sparkline(list(series.values), SPARK_WIDTH), "cyan"), shrinks=True),
]
