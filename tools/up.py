"""`make up` and `make down`: from an empty machine to a running platform and back. Standard library only.

Nothing that Berth is made of is installed when this runs first. It makes the environment, puts a copy of the server where the
platform's own user can read it, starts the platform in the background, and on new data runs the example job. Running it again
is harmless: every step looks first whether it is done. An older Python than Berth needs can still read it, and is told so.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import signal
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Mapping
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from tools.install import (  # noqa: E402 - the root comes first.
    SERVICE_USER,
    copy_release,
    ensure_service_user,
    install_bubblewrap,
    link_command,
    link_server_command,
    make_data_directory,
    make_environment,
    write_whole,
)
from tools.keep import end_keeper, find_keeper, start_keeper  # noqa: E402
from tools.leftover import end_left_over  # noqa: E402
from tools.place import (  # noqa: E402
    DEFAULT_PORT,
    EXTRAS,
    Place,
    RunningPlatform,
    alone,
    check_port,
    command_folder,
    config_path,
    find_running,
    is_locked,
    read_lock,
)
from tools.portal import PortalError, build, cache_folder  # noqa: E402
from tools.production import (  # noqa: E402
    PRODUCTION,
    choose_profile,
    describe_processes,
    describe_servers,
    prepare,
    remember,
    roll,
    wait_for_all,
)
from tools.progress import Stop, Told, say_error, step  # noqa: E402
from tools.servers import own_servers, stop_servers  # noqa: E402

__all__ = ["SERVICE_USER", "Place", "copy_release", "ensure_service_user", "main"]

READY_SECONDS_MAX = 120  # An idle machine needs three.
STOP_SECONDS_MAX = 60  # The platform ends within five; requests in hand have 20, a loaded machine may take longer.
PYTHONS = ((3, 11), (3, 12))
HELP = """
environment:
  BERTH_DATA_DIR      where everything is kept; default /var/lib/berth for root, else ~/.local/share/berth
  BERTH_PORT          the port, when --port does not say it; default 8620
  BERTH_ENVIRONMENT   use this Python environment, which has the packages of requirements.lock, instead of making one
  BERTH_COMMAND_DIR   where to put the `berth` command; default /usr/local/bin for root, else ~/.local/bin
Every setting of docs/settings.md is handed on to the platform.
"""


def main() -> int:
    try:
        check_python()
        options = arguments()
        os.umask(0o022)  # The platform's user reads what is installed here; what is secret is closed one by one.
        place = Place.find(options.port)
        if options.extras:
            place = choose_extras(place, options.extras)
        if options.action == "down":
            return down(place)
        if options.action == "status":
            return status(place)
        if options.action == "example":
            return example(place)
        if options.action == "install":
            return install(place)
        return up(place, with_example=not options.no_example, profile=choose_profile(place, options.profile))
    except Stop as reason:
        say_error(str(reason))
        return 1
    except OSError as error:
        say_error(f"{error.filename or 'the system'}: {error.strerror or error}. Mend that and run the same command again.")
        return 1
    except KeyboardInterrupt:
        say_error("interrupted; run the same command again to go on.")
        return 130


def check_python() -> None:
    if sys.version_info[:2] not in PYTHONS:
        version = sys.version.split()[0]
        raise Stop(f"Python 3.11 or 3.12 is needed; {sys.executable} is {version}. On Debian 12: apt-get install python3")


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description="Start, stop and try the platform.",
        epilog=HELP,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("action", choices=["up", "down", "example", "status", "install"])
    parser.add_argument("--port", default=os.environ.get("BERTH_PORT", str(DEFAULT_PORT)))
    parser.add_argument("--profile", default="", help="embedded or production; default what it was, embedded at first")
    parser.add_argument("--extras", default="", help="ldap, or none; default what it was, none at first")
    parser.add_argument("--no-example", action="store_true", help="do not submit the example job on new data")
    options = parser.parse_args()
    if not options.port.isdigit() or not 0 < int(options.port) < 65_536:
        raise Stop(f"{options.port!r} is not a port. Choose one between 1 and 65535: make up PORT={DEFAULT_PORT}")
    options.port = int(options.port)
    return options


def choose_extras(place: Place, text: str) -> Place:
    """Write down what is installed beside the server itself; the place with the environment for it."""
    extras = [word for word in text.replace(",", " ").split() if word != "none"]
    unknown = [word for word in extras if word not in EXTRAS]
    if unknown:
        raise Stop(f"There is no extra {' '.join(unknown)}. Choose among: {', '.join(EXTRAS)}, none")
    if place.is_environment_given and extras:
        locks = " ".join(f"-r requirements-{extra}.lock" for extra in extras)
        raise Stop(f"BERTH_ENVIRONMENT is yours to fill: {place.python} -m pip install --require-hashes {locks}")
    place.chosen_extras.parent.mkdir(parents=True, exist_ok=True)
    write_whole(place.chosen_extras, " ".join(sorted(set(extras))) + "\n", 0o644)
    return Place(place.data, place.port)


# --- up --------------------------------------------------------------------------------------------------------------


def up(place: Place, *, with_example: bool, profile: str = "") -> int:
    with step("data directory") as done:
        make_data_directory(place)
        done.outcome = str(place.data)
    with alone(place):
        bring_up(place, profile)
    if not place.welcomed.exists():
        code = example(place) if with_example else 0
        place.welcomed.write_text("")
        if code:
            return code
    print_next_steps(place)
    return 0


def install(place: Place) -> int:
    """Everything of `up` but the start: a supervisor such as systemd does that."""
    with step("data directory") as done:
        make_data_directory(place)
        done.outcome = str(place.data)
    with alone(place):
        put_in_place(place)
    print(f"\nInstalled. The server's program is {place.server_command}; deploy/README.md says how to go on.")
    return 0


def put_in_place(place: Place) -> None:
    """Environment, a copy of the server, its commands."""
    if os.geteuid() == 0:
        install_bubblewrap()
    with step("environment") as done:
        names = " and ".join(lock.name for lock in place.lock_files)
        done.outcome = f"installed from {names}" if make_environment(place) else "there already"
    with step("portal") as done:
        portal = build_portal(done)
    with step("server") as done:
        done.outcome = "copied where the platform's user can read it" if copy_release(place, portal) else "there already"
        link_command(place)
        link_server_command(place)


def build_portal(done: Told) -> Path | None:
    """Where it cannot be built the platform runs without: command line and API have all that it has."""
    try:
        portal = build(cache_folder())
    except (PortalError, OSError) as error:
        done.outcome = f"left out: {error}"
        return None
    done.outcome = "built from frontend/"
    return portal


def bring_up(place: Place, profile: str) -> None:
    end_keeper(place)  # What is to run, and how, is decided here now.
    running = find_running(place)
    if running is None:
        end_left_over(place)
        check_port(place)
    put_in_place(place)
    settings = bring_up_servers(place) if profile == PRODUCTION else {}
    with step("platform") as done:
        if running is not None:
            adopt(place, running)
            done.outcome = f"runs already as process {running.process} on {place.url}"
        else:
            previous = read_lock(place)[1:2]
            process = start(place, settings)
            done.outcome = f"runs as process {process} on {place.url}"
            follow_address(place, *previous)
    if settings:
        bring_up_processes(place, running, settings)
    elif running is not None:
        say_what_differs(place, running)
    with step("keeper") as done:
        done.outcome = f"starts again what dies, as process {start_keeper(place)}"
    show_credentials(place)


def bring_up_servers(place: Place) -> dict[str, str]:
    """PostgreSQL and Redis, before the platform; its settings."""
    with step("servers") as done:
        settings = prepare(place)
        own = [server.name for server in own_servers(place)]
        done.outcome = f"{' and '.join(own)} run below {place.data}" if own else "PostgreSQL and Redis as given"
    return settings


def bring_up_processes(place: Place, running: RunningPlatform | None, settings: dict[str, str]) -> None:
    """All of them, of the present release: `/readyz` answers as soon as there is one of each."""
    with step("processes") as done:
        if running is not None and running.release != str(place.release):
            roll(place, running)
            done.outcome = "replaced one by one by those of the present release"
        now = find_running(place)
        wait_for_all(place, now.process if now else 0)
        done.outcome = done.outcome or "all ready"
    remember(place, settings)
    now = find_running(place)
    for line in describe_processes(place, now) if now else []:
        print(f"        {line}")
    if running is not None:
        say_what_differs(place, running)


def start(place: Place, settings: Mapping[str, str]) -> int:
    """Start the platform in a session of its own and wait until it is ready; its process."""
    environment = {
        **{name: value for name, value in os.environ.items() if not name.startswith(("DJANGO_", "PYTHON"))},
        "BERTH_DATA_DIR": str(place.data),
        "BERTH_PORT": str(place.port),
        **settings,
        "PYTHONUNBUFFERED": "1",
        "PYTHONDONTWRITEBYTECODE": "1",
    }
    with place.log.open("ab") as log:
        log_begin = log.tell()
        process = subprocess.Popen(
            [str(place.python), str(place.release / "manage.py"), "serve", "--bootstrap"],
            stdin=subprocess.DEVNULL, stdout=log, stderr=log, cwd="/", env=environment, start_new_session=True,
        )  # fmt: skip

    def check_alive() -> None:
        if process.poll() is not None:
            raise Stop(f"the platform did not start: {reason_from_log(place, log_begin)}\nIts log: {place.log}")

    wait_until_ready(place, check_alive)
    return process.pid


def adopt(place: Place, running: RunningPlatform) -> None:
    """Talk to the platform that runs, wherever it answers."""
    place.url = running.url

    def check_alive() -> None:
        if find_running(place) is None:
            raise Stop(
                f"process {running.process} ended while it was waited for. Run the same command again; its log: {place.log}"
            )

    wait_until_ready(place, check_alive)


def wait_until_ready(place: Place, check_alive: Callable[[], None]) -> None:
    """Wait until every check of /readyz passes."""
    deadline = time.monotonic() + READY_SECONDS_MAX
    failing = "it does not answer"
    while time.monotonic() < deadline:
        check_alive()
        code, body = get(f"{place.url}/readyz")
        if code == 200:
            return
        if body:
            failing = failing_checks(body)
        time.sleep(0.05)
    raise Stop(
        f"the platform runs but is not ready after {READY_SECONDS_MAX} s: {failing}.\n"
        f"See {place.url}/readyz and {place.log}; `{place.down_command}` stops it."
    )


def get(url: str) -> tuple[int, bytes]:
    """Status and body, 0 without an answer. A proxy for the outside has no part in talking to ourselves."""
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    try:
        with opener.open(url, timeout=5) as answer:
            return answer.status, answer.read()
    except urllib.error.HTTPError as error:
        with error:
            return error.code, error.read()
    except OSError:
        return 0, b""


def failing_checks(body: bytes) -> str:
    try:
        checks = json.loads(body)["checks"]
        return ", ".join(f"{name}: {check['detail']}" for name, check in sorted(checks.items()) if not check["ok"])
    except (ValueError, KeyError, TypeError):
        return "something else answers there"


def reason_from_log(place: Place, begin: int) -> str:
    """Why the platform ended, from what it wrote since `begin`: our own words, else its last ones."""
    with place.log.open("rb") as log:
        log.seek(begin)
        lines = [line for line in log.read().decode(errors="replace").splitlines() if line.strip()]
    for line in reversed(lines):
        if line.startswith("berth: "):
            return line[len("berth: ") :]
    return lines[-1] if lines else "it left no word"


def follow_address(place: Place, previous: str = "") -> None:
    """The platform has moved to another port: this user's command line follows it."""
    import tomllib

    if not previous or previous == place.url:
        return
    try:
        profiles = tomllib.loads(config_path().read_text()).get("profiles", {})
    except (OSError, ValueError):
        return
    for name, profile in profiles.items():
        if profile.get("server") == previous and profile.get("token"):
            berth(place, "login", "--profile", name, "--server", place.url, input_text=profile["token"])


def say_what_differs(place: Place, running: RunningPlatform) -> None:
    """The platform that runs is left alone; say where it is not what was asked for."""
    if running.url.rpartition(":")[2] != str(place.port):
        again = f"`{place.down_command}` and `{place.up_command} PORT={place.port}`"
        print(f"        Port {place.port} was asked for; it keeps its own until {again}.")
    if running.release != str(place.release) and not is_rolled(place):
        again = f"`{place.down_command}` and `{place.up_command}`"
        print(f"        It runs another copy of the server; {again} bring the present one.")


def is_rolled(place: Place) -> bool:
    """Whether the platform has taken the present copy of the server meanwhile."""
    now = find_running(place)
    return now is not None and now.release == str(place.release)


def show_credentials(place: Place) -> None:
    """Sign this user in with the first token, keep name and password beside it, and say once what was generated."""
    path = place.data / "first-credentials.json"
    if not path.exists():
        return
    credentials = json.loads(path.read_text())
    berth(place, "login", "--server", place.url, input_text=credentials["token"])
    kept = keep_sign_in(place, credentials)
    print(
        "\n  First operator   " + credentials["user"]
        + "\n  First tenant     " + credentials["tenant"]
        + f"\n  Password         {credentials['password']}   to sign in at {place.url} and {place.url}/admin"
        + "\n  Token            " + credentials["token"]
        + f"\n  Both shown this once. The token is stored for this user in {config_path()} (0600) and valid until"
        + f" {credentials['expires_at'][:10]};"
        + f"\n  name and password are in {kept} (0600): remove it once you have changed the password.\n",
        flush=True,
    )  # fmt: skip
    path.unlink()


def keep_sign_in(place: Place, credentials: dict[str, str]) -> Path:
    """Write the first name and password where only this user reads them; one file, of the newest installation."""
    path = config_path().parent / "first-sign-in.txt"
    path.unlink(missing_ok=True)
    descriptor = os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600)
    with os.fdopen(descriptor, "w") as file:
        file.write(f"Address   {place.url}\nName      {credentials['user']}\nPassword  {credentials['password']}\n")
    return path


# --- example, down, status -------------------------------------------------------------------------------------------


def example(place: Place) -> int:
    """Build the example's image if it is missing, submit the job and follow it to its end."""
    if find_running(place) is None:
        raise Stop("the platform does not run. Start it with `make up`.")
    if not place.command.exists():
        raise Stop("the platform is not installed yet. Start it with `make up`.")
    print("The example: two workers train a network on handwritten digits.")
    folder = ROOT / "examples"
    images = json.loads(berth(place, "images", "list", "--json").stdout)
    rows = images["items"] if isinstance(images, dict) else images
    if not any(row["name"] == "jax-cpu" for row in rows):
        requirements = str(folder / "digits" / "requirements.txt")
        show(place, "images", "build", "jax-cpu", "-r", requirements, "--follow")
    return show(place, "submit", "-f", str(folder / "digits.yaml"), "-y", "--follow")


def down(place: Place, outcome: str = "stopped; its jobs run on, and the next `make up` takes them up again") -> int:
    end_keeper(place)
    running = find_running(place)
    if running is None:
        print(f"No platform runs on {place.data}.")
        stop_own_servers(place)
        return 0
    with step("platform") as done:
        try:
            os.kill(running.process, signal.SIGTERM)
        except ProcessLookupError:
            pass  # It ended just now.
        except PermissionError:
            somebody = f"process {running.process} belongs to somebody else"
            raise Stop(f"{somebody}; they can stop it with `{place.down_command}`.") from None
        deadline = time.monotonic() + STOP_SECONDS_MAX
        while is_locked(place.lock):
            if time.monotonic() > deadline:
                raise Stop(f"process {running.process} does not end; its log: {place.log}")
            time.sleep(0.05)
        done.outcome = outcome
    stop_own_servers(place)
    return 0


def stop_own_servers(place: Place) -> None:
    """PostgreSQL and Redis, after all that speaks to them."""
    if any(server.process() for server in own_servers(place)):
        with step("servers") as done:
            done.outcome = f"{' and '.join(stop_servers(place))} stopped"


def status(place: Place) -> int:
    running = find_running(place)
    if running is None:
        print(f"not running on {place.data}")
        for line in describe_servers(place):
            print(f"  {line}")
        return 1
    code, body = get(f"{running.url}/readyz")
    health = "ready" if code == 200 else f"not ready: {failing_checks(body) if body else 'it does not answer'}"
    print(f"running as process {running.process} on {running.url}, {health}\n  data  {place.data}\n  log   {place.log}")
    for line in describe_processes(place, running):
        print(f"  {line}")
    keeper = find_keeper(place)
    print(f"  keeper     {keeper or 'does not run: what dies is not started again until the next `make up`'}")
    return 0 if code == 200 else 1


def print_next_steps(place: Place) -> None:
    found = shutil.which("berth")
    ours = found is not None and os.path.realpath(found) == os.path.realpath(place.command)
    name = "berth" if ours else str(place.command)
    lines = [
        (f"{name} submit -f examples/digits.yaml", "submit the example again"),
        (f"{name} ps", "what waits, runs and ran"),
        (f"{name} --help", "everything else"),
        *([(place.url, "the portal: sign in with the name and password above")] if has_portal(place) else []),
        (f"{place.url}/api/v1/docs", "the REST API, to try in a browser"),
        ("make down", "stop the platform; jobs run on"),
    ]
    width = max(len(line) for line, _ in lines)
    print(f"\nBerth runs on {place.url}. Next:")
    for line, meaning in lines:
        print(f"  {line:<{width}}  {meaning}")
    if not ours:
        print(f"\nFor the short name `berth`: export PATH={command_folder()}:$PATH")


def has_portal(place: Place) -> bool:
    """Whether the present release was installed with one."""
    try:
        return (place.release / "portal" / "index.html").is_file()
    except FileNotFoundError:  # Nothing was installed yet.
        return False


# --- The command line ------------------------------------------------------------------------------------------------


def berth(place: Place, *arguments: str, input_text: str | None = None) -> subprocess.CompletedProcess[str]:
    """Run the command line quietly; a failure ends this command with what it said."""
    done = subprocess.run(
        [str(place.command), *arguments],
        input=input_text,
        capture_output=True,
        text=True,
        check=False,
        env=client_environment(place),
    )
    if done.returncode:
        raise Stop(f"`berth {' '.join(arguments[:2])}` failed: {done.stderr.strip() or done.stdout.strip()}")
    return done


def show(place: Place, *arguments: str) -> int:
    """Run the command line for the user to watch. Ctrl+C is the command's: it leaves the job running and says so."""
    print(f"\n$ berth {' '.join(arguments)}", flush=True)
    before = signal.signal(signal.SIGINT, lambda number, frame: None)
    try:
        return subprocess.run([str(place.command), *arguments], check=False, env=client_environment(place)).returncode
    finally:
        signal.signal(signal.SIGINT, before)


def client_environment(place: Place) -> dict[str, str]:
    """What the user set for other servers, or for the way to the outside, has no part in talking to this one."""
    kept = {
        name: value
        for name, value in os.environ.items()
        if name not in ("BERTH_SERVER", "BERTH_TOKEN", "BERTH_TENANT", "BERTH_PROFILE")
    }
    local = ",".join(filter(None, (os.environ.get("no_proxy") or os.environ.get("NO_PROXY"), place.host)))
    return {**kept, "NO_PROXY": local, "no_proxy": local}


if __name__ == "__main__":
    sys.exit(main())
