"""The files /etc/passwd and /etc/group that a task sees: the system's own, with lines for its tenant's user and groups where
there are none.

The system is the host's or that of a container image. An image is a stranger's: no link in it is followed, nothing but a regular
file is read, and no more of it than a bound.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterable

from clusters.engines.local.launching import beneath
from clusters.engines.local.launching.verbs import LauncherRefused

PASSWD, GROUP = "passwd", "group"
BYTES_MAX = 1024**2  # A host with 10,000 users of its own has that; a directory service keeps more elsewhere.
_SHELL = "/bin/sh"
_NAME = re.compile(rb"[A-Za-z0-9_][A-Za-z0-9_.-]{0,63}")


def read(root: str, name: str) -> bytes | None:
    """One of the two files of a system; None where it is none that can be shown with another line: no file, or too long a one."""
    with contextlib.suppress(OSError, LauncherRefused):
        descriptor = beneath.open_file(root, f"etc/{name}", write=False, mode=0, truncate=False)
        with open(descriptor, "rb") as file:
            content = file.read(BYTES_MAX + 1)
        if len(content) <= BYTES_MAX:
            return content
    return None


def name_of(content: bytes, number: int) -> str:
    """What a user or a group with this number is called; "" where it has no line, or no name that can be one."""
    wanted = str(number).encode()
    for line in content.splitlines():
        fields = line.split(b":")
        if len(fields) > 2 and fields[2] == wanted:
            return fields[0].decode() if _NAME.fullmatch(fields[0]) else ""
    return ""


def is_name(text: str) -> bool:
    """Whether a line can be made of it."""
    return _NAME.fullmatch(text.encode()) is not None


def with_user(content: bytes, name: str, uid: int, gid: int, home: str) -> bytes:
    """A passwd file in which the user has a line."""
    return content if name_of(content, uid) else _with_line(content, f"{name}:x:{uid}:{gid}::{home}:{_SHELL}")


def with_groups(content: bytes, name: str, gid: int, others: Iterable[int]) -> bytes:
    """A group file in which the user's own group and the others, those of volumes, have lines."""
    for number, called in ((gid, name), *((other, f"volume-{other}") for other in others)):
        content = content if name_of(content, number) else _with_line(content, f"{called}:x:{number}:")
    return content


def _with_line(content: bytes, line: str) -> bytes:
    end = b"" if not content or content.endswith(b"\n") else b"\n"
    return b"".join((content, end, line.encode(), b"\n"))
