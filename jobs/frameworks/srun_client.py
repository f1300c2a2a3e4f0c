"""`srun` inside a job of framework slurm: starts a step on the tasks that it asks for, passes its input and output on, and ends
with its code (man srun, Slurm 22.05).

Sent along with a job, so it imports the standard library only and runs on Python 3.7."""

from __future__ import annotations

import contextlib
import json
import os
import select
import selectors
import signal
import socket
import struct
import sys
import time
from collections.abc import Callable
from typing import IO, TYPE_CHECKING, Any

if TYPE_CHECKING or __package__:
    from jobs.frameworks import mpi_agent, slurm_steps, slurm_wire, srun_options
    from jobs.frameworks.slurm_wire import EVERY, FRAME, GRACE_SECONDS
else:  # Beside this file in a task.
    import mpi_agent
    import slurm_steps
    import slurm_wire
    import srun_options
    from slurm_wire import EVERY, FRAME, GRACE_SECONDS

IDLE_SECONDS = 1.0
HINT_SECONDS = 15.0  # A step that waits longer for cores says so.
LIMIT_GRACE_SECONDS = 30.0  # Between TERM and KILL after --time (KillWait of slurm.conf, its default).
LINE_BYTES = 65536  # A longer line of output is passed on in pieces.
FORWARDED = ("SIGUSR1", "SIGUSR2", "SIGHUP", "SIGQUIT", "SIGCONT")  # TERM ends srun, and its end the step.
OF_SHELLS = frozenset({"_", "SHLVL", "PWD", "OLDPWD"})
REASONS = {
    srun_options.TERMINAL: "there is no terminal in a job; use berth exec",
    srun_options.PROGRAMS: "several programs in one step are not supported; start a step for each with & and wait",
    srun_options.PARTS: "there are no parts of heterogeneous jobs here; write roles",
    srun_options.CONTAINER: "a step runs in the image of its job; write image: NAME",
    srun_options.COPY: "files are not copied to the tasks; send them along as code, or mount a volume",
    srun_options.HOOK: "there are no prologs and epilogs here; write their commands into the script",
    srun_options.IDENTITY: "a job runs as its submitter",
    srun_options.PMI: "Slurm's PMI is not here; start ranks of MPI with mpirun in place of srun",
    srun_options.LAYOUT: "this layout is not supported; use --nodes, --ntasks, --ntasks-per-node and --gpus-per-task",
    srun_options.OTHER_JOB: "a step runs in its own job only",
    srun_options.DISPLAY: "there is no display in a job",
    srun_options.SIGNAL: "no signal is sent before the end of a step; write checkpoint: into the job file",
    srun_options.TEST: "there is no Slurm to ask",
    srun_options.UNKNOWN_OPTION: "no such option is known",
    "value": "this value is none that it takes",
}


def srun(words: list[str], serve_here: Callable[[], None]) -> int:
    """Run one command line; `serve_here` makes the only task of a job serve, where it does not yet."""
    try:
        reading = srun_options.read(words, os.environ.get("SLURM_JOB_ID", ""))
        if not reading.command:
            raise srun_options.Refused("the command", "value")
        nodes = slurm_wire.read_nodes()
        ask = slurm_steps.ask_of(reading.options, os.environ, len(nodes))._replace(began_at=began_at())
        if len(nodes) == 1:
            serve_here()
        return StepRun(reading.options, list(reading.command), nodes, ask).run()
    except srun_options.Refused as refused:
        complain(f"{refused.option}{'=' + refused.value if refused.value else ''}: {REASONS[refused.reason]}")
    except (slurm_steps.Impossible, ValueError, OSError) as error:
        complain(str(error))
    return 1


class StepRun:
    """One step from its start to its end, as srun's user sees it."""

    def __init__(
        self, options: dict[str, str], command: list[str], nodes: list[slurm_steps.Node], ask: slurm_steps.StepAsk
    ) -> None:
        self._options, self._command, self._nodes, self._ask = options, command, nodes, ask
        self._selector = selectors.DefaultSelector()
        self._codes: dict[int, int] = {}
        self._of_rank: dict[int, socket.socket] = {}
        self._kill_at: float | None = None
        self._is_ended = False  # By us: its limit, --wait, or --kill-on-bad-exit.

    def run(self) -> int:
        with mpi_agent.ask(slurm_wire.hosts()[0], {"do": "allot", "ask": self._ask}) as allotment:
            allotted = self._allotted(allotment)
            shares = [slurm_steps.Share(*share) for share in allotted["shares"]]
            self._output = Output(self._options, allotted["step"], shares, self._nodes)
            self._begin(allotted["step"], shares)
            try:
                self._until_ended()
            finally:
                self._output.close()
        return max(self._codes.values())

    def _allotted(self, allotment: socket.socket) -> dict[str, Any]:
        """The step's share; it may be long in coming."""
        allotment.settimeout(None)
        if not select.select([allotment], [], [], HINT_SECONDS)[0]:
            complain("waiting for cores that other steps of this job hold; --overlap starts a step beside them")
        allotted: dict[str, Any] = json.loads(mpi_agent.read_line(allotment))
        if "error" in allotted:
            raise slurm_steps.Impossible(allotted["error"])
        return allotted

    def _begin(self, step: int, shares: list[slurm_steps.Share]) -> None:
        common = {
            "do": "step",
            "command": self._command,
            "cwd": os.path.join(os.getcwd(), self._options.get("chdir", "")),
            "shared": shared_variables(self._options, step, shares, self._nodes),
            "gpus_per_task": self._ask.gpus_per_task,
            **carried(self._options.get("export", "ALL"), len(self._nodes) > 1),
        }
        for number, share in enumerate(shares):
            cpus = self._nodes[share.place].cpus if not self._ask.exact else share.cpus
            own = {"node": number, "ranks": share.ranks, "gpus": share.gpus, "cpus": max(1, cpus // len(share.ranks))}
            connection = mpi_agent.ask(slurm_wire.hosts()[share.place], {**common, **own})
            connection.settimeout(None)
            self._selector.register(connection, selectors.EVENT_READ, share)
            self._of_rank.update(dict.fromkeys(share.ranks, connection))
        self._take_signals()
        self._take_input()

    def _until_ended(self) -> None:
        began = time.monotonic()
        limit = seconds_of(self._options.get("time", ""))
        patience = int(self._options.get("wait", "0") or "0")
        first_end: float | None = None
        while len(self._codes) < self._ask.tasks:
            for key, _ in self._selector.select(IDLE_SECONDS):
                self._hear(key)
            now = time.monotonic()
            first_end = first_end or (now if self._codes else None)
            if self._kill_at is not None and now > self._kill_at:
                self._signal(signal.SIGKILL)
            elif limit is not None and now > began + limit:
                self._stop(f"the step has run for its limit of {self._options['time']}", LIMIT_GRACE_SECONDS)
            elif patience and first_end is not None and now > first_end + patience:
                self._stop(f"{patience} seconds have passed since the first task ended", GRACE_SECONDS)

    def _hear(self, key: selectors.SelectorKey) -> None:
        if isinstance(key.data, slurm_steps.Share):
            self._hear_node(key.fileobj, key.data)  # type: ignore[arg-type]
        elif key.data == "signal":
            for number in os.read(key.fd, 64):
                self._signal(number)
        else:
            data = os.read(0, LINE_BYTES)
            self._to(key.data, b"I" if data else b"C", data)
            if not data:
                self._selector.unregister(0)

    def _hear_node(self, connection: socket.socket, share: slurm_steps.Share) -> None:
        try:
            kind, rank, data = slurm_wire.read_frame(connection)
        except (OSError, ValueError):
            self._selector.unregister(connection)
            lost = [rank for rank in share.ranks if rank not in self._codes]
            for rank in lost:
                self._codes[rank] = 1
            if lost:
                complain(f"error: {self._nodes[share.place].name}: lost the tasks {', '.join(map(str, lost))}")
            return
        if kind == b"X":
            self._ended(rank, int(struct.unpack("!i", data)[0]), share)
        else:
            self._output.write(kind, rank, data)

    def _ended(self, rank: int, code: int, share: slurm_steps.Share) -> None:
        self._output.flush(rank)
        self._codes[rank] = code if code >= 0 else 128 - code
        if code and not self._is_ended:
            how = f"Exited with exit code {code}" if code > 0 else signal.Signals(-code).name
            complain(f"error: {self._nodes[share.place].name}: task {rank}: {how}")
            if self._options.get("kill-on-bad-exit", "0") != "0":
                self._stop("a task has failed (--kill-on-bad-exit)", GRACE_SECONDS)

    def _stop(self, why: str, grace: float) -> None:
        if not self._is_ended:
            self._is_ended = True
            self._kill_at = time.monotonic() + grace
            complain(f"error: {why}: the step is ended")
            self._signal(signal.SIGTERM)

    def _signal(self, number: int) -> None:
        self._to(EVERY, b"S", bytes([number]))

    def _take_signals(self) -> None:
        heard, told = os.pipe()
        for end in (heard, told):
            os.set_blocking(end, False)
        signal.set_wakeup_fd(told)
        for name in FORWARDED:
            if signal.getsignal(getattr(signal, name)) is not signal.SIG_IGN:  # As under nohup.
                signal.signal(getattr(signal, name), lambda *_: None)
        self._selector.register(heard, selectors.EVENT_READ, "signal")

    def _take_input(self) -> None:
        """Standard input goes to all tasks, to one, or to none; a file's content to all."""
        wanted = self._options.get("input", "all")
        if wanted not in ("all", "none") and not wanted.isdigit():
            os.dup2(os.open(wanted, os.O_RDONLY), 0)
        if wanted == "none":
            self._to(EVERY, b"C", b"")
            return
        reader = int(wanted) if wanted.isdigit() else EVERY
        for rank in self._of_rank if reader != EVERY else ():
            if rank != reader:
                self._to(rank, b"C", b"")
        try:
            self._selector.register(0, selectors.EVENT_READ, reader)
        except (OSError, ValueError):  # A file is read at once: epoll takes none.
            with open(0, "rb", closefd=False) as source:
                for data in iter(lambda: source.read(LINE_BYTES), b""):
                    self._to(reader, b"I", data)
            self._to(reader, b"C", b"")

    def _to(self, rank: int, kind: bytes, data: bytes) -> None:
        connections = set(self._of_rank.values()) if rank == EVERY else {self._of_rank[rank]}
        for connection in connections:
            with contextlib.suppress(OSError):
                connection.sendall(FRAME.pack(kind, rank, len(data)) + data)


class Output:
    """Where the output of a step goes: by whole lines, with labels if asked for, to files by Slurm's patterns."""

    def __init__(
        self, options: dict[str, str], step: int, shares: list[slurm_steps.Share], nodes: list[slurm_steps.Node]
    ) -> None:
        self._options, self._step = options, step
        self._homes = {rank: (number, nodes[share.place].name) for number, share in enumerate(shares) for rank in share.ranks}
        self._width = len(str(max(self._homes)))
        self._rests: dict[tuple[bytes, int], bytes] = {}
        self._files: dict[str, IO[bytes]] = {}

    def write(self, kind: bytes, rank: int, data: bytes) -> None:
        text = self._rests.pop((kind, rank), b"") + data
        end = max(text.rfind(b"\n"), text.rfind(b"\r")) + 1
        if "unbuffered" in self._options or len(text) > LINE_BYTES:
            end = len(text)
        if text[end:]:
            self._rests[kind, rank] = text[end:]
        if end:
            self._put(kind, rank, text[:end])

    def flush(self, rank: int) -> None:
        for kind in (b"O", b"E"):
            rest = self._rests.pop((kind, rank), b"")
            if rest:
                self._put(kind, rank, rest)

    def close(self) -> None:
        for opened in self._files.values():
            opened.close()

    def _put(self, kind: bytes, rank: int, text: bytes) -> None:
        if "label" in self._options:
            mark = f"{rank:{self._width}d}: ".encode()
            text = b"".join(mark + line for line in text.splitlines(True))
        wanted = self._options.get("output", "all")
        if kind == b"E":
            wanted = self._options.get("error", wanted)
        if wanted == "all" or (wanted.isdigit() and int(wanted) == rank):
            os.write(1 if kind == b"O" else 2, text)
        elif wanted != "none" and not wanted.isdigit():
            opened = self._opened(wanted, rank)
            opened.write(text)
            opened.flush()

    def _opened(self, pattern: str, rank: int) -> IO[bytes]:
        name = self._named(pattern, rank)
        if name not in self._files:
            is_added = self._options.get("open-mode", "truncate").startswith("a")
            self._files[name] = open(name, "ab" if is_added else "wb")  # noqa: SIM115 - open while the step runs.
        return self._files[name]

    def _named(self, pattern: str, rank: int) -> str:
        """The pattern with its signs filled in (man srun, "IO Redirection")."""
        node, name = self._homes[rank]
        job = os.environ.get("SLURM_JOB_ID", "")
        signs = {
            "A": os.environ.get("SLURM_ARRAY_JOB_ID", job), "a": os.environ.get("SLURM_ARRAY_TASK_ID", "4294967294"),
            "J": f"{job}.{self._step}", "j": job, "s": str(self._step), "N": name, "n": str(node), "t": str(rank),
            "u": os.environ.get("SLURM_JOB_USER", ""), "x": os.environ.get("SLURM_JOB_NAME", ""), "%": "%",
        }  # fmt: skip
        made, rest = "", pattern
        while rest:
            before, percent, rest = rest.partition("%")
            made += before
            width = len(rest) - len(rest.lstrip("0123456789"))
            sign = rest[width : width + 1]
            if percent and sign in signs:
                made += signs[sign].zfill(int(rest[:width] or "0"))
                rest = rest[width + 1 :]
            else:
                made += percent
        return made


def shared_variables(
    options: dict[str, str], step: int, shares: list[slurm_steps.Share], nodes: list[slurm_steps.Node]
) -> dict[str, str]:
    """What all processes of a step have alike (man srun, "output environment variables")."""
    tasks = str(sum(len(share.ranks) for share in shares))
    names = ",".join(nodes[share.place].name for share in shares)
    layout = slurm_steps.compressed([len(share.ranks) for share in shares])
    mask = os.umask(0)
    os.umask(mask)
    address, port = os.environ.get("BERTH_HOST", ""), os.environ.get("BERTH_MPI_PORT", "")
    shared = {
        **dict.fromkeys(("SLURM_STEP_ID", "SLURM_STEPID"), str(step)),
        **dict.fromkeys(("SLURM_NTASKS", "SLURM_NPROCS", "SLURM_STEP_NUM_TASKS"), tasks),
        **dict.fromkeys(("SLURM_NNODES", "SLURM_STEP_NUM_NODES"), str(len(shares))),
        **dict.fromkeys(("SLURM_TASKS_PER_NODE", "SLURM_STEP_TASKS_PER_NODE"), layout),
        **dict.fromkeys(("SLURM_NODELIST", "SLURM_STEP_NODELIST"), names),
        **dict.fromkeys(("SLURM_LAUNCH_NODE_IPADDR", "SLURM_SRUN_COMM_HOST"), address),
        **dict.fromkeys(("SLURM_STEP_LAUNCHER_PORT", "SLURM_SRUN_COMM_PORT"), port),
        "SLURM_DISTRIBUTION": options.get("distribution", "block").replace("*", "block"),
        "SLURM_CPU_BIND": "quiet,none",
        "SLURM_CPU_BIND_LIST": "",
        "SLURM_CPU_BIND_TYPE": "none",
        "SLURM_CPU_BIND_VERBOSE": "quiet",
        "SLURM_UMASK": f"{mask:04o}",
        "SRUN_DEBUG": "3",
    }
    if "cpus-per-task" in options:
        shared["SLURM_CPUS_PER_TASK"] = options["cpus-per-task"]
    if "job-name" in options:
        shared["SLURM_JOB_NAME"] = options["job-name"]
    if "overcommit" in options:
        shared["SLURM_OVERCOMMIT"] = "1"
    return shared


def carried(export: str, has_others: bool) -> dict[str, Any]:
    """Which variables of the script its steps find. Those that it left as they were are each task's own."""
    own = json.loads(slurm_wire.answer(slurm_wire.own_host(), {"do": "environment"})) if has_others else {}
    wanted = export.split(",")
    given = dict(entry.partition("=")[::2] for entry in wanted if "=" in entry)
    changed = {name: value for name, value in os.environ.items() if own.get(name) != value and name not in OF_SHELLS}
    if wanted[0].upper() == "ALL":
        unset = [name for name in own if name not in os.environ]
        return {"only": False, "set": {**given, **changed}, "unset": unset}
    kept = {name for name in wanted if "=" not in name} | {"PATH", "HOME", "TMPDIR"}
    always = ("SLURM", "BERTH_", "CUDA_VISIBLE", "NVIDIA_")
    changed = {name: value for name, value in changed.items() if name in kept or name.startswith(always)}
    unset = [name for name in own if name not in kept and not name.startswith(always)]
    return {"only": not has_others, "set": {**changed, **given}, "unset": unset}


def seconds_of(text: str) -> int | None:
    """Seconds of `30`, `30:00`, `1:30:00`, `2-12` or `2-12:30:00`; None for no limit."""
    if not text or text.lower() in ("0", "-1", "unlimited", "infinite"):
        return None
    days, dash, rest = text.rpartition("-")
    parts = [int(part) for part in rest.split(":")]
    if dash:
        parts = [*parts, 0, 0][:3]
        return ((int(days) * 24 + parts[0]) * 60 + parts[1]) * 60 + parts[2]
    if len(parts) == 3:
        return (parts[0] * 60 + parts[1]) * 60 + parts[2]
    return parts[0] * 60 + (parts[1] if len(parts) == 2 else 0)


def began_at() -> float:
    """When this process was started: its interpreter alone takes longer than many a step."""
    try:
        with open("/proc/self/stat", encoding="utf-8") as stat, open("/proc/uptime", encoding="utf-8") as uptime:
            ticks = int(stat.read().rpartition(")")[2].split()[19])
            return time.time() - float(uptime.read().split()[0]) + ticks / os.sysconf("SC_CLK_TCK")
    except (OSError, ValueError, IndexError):
        return time.time()


def complain(text: str) -> None:
    sys.stderr.write(f"srun: {text}\n")
    sys.stderr.flush()
