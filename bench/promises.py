"""P9: booked starts, run-time prediction and expected starts, on logs of real machines.

*Backfill*: the jobs of a log in the standard workload format (SWF) with the times that their people asked for, one queue, through
the scheduler's own core on a simulated clock, against EASY backfill that counts processors and is written here from its
definition (Lifka 1995: the first that waits has a start by the ends that were asked for, others may pass where they do not delay
it). A promise is broken when its job starts later than it was first promised, though nobody stayed longer than asked.

*Prediction*: what `jobs/scheduling/questions/predict.py` says of each job when it is submitted, from those that had ended by
then, against how long it ran. The accuracy of one is the smaller of the two by the larger. A log without names of jobs has the
number of their processors for one, that of Philly the size of the gang, and there every tenant is one user.

*Expected starts*: the jobs of Philly as in P8. Now and then everybody who waits, up to `--most` of them, is told when it will
start (`jobs/scheduling/questions/lookahead.py`), as likely as not and by nine in ten, and when it does is compared.
"""

from __future__ import annotations

import argparse
import heapq
import itertools
import lzma
import statistics
import time
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from bench import tenancy
from bench.frame import Bench, BenchError
from bench.predicted import Predicted
from jobs.scheduling.core.core import Core, Policy
from jobs.scheduling.core.place.gangs import GangAsk, RoleAsk
from jobs.scheduling.core.place.machines import Machine, TaskAsk
from jobs.scheduling.core.place.scores import PoolRules
from jobs.scheduling.core.snapshot import Pool, State, build, export
from jobs.scheduling.core.state.work import Job
from jobs.scheduling.questions.lookahead import Expected, expected_starts
from jobs.scheduling.questions.predict import Corrections, Prediction
from jobs.scheduling.replay.run import Arrival
from kernel.resources import Resources
from tenants.quota.limits import Capacity, LimitedQueue

WHERE = (
    "P9 needs the folder with a log in SWF that has asked times (--swf; of the Parallel Workloads Archive) and, for expected"
    " starts, which are left out without them, the files of P8: --traces DIR."
)
PHILLY = ("philly_jobs.csv", "philly_vc_nodes.csv")
POOL = uuid.UUID(int=1)
NODE_CORES = 2


@dataclass(frozen=True)
class Line:
    """One job of a log."""

    number: int
    submitted_at: int
    runs: int
    processors: int
    asked: int
    user: str
    name: str


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--traces", type=Path, help="folder of the logs")
    parser.add_argument("--swf", default="hpc2n_first3k.swf", help="log with asked times; default %(default)s")
    parser.add_argument("--processors", type=int, default=240, help="of the machine of that log; default 240")
    parser.add_argument("--stretches", default="1.0,0.8,0.65", help="multiply the time between submissions; default %(default)s")
    parser.add_argument("--nodes-share", type=float, default=0.25, help="Philly: part of each tenant's nodes; default 0.25")
    parser.add_argument("--philly-jobs", type=int, default=20_000, help="Philly: the first so many jobs; default 20000")
    parser.add_argument("--every", type=int, default=6 * 3600, help="Philly: seconds between two looks ahead; default 6 hours")
    parser.add_argument("--most", type=int, default=100, help="Philly: jobs that are told each time; default 100")


def run(options: argparse.Namespace, bench: Bench) -> None:
    if options.traces is None:
        raise BenchError(WHERE)
    lines = [one for one in log_of(options.traces, options.swf) if 0 < one.processors <= options.processors]
    for text in options.stretches.split(","):
        _backfill(bench, lines, options.processors, float(text))
    missing = [name for name in PHILLY if not any((options.traces / f"{name}{ending}").exists() for ending in ("", ".xz"))]
    if missing:
        bench.say(f"Expected starts are left out: {options.traces} has no {' and no '.join(missing)}.")
        return
    _expected(bench, options)


# --- Backfill ---------------------------------------------------------------------------------------------------------


def _backfill(bench: Bench, lines: Sequence[Line], processors: int, stretch: float) -> None:
    bench.progress(f"backfill, stretch {stretch}")
    told = [Line(one.number, int(one.submitted_at * stretch), *_rest(one)) for one in lines]
    reference = _easy(told, processors)
    core = build(a_state(processors))
    gangs: dict[int, GangAsk] = {}
    arrivals = [
        Arrival(
            Job(f"{one.number:07}", 1, gangs.setdefault(one.processors, cores(one.processors)), (0,), one.submitted_at,
                max_runtime=one.asked),
            one.runs,
        )
        for one in told
    ]  # fmt: skip
    known = {f"{one.number:07}": one for one in told}
    began = time.process_time()
    replay = Predicted(core, arrivals, {name: ("all", one.user, one.name, one.asked) for name, one in known.items()})
    found = replay.run()
    seconds = time.process_time() - began
    waits = [stay.wait for stay in found.stays.values()]
    ours, theirs = statistics.fmean(waits), statistics.fmean(reference.values())
    name = f"-{stretch:g}"
    bench.figure(
        f"mean-wait{name}", ours, "s", accept=theirs * 1.1, aim=theirs * 0.7, less_is_better=True, peers={"EASY": theirs},
        note=f"{len(waits)} jobs, {seconds / max(1, found.passes) * 1000:.2f} ms a pass",
    )  # fmt: skip
    early = sorted(promised - actual for promised, actual in found.promises)
    note = f"of {len(found.promises)}; {dict(found.given_way)} gave way; the middle one started {_middle(early)} s before"
    bench.figure(f"broken-promises{name}", found.broken, "", accept=0, less_is_better=True, note=note)
    if stretch == 1.0:
        asked = [min(one.runs, one.asked) / max(one.runs, one.asked, 1) for one in told if one.runs]
        _accuracy(bench, "log", replay.guesses, {"as-asked": statistics.fmean(asked)})


def _easy(lines: Sequence[Line], processors: int) -> dict[int, int]:
    """Wait by job under EASY backfill on a count of processors."""
    waits: dict[int, int] = {}
    arrivals = sorted(lines, key=lambda one: (one.submitted_at, one.number))
    queue: list[Line] = []
    running: list[tuple[int, int, int, int]] = []  # (ends, number, processors, ends as asked)
    free, position = processors, 0
    while position < len(arrivals) or queue:
        moments = [running[0][0]] if running else []
        if position < len(arrivals):
            moments.append(arrivals[position].submitted_at)
        now = min(moments)
        while running and running[0][0] <= now:
            free += heapq.heappop(running)[2]
        while position < len(arrivals) and arrivals[position].submitted_at <= now:
            queue.append(arrivals[position])
            position += 1
        started: set[int] = set()
        shadow, spare = 0, 0
        for one in queue:
            if not shadow and one.processors > free:
                shadow, spare = _shadow(running, free, one.processors)
                continue
            is_short = now + one.asked <= shadow
            if one.processors <= free and (not shadow or is_short or one.processors <= spare):
                free -= one.processors
                spare -= 0 if is_short or not shadow else one.processors
                heapq.heappush(running, (now + one.runs, one.number, one.processors, now + one.asked))
                waits[one.number] = now - one.submitted_at
                started.add(one.number)
        queue = [one for one in queue if one.number not in started]
    return waits


def _shadow(running: Sequence[tuple[int, int, int, int]], free: int, need: int) -> tuple[int, int]:
    """When the first that waits can start by the times asked, and how many processors are left over then: of all that end in
    that second."""
    by_end = sorted(running, key=lambda one: one[3])
    for end, together in itertools.groupby(by_end, key=lambda one: one[3]):
        free += sum(count for _, _, count, _ in together)
        if free >= need:
            return end, free - need
    raise AssertionError("it never fits")


def a_state(processors: int) -> State:
    machines = tuple(
        Machine(f"node{number:04}", 0, min(NODE_CORES, processors - number) * 1000, 1 << 30)
        for number in range(0, processors, NODE_CORES)
    )
    return State(
        at=0,
        pools=(Pool(POOL, "pool", PoolRules(policy="pack", runners_up=0)),),
        machines=machines,
        queues=(LimitedQueue(uuid.UUID(int=2), None, "root"), LimitedQueue(uuid.UUID(int=3), uuid.UUID(int=2), "all")),
        capacities=(Capacity(POOL, "pool", Resources(processors * 1000, processors << 30, 0)),),
        policy=Policy(overrun_seconds=0, rebook_seconds=0, patience_seconds=0, reclaims=False, preempts=False),
    )


def cores(count: int) -> GangAsk:
    return GangAsk((RoleAsk("worker", TaskAsk(1000, 0), count, count),))


def log_of(folder: Path, name: str) -> list[Line]:
    plain, packed = folder / name, folder / f"{name}.xz"
    if plain.exists():
        text = plain.read_text()
    elif packed.exists():
        with lzma.open(packed, "rt") as file:
            text = file.read()
    else:
        raise BenchError(f"{folder} has neither {plain.name} nor {packed.name}. {WHERE}")
    found = []
    for row in text.splitlines():
        words = row.split()
        if not words or row.startswith(";"):
            continue
        number, submitted, runs, used, asked_for, asked = (int(float(words[at])) for at in (0, 1, 3, 4, 7, 8))
        if runs >= 0 and asked > 0:
            count = max(used, asked_for)
            name = words[13] if int(words[13]) >= 0 else f"of {count}"
            found.append(Line(number, submitted, min(runs, asked), count, asked, words[11], name))
    return found


def _rest(one: Line) -> tuple[int, int, int, str, str]:
    return (one.runs, one.processors, one.asked, one.user, one.name)


# --- Prediction -------------------------------------------------------------------------------------------------------


def _accuracy(bench: Bench, name: str, guesses: Sequence[tuple[Prediction, int]], peers: Mapping[str, float]) -> None:
    each = [min(guess.typical, ran) / max(guess.typical, ran, 1) for guess, ran in guesses if ran]
    within = sum(ran <= guess.cautious for guess, ran in guesses) / max(1, len(guesses))
    off = [abs(guess.typical - ran) for guess, ran in guesses]
    note = f"of {len(guesses)} jobs; the middle one is {_middle(off)} s off"
    bench.figure(
        f"prediction-accuracy-{name}",
        statistics.fmean(each) * 100,
        "%",
        peers={key: v * 100 for key, v in peers.items()},
        note=note,
    )
    bench.figure(f"prediction-within-cautious-{name}", within * 100, "%", note="nine in ten are meant")


# --- Expected starts --------------------------------------------------------------------------------------------------


class Told(Predicted):
    """A replay in which those who wait are told now and then when they will start."""

    def __init__(
        self,
        core: Core,
        arrivals: Sequence[Arrival],
        known: Mapping[str, tuple[str, str, str, int | None]],
        state: State,
        *,
        every: int,
        most: int,
        bench: Bench,
    ) -> None:
        super().__init__(core, arrivals, known)
        self.state = state
        self.every = every
        self.most = most
        self.bench = bench
        self.next_at = every
        self.told: list[tuple[int, str, Expected, tuple[int, int] | None]] = []
        self.corrections = Corrections()
        self._open: list[tuple[int, str, Expected]] = []
        self._late: set[str] = set()
        self.seconds: list[float] = []

    def _passed(self, core: Core, now: int) -> None:
        waiting = [job.id for job in core.waiting() if job.id in core.ordering]
        if now < self.next_at or not waiting:
            return
        self.next_at = now + self.every
        step = max(1, len(waiting) // self.most)
        chosen = waiting[::step][: self.most]
        self._compare(now)
        predictions = dict(self.predictions)
        for one in core.running.values():
            queue, user, name, asked = self.known[one.job.id]
            ran = max(0, now - one.started_at)
            guess = self.predictor.predict(user=user, name=name, queue=queue, longest=asked, ran=ran)
            if guess is not None:
                predictions[one.job.id] = guess
        began = time.perf_counter()
        found = expected_starts(export(core, self.state), chosen, predictions)
        self.seconds.append(time.perf_counter() - began)
        for job_id, expected in found.items():
            corrected = None
            if expected.p50 is not None and expected.p90 is not None:
                soon, late = self.corrections.correct(typical=expected.p50 - now, cautious=expected.p90 - now)
                corrected = (now + soon, now + late)
                self._open.append((now, job_id, expected))
            self.told.append((now, job_id, expected, corrected))
        self.bench.progress(f"day {now / 86_400:.1f}: {len(waiting)} wait, {len(self.told)} told")

    def _compare(self, now: int) -> None:
        """What has come of what was told."""
        waiting = []
        for at, job_id, expected in self._open:
            started = self.outcome.stays[job_id].first_started_at
            late = (expected.p90 or at) - at
            if started < at:
                if job_id not in self._late and now - at > 2 * late:  # It will have waited for at least so long.
                    self._late.add(job_id)
                    self.corrections.add(typical=(expected.p50 or at) - at, cautious=late, actual=now - at)
                waiting.append((at, job_id, expected))
            else:
                self.corrections.add(typical=(expected.p50 or at) - at, cautious=(expected.p90 or at) - at, actual=started - at)
        self._open = waiting


def _expected(bench: Bench, options: argparse.Namespace) -> None:
    options.jobs, options.stretch, options.checkpoint = options.philly_jobs, 1.0, 1800
    nodes = tenancy.nodes_of(options)
    entries = tenancy.entries_of(options, nodes)
    state, arrivals, tenants = tenancy.scene(entries, nodes, options.checkpoint, Policy())
    known: dict[str, tuple[str, str, str, int | None]] = {
        one.job.id: (tenants[one.job.queue], tenants[one.job.queue], str(one.job.gang.roles), None) for one in arrivals
    }
    replay = Told(build(state), arrivals, known, state, every=options.every, most=options.most, bench=bench)
    outcome = replay.run()
    _accuracy(bench, "philly", replay.guesses, {})
    told = [
        (at, one, corrected, outcome.stays[name].first_started_at)
        for at, name, one, corrected in replay.told
        if corrected is not None and outcome.stays[name].first_started_at >= at
    ]
    if not told:
        raise BenchError("nobody waited when it was asked; take more jobs or fewer nodes")
    note = f"of {len(told)} promises; {len(replay.told) - len(told)} had none; {len(replay.seconds)} looks ahead"
    for kind in ("", "-corrected"):
        both = [(at, *(corrected if kind else (one.p50 or at, one.p90 or at)), started) for at, one, corrected, started in told]
        by_half = sum(started <= half for _, half, _, started in both) / len(both)
        by_nine = sum(started <= most for _, _, most, started in both) / len(both)
        errors = [abs(started - half) / max(60, started - at) for at, half, _, started in both]
        bench.figure(f"started-by-p50{kind}", by_half * 100, "%", note=note)
        bench.figure(f"started-by-p90{kind}", by_nine * 100, "%", note="nine in ten are meant")
        error = _middle(errors) * 100
        bench.figure(f"promise-error{kind}", error, "%", aim=10, less_is_better=True, note="middle one, of the wait")
    longest = f"longest {max(replay.seconds):.1f} s"
    bench.figure("look-ahead", statistics.median(replay.seconds), "s", less_is_better=True, note=longest)
    reasons: dict[str, int] = {}
    for _, _, one, _ in replay.told:
        if one.reason:
            reasons[one.reason] = reasons.get(one.reason, 0) + 1
    bench.record("without", reasons)


def _middle(values: Sequence[float]) -> float:
    return sorted(values)[len(values) // 2] if values else 0
