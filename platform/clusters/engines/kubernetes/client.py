"""The official client as a transport: keys from a kubeconfig or from the pod's own account, connections, websockets.

The client is imported when the first cluster of this kind is used. A kubeconfig that names programs or files is refused: it comes
over the network from an operator, and would run or read something on this server.
"""

from __future__ import annotations

import base64
import binascii
import os
import weakref
from collections.abc import Iterator, Mapping
from typing import Any

from clusters.engines.interface import EngineUnreachable
from clusters.engines.kubernetes.config import KUBECONFIG, ConfigInvalid, wrong_with
from clusters.engines.kubernetes.credentials import read_kubeconfig
from kernel.words import Text

_CHUNK_BYTES = 64 * 1024
_WEBSOCKET_SECONDS = 10.0
_FILES = (("clusters", "cluster", ("certificate-authority",)), ("users", "user", ("client-certificate", "client-key")))


class ClientTransport:
    """HTTP by the client's connection pool. One for each engine; threads share it."""

    def __init__(self, kubeconfig: str, *, connections: int) -> None:
        from kubernetes import client, config

        load: Any = config  # Without types.
        settings = client.Configuration()
        settings.retries = False
        settings.connection_pool_maxsize = connections
        files: list[int] = []
        self._release = weakref.finalize(self, _close, files)
        try:
            if kubeconfig:
                document = read_kubeconfig(kubeconfig)
                _keep_in_memory(document, files)
                load.load_kube_config_from_dict(document, client_configuration=settings, persist_config=False)
            else:
                load.load_incluster_config(client_configuration=settings)
        except config.ConfigException as error:
            raise ConfigInvalid([f"kubeconfig: {error}"]) from error
        self._client = client.ApiClient(configuration=settings)
        self._host = str(settings.host).rstrip("/")

    def __call__(
        self, method: str, path: str, body: Any, headers: Mapping[str, str], *, connect_seconds: float, read_seconds: float
    ) -> ClientResponse:
        import urllib3

        words = {**headers, "User-Agent": "berth"}
        self._client.update_params_for_auth(words, [], ["BearerToken"], path, method, body)
        data: Any = body
        try:
            answer = self._client.rest_client.pool_manager.request(
                method,
                self._host + path,
                body=None if data is None else _encode(data),
                headers=words,
                timeout=urllib3.Timeout(connect=connect_seconds, read=read_seconds),
                preload_content=False,
                retries=False,
            )
        except urllib3.exceptions.HTTPError as error:
            raise ConnectionError(str(error)) from error
        return ClientResponse(answer)

    def websocket(self, path: str) -> Any:
        """A websocket of the client's own kind (channels, binary), for exec and port-forward. Raises EngineUnreachable."""
        import websocket
        from kubernetes.client import ApiException
        from kubernetes.stream import ws_client

        words: dict[str, str] = {}
        client: Any = ws_client  # Without types.
        self._client.update_params_for_auth(words, [], ["BearerToken"], path, "GET", None)
        headers = {name.lower(): value for name, value in words.items()}
        websocket.setdefaulttimeout(_WEBSOCKET_SECONDS)  # The library's only way; nothing else here uses it.
        try:
            opened = client.websocket_call(
                self._client.configuration,
                "GET",
                self._host + path,
                headers=headers,
                binary=True,
                _preload_content=False,
                capture_all=False,
            )
        except ApiException as error:
            raise EngineUnreachable(str(error.reason)[:600]) from error
        opened.sock.settimeout(None)
        return opened

    def close(self) -> None:
        self._client.rest_client.pool_manager.clear()
        self._release()


class ClientResponse:
    """An answer of urllib3."""

    def __init__(self, answer: Any) -> None:
        self._answer = answer

    @property
    def status(self) -> int:
        return int(self._answer.status)

    @property
    def headers(self) -> Mapping[str, str]:
        return dict(self._answer.headers)

    def body(self) -> bytes:
        return b"".join(self.chunks())

    def chunks(self) -> Iterator[bytes]:
        import urllib3

        try:
            for chunk in self._answer.stream(_CHUNK_BYTES, decode_content=True):
                yield bytes(chunk)
        except urllib3.exceptions.HTTPError as error:
            raise ConnectionError(str(error)) from error

    def close(self) -> None:
        self._answer.close()
        self._answer.release_conn()


def _keep_in_memory(document: Mapping[str, Any], files: list[int]) -> None:
    """Replace certificates and keys in the document by names of files that no disk has; their descriptors are added to `files`.

    The client reads them by name whenever it connects. By itself it writes them to temporary files, which it removes when the
    interpreter ends; a process that is killed, or leaves at once, would leave the keys of clusters there for good.
    """
    for group, kind, words in _FILES:
        for entry in document.get(group) or []:
            inner: dict[str, Any] = entry[kind] if isinstance(entry, dict) and isinstance(entry.get(kind), dict) else {}
            for word in words:
                if text := inner.pop(f"{word}-data", None):
                    files.append(os.memfd_create(word))
                    _write(files[-1], f"{word}-data", str(text))
                    inner[word] = f"/proc/self/fd/{files[-1]}"


def _write(file: int, word: str, text: str) -> None:
    try:
        content = base64.b64decode("".join(text.split()), validate=True)
    except (ValueError, binascii.Error) as error:
        raise ConfigInvalid([wrong_with(KUBECONFIG, Text(f"`{word}` is no Base64", f"`{word}` 不是 Base64"))]) from error
    with open(file, "wb", closefd=False) as writer:
        writer.write(content)


def _close(files: list[int]) -> None:
    while files:
        os.close(files.pop())


def _encode(body: Any) -> bytes:
    import json

    return body if isinstance(body, bytes) else json.dumps(body).encode()
