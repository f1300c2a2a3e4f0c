"""Whether more of what an attempt printed will come."""

from __future__ import annotations

import uuid

from clusters.selectors import awaited_clusters
from jobs.lifecycle.states import AttemptState
from jobs.models import Attempt


def has_given_up_output(attempt_id: uuid.UUID) -> bool:
    """Whether an attempt has ended in a cluster that was declared lost, or removed, before all of its output was fetched: no
    reader has to wait for the rest, which is taken in if the cluster comes back. One query, two of an attempt that has ended."""
    ended = Attempt.objects.filter(id=attempt_id, state=AttemptState.ENDED, logs_stored=False)
    cluster_id = ended.values_list("cluster_id", flat=True).first()
    return cluster_id is not None and cluster_id not in awaited_clusters()
