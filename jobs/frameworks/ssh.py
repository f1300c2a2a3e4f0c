"""Passwordless ssh between the tasks of a job that asks for it (`ssh: true`): `ssh worker-1`, `scp`, and what calls them.

Each task runs a server of its own, as the tenant's user, at a leased port. The key pair is made from the attempt's key, the same
for all its tasks: it opens these servers, is what they show as their own, and is good for nothing else. It lies in the private
folder of each task and goes with it; nothing is written to a home directory. A `ssh` before the image's own on the path knows the
tasks by their names."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import replace
from functools import lru_cache

from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat, PublicFormat

from clusters.engines.interface import AddressOf, FileOf, PortOf, TextPart
from jobs.frameworks.environment import Layout
from jobs.frameworks.interface import FrameworkRole
from jobs.frameworks.task_run import AgentText, OwnVariable, Requirement, Scratch, Service, TaskRun

PORT = "berth-ssh"
HOSTS_FILE = "berth-ssh-hosts"
KEY = "BERTH_SSH_KEY"
ALIAS = "berth-job"  # The name under which all servers of the job show their key.
_ORDER = int("FFFFFFFF00000000FFFFFFFFFFFFFFFFBCE6FAADA7179E84F3B9CAC2FC632551", 16)  # Of NIST P-256 (FIPS 186-4, D.1.2.3).
_REQUIRES = (
    Requirement("sshd", "apt-get install openssh-server", program="sshd"),
    Requirement("ssh", "apt-get install openssh-client", program="ssh"),
)
_SERVE = 'exec "$(PATH=$PATH:/usr/sbin:/sbin command -v sshd)" -D -e -f "$0"'
_FOLDER = Scratch("ssh")


def with_ssh(layout: Layout, role: FrameworkRole, index: int, run: TaskRun) -> TaskRun:
    """The same, with a server beside it, and with a client that knows all tasks."""
    private, public = _key_pair(layout.job.key)
    server: AgentText = (
        *("ListenAddress ", AddressOf(role.name, index), "\nPort ", PortOf(role.name, index, PORT), "\n"),
        *("HostKey ", _FOLDER, "/id\nAuthorizedKeysFile ", _FOLDER, "/authorized\n"),
        "PidFile none\nUsePAM no\nStrictModes no\nPasswordAuthentication no\nKbdInteractiveAuthentication no\n",
        "LogLevel FATAL\nAllowTcpForwarding no\nX11Forwarding no\nSubsystem sftp internal-sftp\n",
    )
    options: AgentText = ("-F ", FileOf(HOSTS_FILE), " -i ", _FOLDER, "/id -o UserKnownHostsFile=", _FOLDER, "/known")
    return replace(
        run,
        ports=(*run.ports, PORT),
        requires=(*run.requires, *_REQUIRES),
        secret_env={**run.secret_env, KEY: private},
        services=(Service("sshd", (("sh",), ("-c",), (_SERVE,), (_FOLDER, "/sshd_config")), PORT), *run.services),
        files={
            **run.files,
            "ssh/id": (OwnVariable(KEY),),
            "ssh/authorized": (f"{public}\n",),
            "ssh/known": (f"{ALIAS} {public}\n",),
            "ssh/sshd_config": server,
            **{f"ssh/bin/{name}": (f"#!/bin/sh\nexec /usr/bin/{name} ", *options, ' "$@"\n') for name in ("ssh", "scp", "sftp")},
        },
        extra_env={"PATH": (_FOLDER, "/bin:", OwnVariable("PATH")), **run.extra_env},
    )


def hosts(layout: Layout) -> Iterator[TextPart]:
    """The client's configuration: where each task is, by its name. One file for all of them."""
    for _, role, index in layout.tasks():
        yield f"Host {role.name}-{index}\n  HostName "
        yield AddressOf(role.name, index)
        yield "\n  Port "
        yield PortOf(role.name, index, PORT)
        yield "\n"
    yield f"Host *\n  HostKeyAlias {ALIAS}\n  StrictHostKeyChecking yes\n  BatchMode yes\n  LogLevel ERROR\n"
    yield "  ConnectionAttempts 60\n"  # One a second: its peer may start a little later.


@lru_cache(maxsize=4)
def _key_pair(key: str) -> tuple[str, str]:
    """Private key as PEM, which every OpenSSH reads, and public key as its files have it. The same key gives the same pair."""
    number = int.from_bytes(hashlib.sha512(b"ssh " + key.encode()).digest(), "big") % (_ORDER - 1) + 1
    private = ec.derive_private_key(number, ec.SECP256R1())
    pem = private.private_bytes(Encoding.PEM, PrivateFormat.TraditionalOpenSSL, NoEncryption()).decode()
    return pem, private.public_key().public_bytes(Encoding.OpenSSH, PublicFormat.OpenSSH).decode()
