"""Manifests, indexes and configurations, as OCI and Docker write them, read with bounds: each is text of a stranger.

OCI image specification 1.1 (`manifest.md`, `image-index.md`, `config.md`); Docker's image manifest version 2, schema 2.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from clusters.registries.errors import ImageUnusable
from kernel.words import Text

OCI_INDEX = "application/vnd.oci.image.index.v1+json"
OCI_MANIFEST = "application/vnd.oci.image.manifest.v1+json"
DOCKER_LIST = "application/vnd.docker.distribution.manifest.list.v2+json"
DOCKER_MANIFEST = "application/vnd.docker.distribution.manifest.v2+json"
ACCEPTED = (OCI_INDEX, OCI_MANIFEST, DOCKER_LIST, DOCKER_MANIFEST)
INDEXES = frozenset({OCI_INDEX, DOCKER_LIST})
PLATFORM = ("linux", "amd64")
LAYERS_MAX = 256  # Docker builds at most 127.
ENTRIES_MAX = 1_000
TEXT_MAX = 32_768
_DIGEST = re.compile(r"sha256:[0-9a-f]{64}")
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


@dataclass(frozen=True, slots=True)
class Layer:
    digest: str
    size_bytes: int  # As it is transferred.
    media_type: str


@dataclass(frozen=True, slots=True)
class Manifest:
    """The image for one platform. `pinned` is the digest of what its reference names: this manifest, or an index with it."""

    digest: str
    pinned: str
    config_digest: str
    config_bytes: int
    layers: tuple[Layer, ...]

    @property
    def size_bytes(self) -> int:
        """As it is transferred."""
        return self.config_bytes + sum(layer.size_bytes for layer in self.layers)


@dataclass(frozen=True, slots=True)
class Config:
    """What the maker of an image set, as far as it means anything here: a job brings its command and runs as its tenant."""

    env: Mapping[str, str] = field(default_factory=dict)
    labels: Mapping[str, str] = field(default_factory=dict)
    diff_ids: tuple[str, ...] = ()  # Digests of the layers as they are unpacked.


def platform_of(text: bytes, media_type: str) -> str | None:
    """The digest of an index's image for linux/amd64; None for what is no index. ImageUnusable where it has none."""
    document = _document(text)
    kind = str(document.get("mediaType") or media_type.partition(";")[0].strip())
    if kind not in INDEXES and not ("manifests" in document and "layers" not in document):
        return None
    entries = _list(document, "manifests")
    for entry in entries:
        platform = entry.get("platform") if isinstance(entry, dict) else None
        if isinstance(platform, dict) and (platform.get("os"), platform.get("architecture")) == PLATFORM:
            return _digest(entry)
    raise ImageUnusable(Text("The image is not made for linux/amd64.", "该镜像不适用于 linux/amd64。"))


def read_manifest(text: bytes, *, digest: str, pinned: str) -> Manifest:
    """Read an image manifest. Raises ImageUnusable."""
    document = _document(text)
    if document.get("schemaVersion") != 2:
        raise ImageUnusable(
            Text(
                "The image has a manifest of an old kind (schema 1): push it again with a current tool.",
                "该镜像的清单为旧格式（schema 1）：请用当前的工具重新推送。",
            )
        )
    config = document.get("config")
    if not isinstance(config, dict):
        raise ImageUnusable(Text("What the reference names is no container image.", "该引用所指的不是容器镜像。"))
    layers = _list(document, "layers")
    if len(layers) > LAYERS_MAX:
        raise ImageUnusable(Text(f"The image has more than {LAYERS_MAX} layers.", f"镜像超过 {LAYERS_MAX} 层。"))
    return Manifest(
        digest=digest,
        pinned=pinned,
        config_digest=_digest(config),
        config_bytes=_size(config),
        layers=tuple(Layer(_digest(item), _size(item), str(item.get("mediaType", ""))[:200]) for item in map(_mapping, layers)),
    )


def read_config(text: bytes) -> Config:
    """Read an image's configuration. Raises ImageUnusable; what is not written as it should be is left out."""
    document = _document(text)
    platform = (document.get("os"), document.get("architecture"))
    if platform != PLATFORM:
        raise ImageUnusable(
            Text(
                f"The image is made for {str(platform[0])[:40]}/{str(platform[1])[:40]}, not for linux/amd64.",
                f"镜像适用于 {str(platform[0])[:40]}/{str(platform[1])[:40]}，而非 linux/amd64。",
            )
        )
    inner = document.get("config")
    inner = inner if isinstance(inner, dict) else {}
    rootfs = document.get("rootfs")
    diff_ids = _list(rootfs, "diff_ids") if isinstance(rootfs, dict) else []
    return Config(env=_env(inner), labels=_labels(inner), diff_ids=tuple(str(item)[:80] for item in diff_ids))


def _env(config: Mapping[str, Any]) -> dict[str, str]:
    found = {}
    for item in _list(config, "Env"):
        name, separator, value = str(item).partition("=")
        if separator and _VARIABLE.fullmatch(name) and len(value) <= TEXT_MAX and "\0" not in value:
            found[name] = value
    return found


def _labels(config: Mapping[str, Any]) -> dict[str, str]:
    labels = config.get("Labels")
    if not isinstance(labels, dict):
        return {}
    return {str(name)[:TEXT_MAX]: str(value)[:TEXT_MAX] for name, value in list(labels.items())[:ENTRIES_MAX]}


def _document(text: bytes) -> dict[str, Any]:
    try:
        return _mapping(json.loads(text))
    except (ValueError, RecursionError):
        raise ImageUnusable(Text("A manifest of the image cannot be read.", "镜像的清单无法读取。")) from None


def _mapping(value: object) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise ImageUnusable(Text("A manifest of the image is not written as it should be.", "镜像的清单格式不正确。"))
    return value


def _list(document: Mapping[str, Any], name: str) -> list[Any]:
    value = document.get(name)
    if value is None:
        return []
    if not isinstance(value, list) or len(value) > ENTRIES_MAX:
        raise ImageUnusable(
            Text(
                f"The image's list of {name} is not written as it should be, or has more than {ENTRIES_MAX} entries.",
                f"镜像的 {name} 列表格式不正确，或超过 {ENTRIES_MAX} 项。",
            )
        )
    return value


def _digest(entry: Mapping[str, Any]) -> str:
    digest = entry.get("digest")
    if not isinstance(digest, str) or not _DIGEST.fullmatch(digest):
        raise ImageUnusable(Text("A part of the image has no SHA-256 digest.", "镜像的某一部分没有 SHA-256 摘要。"))
    return digest


def _size(entry: Mapping[str, Any]) -> int:
    size = entry.get("size")
    if not isinstance(size, int) or isinstance(size, bool) or not 0 <= size < 2**50:
        raise ImageUnusable(Text("A part of the image has no size.", "镜像的某一部分没有大小。"))
    return size
