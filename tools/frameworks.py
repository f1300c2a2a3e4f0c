"""`python -m tools.frameworks [NAME...]`: an environment of Python packages for each real framework that tests run on.

What is installed is said by the files of `tests/frameworks/requirements`: every package with its exact version, those that others
ask for too, so that nothing is looked up. An environment lies below BERTH_CACHE, outside the checkout, and its name says its
packages and its Python: a second run finds it, and checkouts with the same packages share it. Jobs of tests run in it as users
of their own and see it at another place (`tests/builders/frameworks.py`): so all of it may be read by everybody, the Python that
it links to must be, too, and its programs find their Python beside themselves.

Together they take a minute of a core, two of the network and the disk, and 3.1 GiB. So they are made at the lowest priority, and
none by two at a time. Standard library only.
"""

from __future__ import annotations

import argparse
import contextlib
import fcntl
import hashlib
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from tools.kubernetes.programs import LOWEST
from tools.progress import Stop, say_error, step

ROOT = Path(__file__).resolve().parent.parent
REQUIREMENTS = ROOT / "tests" / "frameworks" / "requirements"
MARK = "complete"  # Of an environment that is whole; in it is how large it is, in MiB.
SAID_LINES = 4  # Of pip, after a failure.
INSTALL_SECONDS_MAX = 1_800  # One takes a minute or two; at the lowest priority on a busy machine, several times that.
# How a program of Python in bin/ begins, in place of the line with a whole path: a shell reads the lines, Python sees a text.
BEGINNING = b"""#!/bin/sh
'''exec' "$(dirname -- "$(realpath -- "$0")")/python3" "$0" "$@"
' '''
"""
OTHERS = 0o005  # What everybody else needs of a folder, to read it and pass through.


@dataclass(frozen=True)
class Framework:
    """What its environment is made for: a package of its requirements, and the module that programs import."""

    package: str
    module: str


# The large ones first.
FRAMEWORKS: Mapping[str, Framework] = {
    "tensorflow": Framework("tensorflow-cpu", "tensorflow"),
    "ray": Framework("ray", "ray"),
    "spark": Framework("pyspark", "pyspark"),
    "dask": Framework("distributed", "distributed"),
    "mxnet": Framework("mxnet", "mxnet"),
}


class Environments:
    """A folder of environments."""

    def __init__(self, folder: Path, requirements: Path = REQUIREMENTS) -> None:
        self.folder = folder
        self.requirements = requirements

    @classmethod
    def cached(cls) -> Environments:
        """Those below BERTH_CACHE, which is /var/cache/berth for root, as `make` has it."""
        base = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "berth"
        default = Path("/var/cache/berth") if os.geteuid() == 0 else base
        return cls(Path(os.environ.get("BERTH_CACHE") or default) / "frameworks")

    def path(self, name: str) -> Path:
        """Where the environment of a framework is, or will be."""
        content = "\n".join([*self._packages(name), sys.version])
        return self.folder / f"{name}-{hashlib.sha256(content.encode()).hexdigest()[:12]}"

    def version(self, name: str) -> str:
        """Of the framework, as its requirements pin it."""
        return dict(line.split("==") for line in self._packages(name))[FRAMEWORKS[name].package]

    def missing(self, names: Sequence[str] = tuple(FRAMEWORKS)) -> list[str]:
        return [name for name in names if not (self.path(name) / MARK).exists()]

    def make(self, names: Sequence[str] = tuple(FRAMEWORKS)) -> dict[str, str]:
        """Make those that are missing; of those that cannot be made, why. One that fails keeps none of the others from being
        made. Raises Stop where jobs could not use any."""
        if not self.missing(names):
            return {}
        interpreter = _base_interpreter()
        self.folder.mkdir(parents=True, exist_ok=True)
        failures: dict[str, str] = {}
        for name in self.missing(names):
            try:
                with self._alone(name):
                    if self.missing([name]):  # Another run may have made it meanwhile.
                        self._make(name, interpreter)
            except Stop as refusal:
                failures[name] = str(refusal)
        return failures

    def _packages(self, name: str) -> list[str]:
        lines = (self.requirements / f"{name}.txt").read_text(encoding="utf-8").splitlines()
        return [line for line in lines if line and not line.startswith("#")]

    @contextlib.contextmanager
    def _alone(self, name: str) -> Iterator[None]:
        """One run at a time makes the environment of a framework."""
        with (self.folder / f"{name}.lock").open("w") as lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                with step(name) as done:
                    fcntl.flock(lock, fcntl.LOCK_EX)
                    done.outcome = "another run has made it"
            yield

    def _make(self, name: str, interpreter: str) -> None:
        """Without the mark it is half made, and is made anew."""
        place = self.path(name)
        output = self.folder / f"{name}.txt"
        pip = [
            str(place / "bin" / "python"),
            "-m",
            "pip",
            "install",
            "--disable-pip-version-check",
            "--no-input",
            "--no-cache-dir",
        ]
        with step(name) as done:
            shutil.rmtree(place, ignore_errors=True)
            try:
                _run_at_lowest_priority([interpreter, "-m", "venv", str(place)], output, name)
                _run_at_lowest_priority([*pip, "--no-deps", "-r", str(self.requirements / f"{name}.txt")], output, name)
            except Stop:
                shutil.rmtree(place, ignore_errors=True)
                raise
            make_movable(place / "bin")
            size = _mebibytes(place)
            (place / MARK).write_text(f"{size}\n")
            output.unlink()
            done.outcome = f"{size:,} MiB in {place}"


def make_movable(programs: Path) -> None:
    """Have the programs that pip wrote run the Python beside them, wherever the folder is seen."""
    for path in programs.iterdir():
        if path.is_symlink() or not path.is_file():
            continue
        line, _, rest = path.read_bytes().partition(b"\n")
        if line.startswith(b"#!" + os.fsencode(programs)):
            path.write_bytes(BEGINNING + rest)


def _base_interpreter() -> str:
    """The Python behind the environment that this runs in, by its whole path. Raises Stop where other users cannot run it."""
    interpreter = Path(getattr(sys, "_base_executable", "") or sys.executable).resolve()
    for place in (interpreter, *interpreter.parents):
        if os.geteuid() == 0 and place.stat().st_mode & OTHERS != OTHERS:
            raise Stop(f"Jobs run as users of their own and cannot use {interpreter}: {place} is closed to them.")
    return str(interpreter)


def _run_at_lowest_priority(command: Sequence[str], output: Path, name: str) -> None:
    """Run it in a session of its own, because the kernel shares its time among sessions first where it groups by them. Raises
    Stop with what it said last."""
    with output.open("wb") as log:
        nice = ["nice", "-n", str(LOWEST), *command]
        process = subprocess.Popen(nice, stdout=log, stderr=log, stdin=subprocess.DEVNULL, start_new_session=True, umask=0o022)
        with contextlib.suppress(OSError):
            Path(f"/proc/{process.pid}/autogroup").write_text(f"{LOWEST}\n")
        try:
            code = process.wait(INSTALL_SECONDS_MAX)
        except subprocess.TimeoutExpired:
            _end(process)
            raise Stop(f"{name} was not installed within {INSTALL_SECONDS_MAX} s; see {output}") from None
        except BaseException:
            _end(process)
            raise
    if code:
        said = [line.strip() for line in output.read_text(errors="replace").splitlines() if line.strip()]
        raise Stop(f"{name} cannot be installed; pip said last:\n  " + "\n  ".join(said[-SAID_LINES:]))


def _end(process: subprocess.Popen[bytes]) -> None:
    """End it with all that it has started."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGTERM)
    process.wait()


def _mebibytes(place: Path) -> int:
    """What the files of a folder take on the disk."""
    return sum(path.lstat().st_blocks for path in place.rglob("*")) * 512 // 1024**2


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m tools.frameworks", description="Make the environments of real frameworks that are missing."
    )
    parser.add_argument("names", nargs="*", metavar="NAME", choices=[[], *FRAMEWORKS], help=f"of {', '.join(FRAMEWORKS)}")
    names = parser.parse_args(arguments).names or list(FRAMEWORKS)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))  # So that pip ends with it.
    environments = Environments.cached()
    try:
        failures = environments.make(names)
    except Stop as refusal:
        failures = {"": str(refusal)}
    for text in failures.values():
        say_error(text)
    for name in names:
        if not environments.missing([name]):
            print(f"{name:<12}{environments.path(name) / 'bin'}")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
