"""The server as the platform's own user can run it: a copy that this user can read, with settings of the tests, and the user."""

from __future__ import annotations

import pwd
import shutil
import sys
from functools import cache
from pathlib import Path

from tests.builders.prepared import made_once
from tools import up

PRODUCT_SETTINGS = "controlplane.settings"
QUICK_SETTINGS = "platform_settings"  # The product's, but for what a password costs.


@cache
def server_copy() -> Path:
    """The server, copied once a run to where the platform's own user can read it."""
    with made_once("server") as folder:
        place = up.Place(folder, 0)
        place.python = Path(sys.executable)
        (folder / "release").mkdir(exist_ok=True)
        up.copy_release(place)
        settings = place.release / f"{QUICK_SETTINGS}.py"
        if not settings.exists():  # Each worker comes by here, and platforms of others may be reading it: whole, or not there.
            part = settings.with_suffix(".part")
            shutil.copyfile(Path(__file__).with_name(settings.name), part)
            part.chmod(0o644)
            part.rename(settings)
    return place.release


def service_user() -> pwd.struct_passwd:
    """The user that the platform runs as when root starts it; made if it is missing, as `make up` does."""
    up.ensure_service_user(up.Place(Path("/var/lib/berth"), 0))
    return pwd.getpwnam(up.SERVICE_USER)
