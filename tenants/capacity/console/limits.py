"""All limits of one queue on one page: tried first, with who would start, wait or be evicted; then made, now or later."""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC
from decimal import Decimal
from typing import TYPE_CHECKING, Any

from django import forms
from django.utils.translation import gettext_lazy as _
from unfold.widgets import UnfoldAdminTextareaWidget, UnfoldAdminTextInputWidget

from kernel.resources import RESOURCE_NAMES, Resources
from tenants.capacity.models import Queue
from tenants.capacity.quota.edits import COLUMNS, Change
from tenants.capacity.quota.limits import AMOUNT_MAX, WEIGHT_MAX, Capacity
from tenants.capacity.reads import Tree, capacities, held_by, limits_tree
from tenants.capacity.services.edits import Consequence, Trial
from webapi.console import spoken

if TYPE_CHECKING:
    from django.utils.functional import _StrOrPromise as StrOrPromise

COLUMN_NAMES = {"guarantee": _("guarantee"), "deserved": _("deserved"), "ceiling": _("ceiling"), "weight": _("weight")}
UNITS: Mapping[str, tuple[StrOrPromise, int]] = {
    "gpu_millis": (_("GPUs"), 1000),
    "cpu_millis": (_("Cores"), 1000),
    "memory_bytes": (_("Memory, GiB"), 1 << 30),
}
HELP = {
    "guarantee": _("Never lent."),
    "deserved": _("Lent while idle, taken back on demand. Empty: the guarantee."),
    "ceiling": _("Never passed. Empty: none."),
    "weight": _("Divides what nobody is promised."),
}


@dataclass(frozen=True, slots=True)
class Line:
    """One resource of one pool, with its four fields, what the pool has and what the queue holds."""

    pool: str
    resource: str
    total: str
    held: str
    fields: tuple[forms.BoundField, ...]


class LimitsForm(forms.Form):
    """Four numbers for every pool and resource, in the units that people speak in. What was not touched is no change."""

    version = forms.IntegerField(widget=forms.HiddenInput)
    effective_from = forms.DateTimeField(
        required=False,
        label=_("From"),
        help_text=_("UTC. Empty: at once."),
        widget=UnfoldAdminTextInputWidget(attrs={"type": "datetime-local"}),
        input_formats=["%Y-%m-%dT%H:%M", "%Y-%m-%dT%H:%M:%S", "%Y-%m-%d %H:%M"],
    )
    comment = forms.CharField(
        required=False,
        max_length=1000,
        label=_("Why"),
        widget=UnfoldAdminTextareaWidget(attrs={"rows": 2}),
        help_text=_("Kept in the audit."),
    )

    def __init__(self, queue: Queue, data: Mapping[str, Any] | None = None) -> None:
        self.queue = queue
        self.tree: Tree = limits_tree()
        self.pools: Sequence[Capacity] = capacities()
        self._limits = next(found for found in self.tree.queues if found.id == queue.pk)
        self._held = held_by([queue.pk])
        super().__init__(data, initial={"version": self.tree.versions[queue.pk]})
        for pool in self.pools:
            for resource in UNITS:
                limit = self._limits.limit(pool.pool_id, resource).as_dict()
                for column in COLUMNS:
                    self.fields[_key(pool.pool_id, resource, column)] = _field(resource, column, limit[column])

    def lines(self) -> Iterator[Line]:
        for pool in self.pools:
            held = self._held.get((self.queue.pk, pool.pool_id), Resources())
            for resource, (unit, _size) in UNITS.items():
                fields = tuple(self[_key(pool.pool_id, resource, column)] for column in COLUMNS)
                total, now = (_shown(getattr(amounts, resource), resource) for amounts in (pool.total, held))
                yield Line(pool.name, str(unit), total, now, fields)

    def clean_effective_from(self) -> Any:
        given = self.cleaned_data["effective_from"]
        return None if given is None else given.replace(tzinfo=UTC)

    def changes(self) -> tuple[Change, ...]:
        """What differs from what holds now, one change for each limit."""
        found = []
        for pool in self.pools:
            for resource in RESOURCE_NAMES:
                before = self._limits.limit(pool.pool_id, resource).as_dict()
                after = {column: self._stored(pool.pool_id, resource, column) for column in COLUMNS}
                values = {column: after[column] for column in COLUMNS if after[column] != before[column]}
                if values:
                    found.append(Change(self.queue.pk, pool.pool_id, resource, values))
        return tuple(found)

    def _stored(self, pool_id: uuid.UUID, resource: str, column: str) -> int | None:
        value: Decimal | None = self.cleaned_data[_key(pool_id, resource, column)]
        if value is None:
            return {"guarantee": 0, "weight": 1}.get(column)
        return int(value * (1 if column == "weight" else UNITS[resource][1]))


@dataclass(frozen=True, slots=True)
class Shown:
    """What a trial came to, in words: breaks, who would hold too much, and what would become of jobs (None: not known)."""

    problems: tuple[str, ...]
    over: tuple[str, ...]
    jobs: Sequence[Consequence] | None


def shown(trial: Trial, jobs: Sequence[Consequence] | None) -> Shown:
    names = {queue.id: queue.name for queue in trial.tree.queues}
    pools = {pool.pool_id: pool.name for pool in trial.pools}
    return Shown(
        tuple(f"{spoken(found.message)} {spoken(found.hint)}".rstrip() for found in trial.fields()),
        tuple(
            _("%(queue)s holds %(used)s of %(pool)s (%(unit)s); its %(column)s would be %(limit)s.")
            % {
                "queue": names[over.queue_id],
                "used": _shown(over.used, over.resource),
                "pool": pools[over.pool_id],
                "unit": UNITS[over.resource][0],
                "column": COLUMN_NAMES[over.column],
                "limit": _shown(over.limit, over.resource),
            }
            for over in trial.outcome.over
        ),
        jobs,
    )


def _key(pool_id: uuid.UUID, resource: str, column: str) -> str:
    return f"{pool_id.hex}-{resource}-{column}"


def _field(resource: str, column: str, value: int | None) -> forms.DecimalField:
    unit, size = UNITS[resource]
    is_weight = column == "weight"
    return forms.DecimalField(
        label=f"{unit}: {COLUMN_NAMES[column]}",
        required=False,
        min_value=1 if is_weight else 0,
        max_value=WEIGHT_MAX if is_weight else Decimal(AMOUNT_MAX) // size,
        decimal_places=0 if is_weight else 3,
        initial=None if value is None else value if is_weight else _shown(value, resource),
        widget=UnfoldAdminTextInputWidget(
            attrs={"inputmode": "decimal", "aria-label": f"{unit}: {COLUMN_NAMES[column]}", "title": HELP[column]}
        ),
    )


def _shown(amount: int, resource: str) -> str:
    return f"{Decimal(amount) / UNITS[resource][1]:.3f}".rstrip("0").rstrip(".")
