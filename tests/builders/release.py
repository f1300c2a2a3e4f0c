"""The server as the platform's own user can run it: a copy that this user can read, and the user."""

from __future__ import annotations

import atexit
import pwd
import shutil
import sys
import tempfile
from functools import cache
from pathlib import Path

from tools import up


@cache
def server_copy() -> Path:
    """The server, copied once a run to where the platform's own user can read it."""
    folder = Path(tempfile.mkdtemp(prefix="berth-server-", dir="/tmp"))
    folder.chmod(0o755)
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    place = up.Place(folder, 0)
    place.python = Path(sys.executable)
    (folder / "release").mkdir()
    up.copy_release(place)
    return place.release


def service_user() -> pwd.struct_passwd:
    """The user that the platform runs as when root starts it; made if it is missing, as `make up` does."""
    up.ensure_service_user(up.Place(Path("/var/lib/berth"), 0))
    return pwd.getpwnam(up.SERVICE_USER)
