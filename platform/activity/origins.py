"""Which web pages may open a live connection: exactly those of this server (security T12).

A browser always tells the page's origin, and the page cannot change it. Programs tell none; they have to bring a token anyway.
"""

from __future__ import annotations

from collections.abc import Iterable
from urllib.parse import urlsplit

from kernel.config import Config

LOOPBACK_NAMES = ("127.0.0.1", "localhost", "[::1]")
DEFAULT_PORTS = {"http": 80, "https": 443}


def is_allowed(origins: Iterable[str], config: Config) -> bool:
    """Whether a connection with these Origin headers may be opened: none at all, or one that is exactly ours."""
    sent = tuple(origins)
    if not sent:
        return True
    return len(sent) == 1 and sent[0] in allowed_origins(config)


def allowed_origins(config: Config) -> frozenset[str]:
    """The origins under which people reach this server; under its loopback names too where that is its only address."""
    parts = urlsplit(config.url)
    host = parts.hostname or ""
    own = _origin(parts.scheme, f"[{host}]" if ":" in host else host, parts.port)
    if config.public_url or config.host not in {"127.0.0.1", "localhost", "::1"}:
        return frozenset({own})
    return frozenset({own, *(_origin("http", name, config.port) for name in LOOPBACK_NAMES)})


def _origin(scheme: str, host: str, port: int | None) -> str:
    """An origin as browsers write it: lower case, without the scheme's default port."""
    suffix = "" if port is None or DEFAULT_PORTS.get(scheme) == port else f":{port}"
    return f"{scheme}://{host}{suffix}".lower()
