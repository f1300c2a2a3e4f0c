"""Images for nodes without a registry: OCI archives of one layer, made from programs of this machine, without Docker.

    make_shell_image(archive)       # busybox: a shell and some hundred commands
    make_python_image(archive)      # the same, and this machine's own Python without its packages
    make_git_image(archive)         # the first, and this machine's own Git with what speaks https
    make_image(archive, "berth.test/mine:1", layer, command=["/mine"])

They are named in `berth.test`, which no resolver knows: a node that has not got one cannot fetch it by mistake.
"""

from __future__ import annotations

import hashlib
import io
import json
import os
import platform
import re
import subprocess
import tarfile
from collections.abc import Mapping, Sequence
from pathlib import Path

from tools.progress import Stop

SHELL_IMAGE = "berth.test/shell:1"
PYTHON_IMAGE = "berth.test/python:1"
GIT_IMAGE = "berth.test/git:1"
PAUSE_IMAGE = "berth.test/pause:1"  # What holds the namespaces of a pod.
USER = 10_001  # Of pods under restricted Pod Security, which must not be root.
BUSYBOX = Path("/bin/busybox")
PATH = "/usr/local/bin:/usr/bin:/bin"
ARCHITECTURES = {"x86_64": "amd64", "aarch64": "arm64"}
PASSWD = f"root:x:0:0:root:/root:/bin/sh\njob:x:{USER}:{USER}:job:/tmp:/bin/sh\n"
NOT_NEEDED = {
    "test",
    "idlelib",
    "tkinter",
    "turtledemo",
    "ensurepip",
    "lib2to3",
    "__pycache__",
}  # Two thirds of Python's library.
MEDIA_TYPE = "application/vnd.oci.image"


class Layer:
    """Files of an image, all of them root's and without a date, so that the same files give the same digest."""

    def __init__(self) -> None:
        self._buffer = io.BytesIO()
        self._tar = tarfile.TarFile(fileobj=self._buffer, mode="w")
        self._folders: set[str] = set()

    def add_folder(self, path: str, mode: int = 0o755) -> None:
        """With those above it; `path` begins with /."""
        name = path.strip("/")
        if not name or name in self._folders:
            return
        self.add_folder(os.path.dirname(f"/{name}"))
        self._folders.add(name)
        self._add(name, tarfile.DIRTYPE, mode)

    def add_bytes(self, path: str, content: bytes, mode: int = 0o644) -> None:
        self.add_folder(os.path.dirname(path))
        self._add(path.strip("/"), tarfile.REGTYPE, mode, content=content)

    def add_link(self, path: str, target: str) -> None:
        self.add_folder(os.path.dirname(path))
        self._add(path.strip("/"), tarfile.SYMTYPE, 0o777, target=target)

    def add_file(self, path: str, source: Path) -> None:
        """A copy of this machine's file."""
        self.add_bytes(path, source.read_bytes(), 0o755 if os.access(source, os.X_OK) else 0o644)

    def content(self) -> bytes:
        """The finished tar; nothing can be added afterwards."""
        self._tar.close()
        return self._buffer.getvalue()

    def _add(self, name: str, kind: bytes, mode: int, *, content: bytes = b"", target: str = "") -> None:
        entry = tarfile.TarInfo(name)
        entry.type, entry.mode, entry.size, entry.linkname = kind, mode, len(content), target
        self._tar.addfile(entry, io.BytesIO(content))


def make_image(
    archive: Path, name: str, layer: Layer, *, command: Sequence[str] = ("/bin/sh",),
    environment: Mapping[str, str] | None = None, labels: Mapping[str, str] | None = None,
) -> str:  # fmt: skip
    """Write an archive that `ctr images import` and `skopeo` read; the digest of its manifest."""
    content = layer.content()
    building = archive.with_name(f"{archive.name}.building")
    with tarfile.open(building, "w") as tar:
        layer_blob = _add_blob(tar, "layer.v1.tar", content)
        config = {
            "architecture": ARCHITECTURES[platform.machine()],
            "os": "linux",
            "rootfs": {"type": "layers", "diff_ids": [layer_blob["digest"]]},
            "config": {
                "Env": [f"{key}={value}" for key, value in {"PATH": PATH, **(environment or {})}.items()],
                "Cmd": list(command),
                "Labels": dict(labels or {}),
            },
        }
        manifest = {
            "schemaVersion": 2,
            "mediaType": f"{MEDIA_TYPE}.manifest.v1+json",
            "config": _add_blob(tar, "config.v1+json", json.dumps(config).encode()),
            "layers": [layer_blob],
        }
        manifest_blob = _add_blob(tar, "manifest.v1+json", json.dumps(manifest).encode())
        tag = name.rpartition(":")[2]
        annotations = {"io.containerd.image.name": name, "org.opencontainers.image.ref.name": tag}
        index = {"schemaVersion": 2, "manifests": [{**manifest_blob, "annotations": annotations}]}
        _add_member(tar, "oci-layout", b'{"imageLayoutVersion": "1.0.0"}')
        _add_member(tar, "index.json", json.dumps(index).encode())
    building.replace(archive)
    return str(manifest_blob["digest"])


def make_pause_image(archive: Path) -> None:
    """A process that sleeps: containerd ends it by SIGKILL, so it need not listen."""
    layer = Layer()
    layer.add_file("/bin/busybox", _busybox())
    make_image(archive, PAUSE_IMAGE, layer, command=["/bin/busybox", "sleep", "2147483647"])


def make_shell_image(archive: Path) -> None:
    make_image(archive, SHELL_IMAGE, _shell_layer())


def make_python_image(archive: Path) -> None:
    layer = _shell_layer()
    _add_python(layer)
    make_image(archive, PYTHON_IMAGE, layer)


def make_git_image(archive: Path) -> None:
    programs = {Path("/usr/bin/git"), Path("/usr/lib/git-core/git-remote-http")}
    if missing := [str(path) for path in sorted(programs) if not path.exists()]:
        raise Stop(f"an image with Git is made from Debian's, and there is no {' and no '.join(missing)}: apt-get install git")
    layer = _shell_layer()
    for path in sorted(programs | _shared_libraries(programs)):
        layer.add_file(str(path), path)
    layer.add_link("/usr/lib/git-core/git", "/usr/bin/git")
    layer.add_link("/usr/lib/git-core/git-remote-https", "git-remote-http")
    make_image(archive, GIT_IMAGE, layer)


def _shell_layer() -> Layer:
    layer = Layer()
    layer.add_file("/bin/busybox", _busybox())
    listed = subprocess.run([str(BUSYBOX), "--list"], capture_output=True, text=True, check=True)
    for command in listed.stdout.split():
        if command != "busybox":
            layer.add_link(f"/bin/{command}", "busybox")
    layer.add_link("/usr/bin/env", "/bin/busybox")
    layer.add_bytes("/etc/passwd", PASSWD.encode())
    layer.add_bytes("/etc/group", f"root:x:0:\njob:x:{USER}:\n".encode())
    layer.add_folder("/tmp", 0o1777)
    layer.add_folder("/root", 0o700)
    layer.add_folder("/proc")
    return layer


def _add_python(layer: Layer) -> None:
    """Debian's Python with its standard library and what both are linked to, at the places where it looks for them."""
    version = ".".join(platform.python_version_tuple()[:2])
    program = Path(f"/usr/bin/python{version}")
    library = Path(f"/usr/lib/python{version}")
    if not program.exists() or not library.is_dir():
        raise Stop(f"an image with Python is made from Debian's, and there is no {program}: apt-get install python{version}")
    layer.add_file(str(program), program)
    layer.add_link("/usr/bin/python3", program.name)
    layer.add_link("/usr/bin/python", program.name)
    linked = {program}
    for path in sorted(library.rglob("*")):
        if path.is_file() and not NOT_NEEDED & set(path.relative_to(library).parts):
            layer.add_file(str(path), path)
            linked |= {path} if path.suffix == ".so" else set()
    for shared in sorted(_shared_libraries(linked)):
        layer.add_file(str(shared), shared)


def _shared_libraries(programs: set[Path]) -> set[Path]:
    """What the loader would load for any of them, itself included."""
    listed = subprocess.run(["ldd", *map(str, sorted(programs))], capture_output=True, text=True, check=False)
    return {Path(path) for path in re.findall(r"(?:=> |^\s+)(/\S+)", listed.stdout, re.MULTILINE)}


def _busybox() -> Path:
    if not BUSYBOX.exists():
        raise Stop("images for nodes are made from a static busybox: apt-get install busybox-static")
    return BUSYBOX


def _add_blob(tar: tarfile.TarFile, kind: str, content: bytes) -> dict[str, object]:
    digest = hashlib.sha256(content).hexdigest()
    _add_member(tar, f"blobs/sha256/{digest}", content)
    return {"mediaType": f"{MEDIA_TYPE}.{kind}", "digest": f"sha256:{digest}", "size": len(content)}


def _add_member(tar: tarfile.TarFile, name: str, content: bytes) -> None:
    entry = tarfile.TarInfo(name)
    entry.size = len(content)
    tar.addfile(entry, io.BytesIO(content))
