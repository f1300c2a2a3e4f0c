"""The closed table of what is measured: names, units and meaning. A name that is not in it is never stored or shown.

Names end in their unit. Subjects are `node:<name>`, `gpu:<node>:<identifier>`, `task:<attempt id>:<role>:<index>`
and, told by the scheduler, `pool:<id>`. Engines
fill the table in as far as they can measure; what they cannot measure they leave out, and the series has a gap. An engine
knows only its own nodes: what is stored names the cluster too (`scoped`), because two clusters may both have a `node-1`.
"""

from __future__ import annotations

import uuid
from dataclasses import dataclass
from enum import StrEnum


class Unit(StrEnum):
    """Base units only; a screen chooses GiB or percent."""

    CORES_THOUSANDTHS = "thousandths of a core"
    RATIO = "ratio 0-1"
    BYTES = "bytes"
    BYTES_PER_SECOND = "bytes per second"
    WATTS = "watts"
    CELSIUS = "degrees Celsius"
    CODE = "code"
    COUNT = "count"


class SubjectKind(StrEnum):
    NODE = "node"
    GPU = "gpu"
    TASK = "task"
    POOL = "pool"


@dataclass(frozen=True, slots=True)
class Metric:
    """One measured quantity. All are gauges: a value holds at its moment, rates are computed where they are measured."""

    name: str
    unit: Unit
    help: str
    subjects: frozenset[SubjectKind]


_NODE_TASK = frozenset({SubjectKind.NODE, SubjectKind.TASK})
_NODE = frozenset({SubjectKind.NODE})
_TASK = frozenset({SubjectKind.TASK})
_GPU_TASK = frozenset({SubjectKind.GPU, SubjectKind.TASK})
_GPU = frozenset({SubjectKind.GPU})
_POOL = frozenset({SubjectKind.POOL})

_TABLE = (
    Metric("cpu_millis", Unit.CORES_THOUSANDTHS, "Processor time used per second; 1000 is one core fully busy.", _NODE_TASK),
    Metric("memory_bytes", Unit.BYTES, "Memory in use: resident for a task, not available for a node.", _NODE_TASK),
    Metric("disk_read_bytes_per_second", Unit.BYTES_PER_SECOND, "Read from disks.", _NODE_TASK),
    Metric("disk_write_bytes_per_second", Unit.BYTES_PER_SECOND, "Written to disks.", _NODE_TASK),
    Metric("disk_used_bytes", Unit.BYTES, "Used on the file system that holds working directories and data.", _NODE),
    Metric("disk_free_bytes", Unit.BYTES, "Free on the file system that holds working directories and data.", _NODE),
    Metric("network_receive_bytes_per_second", Unit.BYTES_PER_SECOND, "Received on all interfaces but loopback.", _NODE),
    Metric("network_transmit_bytes_per_second", Unit.BYTES_PER_SECOND, "Sent on all interfaces but loopback.", _NODE),
    Metric("processes", Unit.COUNT, "Live processes of the task's tree.", _TASK),
    Metric(
        "gpu_utilization_ratio",
        Unit.RATIO,
        "Share of time in which any kernel ran, mean over the task's devices. It does not say how full the device was.",
        _GPU_TASK,
    ),
    Metric(
        "gpu_memory_bytes",
        Unit.BYTES,
        "Device memory in use, summed over the task's devices; of a shared one its own where it is known.",
        _GPU_TASK,
    ),
    Metric("gpu_power_watts", Unit.WATTS, "Power drawn, summed over the task's devices.", _GPU_TASK),
    Metric("gpu_temperature_celsius", Unit.CELSIUS, "Temperature of the device; the hottest of the task's devices.", _GPU_TASK),
    Metric("gpu_xid_code", Unit.CODE, "Last Xid error that the driver reported since the engine started; 0 is none.", _GPU),
    Metric("gpu_idle", Unit.COUNT, "Whole GPUs of a pool that are idle, on machines on which something may start.", _POOL),
    Metric("gpu_largest_task", Unit.COUNT, "The most whole GPUs that one task could get now.", _POOL),
    Metric("gpu_largest_job", Unit.COUNT, "The most GPUs that a job of equal tasks of a usual shape could get now.", _POOL),
    Metric(
        "gpu_fragmentation_ratio",
        Unit.RATIO,
        "Which part of the idle GPU a task of those that the pool usually gets cannot use, in expectation.",
        _POOL,
    ),
)

METRICS: dict[str, Metric] = {metric.name: metric for metric in _TABLE}


def metrics_of(kind: SubjectKind) -> tuple[Metric, ...]:
    """All metrics that a subject of this kind can have, in the order of the table."""
    return tuple(metric for metric in _TABLE if kind in metric.subjects)


def node_subject(node: str) -> str:
    return f"{SubjectKind.NODE}:{node}"


def gpu_subject(node: str, identifier: str) -> str:
    return f"{SubjectKind.GPU}:{node}:{identifier}"


def task_subject(attempt_id: uuid.UUID, role: str, index: int) -> str:
    return f"{SubjectKind.TASK}:{attempt_id}:{role}:{index}"


def pool_subject(pool_id: uuid.UUID) -> str:
    return f"{SubjectKind.POOL}:{pool_id}"


def scoped(cluster_id: uuid.UUID, subject: str) -> str:
    """An engine's subject as it is stored: nodes and GPUs of different clusters stay apart. Tasks are unique already."""
    head, separator, rest = subject.partition(":")
    return f"{head}:{cluster_id}/{rest}" if separator and head != SubjectKind.TASK else subject


def unscoped(subject: str) -> str:
    """A stored subject as the engine and people name it."""
    head, _, rest = subject.partition(":")
    return subject if head == SubjectKind.TASK else f"{head}:{rest.partition('/')[2]}"


def kind_of(subject: str) -> SubjectKind | None:
    """What a subject is, or None if its text is none of ours."""
    head, _, rest = subject.partition(":")
    return next((kind for kind in SubjectKind if kind == head and rest), None)
