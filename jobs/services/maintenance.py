"""Maintenance as jobs feel it: when a window begins its machines are taken, and emptied where that was asked; then they return.

`look` is a duty, and may run late, twice or beside another: every step asks what is so and does what is missing.
"""

from __future__ import annotations

from datetime import datetime

import structlog
from django.db import transaction

from clusters.services import begin_windows, end_windows, nodes_to_empty
from clusters.services.maintenance import OutOfService, is_to_be_emptied
from jobs.lifecycle.states import ATTEMPT_LIFECYCLE, AttemptState
from jobs.models import Task
from jobs.services.draining import drain_node
from kernel.actor import system_actor
from kernel.errors import BerthError

ACTOR = system_actor("maintenance")
DRAINS_AT_ONCE = 100  # Machines of one look; the next one goes on.

log = structlog.get_logger("maintenance")


def look(now: datetime) -> int:
    """End what is over, begin what is due, and empty what is to be emptied; returns how many machines were drained."""
    end_windows(now)
    begin_windows(now)
    drained = 0
    for node in _to_empty(now):
        if drained == DRAINS_AT_ONCE:
            break
        try:
            drained += _drain(node, now)
        except BerthError as error:  # Of one machine: it takes no place of the others, and the next look tries again.
            log.warning("drain_refused", node_id=str(node.id), detail=error.detail)
    return drained


def _drain(node: OutOfService, now: datetime) -> bool:
    """Empty a machine, unless an operator took it back or ended its window while the others before it were emptied: draining it
    would cordon it again, and no operator would return it."""
    with transaction.atomic():
        if not is_to_be_emptied(node.id, now):
            return False
        drain_node(actor=ACTOR, node_id=node.id, reason=node.reason, now=now)
    return True


def _to_empty(now: datetime) -> list[OutOfService]:
    """Machines of windows under way on which something runs that was not told to go. Three queries."""
    nodes = {(node.cluster_id, node.name): node for node in nodes_to_empty(now)}
    if not nodes:
        return []
    staying = [state for state in ATTEMPT_LIFECYCLE.live_states if state != AttemptState.STOPPING]
    rows = (
        Task.objects.filter(node_name__in={name for _, name in nodes}, attempt__state__in=staying)
        .order_by()
        .values_list("attempt__cluster_id", "node_name")
        .distinct()
    )
    return [nodes[key] for key in sorted(rows, key=str) if key in nodes]
