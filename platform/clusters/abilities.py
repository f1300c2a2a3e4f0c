"""What engines can do, as it is stored with their cluster."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, fields
from typing import Any

from clusters.engines.interface import NO_PLACES, Abilities, ImageKind, Places


def abilities_document(abilities: Abilities) -> dict[str, Any]:
    """The abilities as JSON values."""
    return {
        "image_kinds": sorted(abilities.image_kinds),
        "places": asdict(abilities.places),
        "mounts": bool(abilities.places),  # Read by processes of an older release, while they are replaced.
        "node_ports": abilities.node_ports,
        "shares_gpus": abilities.shares_gpus,
        "lacks": list(abilities.lacks),
        "bare_images": list(abilities.bare_images),
    }


def read_abilities(document: Mapping[str, Any] | None) -> Abilities:
    """The stored abilities. What an engine has not said yet, or an older release did not ask, is as by default."""
    known, default = document or {}, Abilities()
    kinds = known.get("image_kinds")
    return Abilities(
        image_kinds=default.image_kinds if kinds is None else frozenset(kind for kind in ImageKind if kind in kinds),
        places=_read_places(known),
        node_ports=known.get("node_ports", default.node_ports),
        shares_gpus=known.get("shares_gpus", True),  # Every engine of a release that did not ask shared them.
        lacks=tuple(known.get("lacks", default.lacks)),
        bare_images=tuple(known.get("bare_images", default.bare_images)),
    )


def _read_places(known: Mapping[str, Any]) -> Places:
    """An older release told only whether directories of the platform's host are mounted."""
    document = known.get("places")
    if document is None:
        return Places() if known.get("mounts", True) else NO_PLACES
    given: dict[str, Any] = {item.name: document[item.name] for item in fields(Places) if item.name in document}
    return Places(**given | {name: tuple(given[name]) for name in ("below", "shares") if name in given})
