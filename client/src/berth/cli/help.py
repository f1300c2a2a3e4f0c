"""How help looks: usage, what it does, its own options, then those that every command has."""

from __future__ import annotations

import re
from collections.abc import Iterable
from difflib import get_close_matches
from typing import Any, NoReturn

from typer.core import TyperArgument, TyperCommand, TyperGroup

from berth.cli.messages import _
from berth.cli.paint import paint

SHARED_OPTIONS = frozenset({"tenant_", "profile_", "server_", "output_", "json_", "help"})


class HelpCommand(TyperCommand):
    """A command whose help looks like ours."""

    def format_help(self, ctx: Any, formatter: Any) -> None:
        write_help(self, ctx, formatter)


class HelpGroup(TyperGroup):
    """A command with subcommands whose help looks like ours. A mistyped one is guessed; with a `fallback`, a word that names
    no subcommand is that one's argument: `berth nodes gpu-7` is `berth nodes show gpu-7`."""

    fallback = ""

    def format_help(self, ctx: Any, formatter: Any) -> None:
        write_help(self, ctx, formatter)

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        names = self.list_commands(ctx)
        if args and args[0] not in names and not args[0].startswith("-"):
            is_alone = all(word.startswith("-") for word in args[1:2])
            if not self.fallback or not is_alone:
                refuse_unknown(ctx, args[0], names)
            args = [self.fallback, *args]
        return super().resolve_command(ctx, args)


def refuse_unknown(ctx: Any, name: str, names: Iterable[str]) -> NoReturn:
    """End with what was probably meant."""
    close = get_close_matches(name, list(names))
    suggestion = " " + _("Did you mean {names}?", names=", ".join(close)) if close else ""
    ctx.fail(_("There is no command {name!r}.", name=name) + suggestion)
    raise AssertionError("unreachable")


def write_help(command: Any, ctx: Any, formatter: Any) -> None:
    """Write the whole help page."""
    arguments = [parameter for parameter in command.get_params(ctx) if isinstance(parameter, TyperArgument)]
    options = [parameter for parameter in command.get_params(ctx) if not isinstance(parameter, TyperArgument)]
    children = getattr(command, "commands", {})
    words = [
        f"[{_('options')}]",
        *(argument_name(argument) for argument in arguments),
        *([_("command"), "..."] if children else []),
    ]
    formatter.write(f"{paint(_('Usage:'), 'bold')} {ctx.command_path} {' '.join(words)}\n")
    command.format_help_text(ctx, formatter)
    formatter.write("\n" * bool(command.help))
    write_section(
        formatter,
        _("Commands"),
        [(name, first_sentence(child.help or "")) for name, child in children.items() if not child.hidden],
    )
    write_section(formatter, _("Arguments"), [(argument_name(argument), argument.help or "") for argument in arguments])
    own = [option for option in options if option.name not in SHARED_OPTIONS]
    write_section(formatter, _("Options"), [(option_name(option), option.help or "") for option in own])
    shared = [option for option in options if option.name in SHARED_OPTIONS]
    write_section(formatter, _("Common options"), [(option_name(option), _(option.help or "")) for option in shared])


def first_sentence(text: str) -> str:
    """What a listing says of a command: its first sentence, whole; the formatter breaks the line."""
    paragraph = " ".join(text.split("\n\n")[0].split())
    return re.split(r"(?<=[.])\s|(?<=。)", paragraph, maxsplit=1)[0]


def write_section(formatter: Any, title: str, rows: list[tuple[str, str]]) -> None:
    """A bold title and aligned rows; nothing when there are none."""
    if not rows:
        return
    formatter.write(f"{paint(title, 'bold')}\n")
    formatter.indent()
    formatter.write_dl([(paint(name, "cyan"), text) for name, text in rows])
    formatter.dedent()
    formatter.write("\n")


def argument_name(argument: Any) -> str:
    """`JOB`, or `[JOB]` when it may be left out."""
    name = argument.metavar or argument.name.upper()
    return name if argument.required or name.startswith("[") else f"[{name}]"


def option_name(option: Any) -> str:
    """`-o, --output FORM`."""
    text = ", ".join(sorted(option.opts, key=len))
    return text if option.is_flag else f"{text} {option.metavar or option.name.strip('_').upper()}"
