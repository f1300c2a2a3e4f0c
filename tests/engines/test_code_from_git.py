"""Code from Git: a repository behind a real Git server over https or a real sshd, fetched by a job for others."""

from __future__ import annotations

import base64
import contextlib
import functools
import http.server
import os
import pwd
import re
import socket
import ssl
import subprocess
import tempfile
import threading
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from jobs.lifecycle.fetches import FETCH_ENDS
from jobs.services.code_fetch import SCRIPT
from tests.builders.live import Json, LivePlatform, running_platform, wait_until

pytestmark = [pytest.mark.engines, pytest.mark.database]

TOKEN = "canary-4711-of-git"


@dataclass(frozen=True)
class Repository:
    """A working copy, and the address under which its bare twin is served."""

    work: Path
    bare: Path
    url: str

    def commit(self, **files: str) -> str:
        for name, content in files.items():
            (self.work / name.replace("__", ".")).write_text(content)
        git(self.work, "add", "-A")
        git(self.work, "commit", "-q", "-m", "a change")
        git(self.work, "push", "-q", str(self.bare), "HEAD:refs/heads/main")
        return git(self.work, "rev-parse", "HEAD")


def git(place: Path, *words: str) -> str:
    identity = ["-c", "user.name=Alice", "-c", "user.email=alice@example.org"]
    done = subprocess.run(["git", "-C", str(place), *identity, *words], check=True, capture_output=True, text=True)
    return done.stdout.strip()


class GitHandler(http.server.CGIHTTPRequestHandler):
    """git-http-backend behind Python's own server. What lies under /private asks for the token. `moved` are beginnings of paths
    that lead elsewhere, `given` what clients said of themselves."""

    have_fork = True
    cgi_directories = ["/git"]
    moved: dict[str, str]
    given: list[str]

    def is_cgi(self) -> bool:
        if "/private" in self.path and not self._knows_the_token():
            return False
        self.cgi_info = ("/git", self.path.lstrip("/"))
        return True

    def do_GET(self) -> None:
        self.given += self.headers.get_all("Authorization", [])
        begins = self.path.split("/")[1]
        if begins in self.moved and (begins != "private-door" or self._knows_the_token()):
            self.send_response(302)
            self.send_header("Location", self.path.replace(f"/{begins}", self.moved[begins], 1))
            self.send_header("Content-Length", "0")
            self.end_headers()
        elif not self.is_cgi():
            self._ask()
        else:
            self.run_cgi()

    def do_POST(self) -> None:
        self.do_GET()

    def run_cgi(self) -> None:
        path, _, query = self.path.partition("?")
        size = int(self.headers.get("Content-Length") or 0)
        body = self.rfile.read(size) if size else self._chunks()
        environment = {
            **os.environ,
            "GIT_PROJECT_ROOT": str(self.root),  # type: ignore[attr-defined]
            "GIT_HTTP_EXPORT_ALL": "1",
            "PATH_INFO": path,
            "QUERY_STRING": query,
            "REQUEST_METHOD": self.command,
            "CONTENT_TYPE": self.headers.get("Content-Type", ""),
            "CONTENT_LENGTH": str(len(body)),
            "HTTP_CONTENT_ENCODING": self.headers.get("Content-Encoding", ""),
            "GIT_PROTOCOL": self.headers.get("Git-Protocol", ""),
            "REMOTE_ADDR": "127.0.0.1",
        }
        done = subprocess.run(["git", "http-backend"], input=body, env=environment, capture_output=True, check=False)
        head, _, content = done.stdout.partition(b"\r\n\r\n")
        fields = dict(line.split(": ", 1) for line in head.decode().split("\r\n") if ": " in line)
        self.send_response(int(fields.pop("Status", "200").split()[0]))
        for name, value in fields.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def _chunks(self) -> bytes:
        if self.headers.get("Transfer-Encoding") != "chunked":
            return b""
        found = b""
        while size := int(self.rfile.readline().strip() or b"0", 16):
            found += self.rfile.read(size)
            self.rfile.readline()
        return found

    def _knows_the_token(self) -> bool:
        given = self.headers.get("Authorization", "").removeprefix("Basic ")
        return base64.b64decode(given or b"").decode().endswith(f":{TOKEN}")

    def _ask(self) -> None:
        self.send_response(401)
        self.send_header("WWW-Authenticate", 'Basic realm="git"')
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, *_: object) -> None:
        pass


@dataclass(frozen=True)
class Served:
    port: int
    moved: dict[str, str]
    given: list[str]

    def url(self, host: str = "127.0.0.1") -> str:
        return f"https://{host}:{self.port}"


@contextlib.contextmanager
def git_server(root: Path, address: str = "127.0.0.1") -> Iterator[Served]:
    key, certificate = root.parent / "key.pem", root.parent / "certificate.pem"
    new = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=localhost"]
    subprocess.run([*new, "-keyout", str(key), "-out", str(certificate)], check=True, capture_output=True)
    moved, given = dict[str, str](), list[str]()
    handler = type("Handler", (GitHandler,), {"root": root, "moved": moved, "given": given})
    with http.server.ThreadingHTTPServer((address, 0), functools.partial(handler)) as server:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(certificate, key)
        server.socket = context.wrap_socket(server.socket, server_side=True)
        threading.Thread(target=server.serve_forever, daemon=True).start()
        try:
            yield Served(server.server_port, moved, given)
        finally:
            server.shutdown()


@pytest.fixture(scope="module")
def forge(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Path, str]]:
    root = tmp_path_factory.mktemp("forge") / "git"
    root.mkdir()
    with git_server(root) as served:
        yield root, served.url()


@pytest.fixture(scope="module")
def live_platform(forge: tuple[Path, str]) -> Iterator[LivePlatform]:
    """A platform whose operators trust the server of these tests, whose certificate is its own."""
    with running_platform(GIT_SSL_NO_VERIFY="1") as platform:
        yield platform


@pytest.fixture
def repository(forge: tuple[Path, str], tmp_path: Path, request: pytest.FixtureRequest) -> Repository:
    return a_repository(forge, tmp_path, request.node.name[:40])


def a_repository(forge: tuple[Path, str], place: Path, name: str) -> Repository:
    root, url = forge
    bare = root / f"{name}.git"
    work = place / "work"
    for folder, words in ((bare, ["--bare"]), (work, [])):
        folder.mkdir(parents=True)
        git(folder, "init", "-q", "--initial-branch=main", *words)
    git(bare, "config", "uploadpack.allowAnySHA1InWant", "false")
    return Repository(work, bare, f"{url}/{name}.git")


def with_code(repository: Repository, **code: str) -> Json:
    return {"name": "runs", "command": "cat hello.txt", "code": {"git": repository.url, **code}}


def test_a_job_runs_with_the_branch_of_a_repository_as_it_was_fetched(
    live_platform: LivePlatform, repository: Repository
) -> None:
    commit = repository.commit(hello__txt="hello from the branch\n")
    job = live_platform.submit(with_code(repository, ref="main"), wait=True)
    assert (job["state"], job["code"]["commit"]) == ("succeeded", commit)
    assert "hello from the branch" in live_platform.logs(job)
    [fetch] = [
        fetch
        for fetch in live_platform.api("GET", "/jobs")["items"]
        if fetch["kind"] == "transfer" and fetch["name"].startswith("fetch-test_a_job_runs")
    ]
    assert (fetch["state"], fetch["resources"]["gpu_millis"]) == ("succeeded", 0)
    assert commit in live_platform.logs(fetch)


def test_a_commit_that_was_fetched_before_is_not_fetched_again(live_platform: LivePlatform, repository: Repository) -> None:
    older = repository.commit(hello__txt="older\n")
    repository.commit(hello__txt="newer\n")
    first = live_platform.submit(with_code(repository, ref=older), wait=True)
    assert "older" in live_platform.logs(first)
    repository.bare.rename(repository.bare.with_suffix(".gone"))
    again = live_platform.submit(with_code(repository, ref=older), wait=True)
    assert (again["state"], again["code"]) == ("succeeded", first["code"])


@pytest.mark.capability("106", "A rerun has the commit of the first run though its branch has moved")
def test_a_rerun_has_the_commit_of_the_first_run_though_its_branch_has_moved(
    live_platform: LivePlatform, repository: Repository
) -> None:
    commit = repository.commit(hello__txt="first\n")
    job = live_platform.submit(with_code(repository), wait=True)
    repository.commit(hello__txt="second\n")
    again = live_platform.wait(live_platform.api("POST", f"/jobs/{job['id']}/rerun", {}))
    assert "first" in live_platform.logs(again)
    assert again["code"]["commit"] == commit


def test_a_job_whose_code_cannot_be_fetched_stops_and_says_which_log_tells_why(
    live_platform: LivePlatform, repository: Repository
) -> None:
    repository.commit(hello__txt="x")
    job = live_platform.submit(with_code(repository, ref="no-such-branch"), wait=True)
    assert (job["state"], job["reason"]["code"], job["attempt"]) == ("stopped", "code_not_fetched", 0)
    fetch = live_platform.api("GET", f"/jobs/{job['reason']['detail']['on']}")
    wait_until(lambda: "no-such-branch" in live_platform.logs(fetch), "the log of the fetch")


def test_a_private_repository_is_read_with_a_secret_that_is_seen_nowhere(
    live_platform: LivePlatform, forge: tuple[Path, str], tmp_path: Path
) -> None:
    repository = a_repository(forge, tmp_path, "private")
    repository.commit(hello__txt="private\n")
    refused = live_platform.submit(with_code(repository), wait=True)
    assert refused["reason"]["code"] == "code_not_fetched"
    live_platform.api("PUT", f"/tenants/{live_platform.operator.tenant}/secrets/GITHUB", {"value": f"alice:{TOKEN}"})
    job = live_platform.submit(with_code(repository, secret="GITHUB"), wait=True)
    assert job["state"] == "succeeded"
    seen = [live_platform.logs(fetch) for fetch in live_platform.api("GET", "/jobs")["items"] if fetch["kind"] == "transfer"]
    assert not [text for text in seen if TOKEN in text]


def test_a_batch_fetches_the_code_that_its_jobs_share_once(live_platform: LivePlatform, repository: Repository) -> None:
    repository.commit(hello__txt="shared\n")
    body = {"spec": with_code(repository), "items": [{"name": f"one-{number}"} for number in range(5)]}
    ids = live_platform.api("POST", "/jobs:batch", {**body, **live_platform.operator.in_tenant})["ids"]
    jobs = [live_platform.wait({"id": job_id}) for job_id in ids]
    assert {job["state"] for job in jobs} == {"succeeded"}
    fetches = [fetch for fetch in live_platform.api("GET", "/jobs")["items"] if fetch["name"].startswith("fetch-test_a_batch")]
    assert len(fetches) == 1


def test_code_that_holds_a_link_out_of_the_repository_is_refused_before_it_runs(
    live_platform: LivePlatform, repository: Repository
) -> None:
    os.symlink("/etc/passwd", repository.work / "out")
    repository.commit(hello__txt="x")
    job = live_platform.submit(with_code(repository), wait=True)
    assert (job["state"], job["reason"]["code"]) == ("stopped", "code_unusable")
    assert "out: " in job["reason"]["text"], "the entry is named"


# --- The script alone, whose errors and codes a job of kind `transfer` shows -----------------------------------------


def fetched(place: Path, url: str, credential: str = "", **more: str) -> subprocess.CompletedProcess[str]:
    environment = {"PATH": os.environ["PATH"], "HOME": str(place), "GIT_SSL_NO_VERIFY": "1", "GIT_URL": url, "GIT_REF": "main"}
    environment |= {"GIT_CREDENTIAL": credential, "TMPDIR": str(place), **more}
    return subprocess.run(["/bin/sh", "-c", SCRIPT.read_text()], cwd=place, env=environment, capture_output=True, text=True)


@pytest.mark.parametrize("name", ["open", "private"])
@pytest.mark.parametrize("door", ["door", "private-door"])
def test_a_token_is_given_to_the_host_that_was_named_and_to_no_other(tmp_path: Path, door: str, name: str) -> None:
    """Whether the named host asks for it before it leads away, and whether the other one asks for it."""
    (root := tmp_path / "git").mkdir()
    with git_server(root) as named, git_server(root) as other:
        a_repository((root, named.url()), tmp_path, name).commit(hello__txt="x")
        named.moved[door] = other.url("localhost")
        led = fetched(tmp_path, f"{named.url()}/{door}/{name}.git", f"alice:{TOKEN}")
        assert led.returncode == 21
        assert f"leads to {other.url('localhost')}" in led.stderr
        assert bool(named.given) is (door == "private-door")
        assert other.given == []
        assert TOKEN not in led.stderr + led.stdout


def test_a_redirect_on_the_host_that_was_named_is_followed(tmp_path: Path) -> None:
    (root := tmp_path / "git").mkdir()
    with git_server(root) as named:
        commit = a_repository((root, named.url()), tmp_path, "private").commit(hello__txt="x")
        named.moved["old"] = named.url()
        done = fetched(tmp_path, f"{named.url()}/old/private.git", TOKEN)
        assert done.returncode == 0, done.stderr
        assert (tmp_path / "commit").read_text().strip() == commit
        refused = fetched(tmp_path, f"{named.url()}/private.git", "wrong")
        assert (refused.returncode, "does not let code.secret read" in refused.stderr) == (23, True)


@dataclass(frozen=True)
class Sshd:
    """A real sshd for the user of the tests, who has the deploy key; a key of its own, and another one that is not let in."""

    address: str
    known: str
    key: str
    other_key: str

    def url(self, repository: Repository) -> str:
        return f"ssh://{self.address}{repository.bare}"


@pytest.fixture(scope="module")
def sshd(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Sshd]:
    place = tmp_path_factory.mktemp("sshd")
    os.makedirs("/run/sshd", exist_ok=True)
    for name in ("host", "deploy", "other"):
        make = ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", "", "-f", str(place / name)]
        subprocess.run(make, check=True)
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    (place / "config").write_text(
        f"ListenAddress 127.0.0.1:{port}\nHostKey {place}/host\nAuthorizedKeysFile {place}/deploy.pub\nPidFile none\n"
        "StrictModes no\nUsePAM no\nPermitRootLogin prohibit-password\nPasswordAuthentication no\n"
        "KbdInteractiveAuthentication no\nAllowTcpForwarding no\nPermitTTY no\n"
    )
    with subprocess.Popen(["/usr/sbin/sshd", "-D", "-e", "-f", str(place / "config")], stderr=subprocess.DEVNULL) as server:
        try:
            wait_until(lambda: _listens(port), "the sshd")
            host = (place / "host.pub").read_text().strip()
            keys = [(place / name).read_text() for name in ("deploy", "other")]
            yield Sshd(f"{pwd.getpwuid(os.geteuid()).pw_name}@127.0.0.1:{port}", f"[127.0.0.1]:{port} {host}", *keys)
        finally:
            server.terminate()


def _listens(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


def test_a_repository_behind_ssh_is_read_with_a_deploy_key(
    live_platform: LivePlatform, repository: Repository, sshd: Sshd
) -> None:
    commit = repository.commit(hello__txt="by ssh\n")
    secrets = f"/tenants/{live_platform.operator.tenant}/secrets"
    live_platform.api("PUT", f"{secrets}/DEPLOY", {"value": f"{sshd.key}{sshd.known}\n"})
    live_platform.api("PUT", f"{secrets}/OTHER", {"value": sshd.other_key})
    job = live_platform.submit(with_code(replace(repository, url=sshd.url(repository)), secret="DEPLOY"), wait=True)
    assert (job["state"], job["code"]["commit"]) == ("succeeded", commit)
    assert "by ssh" in live_platform.logs(job)
    refused = live_platform.submit(with_code(replace(repository, url=sshd.url(repository)), secret="OTHER"), wait=True)
    assert (refused["state"], refused["reason"]["code"]) == ("stopped", "code_not_fetched")
    assert "code.secret is missing or not let in" in refused["reason"]["text"]
    ended = live_platform.api("GET", f"/jobs/{refused['reason']['detail']['on']}")["exit"]
    assert (ended["class"], "does not let code.secret read" in ended["evidence"]) == ("code_fetch_failed", True)


def test_a_host_key_is_checked_where_it_is_known_and_shown_where_it_is_not(
    tmp_path: Path, repository: Repository, sshd: Sshd
) -> None:
    repository.commit(hello__txt="x")
    unchecked = fetched(tmp_path, sshd.url(repository), sshd.key)
    assert (unchecked.returncode, sshd.known in unchecked.stdout) == (0, True), unchecked.stderr
    address, kind, _ = sshd.known.split()
    stranger = subprocess.run(["ssh-keygen", "-y", "-f", "/dev/stdin"], input=sshd.other_key, capture_output=True, text=True)
    wrong = fetched(tmp_path, sshd.url(repository), f"{sshd.key}{address} {stranger.stdout}")
    assert (wrong.returncode, "another host key" in wrong.stderr) == (22, True), wrong.stderr
    assert kind == "ssh-ed25519"
    for credential in ("a token", sshd.key[:100] + sshd.key[-100:]):
        no_key = fetched(tmp_path, sshd.url(repository), credential)
        assert (no_key.returncode, "private key" in no_key.stderr) == (24, True), no_key.stderr


@pytest.mark.skipif(os.geteuid() != 0, reason="becomes a user without a name")
def test_that_a_machine_has_no_name_for_the_jobs_user_is_said(tmp_path: Path, repository: Repository, sshd: Sshd) -> None:
    bare = ["setpriv", "--reuid", "260002", "--regid", "260002", "--clear-groups", "/bin/sh", "-c", SCRIPT.read_text()]
    with tempfile.TemporaryDirectory(dir="/tmp") as place:
        os.chmod(place, 0o777)
        environment = {"PATH": os.environ["PATH"], "HOME": place, "TMPDIR": place, "GIT_URL": sshd.url(repository)}
        done = subprocess.run(bare, cwd=place, env={**environment, "GIT_REF": "main"}, capture_output=True, text=True)
    assert (done.returncode, "no user with the number of this job" in done.stderr) == (25, True), done.stderr


def test_each_code_of_the_script_has_words() -> None:
    codes = set(re.findall(r"(?m)^.*\bstop [\"'].*[\"'] ([0-9]+)(?: ;;)?$", SCRIPT.read_text()))
    assert codes - {"1"} == set(FETCH_ENDS)
