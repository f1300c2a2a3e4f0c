"""Rounds of simulations: seed after seed, what they reached, and what they broke."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from tests.histories.report import INVARIANTS, Report
from tests.simulation.fates import STORM, Dangers
from tests.simulation.world import World, simulated

_clock: Callable[[], float] = time.process_time  # What it costs, whoever else is at work on this machine.


@dataclass
class Outcome:
    """One seed, run to its end."""

    seed: int
    steps: int
    favourite: str
    report: Report
    lifecycles: int
    seconds: float
    history: list[str]
    reached: Counter[str] = field(default_factory=Counter)
    crashed: Counter[str] = field(default_factory=Counter)
    edges: Counter[tuple[str, str, str]] = field(default_factory=Counter)
    counts: Counter[str] = field(default_factory=Counter)
    errors: list[str] = field(default_factory=list)

    @property
    def holds(self) -> bool:
        return self.report.holds and not self.errors

    def text(self) -> str:
        done = ", ".join(f"{number} {what}" for what, number in sorted(self.counts.items()))
        lines = [
            f"seed {self.seed}, {self.steps} steps: {self.lifecycles} jobs ended, "
            f"{len(self.history)} records, {self.seconds:.1f} s of CPU",
            f"  done to it: {done}",
            self.report.text(),
        ]
        lines += [f"  unexpected error of {error}" for error in sorted(set(self.errors))[:20]]
        if not self.holds:
            favourite = f" --favourite {self.favourite}" if self.favourite else ""
            lines.append(f"  again with: python -m tests.simulation --seed {self.seed} --steps {self.steps}{favourite}")
        return "\n".join(lines)


def run_seed(
    seed: int,
    *,
    steps: int,
    storm: Dangers = STORM,
    favourite: str = "",
    prepare: Callable[[World], None] | None = None,
) -> Outcome:
    """Run one seed to its end and decide over it."""
    began = _clock()
    with simulated(seed, storm=storm, favourite=favourite) as world:
        if prepare is not None:
            prepare(world)
        world.run(steps)
        report = world.finish()
        outcome = Outcome(
            seed=seed,
            steps=steps,
            favourite=favourite,
            report=report,
            lifecycles=world.lifecycles,
            seconds=_clock() - began,
            history=[record.line() for record in world.records],
            reached=world.fates.reached,
            crashed=world.fates.crashed,
            counts=world.counts + world.calls.counts + world.broker.counts,
            errors=world.errors,
        )
    outcome.edges = Counter(
        (record["kind"], record["from"], record["to"])
        for record in world.records
        if (record.source, record.event) == ("database", "transition")
    )
    return outcome


def run_seeds(
    first: int, *, count: int, steps: int, favourite: str = "", lifecycles: int = 0, history: Path | None = None
) -> int:
    """Print what each seed did; 1 if one of them broke a promise. With `lifecycles` go on until so many jobs have ended."""
    began = _clock()
    broken: list[int] = []
    ended, seed = 0, first
    total: Counter[str] = Counter()
    reached: Counter[str] = Counter()
    while seed < first + count or ended < lifecycles:
        outcome = run_seed(seed, steps=steps, favourite=favourite)
        ended += outcome.lifecycles
        reached += outcome.reached
        for name in INVARIANTS:
            total[name] += len(outcome.report.of(name))
        if not outcome.holds:
            broken.append(seed)
        if not outcome.holds or count == 1:
            print(outcome.text(), flush=True)
        elif not lifecycles or seed % 50 == 0:
            print(f"seed {seed} holds: {outcome.lifecycles} jobs, {outcome.seconds:.1f} s; {ended} so far", flush=True)
        if history is not None:
            history.write_text("\n".join(outcome.history) + "\n")
        seed += 1
    seconds = _clock() - began
    print(
        f"{seed - first} seeds, {ended} jobs lived and died in {seconds:.1f} s ({ended / seconds:.1f} /s), {len(broken)} broken"
    )
    if broken:
        print(f"broken seeds: {broken}")
    return 1 if broken else 0
