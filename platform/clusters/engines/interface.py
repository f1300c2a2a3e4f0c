"""The contract between Berth and whatever runs workloads. Plain values only: no Django object passes here.

An engine is one instance per Cluster row. Every call takes a batch and gives one answer per item, in order. Each call is
idempotent by attempt id, returns soon, and says whether to retry or to give up. Absence of an attempt in `observe` means
that it is gone only if the answer is `complete`; lost contact is `UNREACHABLE`, never an end.

A framework knows no engine and an engine no framework: the two meet in `Workload`. One contract suite
(`tests/contract/`) runs against every engine, the fake included.
"""

from __future__ import annotations

import os
import uuid
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import Protocol, runtime_checkable

from kernel.resources import ZERO, Resources
from kernel.signals import SignalTarget

AttemptId = uuid.UUID


# --- What should run -------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class AddressOf:
    """Stands for the network address of one task; the engine fills it in once it knows."""

    role: str
    index: int


@dataclass(frozen=True, slots=True)
class PortOf:
    """Stands for the number that the engine leased for the named port of one task."""

    role: str
    index: int
    name: str


@dataclass(frozen=True, slots=True)
class FileOf:
    """Stands for the absolute path, as the task sees it, of one of the workload's `files`."""

    name: str


@dataclass(frozen=True, slots=True)
class CheckpointDir:
    """Stands for the absolute path, as the task sees it, of the directory of the workload's `checkpoint`."""


TextPart = str | AddressOf | PortOf | FileOf | CheckpointDir
Text = tuple[TextPart, ...]
"""A value whose parts are joined after the engine resolved addresses, ports and paths. Never a template string."""


class ImageKind(StrEnum):
    HOST = "host"  # The host's own programs.
    PYTHON = "python"  # A Python environment; `location` is its directory, `bin/` goes first on PATH.
    REGISTRY = "registry"  # A container image; `location` is the reference pinned by digest.


@dataclass(frozen=True, slots=True)
class PullAccount:
    """Whom a registry takes the tenant for. An engine hands it to what pulls, and writes it nowhere else: as `secret_env`."""

    host: str
    username: str
    password: str = field(repr=False)


@dataclass(frozen=True, slots=True)
class ImageRef:
    """`unchecked`: no registry has confirmed that the tenant may have this container image. An engine that finds it among what
    others pulled asks the registry before it uses it."""

    kind: ImageKind
    digest: str
    location: str = ""
    pull: PullAccount | None = None
    unchecked: bool = False


@dataclass(frozen=True, slots=True)
class HostDir:
    """A directory of the platform's hosts."""

    path: str


@dataclass(frozen=True, slots=True)
class Claim:
    """A PersistentVolumeClaim of one cluster, in the namespace of the tenant. `is_made`: the engine makes it when a workload
    mounts it first, of `size_bytes`; 0 means the cluster's default. Else it is somebody else's, and there."""

    cluster_id: uuid.UUID
    name: str
    is_made: bool = False
    size_bytes: int = 0


@dataclass(frozen=True, slots=True)
class Share:
    """A directory that an NFS server exports."""

    server: str
    path: str


Place = HostDir | Claim | Share
"""Where data is that a task mounts."""


@dataclass(frozen=True, slots=True)
class MountRef:
    """A volume as a task sees it. `group` is the volume's own number, mapped to a gid of its own by the local engine."""

    volume_id: uuid.UUID
    place: Place
    target: str
    read_only: bool
    group: int = 0


@dataclass(frozen=True, slots=True)
class CodeRef:
    """A content-addressed snapshot (tar archive, gzip) unpacked into the working directory before the first task starts."""

    digest: str
    location: str


@dataclass(frozen=True, slots=True)
class CheckpointRef:
    """The directory that a job keeps over its attempts. It is there before the first task starts, and `forget` leaves it.

    With a `location` it is the platform's: owned by the tenant, closed to all others, and seen at `target` below the working
    directory. Without one `target` is an absolute path inside a mount, where the directory is made if it is missing. `per` says
    that each `role` or each `task` has a directory of its own in it: the variable BERTH_CHECKPOINT_DIR of a task names its own.
    """

    id: uuid.UUID
    location: str
    target: str
    per: str = "job"


@dataclass(frozen=True, slots=True)
class TaskName:
    role: str
    index: int

    def __str__(self) -> str:
        return f"{self.role}-{self.index}"


@dataclass(frozen=True, slots=True)
class TaskWorkload:
    """One process to start. `argv` is executed as it stands; nothing in it is interpreted by Berth.

    `secret_env` holds decrypted secrets: an engine hands them to the process and writes them nowhere else that outlives
    the task, and never into argv, labels, annotations, logs or errors.
    """

    name: TaskName
    argv: tuple[Text, ...]
    env: Mapping[str, Text]
    secret_env: Mapping[str, str] = field(default_factory=dict, repr=False)
    resources: Resources = ZERO
    shm_bytes: int = 0
    ports: tuple[str, ...] = ()
    node: str = ""  # Name of the node that the scheduler chose.
    rdma: bool = False  # The node's adapters for remote memory access.
    cpu_exclusive: bool = False  # Whole cores that no other task runs on, as many as `resources` say, rounded up.
    builds_image: bool = False  # User 0 of a user namespace of the tenant's, in which it mounts and changes its root.


@dataclass(frozen=True, slots=True)
class Workload:
    """An attempt compiled for an engine. All tasks start together or none does."""

    attempt_id: AttemptId
    job_id: uuid.UUID
    number: int
    name: str
    isolation_key: str  # The tenant's immutable slug.
    isolation_number: int  # The tenant's number, never reused; the local engine derives the uid from it.
    user_key: str
    labels: Mapping[str, str]
    image: ImageRef
    tasks: tuple[TaskWorkload, ...]
    mounts: tuple[MountRef, ...] = ()
    code: CodeRef | None = None
    files: Mapping[str, Text] = field(default_factory=dict)  # Small generated files (a hostfile), by plain file name.
    workdir: str = ""  # Relative to the unpacked code; "" is its root.
    log_quota_bytes: int = 0  # Per task and stream; 0 means the engine's default.
    network: bool = True  # Whether tasks may reach beyond the host; builds need it.
    checkpoint: CheckpointRef | None = None
    keeps_outputs: bool = False  # What tasks leave in their working directories is read after the end: it stays until `forget`.


# --- What keeps a task from beginning ---------------------------------------------------------------------------------


class StartStep(StrEnum):
    """What a task that has not begun waits for. The platform has the words (`jobs/lifecycle/start_waits.py`)."""

    CREATING = "creating"  # Nothing out of the ordinary: its objects, its sandbox, its network.
    WAITING_FOR_QUEUE = "waiting_for_queue"  # A queue of the cluster's own holds it: Kueue, Volcano.
    QUOTA = "quota"  # A quota of the cluster is used up.
    UNSCHEDULABLE = "unschedulable"  # The cluster's scheduler finds no node.
    VOLUME_UNBOUND = "volume_unbound"  # The same, and why: for a claim there is no volume.
    VOLUME_ELSEWHERE = "volume_elsewhere"  # One of its volumes is in another zone or on another node.
    VOLUME_IN_USE = "volume_in_use"  # Another pod has one of its volumes that a single pod may have.
    VOLUMES_ATTACHED = "volumes_attached"  # The node can attach no more volumes.
    WAITING_FOR_DEVICES = "waiting_for_devices"  # Ports, GPUs or cores of its node are not free yet.
    MOUNTING = "mounting"  # Volumes are being attached and mounted.
    PULLING_IMAGE = "pulling_image"  # The time for starting stands still meanwhile.
    IMAGE_RETRY = "image_retry"  # The image could not be pulled; it is tried again.
    BRINGING_CODE = "bringing_code"  # The platform writes its code to where it will run.
    WAITING_FOR_GANG = "waiting_for_gang"  # It is ready, and other tasks of the attempt are not.
    CLUSTER_UNREACHABLE = "cluster_unreachable"


WAITING_TEXT_LENGTH = 500  # Of a cluster's own words; they are for reading, and stand in a row per task.


@dataclass(frozen=True, slots=True)
class TaskWaiting:
    """Why a task has not begun. `text`: the cluster's own words, as they are, where it has any."""

    code: StartStep
    text: str = ""


# --- Answers to ensure, stop and forget ------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Ensured:
    """The attempt exists on the engine. Whether it runs is for `observe` to say."""

    attempt_id: AttemptId
    created: bool  # False: it was there already, from an earlier call.


@dataclass(frozen=True, slots=True)
class Retry:
    """Not done; the same call may succeed after `after_seconds`. `waiting`: what all tasks of the attempt wait for until then."""

    attempt_id: AttemptId
    code: str
    detail: str
    after_seconds: float = 1.0
    waiting: TaskWaiting | None = None


@dataclass(frozen=True, slots=True)
class GiveUp:
    """Will never succeed as asked. `code` is an entry of the exit classification (`jobs/lifecycle/exits.py`)."""

    attempt_id: AttemptId
    code: str
    detail: str


class StopCause(StrEnum):
    """Why an attempt is stopped; recorded with the exit, so that a kill of ours is never taken for an OOM."""

    USER = "user"
    PREEMPTED = "preempted"
    DEADLINE = "deadline"  # max_runtime is over.
    COMPLETION = "completion"  # The completion policy decided while other tasks still ran.
    PLATFORM = "platform"  # Start timeout, quarantine, drain.
    GPU_FAULT = "gpu_fault"  # A device that it holds is out of order.


@dataclass(frozen=True, slots=True)
class Stop:
    """A task is over when none of its processes is left, or the grace is over: KILL follows then, to all of them."""

    attempt_id: AttemptId
    grace_seconds: float
    cause: StopCause
    signal: str = "TERM"  # A signal name without SIG.
    target: SignalTarget = SignalTarget.PROGRAMS


@dataclass(frozen=True, slots=True)
class Stopping:
    attempt_id: AttemptId


@dataclass(frozen=True, slots=True)
class Gone:
    """Nothing of the attempt runs, and nothing will: an attempt never seen is refused from now on (tombstone)."""

    attempt_id: AttemptId


@dataclass(frozen=True, slots=True)
class Forgotten:
    """All traces are removed but a tombstone that refuses a late `ensure` for 7 days."""

    attempt_id: AttemptId


# --- What is seen ----------------------------------------------------------------------------------------------------


class TaskState(StrEnum):
    PENDING = "pending"
    RUNNING = "running"
    ENDED = "ended"
    GONE = "gone"  # The engine is certain that it does not run, and does not know how it ended.
    UNREACHABLE = "unreachable"


class ExitReason(StrEnum):
    """What the engine knows about an end beyond the code. Empty evidence is `NONE`; the classification does the rest."""

    NONE = "none"
    OOM = "oom"  # Memory limit of the task.
    NODE_OOM = "node_oom"  # The machine itself ran out.
    STOPPED = "stopped"  # Ended after a `stop` of ours; see `stop_cause`.
    START_FAILED = "start_failed"  # The program could not be executed.
    NODE_LOST = "node_lost"  # The machine rebooted or is gone for certain.
    EVICTED = "evicted"
    GPU_FAULT = "gpu_fault"


@dataclass(frozen=True, slots=True)
class TaskExit:
    """How a task ended: `code` 0..255 as a shell sees it, or None when only `signal` (a number) or the reason is known."""

    code: int | None
    signal: int | None = None
    reason: ExitReason = ExitReason.NONE
    stop_cause: StopCause | None = None
    evidence: str = ""
    given_up: str = ""  # Where the engine gave the task up: an entry of the exit classification, as in `GiveUp`.


@dataclass(frozen=True, slots=True)
class TaskObservation:
    name: TaskName
    state: TaskState
    exit: TaskExit | None = None
    node: str = ""
    address: str = ""
    ports: Mapping[str, int] = field(default_factory=dict)
    gpus: tuple[str, ...] = ()  # Device identifiers leased to the task.
    gpus_simulated: bool = False
    pid: int | None = None
    started_at: datetime | None = None
    ended_at: datetime | None = None
    waiting: TaskWaiting | None = None  # Of a PENDING task, where the engine can tell.


@dataclass(frozen=True, slots=True)
class AttemptLabels:
    """What the engine's object says of itself: enough to find its job again when the database has forgotten the attempt.

    `amounts` are what each task was given. A field that an object of an older release lacks is None, empty or left out.
    """

    job_id: uuid.UUID | None = None
    number: int | None = None
    name: str = ""
    isolation_key: str = ""
    amounts: Mapping[TaskName, Resources] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class AttemptObservation:
    """`labels` None: this engine does not say; an engine that can be restored beside gives them."""

    attempt_id: AttemptId
    tasks: tuple[TaskObservation, ...]
    labels: AttemptLabels | None = None


Cursor = str


@dataclass(frozen=True, slots=True)
class Observations:
    """`complete` True: an attempt that is not among the items does not exist on the engine. `cursor` is opaque."""

    items: tuple[AttemptObservation, ...]
    cursor: Cursor
    complete: bool
    read_at: datetime


class Stream(StrEnum):
    OUT = "stdout"
    ERR = "stderr"


LogCursor = int
"""A byte offset in one stream of one task, counted from its first byte; it never moves back or restarts."""


@dataclass(frozen=True, slots=True)
class LogChunk:
    offset: int
    data: bytes
    marker: str = ""  # Set instead of data where bytes are missing: why, in words. `skipped_bytes` says how many.
    skipped_bytes: int = 0


@dataclass(frozen=True, slots=True)
class LogChunks:
    """`complete` True: the task has ended and nothing follows `cursor`. `drained` True: nothing followed it when the engine
    looked, so that asking again at once would be in vain; an engine that does not know leaves it False.
    """

    chunks: tuple[LogChunk, ...]
    cursor: LogCursor
    complete: bool
    drained: bool = False


@dataclass(frozen=True, slots=True)
class GpuDevice:
    identifier: str
    model: str
    memory_bytes: int
    healthy: bool = True
    simulated: bool = False


@dataclass(frozen=True, slots=True)
class ClusterCordon:
    """A cordon in the cluster itself, which its own scheduler heeds. `is_ours`: Berth made it, for this reason. `holds` False:
    somebody took ours back with the cluster's own tools."""

    is_ours: bool
    reason: str = ""
    holds: bool = True


@dataclass(frozen=True, slots=True)
class ObservedNode:
    name: str
    capacity: Resources
    gpus: tuple[GpuDevice, ...] = ()
    gpu_model: str = ""
    ready: bool = True
    reason: str = ""
    labels: Mapping[str, str] = field(default_factory=dict)  # kernel, os, driver, isolation facts.
    offers: Resources | None = None  # With what others use of it, who are none of ours: by this it is put into a pool.
    tasks_max: int | None = None  # How many tasks it takes, whatever they need; None: no bound.
    cordon: ClusterCordon | None = None  # One of somebody else makes a node not ready, too.
    images: frozenset[str] | None = None  # Digests of all images that are there; None: this engine does not say.
    data: frozenset[str] | None = None  # Ids of all volumes whose data is there; None: this engine does not say.


@dataclass(frozen=True, slots=True)
class Places:
    """What an engine mounts into tasks. The default is a host of the platform itself."""

    below: tuple[str, ...] = ("/",)  # Absolute paths: of the platform's hosts, only directories below one of them.
    claims: bool = False  # Claims of its own cluster that are there.
    makes_claims: bool = False  # Claims that it makes itself.
    shares: tuple[str, ...] = ()  # Of these NFS servers, everything that they export.
    checkpoints: bool = True  # A job's checkpoint directory, also where the platform's own is below no such path.

    def __bool__(self) -> bool:
        """Whether any volume at all can be mounted."""
        return bool(self.below or self.claims or self.makes_claims or self.shares)

    def has(self, place: Place, cluster_id: uuid.UUID) -> bool:
        """Whether the engine of this cluster mounts it."""
        match place:
            case HostDir(path):
                return self.root_of(path) is not None
            case Claim():
                return place.cluster_id == cluster_id and (self.makes_claims if place.is_made else self.claims)
            case Share(server):
                return server in self.shares

    def root_of(self, path: str) -> str | None:
        """The path of `below` that a directory of the platform's hosts is under; None: it is under none."""
        inside = os.path.normpath(path)
        return next((root for root in self.below if inside.startswith(os.path.normpath(root).rstrip("/") + "/")), None)

    def keeps_checkpoint(self, path: str) -> bool:
        """Whether a job's checkpoint, for which the platform has this directory, outlives its attempts."""
        return self.checkpoints or self.root_of(path) is not None


NO_PLACES = Places(below=())


@dataclass(frozen=True, slots=True)
class Abilities:
    """What an engine can do for any job, whatever its machines have: what no engine can do is refused when a job is submitted."""

    image_kinds: frozenset[ImageKind] = frozenset({ImageKind.HOST, ImageKind.PYTHON})
    places: Places = Places()  # Where volumes may be that are mounted into its tasks.
    node_ports: int | None = None  # Ports that the tasks of one machine can have together; None: no bound.
    shares_gpus: bool = False  # Several tasks can have parts of one device.
    lacks: tuple[str, ...] = ()  # Kinds of objects that its settings need and the cluster does not have: no job can start.
    bare_images: tuple[str, ...] = ()  # Beginnings of references of images without a shell: no code and no checkpoint in them.


@dataclass(frozen=True, slots=True)
class Inventory:
    nodes: tuple[ObservedNode, ...]
    read_at: datetime
    abilities: Abilities = Abilities()
    isolation: tuple[str, ...] = ()  # What keeps tenants apart here, and plainly what does not: shown to operators.
    tenants_kept_apart: bool = True  # False: the cluster takes jobs of one tenant only.
    has_cordons: bool = False  # Nodes can be cordoned in the cluster itself, too.
    note: str = ""  # What keeps a cluster that answers from being of use, for operators.


class EngineUnreachable(Exception):
    """The engine did not answer. The caller marks the cluster's condition and tries again later; nothing is decided."""


class Engine(Protocol):
    """One kind of cluster, already bound to one Cluster row."""

    def ensure(self, workloads: Sequence[Workload]) -> Sequence[Ensured | Retry | GiveUp]: ...

    def observe(self, cursor: Cursor | None) -> Observations: ...

    def stop(self, stops: Sequence[Stop]) -> Sequence[Stopping | Gone | Retry]: ...

    def forget(self, attempts: Sequence[AttemptId]) -> Sequence[Forgotten | Retry]: ...

    def logs(self, attempt: AttemptId, task: TaskName, stream: Stream, cursor: LogCursor | None) -> LogChunks: ...

    def inventory(self) -> Inventory: ...


# --- More abilities, asked for by type -------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class OutputFile:
    """One regular file below a task's working directory; `path` is relative, with forward slashes, as text of
    `kernel.file_names`."""

    path: str
    size_bytes: int
    mode: int


class OutputsLost(Exception):
    """Files are gone, or cannot be read, and it will stay so; the words say whose and why. `files` are those that are there."""

    def __init__(self, why: str, files: Sequence[OutputFile] = ()) -> None:
        super().__init__(why)
        self.files = tuple(files)


@runtime_checkable
class SupportsOutputs(Protocol):
    """Reading what a finished attempt left in its working directory, with the rights of its tenant, never with ours."""

    def list_outputs(self, attempt: AttemptId, paths: Sequence[str]) -> Sequence[OutputFile]:
        """Give the regular files that the paths mean. Raises OutputsLost, EngineUnreachable."""
        ...

    def open_output(self, attempt: AttemptId, path: str) -> int:
        """Give a file descriptor to read one that was listed before, beneath the working directory; links are not followed. What
        is read may be shorter than was listed: then it was cut off. Raises FileNotFoundError, EngineUnreachable."""
        ...


LogStreamName = tuple[AttemptId, TaskName, Stream]


@runtime_checkable
class SupportsLogMarks(Protocol):
    """Telling of many streams at once, and cheaply, which of them went on."""

    def log_marks(self, streams: Sequence[LogStreamName]) -> Sequence[Hashable]:
        """One mark for each stream, in order: while it stays the same, `logs` has no more bytes to give than before."""
        ...


@dataclass(frozen=True, slots=True)
class Sample:
    """One measurement. `subject` is `node:<name>`, `task:<attempt id>:<role>:<index>` or `gpu:<node>:<identifier>`."""

    subject: str
    metric: str  # A name of clusters/telemetry/metrics.py, with its unit.
    value: float


@runtime_checkable
class SupportsMetrics(Protocol):
    def sample(self) -> Sequence[Sample]:
        """Measure all nodes and live tasks now; what cannot be measured is left out, never guessed. Of simulated devices the
        values are drawn, and the inventory says which these are."""
        ...


class GpuFaultKind(StrEnum):
    """What a driver can report of a device that is, or may be, out of order."""

    XID = "xid"  # The driver reported an error; `number` is its Xid.
    ECC = "ecc"  # Uncorrectable memory errors that were not contained; `number` is how many.
    REMAP = "remap"  # A broken row of its memory could not be replaced.
    THROTTLE = "throttle"  # Slowed down by heat or for lack of power, for so long that it is no peak.
    LOST = "lost"  # The driver does not reach the device any more.


@dataclass(frozen=True, slots=True)
class GpuFault:
    """Evidence against one device. `at` is by the host's clock, of the first observation."""

    node: str
    gpu: str
    kind: GpuFaultKind
    number: int
    at: datetime


@runtime_checkable
class SupportsGpuFaults(Protocol):
    def gpu_faults(self) -> Sequence[GpuFault]:
        """What is wrong now with devices of this cluster, and which errors were reported since the engine was made.

        The same evidence is given again at every call; what follows from it is not the engine's business.
        """
        ...


@dataclass(frozen=True, slots=True)
class CordonWish:
    """What should be so of one node in the cluster; `reason` is for people who look at it there."""

    node: str
    is_cordoned: bool
    reason: str = ""


class CordonAnswer(StrEnum):
    DONE = "done"  # It is so now, or was before.
    OTHERS = "others"  # Somebody else cordoned it there; that stays.
    REFUSED = "refused"  # Berth may not.
    RETRY = "retry"


@runtime_checkable
class SupportsCordon(Protocol):
    """Cordons in the cluster itself, where others than Berth start work on its nodes."""

    def cordon(self, wishes: Sequence[CordonWish]) -> Sequence[CordonAnswer]:
        """Make and take back cordons of ours, never one of somebody else. What runs on a node stays."""
        ...


@dataclass(frozen=True, slots=True)
class TerminalSize:
    rows: int = 24
    columns: int = 80


class NotRunning(Exception):
    """The task does not run (any more), so nothing can be started beside it."""


class ExecRefused(Exception):
    """The engine cannot start this: too many run, or the host lacks a program. The text says which."""


class Execution(Protocol):
    """A program that runs beside a task. Its ends are non-blocking descriptors; of a terminal, `input` and `output` are one.

    It ends with its task, with `close`, and with the process that holds it.
    """

    @property
    def input(self) -> int:
        """Where to write what it reads; -1 once closed."""
        ...

    @property
    def output(self) -> int: ...

    @property
    def ended(self) -> int:
        """A descriptor that becomes readable when the program has ended, or can no longer be told of."""
        ...

    def resize(self, size: TerminalSize) -> None:
        """Tell a terminal its new size; without one nothing happens."""
        ...

    def end_input(self) -> None:
        """Let the program read its input's end."""
        ...

    def exit_code(self) -> int | None:
        """0..255 as a shell sees it, once `ended` is readable; None where it is lost. Never blocks for long."""
        ...

    def close(self) -> None:
        """End it if it runs still, and close the descriptors. May be called twice."""
        ...


@dataclass(frozen=True, slots=True)
class Asker:
    """Whom a program beside a task counts for, by keys that say nothing else."""

    tenant: str
    user: str


@runtime_checkable
class SupportsExec(Protocol):
    """Starting a program beside a live task: as its user, in its sandbox, within its limits, with its environment."""

    def execute(
        self, attempt: AttemptId, task: TaskName, argv: Sequence[str], terminal: TerminalSize | None, asker: Asker
    ) -> Execution:
        """Start `argv`, or a shell where it is empty, at a terminal or (None) at pipes with output and errors in one.

        Where a host holds so many at once, no user has more than a share: `asker` says whose this is.

        Raises NotRunning, ExecRefused and EngineUnreachable.
        """
        ...
