"""A client of the distribution API, version 2 (github.com/distribution/distribution-spec 1.1): reading only.

Nothing that a registry says counts before it is checked: content is read up to a bound and compared with its digest, each
address that an answer leads to is checked after resolving and connected to as checked, a password goes to the registry that asked
for it and to the token server that this registry names, and a redirect carries no credential to another host. No proxy is asked.
"""

from __future__ import annotations

import base64
import contextlib
import hashlib
import json
import re
import socket
import ssl
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from typing import Any
from urllib.parse import urlencode, urljoin

import httpx2

from clusters.registries.errors import (
    ImageAbsent,
    ImageDenied,
    ImageUnusable,
    RateLimited,
    RegistryError,
    RegistryTimeout,
    RegistryTls,
    RegistryUnreachable,
)
from clusters.registries.manifests import ACCEPTED, Config, Layer, Manifest, platform_of, read_config, read_manifest
from clusters.registries.references import Reference
from clusters.registries.rules import Account, Rules
from kernel.words import Text

SECONDS_MAX = 10.0  # To connect, and for each piece of an answer.
MANIFEST_BYTES_MAX = 4 * 1024**2  # The distribution specification's own bound.
CONFIG_BYTES_MAX = 8 * 1024**2  # Labels and history of a large image are some hundred KiB.
TOKEN_BYTES_MAX = 256 * 1024
REDIRECTS_MAX = 5
_PARAMETER = re.compile(r'([a-zA-Z_]+)=(?:"([^"\\]*)"|([^\s",]+))')


class Registry:
    """One registry, spoken to as one account or none. Use it from one thread, and close it."""

    def __init__(self, host: str, *, rules: Rules, account: Account | None = None, seconds: float = SECONDS_MAX) -> None:
        """`seconds` is for all that is asked together; layers have a time of their own. Raises RegistryRefused."""
        rules.check_registry(host)
        self._host, self._rules, self._account = host, rules, account
        self._deadline = time.monotonic() + seconds
        self._authorization: dict[str, str] = {}
        self._sockets: list[socket.socket] = []
        self._http = httpx2.Client(
            timeout=min(SECONDS_MAX, seconds), follow_redirects=False, trust_env=False, verify=_trust(rules.ca_file)
        )

    def __enter__(self) -> Registry:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        self._http.close()

    def find(self, reference: Reference) -> Manifest:
        """What a reference means for linux/amd64: its manifest, and the digest that pins the reference. Raises RegistryError.

        The digest is that of an index where the reference names one: each machine then takes its own image from it.
        """
        wanted = reference.digest or reference.tag
        text, media_type = self._manifest(reference.repository, wanted)
        digest = f"sha256:{hashlib.sha256(text).hexdigest()}"
        if reference.digest and digest != reference.digest:
            raise ImageUnusable(
                Text(
                    f"The registry gave another content than {reference.digest}.",
                    f"镜像仓库给出的内容与 {reference.digest} 不符。",
                )
            )
        chosen = platform_of(text, media_type)
        if chosen is None:
            return read_manifest(text, digest=digest, pinned=digest)
        inner, _ = self._manifest(reference.repository, chosen)
        if f"sha256:{hashlib.sha256(inner).hexdigest()}" != chosen:
            raise ImageUnusable(
                Text(f"The registry gave another content than {chosen}.", f"镜像仓库给出的内容与 {chosen} 不符。")
            )
        return read_manifest(inner, digest=chosen, pinned=digest)

    def config(self, reference: Reference, manifest: Manifest) -> Config:
        """The image's configuration: what its maker set. Raises RegistryError."""
        parts: list[bytes] = []
        layer = Layer(manifest.config_digest, min(manifest.config_bytes, CONFIG_BYTES_MAX), "")
        if manifest.config_bytes > CONFIG_BYTES_MAX:
            raise ImageUnusable(
                Text(
                    f"The image's configuration has {manifest.config_bytes} bytes.",
                    f"镜像的配置有 {manifest.config_bytes} 字节。",
                )
            )
        self._blob(reference.repository, layer, parts.append, deadline=self._deadline)
        return read_config(b"".join(parts))

    def fetch_layer(self, reference: Reference, layer: Layer, take: Callable[[bytes], object], *, seconds: float) -> None:
        """Give a layer piece by piece. Its digest is compared at the end: what was taken before is nothing until this returns."""
        self._blob(reference.repository, layer, take, deadline=time.monotonic() + seconds)

    def check(self) -> None:
        """Whether the registry answers and takes the account. Raises RegistryError."""
        self._read(self._rules.url(self._host, "/v2/"), scope="", limit=TOKEN_BYTES_MAX, accept="application/json")

    # --- Requests ----------------------------------------------------------------------------------------------------

    def _manifest(self, repository: str, wanted: str) -> tuple[bytes, str]:
        url = self._rules.url(self._host, f"/v2/{repository}/manifests/{wanted}")
        return self._read(url, scope=_pull(repository), limit=MANIFEST_BYTES_MAX, accept=", ".join(ACCEPTED))

    def _read(self, url: str, *, scope: str, limit: int, accept: str) -> tuple[bytes, str]:
        parts: list[bytes] = []
        with self._open(url, scope=scope, accept=accept, deadline=self._deadline) as response:
            read = 0
            for piece in _pieces(response, self._deadline):
                read += len(piece)
                if read > limit:
                    raise ImageUnusable(
                        Text(f"{self._host} gave more than {limit} bytes.", f"{self._host} 给出的内容超过 {limit} 字节。")
                    )
                parts.append(piece)
            return b"".join(parts), response.headers.get("Content-Type", "")

    def _blob(self, repository: str, layer: Layer, take: Callable[[bytes], object], *, deadline: float) -> None:
        url = self._rules.url(self._host, f"/v2/{repository}/blobs/{layer.digest}")
        digest, read = hashlib.sha256(), 0
        with self._open(url, scope=_pull(repository), accept="*/*", deadline=deadline) as response:
            for piece in _pieces(response, deadline):
                read += len(piece)
                if read > layer.size_bytes:
                    raise ImageUnusable(
                        Text(
                            f"{layer.digest} has more than the {layer.size_bytes} bytes that the manifest says.",
                            f"{layer.digest} 超过清单声明的 {layer.size_bytes} 字节。",
                        )
                    )
                digest.update(piece)
                take(piece)
        if f"sha256:{digest.hexdigest()}" != layer.digest:
            raise ImageUnusable(
                Text(f"The registry gave another content than {layer.digest}.", f"镜像仓库给出的内容与 {layer.digest} 不符。")
            )

    @contextlib.contextmanager
    def _open(self, url: str, *, scope: str, accept: str, deadline: float) -> Iterator[httpx2.Response]:
        """A successful answer, after at most one challenge and some redirects."""
        challenged, home = False, True
        for _ in range(REDIRECTS_MAX + 2):
            headers = {"Accept": accept}
            if home and scope in self._authorization:
                headers["Authorization"] = self._authorization[scope]
            with self._send(url, headers, deadline) as response:
                if response.status_code == 401 and home and not challenged:
                    challenged = True
                    self._authorization[scope] = self._answer(response.headers.get("WWW-Authenticate", ""), scope, deadline)
                    continue
                if response.status_code in (301, 302, 303, 307, 308):
                    url = urljoin(url, response.headers.get("Location", ""))
                    home = home and url.startswith(self._rules.url(self._host, "/"))
                    continue
                self._judge(response)
                yield response
                return
        raise RegistryUnreachable(
            Text(f"{self._host} sends from one address to the next.", f"{self._host} 不断重定向到其他地址。")
        )

    @contextlib.contextmanager
    def _send(self, url: str, headers: Mapping[str, str], deadline: float) -> Iterator[httpx2.Response]:
        target, address = self._within(lambda: self._rules.checked(url, registry=self._host), deadline)
        named = {**headers, "Host": target.authority, "Accept-Encoding": "identity", "User-Agent": "berth"}
        extensions = {"sni_hostname": target.host, "trace": self._note_socket}
        try:
            plain = httpx2.URL(url).copy_with(host=address)
            with self._cut_at(deadline), self._http.stream("GET", plain, headers=named, extensions=extensions) as response:
                yield response
        except httpx2.TimeoutException:
            raise RegistryTimeout(
                Text(f"{target.host} gave no complete answer in time.", f"{target.host} 未在时限内给出完整应答。")
            ) from None
        except httpx2.TransportError as error:
            if time.monotonic() > deadline:
                raise RegistryTimeout(
                    Text(f"{target.host} gave no complete answer in time.", f"{target.host} 未在时限内给出完整应答。")
                ) from None
            raise _transport_error(target.host, error) from None
        except (httpx2.HTTPError, httpx2.InvalidURL, ValueError) as error:
            raise RegistryUnreachable(
                Text(
                    f"{target.host} does not answer in HTTP ({type(error).__name__}).",
                    f"{target.host} 的应答不是 HTTP（{type(error).__name__}）。",
                )
            ) from None

    def _note_socket(self, event: str, info: Mapping[str, Any]) -> None:
        if event == "connection.connect_tcp.complete":
            self._sockets.append(info["return_value"].get_extra_info("socket"))

    @contextlib.contextmanager
    def _cut_at(self, deadline: float) -> Iterator[None]:
        """Shut connections down when the time is over: a limit for each read would let a byte now and then go on for hours."""

        def cut() -> None:
            for connection in self._sockets:
                with contextlib.suppress(OSError):
                    connection.shutdown(socket.SHUT_RDWR)

        timer = threading.Timer(max(0.0, deadline - time.monotonic()), cut)
        timer.daemon = True
        timer.start()
        try:
            yield
        finally:
            timer.cancel()

    def _within(self, ask: Callable[[], Any], deadline: float) -> Any:
        """Resolving has no time limit of its own: it is left behind when ours is over."""
        result: list[Any] = []

        def run() -> None:
            try:
                result.append((True, ask()))
            except RegistryError as error:
                result.append((False, error))

        thread = threading.Thread(target=run, name="registry-name", daemon=True)
        thread.start()
        thread.join(max(0.0, deadline - time.monotonic()))
        if not result:
            raise RegistryTimeout(
                Text(f"The name of {self._host} did not resolve in time.", f"{self._host} 的名称未能及时解析。")
            )
        succeeded, value = result[0]
        if not succeeded:
            raise value
        return value

    def _reader(self) -> Text[str]:
        if self._account is None:
            return Text("a reader without account", "未使用账户的读取者")
        return Text(f"the account {self._account.username}", f"账户 {self._account.username} ")

    def _answer(self, challenge: str, scope: str, deadline: float) -> str:
        """The Authorization header for a challenge. The password goes to the registry itself, or to the server that it names."""
        scheme, _, rest = challenge.partition(" ")
        if scheme.lower() == "basic":
            if self._account is None:
                raise ImageDenied(Text(f"{self._host} wants an account.", f"{self._host} 要求使用账户。"))
            return _basic(self._account)
        if scheme.lower() != "bearer":
            raise ImageDenied(
                Text(
                    f"{self._host} wants a credential of a kind that is not known: {scheme[:40]!r}.",
                    f"{self._host} 要求的凭据类型未知：{scheme[:40]!r}。",
                )
            )
        given = {name.lower(): quoted or plain for name, quoted, plain in _PARAMETER.findall(rest[:4_096])}
        query = {name: value for name, value in (("service", given.get("service")), ("scope", scope)) if value}
        if self._account is not None:
            query["account"] = self._account.username
        realm = given.get("realm", "")
        headers = {"Accept": "application/json"}
        if self._account is not None:
            headers["Authorization"] = _basic(self._account)
        separator = "&" if "?" in realm else "?"
        with self._send(f"{realm}{separator}{urlencode(query)}" if query else realm, headers, deadline) as response:
            if response.status_code in (400, 401, 403, 404):
                who = self._reader()
                raise ImageDenied(Text(f"{self._host} refuses {who.en}.", f"{self._host} 拒绝{who.zh}。"))
            self._judge(response)
            text = b"".join(_bounded(_pieces(response, deadline), TOKEN_BYTES_MAX))
        try:
            answer = json.loads(text)
            token = answer.get("token") or answer.get("access_token")
        except (ValueError, AttributeError, RecursionError):
            token = None
        if not isinstance(token, str) or not token.isascii() or not token.isprintable():
            raise RegistryUnreachable(
                Text(f"The token server of {self._host} gave no token.", f"{self._host} 的令牌服务器没有给出令牌。")
            )
        return f"Bearer {token}"

    def _judge(self, response: httpx2.Response) -> None:
        status = response.status_code
        if 200 <= status < 300:
            return
        if status == 404:
            raise ImageAbsent(Text(f"{self._host} has no such image.", f"{self._host} 没有这个镜像。"))
        if status in (401, 403):
            who = self._reader()
            raise ImageDenied(Text(f"{self._host} refuses this image to {who.en}.", f"{self._host} 拒绝向{who.zh}提供该镜像。"))
        if status == 429:
            raise RateLimited(
                Text(f"{self._host} limits the rate of requests.", f"{self._host} 限制了请求频率。"),
                after_seconds=_seconds(response),
            )
        raise RegistryUnreachable(
            Text(f"{self._host} answered with {status}.", f"{self._host} 返回了 {status}。"), after_seconds=_seconds(response)
        )


def _pieces(response: httpx2.Response, deadline: float) -> Iterator[bytes]:
    for piece in response.iter_raw():
        if time.monotonic() > deadline:
            raise RegistryTimeout(
                Text("The registry was too slow: the time for its answer is over.", "镜像仓库过慢：等待应答的时间已到。")
            )
        yield piece


def _bounded(pieces: Iterator[bytes], limit: int) -> Iterator[bytes]:
    read = 0
    for piece in pieces:
        read += len(piece)
        if read > limit:
            raise RegistryUnreachable(Text(f"An answer has more than {limit} bytes.", f"应答超过 {limit} 字节。"))
        yield piece


def _transport_error(host: str, error: httpx2.TransportError) -> RegistryError:
    cause: BaseException | None = error
    while cause is not None:
        if isinstance(cause, ssl.SSLCertVerificationError):
            return RegistryTls(
                Text(
                    f"The certificate of {host} is not valid: {cause.verify_message}",
                    f"{host} 的证书无效：{cause.verify_message}",
                )
            )
        if isinstance(cause, ssl.SSLError):
            return RegistryTls(
                Text(
                    f"{host} does not speak TLS as it should: {cause.reason or 'no reason given'}",
                    f"{host} 的 TLS 不符合规范：{cause.reason or '未说明原因'}",
                )
            )
        cause = cause.__cause__ or cause.__context__
    return RegistryUnreachable(
        Text(
            f"The connection to {host} failed: {str(error)[:200] or type(error).__name__}",
            f"与 {host} 的连接失败：{str(error)[:200] or type(error).__name__}",
        )
    )


def _trust(ca_file: str) -> ssl.SSLContext:
    context = ssl.create_default_context()
    if ca_file:
        context.load_verify_locations(cafile=ca_file)
    return context


def _basic(account: Account) -> str:
    return f"Basic {base64.b64encode(f'{account.username}:{account.password}'.encode()).decode()}"


def _pull(repository: str) -> str:
    return f"repository:{repository}:pull"


def _seconds(response: httpx2.Response) -> float | None:
    text = response.headers.get("Retry-After", "")
    return float(min(int(text), 3_600)) if text.isascii() and text.isdecimal() and len(text) < 9 else None
