"""What of jobs stands against the removal of a cluster, or against pointing it at another place."""

from __future__ import annotations

import uuid
from collections.abc import Sequence

from clusters.selectors import find_cluster
from clusters.services import Obstacle
from jobs.lifecycle.states import AttemptState
from jobs.models import Attempt
from kernel.words import Text, counted

NAMED_MAX = 3  # Jobs that the refusal names.
DRAIN_IT = Text(
    "Drain it first: `berth clusters disable` keeps new ones away; wait for these, or stop them with `berth stop`.",
    "请先排空：`berth clusters disable` 不再接受新的尝试；请等待这些结束，或用 `berth stop` 停止。",
)
LOSE_IT = Text(
    "The cluster does not answer. Wait until it does; if it never will, disable it and declare it lost: `berth clusters lose`.",
    "该集群没有应答。请等待其恢复；若不会再恢复，请停用并声明丢失：`berth clusters lose`。",
)


def obstacles(cluster_id: uuid.UUID, pool_ids: Sequence[uuid.UUID]) -> list[Obstacle]:
    """Attempts that live there, or that have ended and left something there. At most four queries.

    What ended attempts left on a cluster that does not answer is given up with it; whether attempts live there only it can say.
    """
    found = []
    cluster = find_cluster(cluster_id)
    is_silent = cluster is not None and cluster.condition == "lost_contact"
    live = Attempt.objects.filter(cluster_id=cluster_id).exclude(state=AttemptState.ENDED)
    if count := live.count():
        names = ", ".join(live.order_by("id").values_list("job__name", flat=True)[:NAMED_MAX])
        more = ", ..." if count > NAMED_MAX else ""
        text = Text(
            f"{counted(count, 'attempt lives', 'attempts live')} there ({names}{more}).",
            f"其上还有 {count} 个尝试（{names}{more}）。",
        )
        hint = LOSE_IT if is_silent else DRAIN_IT
        found.append(Obstacle("live_attempts", text, hint, is_of_place=True))
    if is_silent:
        return found
    if left := Attempt.objects.filter(cluster_id=cluster_id, state=AttemptState.ENDED, forgotten=False).count():
        text = Text(
            f"Output of {counted(left, 'ended attempt', 'ended attempts')} is still being fetched from it.",
            f"仍在从其上取回 {left} 个已结束尝试的输出。",
        )
        hint = Text("Try again in a few seconds.", "请过几秒再试。")
        found.append(Obstacle("unfinished_attempts", text, hint, is_of_place=True))
    return found
