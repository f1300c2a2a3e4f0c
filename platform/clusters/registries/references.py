"""References to container images, parsed strictly: `host[:port]/repository[:tag][@sha256:...]`.

A reference is data that reaches manifests and command lines of engines: nothing but the grammar of the distribution
specification passes (github.com/distribution/reference, `reference.go`), and a digest is the only thing that pins.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace

REFERENCE_LENGTH = 500
HOST_LENGTH = 255
REPOSITORY_LENGTH = 255  # The distribution specification's own bound.
DEFAULT_HOST = "docker.io"
DEFAULT_TAG = "latest"

_PART = r"[a-z0-9]+(?:(?:\.|_|__|-+)[a-z0-9]+)*"
_LABEL = r"[A-Za-z0-9](?:[A-Za-z0-9-]{0,61}[A-Za-z0-9])?"
_HOST = re.compile(rf"(?:{_LABEL}(?:\.{_LABEL})*|\[[0-9a-fA-F:]+\])(?::[0-9]{{1,5}})?")
_REPOSITORY = re.compile(rf"{_PART}(?:/{_PART})*")
_TAG = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._-]{0,127}")
_DIGEST = re.compile(r"sha256:[0-9a-f]{64}")


@dataclass(frozen=True, slots=True)
class Reference:
    """One image of a registry. Without a digest its content may change under the same name."""

    host: str
    repository: str
    tag: str
    digest: str

    @property
    def is_pinned(self) -> bool:
        return bool(self.digest)

    def pinned(self, digest: str) -> Reference:
        """The same image at one content."""
        return replace(self, digest=digest)

    def __str__(self) -> str:
        tag = f":{self.tag}" if self.tag else ""
        digest = f"@{self.digest}" if self.digest else ""
        return f"{self.host}/{self.repository}{tag}{digest}"


def parse(text: str) -> Reference | None:
    """The reference in its full form, or None if the text is none."""
    if not text or len(text) > REFERENCE_LENGTH or not text.isascii():
        return None
    rest, separator, digest = text.partition("@")
    if separator and not _DIGEST.fullmatch(digest):
        return None
    name, tag = _split_tag(rest)
    if tag is not None and not _TAG.fullmatch(tag):
        return None
    host, repository = _split_host(name)
    if not _HOST.fullmatch(host) or not _REPOSITORY.fullmatch(repository) or len(repository) > REPOSITORY_LENGTH:
        return None
    return Reference(host, repository, tag or ("" if digest else DEFAULT_TAG), digest)


def is_host(text: str) -> bool:
    """Whether a text is `host` or `host:port` as references write it."""
    return len(text) <= HOST_LENGTH and _HOST.fullmatch(text) is not None


def looks_like_reference(text: str) -> bool:
    """Whether a text can only mean a registry: catalogue names have neither a slash, a colon nor an at sign."""
    return any(character in text for character in "/:@")


def _split_tag(text: str) -> tuple[str, str | None]:
    """The last colon starts a tag unless a slash follows: then it belongs to a port."""
    name, separator, tag = text.rpartition(":")
    if not separator or "/" in tag:
        return text, None
    return name, tag


def _split_host(name: str) -> tuple[str, str]:
    """The first part is a host if it looks like one; else the name lies on the default registry."""
    first, separator, rest = name.partition("/")
    if separator and ("." in first or ":" in first or first == "localhost"):
        return first, rest
    return DEFAULT_HOST, name if separator else f"library/{name}"
