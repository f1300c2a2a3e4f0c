"""Cordons of Berth on nodes of the cluster, so that its scheduler, too, puts nothing new there.

A node is Berth's to return where Berth's note stands on it: what somebody cordoned with kubectl has none, and stays. Changes are
bound to what was read, so that no cordon is made or undone that somebody has just changed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from clusters.engines.interface import ClusterCordon, CordonAnswer, CordonWish, EngineUnreachable
from clusters.engines.kubernetes import names
from clusters.engines.kubernetes.api import Api, ApiRefused, Conflict, Forbidden, Json, NotFound
from clusters.engines.kubernetes.config import KubernetesConfig

_TRIES = 3  # A kubelet changes its node, too.


def read_cordon(node: Mapping[str, Any], cluster_id: str) -> ClusterCordon | None:
    """The cordon of a node, or the note of one that somebody else took back; None without either. Pure."""
    notes = (node.get("metadata") or {}).get("annotations") or {}
    holds, is_ours = bool((node.get("spec") or {}).get("unschedulable")), notes.get(names.CORDONED_BY) == cluster_id
    if not holds and not is_ours:
        return None
    return ClusterCordon(is_ours=is_ours, reason=str(notes.get(names.CORDON_REASON, "")) if is_ours else "", holds=holds)


def change_of(found: ClusterCordon | None, wish: CordonWish, cluster_id: str) -> Json | None:
    """What to change of a node with this cordon; None: nothing. Pure."""
    if wish.is_cordoned:
        is_done = found is not None and found.holds and (not found.is_ours or found.reason == wish.reason)
        notes = {names.CORDONED_BY: cluster_id, names.CORDON_REASON: wish.reason}
        return None if is_done else {"spec": {"unschedulable": True}, "metadata": {"annotations": notes}}
    if found is None or not found.is_ours:
        return None
    return {
        "spec": {"unschedulable": None},
        "metadata": {"annotations": {names.CORDONED_BY: None, names.CORDON_REASON: None}},
    }


def set_all(api: Api, config: KubernetesConfig, wishes: Sequence[CordonWish]) -> list[CordonAnswer]:
    """Do what is wished for, each by itself."""
    if not config.cordon_nodes:
        return [CordonAnswer.REFUSED for _ in wishes]
    with ThreadPoolExecutor(max(1, min(config.parallel, len(wishes))), thread_name_prefix="kubernetes-cordons") as pool:
        return list(pool.map(lambda wish: _set(api, config.cluster_id, wish), wishes))


def _set(api: Api, cluster_id: str, wish: CordonWish) -> CordonAnswer:
    path = f"/api/v1/nodes/{wish.node}"
    try:
        for _ in range(_TRIES):
            node = api.get(path)
            found = read_cordon(node, cluster_id)
            change = change_of(found, wish, cluster_id)
            if change is None:
                return CordonAnswer.OTHERS if found is not None and not found.is_ours else CordonAnswer.DONE
            change["metadata"]["resourceVersion"] = node["metadata"]["resourceVersion"]
            try:
                api.patch(path, change)
            except Conflict:
                continue
            return CordonAnswer.DONE
    except NotFound:
        return CordonAnswer.DONE  # Nothing starts on a node that is gone.
    except Forbidden:
        return CordonAnswer.REFUSED
    except (ApiRefused, EngineUnreachable):
        return CordonAnswer.RETRY
    return CordonAnswer.RETRY
