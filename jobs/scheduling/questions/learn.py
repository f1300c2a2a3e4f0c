"""Learn which second term of the score fills a pool best, by filling its emptied machines with its recent tasks.

Beside `fragmentation`, which looks at GPUs, a second term decides where machines tie or nearly so. Which term is best depends
on the mix of tasks: `balanced` keeps CPU for the GPUs that are left, `pack` keeps whole machines for the tasks that need them,
`ratio` is better where CPU is short. No fixed weight is best for all, so each candidate fills the same machines with the same
tasks in the same orders, no task leaves, and a task that fits nowhere is dropped, as in the benchmark P7. The candidate with
the most GPU allocated when all GPUs have been asked for is chosen; the present choice stays unless another is better by
`MARGIN` on average and by more than chance.

Pure, and the same input gives the same answer anywhere: orders are drawn by hashes of the seed. The cost is bounded by
candidates x (`DECISIONS_MAX` + `ORDER_MAX`) placements of one task, however large the pool is and however many tasks it got: of
a pool that would need more than `ORDER_MAX` tasks to be filled, only a sample of the machines of each kind takes part. That is
at most 40,000 placements; on 1,213 machines it takes 2.5 to 4.4 seconds of one core (P7).
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import groupby

from jobs.scheduling.core.place.gangs import GangAsk, Placed, RoleAsk
from jobs.scheduling.core.place.machines import WHOLE_MILLIS, Machine, Machines, TaskAsk
from jobs.scheduling.core.place.placing import place
from jobs.scheduling.core.place.scores import Mix, PoolRules

Weights = Mapping[str, int]

CANDIDATES: tuple[Weights, ...] = ({"balanced": 2}, {"balanced": 1, "pack": 2}, {"balanced": 1, "ratio": 2}, {"balanced": 0})
TERMS = frozenset(term for candidate in CANDIDATES for term in candidate)
PARTS = 10_000  # Allocated GPU is counted in hundredths of a percent of all GPU.
MARGIN = 20  # In PARTS: a smaller gain is not worth changing how a pool is filled.
ERRORS = 3  # The mean of four orders is by chance as far above nothing once in 35 times, of sixteen once in 220 (Student's t).
RECENT_LEAST = 50  # Fewer tasks with GPU do not show what a pool usually gets.
RECENT_MAX = 5_000  # The latest tasks.
ORDER_MAX = 2_000  # Tasks of one order.
DECISIONS_MAX = 8_000  # Placements of one candidate in all orders.
ORDERS_LEAST, ORDERS_MAX = 4, 16


@dataclass(frozen=True, slots=True)
class Tried:
    """The trial of one candidate: the GPU that it allocated in each order, in `PARTS` of all GPU."""

    weights: Weights
    allocated: tuple[int, ...]

    @property
    def mean(self) -> int:
        return sum(self.allocated) // len(self.allocated)


@dataclass(frozen=True, slots=True)
class Learned:
    """The weights chosen, the trials of all candidates in their order, and how many machines took part."""

    weights: Weights
    tried: tuple[Tried, ...]
    machines: int


def learn(
    machines: Iterable[Machine],
    rules: PoolRules,
    recent: Sequence[TaskAsk],
    *,
    seed: int,
    candidates: Sequence[Weights] = CANDIDATES,
) -> Learned | None:
    """Choose the second term for one pool of machines, all of one pool number.

    `rules`: the rules by which it is filled now, with the present choice among its weights; `recent`: the tasks that it got,
    latest last. None where nothing can be learned: no GPUs, another policy, or fewer than `RECENT_LEAST` tasks with GPUs.
    """
    usable = [machine for machine in machines if not machine.blocked]
    recent = recent[-RECENT_MAX:]
    with_gpu = sum(1 for ask in recent if ask.gpu_millis)
    if rules.policy != "fragmentation" or with_gpu < RECENT_LEAST or not any(machine.gpus for machine in usable):
        return None
    mix = rules.mix or Mix((ask, 1) for ask in recent)
    chosen = _sample(usable, ORDER_MAX * sum(ask.gpu_millis for ask in recent) // len(recent))
    capacity = sum(machine.gpus for machine in chosen) * WHOLE_MILLIS
    orders = list(_orders(recent, capacity, seed))
    tried = []
    for candidate in candidates:
        tried_rules = replace(rules, weights=_with_second_term(rules.weights, candidate), mix=mix, runners_up=0)
        tried.append(Tried(candidate, tuple(_filled(chosen, tried_rules, order) * PARTS // capacity for order in orders)))
    present = next((trial for trial in tried if _is_present(trial.weights, rules)), tried[0])
    best = max(tried, key=lambda trial: (sum(trial.allocated), trial is present))
    return Learned((best if _is_better(best, present) else present).weights, tuple(tried), len(chosen))


def _is_present(weights: Weights, rules: PoolRules) -> bool:
    return all(rules.weight(term) == weights.get(term, 0) for term in TERMS)


def _with_second_term(weights: Weights, chosen: Weights) -> Weights:
    """A pool's weights with another second term."""
    return {**{term: weight for term, weight in weights.items() if term not in TERMS}, **chosen}


def _is_better(trial: Tried, present: Tried) -> bool:
    """Whether a trial is better than the present one, by order: by `MARGIN` on average and by `ERRORS` standard errors of the
    mean; in whole numbers."""
    differences = [new - old for new, old in zip(trial.allocated, present.allocated, strict=True)]
    number, total = len(differences), sum(differences)
    spread = number * sum(each * each for each in differences) - total * total
    return total >= MARGIN * number and total * total * (number - 1) >= ERRORS * ERRORS * spread


def _sample(machines: Sequence[Machine], gpu_millis_max: int) -> list[Machine]:
    """A regular sample of the machines of each kind, with at most about `gpu_millis_max` in all; at least one of each kind."""
    step = -(-sum(machine.gpus for machine in machines) * WHOLE_MILLIS // max(1, gpu_millis_max))
    ordered = sorted(machines, key=lambda machine: (*_kind(machine), machine.name))
    return [machine for _, alike in groupby(ordered, key=_kind) for machine in list(alike)[:: max(1, step)]]


def _kind(machine: Machine) -> tuple[str, int, int, int]:
    return machine.model, machine.gpus, machine.cpu_millis, machine.memory_bytes


def _orders(recent: Sequence[TaskAsk], capacity: int, seed: int) -> Iterator[list[TaskAsk]]:
    """Orders of the recent tasks: first as they came, then shuffled; each with as many tasks as ask for `capacity` in all, and
    `ORDER_MAX` at most.

    Where the recent tasks are fewer, all come again, in another order. There are as many orders as `DECISIONS_MAX` allows.
    """
    number = decisions = 0
    while number < ORDERS_LEAST or (number < ORDERS_MAX and decisions + decisions // number <= DECISIONS_MAX):
        order: list[TaskAsk] = []
        demand = again = 0
        while len(order) < ORDER_MAX and demand < capacity:
            arriving = _shuffled(recent, f"{seed} {number} {again}") if number else recent
            for ask in arriving[: ORDER_MAX - len(order)]:
                demand += ask.gpu_millis
                if demand > capacity:
                    break
                order.append(ask)
            again += 1
        yield order
        number, decisions = number + 1, decisions + len(order)


def _shuffled(recent: Sequence[TaskAsk], salt: str) -> list[TaskAsk]:
    def key(at: int) -> bytes:
        return hashlib.blake2b(f"{salt} {at}".encode(), digest_size=8).digest()

    return [recent[at] for at in sorted(range(len(recent)), key=key)]


def _filled(machines: Sequence[Machine], rules: PoolRules, order: Iterable[TaskAsk]) -> int:
    """Thousandths of a GPU that are allocated after placing the tasks in this order."""
    pool = machines[0].pool
    empty, allocated = Machines(machines, {pool: rules}), 0
    gangs: dict[TaskAsk, GangAsk] = {}
    for ask in order:
        gang = gangs.setdefault(ask, GangAsk((RoleAsk("task", ask, 1, 1),)))
        if isinstance(place(gang, empty, (pool,)), Placed):
            allocated += ask.gpu_millis
    return allocated
