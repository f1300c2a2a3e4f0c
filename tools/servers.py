"""PostgreSQL and Redis of an installation, where the operator gave no others: Debian's, private, below the data directory. No
package but the standard library.

Both listen on unix sockets only, in a directory that only the platform's own user may pass, and ask for a password all
the same. Root starts them as that user. They outlive their parent process, as the platform does, and start again after a power
cut: leftovers of a dead server (process ids, sockets) are told from a living one's by its command line.
"""

from __future__ import annotations

import contextlib
import json
import os
import pwd
import re
import secrets
import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from tools.install import SERVICE_USER, write_whole
from tools.place import Place
from tools.progress import Stop, last_line

START_SECONDS_MAX = 120  # After a power cut PostgreSQL reads its log again; an idle machine needs one.
STOP_SECONDS_MAX = 90  # PostgreSQL writes down what it holds in memory.
TRY_AGAIN_SECONDS = 15  # What is left of a killed server ends within that.
POSTGRESQL_MIN = 15
SOCKET_PATH_MAX = 107  # unix(7): a socket's path has 108 bytes with its end.
PLAIN_PATH = re.compile(r"[A-Za-z0-9/._+-]+")

# Appended to the configuration when the cluster is made: an operator may change what is here.
POSTGRESQL_CONF = """
# What Berth wants. Where the socket is, and that nothing listens on the network, the command line says.
max_connections = 200
fsync = on
full_page_writes = on
synchronous_commit = on
password_encryption = scram-sha-256
log_min_error_statement = panic    # Statements may hold what tenants keep; the log need not.
log_destination = stderr
"""
REDIS_CONF = """\
# Written anew by every `make up`.
port 0
unixsocket {socket}
unixsocketperm 700
requirepass {password}
appendonly yes
save ""
maxmemory-policy noeviction
dir {home}
pidfile {pidfile}
daemonize no
set-proc-title no
"""


class Server:
    """One of the two: where its files are, and whether it runs."""

    name = ""
    package = ""
    stop_signal = signal.SIGTERM

    def __init__(self, place: Place) -> None:
        self.place = place
        self.home = place.data / self.name.lower()
        self.sockets = place.data / "sockets"
        self.log = place.data / "log" / f"{self.name.lower()}.log"

    @property
    def is_there(self) -> bool:
        """Whether this installation has one of its own."""
        raise NotImplementedError

    @property
    def address(self) -> Path:
        """Its socket."""
        raise NotImplementedError

    @property
    def pidfile(self) -> Path:
        """Where it writes its process id."""
        raise NotImplementedError

    def command(self) -> list[str]:
        raise NotImplementedError

    def answers(self) -> bool:
        """Whether it takes connections."""
        raise NotImplementedError

    def process(self) -> int:
        """Its process, or 0. The id that a dead one left may be another program's by now."""
        try:
            pid = int(self.pidfile.read_text().split()[0])
            words = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
            if Path(f"/proc/{pid}").stat().st_uid != self.home.stat().st_uid:
                return 0
        except (OSError, ValueError, IndexError):
            return 0
        ours = os.fsencode(self.home)
        return pid if any(word == ours or word.startswith(ours + b"/") for word in words) else 0

    def start(self) -> bool:
        """Start it unless it runs, and wait until it answers; whether it was started now."""
        if self.process():
            self._wait_until_it_answers(None)
            return False
        give_up_trying = time.monotonic() + TRY_AGAIN_SECONDS
        while True:
            self._run(["rm", "-f", str(self.pidfile)])
            with self.log.open("ab") as log:
                self.log.chmod(0o600)
                process = subprocess.Popen(
                    self.command(), stdin=subprocess.DEVNULL, stdout=log, stderr=log, cwd=self.home,
                    start_new_session=True, **as_service_user(),
                )  # fmt: skip
            if self._wait_until_it_answers(process):
                return True
            if time.monotonic() > give_up_trying:
                raise Stop(f"{self.name} did not start: {self._last_words()}\nIts log: {self.log}")
            time.sleep(0.5)

    def stop(self) -> None:
        """Let it write down what it holds and end."""
        pid = self.process()
        if not pid:
            return
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, self.stop_signal)
        deadline = time.monotonic() + STOP_SECONDS_MAX
        while self.process() or is_alive(pid):
            if time.monotonic() > deadline:
                raise Stop(f"{self.name} (process {pid}) does not end; its log: {self.log}")
            time.sleep(0.05)

    def _run(self, command: list[str], text: str = "") -> None:
        """Run it as the platform's user, whose folder this is: root would follow whatever links that user put there."""
        done = subprocess.run(
            command, input=text, capture_output=True, text=True, check=False, cwd=self.home, **as_service_user()
        )  # fmt: skip
        if done.returncode or "ERROR:" in done.stderr:
            raise Stop(f"{self.name} cannot be put in place: {Path(command[0]).name} said: {last_line(done.stderr)}")

    def _wait_until_it_answers(self, process: subprocess.Popen[bytes] | None) -> bool:
        """False if the process that was started ended instead."""
        deadline = time.monotonic() + START_SECONDS_MAX
        while not self.answers():
            if process is not None and process.poll() is not None:
                return False
            if time.monotonic() > deadline:
                raise Stop(f"{self.name} runs but does not answer after {START_SECONDS_MAX} s; its log: {self.log}")
            time.sleep(0.02)
        return True

    def _last_words(self) -> str:
        with self.log.open("rb") as log:
            log.seek(max(0, self.log.stat().st_size - 2_000))
            return last_line(log.read().decode(errors="replace"))


class PostgreSQL(Server):
    name = "PostgreSQL"
    package = "postgresql"
    stop_signal = signal.SIGINT  # Connections are ended; what was confirmed is kept.

    @property
    def cluster(self) -> Path:
        return self.home / "data"

    @property
    def is_there(self) -> bool:
        return (self.cluster / "PG_VERSION").exists()

    @property
    def address(self) -> Path:
        return self.sockets / ".s.PGSQL.5432"

    @property
    def pidfile(self) -> Path:
        return self.cluster / "postmaster.pid"

    def url(self, password: str) -> str:
        return f"postgresql://berth:{password}@/berth?host={self.sockets}&port=5432"

    def make(self, password: str) -> None:
        """Make the cluster with a role `berth`, which is no superuser, and its database. A half-made one is made anew."""
        building = self.home / "building"
        self._run(["rm", "-rf", str(building)])
        initdb = [
            str(self._programs() / "initdb"), f"--pgdata={building}", "--username=postgres", "--auth-local=peer",
            "--auth-host=scram-sha-256", "--encoding=UTF8", "--locale=C.UTF-8", "--no-instructions",
        ]  # fmt: skip
        self._run(initdb)
        # The superuser has no password, so no client is let in as it.
        self._run(["tee", str(building / "pg_hba.conf")], "local all all scram-sha-256\n")
        self._run(["tee", "-a", str(building / "postgresql.conf")], POSTGRESQL_CONF)
        self._run(
            [str(self._programs() / "postgres"), "--single", "-c", "log_statement=none", "-D", str(building), "postgres"],
            f"CREATE ROLE berth LOGIN CREATEDB PASSWORD '{password}'\nCREATE DATABASE berth OWNER berth\n",
        )
        self._run(["mv", "-T", str(building), str(self.cluster)])

    def command(self) -> list[str]:
        return [
            str(self._programs() / "postgres"), "-D", str(self.cluster), "-p", "5432", "-k", str(self.sockets),
            "-c", "listen_addresses=", "-c", "unix_socket_permissions=0700",
        ]  # fmt: skip

    def answers(self) -> bool:
        """It says so in its eighth line."""
        try:
            return bool(self.process()) and self.pidfile.read_text().splitlines()[7].strip() == "ready"
        except (OSError, IndexError):
            return False

    def _programs(self) -> Path:
        """Those of the release that made the cluster; of the newest for a new one."""
        if not self.is_there:
            found = postgresql_programs()
            if found is None:
                raise Stop("PostgreSQL is not installed. On Debian: apt-get install postgresql")
            return found
        release = (self.cluster / "PG_VERSION").read_text().strip()
        programs = Path("/usr/lib/postgresql") / release / "bin"
        if not (programs / "postgres").exists():
            raise Stop(
                f"{self.cluster} was made by PostgreSQL {release}, which is not installed any more. "
                f"Install it again: apt-get install postgresql-{release}"
            )
        return programs


class Redis(Server):
    name = "Redis"
    package = "redis-server"

    @property
    def configuration(self) -> Path:
        return self.home / "redis.conf"

    @property
    def is_there(self) -> bool:
        return self.configuration.exists()

    @property
    def address(self) -> Path:
        return self.sockets / "redis.sock"

    @property
    def pidfile(self) -> Path:
        return self.home / "redis.pid"

    def url(self, password: str) -> str:
        return f"unix://:{password}@{self.address}?db=0"

    def make(self, password: str) -> None:
        """Write its configuration, which holds its password: every user can read a command line."""
        text = REDIS_CONF.format(socket=self.address, password=password, home=self.home, pidfile=self.pidfile)
        building = self.configuration.with_suffix(".building")
        self._run(["tee", str(building)], text)
        self._run(["mv", "-T", str(building), str(self.configuration)])

    def command(self) -> list[str]:
        program = shutil.which("redis-server")
        if program is None:
            raise Stop("Redis is not installed. On Debian: apt-get install redis-server")
        return [program, str(self.configuration)]

    def answers(self) -> bool:
        """It asks for a password even before it says that it is still loading: that is asked, too."""
        password = stored_passwords(self.place).get("redis", "")
        try:
            with socket.socket(socket.AF_UNIX) as to:
                to.settimeout(2)
                to.connect(str(self.address))
                to.sendall(f"AUTH {password}\r\nPING\r\n".encode())
                heard = b""
                while heard.count(b"\r\n") < 2:
                    more = to.recv(1024)
                    if not more:
                        return False
                    heard += more
                return b"+PONG" in heard
        except OSError:
            return False


# --- Both ------------------------------------------------------------------------------------------------------------


def own_servers(place: Place) -> list[PostgreSQL | Redis]:
    """Those that this installation has of its own, in the order in which they start."""
    return [server for server in (PostgreSQL(place), Redis(place)) if server.is_there]


def start_servers(place: Place, *, database: bool, broker: bool) -> dict[str, str]:
    """Make what is missing, start what does not run; the settings by which the platform reaches them."""
    if not (database or broker):
        return {}
    check_path(place)
    install_packages(database=database, broker=broker)
    found: dict[str, str] = {}
    folder_of_service_user(place.data / "sockets")
    wanted: Iterable[tuple[PostgreSQL | Redis, str, bool]] = (
        (PostgreSQL(place), "BERTH_DATABASE_URL", database),
        (Redis(place), "BERTH_REDIS_URL", broker),
    )
    for server, setting, is_wanted in wanted:
        if not is_wanted:
            continue
        folder_of_service_user(server.home)
        password = password_of(place, server)
        if not server.is_there or (isinstance(server, Redis) and not server.process()):
            server.make(password)
        server.start()
        found[setting] = server.url(password)
    return found


def stop_servers(place: Place) -> list[str]:
    """Stop those that run; their names."""
    stopped = []
    for server in reversed(own_servers(place)):
        if server.process():
            server.stop()
            stopped.append(server.name)
    return stopped


def describe(place: Place) -> list[str]:
    """A line for each: where it is, and whether it runs."""
    return [
        f"{server.name:<10} {server.address}, " + (f"process {server.process()}" if server.process() else "not running")
        for server in own_servers(place)
    ]


def check_path(place: Place) -> None:
    """Refuse a data directory whose name fits no socket, or would have to be quoted in an address."""
    longest = str(place.data / "sockets" / ".s.PGSQL.5432.lock")
    if len(os.fsencode(longest)) > SOCKET_PATH_MAX or not PLAIN_PATH.fullmatch(str(place.data)):
        raise Stop(
            f"{place.data} cannot hold the sockets of PostgreSQL and Redis: its name must be shorter than "
            f"{SOCKET_PATH_MAX - len('/sockets/.s.PGSQL.5432.lock')} bytes, of letters, digits and / . _ + - alone. "
            "Set BERTH_DATA_DIR to another one, or give BERTH_DATABASE_URL and BERTH_REDIS_URL."
        )


def install_packages(*, database: bool, broker: bool) -> None:
    """Debian's packages, as root; their own services are not ours, and are left off."""
    missing = missing_packages(database=database, broker=broker)
    if not missing:
        return
    words = " ".join(missing)
    if os.geteuid() != 0 or not shutil.which("apt-get"):
        raise Stop(
            f"the production profile needs {' and '.join(missing)}. Install with: apt-get install {words}\n"
            "Or give BERTH_DATABASE_URL and BERTH_REDIS_URL of servers that run elsewhere."
        )
    # Run level 1 keeps the packages from starting services of their own beside ours.
    environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive", "RUNLEVEL": "1"}
    install = ["apt-get", "install", "-y", "-q", "--no-install-recommends", *missing]
    for command in (install, ["apt-get", "update", "-q"], install):
        done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
        if command is install and done.returncode == 0:
            break
    if missing_packages(database=database, broker=broker):
        raise Stop(f"these Debian packages cannot be installed: {words}: {last_line(done.stderr)}")
    if Path("/run/systemd/system").is_dir():
        units = [name for name in missing if name in ("postgresql", "redis-server")]
        subprocess.run(["systemctl", "disable", "--now", "--quiet", *units], capture_output=True, check=False)


def missing_packages(*, database: bool, broker: bool) -> list[str]:
    """What `make up` has to install first."""
    missing = [PostgreSQL.package] if database and postgresql_programs() is None else []
    return [*missing, Redis.package] if broker and shutil.which("redis-server") is None else missing


def postgresql_programs(root: Path = Path("/usr/lib/postgresql")) -> Path | None:
    """The directory of the newest PostgreSQL that is new enough; Debian keeps its server programs off the PATH."""
    found = [path.parent for path in root.glob("*/bin/postgres") if path.parent.parent.name.isdigit()]
    fit = [path for path in found if int(path.parent.name) >= POSTGRESQL_MIN]
    return max(fit, key=lambda path: int(path.parent.name), default=None)


# --- Passwords and owners --------------------------------------------------------------------------------------------


def passwords_path(place: Place) -> Path:
    """In the folder that is root's, whom the platform's user cannot fool with another file."""
    return place.data / "release" / "servers.json"


def stored_passwords(place: Place) -> dict[str, str]:
    try:
        found: dict[str, str] = json.loads(passwords_path(place).read_text())
    except FileNotFoundError:
        return {}
    return found


def password_of(place: Place, server: Server) -> str:
    """The stored password, or a new one for a server that is made now."""
    known = stored_passwords(place)
    name = server.name.lower()
    if name not in known:
        if isinstance(server, PostgreSQL) and server.is_there:
            raise Stop(f"{passwords_path(place)} has no password of {server.name}. Restore that file from a backup.")
        known[name] = secrets.token_hex(24)
        write_private(passwords_path(place), json.dumps(known) + "\n")
    return known[name]


def write_private(path: Path, text: str) -> None:
    """Replace the file in one step; no other user may read it, not even for a moment."""
    before = os.umask(0o077)
    try:
        write_whole(path, text, 0o600)
    finally:
        os.umask(before)


def folder_of_service_user(path: Path) -> None:
    """A folder that jobs cannot pass. The platform's user adds to the data directory, too: no link of its is followed."""
    path.mkdir(mode=0o700, exist_ok=True)
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    try:
        if os.geteuid() == 0:
            user = pwd.getpwnam(SERVICE_USER)
            os.fchown(descriptor, user.pw_uid, user.pw_gid)
        os.fchmod(descriptor, 0o700)
    finally:
        os.close(descriptor)


def give_to_service_user(path: Path) -> None:
    if os.geteuid() == 0:
        user = pwd.getpwnam(SERVICE_USER)
        os.chown(path, user.pw_uid, user.pw_gid, follow_symlinks=False)


def as_service_user() -> dict[str, Any]:
    """What a process is started with so that it is not root's, and knows none of our settings."""
    environment = {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "LANG": "C.UTF-8", "LC_ALL": "C.UTF-8"}
    if os.geteuid() != 0:
        return {"env": environment, "umask": 0o077}
    user = pwd.getpwnam(SERVICE_USER)
    return {"env": environment, "umask": 0o077, "user": user.pw_uid, "group": user.pw_gid, "extra_groups": []}


def is_alive(pid: int) -> bool:
    """Whether a process runs; one that has ended and was not collected does not."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except (FileNotFoundError, ProcessLookupError):
        return False
