"""One engine object per cluster and process, made by `build` of the folder `clusters/engines/<kind>`.

Client libraries are large and each belongs to one engine: a factory is imported when the first cluster of its kind is used,
never before. An engine is made of one version of its cluster's row; `refresh_engines` lets go of those whose row has changed or
is gone, and is called every few seconds by what uses engines, workers and observers, and before attempts are handed over or a
terminal is opened.
"""

from __future__ import annotations

import contextlib
import threading
import uuid
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from importlib import import_module
from pkgutil import iter_modules
from typing import Any

import structlog

from clusters import engines
from clusters.engines.interface import Engine, EngineUnreachable
from clusters.engines.lost import LostEngine
from clusters.engines.settings import SettingsInvalid, SettingsRead
from clusters.models import Cluster
from clusters.selectors import cluster_versions
from clusters.services.credentials import unseal
from kernel.clock import host_now
from kernel.config import current
from kernel.errors import Unavailable

log = structlog.get_logger("engines")


@dataclass(frozen=True, slots=True)
class EngineSettings:
    """What an engine is told of its cluster."""

    cluster_id: uuid.UUID
    name: str
    config: Mapping[str, Any]
    credentials: str = field(default="", repr=False)


@dataclass(slots=True)
class Made:
    """An engine, with the version of the row that it was made of, and what of the row counts for it."""

    engine: Engine
    version: int
    settings: tuple[object, ...]


EngineFactory = Callable[[EngineSettings], Engine]
SettingsReader = Callable[[Mapping[str, Any], str], SettingsRead]


class ClusterGone(LookupError):
    """There is no such cluster, or not any more."""


def _build(kind: str, settings: EngineSettings) -> Engine:
    """By `build` of the engine's folder, which is imported here for the first time."""
    build = getattr(import_module(f"{engines.__name__}.{kind}"), "build", None)
    if build is None:
        raise LookupError(f"no engine is registered for clusters of kind {kind!r}")
    given = {"credentials": settings.credentials} if settings.credentials else {}
    engine: Engine = build(settings.cluster_id, current(), cluster=settings.config, **given)
    return engine


FOUND: Mapping[str, EngineFactory] = {
    found.name: partial(_build, found.name) for found in iter_modules(engines.__path__) if found.ispkg
}
_factories = dict(FOUND)
_engines: dict[uuid.UUID, Made] = {}
_lock = threading.RLock()


def register_engine(kind: str, factory: EngineFactory) -> None:
    """Install the factory of a kind of cluster, in place of the one before; engines made already stay."""
    with _lock:
        _factories[kind] = factory


def settings_readers() -> dict[str, SettingsReader]:
    """By kind, how settings are read of clusters that operators may add."""
    modules = {kind: import_module(f"{engines.__name__}.{kind}") for kind in sorted(FOUND)}
    return {kind: module.read_settings for kind, module in modules.items() if hasattr(module, "read_settings")}


def engine_for(cluster_id: uuid.UUID) -> Engine:
    """The engine of a cluster, made at first use and kept; of one that was declared lost, what stands in for it.

    Whether a cluster is lost still is asked at each use: in a process that heard of its return later than others, what these
    start there would be taken for gone.

    Raises ClusterGone, LookupError for an unknown kind, and EngineUnreachable for settings of which none can be made.
    """
    with _lock:
        known = _engines.get(cluster_id)
        if known is None or isinstance(known.engine, LostEngine):
            asked_at = host_now()
            cluster = Cluster.objects.filter(pk=cluster_id).first()
            if cluster is None:
                raise ClusterGone(f"there is no cluster {cluster_id}")
            engine = make_engine(cluster) if cluster.lost_at is None else LostEngine(asked_at)
            _engines[cluster_id] = Made(engine, cluster.version, _settings_of(cluster))
        return _engines[cluster_id].engine


def is_lost(cluster_id: uuid.UUID) -> bool:
    """Whether the engine of a cluster is what stands in for one that was declared lost. No query."""
    with _lock:
        made = _engines.get(cluster_id)
    return made is not None and isinstance(made.engine, LostEngine)


def make_engine(cluster: Cluster, credentials: str | None = None) -> Engine:
    """An engine of a row, which may not be stored yet; credentials that are not given are those of the row."""
    try:
        opened = unseal(cluster) if credentials is None else credentials
        return _factory(cluster.kind)(EngineSettings(cluster.pk, cluster.name, cluster.config, opened))
    except SettingsInvalid as error:
        raise EngineUnreachable(f"The settings of cluster {cluster.name} cannot be used: {error}") from error
    except Unavailable as error:
        raise EngineUnreachable(f"{error.detail} {error.hint}") from error


def refresh_engines() -> None:
    """Let go of engines whose cluster has other settings now, or is gone. One query where this process has any."""
    with _lock:
        made = dict(_engines)
    if not made:
        return
    versions = cluster_versions()
    stale = {cluster_id: entry for cluster_id, entry in made.items() if versions.get(cluster_id) != entry.version}
    rows = Cluster.objects.in_bulk(list(stale)) if stale else {}
    for cluster_id, entry in stale.items():
        row = rows.get(cluster_id)
        if row is not None and _settings_of(row) == entry.settings:
            entry.version = row.version  # It was renamed, enabled or disabled.
            continue
        log.info("engine_let_go", cluster_id=str(cluster_id), is_gone=row is None)
        forget_engine(cluster_id)


def is_current(cluster_id: uuid.UUID, engine: Engine) -> bool:
    """Whether an engine of this process is of its cluster's row as it is now; else it may look at another place than others use,
    and what it does not see may run. One query."""
    with _lock:
        made = _engines.get(cluster_id)
    return made is not None and made.engine is engine and cluster_versions().get(cluster_id) == made.version


def forget_engine(cluster_id: uuid.UUID) -> None:
    """Make one engine anew at next use. Calls in hand end with the old one, which follows its cluster no longer."""
    with _lock:
        made = _engines.pop(cluster_id, None)
    if made is not None:
        close_engine(made.engine)


def forget_engines() -> None:
    """Make engines anew at next use: after a change of configuration, and between tests."""
    with _lock:
        _engines.clear()


def close_engine(engine: Engine) -> None:
    """End what an engine does by itself, where it does."""
    close = getattr(engine, "close", None)
    if close is not None:
        with contextlib.suppress(OSError):
            close()


def _settings_of(cluster: Cluster) -> tuple[object, ...]:
    return cluster.kind, cluster.config, cluster.credentials_sealed, cluster.lost_at is not None


def _factory(kind: str) -> EngineFactory:
    if kind not in _factories:
        raise LookupError(f"no engine is registered for clusters of kind {kind!r}")
    return _factories[kind]
