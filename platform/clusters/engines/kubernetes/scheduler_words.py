"""What the cluster's scheduler says of a pod that it finds no node for.

Berth chooses the node, and looks at all that an inventory tells of nodes. Where a volume is, which pods have it and how many more
a node can attach, the cluster alone knows: of these its scheduler speaks, in the words of its plugins, and each has a code here.
"""

from __future__ import annotations

from clusters.engines.interface import StartStep

_OF_VOLUMES: tuple[tuple[StartStep, tuple[str, ...]], ...] = (
    (
        StartStep.VOLUME_UNBOUND,  # Plugin VolumeBinding.
        (
            "unbound immediate PersistentVolumeClaims",
            "didn't find available persistent volumes to bind",
            "did not have enough free storage",
            "bound to non-existent",
            'persistentvolumeclaim "',  # Not found, or being deleted.
        ),
    ),
    (
        StartStep.VOLUME_ELSEWHERE,  # VolumeZone, and VolumeBinding of volumes that are bound.
        (
            "had no available volume zone",
            "didn't match PersistentVolume's node affinity",
            "volume node affinity conflict",  # Before 1.35.
        ),
    ),
    (StartStep.VOLUME_IN_USE, ("had no available disk", "ReadWriteOncePod access mode")),  # VolumeRestrictions.
    (StartStep.VOLUMES_ATTACHED, ("exceed max volume count",)),  # NodeVolumeLimits.
)


def step_of(message: str) -> StartStep:
    """What a pod waits for that the scheduler says this of. Nodes that Berth did not choose are in its words with other ones."""
    for step, phrases in _OF_VOLUMES:
        if any(phrase in message for phrase in phrases):
            return step
    return StartStep.UNSCHEDULABLE
