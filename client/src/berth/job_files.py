"""What jobs leave: artifacts, and directories of checkpoints. Part of `client.jobs`."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from berth import limits
from berth.errors import NotFound
from berth.job_reads import JobReads, job_path
from berth.logs import ENDED_STATES
from berth.paging import list_all
from berth.transfers import Progress, download, inside, quote_path
from berth.transport import Call

if TYPE_CHECKING:
    from berth.types import ArtifactData

Rows = list[dict[str, Any]]


class JobFiles(JobReads):
    def artifacts(self, job: str, *, patient: bool = False) -> list[ArtifactData]:
        """The manifest: path, size and SHA-256 of every file that the job left. They are brought in just after a job has ended;
        `patient` waits for that, for at most `COLLECT_SECONDS`."""
        deadline = time.monotonic() + limits.COLLECT_SECONDS
        while patient and time.monotonic() < deadline and self._is_being_collected(job):
            time.sleep(limits.POLL_SECONDS)
        return cast("list[ArtifactData]", list_all(self._transport, f"{job_path(job)}/artifacts"))

    def left_behind(self, job: str) -> str:
        """What of the job's outputs was not kept, and why, in the server's words; empty where nothing is missing."""
        page = self._transport.json(Call("GET", f"{job_path(job)}/artifacts", {"limit": 1}))
        return str(page.get("marker") or "") if isinstance(page, dict) else ""

    def _is_being_collected(self, job: str) -> bool:
        """Whether the job has ended and not everything that it left is there."""
        page = self._transport.json(Call("GET", f"{job_path(job)}/artifacts", {"limit": 1}))
        is_whole = not isinstance(page, dict) or page.get("complete", True) or not page.get("attempt")
        return not is_whole and self.read(job)["state"] in ENDED_STATES

    def download(self, job: str, path: str = "", dest: str | Path = ".", *, progress: Progress | None = None) -> list[Path]:
        """Fetch an artifact file, or all below a folder (`""` is everything). Works as `cp -r` does: into `dest` when that
        is a folder, else as `dest`. Resumes what an earlier call left, and checks every SHA-256."""
        job_id = self.resolve(job)
        chosen = choose_artifacts(self.artifacts(job_id, patient=True), path)
        if not chosen:
            raise NotFound(f"The job has no artifact {path!r}.", hint=f"See what it has: berth cp {job_id}: --list", status=404)
        done = 0
        placed = []
        for artifact, place in place_artifacts(chosen, path, Path(dest)):
            before = done
            report = (lambda got, before=before: progress(before + got)) if progress else None
            self.download_one(job_id, artifact, place, progress=report)
            done += artifact["size_bytes"]
            placed.append(place)
        return placed

    def download_one(self, job_id: str, artifact: ArtifactData, place: Path, *, progress: Progress | None = None) -> Path:
        """Fetch one file of the manifest to `place`."""
        return download(
            self._transport,
            Call("GET", f"{job_path(job_id)}/artifacts/{quote_path(artifact['path'])}"),
            place,
            sha256=artifact.get("sha256", ""),
            size_bytes=artifact.get("size_bytes"),
            progress=progress,
        )

    # --- Checkpoints --------------------------------------------------------------------------------------------------

    def checkpoint(self, job: str) -> dict[str, Any] | None:
        """The last checkpoint of a job: state, age, size, and what an eviction would cost now; None where it keeps none."""
        try:
            return dict(self._transport.json(Call("GET", f"{job_path(self.resolve(job))}/checkpoint")))
        except NotFound:
            return None

    def checkpoint_files(self, job: str, path: str = "") -> Rows:
        """What lies in one folder of the job's checkpoint directory."""
        url = f"{job_path(self.resolve(job))}/checkpoint/files"
        return list_all(self._transport, url, path=path or None, limit=limits.FILES_PAGE)

    def checkpoint_tree(self, job: str, path: str = "", *, skipped: Rows | None = None) -> Iterator[tuple[str, dict[str, Any]]]:
        """All files at or below a path of the checkpoint directory: where each belongs below a target, and its entry. Links and
        special files are not fetched; `skipped` is a list that gets their entries."""
        job_id, wanted = self.resolve(job), path.strip("/")
        parent, _slash, last = wanted.rpartition("/")
        left = [] if skipped is None else skipped
        for entry in self.checkpoint_files(job_id, parent) if wanted else []:
            if entry["path"] == wanted and entry["kind"] == "file":
                yield last, entry
                return
            if entry["path"] == wanted and entry["kind"] != "directory":
                left.append(entry)
                return
        folders = [wanted]
        while folders:
            folder = folders.pop()
            for entry in self.checkpoint_files(job_id, folder):
                if entry["kind"] == "directory":
                    folders.append(entry["path"])
                elif entry["kind"] == "file":
                    yield entry["path"].removeprefix(f"{wanted}/") if wanted else entry["path"], entry
                else:
                    left.append(entry)

    def download_checkpoint_file(
        self, job_id: str, entry: Mapping[str, Any], place: Path, *, progress: Progress | None = None
    ) -> Path:
        """Fetch one file of the checkpoint directory. One that is there, of its size and time, is not fetched again."""
        at = datetime.fromisoformat(entry["modified_at"]).timestamp()
        if place.is_file() and place.stat().st_size == entry["size_bytes"] and int(place.stat().st_mtime) == int(at):
            return place
        call = Call("GET", f"{job_path(job_id)}/checkpoint/content", {"path": entry["path"]})
        download(self._transport, call, place, size_bytes=entry["size_bytes"], progress=progress)
        os.utime(place, (at, at))
        return place

    def download_checkpoint(self, job: str, dest: str | Path = ".", path: str = "") -> list[Path]:
        """Fetch the checkpoint directory, or what is at a path in it, into the folder `dest`. Called again it fetches what is
        missing or has changed."""
        job_id = self.resolve(job)
        return [
            self.download_checkpoint_file(job_id, entry, inside(Path(dest), relative))
            for relative, entry in self.checkpoint_tree(job_id, path)
        ]


def choose_artifacts(artifacts: Sequence[ArtifactData], path: str) -> list[ArtifactData]:
    """The file of that path, or all files below it."""
    wanted = path.strip("/").removeprefix("./")
    if wanted in ("", "."):
        return list(artifacts)
    return [artifact for artifact in artifacts if artifact["path"] == wanted or artifact["path"].startswith(f"{wanted}/")]


def place_artifacts(artifacts: Sequence[ArtifactData], path: str, dest: Path) -> list[tuple[ArtifactData, Path]]:
    """Where each file goes, by the rules of `cp -r`; names that lead out of `dest` are refused before anything is fetched."""
    wanted = path.strip("/").removeprefix("./")
    if wanted in ("", "."):
        return [(artifact, inside(dest, artifact["path"])) for artifact in artifacts]
    is_one_file = len(artifacts) == 1 and artifacts[0]["path"] == wanted
    if is_one_file:
        into = dest.is_dir() or str(dest).endswith("/")
        return [(artifacts[0], inside(dest, wanted.rpartition("/")[2]) if into else dest)]
    parent = wanted.rpartition("/")[0] if dest.is_dir() else wanted
    return [(artifact, inside(dest, artifact["path"].removeprefix(parent).lstrip("/"))) for artifact in artifacts]
