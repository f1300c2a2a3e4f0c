"""A local engine made of the installation's settings."""

from __future__ import annotations

import socket
import uuid
from collections.abc import Mapping
from typing import Any

from clusters.engines.local.config import LocalEngineConfig, can_drop_rights, find_launcher
from clusters.engines.local.engine import LocalEngine
from clusters.engines.local.launching import DirectLauncher, Launcher
from clusters.registries.rules import rules_of
from kernel.config import Config


def build(
    cluster_id: uuid.UUID,
    config: Config,
    *,
    cluster: Mapping[str, Any] | None = None,
    node: str = "",
    launcher: Launcher | None = None,
) -> LocalEngine:
    """Make the engine of one local cluster from the installation's settings; `cluster`, its own configuration, says nothing yet.

    A launcher that is given is taken to have root unless it is a DirectLauncher of a process without.
    """
    drop_rights = can_drop_rights() if isinstance(launcher, DirectLauncher) else True
    if launcher is None:
        launcher, drop_rights = find_launcher(config)
    return LocalEngine(
        LocalEngineConfig(
            root=str(config.data_dir / "engine" / str(cluster_id)),
            node=node or socket.gethostname(),
            uid_base=config.local_uid_base,
            gid_base=config.local_gid_base,
            drop_rights=drop_rights,
            isolation=config.local_isolation,
            simulated_gpus=config.local_simulated_gpus,
            cpu_millis=config.local_cpu_millis,
            memory_bytes=config.local_memory_bytes,
            log_quota_bytes=config.log_quota_bytes,
            tombstone_days=config.tombstone_days,
            registries=rules_of(config),
            image_bytes_max=config.image_bytes_max,
            image_cache_bytes=config.image_cache_bytes,
            images_are_checked=bool(config.registry_seconds),
        ),
        launcher,
    )
