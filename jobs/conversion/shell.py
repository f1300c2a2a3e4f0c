"""Variables of other systems, set from Berth's own by a few lines of shell in front of a command.

Only what a command reads is set. The lines are ours, whole; of the user's text they hold nothing but numbers and names that
were checked against a grammar."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

from jobs.conversion.notes import Findings
from jobs.spec.advice import is_secret_name

# `export NAME=value` or `NAME=value command`, with a value of its own: what is read from elsewhere, as by `$NAME`, tells nothing.
_SET = re.compile(r"""^[ \t]*(?:export[ \t]+)?([A-Za-z_][A-Za-z0-9_]*)=(?=["']?[^\s"'$`;&|])""", re.MULTILINE)
NAMES_TOLD = 8  # In one note; the rest is in the script.


def names_read(command: str, prefix: str) -> list[str]:
    """Variables of a prefix that a command mentions, sorted."""
    return sorted(set(re.findall(rf"(?<![A-Za-z0-9_])({prefix}[A-Za-z0-9_]+)", command)))


def tell_secrets(command: str, findings: Findings, place: str) -> None:
    """A note on every variable that looks like a secret and that a command sets in clear: a command is left as it was written."""
    for name in sorted({match[1] for match in _SET.finditer(command) if is_secret_name(match[1])}):
        findings.changed("secret_in_command", place, None, name=name)


def settings(read: Iterable[str], known: Mapping[str, str], findings: Findings, place: str) -> list[str]:
    """Lines that set what is read; a note on them, and one for each variable that nothing here can set."""
    lines, told = [], []
    for name in read:
        if name in known:
            lines.append(f"export {name}={known[name]}")
            told.append(name)
        else:
            findings.lost("unknown_variable", place, None, name=name)
    if told:
        more = ", …" if len(told) > NAMES_TOLD else ""
        findings.changed("variables", place, None, names=", ".join(told[:NAMES_TOLD]) + more)
    return lines


def entry_of(variable: str, index: int) -> str:
    """The entry at an index of a list with commas, such as BERTH_WORKER_HOSTS."""
    return f'"$(echo "${variable}" | cut -d, -f{index + 1})"'
