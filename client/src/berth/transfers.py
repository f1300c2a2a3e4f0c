"""Files up and down in pieces, taking up where the line broke, checked by SHA-256 at the end.

Nothing half-arrived is ever put in place: a download grows as `NAME.part` and is renamed when its digest is right; an
upload becomes visible on the server when its last piece has arrived and the digest is right there."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
from collections.abc import Callable
from dataclasses import dataclass, replace
from io import BufferedRandom
from pathlib import Path, PurePosixPath
from typing import Any, BinaryIO
from urllib.parse import quote

import httpx2

from berth import limits
from berth.errors import ApiError, ChecksumMismatch, FileRefused, NotFound
from berth.file_names import path_of, text_of
from berth.transport import Call, Transport, backoff_seconds, post

Progress = Callable[[int], None]
"""Called with the bytes that are there so far, counted from the start of the file."""


@dataclass(frozen=True, slots=True)
class UploadMemory:
    """Remembers unfinished uploads between runs, so that the same command takes up where it stopped."""

    folder: Path | None

    def find(self, key: str) -> str:
        if self.folder is None:
            return ""
        try:
            return str(json.loads((self.folder / key).read_text(encoding="utf-8"))["id"])
        except (OSError, ValueError, KeyError, TypeError):
            return ""

    def keep(self, key: str, upload_id: str) -> None:
        if self.folder is not None:
            with contextlib.suppress(OSError):
                self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
                (self.folder / key).write_text(json.dumps({"id": upload_id}), encoding="utf-8")

    def forget(self, key: str) -> None:
        if self.folder is not None:
            with contextlib.suppress(OSError):
                (self.folder / key).unlink()


def upload_memory() -> UploadMemory:
    """The memory under `$XDG_CACHE_HOME/berth/uploads`."""
    base = os.environ.get("XDG_CACHE_HOME") or "~/.cache"
    return UploadMemory(Path(base).expanduser() / "berth" / "uploads")


def upload(
    transport: Transport,
    file: BinaryIO,
    *,
    tenant: str,
    target: dict[str, Any],
    size_bytes: int,
    sha256: str,
    progress: Progress | None = None,
    memory: UploadMemory | None = None,
) -> dict[str, Any]:
    """Send an open file; gives the upload's last state. What the server has already is not sent again."""
    memory = memory or UploadMemory(None)
    key = _memory_key(transport.settings.server, tenant, target, sha256)
    state = _resumed(transport, memory.find(key)) or transport.json(
        post("/uploads", {"tenant": tenant or None, "target": target, "size_bytes": size_bytes, "sha256": sha256})
    )
    if state.get("complete"):
        if progress:
            progress(size_bytes)
        memory.forget(key)
        return dict(state)
    memory.keep(key, state["id"])
    try:
        state = _send_pieces(transport, file, state, size_bytes, progress)
    except ApiError:
        memory.forget(key)  # Refused for good: the next try begins anew.
        raise
    memory.forget(key)
    return state


def upload_file(
    transport: Transport, path: Path, *, tenant: str, target: dict[str, Any], progress: Progress | None = None
) -> dict[str, Any]:
    """Send one file of the disk, remembering the upload until it is complete."""
    try:
        file = path.open("rb")
    except OSError as error:
        raise FileRefused(f"{path} cannot be read: {error.strerror}.") from error
    with file:
        size_bytes = os.fstat(file.fileno()).st_size
        digest = hashlib.file_digest(file, "sha256").hexdigest()
        return upload(
            transport,
            file,
            tenant=tenant,
            target=target,
            size_bytes=size_bytes,
            sha256=digest,
            progress=progress,
            memory=upload_memory(),
        )


def download(
    transport: Transport,
    call: Call,
    dest: Path,
    *,
    sha256: str = "",
    size_bytes: int | None = None,
    progress: Progress | None = None,
) -> Path:
    """Fetch one file to `dest`, checking size and digest where known.

    With a digest, a `.part` file that an earlier run left is taken up; without one nothing says that it belongs.
    """
    partial = dest.with_name(dest.name + ".part")
    try:
        if partial.is_symlink():
            raise FileRefused(
                f"{partial} is a link; a download does not write through it.", hint="Remove it, or choose another folder."
            )
        if dest.is_dir():
            raise FileRefused(f"{dest} is a folder; the file does not replace it.", hint="Remove it, or choose another folder.")
        dest.parent.mkdir(parents=True, exist_ok=True)
        with partial.open("a+b") as file:
            if not sha256:
                file.truncate(0)
            _fetch_all(transport, call, file, size_bytes, progress)
            found = _digest_of(file)
    except OSError as error:
        raise FileRefused(f"{dest} cannot be written: {error.strerror}.") from error
    if sha256 and found != sha256.removeprefix("sha256:"):
        partial.unlink(missing_ok=True)
        raise ChecksumMismatch(
            f"{dest.name} arrived with another SHA-256 than the manifest says; it was thrown away.", hint="Try again."
        )
    try:
        os.replace(partial, dest)
    except OSError as error:
        raise FileRefused(f"{dest} cannot be written: {error.strerror}.") from error
    return dest


def inside(folder: Path, relative: str) -> Path:
    """The place of a server-named file below `folder`; a name that leads out of it is refused, a link on the way too."""
    try:
        path = path_of(relative)
    except ValueError:
        path = ""
    pure = PurePosixPath(path)
    is_misread = text_of(path) != relative or (os.sep == "\\" and "\\" in path)
    if not pure.parts or pure.is_absolute() or ".." in pure.parts or is_misread or "\0" in path:
        raise FileRefused(f"The server names a file {relative!r}, which leads out of the target folder.")
    place = folder
    for part in pure.parts:
        place = place / part
        if _is_link(place):
            raise FileRefused(f"{place} is a link; a download does not write through it.", hint="Choose another folder.")
    return place


def _is_link(place: Path) -> bool:
    try:
        return place.is_symlink()
    except OSError as error:
        raise FileRefused(f"{place} cannot be written: {error.strerror}.") from error


def quote_path(path: str) -> str:
    """A file path as part of a URL, its slashes kept."""
    return quote(path, safe="/")


def _resumed(transport: Transport, upload_id: str) -> dict[str, Any] | None:
    """The state of an upload begun earlier; None when the server no longer has it."""
    if not upload_id:
        return None
    try:
        return dict(transport.json(Call("GET", f"/uploads/{upload_id}")))
    except NotFound:
        return None


def _send_pieces(
    transport: Transport, file: BinaryIO, state: dict[str, Any], size_bytes: int, progress: Progress | None
) -> dict[str, Any]:
    """Send from the offset that the server has; after a break ask for it, and give up only when nothing moves at all."""
    path = f"/uploads/{state['id']}"
    piece_bytes = int(state.get("chunk_bytes_max") or limits.UPLOAD_CHUNK_BYTES)
    offset = int(state.get("offset_bytes") or 0)
    stuck = 0
    while offset < size_bytes and not state.get("complete"):
        if progress:
            progress(offset)
        file.seek(offset)
        try:
            state = {**state, **_send_piece(transport, path, offset, _piece(file, min(piece_bytes, size_bytes - offset)))}
        except (httpx2.TransportError, ApiError) as error:
            stuck = _stuck(transport, error, stuck)
            state = {**state, **transport.json(Call("GET", path))}
        reached = int(state.get("offset_bytes") or 0)
        stuck, offset = (0 if reached > offset else stuck), reached
    if progress:
        progress(size_bytes)
    return state


def _piece(file: BinaryIO, size_bytes: int) -> bytes:
    """The next bytes, never more than were announced: what a writer appended meanwhile is not part of this upload."""
    try:
        data = file.read(size_bytes)
    except OSError as error:
        raise FileRefused(f"{file.name} cannot be read: {error.strerror}.") from error
    if not data:
        raise FileRefused(f"{file.name} became shorter while it was sent.", hint="Send it again when nothing writes to it.")
    return data


def _send_piece(transport: Transport, path: str, offset: int, data: bytes) -> dict[str, Any]:
    headers = {"Content-Type": "application/offset+octet-stream", "Upload-Offset": str(offset)}
    call = Call("PATCH", path, content=data, headers=headers, repeatable=False)
    with transport.stream(call) as response:
        body = response.read()
        reply = transport.reply(response, body)
    answer = reply.json() if reply.body else {}
    header = response.headers.get("upload-offset")
    return {"offset_bytes": int(header) if header else offset + len(data), **(answer or {})}


def _stuck(transport: Transport, error: Exception, stuck: int) -> int:
    """Count one more break without progress and wait; raise what cannot be mended by asking again."""
    if isinstance(error, ApiError) and error.status not in (409, 416, 429, 502, 503, 504):
        raise error
    if stuck + 1 >= limits.TRANSFER_TRIES:
        if isinstance(error, ApiError):
            raise error
        raise transport.unreachable(error) from error
    transport.sleep(backoff_seconds(stuck + 1))
    return stuck + 1


def _fetch_all(transport: Transport, call: Call, file: BufferedRandom, size_bytes: int | None, progress: Progress | None) -> None:
    """Ask for the rest until it is there; give up when several tries in a row gain nothing."""
    stuck = 0
    version = _Version()
    while True:
        have = file.seek(0, os.SEEK_END)
        if size_bytes is not None and have > size_bytes:
            have = file.truncate(0)
        if have and have == size_bytes:
            return
        try:
            _fetch_rest(transport, call, file, have, version, size_bytes, progress)
        except (httpx2.TransportError, ApiError) as error:
            if _refused_range(error):
                file.truncate(0)
            gained = file.seek(0, os.SEEK_END) > have
            stuck = _stuck(transport, error, 0 if gained else stuck)
            continue
        found = file.seek(0, os.SEEK_END)
        if size_bytes is None or found == size_bytes:
            return
        if found <= have or found > size_bytes:
            raise ChecksumMismatch(f"{call.path} has {found:,} bytes; the manifest says {size_bytes:,}.", hint="Try again.")


@dataclass(slots=True)
class _Version:
    """The validator of the file that the first bytes belong to; the rest must be of the same."""

    validator: str = ""


def _fetch_rest(
    transport: Transport,
    call: Call,
    file: BufferedRandom,
    have: int,
    version: _Version,
    size_bytes: int | None,
    progress: Progress | None,
) -> None:
    """One try from byte `have` on. An answer without a range starts the file anew; nothing is read beyond `size_bytes`."""
    headers = {"Accept": "*/*", "Accept-Encoding": "identity"}
    if have:
        headers |= {"Range": f"bytes={have}-", **({"If-Range": version.validator} if version.validator else {})}
    with transport.accepted_stream(replace(call, headers=headers)) as response:
        version.validator = str(response.headers.get("etag", ""))
        if response.status_code != 206:
            have = file.truncate(0)
        for data in response.iter_bytes():
            file.write(data)
            have += len(data)
            if size_bytes is not None and have > size_bytes:
                return
            if progress:
                progress(have)


def _refused_range(error: Exception) -> bool:
    return isinstance(error, ApiError) and error.status == 416


def _digest_of(file: BufferedRandom) -> str:
    file.flush()
    file.seek(0)
    return hashlib.file_digest(file, "sha256").hexdigest()


def _memory_key(server: str, tenant: str, target: dict[str, Any], sha256: str) -> str:
    return hashlib.sha256(json.dumps([server, tenant, target, sha256], sort_keys=True).encode()).hexdigest()
