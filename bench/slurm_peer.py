"""A whole Slurm on this machine, as a peer: munged, slurmctld and four slurmd of Debian, plain processes on loopback.

    with slurm(TUNED, slots=1024) as peer:
        print(peer.run_noops(2000))           # jobs per second, end to end

Two configurations. `DEFAULTS` is Slurm as it comes; only the bounds on the number of jobs are raised, without which it would
refuse the load. `TUNED` was the fastest of several on two cores: the backfill scheduler without its batch delay and with a
deep queue, no accounting or completion plugins, and quiet logs. The parameters of Slurm's own high-throughput guide, taken
literally, are slower by far for so few slots. Processes are tracked by parentage (`proctrack/linuxproc`) and tasks are not
confined (`task/none`): the same isolation as Berth's with BERTH_LOCAL_ISOLATION=none.
"""

from __future__ import annotations

import contextlib
import os
import pwd
import secrets
import signal
import socket
import subprocess
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import psutil

from bench.frame import BenchError, install_packages, temporary_folder, version_of

PACKAGES = {
    "slurmctld": "/usr/sbin/slurmctld",
    "slurmd": "/usr/sbin/slurmd",
    "slurm-client": "/usr/bin/sbatch",
    "munge": "/usr/sbin/munged",
    "slurm-wlm-basic-plugins": "/usr/share/doc/slurm-wlm-basic-plugins",
}
NODES = 4
MEMORY_MIB_PER_SLOT = 16  # DefMemPerCPU below, so that slots and not memory bound what runs.
START_SECONDS_MAX = 60.0
STALL_SECONDS_MAX = 60.0
POLL_SECONDS = 0.25  # How often the queue is asked whether it is empty: four client calls a second of 5 ms each.


@dataclass(frozen=True)
class Configuration:
    """A way to run Slurm, by what it adds to what every one needs."""

    name: str
    lines: tuple[str, ...]
    munge_threads: int = 2


DEFAULTS = Configuration("slurm-defaults", ())
TUNED = Configuration(
    "slurm-tuned",
    (
        "SchedulerType=sched/backfill",
        "SchedulerParameters=batch_sched_delay=1,default_queue_depth=1000",
        "MinJobAge=5",
        "JobAcctGatherType=jobacct_gather/none",
        "JobCompType=jobcomp/none",
        "PriorityType=priority/basic",
        "SlurmctldDebug=error",
        "SlurmdDebug=error",
    ),
    munge_threads=10,
)


class Slurm:
    """A running cluster."""

    def __init__(self, place: Path, configuration: Configuration, slots: int) -> None:
        self.place = place
        self.configuration = configuration
        self.slots = slots
        self.environment = {**os.environ, "SLURM_CONF": str(place / "slurm.conf")}
        self.script = place / "noop.sh"
        self.script.write_text("#!/bin/sh\ntrue\n")
        self.sleeper = place / "sleep.sh"
        self.sleeper.write_text("#!/bin/sh\nsleep 100000\n")
        self._daemons: dict[str, subprocess.Popen[bytes]] = {}

    @property
    def version(self) -> str:
        return version_of("slurmctld", "-V")

    # --- Life --------------------------------------------------------------------------------------------------------

    def start(self) -> None:
        ports = _free_ports(1 + NODES)
        munge = self.place / "munge.sock"
        key = self.place / "munge.key"
        key.touch(0o400)
        os.chmod(key, 0o600)
        key.write_bytes(secrets.token_bytes(1024))
        os.chmod(key, 0o400)
        for name in ("state", "log", *(f"spool-node{number}" for number in range(1, NODES + 1))):
            (self.place / name).mkdir()
        (self.place / "slurm.conf").write_text(self._configuration_text(ports))
        self._daemon(
            "munged", "/usr/sbin/munged", "--foreground", f"--num-threads={self.configuration.munge_threads}",
            f"--key-file={key}", f"--socket={munge}", f"--pid-file={self.place}/munged.pid",
            f"--log-file={self.place}/log/munged.log", f"--seed-file={self.place}/munge.seed",
        )  # fmt: skip
        self._wait("munged", lambda: self._succeeds("munge", "-S", str(munge), "-n"))
        self._daemon("slurmctld", "/usr/sbin/slurmctld", "-D")
        self._wait("slurmctld", lambda: "UP" in self._output("scontrol", "ping"))
        for number in range(1, NODES + 1):
            self._daemon(f"slurmd{number}", "/usr/sbin/slurmd", "-D", "-N", f"node{number}")
        self._wait("slurmd", lambda: len(self._output("sinfo", "-h", "-N", "-t", "idle", "-o", "%n").split()) == NODES)

    def stop(self) -> None:
        """End the jobs, then the daemons."""
        if "slurmctld" in self._daemons and self._daemons["slurmctld"].poll() is None:
            with contextlib.suppress(BenchError, subprocess.TimeoutExpired):
                self.cancel_all()
        for name in reversed(tuple(self._daemons)):
            daemon = self._daemons[name]
            daemon.send_signal(signal.SIGTERM)
            try:
                daemon.wait(20)
            except subprocess.TimeoutExpired:
                daemon.kill()
                daemon.wait()

    def cancel_all(self) -> None:
        """Empty the queue, whatever is in it."""
        subprocess.run(["scancel", "-u", _user()], env=self.environment, timeout=120, check=False, capture_output=True)
        self._wait("an empty queue", lambda: self.queue_length() == 0, seconds=120)

    def _configuration_text(self, ports: Sequence[int]) -> str:
        host = socket.gethostname().partition(".")[0]
        processors = max(1, self.slots // NODES)
        place = self.place
        lines = [
            "ClusterName=bench",
            f"SlurmctldHost={host}(127.0.0.1)",
            f"SlurmctldPort={ports[0]}",
            f"SlurmUser={_user()}",
            f"SlurmdUser={_user()}",
            "AuthType=auth/munge",
            f"AuthInfo=socket={place}/munge.sock",
            "CommunicationParameters=NoInAddrAny,NoCtldInAddrAny",
            f"StateSaveLocation={place}/state",
            f"SlurmdSpoolDir={place}/spool-%n",
            f"SlurmctldPidFile={place}/slurmctld.pid",
            f"SlurmdPidFile={place}/slurmd-%n.pid",
            f"SlurmctldLogFile={place}/log/slurmctld.log",
            f"SlurmdLogFile={place}/log/slurmd-%n.log",
            "ProctrackType=proctrack/linuxproc",
            "TaskPlugin=task/none",
            "MpiDefault=none",
            "ReturnToService=2",
            "SlurmdParameters=config_overrides",
            "SelectType=select/cons_tres",
            "SelectTypeParameters=CR_CPU_Memory",
            f"DefMemPerCPU={MEMORY_MIB_PER_SLOT}",
            "AccountingStorageType=accounting_storage/none",
            "MaxJobCount=200000",
            "MaxArraySize=100001",
            *self.configuration.lines,
        ]
        lines += [
            f"NodeName=node{number} NodeHostname={host} NodeAddr=127.0.0.1 Port={ports[number]} CPUs={processors} "
            f"RealMemory={processors * MEMORY_MIB_PER_SLOT} State=UNKNOWN"
            for number in range(1, NODES + 1)
        ]
        lines.append("PartitionName=main Nodes=ALL Default=YES MaxTime=INFINITE State=UP")
        return "\n".join(lines) + "\n"

    def _daemon(self, name: str, *command: str) -> None:
        """A child that ends with this process, however this one ends."""
        with (self.place / "log" / f"{name}.out").open("wb") as out:
            self._daemons[name] = subprocess.Popen(
                ["setpriv", "--pdeathsig", "TERM", "--", *command],
                env=self.environment, cwd=self.place, stdin=subprocess.DEVNULL, stdout=out, stderr=out,
            )  # fmt: skip

    def _wait(self, what: str, holds: Callable[[], bool], *, seconds: float = START_SECONDS_MAX) -> None:
        deadline = time.monotonic() + seconds
        while not holds():
            for name, daemon in self._daemons.items():
                if daemon.poll() is not None:
                    raise BenchError(f"{name} ended with {daemon.returncode}: {self._log_tail(name)}")
            if time.monotonic() > deadline:
                raise BenchError(f"Slurm: {what}: not within {seconds:.0f} s: {self._log_tail('slurmctld')}")
            time.sleep(0.02)

    def _log_tail(self, name: str) -> str:
        found = [path for path in (self.place / "log").glob("*") if path.name.startswith(name[:9])]
        return " ".join(line for path in found for line in path.read_text(errors="replace").splitlines()[-5:])

    def _output(self, *command: str) -> str:
        return subprocess.run(command, env=self.environment, capture_output=True, text=True, timeout=60, check=False).stdout

    def _succeeds(self, *command: str) -> bool:
        return subprocess.run(command, env=self.environment, capture_output=True, timeout=60, check=False).returncode == 0

    # --- Work --------------------------------------------------------------------------------------------------------

    def submit(self, count: int, *, parallel: int = 8, script: Path | None = None) -> float:
        """Submit no-op jobs by so many `sbatch` at a time; the seconds it took."""
        began = time.monotonic()
        sbatch = ["sbatch", "--quiet", "-n1", "-o", "/dev/null", str(script or self.script)]
        numbers = "\n".join(["-"] * count)
        done = subprocess.run(
            ["xargs", "-P", str(parallel), "-I", "-", *sbatch],
            input=numbers, env=self.environment, cwd=self.place, capture_output=True, text=True, check=False,
        )  # fmt: skip
        if done.returncode:
            raise BenchError(f"sbatch failed: {done.stderr.strip()[-300:]}")
        return time.monotonic() - began

    def submit_array(self, count: int) -> float:
        """Submit one array of no-op jobs; the seconds it took."""
        began = time.monotonic()
        command = ["sbatch", "--quiet", "-n1", "-o", "/dev/null", f"--array=0-{count - 1}", str(self.script)]
        subprocess.run(command, env=self.environment, cwd=self.place, check=True, capture_output=True)
        return time.monotonic() - began

    def queue_length(self) -> int:
        """Jobs that wait, run or complete."""
        return len(self._output("squeue", "-h", "-r", "-o", "%i").split())

    def drain(self, progress: Callable[[int], None] | None = None) -> None:
        """Wait until the queue is empty."""
        seen, seen_at = 0, time.monotonic()
        while left := self.queue_length():
            if left != seen:
                seen, seen_at = left, time.monotonic()
            if time.monotonic() - seen_at > STALL_SECONDS_MAX:
                raise BenchError(f"Slurm has {left} jobs left and none has ended for {STALL_SECONDS_MAX:.0f} s")
            if progress is not None:
                progress(left)
            time.sleep(POLL_SECONDS)

    def run_noops(self, count: int, *, array: bool = False, progress: Callable[[int], None] | None = None) -> float:
        """Jobs per second from the first submission to the empty queue."""
        began = time.monotonic()
        if array:
            self.submit_array(count)
        else:
            self.submit(count)
        self.drain(progress)
        return count / (time.monotonic() - began)

    def fill(self) -> None:
        """Occupy every slot until `cancel_all`, so that what is submitted waits."""
        command = ["sbatch", "--quiet", f"-N{NODES}", "--exclusive", "-o", "/dev/null", str(self.sleeper)]
        subprocess.run(command, env=self.environment, cwd=self.place, check=True, capture_output=True)
        self._wait("a full cluster", lambda: len(self._output("squeue", "-h", "-t", "r", "-o", "%i").split()) == 1)

    # --- What it costs -----------------------------------------------------------------------------------------------

    def controller_bytes(self) -> int:
        """Resident size of slurmctld."""
        return int(psutil.Process(self._daemons["slurmctld"].pid).memory_info().rss)

    def cpu_seconds(self) -> dict[str, float]:
        """CPU that the daemons used; that of `sbatch` and of each job's slurmstepd is not in it."""
        used: dict[str, float] = {}
        for name, daemon in self._daemons.items():
            times = psutil.Process(daemon.pid).cpu_times()
            group = name.rstrip("1234")
            used[group] = used.get(group, 0.0) + times.user + times.system
        return used


def require_packages() -> None:
    """Install what is missing as root, else raise BenchError that names it."""
    install_packages(PACKAGES, why="Slurm as a peer")


@contextlib.contextmanager
def slurm(configuration: Configuration, *, slots: int = 1024) -> Iterator[Slurm]:
    """A cluster with so many slots while the block runs."""
    require_packages()
    with temporary_folder("slurm") as place:
        cluster = Slurm(place, configuration, slots)
        try:
            cluster.start()
            yield cluster
        finally:
            cluster.stop()


def _user() -> str:
    return pwd.getpwuid(os.geteuid()).pw_name


def _free_ports(count: int) -> list[int]:
    with contextlib.ExitStack() as stack:
        servers = [stack.enter_context(socket.create_server(("127.0.0.1", 0))) for _ in range(count)]
        return [server.getsockname()[1] for server in servers]
