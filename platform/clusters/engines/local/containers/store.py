"""The images of one local cluster: a directory by the images' digests, filled in the background, and bounded.

`trees/<name>/root` is an unpacked image and `trees/<name>/image.json` what its maker set; a tree has its name only once it is
whole. `blobs` keeps layers as they were transferred, for images that share them. Several processes share the directory: one
unpacks an image, under a lock, and all find it. An image that no attempt uses and that was used least recently goes first when
there is no room.

A tenant gets an image that another one has brought only once the registry has confirmed that it may have it. A name is a digest
and the registry that gave it: else a registry of a tenant's own could name the layers of somebody else's image, and the tenant
would be given what it never had to show.
"""

from __future__ import annotations

import contextlib
import fcntl
import gzip
import hashlib
import json
import logging
import os
import shutil
import stat
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from clusters.engines.interface import ImageRef
from clusters.engines.local.containers import zstd
from clusters.engines.local.containers.layers import Budget, Readable, Root
from clusters.engines.local.containers.paths import within
from clusters.engines.local.launching import beneath
from clusters.registries.errors import ImageUnusable, RegistryError
from clusters.registries.manifests import Layer, Manifest
from clusters.registries.references import Reference, parse
from clusters.registries.rules import Account, Rules
from kernel.words import Text

if TYPE_CHECKING:
    from clusters.registries.client import Registry

MANIFEST_SECONDS = 60.0
LAYER_SECONDS = 3_600.0  # A large layer over a slow line; the time for starting stands still meanwhile.
IMAGE_SECONDS = 3 * 3_600.0  # To fetch and unpack one: the largest takes one of them, on a slow line and a slow disk.
PATIENCE_SECONDS = 1.0  # How long a start waits for an image that comes quickly, before it says that it is being pulled.
PULLS_MAX = 4  # At once in one process: more only share the line and the disk.
PULLS_PER_TENANT = 2  # Half: a registry of one tenant's that gives a byte now and then keeps nobody else's images away.
PULLS_KEPT = 1_000  # Remembered, for who asks again.
FAILED_SECONDS = 10.0  # How long a registry that did not answer is not asked again.
KEPT_SECONDS = 900.0  # A tree that was asked for so recently is about to be used.
_TREES, _BLOBS, _WORK, _LOCKS = "trees", "blobs", "work", "locks"
MOUNT_POINTS = ("proc", "sys", "dev", "tmp", "run", "etc", "var", "var/tmp", "berth", "berth/work", "berth/home", "berth/files",
                "berth/checkpoint")  # fmt: skip
MOUNT_FILES = ("etc/resolv.conf", "etc/hosts", "etc/hostname")
OWN_FILES = ("etc/passwd", "etc/group")  # Shown with a line more: what the image has there stays.
PLAIN_LAYERS = frozenset(
    {"application/vnd.oci.image.layer.v1.tar", "application/vnd.docker.image.rootfs.diff.tar"}
    | {"application/vnd.oci.image.layer.nondistributable.v1.tar"}
)
GZIP_LAYERS = frozenset({f"{kind}+gzip" for kind in PLAIN_LAYERS} | {f"{kind}.gzip" for kind in PLAIN_LAYERS})
ZSTD_LAYERS = frozenset({f"{kind}+zstd" for kind in PLAIN_LAYERS} | {f"{kind}.zstd" for kind in PLAIN_LAYERS})

logger = logging.getLogger("berth.engines.local")


@dataclass(frozen=True, slots=True)
class ReadyImage:
    """An image that is there: its tree, and the variables that its maker set."""

    digest: str
    root: str
    env: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class NotReady:
    """It is not there. `code` is an entry of the exit classification; `passes`: asking again may find it."""

    code: str
    detail: str
    passes: bool
    is_pulling: bool = False  # It comes, or has its turn soon; nothing has failed.


@dataclass(frozen=True, slots=True)
class Bounds:
    """Of one image, unpacked, and of the whole directory."""

    image_bytes: int
    store_bytes: int


class ImageStore:
    """Threads and processes may share the directory."""

    def __init__(
        self, place: str, *, rules: Rules, bounds: Bounds, in_use: Callable[[], frozenset[str]], are_checked: bool = True
    ) -> None:
        """`in_use` gives the digests that attempts of this host run in. `are_checked` False: that an image is not called
        unchecked means nothing, because operators have turned the check off."""
        self._place, self._rules, self._bounds, self._in_use = place, rules, bounds, in_use
        self._are_checked = are_checked
        self._lock = threading.Lock()
        self._turns = threading.BoundedSemaphore(PULLS_MAX)
        self._turns_of_tenants = defaultdict[str, threading.Semaphore](partial(threading.BoundedSemaphore, PULLS_PER_TENANT))
        self._pulls: dict[tuple[str, str], threading.Thread] = {}
        self._failed: dict[tuple[str, str], tuple[float, NotReady]] = {}
        self._found: dict[tuple[str, str], str] = {}  # Digests of references without one, for the start that asked.

    def get(self, image: ImageRef, tenant: str, *, patient: bool = True) -> ReadyImage | NotReady:
        """Give an image if it is there and the tenant may have it; else have it pulled, and say so. Returns within a second or
        two, and at once where the caller is not `patient`."""
        key, host = (image.location, tenant), _host(image.location)
        with self._lock:
            digest = image.digest or self._found.pop(key, "")
        is_confirmed = self._are_checked and not image.unchecked
        if digest and (is_confirmed or self._is_allowed(digest, host, tenant)):
            ready = self._find(digest, host)
            if ready is not None:
                return ready
        pull = self._pull_in_background(key, image, tenant)
        pull.join(PATIENCE_SECONDS if patient else 0.0)
        with self._lock:
            failed_at, failure = self._failed.get(key, (0.0, None))
            if failure is not None and not failure.passes:
                del self._failed[key]
            digest = image.digest or self._found.pop(key, "")
        if failure is not None and (not failure.passes or time.monotonic() - failed_at < FAILED_SECONDS):
            return failure
        ready = self._find(digest, host) if digest and self._is_allowed(digest, host, tenant) else None
        pulling = f"The image {image.location} is being pulled."
        return ready or NotReady("image_pulling", pulling, passes=True, is_pulling=True)

    def digests(self) -> frozenset[str]:
        """All images that are there."""
        with contextlib.suppress(FileNotFoundError):
            return frozenset(map(_digest, os.listdir(f"{self._place}/{_TREES}")))
        return frozenset()

    def _find(self, digest: str, host: str) -> ReadyImage | None:
        tree = self._tree(digest, host)
        try:
            with open(f"{tree}/image.json", encoding="utf-8") as file:
                document = json.load(file)
            os.utime(f"{tree}/image.json")
        except FileNotFoundError:
            return None
        return ReadyImage(digest, f"{tree}/root", dict(document["env"]))

    def _tree(self, digest: str, host: str) -> str:
        return f"{self._place}/{_TREES}/{_name(digest, host)}"

    def _is_allowed(self, digest: str, host: str, tenant: str) -> bool:
        return os.path.exists(self._mark(digest, host, tenant))

    def _mark(self, digest: str, host: str, tenant: str) -> str:
        return f"{self._tree(digest, host)}/tenants/{hashlib.sha256(tenant.encode()).hexdigest()[:32]}"

    # --- Pulling -----------------------------------------------------------------------------------------------------

    def _pull_in_background(self, key: tuple[str, str], image: ImageRef, tenant: str) -> threading.Thread:
        with self._lock:
            failed_at, failure = self._failed.get(key, (0.0, None))
            running = self._pulls.get(key)
            if running is not None and running.is_alive():
                return running
            if failure is not None and time.monotonic() - failed_at < FAILED_SECONDS and running is not None:
                return running
            self._failed.pop(key, None)
            if len(self._pulls) > PULLS_KEPT:
                self._pulls = {each: pull for each, pull in self._pulls.items() if pull.is_alive()}
                self._failed.clear()
            thread = threading.Thread(target=self._pull_for, args=(key, image, tenant), name="image-pull", daemon=True)
            self._pulls[key] = thread
            thread.start()
        return thread

    def _pull_for(self, key: tuple[str, str], image: ImageRef, tenant: str) -> None:
        failure = None
        with self._lock:
            turns = self._turns_of_tenants[tenant]
        try:
            with turns, self._turns:
                digest = self._pull(image, tenant)
            with self._lock:
                if not image.digest:
                    self._found[key] = digest
        except RegistryError as error:
            failure = NotReady(error.exit_code, f"{image.location}: {error.detail}", error.passes)
        except OSError as error:
            failure = NotReady("image_unreachable", f"{image.location} cannot be unpacked: {error.strerror}.", passes=True)
        except Exception:
            logger.exception("Pulling %s failed", image.location)
            failure = NotReady("image_unreachable", f"{image.location} cannot be unpacked.", passes=True)
        if failure is not None:
            with self._lock:
                self._failed[key] = (time.monotonic(), failure)

    def _pull(self, image: ImageRef, tenant: str) -> str:
        from clusters.registries.client import Registry  # A client of HTTP, which most starts do not need.

        reference = parse(image.location)
        if reference is None:
            raise ImageUnusable(Text("This is no reference of an image.", "这不是镜像引用。"))
        if image.digest:
            reference = reference.pinned(image.digest)
        account = Account(image.pull.username, image.pull.password) if image.pull is not None else None
        self._make_places()
        with Registry(reference.host, rules=self._rules, account=account, seconds=MANIFEST_SECONDS) as registry:
            manifest = registry.find(reference)
            digest = manifest.pinned
            with self._locked(_name(digest, reference.host)):
                if self._find(digest, reference.host) is None:
                    self._unpack(registry, reference, manifest)
                with open(self._mark(digest, reference.host, tenant), "wb"):
                    pass
        return digest

    def _unpack(self, registry: Registry, reference: Reference, manifest: Manifest) -> None:
        if manifest.size_bytes > self._bounds.image_bytes:  # Before it takes the room of others.
            raise ImageUnusable(
                Text(
                    "The image is larger than this installation allows (BERTH_IMAGE_BYTES_MAX).",
                    "镜像超过本系统允许的大小（BERTH_IMAGE_BYTES_MAX）。",
                )
            )
        config = registry.config(reference, manifest)
        for layer in manifest.layers:
            _opener(layer)  # Before anything is transferred.
        self._make_room(manifest.size_bytes)
        work = f"{self._place}/{_WORK}/{_name(manifest.pinned, reference.host)}"
        self._discard(work)
        os.makedirs(f"{work}/root", 0o700)
        try:
            budget = Budget(self._bounds.image_bytes, ends_at=time.monotonic() + IMAGE_SECONDS)
            root = Root(f"{work}/root", budget)
            for number, layer in enumerate(manifest.layers):
                path = self._fetch(registry, reference, layer)
                with _opener(layer)(path) as archive:
                    digest = root.apply(archive)
                if config.diff_ids and config.diff_ids[number : number + 1] != (digest,):
                    raise ImageUnusable(
                        Text(
                            f"{layer.digest} holds another layer than the image says.",
                            f"{layer.digest} 的内容与镜像声明的层不符。",
                        )
                    )
            _make_mount_points(root.path)
            root.finish()
            for point in ("", *MOUNT_POINTS):
                os.chmod(f"{root.path}/{point}", 0o755)  # noqa: S103 - the system that its tenant runs in.
            _check_shell(root.path)
            os.mkdir(f"{work}/tenants", 0o700)
            document = {"env": dict(config.env), "size_bytes": self._bounds.image_bytes - budget.bytes_left}
            with open(f"{work}/image.json", "w", encoding="utf-8") as file:
                json.dump(document, file)
            os.chmod(work, 0o711)  # noqa: S103 - tasks pass through to their root.
            os.rename(work, self._tree(manifest.pinned, reference.host))
        except BaseException:
            self._discard(work)
            raise
        self._make_room(0)

    def _fetch(self, registry: Registry, reference: Reference, layer: Layer) -> str:
        """The path of a layer as it is transferred, fetched unless it is there."""
        path = f"{self._place}/{_BLOBS}/{_name(layer.digest, reference.host)}"
        with contextlib.suppress(FileNotFoundError):
            os.utime(path)
            return path
        part = f"{path}.{os.getpid()}.{threading.get_ident()}.part"
        try:
            with open(part, "wb") as file:
                registry.fetch_layer(reference, layer, file.write, seconds=LAYER_SECONDS)
            os.rename(part, path)
        finally:
            with contextlib.suppress(FileNotFoundError):
                os.unlink(part)
        return path

    def _make_places(self) -> None:
        os.makedirs(self._place, exist_ok=True)
        for name, mode in (("", 0o711), (_TREES, 0o711), (_BLOBS, 0o700), (_WORK, 0o700), (_LOCKS, 0o700)):
            path = f"{self._place}/{name}".rstrip("/")
            with contextlib.suppress(FileExistsError):
                os.mkdir(path)
            os.chmod(path, mode)

    @contextlib.contextmanager
    def _locked(self, name: str) -> Iterator[None]:
        """One process at a time works on an image; the lock goes with the process."""
        with open(f"{self._place}/{_LOCKS}/{name}", "ab") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            yield

    # --- Room --------------------------------------------------------------------------------------------------------

    def _make_room(self, wanted_bytes: int) -> None:
        """Remove what was used least recently until there is room for so much more: layers first, which can be had again."""
        blobs = self._sizes(_BLOBS, lambda path: os.stat(path).st_size, lambda path: path)
        trees = self._sizes(_TREES, _tree_bytes, lambda path: f"{path}/image.json")
        total = sum(size for _, size, _ in (*blobs, *trees)) + wanted_bytes
        for _, size, path in sorted(blobs):
            if total <= self._bounds.store_bytes:
                return
            with contextlib.suppress(FileNotFoundError):
                os.unlink(path)
            total -= size
        kept = self._in_use() if total > self._bounds.store_bytes else frozenset()
        for used_at, size, path in sorted(trees):
            if total <= self._bounds.store_bytes:
                return
            if _digest(os.path.basename(path)) in kept or time.time() - used_at < KEPT_SECONDS:
                continue
            if self._remove_tree(path):
                total -= size

    def _remove_tree(self, path: str) -> bool:
        name = os.path.basename(path)
        with open(f"{self._place}/{_LOCKS}/{name}", "ab") as file:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                return False
            trash = f"{self._place}/{_WORK}/{name}.old"
            self._discard(trash)
            with contextlib.suppress(FileNotFoundError):
                os.rename(path, trash)
            self._discard(trash)
        return True

    def _sizes(self, folder: str, size_of: Callable[[str], int], mark_of: Callable[[str], str]) -> list[tuple[float, int, str]]:
        """When each entry was used, its bytes, its path."""
        found = []
        for name in os.listdir(f"{self._place}/{folder}"):
            path = f"{self._place}/{folder}/{name}"
            with contextlib.suppress(OSError, ValueError):
                found.append((os.stat(mark_of(path)).st_mtime, size_of(path), path))
        return found

    def _discard(self, path: str) -> None:
        parent, name = os.path.split(path)
        with beneath.directory(parent, ()) as opened:
            beneath.remove_at(opened, name)


def _host(location: str) -> str:
    reference = parse(location)
    return reference.host if reference is not None else ""


def _name(digest: str, host: str) -> str:
    """The name of an image or a layer in the store."""
    return f"{_hex(digest)}.{hashlib.sha256(host.encode()).hexdigest()[:16]}"


def _digest(name: str) -> str:
    return f"sha256:{name.partition('.')[0]}"


def _hex(digest: str) -> str:
    algorithm, _, name = digest.partition(":")
    if algorithm != "sha256" or len(name) != hashlib.sha256().digest_size * 2 or not name.isalnum():
        raise ImageUnusable(Text(f"{digest[:80]!r} is no digest.", f"{digest[:80]!r} 不是摘要。"))
    return name


def _opener(layer: Layer) -> Callable[[str], contextlib.AbstractContextManager[Readable]]:
    if layer.media_type in GZIP_LAYERS:
        return lambda path: gzip.open(path, "rb")
    if layer.media_type in PLAIN_LAYERS:
        return lambda path: open(path, "rb")
    if layer.media_type in ZSTD_LAYERS:
        if not zstd.is_installed():
            raise ImageUnusable(
                Text(
                    "A layer is compressed by zstd, and libzstd is not installed on this host (package libzstd1).",
                    "某一层以 zstd 压缩，而此主机未安装 libzstd（软件包 libzstd1）。",
                )
            )
        return zstd.ZstdFile
    raise ImageUnusable(
        Text(
            f"A layer has the media type {layer.media_type!r}; this cluster unpacks tar archives, plain, by gzip or by zstd.",
            f"某一层的媒体类型为 {layer.media_type!r}；此集群只解包 tar 归档（可用 gzip 或 zstd 压缩）。",
        )
    )


def _tree_bytes(path: str) -> int:
    with open(f"{path}/image.json", encoding="utf-8") as file:
        return int(json.load(file)["size_bytes"])


def _make_mount_points(root: str) -> None:
    """Whatever the image has there, tasks find real directories and files where the platform mounts something: never a link,
    which could lead a mount elsewhere."""
    for point in MOUNT_POINTS:
        path = f"{root}/{point}"
        if not os.path.lexists(path) or not stat.S_ISDIR(os.lstat(path).st_mode):
            with contextlib.suppress(FileNotFoundError):
                os.unlink(path)
            os.mkdir(path, 0o755)
    for name in MOUNT_FILES:
        path = f"{root}/{name}"
        if os.path.isdir(path) and not os.path.islink(path):
            shutil.rmtree(path)
        with contextlib.suppress(FileNotFoundError):
            os.unlink(path)
        _make_file(path)
    for name in OWN_FILES:
        if not os.path.lexists(f"{root}/{name}"):
            _make_file(f"{root}/{name}")


def _make_file(path: str) -> None:
    os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o644))


def _check_shell(root: str) -> None:
    shell = "/".join((root, *within(root, ("bin", "sh"))))
    if not os.path.lexists(shell) or not stat.S_ISREG(os.lstat(shell).st_mode):
        raise ImageUnusable(
            Text(
                "The image has no /bin/sh, which starts the job's command in it.", "镜像中没有 /bin/sh，而作业的命令须由它启动。"
            )
        )
