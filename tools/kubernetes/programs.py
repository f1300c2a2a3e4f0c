"""The programs of a cluster, built once from their Go modules into a folder outside the checkout.

What is built is said by `modules/`: a go.mod with exact versions and a go.sum with the hash of each module, so that another
source gives the same or nothing. Distributions have older ones, and what they leave out is missed late and silently: streaming
lists answer errors on etcd 3.4. 1.35 is the last minor release that runs on containerd 1.x and allows cgroup v1, which are what
Debian 12 has.

A build takes a quarter of an hour of two cores from nothing, most of it Kubernetes; so it runs at the lowest priority, and never
twice at the same time.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from tools.progress import Stop, last_line, step

VERSION = "v1.35.4"
MODULES = Path(__file__).resolve().parent / "modules"
LOWEST = 19  # The priority of a build.
GO_PLACES = ("/usr/local/go/bin/go",)  # Where Go's own archive puts it, beside the PATH.
KUBERNETES = "k8s.io/kubernetes/cmd"


@dataclass(frozen=True)
class GoProgram:
    """The package of a program, and the module below `modules/` that pins it."""

    module: str
    package: str


PROGRAMS: Mapping[str, GoProgram] = {
    "etcd": GoProgram("etcd", "go.etcd.io/etcd/server/v3"),
    "kube-apiserver": GoProgram("kubernetes", f"{KUBERNETES}/kube-apiserver"),
    "kube-controller-manager": GoProgram("kubernetes", f"{KUBERNETES}/kube-controller-manager"),
    "kube-scheduler": GoProgram("kubernetes", f"{KUBERNETES}/kube-scheduler"),
    "kubectl": GoProgram("kubernetes", f"{KUBERNETES}/kubectl"),
    "kubelet": GoProgram("kubernetes", f"{KUBERNETES}/kubelet"),
    "coredns": GoProgram("coredns", "."),  # With few of its plugins: `modules/coredns/main.go`.
    "kwok": GoProgram("kwok", "sigs.k8s.io/kwok/cmd/kwok"),
}


class Programs:
    """A folder of programs."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    @classmethod
    def cached(cls) -> Programs:
        """Those below BERTH_CACHE, which is /var/cache/berth for root, as `make` has it."""
        base = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "berth"
        default = Path("/var/cache/berth") if os.geteuid() == 0 else base
        return cls(Path(os.environ.get("BERTH_CACHE") or default) / "kubernetes" / VERSION)

    def path(self, name: str) -> str:
        return str(self.folder / name)

    def missing(self, names: Sequence[str] = tuple(PROGRAMS)) -> list[str]:
        return [name for name in names if not os.access(self.folder / name, os.X_OK)]

    def build(self, names: Sequence[str] = tuple(PROGRAMS)) -> list[str]:
        """Build those that are missing; which were. Raises Stop where there is no Go, or it fails."""
        if not self.missing(names):
            return []
        go = find_go()
        self.folder.mkdir(parents=True, exist_ok=True)
        with self._alone():
            missing = self.missing(names)  # Another build may have made them meanwhile.
            for module in dict.fromkeys(PROGRAMS[name].module for name in missing):
                self._build_module(go, module, [name for name in missing if PROGRAMS[name].module == module])
        return missing

    @contextlib.contextmanager
    def _alone(self) -> Iterator[None]:
        """One build at a time: each uses all cores, and both would make the same."""
        with (self.folder / "lock").open("w") as lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                with step("programs") as done:
                    fcntl.flock(lock, fcntl.LOCK_EX)
                    done.outcome = "another build has ended"
            yield

    def _build_module(self, go: str, module: str, names: Sequence[str]) -> None:
        with step(f"build {module}") as done, tempfile.TemporaryDirectory(prefix=".building-", dir=self.folder) as folder:
            source, output = Path(folder, "module"), Path(folder, "programs")
            shutil.copytree(MODULES / module, source)  # Go may not write into the checkout.
            output.mkdir()
            command = [go, "build", "-mod=readonly", "-trimpath", "-ldflags", linker_flags(module), "-o", f"{output}/"]
            _run_at_lowest_priority([*command, *(PROGRAMS[name].package for name in names)], source, module)
            for name in names:
                built = output / (name if (output / name).exists() else "server")  # The package of etcd ends so.
                built.replace(self.folder / name)
            done.outcome = ", ".join(names)


def find_go() -> str:
    """Raises Stop, which names the programs that need it."""
    for place in (shutil.which("go"), *GO_PLACES):
        if place and os.access(place, os.X_OK):
            return place
    lines = [line for path in MODULES.glob("*/go.mod") for line in path.read_text().splitlines()]
    oldest = max(line.removeprefix("go ") for line in lines if line.startswith("go "))
    raise Stop(
        f"Kubernetes {VERSION} has to be built, and there is no `go` on the PATH. Install Go {oldest} or newer, "
        f"or put {', '.join(PROGRAMS)} of that version into {Programs.cached().folder}."
    )


def linker_flags(module: str) -> str:
    """No symbols; and the version, without which the programs of Kubernetes call themselves v0.0.0-master."""
    flags = ["-s", "-w"]
    if module == "kubernetes":
        major, minor, _ = VERSION.removeprefix("v").split(".")
        values = {
            "gitVersion": VERSION,
            "gitMajor": major,
            "gitMinor": minor,
            "gitCommit": "unknown",
            "gitTreeState": "clean",
            "buildDate": "1970-01-01T00:00:00Z",
        }
        for package in ("k8s.io/component-base/version", "k8s.io/client-go/pkg/version"):
            flags += [f"-X {package}.{name}={value}" for name, value in values.items()]
    return " ".join(flags)


def _run_at_lowest_priority(command: Sequence[str], folder: Path, module: str) -> None:
    """In a session of its own, because the kernel shares its time among sessions first where it groups by them."""
    environment = {**os.environ, "CGO_ENABLED": "0", "GOWORK": "off"}
    output = folder.parent / "output.txt"
    with output.open("wb") as log:
        nice = ["nice", "-n", str(LOWEST), *command]
        process = subprocess.Popen(nice, cwd=folder, env=environment, stdout=log, stderr=log, start_new_session=True)
        with contextlib.suppress(OSError):
            Path(f"/proc/{process.pid}/autogroup").write_text(f"{LOWEST}\n")
        try:
            code = process.wait()
        except BaseException:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGTERM)
            process.wait()
            raise
    if code:
        said = [line for line in output.read_text(errors="replace").splitlines() if not line.startswith("go: downloading")]
        raise Stop(f"{module} cannot be built: `go build` ended with {code}: {last_line(chr(10).join(said[-20:]))}")
