"""A real registry (Debian's docker-registry) on the loopback, and container images made here and pushed by skopeo.

No image comes from elsewhere: layers are tar archives of what a test says, the shell in them is Debian's static busybox.
"""

from __future__ import annotations

import contextlib
import ctypes
import gzip
import hashlib
import io
import json
import os
import socket
import subprocess
import tarfile
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

BUSYBOX = Path("/bin/busybox")
PASSWORD = "pull-canary-4711"
USER = "puller"
_START_SECONDS = 20.0


@dataclass(frozen=True, slots=True)
class Member:
    """One entry of a layer. `kind` is a type of `tarfile`; content makes a file."""

    name: str
    content: bytes = b""
    mode: int = 0o644
    kind: bytes = tarfile.REGTYPE
    link: str = ""
    uid: int = 0
    device: tuple[int, int] = (0, 0)


def folder(name: str, mode: int = 0o755) -> Member:
    return Member(name, mode=mode, kind=tarfile.DIRTYPE)


def symlink(name: str, target: str) -> Member:
    return Member(name, mode=0o777, kind=tarfile.SYMTYPE, link=target)


def hard_link(name: str, target: str) -> Member:
    return Member(name, kind=tarfile.LNKTYPE, link=target)


def shell() -> list[Member]:
    """A system with nothing but busybox."""
    names = """
        sh cat echo env id ls mkdir mount sleep touch true false dd base64 mkfifo wc tar ln kill hostname printf grep test rm head
        stty tty tr ps unshare nsenter chroot
    """
    return [
        folder("bin"),
        Member("bin/busybox", BUSYBOX.read_bytes(), 0o755),
        *(symlink(f"bin/{name}", "busybox") for name in names.split()),
        folder("tmp", 0o1777),
    ]


def tar(members: Sequence[Member]) -> bytes:
    plain = io.BytesIO()
    with tarfile.open(fileobj=plain, mode="w", format=tarfile.PAX_FORMAT) as archive:
        for member in members:
            info = tarfile.TarInfo(member.name)
            info.size, info.mode, info.type, info.linkname = len(member.content), member.mode, member.kind, member.link
            info.uid = info.gid = member.uid
            info.devmajor, info.devminor = member.device
            archive.addfile(info, io.BytesIO(member.content))
    return plain.getvalue()


def zstd(content: bytes) -> bytes:
    """Compressed by the system's libzstd."""
    library = ctypes.CDLL("libzstd.so.1")
    library.ZSTD_compressBound.restype = library.ZSTD_compress.restype = ctypes.c_size_t
    room = ctypes.c_size_t(library.ZSTD_compressBound(ctypes.c_size_t(len(content))))
    made = ctypes.create_string_buffer(room.value)
    count = library.ZSTD_compress(made, room, content, ctypes.c_size_t(len(content)), 3)
    return made.raw[:count]


def layout(
    place: Path,
    layers: Sequence[Sequence[Member] | bytes],
    *,
    env: Sequence[str] = ("PATH=/bin",),
    labels: Mapping[str, str] | None = None,
    architecture: str = "amd64",
    compression: str = "gzip",
    **config: Any,
) -> Path:
    """An OCI layout with one image, as `skopeo copy oci:...` takes it. A layer is its members, or the bytes of a tar archive,
    compressed by gzip or zstd."""
    blobs = place / "blobs" / "sha256"
    blobs.mkdir(parents=True)

    def put(content: bytes) -> dict[str, Any]:
        digest = hashlib.sha256(content).hexdigest()
        (blobs / digest).write_bytes(content)
        return {"digest": f"sha256:{digest}", "size": len(content)}

    plain = [layer if isinstance(layer, bytes) else tar(layer) for layer in layers]
    document = {
        "architecture": architecture,
        "os": "linux",
        "config": {"Env": list(env), "Labels": dict(labels or {}), **config},
        "rootfs": {"type": "layers", "diff_ids": [f"sha256:{hashlib.sha256(layer).hexdigest()}" for layer in plain]},
    }
    compress = {"gzip": lambda layer: gzip.compress(layer, 1, mtime=0), "zstd": zstd}[compression]
    manifest = {
        "schemaVersion": 2,
        "mediaType": "application/vnd.oci.image.manifest.v1+json",
        "config": {"mediaType": "application/vnd.oci.image.config.v1+json", **put(json.dumps(document).encode())},
        "layers": [
            {"mediaType": f"application/vnd.oci.image.layer.v1.tar+{compression}", **put(compress(layer))} for layer in plain
        ],
    }
    entry = {"mediaType": manifest["mediaType"], **put(json.dumps(manifest).encode())}
    index = {"schemaVersion": 2, "manifests": [{**entry, "annotations": {"org.opencontainers.image.ref.name": "image"}}]}
    (place / "index.json").write_text(json.dumps(index))
    (place / "oci-layout").write_text('{"imageLayoutVersion": "1.0.0"}')
    return place


@dataclass
class RealRegistry:
    """A registry that runs. `password` empty: it wants no account."""

    host: str
    folder: Path
    process: subprocess.Popen[bytes]
    password: str = field(default="", repr=False)

    def push(self, name: str, layers: Sequence[Sequence[Member] | bytes], **config: Any) -> str:
        """Push an image as `name` (`repository:tag`); its digest."""
        with tempfile.TemporaryDirectory(prefix="berth-image-") as made:
            layout(Path(made) / "image", layers, **config)
            said = Path(made) / "digest"
            command = ["skopeo", "copy", "--quiet", "--insecure-policy", "--dest-tls-verify=false", "--preserve-digests"]
            command += ["--digestfile", str(said), *(["--dest-creds", f"{USER}:{self.password}"] if self.password else [])]
            command += [f"oci:{made}/image:image", f"docker://{self.host}/{name}"]
            subprocess.run(command, check=True, capture_output=True, timeout=60, env={**os.environ, "HOME": made})
            return said.read_text().strip()

    def change_password(self, password: str) -> None:
        """The registry takes this one, and no earlier one, from its next request on."""
        self.password = password
        (self.folder / "htpasswd").write_text(f"{USER}:{_bcrypt(password)}\n")

    def stop(self) -> None:
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()

    def start(self) -> None:
        """Start once more, at the same place, with what it holds."""
        self.stop()
        self.process = _start(self.folder, self.host)


@contextlib.contextmanager
def registry(*, password: str = "", auth: Mapping[str, Any] | None = None, address: str = "127.0.0.1") -> Iterator[RealRegistry]:
    """A registry for the block. `auth` is that part of its configuration; with a password it is one account's."""
    with tempfile.TemporaryDirectory(prefix="berth-registry-") as made:
        place, host = Path(made), f"{address}:{_free_port(address)}"
        document: dict[str, Any] = {
            "version": "0.1",
            "log": {"level": "warn"},
            "storage": {"filesystem": {"rootdirectory": str(place / "data")}, "delete": {"enabled": True}},
            "http": {"addr": host},
        }
        if password:
            (place / "htpasswd").write_text(f"{USER}:{_bcrypt(password)}\n")
            auth = {"htpasswd": {"realm": "test", "path": str(place / "htpasswd")}}
        if auth is not None:
            document["auth"] = dict(auth)
        (place / "config.yml").write_text(json.dumps(document))  # JSON is YAML.
        found = RealRegistry(host, place, _start(place, host), password)
        try:
            yield found
        finally:
            found.stop()


def _start(place: Path, host: str) -> subprocess.Popen[bytes]:
    with open(place / "log", "ab") as log:
        process = subprocess.Popen(
            ["docker-registry", "serve", str(place / "config.yml")], stdout=log, stderr=log, start_new_session=True
        )
    deadline = time.monotonic() + _START_SECONDS
    while time.monotonic() < deadline and process.poll() is None:
        try:
            urllib.request.urlopen(f"http://{host}/v2/", timeout=1).close()
            return process
        except urllib.error.HTTPError as error:
            error.close()
            return process  # It wants an account.
        except OSError:
            time.sleep(0.02)
    process.kill()
    process.wait()
    raise RuntimeError(f"the registry does not start: {(place / 'log').read_text()[-2000:]}")


def _free_port(address: str) -> int:
    with socket.socket() as probe:
        probe.bind((address, 0))
        port: int = probe.getsockname()[1]
        return port


def _bcrypt(password: str) -> str:
    """By the C library's crypt: the registry takes no other kind of hash."""
    library = ctypes.CDLL("libcrypt.so.1")
    library.crypt.restype = ctypes.c_char_p
    found: bytes = library.crypt(password.encode(), b"$2y$05$" + b"abcdefghijklmnopqrstuu")
    return found.decode()
