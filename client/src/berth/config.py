"""Which server, token and tenant: file, then environment, then what the caller says; the later wins.

The file holds tokens, so it is written with mode 0600 in a folder of mode 0700, replaced in one step, and a file that
others can read is refused. It is TOML with one table per profile:

    current = "default"

    [profiles.default]
    server = "http://127.0.0.1:8620"
    token = "..."
    tenant = "vision"
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import stat
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import urlsplit

from berth.errors import ConfigurationInvalid

DEFAULT_PROFILE = "default"
_PROFILE_NAME = re.compile(r"[A-Za-z0-9_.-]{1,64}")
_LOOPBACK = {"localhost", "127.0.0.1", "::1"}


@dataclass(frozen=True, slots=True)
class Profile:
    """One named server with the token for it. Empty means not set."""

    server: str = ""
    token: str = field(default="", repr=False)
    tenant: str = ""


@dataclass(frozen=True, slots=True)
class ConfigFile:
    """The file as read. `current` names the profile used when none is chosen."""

    current: str = DEFAULT_PROFILE
    profiles: Mapping[str, Profile] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Settings:
    """What one client works with, after file, environment and arguments were laid over each other."""

    server: str
    token: str = field(repr=False)
    tenant: str
    profile: str


def config_path(environ: Mapping[str, str] | None = None) -> Path:
    """`$BERTH_CONFIG`, else `$XDG_CONFIG_HOME/berth/config.toml`, else under `~/.config`."""
    variables = os.environ if environ is None else environ
    if variables.get("BERTH_CONFIG"):
        return Path(variables["BERTH_CONFIG"]).expanduser()
    base = variables.get("XDG_CONFIG_HOME") or "~/.config"
    return Path(base).expanduser() / "berth" / "config.toml"


def read_config(path: Path) -> ConfigFile:
    """Read the file; one that is not there is empty."""
    import tomllib

    try:
        with path.open("rb") as file:
            _refuse_readable_by_others(path, os.fstat(file.fileno()))
            document = tomllib.load(file)
    except FileNotFoundError:
        return ConfigFile()
    except (OSError, tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ConfigurationInvalid(
            f"{path} cannot be read: {error}", hint="Mend the file, or remove it and log in again."
        ) from error
    tables = document.get("profiles", {})
    if not isinstance(tables, dict) or not all(isinstance(table, dict) for table in tables.values()):
        raise ConfigurationInvalid(f"{path}: `profiles` must hold one table per profile.")
    profiles = {
        name: Profile(*(str(table.get(key, "")) for key in ("server", "token", "tenant"))) for name, table in tables.items()
    }
    return ConfigFile(current=str(document.get("current", DEFAULT_PROFILE)), profiles=profiles)


def write_config(path: Path, config: ConfigFile) -> None:
    """Replace the file in one step, readable by its owner alone."""
    lines = [f"current = {_quote(config.current)}", ""]
    for name, profile in sorted(config.profiles.items()):
        lines.append(f"[profiles.{_quote(name)}]")
        values = (("server", profile.server), ("token", profile.token), ("tenant", profile.tenant))
        lines += [f"{key} = {_quote(value)}" for key, value in values if value]
        lines.append("")
    try:
        _replace_text(path, "\n".join(lines))
    except OSError as error:
        raise ConfigurationInvalid(
            f"{path} cannot be written: {error.strerror}.", hint="Name another file in BERTH_CONFIG, or make room for this one."
        ) from error


def _replace_text(path: Path, text: str) -> None:
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    descriptor, temporary = tempfile.mkstemp(dir=path.parent, prefix=".config-")  # Made with mode 0600.
    try:
        with os.fdopen(descriptor, "w", encoding="utf-8") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(temporary)
        raise


def resolve_settings(
    *,
    server: str | None = None,
    token: str | None = None,
    tenant: str | None = None,
    profile: str | None = None,
    path: Path | None = None,
    environ: Mapping[str, str] | None = None,
) -> Settings:
    """Lay arguments over environment over file. The server may stay empty here; `Client` refuses that.

    A server named by an argument or the environment does not get the token that the file keeps for another server.
    """
    variables = os.environ if environ is None else environ
    config = read_config(path or config_path(variables))
    wanted = profile or variables.get("BERTH_PROFILE")
    name = wanted or config.current
    if wanted and wanted not in config.profiles and not (server or variables.get("BERTH_SERVER")):
        known = ", ".join(sorted(config.profiles)) or "none"
        raise ConfigurationInvalid(
            f"There is no profile {wanted!r}; known: {known}.", hint=f"Make it with: berth login --profile {wanted}"
        )
    kept = config.profiles.get(name, Profile())
    chosen_server = normal_server(server or variables.get("BERTH_SERVER") or kept.server)
    same_server = chosen_server == _normal_kept(kept.server)
    return Settings(
        server=chosen_server,
        token=token or variables.get("BERTH_TOKEN") or (kept.token if same_server else ""),
        tenant=tenant or variables.get("BERTH_TENANT") or (kept.tenant if same_server else ""),
        profile=name,
    )


def normal_server(text: str) -> str:
    """Give the address without a trailing slash; a bare host gets https, a loopback one http."""
    text = text.strip()
    if not text:
        return ""
    if "://" not in text:
        text = f"{'http' if _host_of(text) in _LOOPBACK else 'https'}://{text}"
    if not _is_address(text):
        raise ConfigurationInvalid(f"{text!r} is not a server address.", hint="Write it like https://berth.example.org")
    parts = urlsplit(text)
    if parts.username or parts.password:
        raise ConfigurationInvalid(
            "A server address holds no name or password.", hint="Give the token with --token or by prompt."
        )
    return text.rstrip("/")


def _host_of(text: str) -> str:
    """The host of an address without a scheme; empty where it has none."""
    try:
        return urlsplit(f"//{text}").hostname or ""
    except ValueError:
        return ""


def _is_address(text: str) -> bool:
    """Whether a name or an address of a host stands where one must, a port within its range, and nothing behind the path."""
    try:
        parts = urlsplit(text)
        port, host = parts.port, (parts.hostname or "").encode("idna")
    except ValueError:  # Brackets without an end, a port that is none, a name with an empty or an endless part.
        return False
    is_whole = text.isprintable() and " " not in text and port != 0
    return is_whole and parts.scheme in ("http", "https") and bool(host) and not (parts.query or parts.fragment)


def _normal_kept(server: str) -> str:
    """The address in the file; empty where it is none, so that another address, or signing in anew, still works."""
    try:
        return normal_server(server)
    except ConfigurationInvalid:
        return ""


def travels_in_clear(server: str) -> bool:
    """Whether a token sent to this address can be read on the way: http to another machine."""
    parts = urlsplit(server)
    return parts.scheme == "http" and (parts.hostname or "") not in _LOOPBACK


def valid_profile_name(name: str) -> str:
    """Give the name back, or refuse it."""
    if not _PROFILE_NAME.fullmatch(name):
        raise ConfigurationInvalid(f"{name!r} cannot name a profile.", hint="Use letters, digits, dot, dash and underscore.")
    return name


def _refuse_readable_by_others(path: Path, status: os.stat_result) -> None:
    if os.name == "posix" and stat.S_IMODE(status.st_mode) & 0o077:
        raise ConfigurationInvalid(f"{path} holds tokens, and others can read it.", hint=f"Run: chmod 600 {path}")


def _quote(text: str) -> str:
    """A TOML basic string; JSON's escapes are a subset of TOML's but for DEL."""
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007F")
