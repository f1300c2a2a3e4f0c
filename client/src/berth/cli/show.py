"""`berth get`: everything about one job on one page."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated, Any

import typer

from berth.cli import formats
from berth.cli.command import Session, command
from berth.cli.jobs import JobArgument, where_text, why_text
from berth.cli.messages import _
from berth.cli.output import Column, Format, heading, hint, print_data, print_facts, table_text
from berth.sanitize import plain

if TYPE_CHECKING:
    from berth.jobs import Job


ARTIFACTS_SHOWN = 20


@command()
def get(
    session: Session,
    job: JobArgument,
    spec: Annotated[bool, typer.Option("--spec", help="Print the stored spec, ready to edit and resubmit.")] = False,
) -> None:
    """Show a job: state, reason, nodes, attempts and tasks; -o wide adds details."""
    found = session.client.jobs.get(job)
    if spec:
        print_data(found.spec(), session.form if session.form is Format.JSON else Format.YAML)
        return
    if session.form is Format.NAME:
        print(found.id)
        return
    if session.is_for_programs:
        print_data(found.data, session.form)
        return
    attempts = session.client.jobs.attempts(found.id) if found.data.get("attempt") else []
    _print_job(found.data, wide=session.form is Format.WIDE, ran=_ran_text(attempts), shell=_shell_text(found.spec()))
    _print_checkpoint(session, found)
    _print_attempts(session, found, attempts)
    _print_next(found, has_artifacts=_print_artifacts(session, found))


def _ran_text(attempts: Sequence[Mapping[str, Any]]) -> str:
    """How long the attempts ran together; what a job waits between them is no running."""
    found = (formats.span_seconds(attempt.get("started_at"), attempt.get("ended_at")) for attempt in attempts)
    spans = [seconds for seconds in found if seconds is not None]
    return formats.duration_text(sum(spans)) if spans else ""


def _next_attempt_text(job: Mapping[str, Any]) -> str:
    """How long a job that failed waits before it is tried again."""
    at = formats.moment(job.get("not_before_at"))
    if job.get("state") != "queued" or not job.get("attempt") or at is None or at <= datetime.now(UTC):
        return ""
    return _(
        "in {duration}   ·   berth retry-now {job}", duration=formats.until_text(job["not_before_at"]), job=plain(job["name"])
    )


def _shell_text(spec: Mapping[str, Any]) -> str:
    """Which shell runs the commands that are text."""
    words = {"bash": "bash", "sh": "sh", "auto": _("bash, or sh where the image has none")}
    chosen = {
        name: words.get(str(role.get("shell", "auto")), plain(role.get("shell")))
        for name, role in (spec.get("roles") or {}).items()
        if isinstance(role.get("command"), str)
    }
    if len(set(chosen.values())) <= 1:
        return next(iter(chosen.values()), "")
    return ", ".join(f"{plain(name)}: {shell}" for name, shell in chosen.items())


def _print_job(job: Any, *, wide: bool, ran: str, shell: str) -> None:
    image, array = job.get("image") or {}, job.get("array") or {}
    end, reason = ({}, {}) if job["state"] == "succeeded" else (job.get("exit") or {}, job.get("reason") or {})
    facts: list[tuple[str, Any]] = [
        ("Name", (plain(job["name"]), "bold")),
        ("Id", job["id"]),
        ("State", formats.state_text(job.get("state"))),
        ("Why", why_text(job)),
        ("What to do", formats.said(end.get("hint") or reason.get("hint") or "")),
        ("Exit", _exit_text(end)),
        ("Tenant", formats.name_of(job.get("tenant"))),
        ("Queue", formats.name_of(job.get("queue"))),
        ("User", formats.name_of(job.get("user"))),
        ("Where", where_text(job)),
        ("GPUs", _("simulated") if job.get("gpus_simulated") else ""),
        ("Image", formats.name_of(image)),
        ("Shell", shell),
        ("Framework", "" if job.get("framework") == "none" else plain(job.get("framework") or "")),
        ("Array", _array_text(array, job.get("counts"))),
        ("Submitted", formats.time_text(job.get("submitted_at"))),
        ("Started", formats.time_text(job.get("started_at"))),
        ("Ended", formats.time_text(job.get("ended_at"))),
        ("Ran", ran),
        ("Progress", formats.progress_text(job["progress"]) if job.get("progress") else ""),
        ("Next attempt", _next_attempt_text(job)),
        ("Runs at most", formats.duration_text(job.get("max_runtime_seconds"))),
        ("Planned to run", formats.planned_text(job)),
        ("Labels", ", ".join(f"{plain(key)}={plain(value)}" for key, value in (job.get("labels") or {}).items())),
        ("Tags", ", ".join(plain(tag) for tag in job.get("tags") or [])),
    ]
    if wide:
        facts += [
            ("Priority", plain(job.get("priority") or "")),
            ("Held", _("yes") if job.get("hold") else ""),
            ("Parent", plain(job.get("parent_id") or "")),
            ("Isolation", plain(job.get("isolation") or "")),
            ("Image digest", plain(image.get("digest") or "") if isinstance(image, dict) else ""),
            ("Spec digest", plain(job.get("spec_digest") or "")),
            ("Charged to", plain(end.get("who_pays") or "")),
            ("Version", str(job.get("version") or "")),
        ]
    print_facts(facts)


def _print_checkpoint(session: Session, job: Job) -> None:
    """The last checkpoint, and what an eviction would lose now."""
    kept = session.client.jobs.checkpoint(job.id)
    if kept is None:
        return
    heading(_("Checkpoint"))
    states = {
        "none": _("nothing saved yet"),
        "writing": _("being written"),
        "ready": _("ready"),
        "checking": _("being checked"),
        "unreadable": _("cannot be read"),
        "removed": _("removed"),
    }
    lost = kept.get("if_evicted_now") or {}
    print_facts(
        [
            ("Path", plain(kept.get("path") or "")),
            ("State", states.get(str(kept.get("state")), plain(kept.get("state") or ""))),
            ("Problem", plain(kept.get("problem") or "")),
            ("Saved at", _saved_text(kept)),
            ("Size", formats.size_text(kept.get("size_bytes")) if kept.get("file_count") else ""),
            ("Started from", plain(kept.get("started_from") or "")),
            ("Kept until", formats.time_text(kept["kept_until"]) if kept.get("kept_until") else ""),
            ("A preemption loses", formats.duration_text(lost.get("lost_seconds")) if lost else ""),
        ]
    )


def _saved_text(kept: dict[str, Any]) -> str:
    if not kept.get("saved_at"):
        return ""
    age = formats.duration_text(kept.get("age_seconds"))
    return _("{time}, {age} ago", time=formats.time_text(kept["saved_at"]), age=age)


def _print_attempts(session: Session, job: Job, attempts: Sequence[Mapping[str, Any]]) -> None:
    if not attempts:
        return
    if len(attempts) > 1 or session.form is Format.WIDE:
        heading(_("Attempts"))
        print(table_text(attempts, ATTEMPT_COLUMNS, wide=session.form is Format.WIDE), end="")
    tasks = session.client.jobs.tasks(job.id)
    if tasks:
        heading(_("Tasks"))
        speak = any(task.get("progress") for task in tasks)
        columns = [column for column in TASK_COLUMNS if speak or column is not PROGRESS_COLUMN]
        print(table_text(tasks, columns, wide=session.form is Format.WIDE), end="")
    _advise_on_stragglers(job, [task for task in tasks if task.get("straggler")])


def _advise_on_stragglers(job: Job, behind: Sequence[Mapping[str, Any]]) -> None:
    """What can be looked at of tasks that are far behind the others."""
    if behind:
        name, role, index = plain(job.name), plain(behind[0]["role"]), behind[0]["index"]
        look = f"berth logs {name} --role {role} --index {index}   ·   berth metrics {name}"
        print(_("Slow tasks are not stopped. Compare their nodes, logs and use: {look}", look=look))


def _print_artifacts(session: Session, job: Job) -> bool:
    """What the job left, and whether there is any."""
    if not job.has_ended:
        return False
    artifacts = job.artifacts()
    if artifacts:
        heading(_("Artifacts"))
        print(table_text(artifacts[:ARTIFACTS_SHOWN], ARTIFACT_COLUMNS, wide=session.form is Format.WIDE), end="")
    if len(artifacts) > ARTIFACTS_SHOWN:
        left = len(artifacts) - ARTIFACTS_SHOWN
        print(_("… and {count} more: berth cp {job}: --list", count=left, job=plain(job.name)))
    if left_behind := session.client.jobs.left_behind(job.id):
        print(_("Some outputs were not kept: {what}", what=plain(left_behind)))
    return bool(artifacts)


def _print_next(job: Job, *, has_artifacts: bool) -> None:
    name = plain(job.name)
    if not job.has_ended:
        hint(_("berth logs -f {job}   ·   berth stop {job}", job=name))
    elif not job.succeeded:
        hint(_("berth logs {job}   ·   berth rerun {job} --set path=value", job=name))
    elif has_artifacts:
        hint(_("berth logs {job}   ·   berth cp {job}: ./", job=name))
    else:
        hint(_("berth logs {job}", job=name))


def _exit_text(end: dict[str, Any]) -> str:
    parts = []
    if end.get("code") is not None:
        parts.append(_("code {code}", code=end["code"]))
    if end.get("signal"):
        parts.append(_("signal {signal}", signal=plain(end["signal"])))
    if end.get("class"):
        parts.append(plain(end["class"]))
    return ", ".join(parts)


def _array_text(array: dict[str, Any], counts: dict[str, Any] | None) -> str:
    if array.get("size"):
        states = ", ".join(f"{number} {plain(state)}" for state, number in (counts or {}).items() if number)
        return f"{array['size']} ({states})" if states else str(array["size"])
    return _("index {index}", index=array["index"]) if array.get("index") is not None else ""


def _outcome(row: Any) -> tuple[str, str]:
    return formats.state_text(row.get("outcome") or row.get("state"))


def _end_text(row: Any) -> str:
    end = row.get("exit") or {}
    return formats.said(end.get("text") or "") or _exit_text(end)


def _task_text(task: Any) -> str:
    """How it ended, or what it waits for before it begins."""
    return formats.starting_text(task["waiting"]) if task.get("waiting") else _end_text(task)


def _progress_text(task: Any) -> str | tuple[str, str]:
    """How far it is, and how far behind the others of its role."""
    progress, straggler = formats.progress_text(task.get("progress")), task.get("straggler")
    if not straggler:
        return progress
    behind, median = straggler["behind_percent"], straggler["median_percent"]
    return _("{progress}, {behind} points behind (median {median} %)", progress=progress, behind=behind, median=median), "yellow"


PROGRESS_COLUMN = Column("PROGRESS", _progress_text)
ATTEMPT_COLUMNS = [
    Column("TRY", lambda attempt: str(attempt.get("number", "")), right=True),
    Column("STATE", _outcome),
    Column("WHERE", where_text),
    Column("STARTED", lambda attempt: formats.time_text(attempt.get("started_at"))),
    Column("RAN", lambda attempt: formats.span_text(attempt.get("started_at"), attempt.get("ended_at")), right=True),
    Column("RESULT", _end_text, shrinks=True),
]
TASK_COLUMNS = [
    Column("TASK", lambda task: f"{plain(task['role'])}-{task['index']}"),
    Column("STATE", lambda task: formats.state_text(task.get("state"))),
    Column("NODE", lambda task: formats.name_of(task.get("node"))),
    Column("GPUS", lambda task: str(len(task.get("gpus") or [])) if task.get("gpus") else formats.NOTHING, right=True),
    Column("RAN", lambda task: formats.span_text(task.get("started_at"), task.get("ended_at")), right=True),
    PROGRESS_COLUMN,
    Column("ADDRESS", lambda task: plain(task.get("address") or formats.NOTHING), wide=True),
    Column("DEVICES", lambda task: ", ".join(plain(gpu) for gpu in task.get("gpus") or []), wide=True),
    Column("RESULT", _task_text, shrinks=True),
]
ARTIFACT_COLUMNS = [
    Column("PATH", lambda artifact: plain(artifact["path"]), shrinks=True),
    Column("SIZE", lambda artifact: formats.size_text(artifact.get("size_bytes")), right=True),
    Column("SHA-256", lambda artifact: plain(artifact.get("sha256") or ""), wide=True),
]
