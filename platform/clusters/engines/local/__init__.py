"""The local engine: one host, real processes, users per tenant where there is root, and a memory of small files."""

from clusters.engines.local.config import (
    LocalEngineConfig,
    find_launcher,
    launcher_policy,
    launcher_socket,
    start_launcher,
)
from clusters.engines.local.engine import LocalEngine
from clusters.engines.local.factory import build

__all__ = ["LocalEngine", "LocalEngineConfig", "build", "find_launcher", "launcher_policy", "launcher_socket", "start_launcher"]
