"""How long a job that was not submitted would be planned to run."""

from __future__ import annotations

import uuid
from typing import NamedTuple

from jobs.loading.predictions import predict_run
from jobs.scheduling.questions.predict import Predictor
from jobs.services.submission import Submission


class Planned(NamedTuple):
    """In seconds: typically, and at most by nine in ten. None: nothing is known."""

    typical: int | None
    cautious: int | None


def planned_seconds(predictor: Predictor, submission: Submission, user_id: uuid.UUID, gpu_millis: int) -> Planned:
    """How long a job that was not submitted would be planned to run: as `Predictions` would write it, and where nothing is known
    of its kind as its queue says."""
    found = predict_run(predictor, user_id, submission.spec.name, submission.queue.id, gpu_millis, submission.max_runtime_seconds)
    if found is not None and found.runs:
        return Planned(found.typical, found.cautious)
    return Planned(submission.cautious_seconds, submission.cautious_seconds)
