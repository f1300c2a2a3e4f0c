"""Whose work makes room for a gang that is owed it: reclaim between queues, preemption inside one.

Who may be evicted: work of other queues that hold more than they deserve, for a gang that stays within what its own queue
deserves (`Shares.may_reclaim`, asked again after each victim, so guaranteed work is never taken); and work of the same queue and
lower priority. First only victims whose queues keep what they deserve without them are taken (Kueue's first rule); where that
is not enough, also those that stand partly on what they deserve (its second).

Nobody is evicted before its least run time. For what goes from one queue to another this is a time of its own, none unless an
operator sets one: who borrows may have started a moment ago, and has the least to lose then.

The ideal: of all sets of victims after which the gang has its place, the one that loses the fewest GPU-seconds. The shortcut:
each machine offers the cheapest next step by which it takes one task more; the cheapest offer of all is taken, by a heap whose
entries begin as bounds from below, so that only machines near the top are ever counted exactly; then whoever turns out not to be
needed, dearest first, is left in peace. What is left is minimal: without any one of them the gang would have no place. Where each
machine takes one task and no victim spans machines it is also the cheapest; otherwise it may not be.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set

from jobs.scheduling.core.advance import AdvanceReservations
from jobs.scheduling.core.place.gangs import Placed, RoleAsk, Unplaced, at_least
from jobs.scheduling.core.place.machines import WHOLE_MILLIS, Machines, TaskAsk
from jobs.scheduling.core.place.placing import place, undo
from jobs.scheduling.core.place.ranking import Ranking, ranking_of
from jobs.scheduling.core.place.topology import topology_of
from jobs.scheduling.core.placements import Placements
from jobs.scheduling.core.state.evictable import Amounts, Leavers, takes_more
from jobs.scheduling.core.state.live import Live
from jobs.scheduling.core.state.work import Job, Running, Shape, give_shares, take_shares
from tenants.quota.limits import Amount
from tenants.quota.shares import Refusal, Shares

FINE = 1 << 20  # Prices per task are whole numbers of these.
DOMAINS_MAX = 16  # Places of a level that are searched for a gang that insists on one, most room first.


class Search:
    """Victims for one gang in one pool. `rebalances`: among those who borrow, by how large a part each holds
    (`Shares.may_rebalance`)."""

    def __init__(
        self,
        live: Live,
        windows: AdvanceReservations,
        placements: Placements,
        job: Job,
        shape: Shape,
        pool: int,
        *,
        rebalances: bool = False,
    ) -> None:
        self.live = live
        self.windows = windows
        self.placements = placements
        self.machines: Machines = live.machines
        self.shares: Shares = live.shares
        self.job = job
        self.pool = pool
        self.now = live.now
        self.need = shape.least[pool]
        self._shape = shape
        self.gang = at_least(shape.gang)
        self.young_until = 0  # When the first of those who may not be evicted yet may be.
        self.by_machine: Mapping[int, Sequence[Running]] = {}
        amount: Amount = shape.inside.get(pool, (0, 0, 0))
        self._amount = amount
        self.rebalances = rebalances
        self.reach = 0 if rebalances else live.shares.reach(job.queue, pool, amount) if live.policy.reclaims else -1
        self.may_claim = self.reach >= 0
        preempts = live.policy.preempts and not rebalances
        lowest = min(live.evictable.priorities.get((pool, job.queue), ()), default=job.priority) if preempts else job.priority
        self.may_preempt = lowest < job.priority
        self.cost: dict[str, int] = {}  # Of those who might be evicted, once all that costs little says that it could help.
        self._leavers: Sequence[Leavers] = ()
        self._freed: Mapping[int, Amounts] = {}
        self.members: Set[int] | None = None
        self._keeps_deserved = True
        self._allowed: dict[int, bool] = {}
        self._roles = [
            (role, ranking)
            for role in self.gang.roles
            if (ranking := ranking_of(self.machines, pool if role.pool is None else role.pool, role.ask)) is not None
        ]
        self._is_counted = shape.is_counted

    def run(self) -> list[Running] | None:
        """The victims; None where no set of them makes room."""
        if not self.could_do():
            return None
        gangs = [one for leavers in self._leavers for one in leavers.gangs.values()]
        costs = {one.job.id: self._cost(one) for one in gangs}
        # The cheapest first may use up what a queue may be asked for. The largest first asks for it in few pieces; the smallest
        # first asks for the most, because the last may be more than what is left.
        found: list[Running] | None = None
        for order in (None, _large_first, _small_first):
            self.cost = costs if order is None else {one.job.id: order(one) for one in gangs}
            found = self._search()
            if found is not None:
                break
        self.cost = costs
        return found

    def _search(self) -> list[Running] | None:
        for keeps_deserved in (True,) if self.rebalances else (True, False):
            self._keeps_deserved = keeps_deserved
            best: list[Running] | None = None
            for members in self._domains():
                self.members = members
                found = self._try()
                if found is not None and (best is None or self._sum(found) < self._sum(best)):
                    best = found
            if best is not None:
                return best
        return None

    def could_do(self) -> bool:
        """Whether there might be victims enough, by bounds that cost little."""
        return self._gather() and self._could_do()

    # --- Who may leave ------------------------------------------------------------------------------------------------

    def _gather(self) -> bool:
        """Everybody who might be evicted, by machine; whether there is anybody."""
        live, amount = self.live, self._amount
        free = self.machines.free(self.pool)
        short = (amount[0] > free.cpu_millis, amount[1] > free.memory_bytes, amount[2] > free.gpu_millis)
        self._short: Sequence[bool] | None = short if any(short) else None
        evictable = live.evictable
        young = (
            evictable.next_at(claims=True) if self.may_claim else None,
            evictable.next_at(claims=False) if self.may_preempt else None,
        )
        self.young_until = min((at for at in young if at is not None), default=0)
        if self.reach < 0:
            near: Sequence[int] = (self.job.queue,)
        else:
            near = live.tree(self.reach) if self.reach else evictable.queues(self.pool)
        found = []
        for queue in near:
            own = queue == self.job.queue
            leavers = evictable.leavers(self.pool, queue, self.job.priority if own else None)
            if leavers.gangs and (live.policy.preempts and not self.rebalances if own else self._may_reclaim(queue)):
                found.append(leavers)
        return self._consider(found)

    def _consider(self, leavers: Sequence[Leavers]) -> bool:
        """Search among these; whether there is anybody."""
        self._leavers = leavers
        self._freed, self.by_machine = _together(leavers)
        return bool(leavers)

    def _cost(self, one: Running) -> int:
        return one.cost(self.now)

    def _may_reclaim(self, queue: int) -> bool:
        if self.rebalances:
            return self.shares.may_rebalance(self.job.queue, queue, self.pool, self._amount)
        return self.shares.may_reclaim(self.job.queue, queue, self.pool, self._amount, self._short)

    def _may_leave(self, one: Running) -> bool:
        """Whether by the rules this one may go, after those that were chosen already."""
        queue = one.job.queue
        if self.windows and self.windows.keeps(one, self.job):
            return False
        if queue == self.job.queue:
            return True
        allowed = self._allowed.get(queue)
        if allowed is None:
            allowed = self._allowed[queue] = self._may_reclaim(queue)
        if not allowed or not self._keeps_deserved:
            return allowed
        if self.rebalances:
            gives: Amount = dict(one.need).get(self.pool, (0, 0, 0))
            if not self.shares.may_rebalance(self.job.queue, queue, self.pool, self._amount, gives):
                return False
        above = set(self.shares.path[self.job.queue])
        for pool, amount in one.need:
            if pool != self.pool:
                continue
            for node in self.shares.path[queue]:
                if node in above:
                    break
                over = self.shares.excess(node, pool)
                for at, held in enumerate(amount):
                    if held and over[at] < held and (self._short is None or self._short[at]):
                        return False
        return True

    def _could_do(self) -> bool:
        """Whether there might be room once everybody who may leave did: by sums and by machine, a bound that costs little."""
        free = self.machines.free(self.pool)
        sums = [free.cpu_millis, free.memory_bytes, free.gpu_millis]
        for leavers in self._leavers:
            for at, amount in enumerate(leavers.sums):
                sums[at] += amount
        if any(want > there for want, there in zip(self._amount, sums, strict=True)):
            return False
        if not self._is_counted or not self._roles:
            return True
        role, ranking = self._roles[0]
        known = self.placements.get(self.pool, self._shape.number)
        if known is None:
            fitting = self._count(ranking)
            if fitting >= role.minimum:
                return True
            answer = Unplaced("no_room", self.pool, role.role, role.minimum, fitting, ranking.tally())
            known = self.placements.remember(self.pool, self._shape, answer)
        return takes_more(self.machines, ranking, role, role.minimum - known.most(self.machines, self.pool), self._freed)

    # --- The cheapest that is enough ----------------------------------------------------------------------------------

    def _try(self) -> list[Running] | None:
        """Evict for a try until the gang fits; all is undone."""
        mark = self.machines.mark()
        chosen: dict[str, Running] = {}
        self._allowed.clear()
        try:
            return self._reduce(chosen) if self._grow(chosen) else None
        finally:
            for one in chosen.values():
                take_shares(self.shares, one.job.queue, one.need)
            self.machines.rewind(mark)

    def _grow(self, chosen: dict[str, Running]) -> bool:
        offers: dict[str, list[tuple[int, int]]] = {}
        offered_at: dict[str, int] = {}  # How many were chosen when the offers were listed.
        counts = {role.role: self._count(ranking) for role, ranking in self._roles}
        while True:
            lacking = next((one for one in self._roles if counts[one[0].role] < one[0].minimum), None)
            if lacking is None:
                if self._is_enough():
                    return True
                if self._is_counted or not self._fits_but_for_limits():
                    lacking = self._roles[0]
                if lacking is None or self._is_counted:
                    if not self._evict_any(chosen):
                        return False
                    counts = {role.role: self._count(ranking) for role, ranking in self._roles}
                    continue
            role, ranking = lacking
            if role.role not in offers:
                offers[role.role], offered_at[role.role] = self._bounds(role, ranking), len(chosen)
            if not self._take_offer(offers[role.role], role, ranking, chosen):
                if len(chosen) == offered_at[role.role]:
                    return False
                del offers[role.role]  # Some may leave by now who might not before the others were chosen.
                continue
            counts = {name.role: self._count(each) for name, each in self._roles} if not self._is_counted else counts
            if self._is_counted:
                counts[role.role] = self._counted

    def _bounds(self, role: RoleAsk, ranking: Ranking) -> list[tuple[int, int]]:
        """By machine the least that one more task there could cost: by GPU alone, and as if victims could be cut."""
        heap = []
        want = role.ask.gpu_millis
        for machine, here in self.by_machine.items():
            if self.members is not None and machine not in self.members:
                continue
            here_now = self.machines.class_of[machine]
            missing = want * (ranking.copies(here_now) + 1) - here_now.gpu
            rates = []
            for one in here:
                gpus = sum(task.ask.gpu_millis for task in one.placed.tasks if task.machine == machine)
                if gpus:
                    rates.append((self.cost[one.job.id] * FINE // max(one.gpu_millis, 1), gpus))
            bound = 0
            for rate, gpus in sorted(rates):
                if missing <= 0:
                    break
                part = min(gpus, missing)
                bound += rate * part
                missing -= part
            if missing <= 0:
                heap.append((bound, machine))
        heapq.heapify(heap)
        return heap

    def _take_offer(self, heap: list[tuple[int, int]], role: RoleAsk, ranking: Ranking, chosen: dict[str, Running]) -> bool:
        """Take the cheapest step by which some machine takes one task more; False when none does."""
        while heap:
            _, machine = heapq.heappop(heap)
            step = self._step(machine, role, ranking, chosen)
            if step is None:
                continue
            price, gain, victims = step
            if heap and (price, machine) > heap[0]:
                self._keep(victims, chosen)
                heapq.heappush(heap, (price, machine))
                continue
            if self._is_counted:
                self._counted += gain
            heapq.heappush(heap, (0, machine))  # It may take one more; what that costs is found out when it comes up.
            return True
        return False

    def _step(
        self, machine: int, role: RoleAsk, ranking: Ranking, chosen: dict[str, Running]
    ) -> tuple[int, int, list[Running]] | None:
        """Evict on one machine, cheapest first, until it takes one task more, and leave in peace who was not needed for it."""
        class_of = self.machines.class_of
        before = ranking.copies(class_of[machine])
        victims: list[Running] = []
        others = 0
        gains: dict[str, int] = {}
        for one in sorted(self.by_machine[machine], key=lambda one: (self.cost[one.job.id], one.key)):
            if one.job.id in chosen or not self._helps(one, machine, role.ask, before + 1) or not self._may_leave(one):
                continue
            gains[one.job.id] = self._evict(one, chosen, ranking, machine)
            others += gains[one.job.id]
            victims.append(one)
            if ranking.copies(class_of[machine]) > before:
                break
        else:
            self._keep(victims, chosen)
            return None
        for one in sorted(victims[:-1], key=lambda one: (-self.cost[one.job.id], one.key)):
            self._keep([one], chosen)
            if ranking.copies(class_of[machine]) > before:
                victims.remove(one)
                others -= gains[one.job.id]
            else:
                self._evict(one, chosen, ranking, machine)
        gain = ranking.copies(class_of[machine]) - before + others
        return self._sum(victims) * FINE // gain, gain, victims

    def _helps(self, one: Running, machine: int, ask: TaskAsk, many: int) -> bool:
        """Whether it holds on this machine what so many tasks lack there."""
        here = self.machines.class_of[machine]
        tasks = [task.ask for task in one.placed.tasks if task.machine == machine]
        each = ask.gpu_millis
        if each >= WHOLE_MILLIS:
            lacks_gpu = here.whole * WHOLE_MILLIS < each * many
        else:
            lacks_gpu = each > 0 and sum(left // each for left in here.devices) < many
        return (
            (lacks_gpu and any(task.gpu_millis for task in tasks))
            or (here.cpu < ask.cpu_millis * many and any(task.cpu_millis for task in tasks))
            or (here.memory < ask.memory_bytes * many and any(task.memory_bytes for task in tasks))
        )

    def _evict(self, one: Running, chosen: dict[str, Running], ranking: Ranking, machine: int) -> int:
        """For a try; how many tasks more all other machines take because of it."""
        class_of, copies, members = self.machines.class_of, ranking.copies, self.members
        others = {task.machine for task in one.placed.tasks} - {machine}
        if members is not None:
            others &= members
        before = sum(copies(class_of[other]) for other in others if class_of[other].kind.pool == ranking.pool)
        for task in one.placed.tasks:
            self.machines.give(task.machine, task.ask, task.devices)
        give_shares(self.shares, one.job.queue, one.need)
        chosen[one.job.id] = one
        self._allowed.clear()
        return sum(copies(class_of[other]) for other in others if class_of[other].kind.pool == ranking.pool) - before

    def _keep(self, victims: Iterable[Running], chosen: dict[str, Running]) -> None:
        """Take the try back for these."""
        for one in victims:
            for task in one.placed.tasks:
                self.machines.take(task.machine, task.ask, task.devices)
            take_shares(self.shares, one.job.queue, one.need)
            del chosen[one.job.id]
        self._allowed.clear()

    def _evict_any(self, chosen: dict[str, Running]) -> bool:
        """Where there is room but a limit refuses: whoever is cheapest."""
        everybody = {one.job.id: one for here in self.by_machine.values() for one in here}
        for one in sorted(everybody.values(), key=lambda one: (self.cost[one.job.id], one.key)):
            if one.job.id not in chosen and self._may_leave(one):
                self._evict(one, chosen, self._roles[0][1], -1)
                return True
        return False

    def _reduce(self, chosen: dict[str, Running]) -> list[Running]:
        """Leave in peace, dearest first, whoever is not needed."""
        for one in sorted(chosen.values(), key=lambda one: (-self.cost[one.job.id], one.key)):
            self._keep([one], chosen)
            if not self._is_enough():
                self._evict(one, chosen, self._roles[0][1], -1)
        return sorted(chosen.values(), key=lambda one: one.key)

    # --- Whether it is enough -----------------------------------------------------------------------------------------

    def _is_enough(self) -> bool:
        if any(isinstance(self.shares.room(self.job.queue, pool, amount), Refusal) for pool, amount in self.need):
            return False
        windows = self.windows
        if windows and windows.refusal(self.job, self.need, self.now, delay=self.live.policy.grace_seconds) is not None:
            return False
        return self._fits_but_for_limits()

    def _fits_but_for_limits(self) -> bool:
        if self._is_counted:
            return self._count(self._roles[0][1]) >= self._roles[0][0].minimum
        answer = place(self.gang, self.machines, (self.pool,))
        if isinstance(answer, Placed):
            undo(answer, self.machines)
            return True
        return False

    def _count(self, ranking: Ranking) -> int:
        if self.members is None:
            found = ranking.room_of_all(self.machines.classes(ranking.pool))
        else:
            found = ranking.room_on(self.members)
        self._counted = found
        return found

    def _domains(self) -> Iterator[Set[int] | None]:
        """Where all of the gang has to go: the places of the level on which it insists; None for anywhere."""
        rules = self.machines.rules.get(self.pool)
        levels = {self.gang.together, *(role.together for role in self.gang.roles)}
        for depth, level in enumerate(rules.levels if rules is not None else ()):
            if level in levels and rules is not None:
                places = topology_of(self.machines, self.pool, rules.levels).places[depth]
                able = sorted(places, key=lambda one: (-len(one.members), one.name))
                yield from (one.members for one in able[:DOMAINS_MAX])
                return
        yield None

    def _sum(self, victims: Iterable[Running]) -> int:
        return sum(self.cost[one.job.id] for one in victims)


def _large_first(one: Running) -> int:
    return FINE // max(1, one.gpu_millis)


def _small_first(one: Running) -> int:
    return one.gpu_millis


def _together(found: Sequence[Leavers]) -> tuple[Mapping[int, Amounts], Mapping[int, Sequence[Running]]]:
    """What may leave of several queues, by machine: what that frees there and who it is."""
    if len(found) == 1:
        return found[0].freed, found[0].by_machine
    freed: dict[int, Amounts] = {}
    by_machine: dict[int, list[Running]] = {}
    for leavers in found:
        for machine, here in leavers.by_machine.items():
            by_machine.setdefault(machine, []).extend(here)
            more, held = leavers.freed[machine], freed.get(machine, (0, 0, 0))
            freed[machine] = (held[0] + more[0], held[1] + more[1], held[2] + more[2])
    return freed, by_machine
