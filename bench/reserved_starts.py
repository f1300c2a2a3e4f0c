"""P9: reserved starts, run-time prediction and expected starts, on logs of real machines.

*Backfill*: the jobs of a log in the standard workload format (SWF) with the times that their people asked for, one queue,
through the scheduler's own core on a simulated clock, against EASY backfill that counts processors and is written here from its
definition (Lifka 1995: the first that waits has a start by the ends that were asked for, others may pass where they do not
delay it). A reservation is broken when its job starts later than it was first reserved, though no job ran longer than asked.
Memory that a log names (field 10, of each processor) counts where the nodes' memory is given (`--node-memory`), and kinds of
nodes (field 16, partitions) where the processors of each are (`--partitions`): each is a pool of its own, and EASY goes through
each alone. EASY counts no memory.

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
from jobs.scheduling.core.state.work import JobAsk
from jobs.scheduling.questions.explain import Settled
from jobs.scheduling.questions.lifetimes import KnownJob, Lifetimes
from jobs.scheduling.questions.lookahead import StartForecast, effort_of, expected_starts
from jobs.scheduling.questions.predict import OBSERVED, Corrections, Prediction, Predictor, band_of, kinds_of
from jobs.scheduling.replay.run import Arrival
from kernel.resources import Resources
from tenants.capacity.quota.limits import Capacity, LimitedQueue

WHERE = (
    "P9 needs the folder with a log in SWF that has asked times (--swf; of the Parallel Workloads Archive) and, for expected"
    " starts, which are left out without them, the files of P8: --traces DIR."
)
PHILLY = ("philly_jobs.csv", "philly_vc_nodes.csv")
POOL = uuid.UUID(int=1)
NODE_CORES = 2
ACCEPT, AIM = 0.85, 0.78  # Of the mean wait under EASY, with the order that is predicted.
P90_MIN, P90_MAX = 85, 95  # Percent that start by their p90, in every band of the wait that was told.


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
    memory_bytes: int = 0  # Of each processor; 0: the log does not say.
    partition: int = 0


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--traces", type=Path, help="folder of the logs")
    parser.add_argument("--swf", default="hpc2n_first3k.swf", help="log with asked times; default %(default)s")
    parser.add_argument("--processors", type=int, default=240, help="of the machine of that log; default 240")
    parser.add_argument(
        "--partitions",
        default="",
        help="processors of each kind of nodes, by its number in the log: 1=200,2=40; default one",
    )
    parser.add_argument("--node-memory", type=float, default=0, help="GiB of each node; default 0: memory is not counted")
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
        machine = machine_of(options)
        told = log_of(options.traces, options.swf)
        lines = [fitting for line in told if (fitting := machine.fitting(line)) is not None]
        counted = sum(line.memory_bytes > 0 for line in lines)
        kinds = ", ".join(map(str, sorted({line.partition for line in told})))
        bench.say(f"{len(lines)} of {len(told)} jobs fit; the memory of {counted} counts; partitions of the log: {kinds}")
        for text in options.stretches.split(","):
            _backfill(bench, lines, machine, float(text))
    _large(bench, *map(int, options.large.split("x")))
    missing = [name for name in PHILLY if not any((options.traces / f"{name}{ending}").exists() for ending in ("", ".xz"))]
    if missing:
        bench.say(f"Expected starts are left out: {options.traces} has no {' and no '.join(missing)}.")
        return
    _expected(bench, options)


@dataclass(frozen=True)
class LogMachine:
    """The nodes of the machine of a log: processors by kind of node, which is a pool each, and the memory of a node."""

    processors: Mapping[int, int]
    node_memory_bytes: int = 0

    def kind(self, line: Line) -> int:
        """The kind of node that a job goes to; where there is one kind, all jobs go there."""
        return line.partition if len(self.processors) > 1 else next(iter(self.processors))

    def fitting(self, line: Line) -> Line | None:
        """A job as it is asked for here; None where the empty nodes of its kind could not hold it."""
        memory = line.memory_bytes if self.node_memory_bytes else 0
        if not 0 < line.processors <= self._most(self.kind(line), memory):
            return None
        return replace(line, memory_bytes=memory)

    def _most(self, kind: int, memory: int) -> int:
        """How many tasks of a processor and this memory the empty nodes take."""
        processors = self.processors.get(kind, 0)
        if not memory:
            return processors
        each = min(NODE_CORES, self.node_memory_bytes // memory)
        whole, rest = divmod(processors, NODE_CORES)
        return whole * each + min(rest, each)


def machine_of(options: argparse.Namespace) -> LogMachine:
    memory = int(options.node_memory * (1 << 30))
    if not options.partitions:
        return LogMachine({0: options.processors}, memory)
    try:
        kinds = {int(kind): int(count) for kind, count in (pair.split("=") for pair in options.partitions.split(","))}
    except ValueError as error:
        raise BenchError(f"--partitions {options.partitions}: write the processors of each, like 1=200,2=40.") from error
    return LogMachine(kinds, memory)


# --- Backfill ---------------------------------------------------------------------------------------------------------


def _backfill(bench: Bench, lines: Sequence[Line], machine: LogMachine, stretch: float) -> None:
    bench.progress(f"backfill, stretch {stretch}")
    told = [replace(line, submitted_at=int(line.submitted_at * stretch)) for line in lines]
    reference: dict[int, int] = {}
    for kind, processors in machine.processors.items():
        reference |= _easy([line for line in told if machine.kind(line) == kind], processors)
    core = build(state_of(machine))
    arrivals = arrivals_of(told, machine)
    known = {f"{line.number:07}": line for line in told}
    began = time.process_time()
    replay = Predicted(core, arrivals, {name: ("all", line.user, line.name, line.asked) for name, line in known.items()})
    found = replay.run()
    seconds = time.process_time() - began
    waits = [stay.wait for stay in found.stays.values()]
    ours, theirs = statistics.fmean(waits), statistics.fmean(reference.values())
    name = f"-{stretch:g}"
    bench.figure(
        f"mean-wait{name}", ours, "s", accept=theirs * ACCEPT, aim=theirs * AIM, less_is_better=True, peers={"EASY": theirs},
        note=f"{len(waits)} jobs, {seconds / max(1, found.passes) * 1000:.2f} ms a pass",
    )  # fmt: skip
    early = sorted(reserved - actual for reserved, actual in found.reserved_starts)
    note = f"of {len(found.reserved_starts)}; {dict(found.given_way)} gave way; the middle one started {_middle(early)} s before"
    bench.figure(f"broken-reservations{name}", found.broken, "", accept=0, less_is_better=True, note=note)
    if stretch == 1.0:
        asked = [min(line.runs, line.asked) / max(line.runs, line.asked, 1) for line in told if line.runs]
        _accuracy(bench, "log", replay.guesses, {"as-asked": statistics.fmean(asked)})


def arrivals_of(lines: Sequence[Line], machine: LogMachine) -> list[Arrival]:
    """The jobs of a log as the core gets them."""
    pools = {kind: (number,) for number, kind in enumerate(machine.processors)}
    gangs: dict[tuple[int, int], GangAsk] = {}
    arrivals = []
    for line in lines:
        gang = gangs.setdefault((line.processors, line.memory_bytes), cores(line.processors, line.memory_bytes))
        job = JobAsk(f"{line.number:07}", 1, gang, pools[machine.kind(line)], line.submitted_at, max_runtime=line.asked)
        arrivals.append(Arrival(job, line.runs))
    return arrivals


def _easy(lines: Sequence[Line], processors: int) -> dict[int, int]:
    """Wait by job under EASY backfill on a count of processors."""
    waits: dict[int, int] = {}
    arrivals = sorted(lines, key=lambda line: (line.submitted_at, line.number))
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
        for line in queue:
            if not shadow and line.processors > free:
                shadow, spare = _shadow(running, free, line.processors)
                continue
            is_short = now + line.asked <= shadow
            if line.processors <= free and (not shadow or is_short or line.processors <= spare):
                free -= line.processors
                spare -= 0 if is_short or not shadow else line.processors
                heapq.heappush(running, (now + line.runs, line.number, line.processors, now + line.asked))
                waits[line.number] = now - line.submitted_at
                started.add(line.number)
        queue = [line for line in queue if line.number not in started]
    return waits


def _shadow(running: Sequence[tuple[int, int, int, int]], free: int, need: int) -> tuple[int, int]:
    """When the first that waits can start by the times asked, and how many processors are left over then: of all that end in
    that second."""
    by_end = sorted(running, key=lambda entry: entry[3])
    for end, together in itertools.groupby(by_end, key=lambda entry: entry[3]):
        free += sum(count for _, _, count, _ in together)
        if free >= need:
            return end, free - need
    raise AssertionError("it never fits")


def a_state(processors: int) -> State:
    """One kind of node, without memory."""
    return state_of(LogMachine({0: processors}))


def state_of(machine: LogMachine) -> State:
    pools: list[Pool] = []
    machines: list[Machine] = []
    capacities: list[Capacity] = []
    for number, (kind, processors) in enumerate(machine.processors.items()):
        name = "pool" if len(machine.processors) == 1 else f"partition-{kind}"
        pool_id = uuid.UUID(int=POOL.int + 100 * number)
        pools.append(Pool(pool_id, name, PoolRules(policy="pack", runners_up=0)))
        memory = machine.node_memory_bytes or 1 << 30
        firsts = range(0, processors, NODE_CORES)
        machines += [Machine(f"node{first:04}", number, min(NODE_CORES, processors - first) * 1000, memory) for first in firsts]
        total = len(firsts) * memory if machine.node_memory_bytes else processors << 30
        capacities.append(Capacity(pool_id, name, Resources(processors * 1000, total, 0)))
    return State(
        at=0,
        pools=tuple(pools),
        machines=tuple(machines),
        queues=(LimitedQueue(uuid.UUID(int=2), None, "root"), LimitedQueue(uuid.UUID(int=3), uuid.UUID(int=2), "all")),
        capacities=tuple(capacities),
        policy=Policy(overrun_seconds=0, replan_seconds=0, starvation_guard_seconds=0, reclaims=False, preempts=False),
    )


def cores(count: int, memory_bytes: int = 0) -> GangAsk:
    return GangAsk((RoleAsk("worker", TaskAsk(1000, memory_bytes), count, count),))


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
            memory = max(0, int(float(words[9]))) << 10  # In KiB of each processor; -1: not known.
            partition = max(0, int(words[15]))
            found.append(Line(number, submitted, min(runs, asked), count, asked, words[11], name, memory, partition))
    return found


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


class ToldReplay(Predicted):
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

    def _known(self, job_id: str) -> KnownJob:
        queue, user, name, _ = self.known[job_id]
        return KnownJob(kinds_of(user, name, queue, ""), self.outcome.stays[job_id].done)

    def _corrections(self, now: int) -> Corrections:
        """By what has come of what was told last."""
        corrections = Corrections()
        for telling in [telling for telling in self.told if telling.late is not None][-OBSERVED:]:
            started = self.outcome.stays[telling.job_id].first_started_at
            if 0 <= started < telling.at:
                continue  # It had run before, and was evicted.
            waited = (started if started >= 0 else now) - telling.at
            corrections.add(
                typical=telling.typical, cautious=telling.cautious, kept_by=telling.late or 0, waited=waited,
                has_started=started >= 0, sure=telling.soon if telling.is_sure else None,
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
        waits = [(telling, stays[telling.job_id].first_started_at - telling.at) for telling in replay.told]
        came.append([(telling, waited) for telling, waited in waits if waited >= 0])
        seconds += replay.seconds
        reasons.update(telling.reason for telling in replay.told if telling.reason)
    if not any(came):
        raise BenchError("no job waited when the look ahead was asked; take more jobs or fewer nodes")
    for band, name in enumerate(BAND_NAMES):
        _band(bench, name, came, {band})
    _band(bench, "all", came, set(range(len(BAND_NAMES))))
    count = sum(map(len, came))
    told = sum(telling.late is not None for seed in came for telling, _ in seed)
    bench.figure("told-a-time", told / count * 100, "%", note=f"of {count}; {len(seconds)} looks ahead")
    bench.figure("look-ahead", statistics.median(seconds), "s", less_is_better=True, note=f"longest {max(seconds):.1f} s")
    bench.record("without", dict(reasons))


def _told(bench: Bench, options: argparse.Namespace, seed: int) -> ToldReplay:
    """The replay of one order of submission."""
    options.jobs, options.stretch, options.checkpoint = options.philly_jobs, options.philly_stretch, 1800
    nodes = tenancy.nodes_of(options)
    entries = tenancy.entries_of(options, nodes)
    if seed:
        entries = [replace(entry, submitted_at=entry.submitted_at + _moved(entry.number, seed)) for entry in entries]
    state, arrivals, tenants = tenancy.scene(entries, nodes, options.checkpoint, Policy())
    known: dict[str, tuple[str, str, str, int | None]] = {
        arrival.job.id: (tenants[arrival.job.queue], tenants[arrival.job.queue], str(arrival.job.gang.roles), None)
        for arrival in arrivals
    }
    replay = ToldReplay(build(state), arrivals, known, state, every=options.every, most=options.most, bench=bench)
    replay.run()
    return replay


def _band(bench: Bench, name: str, came: Sequence[Sequence[Came]], bands: set[int]) -> None:
    """The bands of the wait that was told, by its p90 and by its p50, over all seeds."""
    late = [
        [waited <= telling.late for telling, waited in seed if telling.late is not None and band_of(telling.late) in bands]
        for seed in came
    ]
    likely = [
        (telling, waited)
        for seed in came
        for telling, waited in seed
        if telling.late is not None and band_of(telling.soon) in bands
    ]
    if any(late):
        kept = sum(map(sum, late)) / sum(map(len, late))
        each = ", ".join(f"{sum(seed) / len(seed):.0%} of {len(seed)}" for seed in late if seed)
        bench.figure(f"started-by-p90-{name}", kept * 100, "%", accept=P90_MIN, accept_most=P90_MAX, note=each)
    told = [(telling.soon, waited) for telling, waited in likely if telling.is_told]
    if told:
        error = _middle([abs(waited - wait) / max(60, waited) for wait, waited in told])
        by_half = sum(waited <= wait for wait, waited in told) / len(told)
        note = f"of {len(told)} that were told one, {len(likely) - len(told)} were told a p90 alone; {by_half:.0%} started by it"
        accept = 35 if name != "above" and name != "all" else None
        bench.figure(f"p50-error-{name}", error * 100, "%", accept=accept, less_is_better=True, note=note)


def _look(state: State, job_ids: Sequence[str], predictor: Predictor, known: Mapping[str, KnownJob]) -> dict[str, StartForecast]:
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

    def runs(job: JobAsk) -> int:
        return max(1, round(typical[names[job.gang]] * chance.lognormvariate(0, 1)))

    predictor = Predictor()
    for ago, job in zip(range(ENDED, 0, -1), chance.choices(everything, k=ENDED), strict=True):
        queue = str(job.queue)
        predictor.add(user=queue, name=names[job.gang], queue=queue, seconds=runs(job), ended_at=state.at - 100 * ago)
    held = tuple(replace(held, started_at=state.at - chance.randrange(runs(held.job))) for held in state.running)
    state = replace(state, running=held)
    known = {job.id: KnownJob(kinds_of(str(job.queue), names[job.gang], str(job.queue), "")) for job in everything}
    asked = [job.id for job in chance.sample(state.waiting, min(ASKED, len(state.waiting)))]
    began = time.process_time()
    found = _look(state, asked, predictor, known)
    seconds = time.process_time() - began
    told = [forecast.p90 for forecast in found.values() if forecast.p90 is not None]
    reasons = dict(Counter(forecast.reason for forecast in found.values() if forecast.p90 is None))
    note = f"{len(state.waiting)} wait, {len(state.running)} run; {len(told)} of {len(asked)} told a time, the others: {reasons}"
    bench.figure(f"look-ahead-{jobs}x{nodes}", seconds, "s", accept=30, less_is_better=True, note=note)
