"""A proxy before a real API server that loses, delays and refuses what the test says, and passes on all else.

    with api_proxy(cluster) as proxy:
        proxy.rules.append(Rule(Fault.LOSE_ANSWER, method="POST", path="/pods", times=1))
        config = config_of(cluster, directory, kubeconfig=proxy.kubeconfig)

The engine speaks plain HTTP to it, and it speaks to the API server as the administrator. Watches are passed on as they come.
"""

from __future__ import annotations

import base64
import contextlib
import http.client
import http.server
import json
import socket
import ssl
import tempfile
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import yaml

if TYPE_CHECKING:
    from tools.kubernetes.cluster import Cluster

ANSWER_SECONDS = 60.0
PIECE_BYTES = 64 * 1024


class Fault(Enum):
    """What becomes of a request."""

    LOSE_REQUEST = "the request never arrives"
    LOSE_ANSWER = "it is carried out, and the answer is lost"
    TOO_MANY = "429 with Retry-After"
    INTERNAL = "500"
    UNAVAILABLE = "503"
    CONFLICT = "409"
    EXPIRED = "410"
    EXPIRED_EVENT = "a watch that says 410 as its first event"


STATUS = {
    Fault.TOO_MANY: (429, "TooManyRequests"),
    Fault.INTERNAL: (500, "InternalError"),
    Fault.UNAVAILABLE: (503, "ServiceUnavailable"),
    Fault.CONFLICT: (409, "Conflict"),
    Fault.EXPIRED: (410, "Expired"),
}


@dataclass
class Rule:
    """The next `times` requests with this method, and this text in their address, meet the fault. `after` of them pass first."""

    fault: Fault
    method: str = ""
    path: str = ""
    times: int = 1
    after: int = 0
    met: int = field(default=0, init=False)

    def takes(self, method: str, path: str) -> bool:
        """Whether the rule is about this request, which is counted."""
        if (self.method and method != self.method) or self.path not in path:
            return False
        if self.after > 0:
            self.after -= 1
            return False
        if self.met >= self.times:
            return False
        self.met += 1
        return True


@dataclass
class ApiProxy:
    """`requests` are those that came, as (method, address)."""

    kubeconfig: str = ""
    rules: list[Rule] = field(default_factory=list)
    requests: list[tuple[str, str]] = field(default_factory=list)
    lock: threading.Lock = field(default_factory=threading.Lock)

    def fault_of(self, method: str, path: str) -> Fault | None:
        """What becomes of this request; None: it is passed on."""
        with self.lock:
            self.requests.append((method, path))
            return next((rule.fault for rule in self.rules if rule.takes(method, path)), None)


@contextlib.contextmanager
def api_proxy(cluster: Cluster) -> Iterator[ApiProxy]:
    """A proxy of its own for this block."""
    proxy = ApiProxy()
    address, context = _upstream(cluster.kubeconfig)

    class Handler(http.server.BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def handle_one_request(self) -> None:
            with contextlib.suppress(ConnectionError, TimeoutError):  # The engine went away in the middle.
                super().handle_one_request()

        def do_any(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length", "0")))
            fault = proxy.fault_of(self.command, self.path)
            if fault is Fault.LOSE_REQUEST:
                self._hang_up()
            elif fault is Fault.EXPIRED_EVENT:
                self._answer(200, json.dumps({"type": "ERROR", "object": _refusal(*STATUS[Fault.EXPIRED])}).encode() + b"\n")
            elif fault in STATUS:
                self._answer(STATUS[fault][0], json.dumps(_refusal(*STATUS[fault])).encode())
            else:
                self._pass_on(body, is_answer_lost=fault is Fault.LOSE_ANSWER)

        do_GET = do_POST = do_PUT = do_PATCH = do_DELETE = do_any  # noqa: N815 - names of the library

        def _pass_on(self, body: bytes, *, is_answer_lost: bool) -> None:
            upstream = http.client.HTTPSConnection(address.hostname or "", address.port, timeout=ANSWER_SECONDS, context=context)
            headers = {name: value for name, value in self.headers.items() if name.lower() not in ("host", "connection")}
            try:
                upstream.request(self.command, self.path, body or None, headers)
                answer = upstream.getresponse()
                if is_answer_lost:
                    answer.read()
                    self._hang_up()
                    return
                self.send_response(answer.status)
                self.send_header("Content-Type", answer.headers.get("Content-Type", "application/json"))
                for name in ("Content-Encoding", "Retry-After"):
                    if name in answer.headers:
                        self.send_header(name, answer.headers[name])
                self.send_header("Transfer-Encoding", "chunked")
                self.end_headers()
                while piece := answer.read1(PIECE_BYTES):
                    self.wfile.write(f"{len(piece):x}\r\n".encode() + piece + b"\r\n")
                self.wfile.write(b"0\r\n\r\n")
            except (OSError, http.client.HTTPException):  # The API server ended in the middle, or the engine did.
                self._hang_up()
            finally:
                upstream.close()

        def _answer(self, status: int, body: bytes) -> None:
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            if status == STATUS[Fault.TOO_MANY][0]:
                self.send_header("Retry-After", "1")
            self.end_headers()
            self.wfile.write(body)

        def _hang_up(self) -> None:
            self.close_connection = True
            with contextlib.suppress(OSError):
                self.connection.shutdown(socket.SHUT_RDWR)

        def log_message(self, *_: object) -> None:
            pass

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    proxy.kubeconfig = _kubeconfig(server.server_address[1])
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield proxy
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def _refusal(status: int, reason: str) -> dict[str, Any]:
    return {"kind": "Status", "status": "Failure", "code": status, "reason": reason, "message": "The proxy says so."}


def _upstream(kubeconfig: Path) -> tuple[Any, ssl.SSLContext]:
    """The API server's address, and a context with the administrator's key."""
    document = yaml.safe_load(kubeconfig.read_text())
    cluster, user = document["clusters"][0]["cluster"], document["users"][0]["user"]
    authority = base64.b64decode(cluster["certificate-authority-data"]).decode()
    context = ssl.create_default_context(cadata=authority)
    with tempfile.TemporaryDirectory() as folder:
        files = []
        for name in ("client-certificate-data", "client-key-data"):
            path = Path(folder, name)
            path.write_bytes(base64.b64decode(user[name]))
            files.append(str(path))
        context.load_cert_chain(*files)
    return urlsplit(cluster["server"]), context


def _kubeconfig(port: int) -> str:
    document = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "proxy",
        "clusters": [{"name": "proxy", "cluster": {"server": f"http://127.0.0.1:{port}"}}],
        "users": [{"name": "proxy", "user": {}}],
        "contexts": [{"name": "proxy", "context": {"cluster": "proxy", "user": "proxy"}}],
    }
    return yaml.safe_dump(document)
