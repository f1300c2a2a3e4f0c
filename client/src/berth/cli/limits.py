"""`berth queues edit`, `edits`, `cancel`, `runtime`, `caps` and `cap`: what queues are promised, and what people may hold."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from berth.cli import formats
from berth.cli.command import Session, UsageMistake, command
from berth.cli.messages import _, counted
from berth.cli.output import Column, hint, note
from berth.sanitize import plain

RESOURCES = {"gpu": "gpu_millis", "cpu": "cpu_millis", "memory": "memory_bytes"}
TITLES = {"gpu_millis": "GPU", "cpu_millis": "CPU", "memory_bytes": "memory"}
COLUMNS = ("guarantee", "deserved", "ceiling", "weight")
EXAMPLE = "berth queues edit QUEUE --pool a100 --guarantee gpu=8 --deserved gpu=12"
ENTRY = "- {queue: vision, pool: a100, ceiling: {gpu: 8}}"
RequestArgument = Annotated[str, typer.Argument(metavar="REQUEST", help="Id of the request.")]
FILE_BYTES_MAX = 4 * 1024**2


@command()
def edit_limits(
    session: Session,
    queue: Annotated[str | None, typer.Argument(metavar="QUEUE", help="Name or id of the queue; or a file with --file.")] = None,
    pool: Annotated[str | None, typer.Option("--pool", help="Pool whose limits change.")] = None,
    guarantee: Annotated[list[str] | None, typer.Option("--guarantee", metavar="OF=N", help="Never lent: gpu=8.")] = None,
    deserved: Annotated[
        list[str] | None, typer.Option("--deserved", metavar="OF=N", help="Lent while idle, taken back on demand: gpu=12.")
    ] = None,
    ceiling: Annotated[list[str] | None, typer.Option("--ceiling", metavar="OF=N", help="Never passed: gpu=16, or none.")] = None,
    weight: Annotated[list[str] | None, typer.Option("--weight", metavar="OF=N", help="Share of what is free: gpu=3.")] = None,
    file: Annotated[Path | None, typer.Option("--file", "-f", help="YAML or JSON list of changes of many queues.")] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Show what would become of it, change nothing.")] = False,
    start: Annotated[str | None, typer.Option("--from", metavar="TIME", help="Not now, but from this time on.")] = None,
    comment: Annotated[str, typer.Option("--comment", help="Why, for the record.")] = "",
    plan: Annotated[
        str | None, typer.Option("--plan", metavar="PLAN", help="Only if it comes to what this dry run has shown.")
    ] = None,
    ask: Annotated[bool, typer.Option("--ask", help="Ask whoever may change it, where you may not.")] = False,
) -> None:
    """Change what queues are promised and allowed, together or not at all; try it first with --dry-run.

    A file holds entries such as {queue: vision, pool: a100, guarantee: {gpu: 8}, ceiling: {gpu: none}}.
    """
    given = {"guarantee": guarantee, "deserved": deserved, "ceiling": ceiling, "weight": weight}
    if file is not None:
        if queue or pool or any(given.values()):
            raise UsageMistake(_("Name changes in the file or on the command line, not both."), hint=EXAMPLE)
        changes = changes_of_file(file)
    elif queue is None or pool is None or not any(given.values()):
        raise UsageMistake(_("Say which queue, which pool, and what changes."), hint=EXAMPLE)
    else:
        entry: dict[str, Any] = {"queue": session.client.queues.get(queue)["id"], "pool": pool}
        changes = changes_of({**entry, **{column: _pairs(words) for column, words in given.items() if words}})
    if ask:
        asked = session.client.quota.request(changes, effective_from=_moment(start), reason=comment)
        session.show_done(asked, _("Asked for; whoever may change these limits decides."))
        return
    edit = session.client.quota.edit(changes, dry_run=dry_run, effective_from=_moment(start), comment=comment, plan=plan)
    if edit["state"] == "dry_run":
        _show_forecast(session, edit)
        if not edit["forecast"]["problems"] and edit.get("plan"):
            hint(_("The same with --plan {plan} does just this, or nothing.", plan=edit["plan"]))
        return
    count = len({change["queue"]["id"] for change in edit["changes"] if change["queue"]})
    if edit["state"] == "pending":
        at = formats.time_text(edit["effective_from"])
        text = counted(count, "{count} queue changes at {at}.", "{count} queues change at {at}.", at=at)
        session.show_done(edit, text)
        hint(f"berth queues cancel {edit['id']}")
    else:
        text = counted(count, "Limits of {count} queue are changed.", "Limits of {count} queues are changed.")
        session.show_done(edit, text)


@command()
def list_edits(
    session: Session,
    state: Annotated[str | None, typer.Option("--state", help="Only pending, applied, cancelled or refused.")] = None,
) -> None:
    """Show edits of limits, also those whose time is still to come."""
    session.show(session.client.quota.edits(state=state), EDIT_COLUMNS, empty=_("No edits that you may see."))


@command()
def cancel_edit(session: Session, edit: Annotated[str, typer.Argument(metavar="EDIT", help="Id of the edit.")]) -> None:
    """Cancel an edit whose time has not come."""
    session.show_done(session.client.quota.cancel_edit(edit), _("The edit is cancelled."))


@command()
def list_requests(
    session: Session,
    state: Annotated[str | None, typer.Option("--state", help="Only pending, approved, denied, withdrawn or expired.")] = None,
) -> None:
    """Show limits that tenants asked for, newest first."""
    session.show(session.client.quota.requests(state=state), REQUEST_COLUMNS, empty=_("Nobody asked for other limits."))


@command()
def approve_request(
    session: Session,
    request: RequestArgument,
    start: Annotated[str | None, typer.Option("--from", metavar="TIME", help="Not now, but from this time on.")] = None,
    answer: Annotated[str, typer.Option("--answer", help="What whoever asked is told.")] = "",
) -> None:
    """Make the change that somebody else asked for."""
    done = session.client.quota.approve(request, answer=answer, effective_from=_moment(start))
    session.show_done(done, _("Approved."))


@command()
def deny_request(
    session: Session,
    request: RequestArgument,
    answer: Annotated[str, typer.Option("--answer", help="What whoever asked is told.")] = "",
) -> None:
    """Refuse what somebody else asked for."""
    session.show_done(session.client.quota.deny(request, answer=answer), _("Denied."))


@command()
def withdraw_request(session: Session, request: RequestArgument) -> None:
    """Take back a request that waits."""
    session.show_done(session.client.quota.withdraw(request), _("The request is {state}.", state=_("withdrawn")))


@command()
def limit_runtime(
    session: Session,
    queue: Annotated[str, typer.Argument(metavar="QUEUE", help="Name, path or id of the queue.")],
    time: Annotated[
        str | None, typer.Argument(metavar="TIME", help="36h or 2d; none lifts the limit. Left out: show it.")
    ] = None,
    default: Annotated[
        str | None,
        typer.Option(
            "--default", metavar="TIME", help="How long jobs without max_runtime are planned to run: 2h, or none. It ends no job."
        ),
    ] = None,
) -> None:
    """Limit how long jobs of a queue, and of those below it, may run."""
    found = session.client.queues.get(queue)
    given = {
        name: formats.parse_runtime(plain(found["name"]), text)
        for name, text in (("max_runtime_seconds", time), ("default_runtime_seconds", default))
        if text is not None
    }
    rules = session.client.quota.set_rules(found["id"], **given) if given else session.client.quota.rules(found["id"])
    longest, planned = rules["effective_max_runtime_seconds"], rules.get("effective_default_runtime_seconds")
    text = (
        _("Jobs of {queue} may run for any time.", queue=plain(found["name"]))
        if longest is None
        else _("Jobs of {queue} may run for {time}.", queue=plain(found["name"]), time=formats.duration_text(longest))
    )
    if longest is None and planned is not None:
        text += " " + _("Those without max_runtime are planned with {time}.", time=formats.duration_text(planned))
    session.show_done(rules, text)


@command()
def limit_counts(
    session: Session,
    queue: Annotated[str, typer.Argument(metavar="QUEUE", help="Name, path or id of a tenant's top queue.")],
    jobs: Annotated[str | None, typer.Option("--jobs", metavar="N", help="Jobs that run: 10, or none.")] = None,
    containers: Annotated[str | None, typer.Option("--containers", metavar="N", help="Tasks that run: 64, or none.")] = None,
) -> None:
    """Limit how many jobs and containers a tenant has at a time, of all its users; without options, show it."""
    found = session.client.queues.get(queue)
    given = {
        name: None if text.strip().lower() == "none" else _whole(text)
        for name, text in (("max_jobs", jobs), ("max_containers", containers))
        if text is not None
    }
    rules = session.client.quota.set_rules(found["id"], **given) if given else session.client.quota.rules(found["id"])
    most = {name: _("any number of") if rules[name] is None else rules[name] for name in ("max_jobs", "max_containers")}
    text = _(
        "{queue} may have {jobs} jobs and {containers} containers at a time.",
        queue=plain(found["name"]),
        jobs=most["max_jobs"],
        containers=most["max_containers"],
    )
    session.show_done(rules, text)


@command()
def list_caps(session: Session) -> None:
    """Show what one person may hold in the tenant at a time."""
    session.show(session.client.quota.caps(session.tenant), CAP_COLUMNS, empty=_("Nobody is capped."), key="user")


@command()
def set_cap(
    session: Session,
    user: Annotated[str | None, typer.Option("--user", "-u", help="One person; everybody else when left out.")] = None,
    gpu: Annotated[str | None, typer.Option("--gpu", "-g", metavar="N", help="GPUs: 8, 0.5, or none.")] = None,
    jobs: Annotated[str | None, typer.Option("--jobs", metavar="N", help="Jobs that run: 10, or none.")] = None,
    containers: Annotated[str | None, typer.Option("--containers", metavar="N", help="Tasks that run: 64, or none.")] = None,
) -> None:
    """Cap what one person may hold in the tenant at a time; what is not named stays, `none` lifts a cap.

    A line for one person stands in place of the line for everybody. It acts on what starts next: nothing is stopped.
    """
    given: dict[str, int | None] = {}
    if gpu is not None:
        given["gpu_millis"] = parse_amount("gpu_millis", gpu)
    for name, text in (("jobs", jobs), ("containers", containers)):
        if text is not None:
            given[name] = None if text.strip().lower() == "none" else _whole(text)
    if not given:
        raise UsageMistake(_("Say what is capped: --gpu, --jobs or --containers."), hint="berth queues cap --user bob --gpu 8")
    before = session.client.quota.caps(session.tenant)
    lines = [{**line, "user": line["user"] and line["user"]["id"]} for line in before]
    ids = {line["user"]["name"]: line["user"]["id"] for line in before if line["user"]}
    wanted = ids.get(user, user) if user is not None else None
    own = next((line for line in lines if line["user"] == wanted), {"user": wanted})
    changed = {**own, **given}
    kept = [line for line in lines if line is not own]
    if any(changed.get(name) is not None for name in ("gpu_millis", "jobs", "containers")):
        kept.append(changed)
    rows = session.client.quota.set_caps(session.tenant, kept)
    whom = plain(user) if user is not None else _("everybody")
    session.show_done({"items": rows}, _("The cap of {whom} is set.", whom=whom))


def changes_of(entry: Mapping[str, Any]) -> list[dict[str, Any]]:
    """One entry {queue, pool, guarantee: {gpu: 8}, ...} as changes of the API, one for each resource."""
    unknown = sorted(set(entry) - {"queue", "pool", *COLUMNS})
    if unknown or not {"queue", "pool"} <= set(entry):
        raise UsageMistake(
            _("An entry has queue, pool and any of {columns}.", columns=", ".join(COLUMNS)),
            hint=ENTRY,
        )
    changes: dict[str, dict[str, Any]] = {}
    for column in COLUMNS:
        amounts = entry.get(column) or {}
        if not isinstance(amounts, Mapping):
            raise UsageMistake(_("{column} has amounts by resource.", column=column), hint=f"{column}: {{gpu: 8}}")
        for name, text in amounts.items():
            resource = RESOURCES.get(str(name))
            if resource is None:
                raise UsageMistake(_("{name} is no resource.", name=plain(str(name))), hint="gpu, cpu, memory")
            change = changes.setdefault(
                resource, {"queue": str(entry["queue"]), "pool": str(entry["pool"]), "resource": resource}
            )
            change[column] = _whole(str(text)) if column == "weight" else parse_amount(resource, str(text))
    return list(changes.values())


def changes_of_file(path: Path) -> list[dict[str, Any]]:
    """The changes of a YAML or JSON file."""
    import yaml

    try:
        with path.open("rb") as stream:
            entries = yaml.safe_load(stream.read(FILE_BYTES_MAX + 1)[:FILE_BYTES_MAX])
    except OSError as error:
        raise UsageMistake(_("{path} cannot be read: {reason}", path=plain(str(path)), reason=error.strerror or "")) from None
    except (yaml.YAMLError, RecursionError, UnicodeDecodeError):
        raise UsageMistake(_("{path} is no YAML.", path=plain(str(path))), hint=EXAMPLE) from None
    if isinstance(entries, Mapping):
        entries = entries.get("changes")
    if not isinstance(entries, list) or not all(isinstance(entry, Mapping) for entry in entries):
        raise UsageMistake(
            _("{path} holds no list of changes.", path=plain(str(path))), hint="- {queue: q, pool: p, ceiling: {gpu: 8}}"
        )
    return [change for entry in entries for change in changes_of(entry)]


def parse_amount(resource: str, text: str) -> int | None:
    """`16`, `0.5` or `64Gi` in the smallest unit; None for `none`."""
    if text.strip().lower() == "none":
        return None
    return formats.parse_size(text) if resource == "memory_bytes" else formats.parse_millis(text)


def amount_text(resource: str, value: int | None) -> str:
    """An amount as people write it."""
    if value is None:
        return _("none")
    return formats.size_text(value) if resource == "memory_bytes" else formats.millis_text(value)


def _pairs(words: Sequence[str]) -> dict[str, str]:
    pairs: dict[str, str] = {}
    for word in words:
        for part in word.split(","):
            name, equals, value = part.partition("=")
            if not equals:
                raise UsageMistake(_("{word} names no amount.", word=plain(word)), hint="gpu=8")
            pairs[name.strip()] = value
    return pairs


def _whole(text: str) -> int:
    if not text.strip().isdecimal() or len(text) > 15:
        raise UsageMistake(_("{number!r} is no whole number.", number=text), hint="0, 1, 2 ...")
    return int(text)


def _moment(text: str | None) -> str | None:
    return None if text is None else formats.parse_when(text).isoformat().replace("+00:00", "Z")


def _show_forecast(session: Session, edit: Mapping[str, Any]) -> None:
    forecast = edit["forecast"]
    if session.is_for_programs:
        session.show_done(edit, "")
        return
    for problem in forecast["problems"]:
        note(f"✗ {plain(problem['message'])} {plain(problem.get('hint', ''))}", style="red")
    for over in forecast["over"]:
        text = _(
            "! Queue {queue} holds {used} {of} of pool {pool}: more than its {column} of {limit}.",
            queue=plain(over["queue"]["name"]),
            used=amount_text(over["resource"], over["used"]),
            of=_(TITLES[over["resource"]]),
            pool=plain((over["pool"] or {}).get("name", "?")),
            column=over["column"],
            limit=amount_text(over["resource"], over["limit"]),
        )
        note(text, style="yellow")
    for job in forecast["jobs"] or ():
        note(f"  {plain(job['name'])}: {_(job['what'].replace('_', ' '))} ({plain(job['why'])})")
    if forecast["problems"]:
        note(_("This edit would be refused."), style="red")
        raise typer.Exit(1)
    note(_("This edit would be made; nothing was changed."))


def _changes_text(edit: Any) -> str:
    parts = []
    for change in edit["changes"][:3]:
        values = ", ".join(f"{name} {_value_text(change, name)}" for name in change["values"])
        parts.append(f"{plain((change['queue'] or {}).get('name', '?'))} {_(TITLES[change['resource']])}: {values}")
    more = len(edit["changes"]) - len(parts)
    return "; ".join(parts) + (f" (+{more})" if more else "")


def _value_text(change: Mapping[str, Any], name: str) -> str:
    value = change["values"][name]
    return str(value) if name == "weight" else amount_text(change["resource"], value)


REQUEST_COLUMNS = [
    Column("REQUEST", lambda row: row["id"]),
    Column("STATE", lambda row: _(row["state"])),
    Column("TENANT", lambda row: formats.name_of(row["tenant"])),
    Column("CHANGES", lambda row: str(len(row["changes"])), right=True),
    Column("FROM", lambda row: formats.time_text(row["effective_from"])),
    Column("BY", lambda row: formats.name_of(row["created_by"])),
    Column("REASON", lambda row: plain(row["reason"] or formats.NOTHING), shrinks=True),
    Column("DECIDED BY", lambda row: formats.name_of(row["decided_by"])),
]
EDIT_COLUMNS = [
    Column("EDIT", lambda edit: edit["id"]),
    Column("STATE", lambda edit: _(edit["state"])),
    Column("FROM", lambda edit: formats.time_text(edit["effective_from"])),
    Column("BY", lambda edit: formats.name_of(edit.get("created_by"))),
    Column("CHANGES", _changes_text, shrinks=True),
    Column("WHY", lambda edit: plain(edit["comment"]) or formats.NOTHING, wide=True),
]
CAP_COLUMNS = [
    Column("USER", lambda line: formats.name_of(line["user"]) if line["user"] else _("everybody")),
    Column("GPU", lambda line: amount_text("gpu_millis", line["gpu_millis"]), right=True),
    Column("JOBS", lambda line: _("none") if line["jobs"] is None else str(line["jobs"]), right=True),
    Column("CONTAINERS", lambda line: _("none") if line["containers"] is None else str(line["containers"]), right=True),
]
