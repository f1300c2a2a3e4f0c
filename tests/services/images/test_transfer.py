"""The half of a build that holds the tenant's account: what a step of the build has written is nothing but an image to it."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import pytest

from images.builder import TRANSFER_SCRIPT

CANARY = "account-canary-5582"
SKOPEO = """#!/bin/sh
for each; do case $each in oci:*) from=${each#oci:}; from=${from%:image} ;; esac; done
for each; do [ "$each" = --digestfile ] && next=1 || { [ -z "$next" ] || { echo sha256:0 >"$each"; next=; }; }; done
echo "$from" >>"$SEEN/pushed"
find "$from" -type f -exec cat {} + >>"$SEEN/pushed"
"""
"""Instead of skopeo: notes what it is told to push, and all that it finds there."""


class Transfer:
    """One that finds a built image, with the task's own directory and what it would push."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.location, self.own = folder, folder / "location", folder / "own"
        self.result = self.location / "attempt-1" / "result"
        (self.result / "blobs" / "sha256").mkdir(parents=True)
        (self.result.parent / "built").touch()
        for place in (self.own, folder / "bin"):
            place.mkdir()
        (folder / "bin" / "skopeo").write_text(SKOPEO)
        (folder / "bin" / "skopeo").chmod(0o755)
        (folder / "bases").touch()
        (folder / "registries").touch()

    def run(self) -> subprocess.CompletedProcess[str]:
        line: list[str | Path] = ["/bin/sh", TRANSFER_SCRIPT, self.location, "registry.example.org/a:1"]
        return subprocess.run(
            [*line, self.folder / "bases", self.folder / "registries"],
            env={
                "PATH": f"{self.folder}/bin:{os.defpath}",
                "HOME": str(self.folder),
                "TMPDIR": str(self.own),
                "SEEN": str(self.folder),
                "BERTH_ATTEMPT": "1",
                "BERTH_BUILD_ACCOUNT": CANARY,
            },
            capture_output=True,
            text=True,
            timeout=30,
        )


@pytest.fixture
def transfer(tmp_path: Path) -> Transfer:
    return Transfer(tmp_path)


def test_what_is_pushed_is_a_copy_in_the_tasks_own_directory(transfer: Transfer) -> None:
    (transfer.result / "index.json").write_text("an index")
    done = transfer.run()
    assert done.returncode == 0, done.stderr
    assert (transfer.folder / "pushed").read_text() == f"{transfer.own}/result\nan index"
    assert json.loads((transfer.location / "berth-image.json").read_text())["digest"] == "sha256:0"
    assert not (transfer.own / "auth.json").exists(), "the account goes with the task"


@pytest.mark.parametrize("name", ["blobs/sha256/manifest", "index.json", "blobs/more", ""])
def test_a_link_that_a_step_left_leads_to_no_file_of_the_task(transfer: Transfer, name: str) -> None:
    target: Path = transfer.own if name == "blobs/more" else transfer.own / "auth.json"
    if not name:
        (transfer.result / "blobs" / "sha256").rmdir()
        (transfer.result / "blobs").rmdir()
        transfer.result.rmdir()
    Path(transfer.result, name).symlink_to(target)
    done = transfer.run()
    assert done.returncode == 1
    assert not (transfer.folder / "pushed").exists()
    assert "neither a file nor a folder" in (transfer.location / "error.txt").read_text()
    assert CANARY not in done.stdout + done.stderr
