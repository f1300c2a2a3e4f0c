"""Victims for a gang that is owed room: reclaim between queues, preemption inside a queue.

Two kinds of work may be evicted: work of other queues that hold more than they deserve, for a gang that stays within what its own
queue deserves (`Shares.may_reclaim`, asked again after each victim, so guaranteed work is never taken); and work of the same
queue and lower priority. First only victims whose queues keep what they deserve without them are taken (Kueue's first rule);
where that is not enough, also victims that run partly on what their queues deserve (its second).

No gang is evicted before its least run time. Between queues this is a setting of its own, 0 by default: a borrower may have
started a moment ago, and has the least to lose then.

The ideal: of all sets of victims after which the gang has its place, the set that loses the fewest GPU-seconds. The shortcut:
each machine offers the cheapest next step by which it takes one task more; the cheapest offer of all is taken, by a heap whose
entries begin as lower bounds, so that only machines near the top are ever counted exactly; then victims that turn out not to be
needed are kept running, most expensive first. The set is minimal: without any of its victims the gang would have no place. Where
each machine takes one task and no victim spans machines it is also the cheapest; otherwise it may not be.
"""

from __future__ import annotations

import heapq
from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set

from jobs.scheduling.core.advance import AdvanceReservations
from jobs.scheduling.core.place.gangs import RoleAsk, Unplaced, at_least
from jobs.scheduling.core.place.machines import WHOLE_MILLIS, Machines, TaskAsk
from jobs.scheduling.core.place.placing import has_place, redo, undo
from jobs.scheduling.core.place.ranking import Ranking, ranking_of
from jobs.scheduling.core.place.topology import insisted_domains
from jobs.scheduling.core.placements import Placements
from jobs.scheduling.core.state.evictable import Amounts, VictimCandidates, takes_more
from jobs.scheduling.core.state.live import Live
from jobs.scheduling.core.state.reservation import grace_of
from jobs.scheduling.core.state.work import JobAsk, Running, Shape, give_shares, take_shares
from kernel.wait_codes import WaitCode
from tenants.capacity.quota.limits import Amount
from tenants.capacity.quota.shares import Shares

FINE = 1 << 20  # Prices per task are whole numbers of these.
DOMAINS_MAX = 16  # Domains of a level that are searched for a gang that insists on the level, largest first.


class Search:
    """The search for victims for one gang in one pool. `rebalances`: among queues that borrow, by how large a part each holds
    (`Shares.may_rebalance`)."""

    def __init__(
        self,
        live: Live,
        advance: AdvanceReservations,
        placements: Placements,
        job: JobAsk,
        shape: Shape,
        pool: int,
        *,
        rebalances: bool = False,
    ) -> None:
        self.live = live
        self.advance = advance
        self.placements = placements
        self.machines: Machines = live.machines
        self.shares: Shares = live.shares
        self.job = job
        self.pool = pool
        self.now = live.now
        self.need = shape.least[pool]
        self._shape = shape
        self.gang = at_least(shape.gang)
        self.by_machine: Mapping[int, Sequence[Running]] = {}
        amount: Amount = shape.inside.get(pool, (0, 0, 0))
        self._amount = amount
        self.rebalances = rebalances
        self.reach = 0 if rebalances else live.shares.reach(job.queue, pool, amount) if live.policy.reclaims else -1
        self.may_claim = self.reach >= 0
        preempts = live.policy.preempts and not rebalances
        lowest = min(live.evictable.priorities.get((pool, job.queue), ()), default=job.priority) if preempts else job.priority
        self.may_preempt = lowest < job.priority
        self.cost: dict[str, int] = {}  # By job that might be evicted; set once cheap bounds do not exclude that it helps.
        self._candidates: Sequence[VictimCandidates] = ()
        self._freed: Mapping[int, Amounts] = {}
        self.members: Set[int] | None = None
        self.is_spared: Callable[[Running], bool] | None = None  # Whether a gang is left out whatever it costs.
        self.spared: set[str] = set()  # Further jobs that are left out.
        self._keeps_deserved = True
        self._allowed: dict[int, bool] = {}
        self._chosen: Mapping[str, Running] = {}
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
        gangs = [running for candidates in self._candidates for running in candidates.gangs.values()]
        costs = {running.job.id: self._cost(running) for running in gangs}
        # The cheapest first may use up what may be taken from a queue. The largest first takes it in few pieces; the smallest
        # first takes the most, because the last victim may hold more than what is left.
        found: list[Running] | None = None
        for order in (None, _large_first, _small_first):
            self.cost = costs if order is None else {running.job.id: order(running) for running in gangs}
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
        """Whether there might be enough victims, by cheap bounds."""
        return self._gather() and self._could_do()

    # --- Possible victims ---------------------------------------------------------------------------------------------

    def _gather(self) -> bool:
        """Gather all gangs that might be evicted, by machine. Returns whether there is any."""
        live, amount = self.live, self._amount
        free = self.machines.free(self.pool)
        short = (amount[0] > free.cpu_millis, amount[1] > free.memory_bytes, amount[2] > free.gpu_millis)
        self._short: Sequence[bool] | None = short if any(short) else None
        evictable = live.evictable
        found = []
        for queue in self._near():
            own = queue == self.job.queue
            candidates = evictable.candidates(self.pool, queue, self.job.priority if own else None)
            if candidates.gangs and self._may_ask(queue):
                found.append(candidates)
        return self._consider(found)

    def _near(self) -> Sequence[int]:
        """The queues whose work might be evicted."""
        if self.reach < 0:
            return (self.job.queue,)
        return self.live.tree(self.reach) if self.reach else self.live.evictable.queues(self.pool)

    def _may_ask(self, queue: int) -> bool:
        if queue == self.job.queue:
            return self.live.policy.preempts and not self.rebalances
        return self._may_reclaim(queue)

    def _consider(self, candidates: Sequence[VictimCandidates]) -> bool:
        """Search among these gangs. Returns whether there is any."""
        self._candidates = candidates
        self._freed, self.by_machine = _together(candidates)
        return bool(candidates)

    def _cost(self, running: Running) -> int:
        return running.cost(self.now)

    def _may_reclaim(self, queue: int) -> bool:
        if self.rebalances:
            return self.shares.may_rebalance(self.job.queue, queue, self.pool, self._amount)
        return self.shares.may_reclaim(self.job.queue, queue, self.pool, self._amount, self._short)

    def _may_evict(self, running: Running) -> bool:
        """Whether the rules allow to evict a gang, after those that were chosen already."""
        queue = running.job.queue
        if self.advance and self.advance.keeps(running, self.job):
            return False
        if running.job.id in self.spared or (self.is_spared is not None and self.is_spared(running)):
            return False
        if queue == self.job.queue:
            return True
        allowed = self._allowed.get(queue)
        if allowed is None:
            allowed = self._allowed[queue] = self._may_reclaim(queue)
        if not allowed or not self._keeps_deserved:
            return allowed
        if self.rebalances:
            gives: Amount = dict(running.need).get(self.pool, (0, 0, 0))
            if not self.shares.may_rebalance(self.job.queue, queue, self.pool, self._amount, gives):
                return False
        above = set(self.shares.path[self.job.queue])
        for pool, amount in running.need:
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

    def old_enough_at(self) -> int:
        """When enough gangs will have run for their least run time, by the bound of `could_do`: time alone may make room from
        then on. 0 where it will not, also because there are enough victims and other rules protect them."""
        later = self.live.evictable.later(self.pool, self.job.queue, self.job.priority)
        near = {running.job.queue for _, running in later}.intersection(self._near())
        asked = {queue for queue in near if self._may_ask(queue)}
        later = [(at, running) for at, running in later if running.job.queue in asked]
        now = self._candidates
        first = 0 if now else 1  # Where machines have room and a limit refuses, a gang has to leave all the same.

        def might(many: int) -> bool:
            self._consider([*now, VictimCandidates(self.pool, (running for _, running in later[:many]))])
            return self._could_do()

        many = bisect_left(range(len(later) + 1), True, lo=first, key=might) if later else 0
        self._consider(now)
        return later[many - 1][0] if 0 < many <= len(later) else 0

    def _could_do(self) -> bool:
        """Whether there might be room if all possible victims left: a cheap bound, by sums and by machine."""
        free = self.machines.free(self.pool)
        sums = [free.cpu_millis, free.memory_bytes, free.gpu_millis]
        for candidates in self._candidates:
            for at, amount in enumerate(candidates.sums):
                sums[at] += amount
        if any(want > there for want, there in zip(self._amount, sums, strict=True)):
            return False
        if not self._is_counted or not self._roles:
            return True
        role, ranking = self._roles[0]
        known = self.placements.get(self.pool, self._shape)
        if known is None:
            fitting = self._count(ranking)
            if fitting >= role.minimum:
                return True
            answer = Unplaced(WaitCode.NO_ROOM, self.pool, role.role, role.minimum, fitting, ranking.tally())
            known = self.placements.remember(self.pool, self._shape, answer)
        return takes_more(self.machines, ranking, role, role.minimum - known.most(self.machines, self.pool), self._freed)

    # --- The cheapest set that is enough ------------------------------------------------------------------------------

    def _try(self) -> list[Running] | None:
        """Evict by trial until the gang fits; all is undone."""
        mark = self.machines.mark()
        chosen: dict[str, Running] = {}
        self._chosen = chosen
        self._allowed.clear()
        try:
            return self._reduce(chosen) if self._grow(chosen) else None
        finally:
            for victim in chosen.values():
                take_shares(self.shares, victim.job.queue, victim.need)
            self.machines.rewind(mark)

    def _grow(self, chosen: dict[str, Running]) -> bool:
        offers: dict[str, list[tuple[int, int]]] = {}
        offered_at: dict[str, int] = {}  # How many were chosen when the offers were listed.
        counts = {role.role: self._count(ranking) for role, ranking in self._roles}
        while True:
            lacking = next((entry for entry in self._roles if counts[entry[0].role] < entry[0].minimum), None)
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
                del offers[role.role]  # Some gangs may be evicted now that might not before.
                continue
            counts = {name.role: self._count(each) for name, each in self._roles} if not self._is_counted else counts
            if self._is_counted:
                counts[role.role] = self._counted

    def _bounds(self, role: RoleAsk, ranking: Ranking) -> list[tuple[int, int]]:
        """A lower bound of the cost of one more task on each machine: by GPUs alone, and as if victims could be divided."""
        heap = []
        want = role.ask.gpu_millis
        for machine, here in self.by_machine.items():
            if self.members is not None and machine not in self.members:
                continue
            here_now = self.machines.class_of[machine]
            missing = want * (ranking.copies(here_now) + 1) - here_now.gpu
            rates = []
            for running in here:
                gpus = sum(task.ask.gpu_millis for task in running.placed.tasks if task.machine == machine)
                if gpus:
                    rates.append((self.cost[running.job.id] * FINE // max(running.gpu_millis, 1), gpus))
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
        """Take the cheapest step by which a machine takes one task more; False when there is none."""
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
            heapq.heappush(heap, (0, machine))  # For one task more; its cost is counted when it comes up.
            return True
        return False

    def _step(
        self, machine: int, role: RoleAsk, ranking: Ranking, chosen: dict[str, Running]
    ) -> tuple[int, int, list[Running]] | None:
        """Evict on one machine, cheapest first, until it takes one task more, and keep those victims that were not needed.
        Returns the price per task gained, how many were gained, and the victims; None where it takes no more."""
        class_of = self.machines.class_of
        before = ranking.copies(class_of[machine])
        victims: list[Running] = []
        gained_elsewhere = 0
        gains: dict[str, int] = {}
        for running in sorted(self.by_machine[machine], key=lambda running: (self.cost[running.job.id], running.key)):
            if (
                running.job.id in chosen
                or not self._helps(running, machine, role.ask, before + 1)
                or not self._may_evict(running)
            ):
                continue
            gains[running.job.id] = self._evict(running, chosen, ranking, machine)
            gained_elsewhere += gains[running.job.id]
            victims.append(running)
            if ranking.copies(class_of[machine]) > before:
                break
        else:
            self._keep(victims, chosen)
            return None
        for victim in sorted(victims[:-1], key=lambda victim: (-self.cost[victim.job.id], victim.key)):
            self._keep([victim], chosen)
            if ranking.copies(class_of[machine]) > before:
                victims.remove(victim)
                gained_elsewhere -= gains[victim.job.id]
            else:
                self._evict(victim, chosen, ranking, machine)
        gain = ranking.copies(class_of[machine]) - before + gained_elsewhere
        return self._sum(victims) * FINE // gain, gain, victims

    def _helps(self, running: Running, machine: int, ask: TaskAsk, many: int) -> bool:
        """Whether a gang holds on a machine what `many` tasks lack there."""
        here = self.machines.class_of[machine]
        tasks = [task.ask for task in running.placed.tasks if task.machine == machine]
        each = ask.gpu_millis
        if each >= WHOLE_MILLIS:
            lacks_gpu = here.whole * WHOLE_MILLIS < each * many
        else:
            lacks_gpu = each > 0 and sum(left // each for left in here.devices) < many
        return (
            (lacks_gpu and any(task.gpu_millis for task in tasks))
            or (here.cpu < ask.cpu_millis * many and any(task.cpu_millis for task in tasks))
            or (here.memory < ask.memory_bytes * many and any(task.memory_bytes for task in tasks))
            or (here.tasks is not None and here.tasks < many and bool(tasks))
        )

    def _evict(self, victim: Running, chosen: dict[str, Running], ranking: Ranking, machine: int) -> int:
        """Evict by trial. Returns how many tasks more all other machines take because of it."""
        at, members = self.machines.at, self.members
        others = [
            other
            for other in {task.machine for task in victim.placed.tasks} - {machine}
            if at[other].pool == ranking.pool and (members is None or other in members)
        ]
        before = ranking.room_on(others)
        undo(victim.placed, self.machines)
        give_shares(self.shares, victim.job.queue, victim.need)
        chosen[victim.job.id] = victim
        self._allowed.clear()
        return ranking.room_on(others) - before

    def _keep(self, victims: Iterable[Running], chosen: dict[str, Running]) -> None:
        """Undo the trial eviction of these gangs."""
        for victim in victims:
            redo(victim.placed, self.machines)
            take_shares(self.shares, victim.job.queue, victim.need)
            del chosen[victim.job.id]
        self._allowed.clear()

    def _evict_any(self, chosen: dict[str, Running]) -> bool:
        """Evict the cheapest gang, where there is room but a limit refuses. Returns whether there was one."""
        by_job = {running.job.id: running for here in self.by_machine.values() for running in here}
        for running in sorted(by_job.values(), key=lambda running: (self.cost[running.job.id], running.key)):
            if running.job.id not in chosen and self._may_evict(running):
                self._evict(running, chosen, self._roles[0][1], -1)
                return True
        return False

    def _reduce(self, chosen: dict[str, Running]) -> list[Running]:
        """Keep victims that are not needed, most expensive first. Returns the others."""
        for victim in sorted(chosen.values(), key=lambda victim: (-self.cost[victim.job.id], victim.key)):
            self._keep([victim], chosen)
            if not self._is_enough():
                self._evict(victim, chosen, self._roles[0][1], -1)
        return sorted(chosen.values(), key=lambda victim: victim.key)

    # --- Whether it is enough -----------------------------------------------------------------------------------------

    def _is_enough(self) -> bool:
        if not self.live.has_room(self.job.queue, self.need):
            return False
        advance = self.advance
        if advance and advance.refusal(self.job, self.need, self.now, delay=self._leave_seconds) is not None:
            return False
        return self._fits_but_for_limits()

    @property
    def _leave_seconds(self) -> int:
        """How long the chosen victims may take to leave, in seconds."""
        return max(
            (grace_of(victim.job, self.live.policy) for victim in self._chosen.values()), default=self.live.policy.grace_seconds
        )

    def _fits_but_for_limits(self) -> bool:
        if self._is_counted:
            return self._count(self._roles[0][1]) >= self._roles[0][0].minimum
        return has_place(self.gang, self.machines, self.pool)

    def _count(self, ranking: Ranking) -> int:
        if self.members is None:
            found = ranking.room_of_all(self.machines.classes(ranking.pool))
        else:
            found = ranking.room_on(self.members)
        self._counted = found
        return found

    def _domains(self) -> Iterator[Set[int] | None]:
        """The machines of each domain of the level on which the gang insists; None: all machines."""
        domains = insisted_domains(self.gang, self.machines, self.pool)
        if domains is None:
            yield None
        else:
            able = sorted(domains, key=lambda domain: (-len(domain.members), domain.name))
            yield from (domain.members for domain in able[:DOMAINS_MAX])

    def _sum(self, victims: Iterable[Running]) -> int:
        return sum(self.cost[victim.job.id] for victim in victims)


def _large_first(running: Running) -> int:
    return FINE // max(1, running.gpu_millis)


def _small_first(running: Running) -> int:
    return running.gpu_millis


def _together(found: Sequence[VictimCandidates]) -> tuple[Mapping[int, Amounts], Mapping[int, Sequence[Running]]]:
    """Possible victims of several queues, by machine: what they would free there, and the gangs."""
    if len(found) == 1:
        return found[0].freed, found[0].by_machine
    freed: dict[int, Amounts] = {}
    by_machine: dict[int, list[Running]] = {}
    for candidates in found:
        for machine, here in candidates.by_machine.items():
            by_machine.setdefault(machine, []).extend(here)
            more, held = candidates.freed[machine], freed.get(machine, (0, 0, 0))
            freed[machine] = (held[0] + more[0], held[1] + more[1], held[2] + more[2])
    return freed, by_machine
