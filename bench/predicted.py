"""A replay of jobs whose run times are predicted from those that ended before, as a live installation does."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from jobs.scheduling.core.core import Core
from jobs.scheduling.questions.predict import Prediction, Predictor
from jobs.scheduling.replay.run import END, Arrival, Replay


class Predicted(Replay):
    """A replay that tells the core of each job, when it comes, how long it will run. `known`: queue, user, name, asked time."""

    def __init__(
        self,
        core: Core,
        arrivals: Sequence[Arrival],
        known: Mapping[str, tuple[str, str, str, int | None]],
        *,
        grace_seconds: int = 30,
    ) -> None:
        super().__init__(core, arrivals, grace_seconds=grace_seconds, on_pass=self._passed)
        self.known = known
        self.predictor = Predictor()
        self.predictions: dict[str, Prediction] = {}
        self.guesses: list[tuple[Prediction, int]] = []

    def _happen(self, kind: int, job_id: str, turn: int, now: int) -> None:
        queue, user, name, asked = self.known[job_id]
        if job_id not in self.predictions:
            guess = self.predictor.predict(user=user, name=name, queue=queue, longest=asked)
            if guess is not None:
                self.predictions[job_id] = guess
                arrival = self._arrivals[job_id]
                expecting = replace(arrival.job, predicted=guess.typical, cautious=guess.cautious)
                self._arrivals[job_id] = replace(arrival, job=expecting)
                if guess.runs:
                    self.guesses.append((guess, self._arrivals[job_id].duration))
        super()._happen(kind, job_id, turn, now)
        stay = self.outcome.stays[job_id]
        if kind == END and stay.finished_at == now:
            self.predictor.add(user=user, name=name, queue=queue, seconds=stay.duration, ended_at=now)

    def _passed(self, core: Core, now: int) -> None:
        """After each pass."""
