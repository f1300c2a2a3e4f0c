"""Who is next: the waiting jobs of each queue in order, and the queues in theirs (`tenants/quota/turns.py`).

The ideal: after every decision all waiting jobs are sorted anew, by the fair order of their queues, then by class, place in the
queue, time of submission and id, and the first that has not been looked at comes next. The shortcut: jobs of one queue with equal
asks and priority meet the same fate, so they form one group, in order, of which only the first is looked at; a refusal refuses
the group. A queue is a heap of its groups by their first, a refused group leaves it until something that could change its fate
does happen (`WakeUps` wakes it). The next job is the same as by sorting, and what a pass costs goes with the groups that are
open.

Of jobs of one priority those come first that are expected to be shorter: a job stands `shortest_first` times its expected run
time further behind, a day at most.

Aging is by a line and alike for all, so it never changes who of two is before the other: a class higher is worth so many
seconds of waiting, whenever one looks. So the order needs no clock, and only finitely many jobs that come later pass one that
waits.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from heapq import heapify, heappop, heappush, nsmallest

from jobs.scheduling.core.state.decisions import Reason
from jobs.scheduling.core.state.work import Job, Shape
from tenants.quota.shares import Shares
from tenants.quota.turns import Turns

Key = tuple[int, int, str]
OPEN, REFUSED, EMPTY = range(3)
BEHIND_MAX = 86_400  # Seconds for which a job waits at most because shorter ones come first.


def behind(runtime: int | None, *, times: int, assumed: int) -> int:
    """By how many seconds a job stands further behind because others are shorter. `runtime` None: nothing is known of it."""
    return min(BEHIND_MAX, times * (assumed if runtime is None else runtime))


class Group:
    """The jobs of one queue that meet the same fate, in order. `waits_in` are the sets of groups that it is woken from."""

    __slots__ = (
        "_heap",
        "_jobs",
        "is_bounded",
        "key",
        "phase",
        "priority",
        "queue",
        "reason",
        "shape",
        "told",
        "waits_in",
    )

    def __init__(self, queue: int, shape: Shape, priority: int) -> None:
        self.queue = queue
        self.shape = shape
        self.priority = priority
        self.phase = EMPTY
        self.reason: Reason | None = None
        self.told: tuple[str, Reason] | None = None
        self.waits_in: list[set[Group]] = []
        self.is_bounded = False  # Whether the bounds woke it; where they refuse it by its turn, it waits on.
        self.key: Key | None = None  # Of the entry in the heap of its queue that counts.
        self._heap: list[tuple[Key, Job]] = []
        self._jobs: dict[str, Job] = {}

    def __len__(self) -> int:
        return len(self._jobs)

    @property
    def was_refused(self) -> bool:
        """Whether it was, as far as is known: also while it is looked at again because the bounds do not refuse it."""
        return self.phase == REFUSED or (self.phase == OPEN and self.is_bounded)

    def ids(self) -> list[str]:
        """Of its jobs, in no order."""
        return list(self._jobs)

    def add(self, key: Key, job: Job) -> None:
        self._jobs[job.id] = job
        heappush(self._heap, (key, job))

    def remove(self, job: Job) -> None:
        del self._jobs[job.id]
        if len(self._heap) > 2 * len(self._jobs) + 16:
            self._heap = [entry for entry in self._heap if self._jobs.get(entry[1].id) is entry[1]]
            heapify(self._heap)

    def jobs(self) -> Iterable[Job]:
        return self._jobs.values()

    def firsts(self, count: int) -> list[Job]:
        """The first so many, in order."""
        if count == 1:
            first = self.first()
            return [first[1]] if first is not None else []
        alive = (entry for entry in self._heap if self._jobs.get(entry[1].id) is entry[1])
        return [job for _, job in nsmallest(count, alive, key=lambda entry: entry[0])]

    def first(self) -> tuple[Key, Job] | None:
        heap = self._heap
        while heap and self._jobs.get(heap[0][1].id) is not heap[0][1]:
            heappop(heap)
        return heap[0] if heap else None


class Ordering:
    """All queues with their groups. `aging_seconds`: how much waiting one point of priority is worth; 0: any amount."""

    def __init__(self, shares: Shares, *, aging_seconds: int, in_order: bool, shortest_first: int = 0, assumed: int = 0) -> None:
        self._shares = shares
        self._aging = aging_seconds
        self._in_order = in_order
        self._shortest_first = shortest_first
        self._assumed = assumed
        self._turns = Turns(shares, ())
        self._open: dict[int, list[tuple[Key, int, Group]]] = {}
        self._groups: dict[tuple[int, int, int, int, int], Group] = {}
        self._group_of: dict[str, Group] = {}
        self._job_of: dict[str, Job] = {}
        self._of_queue: dict[int, set[Group]] = {}
        self.by_shape: dict[Shape, list[Group]] = {}
        self._stops: dict[int, dict[Group, Key]] = {}  # By queue, refused groups whose first nobody of the queue may pass.
        self._sequence = 0  # Keeps the heaps from comparing groups; decides nothing.

    def __len__(self) -> int:
        return len(self._job_of)

    def __contains__(self, job_id: str) -> bool:
        return job_id in self._job_of

    def job(self, job_id: str) -> Job | None:
        return self._job_of.get(job_id)

    def group(self, job_id: str) -> Group | None:
        return self._group_of.get(job_id)

    def groups_of(self, queue: int) -> set[Group]:
        return self._of_queue.get(queue, set())

    def groups(self) -> list[Group]:
        return [one for one in self._groups.values() if len(one)]

    def key(self, job: Job) -> Key:
        placed_at = job.submitted_at + job.order + self._behind(job)
        if not self._aging:
            return (-job.priority, placed_at, job.id)
        return (placed_at - job.priority * self._aging, placed_at, job.id)

    def _behind(self, job: Job) -> int:
        """By how many seconds a job stands further behind because others are shorter."""
        return behind(job.runtime(trusted=False), times=self._shortest_first, assumed=self._assumed)

    def add(self, job: Job, shape: Shape, runtime: int, kind: int = 0) -> None:
        """A job waits. `runtime` and `kind` part jobs that are equal otherwise, where these may decide."""
        at = (job.queue, shape.number, job.priority, runtime, kind)
        group = self._groups.get(at)
        if group is None:
            group = self._groups[at] = Group(job.queue, shape, job.priority)
            self._of_queue.setdefault(job.queue, set()).add(group)
            self.by_shape.setdefault(shape, []).append(group)
        key = self.key(job)
        group.add(key, job)
        self._group_of[job.id] = group
        self._job_of[job.id] = job
        if group.phase == EMPTY:
            self._enter(group)
        elif group.phase == OPEN and group.key is not None and key < group.key:
            self._push(group, key)
        stops = self._stops.get(job.queue, {})
        if self._in_order and key < stops.get(group, key):
            stops[group] = key
        if group.phase == OPEN:
            self._turns.add(job.queue)

    def remove(self, job_id: str) -> Job:
        """A job waits no longer."""
        job = self._job_of.pop(job_id)
        group = self._group_of.pop(job_id)
        first = group.first()
        group.remove(job)
        following = group.first()
        if following is None:
            self._forget(group)
            group.phase, group.reason, group.told, group.is_bounded = EMPTY, None, None, False
        elif group.phase == OPEN and first is not None and first[1] is job:
            self._push(group, following[0])
        if group in self._stops.get(job.queue, {}) and first is not None and first[1] is job:
            self.wake(group)
        return job

    def next(self, may_go_on: Callable[[Group], bool]) -> tuple[Group, Job] | None:
        """The job whose turn it is; it stays so until it is removed or its group refused. A group that the bounds woke waits on,
        as it did, where it may not go on by now."""
        while (queue := self._turns.next()) is not None:
            heap = self._open.get(queue, [])
            while heap:
                key, _, group = heap[0]
                if group.phase == OPEN and group.key == key:
                    first = group.first()
                    assert first is not None
                    if first[0] == key:
                        stop = self.stopped_by(queue)
                        if stop is not None and key > stop:
                            break
                        if not group.is_bounded or may_go_on(group):
                            return group, first[1]
                        group.phase, group.is_bounded = REFUSED, False
                        heappop(heap)
                        continue
                    self._push(group, first[0])
                else:
                    heappop(heap)
            self._turns.drop(queue)
        return None

    def refuse(self, group: Group, reason: Reason) -> None:
        """The group leaves the order until it is woken; where queues are served in order, nobody of its queue passes it."""
        group.phase, group.reason = REFUSED, reason
        first = group.first()
        if self._in_order and first is not None:
            self._stops.setdefault(group.queue, {})[group] = first[0]

    def wake(self, group: Group) -> None:
        """Something changed that may change the fate of a group."""
        if group.phase == REFUSED:
            self._forget(group)
            self._enter(group)
        group.is_bounded = False

    def wake_bounded(self, group: Group) -> None:
        """The bounds do not refuse a group any more; until it is asked it stays in the sets in which it waits."""
        if group.phase == REFUSED:
            group.is_bounded = True
            self._enter(group)

    def ask(self, group: Group) -> None:
        """A group is asked: what it waited for is found out anew."""
        group.is_bounded = False
        self._forget(group)

    def stopped_by(self, queue: int) -> Key | None:
        """Where the queue is served in order: the job at which it stands."""
        stops = self._stops.get(queue)
        return min(stops.values()) if stops else None

    def stops(self, queue: int) -> list[tuple[Group, Job]]:
        """Where the queue is served in order: the refused groups that nobody passes, with their first jobs."""
        found = ((group, group.first()) for group in self._stops.get(queue, {}))
        return [(group, first[1]) for group, first in found if first is not None]

    def follow(self, shares: Shares) -> None:
        """Go on with other shares of the same queues."""
        self._shares = shares
        self._turns = Turns(shares, sorted(queue for queue, groups in self._of_queue.items() if any(len(one) for one in groups)))

    def _enter(self, group: Group) -> None:
        first = group.first()
        assert first is not None
        group.phase = OPEN
        self._push(group, first[0])
        self._turns.add(group.queue)

    def _push(self, group: Group, key: Key) -> None:
        group.key = key
        self._sequence += 1
        heappush(self._open.setdefault(group.queue, []), (key, self._sequence, group))

    def _forget(self, group: Group) -> None:
        if self._stops.get(group.queue, {}).pop(group, None) is not None and self._open.get(group.queue):
            self._turns.add(group.queue)
        for others in group.waits_in:
            others.discard(group)
        group.waits_in = []
