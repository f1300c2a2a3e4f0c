"""An archive is kept as a commit only where Git's own ids say that it is its tree."""

from __future__ import annotations

import io
import subprocess
import tarfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from storage.archives import BadArchive
from storage.git_trees import check_tree


@dataclass
class Fetch:
    commit: str
    commit_object: bytes
    listing: bytes
    files: dict[str, tuple[tarfile.TarInfo, bytes]]

    def packed(self) -> io.BytesIO:
        found = io.BytesIO()
        with tarfile.open(fileobj=found, mode="w:gz", format=tarfile.PAX_FORMAT) as archive:
            for member, content in self.files.values():
                member.size = len(content)
                archive.addfile(member, io.BytesIO(content))
        found.seek(0)
        return found

    def check(self) -> None:
        check_tree(self.packed(), commit=self.commit, commit_object=self.commit_object, listing=self.listing)


def git(place: Path, *words: str) -> bytes:
    identity = ["-c", "user.name=Alice", "-c", "user.email=alice@example.org"]
    return subprocess.run(["git", "-C", str(place), *identity, *words], check=True, capture_output=True).stdout


@pytest.fixture
def fetch(tmp_path: Path) -> Fetch:
    """A tree with a program, a link, names that Git sorts as folders, a submodule, and attributes that would change it."""
    git(tmp_path, "init", "-q")
    for name, content in {
        "a/b.py": "print(1)\n", "a.txt": "$Id$\n", "a-c": "x", "run.sh": "#!/bin/sh\n", "left.out": "here", "数据.txt": "",
        ".gitattributes": "left.out export-ignore\na.txt ident eol=crlf\n",
    }.items():  # fmt: skip
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(content)
    (tmp_path / "run.sh").chmod(0o755)
    (tmp_path / "link").symlink_to("a/b.py")
    git(tmp_path, "add", "-A")
    git(tmp_path, "update-index", "--add", "--cacheinfo", f"160000,{'1' * 40},module")
    git(tmp_path, "commit", "-q", "-m", "all")
    (tmp_path / ".git/info/attributes").write_text("* -text -ident -filter -working-tree-encoding -export-ignore -export-subst\n")
    commit = git(tmp_path, "rev-parse", "HEAD").decode().strip()
    with tarfile.open(fileobj=io.BytesIO(git(tmp_path, "archive", "--format=tar", commit))) as archive:
        files = {
            member.name: (member, (found.read() if (found := archive.extractfile(member)) else b"") if member.isreg() else b"")
            for member in archive
        }
    listing = git(tmp_path, "ls-tree", "-r", "-z", "--full-tree", commit)
    return Fetch(commit, git(tmp_path, "cat-file", "commit", commit), listing, files)


def test_the_tree_of_a_commit_is_taken_as_it_was_committed(fetch: Fetch) -> None:
    assert {"left.out", "link", "数据.txt", "run.sh"} <= set(fetch.files)
    fetch.check()


def changed(fetch: Fetch) -> None:
    fetch.files["a/b.py"] = (fetch.files["a/b.py"][0], b"print(2)\n")


def planted(fetch: Fetch) -> None:
    fetch.files["sitecustomize.py"] = (tarfile.TarInfo("sitecustomize.py"), b"")


def left_out(fetch: Fetch) -> None:
    del fetch.files["left.out"]


def made_a_program(fetch: Fetch) -> None:
    fetch.files["a-c"][0].mode = 0o755


def relinked(fetch: Fetch) -> None:
    fetch.files["link"][0].linkname = "run.sh"


def listed_otherwise(fetch: Fetch) -> None:
    changed(fetch)
    fetch.listing = fetch.listing.replace(b"a/b.py", b"a/c.py")


def of_another_tree(fetch: Fetch) -> None:
    fetch.commit_object = fetch.commit_object.replace(b"tree ", b"tree 0", 1)


@pytest.mark.parametrize("tamper", [changed, planted, left_out, made_a_program, relinked, listed_otherwise, of_another_tree])
def test_what_is_not_the_tree_of_the_commit_is_refused(fetch: Fetch, tamper: Callable[[Fetch], None]) -> None:
    tamper(fetch)
    with pytest.raises(BadArchive, match=f"not commit {fetch.commit}"):
        fetch.check()
