"""One web server that stands for all chat services, under their own names: TLS, its own authority, no network."""

from __future__ import annotations

import contextlib
import html
import json
import os
import socket
import ssl
import tempfile
import threading
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from unittest import mock

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from activity.notifications import posting

CANARY = "Canary0123456789abcdef"  # In every token below: it may be seen by the service alone.
LINK = "http://berth.test/jobs/train"  # Of `tests.factories.activity.Jobs`.


@dataclass(frozen=True)
class Example:
    """One channel: fields as its service gives them, where a message goes, and the title and text of what arrives."""

    settings: Mapping[str, str]
    host: str
    path: str  # How it begins.
    read: Callable[[Any], tuple[str, str]]


def _slack(body: Any) -> tuple[str, str]:
    (attachment,) = body["attachments"]
    assert (attachment["mrkdwn_in"], attachment["title_link"], body["unfurl_links"]) == ([], LINK, False)
    texts = attachment["title"], attachment["text"]
    assert not any(mark in text for mark in "<>" for text in texts), "its control characters are escaped"
    return html.unescape(texts[0]), html.unescape(texts[1])


def _teams(body: Any) -> tuple[str, str]:
    (attachment,) = body["attachments"]
    card = attachment["content"]
    runs = [run for block in card["body"] for run in block["inlines"]]
    assert {block["type"] for block in card["body"]} == {"RichTextBlock"}, "a TextBlock would read Markdown"
    assert card["actions"] == [{"type": "Action.OpenUrl", "title": "See", "url": LINK}]
    return runs[0]["text"], "\n".join(run["text"] for run in runs[1:])


def _dingtalk(body: Any) -> tuple[str, str]:
    assert (body["msgtype"], body["at"]) == ("text", {"atMobiles": [], "isAtAll": False})
    return _plain(body["text"]["content"])


def _feishu(body: Any) -> tuple[str, str]:
    assert (body["msg_type"], set(body)) == ("text", {"msg_type", "content", "timestamp", "sign"})
    return _plain(body["content"]["text"])


def _wecom(body: Any) -> tuple[str, str]:
    assert set(body["text"]) == {"content"}, "nobody is mentioned by the lists beside the text"
    return _plain(body["text"]["content"])


def _telegram(body: Any) -> tuple[str, str]:
    assert "parse_mode" not in body
    assert (body["chat_id"], body["link_preview_options"]) == ("-1001234567890", {"is_disabled": True})
    return _plain(body["text"])


def _plain(text: str) -> tuple[str, str]:
    title, _, rest = text.partition("\n")
    assert rest.endswith(LINK)
    return title, rest


_TEAMS_HOST = "default1.a2.environment.api.powerplatform.com"
_TEAMS_PATH = "/powerautomate/automations/direct/workflows/0123abcd/triggers/manual/paths/invoke"
EXAMPLES = {
    "slack": Example(
        {"address": f"https://hooks.slack.com/services/T0AAAAAAA/B0AAAAAAA/{CANARY}", "name": "#training"},
        "hooks.slack.com",
        f"/services/T0AAAAAAA/B0AAAAAAA/{CANARY}",
        _slack,
    ),
    "teams": Example(
        {"address": f"https://{_TEAMS_HOST}:443{_TEAMS_PATH}?api-version=1&sp=%2Frun&sv=1.0&sig={CANARY}", "name": "Training"},
        _TEAMS_HOST,
        f"{_TEAMS_PATH}?api-version=1&sp=%2Frun&",
        _teams,
    ),
    "dingtalk": Example(
        {
            "address": f"https://oapi.dingtalk.com/robot/send?access_token={CANARY}",
            "secret": f"SEC{CANARY}",
            "name": "训练群",
        },
        "oapi.dingtalk.com",
        f"/robot/send?access_token={CANARY}&timestamp=",
        _dingtalk,
    ),
    "feishu": Example(
        {"address": f"https://open.feishu.cn/open-apis/bot/v2/hook/{CANARY}", "secret": CANARY, "name": "训练群"},
        "open.feishu.cn",
        f"/open-apis/bot/v2/hook/{CANARY}",
        _feishu,
    ),
    "wecom": Example(
        {"address": f"https://qyapi.weixin.qq.com/cgi-bin/webhook/send?key={CANARY}", "name": "训练群"},
        "qyapi.weixin.qq.com",
        f"/cgi-bin/webhook/send?key={CANARY}",
        _wecom,
    ),
    "telegram": Example(
        {"token": f"110201543:{CANARY}", "chat": "-1001234567890"},
        "api.telegram.org",
        f"/bot110201543:{CANARY}/sendMessage",
        _telegram,
    ),
}
SETTINGS = {kind: dict(example.settings) for kind, example in EXAMPLES.items()}
# Public addresses, of which none is connected to.
ADDRESSES = {example.host: f"93.184.216.{number}" for number, example in enumerate(EXAMPLES.values(), 1)}


@dataclass(frozen=True)
class Posted:
    """What arrived. `address`: to which a connection was asked for."""

    host: str
    address: str
    path: str
    headers: Mapping[str, str]
    body: Any


@dataclass
class ChatServices:
    """What arrived, and what is answered next: status, headers, body."""

    posted: list[Posted] = field(default_factory=list)
    answer: Callable[[], tuple[int, dict[str, str], Any]] = lambda: (200, {}, {"errcode": 0, "code": 0, "ok": True})
    addresses: dict[str, str] = field(default_factory=lambda: dict(ADDRESSES))


@contextlib.contextmanager
def chat_services(*, is_trusted: bool = True) -> Iterator[ChatServices]:
    """All services at once. `is_trusted` false: by a certificate that nobody we trust has signed."""
    services = ChatServices()
    connected: dict[int, str] = {}

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            address = connected[self.client_address[1]]
            services.posted.append(Posted(self.headers["Host"], address, self.path, dict(self.headers), body))
            status, headers, said = services.answer()
            content = said if isinstance(said, bytes) else json.dumps(said).encode()
            self.send_response(status)
            for name, value in {**headers, "Content-Length": str(len(content))}.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(content)

        def log_message(self, *args: Any) -> None:
            pass

    def connect(address: str, port: int, timeout_seconds: float) -> socket.socket:
        assert port == 443
        here = socket.create_connection(("127.0.0.1", server.server_port), timeout_seconds)
        connected[here.getsockname()[1]] = address
        return here

    look_up = socket.getaddrinfo

    def resolve(host: Any, port: Any, *arguments: Any, **options: Any) -> Any:
        if host in services.addresses:
            return [(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP, "", (services.addresses[host], port))]
        return look_up(host, port, *arguments, **options)

    with tempfile.TemporaryDirectory() as folder, contextlib.ExitStack() as stack:
        certificate, key = _write_certificate(Path(folder))
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(certificate, key)
        server = _Server(("127.0.0.1", 0), Handler)
        server.context = context
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
        thread.start()
        stack.callback(thread.join)
        stack.callback(server.server_close)
        stack.callback(server.shutdown)
        if is_trusted:
            stack.enter_context(mock.patch.dict(os.environ, {"SSL_CERT_FILE": str(certificate)}))
        stack.enter_context(mock.patch.object(posting, "_connect", connect))
        stack.enter_context(mock.patch.object(socket, "getaddrinfo", resolve))
        yield services


class _Server(ThreadingHTTPServer):
    """Shakes hands in the thread of each connection, so that one refusal stops nothing."""

    context: ssl.SSLContext

    def finish_request(self, request: Any, client_address: Any) -> None:
        with contextlib.suppress(OSError), self.context.wrap_socket(request, server_side=True) as secured:
            super().finish_request(secured, client_address)


def _write_certificate(folder: Path) -> tuple[Path, Path]:
    """Its own authority, for the names of all services and for nothing else."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "chats.test")])
    now = datetime.now(UTC)
    names: list[x509.GeneralName] = [x509.DNSName(host) for host in ADDRESSES]
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(days=1))
        .not_valid_after(now + timedelta(days=2))
        .add_extension(x509.SubjectAlternativeName(names), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    certificate_path, key_path = folder / "certificate.pem", folder / "key.pem"
    certificate_path.write_bytes(certificate.public_bytes(serialization.Encoding.PEM))
    key_path.write_bytes(
        key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    )
    return certificate_path, key_path
