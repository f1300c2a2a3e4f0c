"""Shell commands run as the platform's own user: whether each of them works."""

from __future__ import annotations

import pwd
import subprocess
from collections.abc import Mapping

from tools.install import SERVICE_USER


def attempts(commands: Mapping[str, str]) -> dict[str, bool]:
    user = pwd.getpwnam(SERVICE_USER)
    return {
        name: subprocess.run(
            ["sh", "-c", command], user=user.pw_uid, group=user.pw_gid, extra_groups=[], capture_output=True, check=False
        ).returncode
        == 0
        for name, command in commands.items()
    }
