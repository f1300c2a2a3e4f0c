"""The codes for which jobs wait. They stand here, for apps below jobs answer with them, too; what each of them means is told by
`jobs/lifecycle/wait_reasons.py`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from enum import StrEnum


class WaitCode(StrEnum):
    """Why a job waits. The values are stored."""

    CLAIM = "claim"
    MOVING = "moving"
    SCHEDULING = "scheduling"
    ARRAY = "array"
    RETRYING = "retrying"
    PREEMPTED_OFTEN = "preempted_often"
    RESTORED = "restored"
    QUARANTINED = "quarantined"
    QUARANTINED_UNKNOWN = "quarantined_unknown"
    SET_ASIDE = "set_aside"
    IMAGE_KIND = "image_kind"
    GPU_MODEL = "gpu_model"
    NO_MOUNTS = "no_mounts"
    VOLUME_PLACE = "volume_place"
    CHECKPOINT_PLACE = "checkpoint_place"
    GPU_SHARES = "gpu_shares"
    CLUSTER_LACKS = "cluster_lacks"
    CLUSTER_DISABLED = "cluster_disabled"
    CLUSTER_UNREACHABLE = "cluster_unreachable"
    ONE_TENANT_ONLY = "one_tenant_only"
    NO_MACHINES = "no_machines"
    NO_READY_NODE = "no_ready_node"
    LARGER_THAN_POOL = "larger_than_pool"
    LABEL = "label"
    TAINT = "taint"
    EXCLUSIVE_CORES = "exclusive_cores"
    NO_PLACE = "no_place"
    SHM = "shm"
    PORTS = "ports"
    NO_SHELL = "no_shell"
    TENANT_DISABLED = "tenant_disabled"
    OWNER_LEFT = "owner_left"
    HELD = "held"
    BUDGET = "budget"
    IMAGE_BUILDING = "image_building"
    DEPENDENCY = "dependency"
    NOT_BEFORE = "not_before"
    CHECKPOINT_UNREADABLE = "checkpoint_unreadable"
    CHECKPOINT_OVER_QUOTA = "checkpoint_over_quota"
    CHECKPOINT_CHECKING = "checkpoint_checking"
    ARRAY_PARALLELISM = "array_parallelism"
    USER_CAP = "user_cap"
    TENANT_CAP = "tenant_cap"
    NO_POOL = "no_pool"
    NO_MACHINE = "no_machine"
    CEILING_TOO_LOW = "ceiling_too_low"
    CEILING = "ceiling"
    KEPT_FOR_OTHERS = "kept_for_others"
    WITHHELD = "withheld"
    ADVANCE_RESERVATION = "advance_reservation"  # Room that a tenant booked for a time.
    CAPACITY = "capacity"
    BEHIND = "behind"
    NOT_TOGETHER = "not_together"
    NO_ROOM = "no_room"
    MAKING_ROOM = "making_room"
    BACKFILL_RESERVATION = "backfill_reservation"  # Room that is held for the reserved start of an earlier job.
    TOO_YOUNG = "too_young"
    EVICTION_BRAKE = "eviction_brake"
    BRAKE = "brake"


RENAMED: Mapping[str, WaitCode] = {
    "booked": WaitCode.BACKFILL_RESERVATION,
    "reserved": WaitCode.ADVANCE_RESERVATION,
}
"""Codes by their names in earlier releases. What reads a stored code reads these names as well: in a rolling upgrade, a process
of such a release still writes them, and its event logs hold them."""


def present_code(code: str) -> str:
    """The present name of a stored code; any other text as it is."""
    return RENAMED.get(code, code)


def stored_names(codes: Iterable[WaitCode]) -> frozenset[str]:
    """All names under which these codes are stored."""
    wanted = frozenset(codes)
    return wanted | {earlier for earlier, code in RENAMED.items() if code in wanted}
