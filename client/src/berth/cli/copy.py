"""`berth cp`: to a volume, from a volume, and a job's artifacts home."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from berth.cli import formats
from berth.cli.command import Session, UsageMistake, command
from berth.cli.messages import _
from berth.cli.output import Column, hint, note
from berth.cli.show import ARTIFACT_COLUMNS
from berth.cli.transfer import Progressing
from berth.errors import FileRefused, NotFound
from berth.file_names import as_written, text_of
from berth.job_files import choose_artifacts, place_artifacts
from berth.sanitize import plain
from berth.transfers import inside

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

SKIPPED_SHOWN = 20


@command()
def cp(
    session: Session,
    source: Annotated[str, typer.Argument(metavar="SOURCE", help="Local path, VOLUME:PATH, or JOB:PATH.")],
    dest: Annotated[str, typer.Argument(metavar="DEST", help="Local path, or VOLUME:PATH.")] = ".",
    list_: Annotated[bool, typer.Option("--list", help="List the files; copy nothing.")] = False,
    kind: Annotated[
        str | None, typer.Option("--from", help="Kind of NAME if a job and a volume share it: job or volume.")
    ] = None,
) -> None:
    """Copy files, as `cp -r` does. An interrupted copy resumes where it stopped, and every file is verified.

    To a volume: berth cp ./data digits:raw. From a job: berth cp train:model ./. All artifacts: berth cp train: ./
    The checkpoint directory of a job, also while it runs: berth cp train:checkpoint/ ./kept
    """
    remote_source, remote_dest = split_remote(source), split_remote(dest)
    if remote_source and remote_dest:
        raise UsageMistake(_("One side of a copy must be on this computer."), hint=_("Copy to this computer first, then upload."))
    if remote_dest:
        _send(session, Path(source).expanduser(), *remote_dest)
    elif remote_source:
        _fetch(session, *remote_source, Path(dest).expanduser(), dest, list_=list_, kind=kind)
    else:
        raise UsageMistake(
            _("Neither argument names a job or a volume."), hint="berth cp JOB:model ./   ·   berth cp ./data VOLUME:path"
        )


def split_remote(text: str) -> tuple[str, str] | None:
    """`name:path` as its parts; None for a local path (one with a slash before the colon, or no colon)."""
    name, colon, path = text.partition(":")
    if not colon or "/" in name or name in ("", ".", "..") or (len(name) == 1 and path.startswith("\\")):
        return None
    return name, as_written(path)


def _send(session: Session, source: Path, volume: str, path: str) -> None:
    volumes = session.client.volumes
    owner = volumes.get(volume)
    files = [(local, remote, _size_of(local)) for local, remote in _local_files(source, path)]
    total = sum(size for _local, _remote, size in files)
    done = 0
    with Progressing(_("To {volume}", volume=plain(volume)), total=total) as progress:
        for local, remote, size in files:
            volumes.upload(owner["id"], local, remote, progress=progress.from_(done))
            done += size
    session.show_done(
        {"volume": volume, "files": [remote for _local, remote, _size in files], "size_bytes": total},
        _(
            "On volume {volume}: {files}, {size}.",
            volume=plain(volume),
            files=files_text(len(files)),
            size=formats.size_text(total),
        ),
        key="volume",
    )
    hint(_("In a job file: mounts: [{{volume: {volume}, path: /data}}]", volume=plain(volume)))


def _size_of(path: Path) -> int:
    try:
        return path.stat().st_size
    except OSError as error:
        raise FileRefused(_("{path} cannot be read: {reason}", path=path, reason=error.strerror or "")) from error


def _local_files(source: Path, path: str) -> Iterator[tuple[Path, str]]:
    """Files to send with their place on the volume, by the rules of `cp -r`. Links and special files are refused by name."""
    base = path.strip("/")
    if source.is_file():
        target = f"{path.lstrip('/')}{text_of(source.name)}" if not base or path.endswith("/") else base
        yield source, target
        return
    if not source.is_dir():
        raise FileRefused(_("{path} does not exist.", path=source))
    for found in sorted(source.rglob("*")):
        if found.is_symlink() or not (found.is_file() or found.is_dir()):
            raise FileRefused(_("{path} is a link or a special file; volumes store only plain files.", path=found))
        if found.is_file():
            yield found, "/".join(part for part in (base, text_of(found.relative_to(source).as_posix())) if part)


def _fetch(session: Session, name: str, path: str, dest: Path, dest_text: str, *, list_: bool, kind: str | None) -> None:
    job_id = "" if kind == "volume" else _job_id(session, name)
    if not job_id:
        _fetch_from_volume(session, name, path, dest, dest_text, list_=list_)
        return
    jobs = session.client.jobs
    inner = _in_checkpoint(path)
    if inner is not None and jobs.checkpoint(job_id) is not None:
        _fetch_checkpoint(session, name, job_id, inner, dest, dest_text, list_=list_)
        return
    chosen = choose_artifacts(jobs.artifacts(job_id, patient=True), path)
    _say_left_behind(session, job_id)
    if list_:
        session.show(chosen, ARTIFACT_COLUMNS, empty=_("The job has no artifacts; name them with `outputs:`."), key="path")
        return
    if not chosen:
        raise NotFound(
            _("Job {name} has no artifact {path!r}.", name=name, path=path), hint=f"berth cp {name}: --list", status=404
        )
    target = Path(f"{dest}/") if dest_text.endswith("/") else dest
    if dest_text.endswith("/"):
        _make_folder(target)
    placed = place_artifacts(chosen, path, target)
    total, done = sum(artifact["size_bytes"] for artifact in chosen), 0
    with Progressing(_("From {name}", name=plain(name)), total=total) as progress:
        for artifact, place in placed:
            jobs.download_one(job_id, artifact, place, progress=progress.from_(done))
            done += artifact["size_bytes"]
    _say_fetched(session, [place for _artifact, place in placed], total)


def _make_folder(folder: Path) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise FileRefused(_("{path} cannot be written: {reason}", path=folder, reason=error.strerror or "")) from error


def _in_checkpoint(path: str) -> str | None:
    """The path below the checkpoint directory that `checkpoint/...` names; None for a path of an artifact."""
    first, _slash, rest = path.strip("/").partition("/")
    return rest if first == "checkpoint" else None


def _fetch_checkpoint(session: Session, name: str, job_id: str, path: str, dest: Path, dest_text: str, *, list_: bool) -> None:
    jobs = session.client.jobs
    if list_:
        session.show(jobs.checkpoint_files(job_id, path), FILE_COLUMNS, empty=_("No files."), key="path")
        return
    skipped: list[dict[str, Any]] = []
    found = list(jobs.checkpoint_tree(job_id, path, skipped=skipped))
    if not found and skipped:
        _say_fetched(session, [], 0, skipped)
    if not found:
        raise NotFound(
            _("The checkpoint of job {name} has no file {path!r}.", name=name, path=path),
            hint=f"berth cp {name}:checkpoint/ --list",
            status=404,
        )
    is_file = len(found) == 1 and found[0][1]["path"] == path.strip("/")
    into_folder = not is_file or dest.is_dir() or dest_text.endswith("/")
    total, done = sum(entry["size_bytes"] for _relative, entry in found), 0
    placed = []
    with Progressing(_("From {name}", name=plain(name)), total=total) as progress:
        for relative, entry in found:
            place = inside(dest, relative) if into_folder else dest
            jobs.download_checkpoint_file(job_id, entry, place, progress=progress.from_(done))
            done += entry["size_bytes"]
            placed.append(place)
    _say_fetched(session, placed, total, skipped)


def _fetch_from_volume(session: Session, volume: str, path: str, dest: Path, dest_text: str, *, list_: bool) -> None:
    volumes = session.client.volumes
    owner = volumes.get(volume)
    if list_:
        session.show(volumes.files(owner["id"], path), FILE_COLUMNS, empty=_("No files."), key="path")
        return
    skipped: list[dict[str, Any]] = []
    into = dest.is_dir() or dest_text.endswith("/")
    files = list(_remote_files(session, owner["id"], path.strip("/"), into=into, skipped=skipped))
    if not files and skipped:
        _say_fetched(session, [], 0, skipped)
    if not files:
        raise NotFound(
            _("Volume {name} has no file {path!r}.", name=volume, path=path), hint=f"berth cp {volume}: --list", status=404
        )
    total, done = sum(size for _path, _relative, size in files), 0
    placed = []
    with Progressing(_("From {name}", name=plain(volume)), total=total) as progress:
        for remote, relative, size in files:
            place = inside(dest, relative) if relative else dest
            volumes.download(owner["id"], remote, place, size_bytes=size, progress=progress.from_(done))
            done += size
            placed.append(place)
    _say_fetched(session, placed, total, skipped)


def _remote_files(
    session: Session, volume_id: str, path: str, *, into: bool, skipped: list[dict[str, Any]]
) -> Iterator[tuple[str, str, int]]:
    """(path, path below the target, size) of a file, or of all files below a folder. `into`: the target keeps the name.
    `skipped` gets the entries of links and special files."""
    parent, _slash, last = path.rpartition("/")
    entries = session.client.volumes.files(volume_id, parent) if path else []
    for entry in entries:
        if file_name(entry) == last and not _is_folder(entry):
            if entry["kind"] == "file":
                yield path, last if into else "", int(entry["size_bytes"])
            else:
                skipped.append(entry)
            return
    folders = [(path, last if path and into else "")]
    while folders:
        folder, below = folders.pop()
        for entry in session.client.volumes.files(volume_id, folder):
            name = file_name(entry)
            remote, relative = "/".join(filter(None, (folder, name))), "/".join(filter(None, (below, name)))
            if _is_folder(entry):
                folders.append((remote, relative))
            elif entry["kind"] == "file":
                yield remote, relative, int(entry["size_bytes"])
            else:
                skipped.append(entry)


def file_name(entry: dict[str, Any]) -> str:
    """The last part of a listed entry's name."""
    return str(entry["path"]).rstrip("/").rpartition("/")[2]


def _is_folder(entry: dict[str, Any]) -> bool:
    return bool(entry["kind"] == "directory")


def _job_id(session: Session, name: str) -> str:
    """The job of that name, or nothing when only a volume may be meant."""
    try:
        return session.client.jobs.resolve(name)
    except NotFound:
        names = {volume.get("name") for volume in session.client.volumes.list()}
        if name in names:
            return ""
        raise


def files_text(count: int) -> str:
    """`1 file`, `2 files`."""
    return _("1 file") if count == 1 else _("{count} files", count=count)


def _say_fetched(session: Session, places: list[Path], total: int, skipped: Sequence[dict[str, Any]] = ()) -> None:
    """What is here now, and what is not: with something missing it ends with status 1."""
    where = text_of(str(places[0])) if len(places) == 1 else files_text(len(places))
    names = [str(entry["path"]) for entry in skipped]
    done = {"files": [text_of(str(place)) for place in places], "size_bytes": total, "not_copied": names}
    session.show_done(done, f"{where} ({formats.size_text(total)})", key="files")
    for entry in skipped[:SKIPPED_SHOWN]:
        kind = _("a link") if entry["kind"] == "link" else _("a special file")
        note(_("Not copied: {path} ({kind})", path=plain(entry["path"]), kind=kind), style="yellow")
    if len(skipped) > SKIPPED_SHOWN:
        note(_("… and {count} more.", count=len(skipped) - SKIPPED_SHOWN), style="yellow")
    if skipped:
        note(_("Links and special files are not copied; {count} were skipped.", count=len(skipped)))
        raise typer.Exit(1)


def _say_left_behind(session: Session, job_id: str) -> None:
    """What the job left and was never collected cannot be copied."""
    if left := session.client.jobs.left_behind(job_id):
        note(_("Some outputs were not kept: {what}", what=plain(left)), style="yellow")


FILE_COLUMNS = [
    Column("NAME", lambda entry: plain(file_name(entry)) + ("/" if _is_folder(entry) else ""), shrinks=True),
    Column(
        "SIZE", lambda entry: formats.NOTHING if _is_folder(entry) else formats.size_text(entry.get("size_bytes")), right=True
    ),
    Column("CHANGED", lambda entry: formats.time_text(entry.get("modified_at"))),
]
