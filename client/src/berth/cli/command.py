"""What every command has in common: the options that choose server, tenant and form, and how failures end it.

A command is a function whose first parameter is the `Session`; `command` gives it the shared options, so that they may
stand before or after the command's name, and turns failures into a message and an exit code:
0 done, 1 failed, 2 wrong usage, 3 not allowed, 4 not found, 5 over a limit, 124 time is over."""

from __future__ import annotations

import inspect
import sys
import typing
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Annotated, Any

import typer

from berth.cli.messages import _, language
from berth.cli.output import Column, Format, note, print_data, print_names, print_rows
from berth.cli.paint import is_terminal, paint
from berth.cli.refusals import options_of, report
from berth.errors import BerthError
from berth.sanitize import plain

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from berth.client import Client

Action = Callable[..., None]
SERVER_HELP = "Address of the server."
TENANT_HELP = "Tenant to work in: name or slug."
PROFILE_HELP = "Profile of the configuration file."
OUTPUT_HELP = "Output format: table, wide, json, yaml or name."
JSON_HELP = "Same as -o json."

YesOption = Annotated[bool, typer.Option("--yes", "-y", help="Skip the confirmation.")]
"""The same on every command that has a confirmation: it is given without being asked for, and nothing else changes."""
ServerOption = Annotated[str | None, typer.Option("--server", metavar="URL", help=SERVER_HELP)]
TenantOption = Annotated[str | None, typer.Option("--tenant", "-t", metavar="NAME", help=TENANT_HELP)]
ProfileOption = Annotated[str | None, typer.Option("--profile", metavar="NAME", help=PROFILE_HELP)]
OutputOption = Annotated[Format | None, typer.Option("--output", "-o", metavar="FORM", help=OUTPUT_HELP)]
JsonOption = Annotated[bool, typer.Option("--json", help=JSON_HELP)]
CONTEXT: dict[str, Any] = {"help_option_names": ["--help", "-h"], "max_content_width": 110}
_SHARED: dict[str, Any] = {"tenant_": TenantOption, "profile_": ProfileOption, "server_": ServerOption}
_READING: dict[str, Any] = {"output_": OutputOption, "json_": JsonOption}


@dataclass(frozen=True)
class Choices:
    """What was chosen by options, at the root or at the command; None where nothing was said."""

    server: str | None = None
    tenant: str | None = None
    profile: str | None = None
    form: Format | None = None

    def over(self, earlier: Choices) -> Choices:
        """These, with gaps filled from those given earlier on the line."""
        return replace(
            self,
            server=self.server or earlier.server,
            tenant=self.tenant or earlier.tenant,
            profile=self.profile or earlier.profile,
            form=self.form or earlier.form,
        )


class Session:
    """One run of one command."""

    http: Any = None
    """Transport of httpx2 to use instead of the network; set by tests."""

    def __init__(self, choices: Choices) -> None:
        self.choices = choices
        self.form = choices.form or Format.TABLE

    @cached_property
    def client(self) -> Client:
        """The client; made on first use, so that commands without a server need none."""
        from berth.client import Client

        chosen = self.choices
        client = Client(
            chosen.server,
            tenant=chosen.tenant,
            profile=chosen.profile,
            http=self.http,
            language="zh-CN" if language() == "zh" else "en",
        )
        client.transport.on_outage = lambda: note(
            _("{server} does not answer now; trying again.", server=client.settings.server), style="yellow"
        )
        return client

    @property
    def is_for_programs(self) -> bool:
        return self.form in (Format.JSON, Format.YAML, Format.NAME)

    @cached_property
    def tenant(self) -> str:
        """The tenant to work in: chosen, configured, or the only one of the user."""
        return self.client.settings.tenant or str(self._only_tenant["slug"])

    @cached_property
    def tenant_name(self) -> str:
        """The same as people call it."""
        return plain(self.client.settings.tenant or self._only_tenant["name"])

    @cached_property
    def _only_tenant(self) -> dict[str, Any]:
        tenants = self.client.whoami()["tenants"]
        if len(tenants) == 1:
            return dict(tenants[0])
        names = ", ".join(plain(tenant["name"]) for tenant in tenants)
        raise UsageMistake(
            _("Which tenant? You are a member of {names}.", names=names or _("none")), hint=_("Give it with --tenant NAME")
        )

    def show(self, rows: Iterable[Mapping[str, Any]], columns: Sequence[Column], *, empty: str = "", key: str = "id") -> None:
        print_rows(rows, columns, self.form, empty=empty, key=key)

    def show_done(self, data: Any, text: str, *, key: str = "id") -> None:
        """The result of a change: a sentence for people on standard error, the object for programs."""
        if self.form is Format.NAME:
            print_names([data], key)
        elif self.is_for_programs:
            print_data(data, self.form)
        else:
            note(f"{paint('✓', 'green', stream=sys.stderr)} {text}")

    def show_once(self, text: str, *lines: str) -> None:
        """A secret that is kept nowhere: what it is on standard error, itself alone on standard output. JSON and YAML have it in
        their document; beside the names of `-o name` it goes to standard error, so that neither is lost or mixed up."""
        if self.form in (Format.JSON, Format.YAML):
            return
        note(text, style="bold")
        for line in lines:
            print(plain(line), file=sys.stderr if self.form is Format.NAME else sys.stdout)


class UsageMistake(BerthError):
    """The command line cannot mean anything."""

    code = "usage"
    exit_code = 2


def command(*, reads: bool = True) -> Callable[[Action], Action]:
    """Make a function with a Session into a Typer callback; `reads` adds -o and --json."""

    def decorate(function: Action) -> Action:
        signature = inspect.signature(function)
        hints = typing.get_type_hints(function, include_extras=True)
        own = [
            parameter.replace(annotation=_translated(hints[name]), kind=inspect.Parameter.KEYWORD_ONLY)
            for name, parameter in list(signature.parameters.items())[1:]
        ]
        shared = {**_SHARED, **(_READING if reads else {})}
        added = [
            inspect.Parameter(
                name,
                inspect.Parameter.KEYWORD_ONLY,
                default=False if name == "json_" else None,
                annotation=_translated(annotation),
            )
            for name, annotation in shared.items()
        ]
        context = inspect.Parameter("ctx", inspect.Parameter.KEYWORD_ONLY, annotation=typer.Context)

        def run(**values: Any) -> None:
            run_action(function, values)

        run.__name__, run.__doc__, run.__module__ = (
            function.__name__,
            _(inspect.cleandoc(function.__doc__ or "")),
            function.__module__,
        )
        run.__signature__ = inspect.Signature([context, *own, *added])  # type: ignore[attr-defined]
        run.__annotations__ = {parameter.name: parameter.annotation for parameter in (context, *own, *added)}
        return run

    return decorate


def run_action(function: Action, values: dict[str, Any]) -> None:
    """Call a command with its session, or keep its options for the subcommand that follows."""
    context: typer.Context = values.pop("ctx")
    form = Format.JSON if values.pop("json_", False) else values.pop("output_", None)
    values.pop("output_", None)
    chosen = Choices(values.pop("server_"), values.pop("tenant_"), values.pop("profile_"), form)
    choices = chosen.over(context.obj) if isinstance(context.obj, Choices) else chosen
    context.obj = choices
    if context.invoked_subcommand is not None:
        return
    try:
        function(Session(choices), **values)
    except BerthError as error:
        report(error, choices.form, options_of(context.command.params))
        raise typer.Exit(error.exit_code) from None
    except UnicodeEncodeError as error:  # Bytes of an argument or of a file's name that are no text.
        mistake = UsageMistake(_("{words} is not UTF-8 text; the server accepts only UTF-8.", words=_around(error)))
        report(mistake, choices.form)
        raise typer.Exit(mistake.exit_code) from None


def _around(error: UnicodeEncodeError) -> str:
    """What cannot be encoded, with a few characters before it, as it may be shown."""
    shown = error.object[max(0, error.start - 20) : error.end]
    return repr(shown.encode("ascii", "backslashreplace").decode())


def confirmed(question: str, *, yes: bool, default: bool = False) -> bool:
    """Ask on a terminal; without one only --yes is a yes."""
    if yes:
        return True
    if not (is_terminal(sys.stdin) and is_terminal(sys.stderr)):
        raise UsageMistake(
            _("This command needs a confirmation, and there is no terminal."),
            hint=_("Add --yes to skip the confirmation."),
        )
    return typer.confirm(question, default=default, err=True)


def confirmed_by_person(session: Session, question: str, *, yes: bool) -> bool:
    """Ask a person at a terminal about what can be taken back; programs and pipes need no --yes."""
    is_watched = is_terminal(sys.stdin) and is_terminal(sys.stderr) and not session.is_for_programs
    return not is_watched or confirmed(question, yes=yes, default=True)


def confirmed_submission(session: Session, *, yes: bool) -> bool:
    """The same about a job; says so where it was not wanted."""
    is_wanted = confirmed_by_person(session, _("Submit?"), yes=yes)
    if not is_wanted:
        note(_("Nothing was submitted."))
    return is_wanted


def asked(label: str, *, hidden: bool, usage: str, again: str = "") -> str:
    """Ask on a terminal, twice where `again` says so; without one a hidden value is the next line of standard input."""
    if is_terminal(sys.stdin):
        return str(typer.prompt(label, hide_input=hidden, err=True, confirmation_prompt=again or False))
    if hidden:
        value = sys.stdin.readline().strip()
        if value:
            return value
    raise UsageMistake(_("{label} is missing.", label=label), hint=usage)


def make_group(
    name: str, default: Action | None, summary: str, actions: Mapping[str, Action], *, fallback: str = ""
) -> typer.Typer:
    """A command with subcommands; alone it does what `default` does, and a word that is none of them goes to `fallback`."""
    from berth.cli.help import HelpGroup

    group = typer.Typer(
        name=name,
        cls=type("Group", (HelpGroup,), {"fallback": fallback}),
        help=_(summary),
        rich_markup_mode=None,
        add_completion=False,
        pretty_exceptions_enable=False,
        no_args_is_help=default is None,
        context_settings=CONTEXT,
    )
    group.callback(invoke_without_command=default is not None, help=_(summary))(default or (lambda: None))
    for action_name, action in actions.items():
        add_action(group, action_name, action)
    return group


def add_action(group: typer.Typer, name: str, action: Action) -> None:
    """Make an action a subcommand."""
    from berth.cli.help import HelpCommand

    settings = {**CONTEXT, **getattr(action, "context_settings", {})}
    group.command(name, cls=HelpCommand, help=action.__doc__, context_settings=settings)(action)


def _translated(annotation: Any) -> Any:
    """The annotation with its help text in the user's language."""
    if typing.get_origin(annotation) is not Annotated or language() == "en":
        return annotation
    import copy

    base, *extras = typing.get_args(annotation)
    translated = []
    for extra in extras:
        if getattr(extra, "help", None):
            extra = copy.copy(extra)
            extra.help = _(extra.help)
        translated.append(extra)
    return Annotated[(base, *translated)]
