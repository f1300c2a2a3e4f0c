"""What `make up` installs: data directory, environment, a copy of the server and the command. Standard library only.

Every function looks first whether its part is done, so that all of them may be called again.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import pwd
import shutil
import stat
import subprocess
import sys
from pathlib import Path

from tools.place import ROOT, Place, command_folder
from tools.progress import Stop, last_line, run_quietly, step

SERVER_FOLDERS = ("platform", "tenants", "jobs", "images", "storage", "client/src")
SERVICE_USER = "berth"
BUILD_PACKAGES = {"ldap": "libldap-dev libsasl2-dev python3-dev gcc"}  # It comes as source alone.
FREE_BYTES_MIN = 3 * 1024**3  # Environment, example image and room to work.


def make_data_directory(place: Place) -> None:
    """Make it, and as root close it so that the platform's own user adds files but cannot replace what root runs."""
    try:
        place.data.mkdir(parents=True, exist_ok=True)
        for name in ("env", "release", "log", "bin"):
            (place.data / name).mkdir(exist_ok=True)
        if not os.access(place.data, os.W_OK):
            raise PermissionError(13, "Permission denied")
        if os.geteuid() != 0:
            place.data.chmod(0o700)
    except OSError as error:
        raise Stop(f"{place.data} cannot be used: {error.strerror}. Set BERTH_DATA_DIR to a directory of yours.") from None
    free = shutil.disk_usage(place.data).free
    if not place.welcomed.exists() and free < FREE_BYTES_MIN:
        raise Stop(
            f"Only {free // 1024**2} MiB are free below {place.data}; a first start needs {FREE_BYTES_MIN // 1024**2} MiB. "
            "Free some space, or set BERTH_DATA_DIR to another disk."
        )
    if os.geteuid() == 0:
        ensure_service_user(place)
        group = pwd.getpwnam(SERVICE_USER).pw_gid
        os.chown(place.data, 0, group)
        os.chown(place.data / "log", 0, group)
        (place.data / "log").chmod(0o750)
        place.data.chmod(0o1771)  # Jobs pass through to what is theirs; they cannot list it.
        check_passage(place.data)
        check_passage(Path(sys.base_prefix))


def ensure_service_user(place: Place) -> None:
    with contextlib.suppress(KeyError):
        pwd.getpwnam(SERVICE_USER)
        return
    try:
        run_quietly(
            ["useradd", "--system", "--user-group", "--home-dir", str(place.data), "--no-create-home",
             "--shell", "/usr/sbin/nologin", SERVICE_USER],
            why="The platform needs a user of its own",
        )  # fmt: skip
    except Stop:
        with contextlib.suppress(KeyError):
            pwd.getpwnam(SERVICE_USER)  # Another start made it at the same moment.
            return
        raise


def check_passage(path: Path) -> None:
    """Root passes everywhere; the user that the platform becomes, and jobs, need a way there."""
    for folder in (path, *path.parents):
        if not folder.stat().st_mode & stat.S_IXOTH:
            raise Stop(
                f"{folder} is closed to other users, and the platform, whose user is {SERVICE_USER}, needs {path}. "
                "Set BERTH_DATA_DIR to a directory that others may pass, for example /var/lib/berth."
                if path != Path(sys.base_prefix)
                else f"{folder} is closed to other users, and the platform needs the Python in {path}. "
                "Use the system's own: apt-get install python3 python3-venv"
            )


def install_bubblewrap() -> None:
    """Better isolation where the distribution has it; the platform runs, and says so, without."""
    if shutil.which("bwrap") or not shutil.which("apt-get"):
        return
    environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    install = ["apt-get", "install", "-y", "-q", "bubblewrap"]
    with step("bubblewrap") as done:
        done.outcome = "keeps jobs in a file system of their own"
        for command in (install, ["apt-get", "update", "-q"], install):
            code = subprocess.run(command, env=environment, capture_output=True, check=False).returncode
            if command is install and code == 0:
                return
        done.outcome = "cannot be installed here; jobs run without it, and their pages say so"


def make_environment(place: Place) -> bool:
    """An environment per lock file; True if it was made now. A half-made one has no mark and is made anew."""
    if place.is_environment_given:
        if not os.access(place.python, os.X_OK):
            raise Stop(f"BERTH_ENVIRONMENT={place.environment} is not a Python environment. Leave it out to have one made.")
        return False
    done = place.environment / "complete"
    if done.exists():
        return False
    shutil.rmtree(place.environment, ignore_errors=True)
    made = subprocess.run([sys.executable, "-m", "venv", str(place.environment)], capture_output=True, text=True, check=False)
    if made.returncode:
        if os.geteuid() != 0 or not shutil.which("apt-get"):
            raise Stop(
                f"{sys.executable} cannot make environments: {last_line(made.stdout + made.stderr)} "
                "On Debian: apt-get install python3-venv"
            )
        environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
        subprocess.run(["apt-get", "update", "-q"], env=environment, capture_output=True, check=False)
        run_quietly(["apt-get", "install", "-y", "-q", "python3-venv"], why="Python cannot make environments")
        shutil.rmtree(place.environment, ignore_errors=True)
        run_quietly([sys.executable, "-m", "venv", str(place.environment)], why="The environment cannot be made")
    for lock in place.lock_files:
        run_quietly(
            [str(place.python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-input",
             "--require-hashes", "-r", str(lock)],
            why=f"The packages of {lock.name} cannot be installed{_what_builds(lock)}",
        )  # fmt: skip
    done.write_text("")
    return True


def _what_builds(lock: Path) -> str:
    needed = BUILD_PACKAGES.get(lock.stem.removeprefix("requirements-"), "")
    return f" (on Debian they need: apt-get install {needed})" if needed else ""


def copy_release(place: Place, portal: Path | None = None) -> bool:
    """A copy named by its content: the platform's user need not read the checkout, and a running one is never edited.

    `portal` is the folder of the built web portal; None: a server without one.
    """
    digest = hashlib.sha256()
    sources = sorted(path for folder in SERVER_FOLDERS for path in (ROOT / folder).rglob("*") if is_source(path))
    files = {path.relative_to(ROOT): path for path in [*sources, ROOT / "manage.py"]}
    if portal is not None:
        files |= {"portal" / path.relative_to(portal): path for path in sorted(portal.rglob("*")) if path.is_file()}
    for relative, path in files.items():
        digest.update(str(relative).encode() + b"\0" + path.read_bytes() + b"\0")
    name = digest.hexdigest()[:12]
    target = place.data / "release" / name
    is_new = not target.exists()
    if is_new:
        building = target.with_suffix(".building")
        shutil.rmtree(building, ignore_errors=True)
        for relative, path in files.items():
            copy = building / relative
            copy.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(path, copy)
        subprocess.run([str(place.python), "-m", "compileall", "-q", str(building)], check=False, capture_output=True)
        for path in (building, *building.rglob("*")):
            path.chmod(0o755 if path.is_dir() else 0o644)
        building.rename(target)
    write_whole(place.data / "release" / "interpreter", f"{place.python}\n", 0o644)  # With it a rolling restart runs the release.
    write_whole(place.data / "release" / "current", name + "\n", 0o644)
    return is_new


def is_source(path: Path) -> bool:
    return path.is_file() and "__pycache__" not in path.parts and path.suffix != ".pyc"


def link_command(place: Place) -> None:
    """Put `berth` where shells look for commands. A program of that name that is not ours stays."""
    text = (
        f"#!{place.python} -I\n"
        "import sys\n"
        f"sys.path.insert(0, {str(place.release / 'client' / 'src')!r})\n"
        "from berth.cli.root import main\n"
        "sys.exit(main())\n"
    )
    if not place.command.exists() or place.command.read_text() != text:
        write_whole(place.command, text, 0o755)
    link = command_folder() / "berth"
    with contextlib.suppress(OSError):
        link.parent.mkdir(parents=True, exist_ok=True)
        if link.is_symlink() and (not link.exists() or "from berth.cli.root import main" in link.read_text(errors="replace")):
            link.unlink()
        if not link.exists():
            link.symlink_to(place.command)


def link_server_command(place: Place) -> None:
    """A program with one path for ever that runs the present release: `berth-server run web`, `berth-server backup`.

    What goes on runs in `/`, so that it keeps no directory in use; a command runs where it was called, and its paths are relative
    to that place.
    """
    text = (
        "#!/bin/sh\n"
        f'export BERTH_DATA_DIR="${{BERTH_DATA_DIR:-{place.data}}}" PYTHONDONTWRITEBYTECODE=1\n'
        f"settings={place.data}/release/production.env\n"
        'if [ -z "$BERTH_SERVER_PROFILE$BERTH_DATABASE_URL" ] && [ -r "$settings" ]; then set -a; . "$settings"; set +a; fi\n'
        'case "$1" in serve|run|prepare) cd / ;; esac\n'
        f'exec {place.python} {place.release / "manage.py"} "$@"\n'
    )
    if not place.server_command.exists() or place.server_command.read_text() != text:
        write_whole(place.server_command, text, 0o755)


def write_whole(path: Path, text: str, mode: int) -> None:
    """Replace the file in one step: a process that reads or runs it meanwhile sees the old or the new file."""
    building = path.with_name(path.name + ".building")
    building.write_text(text)
    building.chmod(mode)
    building.replace(path)
