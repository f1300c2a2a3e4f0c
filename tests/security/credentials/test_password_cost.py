"""What a guess at a stored password costs. All other tests hash at the least cost there is (`tests/conftest.py`)."""

from __future__ import annotations

import secrets
import subprocess
import sys
from pathlib import Path

import pytest
from django.contrib.auth.hashers import ScryptPasswordHasher, check_password, make_password

ROOT = Path(__file__).resolve().parents[3]
# A row of OWASP's Password Storage Cheat Sheet: 16 MiB, five times over.
WORK, BLOCKS, PARALLEL = 2**14, 8, 5
PASSWORD = "four words of alice"

HASH = f"""
import django
django.setup()
from django.contrib.auth.hashers import make_password
print(make_password({PASSWORD!r}))
"""


@pytest.fixture(scope="module")
def stored(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A password as a process of the product stores it: nothing of the tests is loaded there."""
    environment = {
        "PYTHONPATH": f"{ROOT}:{ROOT / 'platform'}",
        "DJANGO_SETTINGS_MODULE": "controlplane.settings",
        "BERTH_DATA_DIR": str(tmp_path_factory.mktemp("data")),
        "BERTH_SECRET_KEY": secrets.token_urlsafe(64),
    }
    done = subprocess.run([sys.executable, "-c", HASH], env=environment, cwd="/", capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def test_the_product_hashes_at_its_full_cost(stored: str) -> None:
    algorithm, work, _, blocks, parallel, _ = stored.split("$")

    assert (algorithm, int(work), int(blocks), int(parallel)) == ("scrypt", WORK, BLOCKS, PARALLEL)


def test_what_it_stored_lets_the_password_in_and_nothing_else(stored: str) -> None:
    assert check_password(PASSWORD, stored)
    assert not check_password(PASSWORD + " ", stored)


def test_tests_hash_by_the_same_algorithm_for_less() -> None:
    assert ScryptPasswordHasher.work_factor < WORK
    assert make_password(PASSWORD).startswith(f"scrypt${ScryptPasswordHasher.work_factor}$")
