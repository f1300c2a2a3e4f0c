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
    guarantee: Annotated[
        list[str] | None, typer.Option("--guarantee", metavar="OF=N", help="Guarantee, never lent: gpu=8.")
    ] = None,
    deserved: Annotated[
        list[str] | None,
        typer.Option("--deserved", metavar="OF=N", help="Deserved share, lent while idle and reclaimed on demand: gpu=12."),
    ] = None,
    ceiling: Annotated[
        list[str] | None, typer.Option("--ceiling", metavar="OF=N", help="Ceiling, never exceeded: gpu=16, or none.")
    ] = None,
    weight: Annotated[
        list[str] | None, typer.Option("--weight", metavar="OF=N", help="Weight in sharing free capacity: gpu=3.")
    ] = None,
    file: Annotated[
        Path | None, typer.Option("--file", "-f", help="File with a YAML or JSON list of changes to several queues.")
    ] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Dry run: show the effect, change nothing.")] = False,
    start: Annotated[
        str | None, typer.Option("--from", metavar="TIME", help="Time at which the edit takes effect; default: now.")
    ] = None,
    comment: Annotated[str, typer.Option("--comment", help="Reason, for the record.")] = "",
    plan: Annotated[
        str | None, typer.Option("--plan", metavar="PLAN", help="Id of a dry run; apply only if its outcome still holds.")
    ] = None,
    ask: Annotated[bool, typer.Option("--ask", help="Request the edit from a manager, if you may not make it.")] = False,
) -> None:
    """Edit guarantees, deserved shares, ceilings and weights of queues, all or none; --dry-run previews it.

    A file holds entries such as {queue: vision, pool: a100, guarantee: {gpu: 8}, ceiling: {gpu: none}}.
    """
    given = {"guarantee": guarantee, "deserved": deserved, "ceiling": ceiling, "weight": weight}
    if file is not None:
        if queue or pool or any(given.values()):
            raise UsageMistake(_("Give changes in the file or on the command line, not both."), hint=EXAMPLE)
        changes = changes_of_file(file)
    elif queue is None or pool is None or not any(given.values()):
        raise UsageMistake(_("Give the queue, the pool and the change."), hint=EXAMPLE)
    else:
        entry: dict[str, Any] = {"queue": session.client.queues.get(queue)["id"], "pool": pool}
        changes = changes_of({**entry, **{column: _pairs(words) for column, words in given.items() if words}})
    if ask:
        asked = session.client.quota.request(changes, effective_from=_moment(start), reason=comment)
        session.show_done(asked, _("The edit is requested; a manager of these limits decides."))
        return
    edit = session.client.quota.edit(changes, dry_run=dry_run, effective_from=_moment(start), comment=comment, plan=plan)
    if edit["state"] == "dry_run":
        _show_forecast(session, edit)
        if not edit["forecast"]["problems"] and edit.get("plan"):
            hint(_("To do exactly this or nothing, repeat the command with --plan {plan}.", plan=edit["plan"]))
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
    state: Annotated[
        str | None, typer.Option("--state", help="Only edits in this state: pending, applied, cancelled or refused.")
    ] = None,
) -> None:
    """Show edits of limits, including scheduled ones."""
    session.show(session.client.quota.edits(state=state), EDIT_COLUMNS, empty=_("No edits that you may see."))


@command()
def cancel_edit(session: Session, edit: Annotated[str, typer.Argument(metavar="EDIT", help="Id of the edit.")]) -> None:
    """Cancel a scheduled edit of limits."""
    session.show_done(session.client.quota.cancel_edit(edit), _("The edit is cancelled."))


@command()
def list_requests(
    session: Session,
    state: Annotated[
        str | None, typer.Option("--state", help="Only requests in this state: pending, approved, denied, withdrawn or expired.")
    ] = None,
) -> None:
    """Show limits that tenants asked for, newest first."""
    session.show(session.client.quota.requests(state=state), REQUEST_COLUMNS, empty=_("No requests for other limits."))


@command()
def approve_request(
    session: Session,
    request: RequestArgument,
    start: Annotated[
        str | None, typer.Option("--from", metavar="TIME", help="Time at which the edit takes effect; default: now.")
    ] = None,
    answer: Annotated[str, typer.Option("--answer", help="Answer to the requester.")] = "",
) -> None:
    """Approve a request for other limits."""
    done = session.client.quota.approve(request, answer=answer, effective_from=_moment(start))
    session.show_done(done, _("Approved."))


@command()
def deny_request(
    session: Session,
    request: RequestArgument,
    answer: Annotated[str, typer.Option("--answer", help="Answer to the requester.")] = "",
) -> None:
    """Deny a request."""
    session.show_done(session.client.quota.deny(request, answer=answer), _("Denied."))


@command()
def withdraw_request(session: Session, request: RequestArgument) -> None:
    """Withdraw a pending request."""
    session.show_done(session.client.quota.withdraw(request), _("The request is {state}.", state=_("withdrawn")))


@command()
def limit_runtime(
    session: Session,
    queue: Annotated[str, typer.Argument(metavar="QUEUE", help="Name, path or id of the queue.")],
    time: Annotated[str | None, typer.Argument(metavar="TIME", help="Run time limit: 36h, 2d or none; default: show it.")] = None,
    default: Annotated[
        str | None,
        typer.Option(
            "--default",
            metavar="TIME",
            help="Default run time, for planning jobs without max_runtime: 2h, or none. It ends no job.",
        ),
    ] = None,
) -> None:
    """Set the run time limit of a queue and its child queues."""
    found = session.client.queues.get(queue)
    given = {
        name: formats.parse_runtime(plain(found["name"]), text)
        for name, text in (("max_runtime_seconds", time), ("default_runtime_seconds", default))
        if text is not None
    }
    rules = session.client.quota.set_rules(found["id"], **given) if given else session.client.quota.rules(found["id"])
    longest, planned = rules["effective_max_runtime_seconds"], rules.get("effective_default_runtime_seconds")
    text = (
        _("Jobs of {queue} have no run time limit.", queue=plain(found["name"]))
        if longest is None
        else _("Jobs of {queue} may run for at most {time}.", queue=plain(found["name"]), time=formats.duration_text(longest))
    )
    if longest is None and planned is not None:
        text += " " + _("Jobs without max_runtime are planned with {time}.", time=formats.duration_text(planned))
    session.show_done(rules, text)


@command()
def limit_counts(
    session: Session,
    queue: Annotated[str, typer.Argument(metavar="QUEUE", help="Name, path or id of a tenant's top queue.")],
    jobs: Annotated[str | None, typer.Option("--jobs", metavar="N", help="Running jobs: 10, or none.")] = None,
    containers: Annotated[str | None, typer.Option("--containers", metavar="N", help="Running tasks: 64, or none.")] = None,
) -> None:
    """Limit the jobs and containers of a tenant, of all users together; without options, show the limit."""
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
    """Show the per-user caps of the tenant."""
    session.show(session.client.quota.caps(session.tenant), CAP_COLUMNS, empty=_("No user has a cap."), key="user")


@command()
def set_cap(
    session: Session,
    user: Annotated[str | None, typer.Option("--user", "-u", help="User of the cap; default: all other users.")] = None,
    gpu: Annotated[str | None, typer.Option("--gpu", "-g", metavar="N", help="GPUs: 8, 0.5, or none.")] = None,
    jobs: Annotated[str | None, typer.Option("--jobs", metavar="N", help="Running jobs: 10, or none.")] = None,
    containers: Annotated[str | None, typer.Option("--containers", metavar="N", help="Running tasks: 64, or none.")] = None,
) -> None:
    """Set per-user caps of the tenant; caps that are not named stay, `none` removes one.

    A cap of one user replaces the cap of all users. Caps apply to future starts: no running job is stopped.
    """
    given: dict[str, int | None] = {}
    if gpu is not None:
        given["gpu_millis"] = parse_amount("gpu_millis", gpu)
    for name, text in (("jobs", jobs), ("containers", containers)):
        if text is not None:
            given[name] = None if text.strip().lower() == "none" else _whole(text)
    if not given:
        raise UsageMistake(_("Give at least one cap: --gpu, --jobs or --containers."), hint="berth queues cap --user bob --gpu 8")
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
    whom = plain(user) if user is not None else _("all users")
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
                raise UsageMistake(_("{name} is not a resource.", name=plain(str(name))), hint="gpu, cpu, memory")
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
        raise UsageMistake(_("{path} is not YAML.", path=plain(str(path))), hint=EXAMPLE) from None
    if isinstance(entries, Mapping):
        entries = entries.get("changes")
    if not isinstance(entries, list) or not all(isinstance(entry, Mapping) for entry in entries):
        raise UsageMistake(
            _("{path} has no list of changes.", path=plain(str(path))), hint="- {queue: q, pool: p, ceiling: {gpu: 8}}"
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
                raise UsageMistake(_("{word} has no amount.", word=plain(word)), hint="gpu=8")
            pairs[name.strip()] = value
    return pairs


def _whole(text: str) -> int:
    if not text.strip().isdecimal() or len(text) > 15:
        raise UsageMistake(_("{number!r} is not an integer.", number=text), hint="0, 1, 2 ...")
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
        note(f"  {plain(job['name'])}: {_(OUTCOMES.get(job['what'], job['what']))} ({plain(job['why'])})")
    if forecast["problems"]:
        note(_("The edit would be refused."), style="red")
        raise typer.Exit(1)
    note(_("The edit would be accepted; nothing was changed."))


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


OUTCOMES = {"is_evicted": "is preempted"}  # Others are said as the API does.
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
    Column("USER", lambda line: formats.name_of(line["user"]) if line["user"] else _("all users")),
    Column("GPU", lambda line: amount_text("gpu_millis", line["gpu_millis"]), right=True),
    Column("JOBS", lambda line: _("none") if line["jobs"] is None else str(line["jobs"]), right=True),
    Column("CONTAINERS", lambda line: _("none") if line["containers"] is None else str(line["containers"]), right=True),
]
