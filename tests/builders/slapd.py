"""A real LDAP directory for tests: Debian's slapd on a loopback port, in a temporary directory, gone with the block."""

from __future__ import annotations

import contextlib
import os
import pwd
import shutil
import socket
import subprocess
import time
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from tests.builders.live import free_port
from tests.builders.prepared import short_folder

BASE = "dc=example,dc=org"
READER = f"cn=reader,{BASE}"
READER_PASSWORD = "the reader's own secret"
PASSWORD = "what the directory knows"
START_SECONDS = 60.0
SLAPD = Path("/usr/sbin/slapd")

CONFIG = """
include /etc/ldap/schema/core.schema
include /etc/ldap/schema/cosine.schema
include /etc/ldap/schema/inetorgperson.schema
include /etc/ldap/schema/nis.schema
pidfile {home}/slapd.pid
moduleload back_mdb
moduleload memberof
TLSCertificateFile {home}/cert.pem
TLSCertificateKeyFile {home}/key.pem
database mdb
suffix "{base}"
rootdn "cn=admin,{base}"
rootpw "{password}"
directory {home}/data
overlay memberof
access to attrs=userPassword by anonymous auth by * none
access to * by dn.exact="{reader}" read by * none
"""


@dataclass
class Directory:
    """A running directory, and what tests do to it."""

    home: Path
    port: int
    tls_port: int
    process: subprocess.Popen[bytes]

    @property
    def url(self) -> str:
        return f"ldap://127.0.0.1:{self.port}"

    @property
    def settings(self) -> dict[str, Any]:
        return {"ldap_url": self.url, "ldap_base": BASE, "ldap_bind_dn": READER, "ldap_bind_password": READER_PASSWORD}

    def add(self, dn: str, **attributes: list[str]) -> None:
        import ldap.modlist

        values = {name: [value.encode() for value in given] for name, given in attributes.items()}
        with self._admin() as connection:
            connection.add_s(dn, ldap.modlist.addModlist(values))

    def person(self, uid: str, *, email: str = "", cn: str = "", password: str = PASSWORD) -> str:
        """Make a person; their DN."""
        import ldap.dn

        dn = f"uid={ldap.dn.escape_dn_chars(uid)},ou=people,{BASE}"
        given = {"mail": [email]} if email else {}
        self.add(dn, objectClass=["inetOrgPerson"], uid=[uid], cn=[cn or uid], sn=[cn or uid], userPassword=[password], **given)
        return dn

    def group(self, name: str, *members: str) -> None:
        """Make a group, or change who is in it."""
        import ldap

        dn = f"cn={name},ou=groups,{BASE}"
        with self._admin() as connection, contextlib.suppress(ldap.NO_SUCH_OBJECT):
            connection.delete_s(dn)
        self.add(dn, objectClass=["groupOfNames"], cn=[name], member=list(members) or [READER])

    def rename(self, dn: str, uid: str, **changes: str) -> None:
        import ldap

        with self._admin() as connection:
            connection.rename_s(dn, f"uid={uid}")
            changed = f"uid={uid},{dn.partition(',')[2]}"
            connection.modify_s(changed, [(ldap.MOD_REPLACE, name, [value.encode()]) for name, value in changes.items()])

    def clear(self) -> None:
        """Take all people and groups away."""
        import ldap

        with self._admin() as connection:
            for place in ("people", "groups"):
                for dn, _ in connection.search_s(f"ou={place},{BASE}", ldap.SCOPE_ONELEVEL, attrlist=["1.1"]):
                    connection.delete_s(dn)

    @contextlib.contextmanager
    def _admin(self) -> Iterator[Any]:
        import ldap

        connection = ldap.initialize(self.url)
        connection.simple_bind_s(f"cn=admin,{BASE}", PASSWORD)
        try:
            yield connection
        finally:
            connection.unbind_s()


@contextlib.contextmanager
def running() -> Iterator[Directory]:
    """A directory with a reader, and room for people and groups."""
    home = short_folder("slapd")
    process = None
    try:
        (home / "data").mkdir()
        _write_certificate(home)
        config = CONFIG.format(home=home, base=BASE, password=PASSWORD, reader=READER)
        (home / "slapd.conf").write_text(config)
        port, tls_port = free_port(), free_port()
        urls = f"ldap://127.0.0.1:{port} ldaps://127.0.0.1:{tls_port}"
        user = _hand_over(home)
        with (home / "log").open("wb") as log:
            command = [str(SLAPD), "-d", "0", "-f", str(home / "slapd.conf"), "-h", urls, *user]
            process = subprocess.Popen(command, stdout=log, stderr=log, cwd="/")
        directory = Directory(home, port, tls_port, process)
        _wait(directory)
        directory.add(BASE, objectClass=["dcObject", "organization"], dc=["example"], o=["Example"])
        kinds = ["organizationalRole", "simpleSecurityObject"]
        directory.add(READER, objectClass=kinds, cn=["reader"], userPassword=[READER_PASSWORD])
        for place in ("people", "groups"):
            directory.add(f"ou={place},{BASE}", objectClass=["organizationalUnit"], ou=[place])
        yield directory
    finally:
        if process is not None:
            process.terminate()
            process.wait(60)
        shutil.rmtree(home, ignore_errors=True)


def _hand_over(home: Path) -> list[str]:
    """Root's slapd becomes Debian's user for it."""
    if os.geteuid() != 0:
        return []
    account = pwd.getpwnam("openldap")
    for path in (home, *home.rglob("*")):
        os.chown(path, account.pw_uid, account.pw_gid)
    return ["-u", "openldap", "-g", "openldap"]


def _wait(directory: Directory) -> None:
    deadline = time.monotonic() + START_SECONDS
    while directory.process.poll() is None and time.monotonic() < deadline:
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", directory.port), timeout=1):
            return
        time.sleep(0.02)
    raise RuntimeError(f"slapd did not start: {(directory.home / 'log').read_text(errors='replace')[-1000:]}")


def _write_certificate(home: Path) -> None:
    """Its own authority, for 127.0.0.1."""
    import ipaddress

    from cryptography import x509
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec
    from cryptography.x509.oid import NameOID

    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "127.0.0.1")])
    now = datetime.now(UTC)
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(days=1))
        .not_valid_after(now + timedelta(days=2))
        .add_extension(x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    (home / "cert.pem").write_bytes(certificate.public_bytes(serialization.Encoding.PEM))
    kind = (serialization.Encoding.PEM, serialization.PrivateFormat.TraditionalOpenSSL, serialization.NoEncryption())
    (home / "key.pem").write_bytes(key.private_bytes(*kind))
