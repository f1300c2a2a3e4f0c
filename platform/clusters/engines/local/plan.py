"""Turn a Workload into what the launcher starts: paths, environment, the task's script. Pure; nothing is touched here."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Mapping

from clusters.engines.interface import (
    AddressOf,
    CheckpointDir,
    FileOf,
    GiveUp,
    HostDir,
    ImageKind,
    MountRef,
    PortOf,
    TaskWorkload,
    Text,
    TextPart,
    Workload,
)
from clusters.engines.local import records, sandbox
from clusters.engines.local.config import LocalEngineConfig
from clusters.engines.local.containers.store import ReadyImage
from clusters.engines.local.exits import CANNOT_START
from clusters.engines.local.launching.verbs import Owner, StartAttempt, StartCheckpoint, StartMount, StartTask
from clusters.engines.local.leases import WHOLE_MILLIS, Lease
from clusters.engines.local.processes import TASK_MARKER
from clusters.engines.local.records import ATTEMPTS, FILES, HOME, TEMPORARY, WORK, AttemptRecord, TaskRecord
from clusters.engines.users import user_name

ADDRESS = "127.0.0.1"  # One host: tasks meet on its loopback.
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_FILE_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._-]{0,254}")
_TASK_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,100}-[0-9]{1,6}")
_MKDIR = "/bin/mkdir"  # The task may set PATH to anything.
_PATH = "/usr/local/bin:/usr/bin:/bin"
_CONTAINER_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"  # As container runtimes have it.
_HOST_VARIABLES = ("LANG", "PWD", "OLDPWD", "SHLVL", "_")  # Of the shells on the way.


def refuse(workload: Workload, config: LocalEngineConfig, *, sandboxed: bool) -> GiveUp | None:
    """Say why this engine can never run the workload, or None if it can."""
    if problem := _refuse_names(workload) or _refuse_image(workload, sandboxed=sandboxed):
        return GiveUp(workload.attempt_id, *problem)
    container_wanted = workload.image.kind is ImageKind.REGISTRY
    for task in workload.tasks:
        millis = task.resources.gpu_millis
        if millis > WHOLE_MILLIS and millis % WHOLE_MILLIS:
            return GiveUp(
                workload.attempt_id,
                "gpu_share_invalid",
                f"Task {task.name} asks for {millis / 1000:g} GPU: a share is of one device.",
            )
        if task.cpu_exclusive and (wanted := cores_of(task)) > (most := len(config.exclusive_cores())):
            detail = f"Task {task.name} asks for {wanted} cores of its own; {config.node} can give {most}."
            return GiveUp(workload.attempt_id, "workload_invalid", detail)
        if task.rdma and not config.rdma_devices():
            detail = f"Task {task.name} asks for RDMA; {config.node} has no adapter at {config.rdma_folder}."
            return GiveUp(workload.attempt_id, "workload_invalid", detail)
        if task.builds_image and not sandboxed:
            detail = "Container images are built in bubblewrap, which does not work on this host. Install the package bubblewrap."
            return GiveUp(workload.attempt_id, "workload_invalid", detail)
        if task.builds_image and container_wanted:
            return GiveUp(workload.attempt_id, "workload_invalid", "A container image is built with the host's own programs.")
        if task.node not in ("", config.node):
            return GiveUp(workload.attempt_id, "node_unknown", f"This engine has the node {config.node}, not {task.node}.")
    if any(not isinstance(mount.place, HostDir) for mount in workload.mounts):
        return GiveUp(workload.attempt_id, "storage_not_shared", "This engine mounts directories of its own host alone.")
    mounts = [mount for mount in workload.mounts if mount.target != _location(mount) or mount.read_only]
    if mounts and not sandboxed:  # What is written at its own place, as a build writes its image, needs no other view.
        detail = (
            "Volumes appear in a job only through bubblewrap, which does not work on this host. Install the package bubblewrap."
        )
        return GiveUp(workload.attempt_id, "mounts_need_bubblewrap", detail)
    if not workload.network and not sandboxed:
        detail = "A task without network needs bubblewrap, which does not work on this host. Install the package bubblewrap."
        return GiveUp(workload.attempt_id, "network_needs_bubblewrap", detail)
    shown = [workload.image.location] if workload.image.kind is ImageKind.PYTHON else []
    targets = [mount.target for mount in workload.mounts]
    for target in (mount.target for mount in mounts):
        if problem_text := sandbox.refuse_target(target, [*targets, *shown]):
            return GiveUp(workload.attempt_id, "mount_target_refused", problem_text)
    return None


def cores_of(task: TaskWorkload) -> int:
    """How many whole cores a task's share of processors takes."""
    return max(1, -(-task.resources.cpu_millis // 1000))


def plan(
    workload: Workload,
    lease: Lease,
    config: LocalEngineConfig,
    *,
    sandboxed: bool,
    simulated: bool,
    devices: Mapping[str, tuple[str, ...]],
    shared_cores: tuple[int, ...] = (),
    container: ReadyImage | None = None,
    user: str = "",
) -> StartAttempt:
    """Compile the workload for the launcher. `container` is the image of a workload that names one. `devices` gives the device
    files of each task's leased GPUs; `shared_cores` where tasks without cores of their own may run, empty while that is anywhere.
    `user` is what the system that its tasks see calls their user; empty: it has no name for it, and the tenant's is taken.
    """
    uid, gid = config.uid_of(workload.isolation_number), config.gid_of(workload.isolation_number)
    groups = tuple(sorted({config.gid_base + mount.group for mount in workload.mounts if mount.group}))
    called = user or user_name(workload.isolation_key)
    places = _Places(workload, lease, config, sandboxed)
    record = AttemptRecord(
        number=workload.number,
        uid=uid,
        gid=gid,
        groups=groups if config.drop_rights else (),
        log_quota_bytes=workload.log_quota_bytes or config.log_quota_bytes,
        gpus_simulated=simulated,
        tasks={str(task.name): _task_record(task, lease, places) for task in workload.tasks},
        job_id=str(workload.job_id),
        name=workload.name,
        isolation_key=workload.isolation_key,
        image=container.digest if container is not None else "",
        user=called,
    )
    return StartAttempt(
        root=config.root,
        attempt_id=str(workload.attempt_id),
        owner=Owner(uid, gid, record.groups),
        tasks=tuple(
            StartTask(
                name=str(task.name),
                argv=tuple(places.text(part) for part in task.argv),
                script=_script(task, workload, lease, places, called, simulated=simulated, container=container),
                memory_bytes=task.resources.memory_bytes,
                cpu_millis=task.resources.cpu_millis,
                processes_max=config.processes_max,
                shm_bytes=task.shm_bytes,
                devices=(*devices.get(str(task.name), ()), *(config.rdma_devices() if task.rdma else ())),
                cores=tuple(lease.cores.get(str(task.name), shared_cores)),
                builds_image=task.builds_image,
            )
            for task in workload.tasks
        ),
        record=json.dumps(records.document(record)),
        files={name: places.text(text) for name, text in workload.files.items()},
        code=workload.code.location if workload.code else "",
        mounts=tuple(StartMount(_location(mount), mount.target, mount.read_only) for mount in workload.mounts),
        image=workload.image.location if workload.image.kind is ImageKind.PYTHON else "",
        container=container.root if container is not None else "",
        network=workload.network,
        sandbox=sandboxed,
        seccomp=config.isolation != "none",
        checkpoint=_checkpoint(workload),
    )


def _location(mount: MountRef) -> str:
    """Where the directory is on this host; what is anywhere else has been refused."""
    assert isinstance(mount.place, HostDir)
    return mount.place.path


def _checkpoint(workload: Workload) -> StartCheckpoint | None:
    """The platform's directory; one inside a mount is made by the task's own shell."""
    kept = workload.checkpoint
    if kept is None or not kept.location:
        return None
    return StartCheckpoint(kept.location, workload.workdir, kept.target)


class _Places:
    """Where things are, as a task sees them."""

    def __init__(self, workload: Workload, lease: Lease, config: LocalEngineConfig, sandboxed: bool) -> None:
        base = f"{config.root}/{ATTEMPTS}/{workload.attempt_id}"
        self._sandboxed, self._base, self._lease = sandboxed, base, lease
        self.work = sandbox.WORK if sandboxed else f"{base}/{WORK}"
        self.home = sandbox.HOME if sandboxed else f"{base}/{HOME}"
        self.files = sandbox.FILES if sandboxed else f"{base}/{FILES}"
        kept = workload.checkpoint
        if kept is None or not kept.location:
            self.checkpoint = kept.target if kept is not None else ""
        else:
            self.checkpoint = sandbox.CHECKPOINT if sandboxed else kept.location

    def temporary(self, task: TaskWorkload) -> str:
        return sandbox.TEMPORARY if self._sandboxed else f"{self._base}/{TEMPORARY}-{task.name}"

    def text(self, parts: Text) -> str:
        """Join the parts; every named port has been leased, so a missing one is a mistake of the caller."""
        return "".join(self._part(part) for part in parts)

    def _part(self, part: TextPart) -> str:
        if isinstance(part, AddressOf):
            return ADDRESS
        if isinstance(part, PortOf):
            return str(self._lease.ports[f"{part.role}-{part.index}/{part.name}"])
        if isinstance(part, FileOf):
            return f"{self.files}/{part.name}"
        if isinstance(part, CheckpointDir):
            return self.checkpoint
        return part


def _script(
    task: TaskWorkload,
    workload: Workload,
    lease: Lease,
    places: _Places,
    user: str,
    *,
    simulated: bool,
    container: ReadyImage | None,
) -> str:
    """Write what the tenant's shell reads before it becomes the program: quoted values and fixed words only."""
    values = _environment(task, workload, lease, places, user, simulated)
    threads = {"OMP_NUM_THREADS": values["BERTH_CPUS"]} if "BERTH_CPUS" in values else {}
    lines = []
    if container is None:
        values = {**threads, **values}
    else:  # What the image's maker set comes first, as on every engine; nothing of the host's is seen.
        values = {"PATH": _CONTAINER_PATH, **threads, **container.env, **values}
        lines = [f"unset {name}" for name in _HOST_VARIABLES]
    lines += [f"export {name}={shlex.quote(value)}" for name, value in values.items()]
    workdir = f"{places.work}/{workload.workdir}" if workload.workdir else places.work
    failed = f"""trap 'code=$?; printf "\\n{CANNOT_START}%s\\n" "$1" >&2; exit $code' EXIT"""
    own = places.text(task.env["BERTH_CHECKPOINT_DIR"]) if places.checkpoint and "BERTH_CHECKPOINT_DIR" in task.env else ""
    mkdir = _MKDIR if container is None else "mkdir"
    kept = [f"{mkdir} -p -- {shlex.quote(own)} || exit 126"] if own else []
    enter = f"cd -- {shlex.quote(workdir)} || exit 126"
    return "\n".join((*lines, "umask 077", failed, *kept, enter, 'exec "$@" </dev/null', ""))


def _environment(
    task: TaskWorkload, workload: Workload, lease: Lease, places: _Places, user: str, simulated: bool
) -> dict[str, str]:
    user = "root" if task.builds_image else user  # User 0 of its namespace.
    environment = {"HOME": places.home, "USER": user, "LOGNAME": user, "TMPDIR": places.temporary(task)}
    environment |= {name: places.text(value) for name, value in task.env.items()}
    environment |= task.secret_env
    if workload.image.kind is ImageKind.PYTHON:
        environment["VIRTUAL_ENV"] = workload.image.location
        environment["PATH"] = f"{workload.image.location}/bin:{environment.get('PATH', _PATH)}"
    gpus = tuple(lease.gpus.get(str(task.name), ()))
    environment |= {
        "BERTH_WORKDIR": places.work,
        "BERTH_FILES": places.files if workload.files else "",
        "CUDA_VISIBLE_DEVICES": ",".join(gpus),
        TASK_MARKER: f"{workload.attempt_id}.{task.name}",
    }
    if simulated and gpus:
        environment["BERTH_GPUS_SIMULATED"] = "1"
    return environment


def _task_record(task: TaskWorkload, lease: Lease, places: _Places) -> TaskRecord:
    prefix = f"{task.name}/"
    return TaskRecord(
        role=task.name.role,
        index=task.name.index,
        ports={name.removeprefix(prefix): port for name, port in lease.ports.items() if name.startswith(prefix)},
        gpus=tuple(lease.gpus.get(str(task.name), ())),
        memory_bytes=task.resources.memory_bytes,
        program=places.text(task.argv[0]),
        cpu_millis=task.resources.cpu_millis,
        gpu_millis=task.resources.gpu_millis,
        cores=tuple(lease.cores.get(str(task.name), ())),
    )


def _refuse_image(workload: Workload, *, sandboxed: bool) -> tuple[str, str] | None:
    if workload.image.kind is ImageKind.REGISTRY and not sandboxed:
        return (
            "workload_invalid",
            "Container images need bubblewrap, which does not work on this host. Install the package bubblewrap.",
        )
    return None


def _refuse_names(workload: Workload) -> tuple[str, str] | None:
    for task in workload.tasks:
        if not _TASK_NAME.fullmatch(str(task.name)) or not task.argv:
            return "workload_invalid", f"Task {task.name} has no command or a name that cannot be used."
        for name in (*task.env, *task.secret_env):
            if not _NAME.fullmatch(name):
                return "workload_invalid", f"{name!r} cannot be the name of a variable: letters, digits and _ only."
        values = [part for text in (*task.argv, *task.env.values()) for part in text if isinstance(part, str)]
        if any("\0" in value for value in (*values, *task.secret_env.values())):
            return "workload_invalid", f"Task {task.name} has a NUL byte in its command or environment."
    for name in workload.files:
        if not _FILE_NAME.fullmatch(name):
            return "workload_invalid", f"{name!r} is not a plain file name."
    kept = workload.checkpoint
    if (
        kept is not None
        and kept.location
        and (kept.target in ("", ".") or kept.target.startswith("/") or ".." in kept.target.split("/"))
    ):
        return "workload_invalid", f"The checkpoint's path {kept.target!r} is not below the working directory."
    if workload.workdir.startswith("/") or ".." in workload.workdir.split("/"):
        return "workload_invalid", f"The working directory {workload.workdir!r} is not below the code."
    return None
