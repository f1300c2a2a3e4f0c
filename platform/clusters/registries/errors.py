"""What can be wrong with a registry, each kind with a stable code, and whether it may pass by itself.

Words for people are with the catalogue's errors (`images/errors.py`) and the exit classes (`jobs/lifecycle/exit_table.py`).
"""

from __future__ import annotations

from typing import ClassVar

from kernel.words import Saying, as_text


class RegistryError(Exception):
    """The registry did not give what was asked for.

    `passes`: the same question may be answered later, without anybody changing anything. `exit_code` is what an engine says
    of an attempt that needs the image.
    """

    code: ClassVar[str] = "registry_unreachable"
    exit_code: ClassVar[str] = "image_unreachable"
    passes: ClassVar[bool] = False

    def __init__(self, detail: Saying, *, after_seconds: float | None = None) -> None:
        super().__init__(str(detail))
        self.detail = str(detail)
        self.detail_text = as_text(detail)
        self.after_seconds = after_seconds  # Of a registry that says when to come again.


class ImageAbsent(RegistryError):
    """There is no such image, as far as this account may know."""

    code = "image_absent"
    exit_code = "image_absent"


class ImageDenied(RegistryError):
    """The registry wants an account, or another one."""

    code = "image_denied"
    exit_code = "image_denied"


class ImageUnusable(RegistryError):
    """What the registry gives is damaged, too large, or made for other machines."""

    code = "image_unusable"
    exit_code = "image_broken"


class RateLimited(RegistryError):
    """Too many requests; the registry may say when to come again."""

    code = "registry_rate_limited"
    exit_code = "image_rate_limited"
    passes = True


class RegistryTimeout(RegistryError):
    """No complete answer in time."""

    code = "registry_timeout"
    passes = True


class RegistryTls(RegistryError):
    """The registry's certificate is not valid for its name, or what answers speaks no TLS."""

    code = "registry_tls"


class RegistryUnreachable(RegistryError):
    """The name does not resolve, no connection is made, or the registry answers with an error of its own."""

    code = "registry_unreachable"
    passes = True


class RegistryRefused(RegistryError):
    """The operators do not allow this registry, or it leads into the platform's own network."""

    code = "registry_refused"
    exit_code = "image_denied"
