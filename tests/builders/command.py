"""The command line beside a running platform, as a person runs it."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from tests.builders.live import LiveUser


def berth(user: LiveUser, *words: str, given: str = "", **environment: str) -> str:
    """What `berth ...` prints for a user; fails where it fails."""
    settings = {
        "BERTH_SERVER": user.platform.url,
        "BERTH_TOKEN": user.token,
        "BERTH_TENANT": user.tenant,
        "HOME": "/nonexistent",
        "PATH": os.environ["PATH"],
        "PYTHONPATH": str(Path(__file__).resolve().parents[2] / "client" / "src"),
        **environment,
    }
    done = subprocess.run(
        [sys.executable, "-m", "berth", *words],
        input=given,
        env=settings,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr + done.stdout
    return done.stdout
