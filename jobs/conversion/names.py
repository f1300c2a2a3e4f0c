"""Names as Berth has them, made from whatever another system called its jobs, roles, ports and secrets."""

from __future__ import annotations

import re
from collections.abc import Iterable

from jobs.spec.model import DEFAULT_NAME, DEFAULT_ROLE
from kernel.limits import NAME_LENGTH


def job_name(text: str) -> str:
    """A job's name from any text."""
    return re.sub(r"[^A-Za-z0-9._-]+", "-", text)[:NAME_LENGTH].lstrip("._-") or DEFAULT_NAME


def role_name(text: str) -> str:
    return _small(text) or DEFAULT_ROLE


def port_name(text: str) -> str:
    return _small(text)[:15].rstrip("-") or "port"


def env_name(text: str) -> str:
    """A variable's name from any text; never one that Berth keeps for itself."""
    name = re.sub(r"[^A-Za-z0-9_]", "_", text)[:100]
    return f"SECRET_{name}" if not name or name[0].isdigit() or name.upper().startswith("BERTH_") else name


def unique(name: str, taken: Iterable[str], length: int) -> str:
    """The name, with a number behind it where it is taken."""
    used, made, count = set(taken), name[:length].rstrip("-"), 1
    while made in used:
        count += 1
        made = f"{name[: length - 1 - len(str(count))].rstrip('-')}-{count}"
    return made


def _small(text: str) -> str:
    """Lower-case letters, digits and dashes, beginning with a letter."""
    return re.sub(r"-{2,}", "-", re.sub(r"[^a-z0-9]", "-", text.lower())).lstrip("-0123456789").rstrip("-")
