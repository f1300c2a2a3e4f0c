"""Keys and certificates of one cluster: an authority, what it signed, and kubeconfigs.

A kubeconfig is written as JSON, which is YAML too, so that nothing but the standard library and `cryptography` is needed.
"""

from __future__ import annotations

import base64
import ipaddress
import json
import os
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

VALID_DAYS = 365  # A cluster for development may lie for months between two starts.
SKEW = timedelta(hours=1)  # Clocks that tests turn.


class Keys:
    """A folder with `ca.crt`, `ca.key` and a `.crt` and `.key` for each name."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    @property
    def authority(self) -> Path:
        return self.folder / "ca.crt"

    def certificate(self, name: str) -> Path:
        return self.folder / f"{name}.crt"

    def key(self, name: str) -> Path:
        return self.folder / f"{name}.key"

    def make_authority(self) -> None:
        """Make the authority unless it is there."""
        if self.authority.exists():
            return
        self.folder.mkdir(parents=True, exist_ok=True)
        self.folder.chmod(0o700)
        key = self._make_key("ca")
        name = _name("berth-test-ca", ())
        builder = _builder(name, name, key).add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        usage = x509.KeyUsage(
            digital_signature=True, key_cert_sign=True, crl_sign=True, content_commitment=False, key_encipherment=False,
            data_encipherment=False, key_agreement=False, encipher_only=False, decipher_only=False,
        )  # fmt: skip
        certificate = builder.add_extension(usage, critical=True).sign(key, hashes.SHA256())
        _write_whole(self.authority, certificate.public_bytes(serialization.Encoding.PEM))

    def issue(self, name: str, user: str, groups: Sequence[str] = (), hosts: Sequence[str] = ()) -> None:
        """A certificate for server and client, unless it is there: `user` and `groups` are whom the API server takes it for."""
        if self.certificate(name).exists() and self._hosts(name) == set(hosts):
            return
        authority = x509.load_pem_x509_certificate(self.authority.read_bytes())
        signer = serialization.load_pem_private_key(self.key("ca").read_bytes(), None)
        assert isinstance(signer, ec.EllipticCurvePrivateKey)
        builder = _builder(_name(user, groups), authority.subject, self._make_key(name))
        usages = [ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH]
        builder = builder.add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        builder = builder.add_extension(x509.ExtendedKeyUsage(usages), critical=False)
        if hosts:
            builder = builder.add_extension(x509.SubjectAlternativeName([_host(host) for host in hosts]), critical=False)
        certificate = builder.sign(signer, hashes.SHA256())
        _write_whole(self.certificate(name), certificate.public_bytes(serialization.Encoding.PEM))

    def _hosts(self, name: str) -> set[str]:
        certificate = x509.load_pem_x509_certificate(self.certificate(name).read_bytes())
        try:
            names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
        except x509.ExtensionNotFound:
            return set()
        return {str(each.value) for each in names}

    def make_account_key(self) -> None:
        """The key that signs the tokens of service accounts, unless it is there."""
        if not self.key("service-account").exists():
            self._make_key("service-account")

    def kubeconfig(self, path: Path, server: str, name: str) -> Path:
        """Write the kubeconfig of a certificate."""
        user = {
            "client-certificate-data": _base64(self.certificate(name)),
            "client-key-data": _base64(self.key(name)),
        }
        return self._write_kubeconfig(path, server, user)

    def kubeconfig_of_token(self, path: Path, server: str, token: str) -> Path:
        """Write the kubeconfig of a token."""
        return self._write_kubeconfig(path, server, {"token": token})

    def _write_kubeconfig(self, path: Path, server: str, user: dict[str, str]) -> Path:
        cluster = {"server": server, "certificate-authority-data": _base64(self.authority)}
        content = {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{"name": "berth-test", "cluster": cluster}],
            "users": [{"name": "user", "user": user}],
            "contexts": [{"name": "berth-test", "context": {"cluster": "berth-test", "user": "user"}}],
            "current-context": "berth-test",
        }
        _write_whole(path, json.dumps(content, indent=1).encode())
        return path

    def _make_key(self, name: str) -> ec.EllipticCurvePrivateKey:
        key = ec.generate_private_key(ec.SECP256R1())
        pem = key.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.TraditionalOpenSSL, serialization.NoEncryption()
        )
        _write_whole(self.key(name), pem)
        return key


def _builder(subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePrivateKey) -> x509.CertificateBuilder:
    now = datetime.now(UTC)
    builder = x509.CertificateBuilder().subject_name(subject).issuer_name(issuer).public_key(key.public_key())
    builder = builder.serial_number(x509.random_serial_number())
    return builder.not_valid_before(now - SKEW).not_valid_after(now + timedelta(days=VALID_DAYS))


def _name(user: str, groups: Sequence[str]) -> x509.Name:
    organizations = [x509.NameAttribute(NameOID.ORGANIZATION_NAME, group) for group in groups]
    return x509.Name([*organizations, x509.NameAttribute(NameOID.COMMON_NAME, user)])


def _host(host: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(host))
    except ValueError:
        return x509.DNSName(host)


def _base64(path: Path) -> str:
    return base64.b64encode(path.read_bytes()).decode()


def _write_whole(path: Path, content: bytes) -> None:
    """Readable for its owner alone, and replaced in one step."""
    building = path.with_name(f"{path.name}.building")
    descriptor = os.open(building, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(descriptor, "wb") as file:
        file.write(content)
    building.replace(path)
