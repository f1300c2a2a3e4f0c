"""Break a platform of its own for a while, under load, and decide whether it kept its promises.

    make chaos MINUTES=5 SEED=7
    python -m tests.chaos --minutes 5 --seed 7

Starts PostgreSQL, Redis and the platform in a temporary folder; eight clients of three tenants submit, stop, hold and repeat jobs
through the API, some of a priority that makes way for others, and a ninth stops jobs in each state of their life in turn. After a
calm beginning processes are killed and frozen, also at their crash points, the node is drained, Redis is killed, emptied and
frozen, and the database stopped, frozen and cut off. Then everything is healed, and the history - what the clients were told,
what the payloads wrote into files that the platform never touches, what the database and the engine say - is checked against
the invariants of docs/reliability.md. The report says for how long nobody was served after each kind of fault, and when it
took a restart from outside. Touches no installation that runs.

Ends with 0 if everything held, 1 if a promise was broken, 2 if the round could not be carried out.
"""

from __future__ import annotations

import argparse
import random
import shutil
import signal
import sys
import time
from pathlib import Path

from tests.chaos import report
from tests.chaos.faults import WEIGHTS
from tests.chaos.rounds import Options, Round


def main(arguments: list[str] | None = None) -> int:
    options = _options(arguments)
    for number in (signal.SIGTERM, signal.SIGINT):  # Leave nothing behind, also where a shell had us ignore the second one.
        signal.signal(number, signal.default_int_handler)
    options.folder.mkdir(parents=True, exist_ok=True)
    for name in ("history.jsonl", "report.json", "report.txt", "timeline.svg"):
        (options.folder / name).unlink(missing_ok=True)
    print(
        f"Seed {options.seed}, {options.seconds:.0f} s of load, profile {options.profile}; results in {options.folder}",
        flush=True,
    )
    try:
        outcome = Round(options, say).run()
    except KeyboardInterrupt:
        print("\nInterrupted.", file=sys.stderr)
        return 2
    (options.folder / "report.json").write_text(report.as_json(outcome))
    (options.folder / "report.txt").write_text(report.text(outcome))
    (options.folder / "timeline.svg").write_text(report.picture(outcome))
    say("")
    print(report.text(outcome))
    print(f"Report, history and timeline: {options.folder}")
    return 0 if outcome.holds else 1


def _options(arguments: list[str] | None) -> Options:
    assert __doc__ is not None
    summary, _, rest = __doc__.partition("\n")
    parser = argparse.ArgumentParser(
        prog="python -m tests.chaos", description=summary, epilog=rest, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--minutes", type=float, default=1.0, help="how long the load and the faults last (default 1)")
    parser.add_argument("--seed", type=int, default=None, help="of everything that is drawn by chance (default: a new one)")
    parser.add_argument("--profile", choices=["production", "embedded"], default="production", help="what is broken")
    parser.add_argument("--lease", type=float, default=None, help="lease in seconds (default: the product's; 2 in short rounds)")
    parser.add_argument("--every", type=float, default=5.0, help="seconds between faults in the mean (default 5)")
    parser.add_argument("--rate", type=float, default=1.0, help="actions of each client a second (default 1)")
    parser.add_argument("--folder", type=Path, default=None, help="where the results go (default: a new folder below /tmp)")
    parser.add_argument("--faults", action="store_true", help="list the kinds of faults and leave")
    given = parser.parse_args(arguments)
    if given.faults:
        print("\n".join(WEIGHTS))
        sys.exit(0)
    if not 0 < given.minutes <= 24 * 60:
        parser.error("--minutes must be more than 0 and at most a day")
    seed = random.SystemRandom().randrange(10**6) if given.seed is None else given.seed
    return Options(
        seed=seed,
        seconds=given.minutes * 60,
        folder=given.folder or Path("/tmp") / f"berth-chaos-{time.strftime('%Y%m%d-%H%M%S')}-{seed}",
        profile=given.profile,
        lease_seconds=given.lease or (None if given.minutes >= 4 else 2.0),
        fault_seconds=given.every,
        rate=given.rate,
    )


def say(line: str) -> None:
    """One line of progress, written over the one before on a terminal and now and then elsewhere."""
    global _said_at
    if sys.stderr.isatty():
        width = shutil.get_terminal_size().columns - 1
        print(f"\r{line[:width]:<{width}}", end="" if line else "\r", file=sys.stderr, flush=True)
    elif line and (time.monotonic() - _said_at >= 10 or line.endswith("...")):
        _said_at = time.monotonic()
        print(line, file=sys.stderr, flush=True)


_said_at = 0.0

if __name__ == "__main__":
    sys.exit(main())
