"""The order of waiting jobs: of each queue's jobs, and of the queues (`tenants/capacity/quota/turns.py`).

The ideal: after every decision all waiting jobs are sorted anew, by the fair order of their queues, then by priority, place in
the queue, time of submission and id, and the first that has not been asked comes next. The shortcut: jobs of one queue with equal
asks and priority get the same answer, so they form one group, in order, of which only the first is asked; a refusal refuses the
group. A queue is a heap of its groups by their first job; a refused group leaves it until a change that could help it (`WakeUps`
wakes it). The next job is the same as by sorting, and the cost of a pass depends on the open groups.

Of jobs of one priority the shorter come first: a job stands `shortest_first` times its expected run time further behind, a day at
most.

Aging is linear and equal for all jobs, so it never changes which of two jobs is first: a higher priority is worth the same number
of seconds of waiting at any time. So the order needs no clock, and only finitely many later jobs pass a waiting job.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from heapq import heapify, heappop, heappush, nsmallest

from jobs.scheduling.core.state.decisions import WaitReason
from jobs.scheduling.core.state.work import JobAsk, Shape
from tenants.capacity.quota.shares import Shares
from tenants.capacity.quota.turns import Turns

Key = tuple[int, int, str]
OPEN, REFUSED, EMPTY = range(3)
BEHIND_MAX = 86_400  # Seconds for which a job waits at most because shorter ones come first.


def behind(runtime: int | None, *, times: int, assumed: int) -> int:
    """By how many seconds a job stands further behind because others are shorter. `runtime` None: not known."""
    return min(BEHIND_MAX, times * (assumed if runtime is None else runtime))


class Group:
    """The jobs of one queue that get the same answer, in order. `waits_in`: the sets of refused groups that it is in."""

    __slots__ = (
        "_heap",
        "_jobs",
        "at",
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

    def __init__(self, at: tuple[int, int, int, int, int], shape: Shape) -> None:
        self.at = at  # Common to its jobs: queue, number of the shape, priority, planned run time, kind.
        self.queue = at[0]
        self.shape = shape
        self.priority = at[2]
        self.phase = EMPTY
        self.reason: WaitReason | None = None
        self.told: tuple[str, WaitReason] | None = None
        self.waits_in: list[set[Group]] = []
        self.is_bounded = False  # Whether the bounds woke it; where they refuse it at its turn, it waits on.
        self.key: Key | None = None  # The key of its valid entry in the heap of its queue.
        self._heap: list[Key] = []  # Also keys of jobs that have left; valid ones are in `_jobs`.
        self._jobs: dict[str, tuple[Key, JobAsk]] = {}

    def __len__(self) -> int:
        return len(self._jobs)

    @property
    def was_refused(self) -> bool:
        """Whether it was refused, as far as is known: also while it is asked again because the bounds do not refuse it."""
        return self.phase == REFUSED or (self.phase == OPEN and self.is_bounded)

    def ids(self) -> list[str]:
        """The ids of its jobs, in no order."""
        return list(self._jobs)

    def add(self, key: Key, job: JobAsk) -> None:
        self._jobs[job.id] = (key, job)
        heappush(self._heap, key)

    def remove(self, job: JobAsk) -> None:
        del self._jobs[job.id]
        if len(self._heap) > 2 * len(self._jobs) + 16:
            self._heap = [key for key, _ in self._jobs.values()]
            heapify(self._heap)

    def jobs(self) -> Iterable[JobAsk]:
        return [job for _, job in self._jobs.values()]

    def firsts(self, count: int) -> list[JobAsk]:
        """The first `count` jobs, in order."""
        if count == 1:
            first = self.first()
            return [first[1]] if first is not None else []
        return [job for _, job in nsmallest(count, self._jobs.values(), key=lambda entry: entry[0])]

    def first(self) -> tuple[Key, JobAsk] | None:
        heap = self._heap
        while heap:
            entry = self._jobs.get(heap[0][-1])
            if entry is not None and entry[0] == heap[0]:
                return entry
            heappop(heap)
        return None


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
        self._job_of: dict[str, JobAsk] = {}
        self.by_shape: dict[Shape, list[Group]] = {}
        self._stops: dict[int, dict[Group, Key]] = {}  # By queue, refused groups whose first no job of the queue may pass.
        self._sequence = 0  # Keeps the heaps from comparing groups; decides nothing.

    def __len__(self) -> int:
        return len(self._job_of)

    def __contains__(self, job_id: str) -> bool:
        return job_id in self._job_of

    def job(self, job_id: str) -> JobAsk | None:
        return self._job_of.get(job_id)

    def group(self, job_id: str) -> Group | None:
        return self._group_of.get(job_id)

    def groups(self) -> list[Group]:
        return list(self._groups.values())

    def key(self, job: JobAsk) -> Key:
        placed_at = job.submitted_at + job.order + self._behind(job)
        if not self._aging:
            return (-job.priority, placed_at, job.id)
        return (placed_at - job.priority * self._aging, placed_at, job.id)

    def _behind(self, job: JobAsk) -> int:
        """By how many seconds a job stands further behind because others are shorter."""
        return behind(job.runtime(trusted=False), times=self._shortest_first, assumed=self._assumed)

    def add(self, job: JobAsk, shape: Shape, runtime: int, kind: int = 0) -> None:
        """A job waits. `runtime` and `kind` put jobs that are otherwise equal into different groups, where these may decide."""
        at = (job.queue, shape.number, job.priority, runtime, kind)
        group = self._groups.get(at)
        if group is None:
            group = self._groups[at] = Group(at, shape)
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

    def remove(self, job_id: str) -> JobAsk:
        """A job waits no longer."""
        job = self._job_of.pop(job_id)
        group = self._group_of.pop(job_id)
        first = group.first()
        group.remove(job)
        following = group.first()
        if following is None:
            self._forget(group)
            group.phase, group.reason, group.told, group.is_bounded = EMPTY, None, None, False
            self._drop(group)
        elif group.phase == OPEN and first is not None and first[1] is job:
            self._push(group, following[0])
        if group in self._stops.get(job.queue, {}) and first is not None and first[1] is job:
            self.wake(group)
        return job

    def expect(self, queue: int) -> None:
        """Groups of a queue may be woken once its turn comes."""
        self._turns.add(queue)

    def next(self, wake_queue: Callable[[int], None], may_go_on: Callable[[Group], bool]) -> tuple[Group, JobAsk] | None:
        """The job whose turn it is; it stays so until it is removed or its group refused. `wake_queue` wakes groups of the
        queue whose turn it is. A group that the bounds woke waits on, as it did, where it may not go on by now."""
        while (queue := self._turns.next()) is not None:
            wake_queue(queue)
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

    def refuse(self, group: Group, reason: WaitReason) -> None:
        """The group leaves the order until it is woken; where queues are served in order, no job of its queue passes it."""
        group.phase, group.reason = REFUSED, reason
        first = group.first()
        if self._in_order and first is not None:
            self._stops.setdefault(group.queue, {})[group] = first[0]

    def wake(self, group: Group) -> None:
        """A change may help a group: it is asked again."""
        if group.phase == REFUSED:
            self._forget(group)
            self._enter(group)
        group.is_bounded = False

    def wake_bounded(self, group: Group) -> None:
        """The bounds do not refuse a group any more; until it is asked it stays in its sets of refused groups."""
        if group.phase == REFUSED:
            group.is_bounded = True
            self._enter(group)

    def ask(self, group: Group) -> None:
        """A group is asked: it leaves its sets of refused groups."""
        group.is_bounded = False
        self._forget(group)

    def stopped_by(self, queue: int) -> Key | None:
        """The key of the job at which a queue stands that is served in order; None where there is none."""
        stops = self._stops.get(queue)
        return min(stops.values()) if stops else None

    def stops(self, queue: int) -> list[tuple[Group, JobAsk]]:
        """The refused groups that no job passes in a queue that is served in order, with their first jobs."""
        found = ((group, group.first()) for group in self._stops.get(queue, {}))
        return [(group, first[1]) for group, first in found if first is not None]

    def follow(self, shares: Shares) -> None:
        """Continue with other shares of the same queues."""
        self._shares = shares
        self._turns = Turns(shares, sorted({group.queue for group in self._groups.values()}))

    def _drop(self, group: Group) -> None:
        """Forget a group without jobs."""
        del self._groups[group.at]
        alike = self.by_shape[group.shape]
        alike.remove(group)
        if not alike:
            del self.by_shape[group.shape]

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
        for groups in group.waits_in:
            groups.discard(group)
        group.waits_in = []
