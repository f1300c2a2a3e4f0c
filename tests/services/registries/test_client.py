"""What a real registry is asked, what it answers, and how each failure is told apart."""

from __future__ import annotations

import contextlib
import hashlib
import http.server
import json
import socket
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from clusters.registries import errors
from clusters.registries.client import MANIFEST_BYTES_MAX, Registry
from clusters.registries.manifests import Layer
from clusters.registries.references import Reference, parse
from clusters.registries.rules import Account, Rules
from tests.builders.registry import PASSWORD, USER, Member, RealRegistry

pytestmark = pytest.mark.database  # It touches no row; a real registry is there where real servers are.

HELLO = [Member("hello", b"hello\n")]


def rules(*hosts: str) -> Rules:
    return Rules(plain_hosts=frozenset(hosts))


def reference(text: str) -> Reference:
    found = parse(text)
    assert found is not None
    return found


def test_a_tag_is_resolved_to_the_digest_that_was_pushed(open_registry: RealRegistry) -> None:
    digest = open_registry.push("team/app:1", [HELLO], env=["PATH=/bin", "LEVEL=3"], labels={"purpose": "test"})
    named = reference(f"{open_registry.host}/team/app:1")
    with Registry(open_registry.host, rules=rules(open_registry.host)) as client:
        found = client.find(named)
        config = client.config(named, found)
    assert (found.pinned, found.digest) == (digest, digest)
    assert 0 < found.size_bytes < 10_000
    assert config.env == {"PATH": "/bin", "LEVEL": "3"}
    assert config.labels == {"purpose": "test"}


def test_a_layer_comes_whole(open_registry: RealRegistry) -> None:
    open_registry.push("team/layer:1", [HELLO])
    named = reference(f"{open_registry.host}/team/layer:1")
    taken: list[bytes] = []
    with Registry(open_registry.host, rules=rules(open_registry.host)) as client:
        (layer,) = client.find(named).layers
        client.fetch_layer(named, layer, taken.append, seconds=10)
    assert f"sha256:{hashlib.sha256(b''.join(taken)).hexdigest()}" == layer.digest


def test_a_digest_that_is_there_is_found_and_another_is_absent(open_registry: RealRegistry) -> None:
    digest = open_registry.push("team/app:2", [HELLO])
    with Registry(open_registry.host, rules=rules(open_registry.host)) as client:
        assert client.find(reference(f"{open_registry.host}/team/app@{digest}")).pinned == digest
        with pytest.raises(errors.ImageAbsent):
            client.find(reference(f"{open_registry.host}/team/app@sha256:{'0' * 64}"))


@pytest.mark.parametrize("name", ["team/app:absent", "nowhere/at-all:1"])
def test_what_is_not_there_is_absent(open_registry: RealRegistry, name: str) -> None:
    open_registry.push("team/app:1", [HELLO])
    with Registry(open_registry.host, rules=rules(open_registry.host)) as client, pytest.raises(errors.ImageAbsent):
        client.find(reference(f"{open_registry.host}/{name}"))


def test_an_index_gives_the_image_for_this_kind_of_machine(open_registry: RealRegistry, tmp_path: Path) -> None:
    """Pinned is the index: a machine of another kind takes its own image from it."""
    amd, arm = (open_registry.push(f"team/multi:{kind}", [[Member("kind", kind.encode())]]) for kind in ("amd64", "arm64"))
    entries = [
        {"mediaType": "application/vnd.oci.image.manifest.v1+json", "digest": digest, "size": 100,
         "platform": {"os": "linux", "architecture": kind}}
        for kind, digest in (("arm64", arm), ("amd64", amd))
    ]  # fmt: skip
    index = put_index(open_registry, "team/multi", "both", entries)
    with Registry(open_registry.host, rules=rules(open_registry.host)) as client:
        found = client.find(reference(f"{open_registry.host}/team/multi:both"))
        assert (found.pinned, found.digest) == (index, amd)
    put_index(open_registry, "team/multi", "foreign", entries[:1])
    with Registry(open_registry.host, rules=rules(open_registry.host)) as client, pytest.raises(errors.ImageUnusable):
        client.find(reference(f"{open_registry.host}/team/multi:foreign"))


def test_an_account_opens_a_private_image(closed_registry: RealRegistry) -> None:
    digest = closed_registry.push("team/private:1", [HELLO])
    named, allowed = reference(f"{closed_registry.host}/team/private:1"), rules(closed_registry.host)
    with Registry(closed_registry.host, rules=allowed, account=Account(USER, PASSWORD)) as client:
        client.check()
        assert client.find(named).pinned == digest
    for account in (None, Account(USER, "wrong")):
        with Registry(closed_registry.host, rules=allowed, account=account) as client, pytest.raises(errors.ImageDenied) as told:
            client.find(named)
        assert "wrong" not in str(told.value)


def test_a_password_is_in_no_text_of_an_account() -> None:
    assert PASSWORD not in repr(Account(USER, PASSWORD))


def test_a_token_server_is_asked_with_the_account_and_its_token_opens_the_image() -> None:
    manifest = json.dumps({"schemaVersion": 2, "config": {"digest": f"sha256:{'1' * 64}", "size": 2}, "layers": []}).encode()
    asked: list[tuple[str, str]] = []

    def answer(handler: http.server.BaseHTTPRequestHandler) -> None:
        given = handler.headers.get("Authorization", "")
        asked.append((handler.path, given))
        if handler.path.startswith("/token"):
            say(handler, 200, b'{"token": "short-lived"}')
        elif given != "Bearer short-lived":
            realm = f"http://{handler.headers['Host']}/token"
            challenge = f'Bearer realm="{realm}",service="the registry",scope="repository:team/app:pull"'
            say(handler, 401, b"", {"WWW-Authenticate": challenge})
        else:
            say(handler, 200, manifest, {"Content-Type": "application/vnd.oci.image.manifest.v1+json"})

    with answering(answer) as host, Registry(host, rules=rules(host), account=Account("a", "b")) as client:
        client.find(reference(f"{host}/team/app:1"))
        client.find(reference(f"{host}/team/app:1"))
    paths = [path for path, _ in asked]
    assert len([path for path in paths if path.startswith("/token")]) == 1, "the token is kept"
    token_path, credential = next(item for item in asked if item[0].startswith("/token"))
    assert "scope=repository%3Ateam%2Fapp%3Apull" in token_path
    assert "service=the+registry" in token_path
    assert credential.startswith("Basic ")


@pytest.mark.parametrize(
    ("status", "expected"),
    [(404, errors.ImageAbsent), (403, errors.ImageDenied), (429, errors.RateLimited), (502, errors.RegistryUnreachable)],
)
def test_each_answer_has_its_error(status: int, expected: type[errors.RegistryError]) -> None:
    with (
        answering(lambda handler: say(handler, status, b"", {"Retry-After": "7"})) as host,
        Registry(host, rules=rules(host)) as client,
        pytest.raises(expected) as told,
    ):
        client.find(reference(f"{host}/team/app:1"))
    assert told.value.after_seconds == (7 if status in (429, 502) else None)


def test_a_registry_that_says_nothing_is_waited_for_no_longer_than_allowed() -> None:
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        silent.listen()
        host = f"127.0.0.1:{silent.getsockname()[1]}"
        with Registry(host, rules=rules(host), seconds=0.3) as client, pytest.raises(errors.RegistryTimeout):
            client.find(reference(f"{host}/team/app:1"))


@pytest.mark.parametrize("beginning", [b"HTTP/1.1 200 OK\r\nContent-Length: 1000000\r\n\r\n", b"HTTP/1.1 200 OK\r\nX: "])
def test_a_registry_that_speaks_drop_by_drop_is_left_in_time(beginning: bytes) -> None:
    over = threading.Event()

    def drip(handler: http.server.BaseHTTPRequestHandler) -> None:
        handler.wfile.write(beginning)
        with contextlib.suppress(OSError):
            while not over.wait(0.05):
                handler.wfile.write(b" ")

    with answering(drip) as host:
        with Registry(host, rules=rules(host), seconds=0.4) as client, pytest.raises(errors.RegistryTimeout):
            client.find(reference(f"{host}/team/app:1"))
        over.set()


def test_nothing_listens_is_unreachable() -> None:
    host = "127.0.0.1:9"
    with Registry(host, rules=rules(host), seconds=5) as client, pytest.raises(errors.RegistryUnreachable):
        client.find(reference(f"{host}/team/app:1"))


def test_plain_http_where_tls_is_expected_is_a_failure_of_tls(open_registry: RealRegistry) -> None:
    allowed = Rules(private_hosts=frozenset({open_registry.host}))
    with Registry(open_registry.host, rules=allowed) as client, pytest.raises(errors.RegistryTls):
        client.find(reference(f"{open_registry.host}/team/app:1"))


def test_an_endless_manifest_is_read_no_further_than_its_bound() -> None:
    with (
        answering(lambda handler: say(handler, 200, b" " * (MANIFEST_BYTES_MAX + 1))) as host,
        Registry(host, rules=rules(host)) as client,
        pytest.raises(errors.ImageUnusable),
    ):
        client.find(reference(f"{host}/team/app:1"))


def test_content_that_is_not_what_its_digest_says_is_refused() -> None:
    manifest = json.dumps({"schemaVersion": 2, "config": {"digest": f"sha256:{'1' * 64}", "size": 2}, "layers": []}).encode()
    other = Layer(f"sha256:{'0' * 64}", len(manifest), "")
    longer = Layer(f"sha256:{hashlib.sha256(manifest).hexdigest()}", 3, "")  # Than the manifest says.
    with answering(lambda handler: say(handler, 200, manifest)) as host, Registry(host, rules=rules(host)) as client:
        named = reference(f"{host}/team/app:1")
        with pytest.raises(errors.ImageUnusable):
            client.find(named.pinned(other.digest))
        with pytest.raises(errors.ImageUnusable):
            client.fetch_layer(named, other, lambda piece: None, seconds=5)
        with pytest.raises(errors.ImageUnusable):
            client.fetch_layer(named, longer, lambda piece: None, seconds=5)


@pytest.mark.parametrize("text", ["[]", "{", "null", '{"schemaVersion": 1}', "[" * 50_000, '{"schemaVersion": 2, "config": 7}'])
def test_nonsense_is_an_unusable_image(text: str) -> None:
    with (
        answering(lambda handler: say(handler, 200, text.encode())) as host,
        Registry(host, rules=rules(host)) as client,
        pytest.raises(errors.ImageUnusable),
    ):
        client.find(reference(f"{host}/team/app:1"))


# --- Where it may not go ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "host",
    ["127.0.0.1:5000", "10.0.0.1", "169.254.169.254", "localhost:5000", "[::1]:5000", "192.168.1.1:443", "metadata.internal:22"],
)
def test_a_registry_inside_our_own_network_is_asked_only_where_operators_named_it(host: str) -> None:
    private = Rules(resolver=lambda name, port: ["10.1.2.3"])
    with pytest.raises((errors.RegistryRefused, errors.RegistryUnreachable)), Registry(host, rules=private) as client:
        client.find(reference(f"{host}/team/app:1"))


def test_where_operators_listed_registries_no_other_is_asked() -> None:
    listed = Rules(hosts=frozenset({"registry.example.org", "other.example.org:7000"}))
    listed.check_registry("registry.example.org")
    listed.check_registry("other.example.org:7000")
    for host in ("docker.io", "registry.example.org:7000", "evil-registry.example.org"):
        with pytest.raises(errors.RegistryRefused):
            listed.check_registry(host)


@pytest.mark.parametrize(
    "realm", ["http://169.254.169.254/latest", "http://127.0.0.1:1/token", "https://10.0.0.1/", "file:///etc/passwd"]
)
def test_a_token_server_inside_our_own_network_gets_no_password(realm: str) -> None:
    def answer(handler: http.server.BaseHTTPRequestHandler) -> None:
        say(handler, 401, b"", {"WWW-Authenticate": f'Bearer realm="{realm}",service="x"'})

    with (
        answering(answer) as host,
        Registry(host, rules=rules(host), account=Account("a", "b")) as client,
        pytest.raises(errors.RegistryRefused),
    ):
        client.find(reference(f"{host}/team/app:1"))


def test_a_redirect_is_followed_without_the_password_and_never_inside() -> None:
    seen: list[str | None] = []

    def answer(handler: http.server.BaseHTTPRequestHandler) -> None:
        seen.append(handler.headers.get("Authorization"))
        if handler.headers.get("Authorization") is None:
            say(handler, 401, b"", {"WWW-Authenticate": "Basic realm=x"})
        else:
            say(handler, 307, b"", {"Location": "http://169.254.169.254/latest/meta-data"})

    with (
        answering(answer) as host,
        Registry(host, rules=rules(host), account=Account("a", "b")) as client,
        pytest.raises(errors.RegistryRefused),
    ):
        client.find(reference(f"{host}/team/app:1"))
    assert len(seen) == 2


def test_a_registry_that_leads_in_circles_is_left() -> None:
    def answer(handler: http.server.BaseHTTPRequestHandler) -> None:
        say(handler, 302, b"", {"Location": handler.path})

    with answering(answer) as host, Registry(host, rules=rules(host)) as client, pytest.raises(errors.RegistryUnreachable):
        client.find(reference(f"{host}/team/app:1"))


# --- Registries that answer as a test says ----------------------------------------------------------------------------


def say(handler: http.server.BaseHTTPRequestHandler, status: int, body: bytes, headers: dict[str, str] | None = None) -> None:
    handler.send_response(status)
    for name, value in (headers or {}).items():
        handler.send_header(name, value)
    handler.send_header("Content-Length", str(len(body)))
    handler.end_headers()
    with contextlib.suppress(OSError):
        handler.wfile.write(body)


@contextlib.contextmanager
def answering(answer: Callable[[http.server.BaseHTTPRequestHandler], None]) -> Iterator[str]:
    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            answer(self)

        def log_message(self, *_: object) -> None:
            pass

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
    thread.start()
    try:
        yield f"127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def put_index(registry: RealRegistry, repository: str, tag: str, entries: list[dict[str, Any]]) -> str:
    import urllib.request

    document = {"schemaVersion": 2, "mediaType": "application/vnd.oci.image.index.v1+json", "manifests": entries}
    body = json.dumps(document).encode()
    request = urllib.request.Request(
        f"http://{registry.host}/v2/{repository}/manifests/{tag}",
        data=body,
        method="PUT",
        headers={"Content-Type": document["mediaType"]},
    )
    urllib.request.urlopen(request, timeout=10).close()
    return f"sha256:{hashlib.sha256(body).hexdigest()}"
