"""What nodes hold of images and data already: told by an engine's inventory, else noted when work that uses it has started.

It decides nothing but which of several good machines is taken, so it is kept cheap: a row a node, bounded, written only when a
node holds something that was not known, and never asked whether it is still there where an engine does not say.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from django.db import transaction

from clusters.engines.interface import ObservedNode
from clusters.models import Node, NodeContents
from reconciling import bulk

HELD_MAX = 128  # Of images and of volumes that a node is known to hold; the one known for longest gives way.
REMEMBERED_MAX = 50_000


@dataclass(frozen=True, slots=True)
class Held:
    """What work that has started on a node has brought there."""

    node: str
    images: frozenset[str] = frozenset()
    data: frozenset[str] = frozenset()


_noted: set[tuple[uuid.UUID, Held]] = set()  # Written by this process already.


def note_contents(cluster_id: uuid.UUID, held: Iterable[Held]) -> int:
    """Note what nodes of a cluster hold now; how many rows were written. Nothing is asked for what this process noted before."""
    news = [
        content for content in dict.fromkeys(held) if (content.images or content.data) and (cluster_id, content) not in _noted
    ]
    if not news:
        return 0
    by_node: dict[str, tuple[set[str], set[str]]] = {}
    for content in news:
        images, data = by_node.setdefault(content.node, (set(), set()))
        images |= content.images
        data |= content.data
    with transaction.atomic():
        nodes = dict(Node.objects.filter(cluster_id=cluster_id, name__in=by_node).values_list("name", "id"))
        written = _write({nodes[name]: contents for name, contents in by_node.items() if name in nodes}, replace=False)
    if len(_noted) + len(news) > REMEMBERED_MAX:
        _noted.clear()
    transaction.on_commit(lambda: _noted.update((cluster_id, content) for content in news))
    return written


def record_reported(node_ids: Mapping[str, uuid.UUID], nodes: Sequence[ObservedNode]) -> int:
    """Replace what is known of nodes whose engine says all that they hold."""
    told = {
        node_ids[node.name]: (node.images, node.data)
        for node in nodes
        if node.name in node_ids and (node.images is not None or node.data is not None)
    }
    return _write(told, replace=True) if told else 0


def _write(contents: Mapping[uuid.UUID, tuple[Iterable[str] | None, Iterable[str] | None]], *, replace: bool) -> int:
    """Write the rows that differ. `replace`: what is given is all there is; None leaves what is known."""
    known = {row.pk: row for row in NodeContents.objects.select_for_update().filter(pk__in=contents)}
    fresh, changed = [], []
    for node_id, (images, data) in sorted(contents.items()):
        row = known.get(node_id)
        had_images, had_data = (row.images, row.data) if row is not None else ([], [])
        after = {"images": _merged(had_images, images, replace), "data": _merged(had_data, data, replace)}
        if row is None:
            fresh.append({"node_id": node_id, "version": 1, **after})
        elif after != {"images": had_images, "data": had_data}:
            changed.append({"node_id": node_id, "version": row.version + 1, **after})
    bulk.insert(NodeContents, fresh, ignore_conflicts=True)
    bulk.update(NodeContents, changed, key="node_id")
    return len(fresh) + len(changed)


def _merged(before: list[str], now: Iterable[str] | None, replace: bool) -> list[str]:
    """The list afterwards, what is known for longest first."""
    if now is None:
        return before
    found = set(now)
    kept = [item for item in before if item in found] if replace else list(before)
    return [*kept, *sorted(found.difference(kept))][-HELD_MAX:]
