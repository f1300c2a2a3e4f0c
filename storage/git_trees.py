"""Whether an archive is the tree of a commit, by Git's own ids: nothing that the fetching job says is believed without it.

A fetch hands over the commit object and the list of the tree (`git ls-tree -r -z`). The object's id is the commit's name, it
names its tree, the list makes up that tree, and each file of the archive has the id that the list gives it. Submodules stand in
the list and have no files."""

from __future__ import annotations

import hashlib
import os
import re
import tarfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import IO, BinaryIO

from kernel.words import Text
from storage.archives import BadArchive

PROOF_BYTES_MAX = 64 * 1024**2  # A list of 50,000 files with paths of a kilobyte.
LEVELS_MAX = 200
_ENTRY = re.compile(rb"(100[0-7]{3}|120000|160000) (?:blob|commit) ([0-9a-f]{40}|[0-9a-f]{64})\t(.+)", re.DOTALL)
_SUBMODULE = b"160000"
Kind = Callable[[bytes], "hashlib._Hash"]
"""What makes the ids of a repository: SHA-1, or SHA-256."""
_CHUNK_BYTES = 1024**2


@dataclass(slots=True)
class _Folder:
    entries: dict[bytes, tuple[bytes, str]] = field(default_factory=dict)  # Mode and id, by name.
    folders: dict[bytes, _Folder] = field(default_factory=dict)


def check_tree(packed: BinaryIO, *, commit: str, commit_object: bytes, listing: bytes) -> None:
    """Raise BadArchive where the archive (gzip, tar) is not the tree of this commit."""
    kind: Kind = hashlib.sha1 if len(commit) == 40 else hashlib.sha256
    named = re.match(rb"tree ([0-9a-f]+)\n", commit_object)
    if _id_of(kind, b"commit", commit_object) != commit or named is None:
        raise _not_this("its commit object has another id", "提交对象的标识不符", commit)
    files = _entries(listing, commit)
    root = _Folder()
    for path, (mode, name) in files.items():
        _put(root, path, mode, name, commit)
    if _tree_id(kind, root) != named[1].decode():
        raise _not_this("the list of its files has another id", "文件列表的标识不符", commit)
    _compare(packed, kind, files, commit)


def _entries(listing: bytes, commit: str) -> dict[bytes, tuple[bytes, str]]:
    found: dict[bytes, tuple[bytes, str]] = {}
    for line in listing.split(b"\0"):
        match = _ENTRY.fullmatch(line)
        if match is not None:
            found[match[3]] = (match[1], match[2].decode())
        elif line:
            raise _not_this("the list of its files cannot be read", "文件列表无法读取", commit)
    return found


def _put(root: _Folder, path: bytes, mode: bytes, name: str, commit: str) -> None:
    *above, last = path.split(b"/")
    if len(above) > LEVELS_MAX:
        raise _not_this("its folders are nested too deep", "目录嵌套过深", commit)
    folder = root
    for part in above:
        folder = folder.folders.setdefault(part, _Folder())
    folder.entries[last] = (mode, name)


def _tree_id(kind: Kind, folder: _Folder) -> str:
    """Git's id of a folder: its entries in the order in which a folder's name ends in a slash."""
    entries = [(name, mode, identity, name) for name, (mode, identity) in folder.entries.items()]
    entries += [(name + b"/", b"40000", _tree_id(kind, inner), name) for name, inner in folder.folders.items()]
    body = b"".join(b"%s %s\0%s" % (mode, name, bytes.fromhex(identity)) for _, mode, identity, name in sorted(entries))
    return _id_of(kind, b"tree", body)


def _compare(packed: BinaryIO, kind: Kind, files: Mapping[bytes, tuple[bytes, str]], commit: str) -> None:
    missing = {path for path, (mode, _) in files.items() if mode != _SUBMODULE}
    with tarfile.open(fileobj=packed, mode="r:gz") as archive:
        for member in archive:
            path = os.fsencode(member.name)
            if member.isdir():
                continue
            mode, name = files.get(path, (b"", ""))
            if member.issym():
                fits = mode == b"120000" and _id_of(kind, b"blob", os.fsencode(member.linkname)) == name
            else:
                content = archive.extractfile(member) if member.isreg() else None
                may_run = bool(member.mode & 0o100)
                fits = mode.startswith(b"100") and may_run == bool(int(mode or b"0", 8) & 0o100)
                fits = fits and content is not None and _blob_id(kind, content, member.size) == name
            if not fits:
                shown = repr(member.name[:200])
                raise _not_this(f"{shown} is not the file of that commit", f"{shown} 与提交不符", commit)
            missing.discard(path)
            archive.members = []  # type: ignore[attr-defined]  # Else every member seen stays in memory.
    if missing:
        raise _not_this(f"{min(missing)[:200]!r} is missing", f"缺少 {min(missing)[:200]!r}", commit)


def _id_of(kind: Kind, word: bytes, body: bytes) -> str:
    return kind(b"%s %d\0%s" % (word, len(body), body)).hexdigest()


def _blob_id(kind: Kind, content: IO[bytes], size: int) -> str:
    digest = kind(b"blob %d\0" % size)
    while chunk := content.read(_CHUNK_BYTES):
        digest.update(chunk)
    return digest.hexdigest()


def _not_this(why: str, why_zh: str, commit: str) -> BadArchive:
    return BadArchive(
        Text(f"What was fetched is not commit {commit}: {why}.", f"获取到的内容不是提交 {commit}：{why_zh}。"),
        hint=Text("Submit the job again; it is fetched anew.", "请重新提交作业，代码会重新获取。"),
    )
