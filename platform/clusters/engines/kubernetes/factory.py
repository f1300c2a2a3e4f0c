"""A Kubernetes engine made of the cluster's configuration and the installation's settings."""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from typing import Any

from clusters.engines.kubernetes.api import Api
from clusters.engines.kubernetes.client import ClientTransport
from clusters.engines.kubernetes.config import KubernetesConfig, read_config
from clusters.engines.kubernetes.engine import KubernetesEngine
from kernel.config import Config

_WATCHES = 2
_WORKS = 3  # That go on beside each other in one process, each with `parallel` requests: verbs, looks at pods, looks at logs.


def build(cluster_id: uuid.UUID, config: Config, *, cluster: Mapping[str, Any], credentials: str = "") -> KubernetesEngine:
    """Make the engine of one cluster; `credentials` is a kubeconfig, or empty for the account of the pod that Berth runs in.

    Raises ConfigInvalid with all that is wrong with the cluster's configuration.
    """
    return open_engine(
        read_config(
            str(cluster_id),
            cluster,
            kubeconfig=credentials,
            uid_base=config.local_uid_base,
            gid_base=config.local_gid_base,
            log_quota_bytes=config.log_quota_bytes,
            tombstone_days=config.tombstone_days,
        )
    )


def open_engine(config: KubernetesConfig) -> KubernetesEngine:
    """Make an engine of a whole configuration."""
    transport = ClientTransport(config.kubeconfig, connections=_WORKS * config.parallel + _WATCHES)
    api = Api(
        transport,
        rate=config.requests_per_second,
        burst=config.requests_burst,
        connect_seconds=config.connect_seconds,
        read_seconds=config.read_seconds,
    )
    return KubernetesEngine(config, api, transport.websocket)
