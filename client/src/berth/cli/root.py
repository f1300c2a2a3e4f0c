"""The table of all commands. A command's module is imported when it is called, so that `berth --help` starts at once."""

from __future__ import annotations

import os
import sys
from dataclasses import dataclass
from importlib import import_module
from typing import Annotated, Any

import typer

from berth import __version__
from berth.cli.command import CONTEXT, PROFILE_HELP, SERVER_HELP, TENANT_HELP, Choices
from berth.cli.help import HelpGroup, option_name, write_section
from berth.cli.messages import _
from berth.cli.paint import paint

JOBS, FILES, CLUSTER, TENANT, ACCOUNT = "Jobs", "Files and images", "Cluster and queues", "Tenants and people", "This computer"


COMPLETE_VARIABLE = "_BERTH_COMPLETE"


@dataclass(frozen=True, slots=True)
class Entry:
    """One command: where it lives and what the overview says of it."""

    module: str
    attribute: str
    section: str
    summary: str
    hidden: bool = False


COMMANDS: dict[str, Entry] = {
    "submit": Entry("submit", "submit", JOBS, "Submit a job from a file or a command, and follow it."),
    "apply": Entry("submit", "submit", JOBS, "The same as submit.", hidden=True),
    "convert": Entry("convert", "convert", JOBS, "Make a job file of an OpenPAI job or an sbatch script."),
    "templates": Entry("templates", "templates", JOBS, "List job templates, and run one with parameters."),
    "ps": Entry("jobs", "ps", JOBS, "List jobs."),
    "get": Entry("show", "get", JOBS, "Show one job: state, reason, attempts, tasks."),
    "logs": Entry("logs", "logs", JOBS, "Print a job's log; -f follows it."),
    "exec": Entry("execute", "exec_", JOBS, "Open a terminal in a running task, or run a command there."),
    "wait": Entry("jobs", "wait", JOBS, "Wait until a job has ended."),
    "stop": Entry("jobs", "stop", JOBS, "Stop jobs."),
    "hold": Entry("hold", "hold", JOBS, "Keep waiting jobs from starting."),
    "release": Entry("hold", "release", JOBS, "Let held jobs start."),
    "move": Entry("priority", "move", JOBS, "Move a waiting job before or after others."),
    "bump": Entry("priority", "move", JOBS, "The same as move.", hidden=True),
    "priority": Entry("priority", "priority", JOBS, "Set priorities; ask for higher ones, and decide what others ask for."),
    "rerun": Entry("again", "rerun", JOBS, "Submit a job's spec again, with changes."),
    "clone": Entry("again", "clone", JOBS, "Submit a copy of a job under another name."),
    "compare": Entry("compare", "compare", JOBS, "Compare two runs: how they ended, cost, use, and job files."),
    "explain": Entry("explain", "explain", JOBS, "Show all that keeps a job waiting, and what would start it."),
    "what-if": Entry("explain", "what_if", JOBS, "Show who would start, wait or be evicted after changes."),
    "events": Entry("jobs", "events", JOBS, "Show what happened to a job, and why."),
    "metrics": Entry("metrics", "metrics", JOBS, "Show what a job uses; -w keeps watching."),
    "job": Entry("jobs", "job_group", JOBS, "The same commands under one noun.", hidden=True),
    "cp": Entry("copy", "cp", FILES, "Copy files to volumes, and artifacts home."),
    "volumes": Entry("volumes", "volumes", FILES, "List, create and share volumes."),
    "images": Entry("images", "images", FILES, "List, make and inspect images."),
    "nodes": Entry("cluster", "nodes", CLUSTER, "List machines; take them out of service and back."),
    "gpus": Entry("cluster", "gpus", CLUSTER, "Show GPUs by model: all, free, busy."),
    "pools": Entry("cluster", "pools", CLUSTER, "Show pools of equal machines; change how they are filled."),
    "clusters": Entry("cluster", "clusters", CLUSTER, "List clusters and their condition."),
    "queues": Entry("queues", "queues", CLUSTER, "Show queues; create, rename and limit them."),
    "reserve": Entry("reserve", "reserve", CLUSTER, "Book GPUs of a pool for a window; show and cancel bookings."),
    "quota": Entry("queues", "quota", CLUSTER, "Show what your queues may use, and use."),
    "usage": Entry("costs", "usage", CLUSTER, "Sum up resource time used, and what it cost."),
    "shares": Entry("shares", "shares", CLUSTER, "Show promised and delivered shares, and signed weeks."),
    "cost": Entry("costs", "cost", JOBS, "Show what a job cost, and costs an hour now."),
    "prices": Entry("costs", "prices", CLUSTER, "Show and set what resources cost."),
    "budgets": Entry("costs", "budgets", CLUSTER, "Show and set what queues may spend."),
    "statement": Entry("costs", "statement", CLUSTER, "Show a tenant's month and what it cost."),
    "breakeven": Entry("breakeven", "breakeven", CLUSTER, "Compare owning GPUs with renting them."),
    "maintenance": Entry("operations", "maintenance", CLUSTER, "Plan windows in which nodes take no work."),
    "tenants": Entry("tenants", "tenants", TENANT, "List and create tenants; disable, enable and delete them."),
    "members": Entry("tenants", "members", TENANT, "List, add and remove members of a tenant."),
    "secrets": Entry("tenants", "secrets", TENANT, "Set and delete a tenant's secrets."),
    "users": Entry("people", "users", TENANT, "Invite, import and disable users."),
    "audit": Entry("people", "audit", TENANT, "Show who did what."),
    "notify": Entry("people", "notify", TENANT, "Choose what you are told about, and how."),
    "announcements": Entry("operations", "announcements", TENANT, "Show announcements; make them and take them back."),
    "features": Entry("operations", "features", TENANT, "Show features; switch them on and off."),
    "login": Entry("account", "login", ACCOUNT, "Sign in to a server and keep the token."),
    "logout": Entry("account", "logout", ACCOUNT, "Forget the token kept here."),
    "whoami": Entry("account", "whoami", ACCOUNT, "Show who you are on the server, and where you belong."),
    "tokens": Entry("account", "tokens", ACCOUNT, "List, create and revoke access tokens."),
    "open": Entry("account", "open_page", ACCOUNT, "Open the web page of a job, or of the server."),
    "completion": Entry("account", "completion", ACCOUNT, "Print the shell's completion script."),
    "version": Entry("account", "version", ACCOUNT, "Show the versions of both sides."),
}


class RootGroup(HelpGroup):
    """Finds commands in the table, and lays them out by subject."""

    def list_commands(self, ctx: Any) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        entry = COMMANDS.get(cmd_name)
        return load_command(cmd_name, entry) if entry else None

    def shell_complete(self, ctx: Any, incomplete: str) -> Any:
        from typer._click.shell_completion import CompletionItem

        shown = [(name, entry) for name, entry in COMMANDS.items() if not entry.hidden and name.startswith(incomplete)]
        return [CompletionItem(name, help=_(entry.summary)) for name, entry in shown]

    def format_help(self, ctx: Any, formatter: Any) -> None:
        width = max(len(name) for name, entry in COMMANDS.items() if not entry.hidden)
        lines = [_("Berth gives every team's jobs their place on a shared, scarce GPU cluster."), ""]
        lines += [f"{paint(_('Usage:'), 'bold')} berth [{_('options')}] {_('command')} ...", ""]
        for section in (JOBS, FILES, CLUSTER, TENANT, ACCOUNT):
            lines.append(paint(_(section), "bold"))
            for name, entry in COMMANDS.items():
                if entry.section == section and not entry.hidden:
                    lines.append(f"  {paint(name.ljust(width), 'cyan')}  {_(entry.summary)}")
            lines.append("")
        formatter.write("\n".join(lines) + "\n")
        write_section(
            formatter,
            _("Options"),
            [(option_name(option), _(getattr(option, "help", "") or "")) for option in self.get_params(ctx)],
        )
        formatter.write(_("Each command explains itself: berth submit --help") + "\n")


def load_command(name: str, entry: Entry) -> Any:
    """Import the module of a command and build what Typer runs."""
    found = getattr(import_module(f"berth.cli.{entry.module}"), entry.attribute)
    if isinstance(found, typer.Typer):
        return typer.main.get_command(found)
    from berth.cli.command import add_action

    single = typer.Typer(rich_markup_mode=None, add_completion=False, pretty_exceptions_enable=False)
    add_action(single, name, found)
    return typer.main.get_command(single)


app = typer.Typer(
    name="berth",
    cls=RootGroup,
    rich_markup_mode=None,
    add_completion=False,
    pretty_exceptions_enable=False,
    no_args_is_help=True,
    context_settings=CONTEXT,
)


def _print_version(wanted: bool) -> None:
    if wanted:
        print(f"berth {__version__}")
        raise typer.Exit


@app.callback()
def _root(
    ctx: typer.Context,
    server: Annotated[str | None, typer.Option("--server", metavar="URL", help=SERVER_HELP)] = None,
    tenant: Annotated[str | None, typer.Option("--tenant", "-t", metavar="NAME", help=TENANT_HELP)] = None,
    profile: Annotated[str | None, typer.Option("--profile", metavar="NAME", help=PROFILE_HELP)] = None,
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Show the version of this program.")
    ] = False,
) -> None:
    """Berth gives every team's jobs their place on a shared, scarce GPU cluster."""
    ctx.obj = Choices(server=server, tenant=tenant, profile=profile)


def main() -> None:
    """Entry point of the `berth` program."""
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="replace")  # A terminal without UTF-8 shows a question mark instead of failing.
    if COMPLETE_VARIABLE in os.environ:
        from typer._completion_classes import completion_init

        completion_init()
    try:
        app(prog_name="berth")
    finally:
        _flush_quietly()


def _flush_quietly() -> None:
    """Write out what is left. A reader that has gone (`berth ps | head`) wants no more, and is no reason for a trace."""
    try:
        sys.stdout.flush()
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
