"""One engine object per cluster and process, made by the factory of the cluster's kind.

Client libraries are large and each belongs to one engine: a factory is imported when the first cluster of its kind is used,
never before.
"""

from __future__ import annotations

import threading
import uuid
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib import import_module
from typing import Any

from clusters.engines.interface import Engine
from clusters.models import Cluster
from kernel.config import current


@dataclass(frozen=True, slots=True)
class EngineSettings:
    """What an engine is told of its cluster."""

    cluster_id: uuid.UUID
    name: str
    config: Mapping[str, Any]


EngineFactory = Callable[[EngineSettings], Engine]


def _local(settings: EngineSettings) -> Engine:
    engine: Engine = import_module("clusters.engines.local").build(settings.cluster_id, current())
    return engine


_factories: dict[str, EngineFactory] = {"local": _local}
_engines: dict[uuid.UUID, Engine] = {}
_lock = threading.RLock()


def register_engine(kind: str, factory: EngineFactory) -> None:
    """Install the factory of a kind of cluster, in place of the one before; engines made already stay."""
    with _lock:
        _factories[kind] = factory


def engine_for(cluster_id: uuid.UUID) -> Engine:
    """The engine of a cluster, made at first use and kept. Raises Cluster.DoesNotExist, LookupError for an unknown kind."""
    with _lock:
        if cluster_id not in _engines:
            cluster = Cluster.objects.get(pk=cluster_id)
            settings = EngineSettings(cluster.pk, cluster.name, cluster.config)
            _engines[cluster_id] = _factory(cluster.kind)(settings)
        return _engines[cluster_id]


def forget_engines() -> None:
    """Make engines anew at next use: after a change of configuration, and between tests."""
    with _lock:
        _engines.clear()


def _factory(kind: str) -> EngineFactory:
    if kind not in _factories:
        raise LookupError(f"no engine is registered for clusters of kind {kind!r}")
    return _factories[kind]
