"""`make backup` and `make restore`: a command of the server that is installed in this place. Standard library only."""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from tools.place import DEFAULT_PORT, Place  # noqa: E402 - the root comes first.
from tools.progress import Stop, say_error  # noqa: E402


def main() -> int:
    parser = argparse.ArgumentParser(description="Run a command of the installed server.")
    parser.add_argument("words", nargs="+")
    options, more = parser.parse_known_args()
    try:
        run(Place.find(DEFAULT_PORT), [*options.words, *more])
    except Stop as reason:
        say_error(str(reason))
        return 1
    return 0


def run(place: Place, words: list[str]) -> None:
    """Become the command, with the interpreter and the copy of the server that the platform has."""
    try:
        manage = place.release / "manage.py"
    except FileNotFoundError:
        raise Stop(f"nothing is installed below {place.data}. Run `make up`, or set BERTH_DATA_DIR.") from None
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("DJANGO_", "PYTHON"))}
    environment = {**kept, "BERTH_DATA_DIR": str(place.data), "PYTHONDONTWRITEBYTECODE": "1"}
    os.execve(place.python, [str(place.python), str(manage), *words], environment)


if __name__ == "__main__":
    sys.exit(main())
