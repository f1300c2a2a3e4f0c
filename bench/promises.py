"""P9: booked starts, run-time prediction and expected starts, on logs of real machines.

*Backfill*: the jobs of a log in the standard workload format (SWF) with the times that their people asked for, one queue,
through the scheduler's own core on a simulated clock, against EASY backfill that counts processors and is written here from its
definition (Lifka 1995: the first that waits has a start by the ends that were asked for, others may pass where they do not
delay it). A promise is broken when its job starts later than it was first promised, though nobody stayed longer than asked.

*Prediction*: what `jobs/scheduling/questions/predict.py` says of each job when it is submitted, from those that had ended by
then, against how long it ran. The accuracy of one is the smaller of the two by the larger. A log without names of jobs has the
number of their processors for one, that of Philly the size of the gang, and there every tenant is one user.

*Expected starts*: the jobs of Philly as in P8, the time between their submissions stretched by `--philly-stretch`, once for
each of `--seeds`, which moves each submission by up to an hour (0: as it was), so that each seed is another order. Every
`--every` seconds up to `--most` of the waiting jobs are told when they will start (`jobs/scheduling/questions/lookahead.py`),
by p50 and p90, corrected by what has come of those before. When they do start is compared, by band of the wait that was told,
all seeds together. The error of a p50 is its distance by the wait that came. The p90 is told of all jobs that get a time, the
p50 where it can be known.

*Large*: the CPU time of a look ahead in the background in the state of P3, with run times that spread. Each ask has a typical
time of its own between five minutes and two days, and its runs vary around that (lognormal, sigma 1); what runs began at
different times, and 5,000 runs ended at different times before.
"""

from __future__ import annotations

import argparse
import heapq
import itertools
import lzma
import math
import random
import statistics
import time
import uuid
import zlib
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from bench import passes, tenancy
from bench.frame import Bench, BenchError
from bench.predicted import Predicted
from jobs.scheduling.core.core import Core, Policy
from jobs.scheduling.core.place.gangs import GangAsk, RoleAsk
from jobs.scheduling.core.place.machines import Machine, TaskAsk
from jobs.scheduling.core.place.scores import PoolRules
from jobs.scheduling.core.snapshot import Pool, State, build, export
from jobs.scheduling.core.state.work import Job
from jobs.scheduling.questions.explain import Settled
from jobs.scheduling.questions.lifetimes import Known, Lifetimes
from jobs.scheduling.questions.lookahead import Expected, effort_of, expected_starts
from jobs.scheduling.questions.predict import OBSERVED, Corrections, Prediction, Predictor, band_of, kinds_of
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
    parser.add_argument("--philly-stretch", type=float, default=1.0, help="Philly: multiply the time between jobs; default 1")
    parser.add_argument("--seeds", default="0,1,2,3", help="Philly: orders of submission; default %(default)s")
    parser.add_argument("--no-backfill", action="store_true", help="expected starts alone")
    parser.add_argument("--every", type=int, default=7200, help="Philly: seconds between two looks ahead; default 2 hours")
    parser.add_argument("--large", default="13500x1000", help="jobs x nodes of the large look ahead; default %(default)s")
    parser.add_argument("--most", type=int, default=100, help="Philly: jobs that are told each time; default 100")


def run(options: argparse.Namespace, bench: Bench) -> None:
    if options.traces is None:
        raise BenchError(WHERE)
    if not options.no_backfill:
        lines = [one for one in log_of(options.traces, options.swf) if 0 < one.processors <= options.processors]
        for text in options.stretches.split(","):
            _backfill(bench, lines, options.processors, float(text))
    _large(bench, *map(int, options.large.split("x")))
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


@dataclass(frozen=True)
class Telling:
    """What was expected for one job at one moment, in seconds of waiting from then on: as it was looked ahead, and as
    corrected."""

    at: int
    job_id: str
    reason: str = ""
    typical: int = 0
    cautious: int = 0
    soon: int = 0
    late: int | None = None  # None: no time was told.
    is_sure: bool = False  # Whether the look ahead was sure of `soon`.
    is_told: bool = False  # Whether `soon` was told too.


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
        self.told: list[Telling] = []
        self.seconds: list[float] = []

    def _passed(self, core: Core, now: int) -> None:
        waiting = [job.id for job in core.waiting() if job.id in core.ordering]
        if now < self.next_at or not waiting:
            return
        self.next_at = now + self.every
        step = max(1, len(waiting) // self.most)
        chosen = waiting[::step][: self.most]
        corrections = self._corrections(now)
        began = time.process_time()
        state = export(core, self.state)
        known = {job.id: self._known(job.id) for job in (*state.waiting, *(held.job for held in state.running))}
        found = _look(state, chosen, self.predictor, known)
        self.seconds.append(time.process_time() - began)
        for job_id, ahead in found.items():
            if ahead.p50 is None or ahead.p90 is None:
                self.told.append(Telling(now, job_id, ahead.reason))
                continue
            typical, cautious = ahead.p50 - now, ahead.p90 - now
            soon, late = corrections.correct(typical=typical, cautious=cautious)
            is_told = ahead.is_sure and corrections.is_near(soon)
            self.told.append(Telling(now, job_id, "", typical, cautious, soon, late, ahead.is_sure, is_told))
        self.bench.progress(f"day {now / 86_400:.1f}: {len(waiting)} wait, {len(self.told)} told")

    def _known(self, job_id: str) -> Known:
        queue, user, name, _ = self.known[job_id]
        return Known(kinds_of(user, name, queue, ""), self.outcome.stays[job_id].done)

    def _corrections(self, now: int) -> Corrections:
        """By what has come of what was told last."""
        corrections = Corrections()
        for one in [one for one in self.told if one.late is not None][-OBSERVED:]:
            started = self.outcome.stays[one.job_id].first_started_at
            if 0 <= started < one.at:
                continue  # It had run before, and was evicted.
            waited = (started if started >= 0 else now) - one.at
            corrections.add(
                typical=one.typical, cautious=one.cautious, kept_by=one.late or 0, waited=waited, has_started=started >= 0,
                sure=one.soon if one.is_sure else None,
            )  # fmt: skip
        return corrections


BAND_NAMES = ("10min", "1h", "6h", "above")
Came = tuple[Telling, int]  # And the wait that came.


def _expected(bench: Bench, options: argparse.Namespace) -> None:
    came: list[list[Came]] = []
    seconds: list[float] = []
    reasons: Counter[str] = Counter()
    for seed in map(int, options.seeds.split(",")):
        replay = _told(bench, options, seed)
        if not came:
            _accuracy(bench, "philly", replay.guesses, {})
        stays = replay.outcome.stays
        waits = [(one, stays[one.job_id].first_started_at - one.at) for one in replay.told]
        came.append([(one, waited) for one, waited in waits if waited >= 0])
        seconds += replay.seconds
        reasons.update(one.reason for one in replay.told if one.reason)
    if not any(came):
        raise BenchError("no job waited when the look ahead was asked; take more jobs or fewer nodes")
    for band, name in enumerate(BAND_NAMES):
        _band(bench, name, came, {band})
    _band(bench, "all", came, set(range(len(BAND_NAMES))))
    count = sum(map(len, came))
    told = sum(one.late is not None for seed in came for one, _ in seed)
    bench.figure("told-a-time", told / count * 100, "%", note=f"of {count}; {len(seconds)} looks ahead")
    bench.figure("look-ahead", statistics.median(seconds), "s", less_is_better=True, note=f"longest {max(seconds):.1f} s")
    bench.record("without", dict(reasons))


def _told(bench: Bench, options: argparse.Namespace, seed: int) -> Told:
    """The replay of one order of submission."""
    options.jobs, options.stretch, options.checkpoint = options.philly_jobs, options.philly_stretch, 1800
    nodes = tenancy.nodes_of(options)
    entries = tenancy.entries_of(options, nodes)
    if seed:
        entries = [replace(one, submitted_at=one.submitted_at + _moved(one.number, seed)) for one in entries]
    state, arrivals, tenants = tenancy.scene(entries, nodes, options.checkpoint, Policy())
    known: dict[str, tuple[str, str, str, int | None]] = {
        one.job.id: (tenants[one.job.queue], tenants[one.job.queue], str(one.job.gang.roles), None) for one in arrivals
    }
    replay = Told(build(state), arrivals, known, state, every=options.every, most=options.most, bench=bench)
    replay.run()
    return replay


def _band(bench: Bench, name: str, came: Sequence[Sequence[Came]], bands: set[int]) -> None:
    """The bands of the wait that was told, by its p90 and by its p50, over all seeds."""
    late = [[waited <= one.late for one, waited in seed if one.late is not None and band_of(one.late) in bands] for seed in came]
    likely = [(one, waited) for seed in came for one, waited in seed if one.late is not None and band_of(one.soon) in bands]
    if any(late):
        kept = sum(map(sum, late)) / sum(map(len, late))
        each = ", ".join(f"{sum(one) / len(one):.0%} of {len(one)}" for one in late if one)
        bench.figure(f"started-by-p90-{name}", kept * 100, "%", note=f"85 to 95 are meant; {each}")
    told = [(one.soon, waited) for one, waited in likely if one.is_told]
    if told:
        error = _middle([abs(waited - wait) / max(60, waited) for wait, waited in told])
        by_half = sum(waited <= wait for wait, waited in told) / len(told)
        note = f"of {len(told)} that were told one, {len(likely) - len(told)} were told a p90 alone; {by_half:.0%} started by it"
        accept = 35 if name != "above" and name != "all" else None
        bench.figure(f"p50-error-{name}", error * 100, "%", accept=accept, less_is_better=True, note=note)


def _look(state: State, job_ids: Sequence[str], predictor: Predictor, known: Mapping[str, Known]) -> dict[str, Expected]:
    """A look ahead with the effort of the background."""
    effort = effort_of(len(known))
    assert effort is not None
    return expected_starts(state, job_ids, Lifetimes(state, predictor, known).futures(effort.futures), effort)


def _moved(number: int, seed: int) -> int:
    """Seconds by which a job is submitted later, below an hour."""
    return zlib.crc32(f"{seed}/{number}".encode()) % 3600


def _middle(values: Sequence[float]) -> float:
    return sorted(values)[len(values) // 2] if values else 0


# --- Large ------------------------------------------------------------------------------------------------------------


ENDED, ASKED = 5_000, 2_000  # Runs before, and jobs that are told.


def _large(bench: Bench, jobs: int, nodes: int) -> None:
    """One look ahead in the background, of as many waiting jobs as it takes at once."""
    bench.progress(f"a look ahead of {jobs} jobs on {nodes} nodes")
    chance = random.Random(f"{jobs} {nodes}")
    state = Settled(passes.large_state(chance, jobs, nodes)).state
    everything = (*state.waiting, *(held.job for held in state.running))
    names: dict[GangAsk, str] = {}
    for job in everything:
        names.setdefault(job.gang, f"train-{len(names)}")
    typical = {name: math.exp(chance.uniform(math.log(300), math.log(2 * 86_400))) for name in names.values()}

    def runs(job: Job) -> int:
        return max(1, round(typical[names[job.gang]] * chance.lognormvariate(0, 1)))

    predictor = Predictor()
    for ago, job in zip(range(ENDED, 0, -1), chance.choices(everything, k=ENDED), strict=True):
        queue = str(job.queue)
        predictor.add(user=queue, name=names[job.gang], queue=queue, seconds=runs(job), ended_at=state.at - 100 * ago)
    held = tuple(replace(held, started_at=state.at - chance.randrange(runs(held.job))) for held in state.running)
    state = replace(state, running=held)
    known = {job.id: Known(kinds_of(str(job.queue), names[job.gang], str(job.queue), "")) for job in everything}
    asked = [job.id for job in chance.sample(state.waiting, min(ASKED, len(state.waiting)))]
    began = time.process_time()
    found = _look(state, asked, predictor, known)
    seconds = time.process_time() - began
    told = [one.p90 for one in found.values() if one.p90 is not None]
    reasons = dict(Counter(one.reason for one in found.values() if one.p90 is None))
    note = f"{len(state.waiting)} wait, {len(state.running)} run; {len(told)} of {len(asked)} told a time, the others: {reasons}"
    bench.figure(f"look-ahead-{jobs}x{nodes}", seconds, "s", accept=30, less_is_better=True, note=note)
