"""How long waiting jobs will run, by what ran before: written to each job once, before the scheduler sees it first.

The columns of the job are the truth: the core at work, the next leader and every question plan with the same times. A
job keeps its prediction, however the history goes on: so a sweep finds nothing changed. A job of whose kind nothing is known is
predicted again whenever it is read.
"""

from __future__ import annotations

import uuid
from collections import deque
from collections.abc import Collection, Iterable
from functools import cache, partial

from jobs.loading.history import HISTORY_RUNS, add_runs, predictor_of_history
from jobs.loading.rows import LiveRow, PendingRow
from jobs.models import Attempt, Job
from jobs.scheduling.questions.predict import Prediction, Predictor, size_of
from reconciling import bulk


class Predictions:
    """Predicts by the latest runs. They are read whole once, then those that the driver says have ended."""

    def __init__(self) -> None:
        self._predictor: Predictor | None = None
        self._ended: deque[uuid.UUID] = deque(maxlen=HISTORY_RUNS)

    def has_ended(self, rows: Iterable[LiveRow], still: Collection[uuid.UUID] = ()) -> None:
        """These attempts do not run any more, but for those in `still`. Each is told of once."""
        if self._predictor is not None:
            self._ended.extend(row.attempt_id for row in rows if row.attempt_id not in still)

    def predict(self, rows: Iterable[PendingRow]) -> list[PendingRow]:
        """These jobs with their predictions, which are written where they are new: one query for what has ended, where there are
        jobs without a prediction, and one for a thousand that get one."""
        known = list(rows)
        unknown = [position for position, row in enumerate(known) if row.predicted_seconds is None]
        if not unknown:
            return known
        predict, changes = cache(partial(predict_run, self._refreshed())), list[bulk.Row]()
        for position in unknown:
            row = known[position]
            found = predict(row.user_id, row.name, row.queue_id, row.gpu_millis, row.max_runtime_seconds)
            if found is not None and found.runs:  # Without runs it says what was asked for, which the core knows.
                known[position] = row._replace(predicted_seconds=found.typical, cautious_seconds=found.cautious)
                changes.append({"id": row.id, "predicted_seconds": found.typical, "cautious_seconds": found.cautious})
        for start in range(0, len(changes), bulk.BATCH_ROWS):  # A statement each, so that no lock is held for long.
            bulk.update(Job, changes[start : start + bulk.BATCH_ROWS])
        return known

    def _refreshed(self) -> Predictor:
        """All that is known: read whole at first, then what has ended since."""
        if self._predictor is None:
            self._predictor = predictor_of_history()
        elif self._ended:
            add_runs(self._predictor, Attempt.objects.filter(id__in=list(self._ended)).order_by("-id"))
            self._ended.clear()
        return self._predictor


def predict_run(
    predictor: Predictor, user_id: uuid.UUID, name: str, queue_id: uuid.UUID, gpu_millis: int, longest: int | None
) -> Prediction | None:
    """How long a run of such a job would take; None where nothing is known. `longest`: in seconds, of the job itself."""
    size = size_of(gpu_millis, longest)
    return predictor.predict(user=str(user_id), name=name, queue=str(queue_id), longest=longest, size=size)
