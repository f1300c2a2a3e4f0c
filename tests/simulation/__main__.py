"""Replay one seed, or go through many:  python -m tests.simulation --seed N [--steps M] [--seeds COUNT] [--favourite POINT]

Prints what was done to the installation, how many jobs lived and died in it, what the checker looked at, and every promise that
was broken. The same seed and number of steps give the same history, byte for byte.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.simulation", description="Simulate an installation from a seed.")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--seeds", type=int, default=1, help="how many seeds, from --seed on")
    parser.add_argument("--steps", type=int, default=60)
    parser.add_argument("--favourite", default="", help="the crash point at which processes die most often")
    parser.add_argument("--lifecycles", type=int, default=0, help="go on with further seeds until so many jobs have ended")
    parser.add_argument("--history", type=Path, help="write the history of the last seed to this file")
    parser.add_argument("--scene", help="play one of tests/simulation/scenes.py instead of a seed")
    options = parser.parse_args()
    set_up()
    if options.scene:
        from tests.simulation.scenes import play

        found = play(options.scene)
        print("\n".join(found[:20]) or "nothing is wrong")
        return 1 if found else 0
    from tests.simulation.rounds import run_seeds

    return run_seeds(
        options.seed,
        count=options.seeds,
        steps=options.steps,
        favourite=options.favourite,
        lifecycles=options.lifecycles,
        history=options.history,
    )


def set_up() -> None:
    """Django with settings of no importance: everything that a simulation touches is its own."""
    sys.path[:0] = [str(ROOT), str(ROOT / "platform"), str(ROOT / "client" / "src")]
    os.environ["DJANGO_SETTINGS_MODULE"] = "controlplane.settings"
    os.environ["BERTH_DATA_DIR"] = tempfile.gettempdir()
    os.environ["BERTH_SECRET_KEY"] = "the simulation has no secrets to keep, only seeds"
    os.environ["BERTH_ALLOWED_HOSTS"] = "testserver"  # As Django's test client calls the server; pytest allows it by itself.
    for name in ("BERTH_DATABASE_URL", "BERTH_REDIS_URL", "BERTH_CRASH_AT"):
        os.environ.pop(name, None)
    import django

    django.setup()


if __name__ == "__main__":
    sys.exit(main())
