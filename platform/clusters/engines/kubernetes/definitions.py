"""Kinds of objects that others bring into a cluster by CustomResourceDefinitions, and whether a cluster has them."""

from __future__ import annotations

from dataclasses import dataclass

from clusters.engines.kubernetes.api import Api, NotFound


@dataclass(frozen=True, slots=True)
class Resource:
    """A kind of object that a CustomResourceDefinition brings."""

    group: str
    version: str
    kind: str
    plural: str

    @property
    def definition(self) -> str:
        """The name of its CustomResourceDefinition."""
        return f"{self.plural}.{self.group}"

    @property
    def api_version(self) -> str:
        return f"{self.group}/{self.version}"

    def collection(self, namespace: str) -> str:
        """Where the API has the objects of a namespace."""
        return f"/apis/{self.group}/{self.version}/namespaces/{namespace}/{self.plural}"


def is_served(api: Api, resource: Resource) -> bool:
    """Whether the cluster has the kind in this version, which every account may ask. Raises EngineUnreachable and ApiRefused."""
    try:
        found = api.get(f"/apis/{resource.group}/{resource.version}").get("resources") or []
    except NotFound:
        return False
    return any(item.get("name") == resource.plural for item in found)
