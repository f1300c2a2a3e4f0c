"""What a kubeconfig says of itself: whether it can be used, whose it is, and until when. Nothing is asked of the cluster.

All mistakes are told at once. What would be read or run on this server (files, programs) is refused, and so is what the client
does not do though the text asks for it (impersonation): the account would be another one than the operator means.
"""

from __future__ import annotations

import base64
import binascii
import json
import os
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any
from urllib.parse import urlsplit

from clusters.engines.kubernetes.config import KUBECONFIG, ConfigInvalid, KubernetesConfig, read_config, wrong_with
from clusters.engines.settings import SettingsInvalid, SettingsRead
from kernel.errors import FieldError
from kernel.limits import KIB
from kernel.words import Text

BYTES_MAX = 256 * KIB  # Certificates and a token are a few KiB for each context.
FROM_KUBECONFIG, FROM_POD = "kubeconfig", "pod"
ACCOUNT_DIRECTORY = "/var/run/secrets/kubernetes.io/serviceaccount"
_NOT_DONE = ("as", "as-uid", "as-groups", "as-user-extra", "username", "password")
_FOREIGN = ("exec", "auth-provider", "client-certificate", "client-key", "tokenFile", "certificate-authority")


def read_settings(config: Mapping[str, Any], credentials: str) -> SettingsRead:
    """Read a cluster's settings; `credentials` is a kubeconfig, or empty for the account of the pod that Berth runs in.

    Raises SettingsInvalid with all that is wrong with both.
    """
    wrong: list[FieldError] = []
    read: KubernetesConfig | None = None
    if KUBECONFIG in config:
        hint = Text(
            "Send its text as `credentials`; `berth clusters add` takes --kubeconfig FILE.",
            "请将其内容作为 `credentials` 发送；`berth clusters add` 可用 --kubeconfig FILE。",
        )
        wrong.append(
            FieldError(
                f"/config/{KUBECONFIG}",
                "secret",
                Text("A kubeconfig is no part of the configuration.", "kubeconfig 不属于集群配置。"),
                hint,
            )
        )
    try:
        read = read_config("", {name: value for name, value in config.items() if name != KUBECONFIG})
    except ConfigInvalid as error:
        wrong += error.fields
    found = None
    try:
        found = read_access(credentials)
    except SettingsInvalid as error:
        wrong += error.fields
    if wrong or read is None or found is None:
        raise SettingsInvalid(wrong)
    server, account, origin, expires_at, verifies_tls = found
    return SettingsRead(server, account, origin, f"{server} {read.namespace_prefix}", expires_at, verifies_tls)


Access = tuple[str, str, str, datetime | None, bool]


def read_access(credentials: str) -> Access:
    """Server, account, where both are from, the end of the credentials (None: not told), whether the server must prove itself."""
    if not credentials:
        return _of_the_pod()
    document = read_kubeconfig(credentials)
    problems: list[Text[str]] = []
    context = _named(
        document, "contexts", "context", document.get("current-context"), problems, Text("current-context", "current-context")
    )
    of_context = context or {}
    cluster = _named(
        document, "clusters", "cluster", of_context.get("cluster"), problems, Text("the context's cluster", "该上下文的集群")
    )
    user = _named(document, "users", "user", of_context.get("user"), problems, Text("the context's user", "该上下文的用户"))
    if cluster is not None:
        problems += _wrong_with_cluster(cluster)
    if user is not None:
        problems += _wrong_with(user)
    if problems:
        raise ConfigInvalid([wrong_with(KUBECONFIG, problem) for problem in problems])
    assert context is not None
    assert cluster is not None
    assert user is not None
    server = str(cluster["server"])
    subject, certificate_ends = _of_certificate(user)
    account, token_ends = _of_token(str(user.get("token") or ""))
    ends = [moment for moment in (certificate_ends, token_ends) if moment is not None]
    is_verified = server.startswith("https:") and not cluster.get("insecure-skip-tls-verify")
    name = account or subject or str(context.get("user") or "")
    return server.rstrip("/"), name, FROM_KUBECONFIG, min(ends, default=None), is_verified


def read_kubeconfig(text: str) -> dict[str, Any]:
    """Parse the text. Raises ConfigInvalid with all that is wrong with it."""
    import yaml

    if len(text.encode()) > BYTES_MAX:
        raise ConfigInvalid(
            [wrong_with(KUBECONFIG, Text(f"it has more than {BYTES_MAX // KIB} KiB", f"超过 {BYTES_MAX // KIB} KiB"))]
        )
    try:
        # Events come one at a time: a text that unfolds into gigabytes is refused before anything is built of it.
        if any(isinstance(event, yaml.AliasEvent) for event in yaml.parse(text, Loader=yaml.CSafeLoader)):
            raise ConfigInvalid([wrong_with(KUBECONFIG, Text("it has aliases; write each value out", "含有别名；请写出每个值"))])
        document = yaml.safe_load(text)
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        first = (str(error).splitlines() or [type(error).__name__])[0]
        raise ConfigInvalid([wrong_with(KUBECONFIG, Text(f"it is no YAML ({first})", f"不是 YAML（{first}）"))]) from error
    if not isinstance(document, dict):
        raise ConfigInvalid([wrong_with(KUBECONFIG, Text("it is no mapping", "不是映射"))])
    words = sorted({word for word in _FOREIGN if any(entry.get(word) for entry in _entries(document))})
    if words:
        refused = (
            Text(f"`{word}` is refused; give keys and certificates inline", f"不接受 `{word}`；请直接写入密钥和证书")
            for word in words
        )
        raise ConfigInvalid([wrong_with(KUBECONFIG, what) for what in refused])
    return document


def _of_the_pod() -> Access:
    host, port = os.environ.get("KUBERNETES_SERVICE_HOST", ""), os.environ.get("KUBERNETES_SERVICE_PORT", "443")
    try:
        with open(f"{ACCOUNT_DIRECTORY}/token", encoding="utf-8") as file:
            token = file.read()
    except OSError:
        token = ""
    if not host or not token:
        message = Text(
            "Berth does not run in a pod of a Kubernetes cluster, so it has no account there.",
            "Berth 不在 Kubernetes 集群的 Pod 中运行，因此在那里没有账户。",
        )
        raise SettingsInvalid(
            [FieldError("/credentials", "required", message, Text("Give a kubeconfig.", "请提供 kubeconfig。"))]
        )
    address = f"[{host}]" if ":" in host else host
    return f"https://{address}:{port}", _of_token(token)[0], FROM_POD, None, True  # The kubelet renews such a token.


def _entries(document: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    found: list[Mapping[str, Any]] = []
    for group, kind in (("users", "user"), ("clusters", "cluster")):
        entries = document.get(group)
        inner = [entry.get(kind) for entry in entries if isinstance(entry, dict)] if isinstance(entries, list) else []
        found += [item for item in inner if isinstance(item, dict)]
    return found


def _named(
    document: Mapping[str, Any], group: str, kind: str, name: object, problems: list[Text[str]], what: Text[str]
) -> Mapping[str, Any] | None:
    """The entry of this name; what is wrong is added to the problems, once where one thing follows from another."""
    if not name:
        if not problems:
            problems.append(Text(f"{what.en} is not named", f"没有指定{what.zh}"))
        return None
    entries = document.get(group)
    for entry in entries if isinstance(entries, list) else []:
        if isinstance(entry, dict) and entry.get("name") == name and isinstance(entry.get(kind), dict):
            found: Mapping[str, Any] = entry[kind]
            return found
    problems.append(
        Text(
            f"{what.en} is {str(name)[:80]!r}, and `{group}` has none of this name",
            f"{what.zh}为 {str(name)[:80]!r}，而 `{group}` 中没有此名称",
        )
    )
    return None


def _wrong_with_cluster(cluster: Mapping[str, Any]) -> list[Text[str]]:
    found = []
    if not _is_address(str(cluster.get("server") or "")):
        found.append(
            Text(
                "the cluster's `server` is no address such as https://host:6443",
                "集群的 `server` 不是形如 https://host:6443 的地址",
            )
        )
    authority = cluster.get("certificate-authority-data")
    if authority and _read_certificate(authority) is None:
        found.append(
            Text(
                "`certificate-authority-data` is no certificate in Base64", "`certificate-authority-data` 不是 Base64 编码的证书"
            )
        )
    return found


def _is_address(server: str) -> bool:
    """Whether it names a host, and says nothing of accounts and questions, which would be shown."""
    try:
        parts = urlsplit(server)
        has_port = parts.port is None or parts.port > 0
    except ValueError:
        return False
    is_plain = parts.username is None and not parts.query and not parts.fragment
    return parts.scheme in ("https", "http") and bool(parts.hostname) and has_port and is_plain


def _wrong_with(user: Mapping[str, Any]) -> list[Text[str]]:
    found = [
        Text(f"`{word}` is not supported; use a client certificate or a token", f"不支持 `{word}`；请使用客户端证书或令牌")
        for word in _NOT_DONE
        if user.get(word)
    ]
    certificate, key = user.get("client-certificate-data"), user.get("client-key-data")
    if bool(certificate) != bool(key):
        found.append(
            Text(
                "`client-certificate-data` and `client-key-data` belong together, and one is missing",
                "`client-certificate-data` 与 `client-key-data` 须同时给出，缺少其一",
            )
        )
    if not found and not certificate and not user.get("token"):
        found.append(Text("the user has neither a client certificate nor a token", "该用户既没有客户端证书，也没有令牌"))
    if certificate and _read_certificate(certificate) is None:
        found.append(
            Text("`client-certificate-data` is no certificate in Base64", "`client-certificate-data` 不是 Base64 编码的证书")
        )
    if key and not _is_key(key):
        found.append(
            Text(
                "`client-key-data` is no private key in Base64 without a password",
                "`client-key-data` 不是 Base64 编码的无密码私钥",
            )
        )
    return found


def _read_certificate(text: object) -> Any:
    """The certificate; None where the text has none."""
    from cryptography import x509

    try:
        return x509.load_pem_x509_certificate(base64.b64decode(str(text), validate=True))
    except (ValueError, binascii.Error):
        return None


def _is_key(text: object) -> bool:
    from cryptography.exceptions import UnsupportedAlgorithm
    from cryptography.hazmat.primitives.serialization import load_pem_private_key

    try:
        load_pem_private_key(base64.b64decode(str(text), validate=True), None)
    except (ValueError, TypeError, UnsupportedAlgorithm):  # TypeError: it has a password.
        return False
    return True


def _of_certificate(user: Mapping[str, Any]) -> tuple[str, datetime | None]:
    from cryptography.x509.oid import NameOID

    text = user.get("client-certificate-data")
    found = _read_certificate(text) if text else None
    if found is None:
        return "", None
    names = found.subject.get_attributes_for_oid(NameOID.COMMON_NAME)
    ends: datetime = found.not_valid_after_utc
    return (str(names[0].value) if names else ""), ends


def _of_token(token: str) -> tuple[str, datetime | None]:
    """Account and end that a token names which can be read (a JWT); of others only the server knows."""
    parts = token.split(".")
    if len(parts) != 3:
        return "", None
    try:
        claims = json.loads(base64.urlsafe_b64decode(parts[1] + "=" * (-len(parts[1]) % 4)))
        end = claims.get("exp")
        ends = datetime.fromtimestamp(end, UTC) if isinstance(end, int) else None
    except (ValueError, binascii.Error, AttributeError, OverflowError, OSError):
        return "", None
    return str(claims.get("sub") or "")[:255], ends
