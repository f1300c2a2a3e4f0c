"""`make up` and `make down`: from an empty machine to a running platform and back. Standard library only.

Nothing below this file is installed when it runs first. It makes the environment, puts a copy of the server where the
platform's own user can read it, starts the platform in the background, and on new data runs the example job. Running it again
is harmless: every step looks first whether it is done.
"""

from __future__ import annotations

import argparse
import contextlib
import fcntl
import hashlib
import json
import os
import pwd
import shutil
import signal
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
SERVER_FOLDERS = ("platform", "tenants", "jobs", "images", "storage", "client/src")
SERVICE_USER = "berth"
FREE_BYTES_MIN = 3 * 1024**3  # Environment, example image and room to work.
READY_SECONDS_MAX = 60
DEFAULT_PORT = 8620


class Stop(Exception):
    """The command ends here; the message says why and what to do."""


def main() -> int:
    parser = argparse.ArgumentParser(description="Start, stop and try the embedded platform.")
    parser.add_argument("action", choices=["up", "down", "example", "status"])
    parser.add_argument("--port", type=int, default=int(os.environ.get("BERTH_PORT", DEFAULT_PORT)))
    parser.add_argument("--no-example", action="store_true", help="do not submit the example job on new data")
    options = parser.parse_args()
    try:
        place = Place.find(options.port)
        if options.action == "down":
            return down(place)
        if options.action == "status":
            return status(place)
        if options.action == "example":
            return example(place)
        return up(place, with_example=not options.no_example)
    except Stop as reason:
        print(f"\nberth: {reason}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("\nberth: interrupted; run the same command again to go on.", file=sys.stderr)
        return 130


# --- Where things are ------------------------------------------------------------------------------------------------


class Place:
    """The data directory, the environment and the copy of the server of this installation."""

    def __init__(self, data: Path, port: int) -> None:
        self.data = data
        self.port = port
        self.url = f"http://127.0.0.1:{port}"
        lock = hashlib.sha256((ROOT / "requirements.lock").read_bytes() + sys.version.encode()).hexdigest()[:12]
        self.environment = data / "env" / lock
        self.python = self.environment / "bin" / "python"
        self.log = data / "log" / "platform.log"

    @classmethod
    def find(cls, port: int) -> Place:
        """The directory from BERTH_DATA_DIR; else /var/lib/berth for root, the user's data folder for others."""
        text = os.environ.get("BERTH_DATA_DIR")
        if text:
            return cls(Path(text).resolve(), port)
        if os.geteuid() == 0:
            return cls(Path("/var/lib/berth"), port)
        base = os.environ.get("XDG_DATA_HOME") or str(Path.home() / ".local" / "share")
        return cls(Path(base) / "berth", port)

    @property
    def is_new(self) -> bool:
        return not (self.data / "berth.sqlite3").exists()

    @property
    def release(self) -> Path:
        return self.data / "release" / (self.data / "release" / "current").read_text().strip()


# --- up --------------------------------------------------------------------------------------------------------------


def up(place: Place, *, with_example: bool) -> int:
    is_new = place.is_new
    with step("data directory", str(place.data)):
        make_data_directory(place)
    running = running_process(place)
    if running is None:
        check_port(place)
    if os.geteuid() == 0:
        install_bubblewrap()
    with step("environment", "installed from requirements.lock"):
        make_environment(place)
    with step("server", "copied where the platform's user can read it"):
        copy_release(place)
        link_command(place)
    if running is not None:
        with step("platform", f"runs already as process {running} on {place.url}"):
            wait_until_ready(place, None)
    else:
        with step("platform", f"answers on {place.url}"):
            start(place)
    show_credentials(place)
    if is_new and with_example:
        code = example(place)
        if code:
            return code
    print_next_steps(place)
    return 0


def make_data_directory(place: Place) -> None:
    try:
        place.data.mkdir(parents=True, exist_ok=True)
        for name in ("env", "release", "log"):
            (place.data / name).mkdir(exist_ok=True)
    except OSError as error:
        raise Stop(f"{place.data} cannot be made: {error.strerror}. Set BERTH_DATA_DIR to a directory of yours.") from None
    free = shutil.disk_usage(place.data).free
    if place.is_new and free < FREE_BYTES_MIN:
        raise Stop(
            f"Only {free // 1024**2} MiB are free below {place.data}; a first start needs {FREE_BYTES_MIN // 1024**2} MiB. "
            "Free some space, or set BERTH_DATA_DIR to another disk."
        )
    if os.geteuid() == 0:
        ensure_service_user(place)
        user = pwd.getpwnam(SERVICE_USER)
        os.chown(place.data, user.pw_uid, user.pw_gid)
        os.chown(place.data / "log", user.pw_uid, user.pw_gid)
        (place.data / "log").chmod(0o750)
        place.data.chmod(0o711)  # Jobs pass through to what is theirs; they cannot list it.
    else:
        place.data.chmod(0o700)


def ensure_service_user(place: Place) -> None:
    with contextlib.suppress(KeyError):
        pwd.getpwnam(SERVICE_USER)
        return
    run_quietly(
        ["useradd", "--system", "--user-group", "--home-dir", str(place.data), "--no-create-home",
         "--shell", "/usr/sbin/nologin", SERVICE_USER],
        why="The platform needs a user of its own",
    )  # fmt: skip


def check_port(place: Place) -> None:
    import socket

    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", place.port))
        except OSError as error:
            raise Stop(
                f"Port {place.port} cannot be used: {error.strerror}. Choose another one: make up PORT={place.port + 80}"
            ) from None


def install_bubblewrap() -> None:
    """Better isolation where the distribution has it; the platform runs, and says so, without."""
    if shutil.which("bwrap") or not shutil.which("apt-get"):
        return
    environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    with step("bubblewrap", "keeps jobs in a file system of their own"):
        install = ["apt-get", "install", "-y", "-q", "bubblewrap"]
        if subprocess.run(install, env=environment, capture_output=True, check=False).returncode:
            subprocess.run(["apt-get", "update", "-q"], env=environment, capture_output=True, check=False)
            if subprocess.run(install, env=environment, capture_output=True, check=False).returncode:
                print("         bubblewrap cannot be installed here; jobs run without it, and their pages say so")


def make_environment(place: Place) -> None:
    """An environment per lock file. A half-made one has no mark and is made anew."""
    done = place.environment / "complete"
    if done.exists():
        return
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
    run_quietly(
        [str(place.python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-input",
         "--require-hashes", "-r", str(ROOT / "requirements.lock")],
        why="The packages of requirements.lock cannot be installed",
    )  # fmt: skip
    done.write_text("")


def copy_release(place: Place) -> None:
    """A copy named by its content: the platform's user need not read the checkout, and a running one is never edited."""
    digest = hashlib.sha256()
    files = sorted(path for folder in SERVER_FOLDERS for path in (ROOT / folder).rglob("*") if is_source(path))
    files.append(ROOT / "manage.py")
    for path in files:
        digest.update(str(path.relative_to(ROOT)).encode() + b"\0" + path.read_bytes() + b"\0")
    name = digest.hexdigest()[:12]
    target = place.data / "release" / name
    if not target.exists():
        building = target.with_suffix(".building")
        shutil.rmtree(building, ignore_errors=True)
        for path in files:
            copy = building / path.relative_to(ROOT)
            copy.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(path, copy)
        subprocess.run([str(place.python), "-m", "compileall", "-q", str(building)], check=False, capture_output=True)
        for path in (building, *building.rglob("*")):
            path.chmod(0o755 if path.is_dir() else 0o644)
        building.rename(target)
    (place.data / "release" / "current").write_text(name + "\n")


def is_source(path: Path) -> bool:
    return path.is_file() and "__pycache__" not in path.parts and path.suffix != ".pyc"


def link_command(place: Place) -> None:
    """Put `berth` where shells look for commands."""
    script = place.environment / "bin" / "berth"
    text = (
        f"#!{place.python} -I\n"
        "import sys\n"
        f"sys.path.insert(0, {str(place.release / 'client' / 'src')!r})\n"
        "from berth.cli.root import main\n"
        "sys.exit(main())\n"
    )
    if not script.exists() or script.read_text() != text:
        script.write_text(text)
        script.chmod(0o755)
    folder = Path("/usr/local/bin") if os.geteuid() == 0 else Path.home() / ".local" / "bin"
    with contextlib.suppress(OSError):
        folder.mkdir(parents=True, exist_ok=True)
        link = folder / "berth"
        if link.is_symlink() and "/env/" in os.readlink(link):
            link.unlink()
        if not link.exists():
            link.symlink_to(script)


def start(place: Place) -> None:
    """Start the platform in a session of its own and wait until it is ready."""
    environment = {
        **{name: value for name, value in os.environ.items() if not name.startswith("DJANGO_")},
        "BERTH_DATA_DIR": str(place.data),
        "BERTH_PORT": str(place.port),
        "PYTHONUNBUFFERED": "1",
        "PYTHONDONTWRITEBYTECODE": "1",
    }
    with place.log.open("ab") as log:
        process = subprocess.Popen(
            [str(place.python), str(place.release / "manage.py"), "serve", "--bootstrap"],
            stdin=subprocess.DEVNULL, stdout=log, stderr=log, cwd="/", env=environment, start_new_session=True,
        )  # fmt: skip
    wait_until_ready(place, process)


def wait_until_ready(place: Place, process: subprocess.Popen[bytes] | None) -> None:
    deadline = time.monotonic() + READY_SECONDS_MAX
    while time.monotonic() < deadline:
        if process is not None and process.poll() is not None:
            raise Stop(f"the platform did not start: {reason_from_log(place)}\nIts log: {place.log}")
        try:
            with urllib.request.urlopen(f"{place.url}/readyz", timeout=2) as answer:
                if answer.status == 200:
                    return
        except (urllib.error.URLError, OSError):
            pass
        time.sleep(0.05)
    raise Stop(f"the platform is not ready after {READY_SECONDS_MAX} s; see {place.url}/readyz and {place.log}")


def reason_from_log(place: Place) -> str:
    lines = place.log.read_text(errors="replace").splitlines()[-200:]
    for line in reversed(lines):
        if line.startswith("berth: "):
            return line.removeprefix("berth: ")
    return lines[-1] if lines else "it left no word"


def show_credentials(place: Place) -> None:
    """Sign this user in with the first token and say once what was generated."""
    path = place.data / "first-credentials.json"
    if not path.exists():
        return
    credentials = json.loads(path.read_text())
    berth(place, "login", "--server", place.url, input_text=credentials["token"])
    print(
        "\n  First operator   " + credentials["user"]
        + "\n  First tenant     " + credentials["tenant"]
        + "\n  Token            " + credentials["token"]
        + f"\n  Shown this once; stored for this user in {config_path()} (0600). Valid until {credentials['expires_at'][:10]}.\n"
    )  # fmt: skip
    path.unlink()


def config_path() -> Path:
    return Path(os.environ.get("XDG_CONFIG_HOME") or Path.home() / ".config") / "berth" / "config.toml"


# --- example, down, status -------------------------------------------------------------------------------------------


def example(place: Place) -> int:
    """Build the example's image if it is missing, submit the job and follow it to its end."""
    if running_process(place) is None:
        raise Stop("the platform does not run. Start it with `make up`.")
    if not (place.environment / "bin" / "berth").exists():
        raise Stop("the platform is not installed yet. Start it with `make up`.")
    print("The example: two workers train a network on handwritten digits.")
    folder = ROOT / "examples"
    images = json.loads(berth(place, "images", "list", "--json").stdout)
    rows = images["items"] if isinstance(images, dict) else images
    if not any(row["name"] == "jax-cpu" for row in rows):
        requirements = str(folder / "digits" / "requirements.txt")
        show(place, "images", "build", "jax-cpu", "-r", requirements, "--follow")
    return show(place, "submit", "-f", str(folder / "digits.yaml"), "-y", "--follow")


def down(place: Place) -> int:
    process = running_process(place)
    if process is None:
        print(f"No platform runs on {place.data}.")
        return 0
    with step("platform", "stopped; its jobs run on, and the next `make up` takes them up again"):
        os.kill(process, signal.SIGTERM)
        deadline = time.monotonic() + 30
        while running_process(place) is not None:
            if time.monotonic() > deadline:
                raise Stop(f"process {process} does not end; see {place.log}")
            time.sleep(0.05)
    return 0


def status(place: Place) -> int:
    process = running_process(place)
    print(f"running as process {process} on {place.url}" if process else "not running")
    return 0 if process else 1


def running_process(place: Place) -> int | None:
    """The process that holds the data directory's lock, if any does."""
    path = place.data / "platform.lock"
    try:
        descriptor = os.open(path, os.O_RDWR)
    except FileNotFoundError:
        return None
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        text = os.read(descriptor, 100).decode(errors="replace").strip()
        return int(text) if text.isdigit() else None
    finally:
        os.close(descriptor)
    return None


def print_next_steps(place: Place) -> None:
    print(
        f"""
Berth runs on {place.url}. Next:
  berth submit -f examples/digits.yaml    submit the example again
  berth ps                                what waits, runs and ran
  berth --help                            everything else
  {place.url}/api/v1/docs    the REST API, to try in a browser
  make down                               stop the platform; jobs run on
"""
    )


# --- Talking ---------------------------------------------------------------------------------------------------------


def berth(place: Place, *arguments: str, input_text: str | None = None) -> subprocess.CompletedProcess[str]:
    """Run the command line quietly; a failure ends this command with what it said."""
    done = subprocess.run(
        [str(place.environment / "bin" / "berth"), *arguments], input=input_text, capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise Stop(f"`berth {' '.join(arguments[:2])}` failed: {done.stderr.strip() or done.stdout.strip()}")
    return done


def show(place: Place, *arguments: str) -> int:
    print(f"\n$ berth {' '.join(arguments)}", flush=True)
    return subprocess.run([str(place.environment / "bin" / "berth"), *arguments], check=False).returncode


@contextlib.contextmanager
def step(name: str, outcome: str) -> Iterator[None]:
    """Say what is being done while it takes longer than a second, and what came of it."""
    began = time.monotonic()
    over = threading.Event()
    on_terminal = sys.stdout.isatty()

    def tell() -> None:
        said = False
        while not over.wait(1.0):
            seconds = int(time.monotonic() - began)
            if on_terminal:
                print(f"\r  ....  {name:<16} {seconds} s", end="", flush=True)
            elif not said or seconds % 10 == 0:
                print(f"  ....  {name} ({seconds} s)", flush=True)
            said = True

    teller = threading.Thread(target=tell, daemon=True)
    teller.start()
    try:
        yield
    except BaseException:
        over.set()
        teller.join()
        print(f"{chr(13) if on_terminal else ''}  FAIL  {name:<16}", flush=True)
        raise
    over.set()
    teller.join()
    seconds = time.monotonic() - began
    timing = f" ({seconds:.1f} s)" if seconds >= 1 else ""
    print(f"{chr(13) if on_terminal else ''}  done  {name:<16} {outcome}{timing}", flush=True)


def run_quietly(command: list[str], *, why: str) -> None:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise Stop(f"{why}: `{' '.join(command[:4])}` said: {last_line(done.stderr or done.stdout)}")


def last_line(text: str) -> str:
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return lines[-1] if lines else "nothing"


if __name__ == "__main__":
    sys.exit(main())
