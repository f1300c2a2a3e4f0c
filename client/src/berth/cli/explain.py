"""`berth explain` and `berth what-if`: why a job waits, what would start it, and what changes would come to."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from datetime import date
from pathlib import Path
from typing import Annotated, Any

import typer

from berth.cli import formats
from berth.cli.command import Session, UsageMistake, command
from berth.cli.expected import PREDICTIONS_LEAST, unexpected_text
from berth.cli.messages import _
from berth.cli.output import Column, heading, note, print_data, print_facts, table_text
from berth.sanitize import plain

SHOWN = 10  # Jobs of one list.
BILLION = 1_000_000_000
FILE_BYTES_MAX = 1 << 20
EXAMPLE = "changes: [{end: {job: train}}, {quota: {queue: vision, pool: a100, resource: gpu_millis, ceiling: 16000}}]"

FileOption = Annotated[Path, typer.Option("--file", "-f", help="YAML or JSON file with the changes; - is standard input.")]


@command()
def explain(
    session: Session,
    job: Annotated[str, typer.Argument(metavar="JOB", help="Name, prefix of the id, or id.")],
    quick: Annotated[
        bool, typer.Option("--quick", help="Skip the search for changes that would start the job, which takes longest.")
    ] = False,
) -> None:
    """Explain why a job waits: all reasons, who holds the missing resources, its place, and what would start it.

    Each suggested change was tried on a copy of the cluster's state, where the job started.
    """
    found = session.client.questions.explain(job, quick=quick)
    if session.is_for_programs:
        print_data(found, session.form, key="job")
        return
    print_facts(_facts(found))
    for number, condition in enumerate(found["conditions"]):  # The first is the cause; its end may be one way of two.
        is_other_way = number > 0 and condition["instead"] != found["conditions"][0]["instead"]
        heading(_("Or as soon as") if is_other_way else _("What is missing"))
        _print_condition(condition)
    if found.get("starting"):
        heading(_("What its tasks wait for"))
        for wait in found["starting"]:
            sys.stdout.write(f"  {_starting(wait)}\n")
    if found["suggestions"]:
        heading(_("What would start it"))
        for suggestion in found["suggestions"]:
            sys.stdout.write(f"  - {formats.said(suggestion['text'])}\n")
    if found.get("suggestions_bounded"):
        sys.stdout.write(_("The search stopped at its limit; other changes may help, too.") + "\n")
    if found["decisions"]:
        heading(_("Decisions"))
        sys.stdout.write(table_text(found["decisions"], DECISION_COLUMNS))
        _print_placement(found["decisions"])


@command()
def what_if(session: Session, file: FileOption) -> None:
    """Show which jobs would start, wait or be preempted after changes; nothing is changed.

    The file holds `changes`, a list of entries with one key each: submit, ask, rank, release, end, quota, cap, and for
    operators add_nodes, remove_node, cordon, uncordon, policy. Suggestions of `berth explain --json` can be used unchanged.
    """
    answer = session.client.questions.what_if(changes_of(file))
    if session.is_for_programs:
        print_data(answer, session.form)
        return
    told = False
    for key, title in LISTS.items():
        entries, others = answer[key]["jobs"], answer[key]["others"]
        if not entries and not others:
            continue
        told = True
        heading(_(title))
        if entries:
            sys.stdout.write(table_text(entries[:SHOWN], WHAT_IF_COLUMNS))
        more = max(0, len(entries) - SHOWN) + answer[key]["more"]
        if more:
            sys.stdout.write("  " + _("and {count} more", count=more) + "\n")
        if others:
            sys.stdout.write("  " + _("and {count} of other tenants", count=others) + "\n")
    if not told:
        note(_("The changes would make no difference now."))
    counts = {key: answer["after"][key] for key in ("starts", "waits", "evicted")}
    sys.stdout.write(_("After the changes: {starts} start, {waits} wait, {evicted} are preempted.", **counts) + "\n")


def changes_of(path: Path) -> list[dict[str, Any]]:
    """The changes of a YAML or JSON file: a list, or an object with `changes`."""
    import yaml

    try:
        with sys.stdin.buffer if str(path) == "-" else path.open("rb") as stream:
            entries = yaml.safe_load(stream.read(FILE_BYTES_MAX))
    except OSError as error:
        raise UsageMistake(_("{path} cannot be read: {reason}", path=plain(str(path)), reason=error.strerror or "")) from None
    except (yaml.YAMLError, RecursionError, UnicodeDecodeError):
        raise UsageMistake(_("{path} is not YAML.", path=plain(str(path))), hint=EXAMPLE) from None
    if isinstance(entries, Mapping):
        entries = entries.get("changes")
    if not isinstance(entries, list) or not all(isinstance(entry, Mapping) for entry in entries):
        raise UsageMistake(_("{path} has no list of changes.", path=plain(str(path))), hint=EXAMPLE)
    return [_plain(entry) for entry in entries]


def _plain(value: Any) -> Any:
    """What YAML reads, as JSON has it: an unquoted time becomes the text of the same moment."""
    if isinstance(value, Mapping):
        return {str(key): _plain(each) for key, each in value.items()}
    if isinstance(value, list):
        return [_plain(each) for each in value]
    return value.isoformat() if isinstance(value, date) else value


# --- Explaining -----------------------------------------------------------------------------------------------------------


def _facts(found: Mapping[str, Any]) -> list[tuple[str, Any]]:
    place, factors = found.get("place") or {}, found.get("factors") or {}
    reason = found.get("reason") or {}
    facts: list[tuple[str, Any]] = [
        ("Job", (plain(found["job"]["name"]), "bold")),
        ("State", formats.state_text(found["state"])),
        ("Why", formats.said(reason.get("text", ""))),
    ]
    if found["starts"]:
        facts.append(("Now", _("The scheduler is about to start it.")))
    elif found.get("now"):
        facts.append(("Now", _now(reason, found["now"])))
    if place.get("in_queue"):
        in_queue = _("{place} of {count} in its queue", place=place["in_queue"], count=place["queue_length"])
        in_pool = _("{place} of {count} among jobs for the same pools", place=place["in_pool"], count=place["pool_length"])
        facts.append(("Place", f"{in_queue}, {in_pool}"))
    if factors:
        facts.append(("Order", _order(factors)))
    if found.get("expected"):
        facts.append(("Expected", _expected(found["expected"])))
    if found.get("latest"):
        facts.append(("Latest", formats.said(found["latest"]["text"])))
    return facts


def _now(reason: Mapping[str, Any], now: Mapping[str, Any]) -> str:
    """Why it waits by now, where what lists show has gone since it was found."""
    text = formats.said(now["text"])
    if not reason.get("found_at"):
        return text
    return _("{why} The reason above is of {time}.", why=text, time=formats.time_text(reason["found_at"]))


def _expected(expected: Mapping[str, Any]) -> str:
    """When it is expected to start, and how far such words could be trusted of late."""
    p50, p90, past = expected["p50_at"], expected["p90_at"], expected["past"]
    if p50 is None and p90 is None:
        return unexpected_text(expected)
    parts = []
    if p50 is not None:
        parts.append(_("50 % likely by {time}", time=formats.time_text(p50)))
        if expected.get("error") is not None:
            parts.append(_("median error: {rate} of the wait", rate=f"{expected['error']:.0%}"))
    elif expected.get("reason") == "uncertain":
        parts.append(_("no 50 % time: too uncertain"))
    elif expected.get("reason") == "little_history":
        parts.append(_("no 50 % time: too few jobs have ended"))
    if p90 is not None:
        parts.append(_("90 % likely by {time}", time=formats.time_text(p90)))
    if past["predictions"] >= PREDICTIONS_LEAST and past["by_p90"] is not None:
        rate = f"{past['by_p90']:.0%}"
        parts.append(_("{rate} of the last {count} predictions were kept", count=past["predictions"], rate=rate))
    return "; ".join(parts)


def _order(factors: Mapping[str, Any]) -> str:
    """What gives it its place, in one line."""
    worth, waited = (formats.duration_text(factors[key]) for key in ("priority_seconds", "waited_seconds"))
    parts = [
        _("priority {priority}, equal to {time} of waiting", priority=factors["priority"], time=worth),
        _("waited {time}", time=waited),
    ]
    for factor in factors["queues"]:
        name = plain(factor["queue"]["name"]) if factor["queue"] else _("a queue above")
        if factor["is_owed"]:
            parts.append(_("queue {queue} holds less than it deserves and comes first", queue=name))
        else:  # What it holds now, as on the job's page; `share` has the past in it.
            share = f"{factor['share_now'] / BILLION:.0%}"
            parts.append(_("queue {queue} holds {share} of its pool by weight", queue=name, share=share))
    return "; ".join(parts)


def _starting(wait: Mapping[str, Any]) -> str:
    """Tasks of a job that starts, and what keeps them from beginning since when."""
    names = ", ".join(plain(task) for task in wait["tasks"])
    more = wait["tasks_count"] - len(wait["tasks"])
    if more:
        names = f"{names}, {_('and {count} more', count=more)}"
    since = _("for {duration}", duration=formats.age_text(wait["since"]))
    return f"{names}: {formats.starting_text(wait)} ({since})"


def _print_condition(condition: Mapping[str, Any]) -> None:
    sys.stdout.write(f"  {formats.said(condition['text'])}\n")
    if condition["jobs"]:
        names = ", ".join(plain(job["name"]) for job in condition["jobs"])
        sys.stdout.write("  " + _("Jobs: {names}", names=names) + "\n")
    if condition["held_by"]:
        sys.stdout.write(table_text(condition["held_by"], HOLDER_COLUMNS))


def _print_placement(decisions: Sequence[Mapping[str, Any]]) -> None:
    """Why here and not there: of the latest placement, what kept it out of other machines, and how the best ones scored."""
    detail: Mapping[str, Any] = next((row["detail"] for row in decisions if row["detail"].get("scores")), {})
    if not detail:
        return
    heading(_("Placement"))
    told = [
        (_("Candidates"), _("{count} in the pool", count=detail.get("candidates", 0))),
        (_("Runs on"), _(str(detail.get("standing", "")))),
        (_("Tasks go"), _together(detail.get("together") or {})),
        (_("Policy"), plain(str(detail.get("policy", "")))),
    ]
    print_facts([(label, value) for label, value in told if value], indent=2)
    for role in detail.get("roles", ()):
        for refusal in role.get("filters", ()):
            sys.stdout.write("  " + _("{count} excluded: {why}", count=refusal["machines"], why=plain(refusal["text"])) + "\n")
    for table in detail["scores"]:
        terms = [term for term, _value, _weight in table["rows"][0]["terms"]]
        columns = [
            Column("NODE", lambda row: plain(row["machine"])),
            Column("SCORE", lambda row: str(row["total"]), right=True),
        ]
        columns += [_term_column(term, at) for at, term in enumerate(terms)]
        sys.stdout.write(table_text(table["rows"], columns))


def _together(ways: Mapping[str, str]) -> str:
    """How tasks were to go to machines: by the job, or by what its framework does."""
    return ", ".join(f"{plain(role)}: {plain(way)}" if role else plain(way) for role, way in sorted(ways.items()))


def _term_column(term: str, at: int) -> Column:
    return Column(term.upper(), lambda row: str(row["terms"][at][1]), right=True)


def _decision(row: Mapping[str, Any]) -> str:
    detail = row["detail"]
    if detail.get("nodes"):
        return ", ".join(plain(node) for node in detail["nodes"][:SHOWN])
    reason = detail.get("reason") or {}
    return formats.said(reason.get("text") or str(reason.get("code", "")).replace("_", " "))


def _entry_text(entry: Mapping[str, Any]) -> str:
    if entry["nodes"]:
        return ", ".join(plain(node) for node in entry["nodes"][:SHOWN])
    reason = formats.said((entry["reason"] or {}).get("text", ""))
    return f"{reason} {_('{count} jobs would be preempted for it.', count=entry['evicts'])}" if entry["evicts"] else reason


HOLDER_COLUMNS: Sequence[Column] = [
    Column("QUEUE", formats.holder_text, shrinks=True),
    Column("HOLDS", formats.amounts_text),
    Column("JOBS", lambda row: str(row["jobs"]), right=True),
    Column("SINCE", lambda row: formats.time_text(row["since"])),
    Column("STANDING", lambda row: _("kept") if row["kept"] else _(row["standing"])),
]
DECISIONS = {"wait_turned_start": "started after waiting", "evict": "preempt"}  # Others are said as the API does.
DECISION_COLUMNS: Sequence[Column] = [
    Column("AT", lambda row: formats.time_text(row["at"])),
    Column("DECISION", lambda row: _(DECISIONS.get(row["kind"], row["kind"]))),
    Column("POOL", lambda row: plain(row["pool"] or "")),
    Column("WHERE", _decision, shrinks=True),
]
WHAT_IF_COLUMNS: Sequence[Column] = [
    Column("JOB", lambda entry: plain(entry["job"]["name"]), shrinks=True),
    Column("POOL", lambda entry: plain(entry["pool"] or "")),
    Column("WHERE", _entry_text, shrinks=True),
]
LISTS = {
    "starts": "Would start",
    "starts_not": "Would no longer start",
    "evicted": "Would be preempted",
    "displaced": "Would lose their node",
    "spared": "Would no longer be preempted",
    "waits": "Would wait",
}
