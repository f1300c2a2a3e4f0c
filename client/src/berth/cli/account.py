"""`berth login`, `logout`, `whoami`, `tokens`, `open`, `completion` and `version`."""

from __future__ import annotations

import contextlib
import os
import sys
import time
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from berth import __version__
from berth.cli import formats
from berth.cli.command import Session, UsageMistake, YesOption, asked, command, confirmed, make_group
from berth.cli.messages import _, language
from berth.cli.output import Column, hint, note, print_data, print_facts
from berth.cli.paint import is_terminal, paint
from berth.config import (
    ConfigFile,
    Profile,
    Settings,
    config_path,
    normal_server,
    read_config,
    travels_in_clear,
    valid_profile_name,
    write_config,
)
from berth.errors import ApiError, BerthError, ServerUnreachable, TooManyRequests, Unavailable
from berth.sanitize import plain

if TYPE_CHECKING:
    from berth.resources import DeviceCodes

SHELLS = ("bash", "zsh", "fish")


@dataclass(frozen=True, slots=True)
class Place:
    """Where a sign-in is kept: the profile `name` of the file `path`, for one server."""

    path: Path
    config: ConfigFile
    name: str
    server: str

    def keep(self, token: str, *, tenant: str = "", known: Collection[str] | None = None) -> None:
        """Write the token, and make this profile the current one. A tenant that was chosen earlier stays, if it is among those
        `known` tenants of the person who signs in; None: those were not asked for."""
        before = self.config.profiles.get(self.name, Profile())
        kept = before.tenant if before.server == self.server and (known is None or before.tenant in known) else ""
        profile = Profile(self.server, token, tenant or kept)
        write_config(self.path, ConfigFile(current=self.name, profiles={**self.config.profiles, self.name: profile}))


def place_to_keep(session: Session, *, usage: str) -> Place:
    """Profile and server as chosen, as in the environment or as kept; a server that is not named is asked for."""
    path, chosen = config_path(), session.choices
    config = read_config(path)
    name = valid_profile_name(chosen.profile or os.environ.get("BERTH_PROFILE") or config.current)
    known = [config.profiles[profile].server for profile in (name, config.current) if profile in config.profiles]
    named = chosen.server or os.environ.get("BERTH_SERVER") or next((server for server in known if server), "")
    server = normal_server(named or asked(_("Server"), hidden=False, usage=usage))
    if travels_in_clear(server):
        note(_("! {server} is not encrypted: others on the network can read the token.", server=server), style="yellow")
    return Place(path, config, name, server)


@command()
def login(
    session: Session,
    token: Annotated[str | None, typer.Option("--token", help="Token; a dash prompts for it without echo.")] = None,
) -> None:
    """Sign in: print an address and a code, and wait for your approval in a browser.

    The token is stored in a file that only you can read. Without a browser: berth login --server URL < token-file
    """
    from berth.client import Client

    usage = "berth login --server URL --token TOKEN"
    place = place_to_keep(session, usage=usage)
    if token is None and is_terminal(sys.stdin):
        token = token_by_browser(session, place)
    if token in (None, "-"):
        token = asked(_("Token"), hidden=True, usage=usage)
    token = (token or "").strip()
    with Client(place.server, token, http=session.http, config_path=place.path) as client:
        me = client.whoami()
        if session.choices.tenant and session.choices.tenant not in _tenant_words(me):
            client.tenants.get(session.choices.tenant)  # A tenant that is not there is refused before anything is kept.
    place.keep(token, tenant=session.choices.tenant or "", known=_tenant_words(me))
    session.show_done(
        me,
        _(
            "Signed in to {server} as {user}; kept in {path}.",
            server=place.server,
            user=plain(me["user"]["name"]),
            path=place.path,
        ),
        key="user",
    )
    if not session.is_for_programs:
        _print_tenants(me)
        hint(_("berth submit -f job.yaml   ·   berth ps"))


def _tenant_words(me: Mapping[str, Any]) -> frozenset[str]:
    """All that the tenants of an account may be called by."""
    return frozenset(str(tenant[key]) for tenant in me["tenants"] for key in ("id", "slug", "name") if tenant.get(key))


def token_by_browser(session: Session, place: Place) -> str | None:
    """Ask for a code, show it, and wait for its approval; None where the server knows no codes. Ctrl+C ends the waiting."""
    from berth.resources import DeviceCodes
    from berth.transport import Transport

    anonymous = Settings(server=place.server, token="", tenant="", profile=place.name)
    transport = Transport(anonymous, http=session.http, language="zh-CN" if language() == "zh" else "en")
    with contextlib.closing(transport):
        codes = DeviceCodes(transport)
        try:
            asked_for = codes.ask(_client_name())
        except ApiError as error:
            if error.status in (401, 404, 405):
                return None
            raise
        note(_("Open this address in a browser, and check that it shows the code {code}:", code=plain(asked_for["user_code"])))
        note(f"  {plain(asked_for['verification_url_complete'])}", style="bold")
        note(_("Waiting for your approval; Ctrl+C gives up."))
        try:
            return _wait_for_approval(codes, asked_for)
        except KeyboardInterrupt:
            note(_("Nothing was stored."))
            raise typer.Exit(130) from None


def _wait_for_approval(codes: DeviceCodes, asked_for: Mapping[str, Any]) -> str:
    interval = float(asked_for["interval"])
    give_up_at = time.monotonic() + float(asked_for["expires_in"])
    while True:
        time.sleep(interval)
        try:
            return str(codes.redeem(asked_for["device_code"])["token"])
        except ServerUnreachable:
            if time.monotonic() > give_up_at:
                raise
        except ApiError as error:
            if error.code == "slow_down":
                interval = max(interval + 5, float(error.retry_after_seconds or 0))
            elif error.code != "authorization_pending" and not isinstance(error, (Unavailable, TooManyRequests)):
                raise
            if time.monotonic() > give_up_at:
                raise


def _client_name() -> str:
    """What the page of approval shows: this program, and this machine's name as far as it is plain."""
    import platform

    host = "".join(sign for sign in platform.node() if sign.isascii() and sign.isprintable())[:60]
    return f"berth {__version__} on {host or 'an unnamed machine'}"


@command(reads=False)
def logout(session: Session) -> None:
    """Delete the token stored on this computer. To revoke it everywhere: berth tokens revoke."""
    path = config_path()
    config = read_config(path)
    name = session.choices.profile or config.current
    if name not in config.profiles:
        note(_("There is no profile {name}.", name=name))
        return
    profiles = {other: profile for other, profile in config.profiles.items() if other != name}
    write_config(path, ConfigFile(current=next(iter(profiles), "default"), profiles=profiles))
    note(f"{paint('✓', 'green', stream=sys.stderr)} {_('Signed out of {server}.', server=config.profiles[name].server)}")


@command()
def whoami(session: Session) -> None:
    """Show your account on the server, and its tenants."""
    me = session.client.whoami()
    if session.is_for_programs:
        print_data(me, session.form, key="user")
        return
    user, token = me["user"], me.get("token") or {}
    print_facts(
        [
            ("User", (_user_text(user), "bold")),
            ("Mail", _mail_text(user)),
            ("Server", session.client.settings.server),
            ("Profile", session.client.settings.profile),
            ("Token", " ".join(plain(token.get(key) or "") for key in ("name", "prefix")).strip()),
            ("Scopes", ", ".join(plain(scope) for scope in token.get("scopes") or [])),
            ("Expires", formats.time_text(token.get("expires_at"))),
            ("Tenant", session.client.settings.tenant),
        ]
    )
    _print_tenants(me)


@command()
def list_tokens(
    session: Session,
    user: Annotated[
        str | None, typer.Option("--user", "-u", help="User or service account that owns the tokens; for operators.")
    ] = None,
) -> None:
    """List your access tokens."""
    session.show(session.client.tokens.list(user=user), TOKEN_COLUMNS, empty=_("No tokens."))


@command()
def create_token(
    session: Session,
    name: Annotated[str, typer.Argument(metavar="NAME", help="Purpose of the token.")],
    scope: Annotated[
        list[str] | None, typer.Option("--scope", "-s", help="Scope of the token; default: all your rights.")
    ] = None,
    expires: Annotated[str | None, typer.Option("--expires", help="Lifetime, such as 90d.")] = None,
) -> None:
    """Create an access token. It is printed only once, on standard output; with -o name on standard error."""
    expires_at = None
    if expires:
        from datetime import UTC, datetime, timedelta

        expires_at = (datetime.now(UTC) + timedelta(seconds=formats.parse_seconds(expires))).isoformat().replace("+00:00", "Z")
    made = session.client.tokens.create(name, scopes=scope, expires_at=expires_at)
    if session.is_for_programs:
        print_data(made, session.form, key="id")
    session.show_once(_("Save this token now; it is shown once:"), made["token"])


@command()
def revoke_token(
    session: Session,
    token: Annotated[str, typer.Argument(metavar="TOKEN", help="Id, name or prefix of the token.")],
    yes: YesOption = False,
) -> None:
    """Revoke a token; effective at once."""
    found = [row for row in session.client.tokens.list() if token in (row["id"], row.get("name"), row.get("prefix"))]
    if len(found) > 1:
        raise UsageMistake(
            _("{count} tokens have the name {name}.", count=len(found), name=token),
            hint=_("Use the id: berth tokens -o wide"),
        )
    token_id = str(found[0]["id"]) if found else token
    if confirmed(_("Revoke token {name}?", name=plain(token)), yes=yes):
        session.client.tokens.revoke(token_id)
        session.show_done({"id": token_id}, _("Token {name} is revoked.", name=plain(token)))


@command(reads=False)
def open_page(session: Session, job: Annotated[str | None, typer.Argument(metavar="JOB", help="Job to show.")] = None) -> None:
    """Open the web page of a job, or of the server; prints the address where there is no browser."""
    import webbrowser

    address = session.client.settings.server + (f"/jobs/{session.client.jobs.resolve(job)}" if job else "/")
    if not is_terminal(sys.stdout) or not webbrowser.open(address):
        print(address)


@command(reads=False)
def completion(session: Session, shell: Annotated[str, typer.Argument(metavar="SHELL", help="bash, zsh or fish.")]) -> None:
    """Print a completion script. For bash: echo 'eval "$(berth completion bash)"' >> ~/.bashrc"""
    if shell not in SHELLS:
        raise UsageMistake(_("{shell!r} is not a supported shell.", shell=shell), hint=", ".join(SHELLS))
    from typer._completion_shared import get_completion_script

    from berth.cli.root import COMPLETE_VARIABLE

    print(get_completion_script(prog_name="berth", complete_var=COMPLETE_VARIABLE, shell=shell))


@command()
def version(session: Session) -> None:
    """Show the versions of client and server, and whether they are compatible."""
    versions: dict[str, Any] = {"client": __version__, "server": None, "server_url": None}
    problem: BerthError | None = None
    try:
        versions["server_url"] = session.client.settings.server
        versions["server"] = session.client.info().get("version")
    except BerthError as error:
        problem = error
    if session.is_for_programs:
        print_data(versions, session.form)
        return
    there = plain(versions["server"]) if versions["server"] else _("no answer") if versions["server_url"] else _("not signed in")
    print_facts([("Client", __version__), ("Server", f"{there}  {versions['server_url'] or ''}".strip())])
    if versions["server"]:
        _warn_of_skew(str(versions["server"]))
    elif problem and versions["server_url"]:
        note(plain(problem.detail), style="yellow")


def _user_text(user: dict[str, Any]) -> str:
    """The name, and that it is an operator's, unless the name says so."""
    name = plain(user["name"])
    return name + (_(" (operator)") if user.get("is_operator") and name != "operator" else "")


def _mail_text(user: dict[str, Any]) -> str:
    """The address, and that it cannot be used to sign in where it is not confirmed. Servers before that say nothing of it."""
    address = plain(user.get("email") or "")
    return address + (_(" (not confirmed)") if address and user.get("email_is_confirmed") is False else "")


def _warn_of_skew(server: str) -> None:
    """Versions fit when they agree up to the second number."""
    here, there = __version__.split(".")[:2], server.split(".")[:2]
    if here != there:
        older = _("client") if here < there else _("server")
        note(
            _("! The versions differ; the {older} is older. Most commands work; upgrade the older side.", older=older),
            style="yellow",
        )


def _print_tenants(me: dict[str, Any]) -> None:
    tenants = me.get("tenants") or []
    if not tenants:
        return
    from berth.cli.output import heading, table_text

    heading(_("Tenants"))
    print(table_text(tenants, MY_TENANT_COLUMNS), end="")


TOKEN_COLUMNS = [
    Column("NAME", lambda token: plain(token["name"]), shrinks=True),
    Column("PREFIX", lambda token: plain(token.get("prefix", ""))),
    Column("SCOPES", lambda token: ", ".join(plain(scope) for scope in token.get("scopes") or []), shrinks=True),
    Column("LAST USED", lambda token: formats.age_text(token.get("last_used_at")), right=True),
    Column("EXPIRES", lambda token: formats.time_text(token.get("expires_at"))),
    Column("ID", lambda token: token["id"], wide=True),
]
MY_TENANT_COLUMNS = [
    Column("NAME", lambda tenant: plain(tenant["name"]), shrinks=True),
    Column("SLUG", lambda tenant: plain(tenant.get("slug", ""))),
    Column("ROLE", lambda tenant: plain(tenant.get("role", ""))),
]
tokens = make_group(
    "tokens",
    list_tokens,
    "List, create and revoke access tokens.",
    {"list": list_tokens, "create": create_token, "revoke": revoke_token},
)
