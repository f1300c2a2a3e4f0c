"""The installation's secret key: generated once, never a default (security T22)."""

from __future__ import annotations

import os
import secrets
from pathlib import Path

from kernel.config import BadSetting

# A directory with one of these has been started on: what is stored there was stored under a key that must come back.
TRACES = ("berth.sqlite3", "platform.lock")
KEY_BYTES_MIN = 32
CHARACTERS_MIN = 10  # A key of fewer different ones was typed, not drawn.
SAMPLE_WORDS = ("insecure", "changeme", "changethis", "secretkey", "yoursecret", "example", "placeholder")


def read_secret_key(data_dir: Path, *, may_generate: bool) -> str:
    """The key from `BERTH_SECRET_KEY` or the data directory's `secret.key`; refuses a missing, short or sample one.

    With `may_generate` a data directory that holds no database yet gets a new key. One that does must have its own: with
    another key its secrets could never be read again.
    """
    key = os.environ.get("BERTH_SECRET_KEY", "")
    if not key:
        path = data_dir / "secret.key"
        if not data_dir.is_dir():
            raise BadSetting(f"BERTH_DATA_DIR={data_dir} is no directory. Make it, or choose another one.")
        if may_generate and not any((data_dir / trace).exists() for trace in TRACES):
            generate_secret_key(data_dir)
        try:
            key = path.read_text().strip()
        except OSError as error:
            raise BadSetting(
                f"{path} cannot be read: {error.strerror}. Restore it from a backup, or set BERTH_SECRET_KEY."
            ) from None
    if len(key.encode()) < KEY_BYTES_MIN or _is_sample(key):
        raise BadSetting(
            "The secret key is shorter than 256 bits or a sample. A good one: "
            "python3 -c 'import secrets; print(secrets.token_urlsafe(64))'"
        )
    return key


def read_previous_keys(data_dir: Path) -> list[str]:
    """Keys that still open what was stored under them, newest first: `BERTH_SECRET_KEY_PREVIOUS` (separated by spaces), or the
    lines of the data directory's `secret.key.previous`. Run `manage.py rotate_secrets`, then remove them.
    """
    text = os.environ.get("BERTH_SECRET_KEY_PREVIOUS", "")
    if not text:
        path = data_dir / "secret.key.previous"
        try:
            text = path.read_text()
        except FileNotFoundError:
            return []
        except OSError as error:
            raise BadSetting(f"{path} cannot be read: {error.strerror}. What was stored under its keys would be lost.") from None
    return text.split()


def generate_secret_key(data_dir: Path) -> bool:
    """Write a new key with mode 0600 unless there is one; True if it was written."""
    path = data_dir / "secret.key"
    try:
        descriptor = os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600)
    except FileExistsError:
        return False
    except OSError as error:
        raise BadSetting(f"{path} cannot be written: {error.strerror}. Set BERTH_DATA_DIR to a directory of yours.") from None
    with os.fdopen(descriptor, "w") as file:
        file.write(secrets.token_urlsafe(64) + "\n")
    return True


def _is_sample(key: str) -> bool:
    letters = "".join(character for character in key.lower() if character.isalnum())
    return len(set(key)) < CHARACTERS_MIN or any(word in letters for word in SAMPLE_WORDS)
