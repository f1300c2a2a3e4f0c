"""The root that a task in a container image sees: the image's tree, read-only, with the platform's places and its mounts in it.

bubblewrap makes missing mount points and follows links on the way to them, with the whole host still in reach. So it is given
nothing but places that exist as real directories, or that it makes in a directory of memory: a directory of the image that needs
one more entry is shown as such a directory, with the image's own entries beside it.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Sequence
from dataclasses import dataclass

from clusters.engines.local.containers.paths import within
from clusters.registries.errors import ImageUnusable

ENTRIES_MAX = 1_000  # Of a directory that is shown entry by entry: each takes a mount.


class CannotShow(Exception):
    """A mount has no place in this image; the text says why."""


@dataclass(frozen=True, slots=True)
class Place:
    """Where a mount is seen: `path` without links, `missing` the directories to make above it, outermost first."""

    path: str
    missing: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class RootView:
    """`line` makes the root; `places` are those of the targets, in their order; `made` are to be closed when all is mounted."""

    line: tuple[str, ...]
    places: tuple[Place, ...]
    made: tuple[str, ...]


def root_view(root: str, targets: Sequence[str]) -> RootView:
    """How bubblewrap shows an unpacked image in which all targets can be mounted. Raises CannotShow."""
    resolved = [_resolve(root, target) for target in targets]
    opened: dict[str, None] = {}
    places = []
    for target in resolved:
        existing = _existing(root, target)
        if existing != target and not any(target.startswith(f"{other}/") for other in resolved):
            opened[existing] = None
        depth = 0 if existing == "/" else existing.count("/")
        parts = target.strip("/").split("/")
        places.append(Place(target, tuple("/" + "/".join(parts[:end]) for end in range(depth + 1, len(parts)))))
    line: list[str] = [] if "/" in opened else ["--ro-bind", root, "/"]
    for path in sorted(opened, key=lambda path: (path != "/", path.count("/"), path)):
        line += _entries(root, path)
    return RootView(tuple(line), tuple(places), tuple(opened))


def _resolve(root: str, target: str) -> str:
    try:
        return "/" + "/".join(within(root, tuple(target.split("/"))))
    except ImageUnusable as error:
        raise CannotShow(f"{target} has no place in the image: {error.detail}") from None


def _existing(root: str, target: str) -> str:
    """The deepest directory of the image above a target, or the target itself."""
    path = target
    while path != "/" and not os.path.lexists(f"{root}{path}"):
        path = os.path.dirname(path)
    if path != "/" and not stat.S_ISDIR(os.lstat(f"{root}{path}").st_mode):
        raise CannotShow(f"{target} leads through a file of the image")
    return path


def _entries(root: str, path: str) -> list[str]:
    """A directory of memory with the entries that the image has there."""
    line = [] if path == "/" else ["--perms", "0755", "--tmpfs", path]
    names = sorted(os.listdir(f"{root}{path}"))
    if len(names) > ENTRIES_MAX:
        raise CannotShow(
            f"{path} of the image has more than {ENTRIES_MAX} entries: mount where the image has a directory already"
        )
    for name in names:
        inner = f"{path.rstrip('/')}/{name}"
        source = f"{root}{inner}"
        if os.path.islink(source):
            line += ["--symlink", os.readlink(source), inner]
        else:
            line += ["--ro-bind", source, inner]
    return line
