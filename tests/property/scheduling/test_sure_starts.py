"""A sure reserved start ends only because its job starts, or because a job takes it that may, which is recorded: one of its queue
and no lower priority, or of a queue that takes back what it deserves. So it is with one start a pool and with several.
"""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import Phase, example, given, settings
from hypothesis import strategies as some

from jobs.scheduling.core.state.decisions import Reserve
from jobs.scheduling.core.state.reservation import KeptReservation
from jobs.scheduling.core.state.work import JobAsk
from tenants.capacity.quota.limits import Limit
from tests.property.scheduling.test_latest_start import SHAPES, History, come, policy_of, state_of

LIMITS = (
    (Limit(), Limit()),
    (Limit(deserved=2000), Limit()),
    (Limit(deserved=1000), Limit(deserved=1000)),
    (Limit(deserved=2000, ceiling=2000), Limit(deserved=2000)),
    (Limit(deserved=3000, ceiling=3000), Limit(deserved=1000)),
)
arrivals_of = some.lists(
    some.tuples(
        some.integers(1, 60),  # Submitted.
        some.integers(1, 2),
        some.sampled_from(SHAPES),
        some.sampled_from((10, 30, 90, 200)),  # Longest time.
        some.integers(0, 30),  # How much less it really takes.
        some.sampled_from((500, 500, 900, 100)),
    ),
    min_size=3,
    max_size=14,
)


class Watched(History):
    """A history that keeps what was told of sure starts that ended with a cause."""

    def __init__(self, *told: Any) -> None:
        super().__init__(*told)
        self.jobs: dict[str, JobAsk] = {arrival.job.id: arrival.job for arrival in self.arrivals}
        self.ended: list[tuple[KeptReservation, Reserve]] = []

    def _pass(self, now: int) -> None:
        sure = {reservation.id: reservation for reservation in self.core.reservations.kept()}
        decide = self.core.decide

        def watched(at: int) -> Any:
            decisions = decide(at)
            self.ended += [
                (sure[decision.id], decision)
                for decision in decisions
                if isinstance(decision, Reserve) and decision.cause and decision.id in sure
            ]
            return decisions

        self.core.decide = watched  # type: ignore[method-assign]
        super()._pass(now)
        self.core.decide = decide  # type: ignore[method-assign]


@pytest.mark.capability("6.11", "A sure start ends by no lower priority of its queue, nor by rebalancing, in random histories")
@settings(max_examples=150, deadline=None, phases=(Phase.explicit, Phase.reuse, Phase.generate))
# A later job of lower priority takes back what its queue deserves.
@example(
    [(1, 2, (1, 2), 90, 0, 500), (2, 1, (1, 1), 200, 0, 500), (2, 2, (1, 1), 200, 0, 500), (3, 1, (1, 2), 30, 0, 900),
     (4, 1, (1, 1), 200, 0, 500)],
    (Limit(deserved=3000), Limit(deserved=1000)),
    1,
)  # fmt: skip
# A job that would end before the start claims for it.
@example(
    [*[(1, 1, (1, 1), 10, 0, 500)] * 3, (1, 1, (1, 2), 10, 0, 500), (1, 2, (1, 1), 30, 0, 500), (1, 2, (1, 2), 30, 0, 500),
     (1, 1, (1, 1), 10, 0, 500)],
    (Limit(deserved=2000, ceiling=2000), Limit(deserved=2000)),
    1,
)  # fmt: skip
# A claim takes what is kept for one of three starts, which leaves the limits to another.
@example(
    [(30, 1, (1, 1), 90, 9, 500), (20, 2, (1, 2), 30, 11, 500), (1, 2, (2, 2), 30, 7, 900), (27, 1, (1, 2), 200, 13, 100),
     (1, 2, (1, 2), 200, 19, 900), (25, 2, (1, 1), 200, 19, 100)],
    (Limit(deserved=1000), Limit(deserved=1000)),
    3,
)  # fmt: skip
@given(arrivals_of, some.sampled_from(LIMITS), some.sampled_from((1, 1, 2, 3)))
def test_a_sure_start_ends_only_by_a_job_of_no_lower_priority_or_for_what_a_queue_deserves(
    arrivals: list[tuple[int, int, tuple[int, int], int, int, int]], limits: tuple[Limit, Limit], depth: int
) -> None:
    comes = [
        come(number, at, queue, *shape, most, max(1, most - less), priority)
        for number, (at, queue, shape, most, less, priority) in enumerate(arrivals)
    ]
    history = Watched(state_of(policy_of(preempts=True, rebalances=True, backfill_depth=depth), limits), comes)
    history.run(asks_max=0)
    for _, told in history.ended:
        assert told.cause == "yielded", "no machine is lost, and no limit lowered"
        assert told.by in history.jobs, f"{told.id} yields to no job that stands above it"
        above, below = history.jobs[told.by], history.jobs[told.id]
        assert above.queue != below.queue or above.priority >= below.priority
        assert above.queue == below.queue or limits[above.queue - 1].deserved, "what its queue does not deserve takes no start"
