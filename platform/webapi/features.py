"""Features that an installation, or a tenant, may do without: switched off, they are gone from portal and API.

Each app registers its own. A view names its feature (`ApiView.feature`), and `ApiView` asks here before the handler runs. What is
on for whom is told by the tenants app; below it, everything is on.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from kernel.actor import Actor
from kernel.facts import Facts
from kernel.registry import Registry
from kernel.words import Text
from webapi.actors import actor_of, facts_of
from webapi.errors import FeatureOff
from webapi.facts import look


@dataclass(frozen=True, slots=True)
class Feature:
    """One that can be switched off."""

    name: str
    title: Text[str]


def _missing(name: str, feature: Feature) -> str:
    return "" if name and feature.title.en and feature.title.zh else "it needs a name and titles in both languages"


FEATURES: Registry[Feature] = Registry("feature", missing=_missing)


def register_features(features: Sequence[Feature]) -> None:
    """Called by each app at start, with its own. In lists what higher apps offer stands before what serves it."""
    FEATURES.add(((feature.name, feature) for feature in features), first=True)


class Source(Protocol):
    """What knows which features are on."""

    def installation(self, facts: Facts) -> Mapping[str, bool]:
        """Whether each is on for the installation."""

    def is_on(self, facts: Facts, actor: Actor, name: str, tenant: object) -> bool:
        """Whether it is on in the tenant of this id, slug or name; without one, in any that the actor belongs to."""


class _Everything:
    def installation(self, facts: Facts) -> Mapping[str, bool]:
        return dict.fromkeys(FEATURES, True)

    def is_on(self, facts: Facts, actor: Actor, name: str, tenant: object) -> bool:
        return True


_source: Source = _Everything()


def register_source(source: Source) -> None:
    """Called once, when the app that knows is ready."""
    global _source
    _source = source


def installed(facts: Facts) -> Mapping[str, bool]:
    """Every feature, and whether it is on for the installation."""
    return _source.installation(facts)


def is_on(request: Any, name: str, tenant: object = None) -> bool:
    """Whether a feature is there for the caller: in the tenant that is named, else in any of theirs."""
    return _source.is_on(facts_of(request), actor_of(request), name, tenant)


def is_on_for(actor: Actor, name: str, tenant: object = None) -> bool:
    """The same where there is no request of the framework's, such as at a WebSocket. One statement more."""
    return _source.is_on(look(), actor, name, tenant)


def check_feature(request: Any, name: str, tenant: object = None) -> None:
    """Raise FeatureOff where it is not."""
    if not is_on(request, name, tenant):
        raise FeatureOff(
            Text(f"{FEATURES[name].title.en}: this is switched off here.", f"{FEATURES[name].title.zh}：此功能已关闭。"),
            hint=Text("An operator can switch it on: PUT /api/v1/features.", "运维人员可以打开：PUT /api/v1/features。"),
        )


def named_tenant(request: Any, kwargs: Mapping[str, Any]) -> object:
    """The tenant that a request names in its path, body or query; None where it names none. A handler that takes another one
    when none is named asks for that one itself."""
    if isinstance(kwargs.get("tenant"), str):
        return kwargs["tenant"]
    if request.method in {"POST", "PUT", "PATCH"} and "json" in (request.content_type or ""):
        body = request.data
        if isinstance(body, dict) and isinstance(body.get("tenant"), str):
            return body["tenant"]
    text = request.query_params.get("tenant")
    if text:
        return text
    return None
