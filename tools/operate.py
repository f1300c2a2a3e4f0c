"""`make backup` and `make restore`: a command of the server that is installed in this place. Standard library only."""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from tools.place import DEFAULT_PORT, Place  # noqa: E402 - the root comes first.
from tools.production import remembered_settings  # noqa: E402
from tools.progress import Stop, say_error  # noqa: E402
from tools.servers import own_servers, stop_servers  # noqa: E402


def main() -> int:
    parser = argparse.ArgumentParser(description="Run a command of the installed server.")
    parser.add_argument("words", nargs="+")
    options, more = parser.parse_known_args()
    try:
        return run(Place.find(DEFAULT_PORT), [*options.words, *more])
    except Stop as reason:
        say_error(str(reason))
        return 1
    except KeyboardInterrupt:
        return 130


def run(place: Place, words: list[str]) -> int:
    """Run the command with the interpreter, the copy of the server and the servers that the platform has; its exit code."""
    try:
        manage = place.release / "manage.py"
    except FileNotFoundError:
        raise Stop(f"nothing is installed below {place.data}. Run `make up`, or set BERTH_DATA_DIR.") from None
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("DJANGO_", "PYTHON"))}
    settings = {} if kept.keys() & {"BERTH_SERVER_PROFILE", "BERTH_DATABASE_URL"} else remembered_settings(place)
    environment = {**kept, **settings, "BERTH_DATA_DIR": str(place.data), "PYTHONDONTWRITEBYTECODE": "1"}
    was_stopped = bool(settings) and not any(server.process() for server in own_servers(place))
    for server in own_servers(place) if settings else []:
        server.start()  # After `make down` they do not run, and a restore needs them.
    try:
        command = [str(place.python), str(manage), *words]
        return subprocess.run(command, env=environment, check=False).returncode
    finally:
        if was_stopped:
            stop_servers(place)


if __name__ == "__main__":
    sys.exit(main())
