"""Berth's cordons brought to clusters whose nodes can be cordoned there, too: for the schedulers there beside Berth.

The database says what should be, an inventory what is; what differs is asked for with each inventory, until it is so. A cordon
that somebody else made in the cluster is not Berth's to undo.
"""

from __future__ import annotations

import uuid

import structlog

from clusters.engines.interface import CordonAnswer, CordonWish, Inventory, ObservedNode, SupportsCordon
from clusters.models import Node
from clusters.services.engines import engine_for

log = structlog.get_logger("cordons")

BERTH_ALONE = (
    "Cordoned in Berth alone: the cluster's scheduler may start pods of others here. Allow get and patch on nodes, and leave "
    "cordon_nodes on."
)
NOT_TAKEN_BACK = (
    "The cordon that Berth made is still in the cluster. It is taken back by itself where the account may patch nodes; else run "
    "kubectl uncordon."
)


def enforce_cordons(cluster_id: uuid.UUID, inventory: Inventory) -> int:
    """Ask the engine for what differs from an inventory that was just read; returns for how many nodes that was done, of which
    another inventory tells. One query; repeating it changes nothing. Raises EngineUnreachable and ClusterGone."""
    engine = engine_for(cluster_id) if inventory.has_cordons else None
    if not isinstance(engine, SupportsCordon):
        return 0
    cordoned = Node.objects.filter(cluster_id=cluster_id, cordoned=True)
    wanted = dict(cordoned.values_list("name", "cordon_reason"))
    wishes = [wish for node in inventory.nodes if (wish := _wish(node, wanted.get(node.name))) is not None]
    if not wishes:
        return 0
    answers = engine.cordon(wishes)
    left = [f"{wish.node}: {answer}" for wish, answer in zip(wishes, answers, strict=True) if answer is not CordonAnswer.DONE]
    if left:
        log.warning("cordons_left", cluster_id=str(cluster_id), left=left[:20], count=len(left))
    return answers.count(CordonAnswer.DONE)


def _wish(node: ObservedNode, reason: str | None) -> CordonWish | None:
    """What to ask for; a `reason` of None is a node that Berth has not cordoned."""
    cordon = node.cordon
    if reason is None:
        return CordonWish(node.name, is_cordoned=False) if cordon is not None and cordon.is_ours else None
    is_so = cordon is not None and cordon.holds and (not cordon.is_ours or cordon.reason == reason)
    return None if is_so else CordonWish(node.name, is_cordoned=True, reason=reason)
