"""Reading and changing gates, past the cache: what decides is read from the API server itself."""

from __future__ import annotations

import uuid
from datetime import timedelta

from clusters.engines.kubernetes import names
from clusters.engines.kubernetes.api import Api, Json, NotFound, version_of
from clusters.engines.kubernetes.cache import Cache, Key, key_of
from clusters.engines.kubernetes.config import KubernetesConfig
from clusters.engines.kubernetes.record import Gate, gate_document, read_gate, today


class Gates:
    """The gates of one cluster. Every change notes itself in the cache."""

    def __init__(self, api: Api, config: KubernetesConfig, cache: Cache) -> None:
        self._api, self._config, self._cache = api, config, cache
        self._namespace = names.control_namespace(config.namespace_prefix)

    def read(self, attempt_id: uuid.UUID) -> Gate | None:
        """The gate as it is now; None where there is none. Raises GateUnreadable."""
        try:
            return self._note(self._api.get(f"{self._path}/{names.gate_name(attempt_id)}"))
        except NotFound:
            return None

    def find(self, attempt_id: uuid.UUID) -> Gate | None:
        """The gate from the cache, where it is live and known there. Raises GateUnreadable."""
        document = self._cache.find(Key(self._namespace, names.gate_name(attempt_id)))
        return None if document is None else read_gate(document, cluster_id=self._config.cluster_id)

    def create(self, gate: Gate) -> Gate:
        """Raises AlreadyExists."""
        return self._note(self._api.create(self._path, self._document(gate)))

    def replace(self, gate: Gate) -> Gate:
        """Raises Conflict where the gate changed since it was read, and NotFound."""
        return self._note(self._api.replace(f"{self._path}/{names.gate_name(gate.attempt_id)}", self._document(gate)))

    def purge(self) -> None:
        """Delete tombstones of all days but the last ones, in one call."""
        days = [(today() - timedelta(days=age)).isoformat() for age in range(-1, self._config.tombstone_days + 1)]
        older = (names.FORGOTTEN_ON, f"{names.FORGOTTEN_ON} notin ({','.join(days)})")
        self._api.delete(self._path, labelSelector=names.selector(self._config.cluster_id, names.GATE, *older))

    @property
    def _path(self) -> str:
        return f"/api/v1/namespaces/{self._namespace}/configmaps"

    def _document(self, gate: Gate) -> Json:
        return gate_document(gate, cluster_id=self._config.cluster_id, namespace=self._namespace)

    def _note(self, document: Json) -> Gate:
        gate = read_gate(document, cluster_id=self._config.cluster_id)
        if gate.is_tombstone:
            self._cache.remove(key_of(document), version_of(document))
        else:
            self._cache.put(document)
        return gate
