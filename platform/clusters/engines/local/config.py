"""What a local engine is told. `root` is its own directory; everything else describes the host and who runs there."""

from __future__ import annotations

import contextlib
import os
import pwd
import shutil
import subprocess
from dataclasses import dataclass, field
from pathlib import Path

from clusters.engines.local import processes, sandbox
from clusters.engines.local.launching import DirectLauncher, Launcher, LauncherClient, Policy, start_child
from clusters.registries.rules import Rules
from kernel.config import SIMULATED_GPUS, Config

SERVICE_USER = "berth"  # Who the platform becomes where it was started as root: then a launcher has kept root.
PORTS = (21_000, 29_000)  # Below the kernel's range for outgoing connections (32768 on), above well-known services.
RDMA_FOLDER = "/dev/infiniband"
PROCESSES_MAX = 16_384  # Per task: threads count too, a fork bomb ends here.


@dataclass(frozen=True, slots=True, kw_only=True)
class LocalEngineConfig:
    """`drop_rights`: each tenant has a uid of its own (the launcher has root). `isolation` `none`: tenants share one.

    `use_bubblewrap` None means where it works. `host_directory` holds the leases that all engines of the host share.
    Zero of CPU or memory means what the machine has.
    """

    root: str
    node: str
    uid_base: int = 200_000
    gid_base: int = 300_000
    drop_rights: bool = False
    isolation: str = "auto"
    use_bubblewrap: bool | None = None
    simulated_gpus: str = ""
    cpu_millis: int = 0
    memory_bytes: int = 0
    log_quota_bytes: int = 256 * 1024**2
    tombstone_days: int = 7
    host_directory: str = ""
    ports: tuple[int, int] = PORTS
    processes_max: int = PROCESSES_MAX
    rdma_folder: str = RDMA_FOLDER
    boot_id_file: str = processes.BOOT_ID_FILE
    registries: Rules = field(default_factory=Rules)
    image_bytes_max: int = 64 * 1024**3
    image_cache_bytes: int = 128 * 1024**3
    images_are_checked: bool = True  # By the platform, which asks their registries before it names them.

    @property
    def leases(self) -> str:
        """Directory of the host's lease table."""
        return self.host_directory or str(Path(self.root).parent / "host")

    @property
    def uses_sandbox(self) -> bool:
        if self.isolation == "none" or self.use_bubblewrap is False:
            return False
        return sandbox.bubblewrap() is not None

    def rdma_devices(self) -> tuple[str, ...]:
        """The device files of this host's adapters for remote memory access; none where there is none that programs can use."""
        with contextlib.suppress(OSError):
            names = sorted(os.listdir(self.rdma_folder))
            if any(name.startswith("uverbs") for name in names):
                return tuple(f"{self.rdma_folder}/{name}" for name in names)
        return ()

    def exclusive_cores(self) -> tuple[int, ...]:
        """The cores that tasks may have for themselves: none where more are said to be here than there are, since then the
        ones that are promised to all tasks cannot be told apart."""
        cores = tuple(sorted(os.sched_getaffinity(0)))
        promised = self.cpu_millis // 1000 if self.cpu_millis else len(cores)
        return cores if promised <= len(cores) else ()

    def uid_of(self, isolation_number: int) -> int:
        """The user that a tenant's tasks run as; without root, ourselves."""
        if not self.drop_rights:
            return os.geteuid()
        return self.uid_base + (0 if self.isolation == "none" else isolation_number)

    def gid_of(self, isolation_number: int) -> int:
        if not self.drop_rights:
            return os.getegid()
        return self.uid_of(isolation_number)

    def simulated(self) -> tuple[int, str]:
        """Count and model of the pretended GPUs; (0, "") without any. Raises ValueError on a text that says neither."""
        if not self.simulated_gpus:
            return 0, ""
        match = SIMULATED_GPUS.fullmatch(self.simulated_gpus)
        if match is None:
            raise ValueError(f"{self.simulated_gpus!r} is not <count>x<model>, like 4xA100")
        return int(match[1]), match[2]


def launcher_socket(config: Config) -> str:
    """Where the launcher of this installation listens."""
    return str(config.data_dir / "run" / "launcher.sock")


def launcher_policy(config: Config, *, service_uid: int | None = None, service_gid: int | None = None) -> Policy:
    """The rules for this installation's launcher; the service user defaults to the present one."""
    return Policy(
        roots=(str(config.data_dir),),
        uid_base=config.local_uid_base,
        gid_base=config.local_gid_base,
        service_uid=os.geteuid() if service_uid is None else service_uid,
        service_gid=os.getegid() if service_gid is None else service_gid,
        drop_rights=can_drop_rights(),
    )


def start_launcher(config: Config, *, service_uid: int, service_gid: int) -> subprocess.Popen[bytes]:
    """Start this installation's launcher as a child, before this process becomes the service user.

    Start another one whenever it ends; engines wait for it, and tasks do not notice.
    """
    path = launcher_socket(config)
    os.makedirs(os.path.dirname(path), mode=0o700, exist_ok=True)
    os.chown(os.path.dirname(path), service_uid, service_gid, follow_symlinks=False)
    return start_child(path, launcher_policy(config, service_uid=service_uid, service_gid=service_gid))


def can_drop_rights() -> bool:
    """Whether this process may start tasks under other users."""
    return os.geteuid() == 0 and shutil.which("setpriv") is not None


def find_launcher(config: Config) -> tuple[Launcher, bool]:
    """Give the launcher to use and whether it drops rights: the one at the socket, else this process itself.

    The service user always asks the socket, also before the launcher listens there: a process that came up first must never
    start tasks under its own user.
    """
    path = launcher_socket(config)
    may_ask = config.local_launcher != "direct" and os.geteuid() != 0
    if may_ask and (config.local_launcher == "socket" or _is_service_user() or os.path.exists(path)):
        return LauncherClient(path), True
    policy = launcher_policy(config)
    return DirectLauncher(policy), policy.drop_rights


def _is_service_user() -> bool:
    with contextlib.suppress(KeyError):
        return pwd.getpwuid(os.geteuid()).pw_name == SERVICE_USER
    return False
