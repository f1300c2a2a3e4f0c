"""The installation's keys in a backup: without them no stored secret can ever be read again, with them all can.

They go into the file as they are, which is why it is 0600 and says so; or sealed under a passphrase; or not at all, and then
the manifest's fingerprints tell whether a key kept elsewhere is the right one.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from cryptography.fernet import Fernet, InvalidToken
from cryptography.hazmat.primitives.kdf.scrypt import Scrypt

from controlplane.backup.archive import BackupError

FILES = ("secret.key", "secret.key.previous")
SEALED = "keys/sealed"
_COST = 2**15  # Of scrypt, with blocks of 8: 32 MiB and about a tenth of a second for each guess.


def fingerprint(key: str) -> str:
    """Tells one key from another and nothing else about it."""
    return hmac.new(key.encode(), b"berth backup fingerprint v1", hashlib.sha256).hexdigest()[:32]


def read_key_files(data_dir: Path) -> dict[str, bytes]:
    """The key files that there are; a key that is a setting has none."""
    found = {}
    for name in FILES:
        path = data_dir / name
        if path.is_file():
            found[name] = path.read_bytes()
    return found


def seal(files: Mapping[str, bytes], passphrase: str) -> bytes:
    """One sealed text with all key files."""
    salt = os.urandom(16)
    plain = json.dumps({name: data.decode() for name, data in files.items()}).encode()
    return salt.hex().encode() + b"\n" + Fernet(_derived(passphrase, salt)).encrypt(plain)


def unseal(data: bytes, passphrase: str) -> dict[str, bytes]:
    """The key files again; BackupError for another passphrase."""
    salt, _, token = data.partition(b"\n")
    try:
        plain = Fernet(_derived(passphrase, bytes.fromhex(salt.decode()))).decrypt(token)
    except (InvalidToken, ValueError):
        raise BackupError("The passphrase does not open the keys of this backup.") from None
    found: dict[str, str] = json.loads(plain)
    return {name: text.encode() for name, text in found.items() if name in FILES}


def read_passphrase(path: Path) -> str:
    """The first line of a file, so that it is neither an argument nor typed where others look."""
    try:
        text = path.read_text().partition("\n")[0].strip()
    except OSError as error:
        raise BackupError(f"The passphrase file {path} cannot be read: {error.strerror}.") from None
    if len(text) < 16:
        raise BackupError(f"The passphrase in {path} is shorter than 16 characters. Choose a longer one.")
    return text


def manifest_of(key: str, files: Mapping[str, bytes], *, included: bool, sealed: bool) -> dict[str, Any]:
    return {"fingerprint": fingerprint(key), "files": sorted(files), "included": included and bool(files), "sealed": sealed}


def _derived(passphrase: str, salt: bytes) -> bytes:
    return base64.urlsafe_b64encode(Scrypt(salt=salt, length=32, n=_COST, r=8, p=1).derive(passphrase.encode()))
