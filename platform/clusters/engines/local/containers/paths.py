"""What a path means inside an unpacked image: links on the way lead within it, as for a program whose root it is."""

from __future__ import annotations

import os
import stat

from clusters.registries.errors import ImageUnusable
from kernel.words import Text

PATH_BYTES_MAX = 3_500  # Below the kernel's 4,096, with the directory's own path.
LINKS_MAX = 40  # As the kernel has it.


def within(root: str, parts: tuple[str, ...]) -> tuple[str, ...]:
    """What a path means for a program whose root this is: without links and `..`. What is missing is taken as it is written.

    Raises ImageUnusable where the path leads through a file or in circles.
    """
    pending, found, links = list(reversed(parts)), list[str](), 0
    while pending:
        part = pending.pop()
        if part in ("", "."):
            continue
        if part == "..":
            del found[-1:]
            continue
        path = "/".join((root, *found, part))
        if len(os.fsencode(path)) > PATH_BYTES_MAX:
            raise ImageUnusable(Text("A path of the image is too long.", "镜像中有过长的路径。"))
        kind = kind_of(path)
        if kind == stat.S_IFLNK:
            links += 1
            if links > LINKS_MAX:
                raise ImageUnusable(Text("Links of the image lead in circles.", "镜像中的链接形成循环。"))
            target = os.readlink(path)
            if target.startswith("/"):
                found.clear()
            pending.extend(reversed(target.split("/")))
        elif kind is None or kind == stat.S_IFDIR or not pending:
            found.append(part)
        else:
            raise ImageUnusable(
                Text(
                    f"{shown('/'.join((*found, part)))} of the image is no directory.",
                    f"镜像中的 {shown('/'.join((*found, part)))} 不是目录。",
                )
            )
    return tuple(found)


def kind_of(path: str) -> int | None:
    """The type of what is there, itself; None for nothing."""
    try:
        return stat.S_IFMT(os.lstat(path).st_mode)
    except FileNotFoundError:
        return None


def shown(name: str) -> str:
    return ascii(name if len(name) <= 100 else f"{name[:100]}...")
