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

JOBS, FILES, CLUSTER, TENANT, ACCOUNT = "Jobs", "Files and images", "Cluster and queues", "Tenants and users", "This computer"


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
    "apply": Entry("submit", "submit", JOBS, "Alias of submit.", hidden=True),
    "run": Entry("submit", "submit", JOBS, "Alias of submit.", hidden=True),
    "convert": Entry("convert", "convert", JOBS, "Convert an OpenPAI job or an sbatch script to a job file."),
    "templates": Entry("templates", "templates", JOBS, "List job templates, and run one with parameters."),
    "ps": Entry("jobs", "ps", JOBS, "List jobs."),
    "get": Entry("show", "get", JOBS, "Show a job: state, reason, attempts, tasks."),
    "logs": Entry("logs", "logs", JOBS, "Print a job's log; -f follows it."),
    "exec": Entry("execute", "exec_", JOBS, "Open a terminal in a running task, or run a command there."),
    "wait": Entry("jobs", "wait", JOBS, "Wait until a job has ended."),
    "stop": Entry("jobs", "stop", JOBS, "Stop jobs."),
    "hold": Entry("hold", "hold", JOBS, "Hold queued jobs."),
    "release": Entry("hold", "release", JOBS, "Release held jobs."),
    "retry-now": Entry("hold", "retry_now", JOBS, "Start the next attempt without its wait."),
    "move": Entry("priority", "move", JOBS, "Move a queued job before or after others."),
    "bump": Entry("priority", "move", JOBS, "Alias of move.", hidden=True),
    "priority": Entry("priority", "priority", JOBS, "Set priorities; request higher ones, and decide on requests."),
    "rerun": Entry("again", "rerun", JOBS, "Resubmit a job's spec, with changes."),
    "clone": Entry("again", "clone", JOBS, "Submit a copy of a job under another name."),
    "compare": Entry("compare", "compare", JOBS, "Compare two runs: results, cost, usage and job files."),
    "explain": Entry("explain", "explain", JOBS, "Explain why a job waits, and what would start it."),
    "what-if": Entry("explain", "what_if", JOBS, "Show which jobs would start, wait or be preempted after changes."),
    "events": Entry("jobs", "events", JOBS, "Show a job's events and their reasons."),
    "metrics": Entry("metrics", "metrics", JOBS, "Show a job's resource usage; -w refreshes it."),
    "job": Entry("jobs", "job_group", JOBS, "All job commands as subcommands.", hidden=True),
    "cp": Entry("copy", "cp", FILES, "Copy files to volumes, and artifacts to this computer."),
    "volumes": Entry("volumes", "volumes", FILES, "List, create and share volumes."),
    "images": Entry("images", "images", FILES, "List, create and inspect images."),
    "nodes": Entry("cluster", "nodes", CLUSTER, "List nodes; cordon, drain and uncordon them."),
    "gpus": Entry("cluster", "gpus", CLUSTER, "Show GPUs by model: total, free, allocated."),
    "pools": Entry("cluster", "pools", CLUSTER, "Show pools of homogeneous nodes; change their placement policy."),
    "clusters": Entry("clusters", "clusters", CLUSTER, "List clusters and their health; add, change, check and remove them."),
    "queues": Entry("queues", "queues", CLUSTER, "Show queues; create, rename, limit and delete them."),
    "reserve": Entry("reserve", "reserve", CLUSTER, "Book GPUs of a pool for a time window; show and cancel bookings."),
    "quota": Entry("queues", "quota", CLUSTER, "Show limits and usage of your queues."),
    "usage": Entry("costs", "usage", CLUSTER, "Sum up resource usage and its cost."),
    "shares": Entry("shares", "shares", CLUSTER, "Show deserved and delivered shares, and signed weeks."),
    "cost": Entry("costs", "cost", JOBS, "Show a job's cost, so far and per hour."),
    "prices": Entry("costs", "prices", CLUSTER, "Show and set prices of resources."),
    "budgets": Entry("costs", "budgets", CLUSTER, "Show and set budgets of queues."),
    "statement": Entry("costs", "statement", CLUSTER, "Show a tenant's monthly statement."),
    "breakeven": Entry("breakeven", "breakeven", CLUSTER, "Compare owning GPUs with renting them."),
    "maintenance": Entry("operations", "maintenance", CLUSTER, "Plan maintenance windows of nodes."),
    "tenants": Entry("tenants", "tenants", TENANT, "List and create tenants; disable, enable and delete them."),
    "members": Entry("tenants", "members", TENANT, "List, add and remove members of a tenant."),
    "secrets": Entry("tenants", "secrets", TENANT, "Set and delete a tenant's secrets."),
    "registries": Entry("registries", "registries", TENANT, "Add, check and remove accounts at container registries."),
    "users": Entry("people", "users", TENANT, "Invite, import and disable users."),
    "audit": Entry("people", "audit", TENANT, "Show the audit log."),
    "notify": Entry("notify", "notify", TENANT, "Manage notification subscriptions and their channels."),
    "announcements": Entry("operations", "announcements", TENANT, "Show, publish and withdraw announcements."),
    "features": Entry("operations", "features", TENANT, "Show features; switch them on and off."),
    "login": Entry("account", "login", ACCOUNT, "Sign in to a server and store the token."),
    "logout": Entry("account", "logout", ACCOUNT, "Delete the token stored on this computer."),
    "whoami": Entry("account", "whoami", ACCOUNT, "Show your account on the server, and its tenants."),
    "tokens": Entry("account", "tokens", ACCOUNT, "List, create and revoke access tokens."),
    "open": Entry("account", "open_page", ACCOUNT, "Open the web page of a job, or of the server."),
    "completion": Entry("account", "completion", ACCOUNT, "Print a completion script for a shell."),
    "version": Entry("account", "version", ACCOUNT, "Show the versions of client and server."),
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
        environment = {
            "BERTH_SERVER, BERTH_TOKEN, BERTH_TENANT, BERTH_PROFILE": _("Override the configuration file."),
            "BERTH_LANG": _("Language: en or zh; default: from LC_ALL, LC_MESSAGES or LANG."),
            "NO_COLOR": _("No colours."),
        }
        write_section(formatter, _("Environment"), list(environment.items()))
        formatter.write(_("Help of a command: berth submit --help") + "\n")


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
