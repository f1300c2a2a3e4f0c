"""The jobs that wait, as the database has them, and what is known of their specs, images, volumes and arrays."""

from __future__ import annotations

import uuid
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

from jobs.loading.rows import PendingRow, load_parallelism
from jobs.loading.specs import wishes
from jobs.loading.state import load_volumes
from jobs.scheduling.core.eligibility import Wish
from storage.services.mounts import MeantVolume
from tenants.identity.standing import Place


class Pending:
    """`rows` are the waiting jobs by id. What else is kept of them is read once for all that share it."""

    def __init__(self) -> None:
        self.rows: dict[uuid.UUID, PendingRow] = {}
        self.wishes: dict[uuid.UUID, Wish] = {}  # By stored spec.
        self.volumes: dict[tuple[uuid.UUID, str], MeantVolume | None] = {}  # That jobs mount, by tenant and name.
        self._images: Counter[uuid.UUID] = Counter()  # How many of those who wait refer to each.
        self._places: Counter[Place] = Counter()  # How many of those who wait are of each tenant and owner.
        self._bounds: dict[uuid.UUID, int | None] = {}  # How many children of an array run at once, by array.

    def put(self, row: PendingRow) -> None:
        old = self.rows.get(row.id)
        if old is None or old.place != row.place:
            self._count_place(old, -1)
            self._count_place(row, 1)
        if old is None or old.image_id != row.image_id:
            self._count_image(old, -1)
            self._count_image(row, 1)
        self.rows[row.id] = row

    def drop(self, job_id: uuid.UUID) -> None:
        row = self.rows.pop(job_id, None)
        self._count_image(row, -1)
        self._count_place(row, -1)

    def image_ids(self) -> set[uuid.UUID]:
        """The images that waiting jobs refer to."""
        return set(self._images)

    def places(self) -> set[Place]:
        """Tenants and users whose jobs wait."""
        return set(self._places)

    def read_specs(self, rows: Sequence[PendingRow]) -> None:
        """Read what these jobs ask for, and which volumes they mount, where that is not known yet. Two queries at most."""
        missing = {row.spec_id for row in rows if row.spec_id not in self.wishes}
        if missing:
            self.wishes.update(wishes(missing))
        asked = ((row.tenant_id, self.wishes[row.spec_id]) for row in rows if row.spec_id in self.wishes)
        self.volumes.update(load_volumes(asked, self.volumes))

    def parallelism(self, job_ids: Iterable[uuid.UUID]) -> dict[uuid.UUID, int]:
        """How many children of an array run at once, by array that is bounded; known at least for the arrays of these jobs."""
        rows = (self.rows[job_id] for job_id in job_ids if job_id in self.rows)
        unknown = [row for row in rows if row.parent_id not in self._bounds]
        found = load_parallelism(unknown, ())
        for row in unknown:
            if row.parent_id is not None:
                self._bounds[row.parent_id] = found.get(row.parent_id)
        return {parent: bound for parent, bound in self._bounds.items() if bound is not None}

    def forget_unused(self, fresh: Mapping[uuid.UUID, PendingRow]) -> None:
        """Forget specs and arrays of which none of `fresh`, which are all that wait, is left."""
        used = {row.spec_id for row in fresh.values()}
        self.wishes = {spec_id: wish for spec_id, wish in self.wishes.items() if spec_id in used}
        parents = {row.parent_id for row in fresh.values()}
        self._bounds = {parent: bound for parent, bound in self._bounds.items() if parent in parents}

    def read_volumes_again(self) -> list[uuid.UUID]:
        """Names of volumes may mean others by now; the jobs that mount some, if one does."""
        known = self.volumes
        mounting = [row for row in self.rows.values() if row.spec_id in self.wishes and self.wishes[row.spec_id].mounts]
        self.volumes = load_volumes(((row.tenant_id, self.wishes[row.spec_id]) for row in mounting), {})
        differs = any(known.get(name) != volume for name, volume in self.volumes.items())
        return [row.id for row in mounting] if differs else []

    def _count_place(self, row: PendingRow | None, step: int) -> None:
        if row is not None:
            self._places[row.place] += step
            if not self._places[row.place]:
                del self._places[row.place]

    def _count_image(self, row: PendingRow | None, step: int) -> None:
        if row is not None and row.image_id is not None:
            self._images[row.image_id] += step
            if not self._images[row.image_id]:
                del self._images[row.image_id]
