"""What an operator types on the server of a live platform: `manage.py ...` with the platform's own settings."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from tests.builders.live import LivePlatform
from tests.builders.release import server_copy

SECONDS = 240.0


def settings_of(platform: LivePlatform, **settings: str) -> dict[str, str]:
    """The environment in which the platform's commands run."""
    return {
        "PATH": os.environ.get("PATH", os.defpath),
        "HOME": str(platform.data_dir),
        "LANG": "C.UTF-8",
        "PYTHONDONTWRITEBYTECODE": "1",
        **platform.settings,
        **platform.environment,
        "BERTH_DATA_DIR": str(platform.data_dir),
        "BERTH_PORT": str(platform.port),
        **settings,
    }


def manage(
    platform: LivePlatform, *words: object, refused: bool = False, release: Path | None = None, **settings: str
) -> subprocess.CompletedProcess[str]:
    """One command. It must succeed, or with `refused` fail in words."""
    done = subprocess.run(
        [sys.executable, str((release or server_copy()) / "manage.py"), *map(str, words)],
        env=settings_of(platform, **settings), cwd="/", capture_output=True, text=True, timeout=SECONDS, check=False,
    )  # fmt: skip
    assert (done.returncode != 0) == refused, f"{words}: {done.returncode}\n{done.stdout}\n{done.stderr}"
    assert "Traceback" not in done.stderr, done.stderr
    return done
