"""`berth notify`: what you are told about, and by which channel."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from typing import Annotated, Any

import typer

from berth.cli import formats
from berth.cli.command import Session, UsageMistake, YesOption, asked, command, confirmed, make_group
from berth.cli.messages import _, language
from berth.cli.output import Column, hint, note
from berth.cli.paint import is_terminal
from berth.cli.people import NumberOption
from berth.sanitize import plain

SubscriptionArgument = Annotated[str, typer.Argument(metavar="ID")]
OnOption = Annotated[
    list[str] | None, typer.Option("--on", metavar="STATE", help="State of a job that notifies: succeeded, failed, stopped.")
]
SetOption = Annotated[
    list[str] | None,
    typer.Option(
        "--set", metavar="NAME=VALUE", help="Field of the channel; NAME alone prompts for it, which secret fields require."
    ),
]


@command()
def list_subscriptions(session: Session) -> None:
    """List your subscriptions."""
    session.show(
        session.client.activity.subscriptions(), SUBSCRIPTION_COLUMNS, empty=_("No subscriptions: berth notify add --mail")
    )


@command()
def list_channels(session: Session) -> None:
    """List notification channels and their fields."""
    session.show(session.client.activity.channels(), CHANNEL_COLUMNS, empty=_("The operator offers no channel."), key="kind")


@command()
def add_subscription(
    session: Session,
    mail: Annotated[bool, typer.Option("--mail", help="Send mail to your address.")] = False,
    webhook: Annotated[str | None, typer.Option("--webhook", metavar="URL", help="Send a signed request to this URL.")] = None,
    by: Annotated[
        str | None, typer.Option("--by", metavar="CHANNEL", help="Another channel, such as slack; list: berth notify channels.")
    ] = None,
    set_: SetOption = None,
    on: OnOption = None,
    every: Annotated[bool, typer.Option("--all-jobs", help="All jobs of the tenant, not only yours.")] = False,
) -> None:
    """Subscribe to the end of jobs. The secret that signs a webhook is shown once."""
    if sum([mail, bool(webhook), bool(by)]) != 1:
        raise UsageMistake(_("Give the channel: --mail, --webhook URL, or --by CHANNEL."), hint="berth notify channels")
    wanted: dict[str, Any] = {"channel": by or ("mail" if mail else "webhook"), "kinds": on or ["succeeded", "failed"]}
    if webhook:
        wanted["target"] = webhook
    if by:
        wanted |= _fields(_channel(session, by), set_ or [], is_new=True)
    elif set_:
        raise UsageMistake(_("--set goes with --by CHANNEL."), hint="berth notify channels")
    if every:
        wanted |= {"jobs": "all", "tenant": session.tenant}
    subscription = session.client.activity.subscribe(**wanted)
    session.show_done(subscription, _("You are subscribed."))
    _tell_problem(session, subscription)
    if subscription.get("secret"):
        session.show_once(_("Secret that verifies signatures; it is shown once:"), subscription["secret"])
    hint(_("Try it: berth notify test {id}", id=plain(subscription["id"])))


@command()
def edit_subscription(
    session: Session,
    subscription: SubscriptionArgument,
    set_: SetOption = None,
    on: OnOption = None,
    pause: Annotated[bool | None, typer.Option("--pause/--resume", help="Pause or resume the subscription.")] = None,
) -> None:
    """Edit a subscription: its events and fields, or pause it. Fields that are not named stay; NAME= removes one."""
    changes: dict[str, Any] = {"kinds": on, "is_active": None if pause is None else not pause}
    if set_:
        row = next((row for row in session.client.activity.subscriptions() if row["id"] == subscription), None)
        if row is None:
            raise UsageMistake(_("You have no subscription {id}.", id=plain(subscription)), hint="berth notify list")
        changes |= _fields(_channel(session, str(row["channel"])), set_, is_new=False)
    if all(value is None for value in changes.values()):
        raise UsageMistake(_("Give at least one change: --set, --on, --pause or --resume."))
    changed = session.client.activity.change_subscription(subscription, **changes)
    session.show_done(changed, _("The subscription is changed."))
    _tell_problem(session, changed)


@command()
def remove_subscription(session: Session, subscription: SubscriptionArgument, yes: YesOption = False) -> None:
    """Unsubscribe."""
    if confirmed(_("Unsubscribe?"), yes=yes):
        session.client.activity.unsubscribe(subscription)
        session.show_done({"id": subscription}, _("You are unsubscribed."))


@command()
def send_test(session: Session, subscription: SubscriptionArgument) -> None:
    """Send a test message by a subscription."""
    delivery = session.client.activity.test_subscription(subscription)
    session.show_done(delivery, _("The test message is queued."))
    hint(_("See the result: berth notify log"))


@command()
def deliveries(session: Session, number: NumberOption = 50) -> None:
    """Show your notifications, delivered and failed."""
    session.show(session.client.activity.deliveries(limit=number), DELIVERY_COLUMNS, empty=_("No notifications yet."))


@command()
def retry(session: Session, delivery: Annotated[str, typer.Argument(metavar="ID")]) -> None:
    """Resend a notification that was not delivered."""
    session.show_done(session.client.activity.retry_delivery(delivery), _("The notification will be sent again."))


def _channel(session: Session, kind: str) -> Mapping[str, Any]:
    channels = session.client.activity.channels()
    channel = next((channel for channel in channels if channel["kind"] == kind), None)
    if channel is None:
        kinds = ", ".join(plain(channel["kind"]) for channel in channels)
        raise UsageMistake(_("There is no channel {kind!r}. There are: {kinds}.", kind=kind, kinds=kinds))
    return channel


def _fields(channel: Mapping[str, Any], given: Sequence[str], *, is_new: bool) -> dict[str, Any]:
    """`target` and `settings` of a body. What is required or named without a value is asked for, and secrets always."""
    fields = {str(field["name"]): field for field in channel["inputs"]}
    texts = {name: value if equals else None for name, equals, value in (text.partition("=") for text in given)}
    if unknown := [name for name in texts if name not in fields]:
        names = ", ".join(plain(name) for name in fields)
        raise UsageMistake(
            _("{channel} has no field {name!r}. It has: {names}.", channel=_label(channel), name=unknown[0], names=names)
        )
    values = {}
    for name, field in fields.items():
        value = texts.get(name)
        if value and field["is_secret"]:
            raise UsageMistake(
                _("{name} is secret: others could read it from the command line.", name=plain(name)),
                hint=_("Write --set {name}, and give the value at the prompt or on standard input.", name=plain(name)),
            )
        if value is None and (name in texts or (is_new and field["is_required"])):
            value = _ask(field)
        if value is not None:
            values[name] = value
    target = values.pop("target", None)
    return {"target": target, "settings": values or None}


def _ask(field: Mapping[str, Any]) -> str:
    usage = _("Give secret fields on standard input, a line each, and the others as --set NAME=VALUE.")
    if is_terminal(sys.stdin):
        note(plain(field["hint"][language()]))
    return asked(_label(field), hidden=bool(field["is_secret"]), usage=usage)


def _label(row: Mapping[str, Any]) -> str:
    return plain(row["words"][language()])


def _tell_problem(session: Session, subscription: Mapping[str, Any]) -> None:
    """Why nothing will arrive, in the words of the channel."""
    code = subscription.get("problem")
    if not code:
        return
    problems = [
        channel["problem"] for channel in session.client.activity.channels() if channel["kind"] == subscription["channel"]
    ]
    words = next((plain(problem["words"][language()]) for problem in problems if problem), plain(code))
    note(words, style="yellow")


def _state(row: Mapping[str, Any]) -> Any:
    if not row.get("is_active", True):
        return _("paused"), "bright_black"
    return (_("not sent"), "red") if row.get("problem") or row.get("last_failure") else (_("✓ active"), "green")


def _inputs(channel: Mapping[str, Any]) -> str:
    names = []
    for field in channel["inputs"]:
        marks = [_("secret")] * bool(field["is_secret"]) + [_("optional")] * (not field["is_required"])
        names.append(plain(field["name"]) + (f" ({', '.join(marks)})" if marks else ""))
    return ", ".join(names) or formats.NOTHING


CHANNEL_COLUMNS = [
    Column("CHANNEL", lambda row: plain(row["kind"])),
    Column("NAME", _label),
    Column("FIELDS", _inputs, shrinks=True),
]
SUBSCRIPTION_COLUMNS = [
    Column("ID", lambda row: row["id"]),
    Column("HOW", lambda row: plain(row.get("channel", ""))),
    Column("WHEN", lambda row: ", ".join(plain(state) for state in row.get("kinds") or [])),
    Column("TO", lambda row: plain(row.get("target") or formats.NOTHING), shrinks=True),
    Column("STATE", _state),
    Column("LAST ERROR", lambda row: plain((row.get("last_failure") or {}).get("error", "")), shrinks=True),
]
DELIVERY_COLUMNS = [
    Column("TIME", lambda row: formats.time_text(row["created_at"])),
    Column("ABOUT", lambda row: plain(row.get("kind", ""))),
    Column("STATE", lambda row: formats.state_text(row.get("state"))),
    Column("TRIES", lambda row: str(row.get("tries", formats.NOTHING)), right=True),
    Column("LAST ERROR", lambda row: plain(row.get("last_error") or ""), shrinks=True),
    Column("ID", lambda row: row["id"]),
]
notify = make_group(
    "notify",
    list_subscriptions,
    "Manage notification subscriptions and their channels.",
    {
        "list": list_subscriptions,
        "channels": list_channels,
        "add": add_subscription,
        "edit": edit_subscription,
        "remove": remove_subscription,
        "test": send_test,
        "log": deliveries,
        "retry": retry,
    },
)
