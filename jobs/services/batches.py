"""Many jobs in one call: each item is checked like a job of its own, what they share is looked up once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from jobs.services.submission import Submission
from jobs.services.submit import resolve, tenant_of
from jobs.spec.model import JobSpec
from jobs.spec.overrides import apply_overrides
from jobs.spec.parse import parse_spec
from kernel.actor import Actor
from kernel.errors import FieldError, InvalidInput
from kernel.facts import Facts
from kernel.words import Text
from webapi.facts import look

ERRORS_MAX = 100  # Of one answer: a user who got the format wrong got it wrong everywhere.

# What `resolve` looks at; specs that agree in it resolve alike.
_LOOKED_UP = (
    "queue", "pool", "cluster", "image", "code", "mounts", "secrets", "after", "after_ok", "after_any", "roles",
    "priority", "max_runtime_seconds",
)  # fmt: skip


def prepare_batch(
    *, actor: Actor, tenant: str | None, items: Sequence[Any], base: Any, facts: Facts | None = None
) -> list[Submission]:
    """Check all items; raises InvalidInput with every error under `/items/<n>`, or stores nothing else."""
    facts = facts or look()
    owner = tenant_of(actor, tenant, facts)
    specs = _specs(items, base)
    resolved: dict[Any, Submission] = {}
    submissions: list[Submission] = []
    errors: list[FieldError] = []
    for position, spec in enumerate(specs):
        key = tuple(repr(getattr(spec, name)) for name in _LOOKED_UP)
        try:
            if key not in resolved:
                resolved[key] = resolve(actor=actor, tenant=owner, spec=spec, facts=facts)
            submissions.append(replace(resolved[key], spec=spec))
        except InvalidInput as error:
            errors += [replace(field, path=f"/items/{position}{field.path}") for field in error.fields]
            if len(errors) >= ERRORS_MAX:
                break
    if errors:
        raise InvalidInput(
            Text(
                f"The batch has {len(errors)} or more errors; nothing was stored.",
                f"该批次至少有 {len(errors)} 处错误；未保存任何内容。",
            ),
            fields=errors[:ERRORS_MAX],
        )
    return submissions


def _specs(items: Sequence[Any], base: Any) -> list[JobSpec]:
    parsed = None if base is None else parse_spec(base)
    specs: list[JobSpec] = []
    errors: list[FieldError] = []
    for position, item in enumerate(items):
        try:
            specs.append(parse_spec(item) if parsed is None else apply_overrides(parsed, item))
        except InvalidInput as error:
            found = error.fields or (FieldError("", error.code, error.detail_text, error.hint_text),)
            errors += [replace(field, path=f"/items/{position}{field.path}") for field in found]
            if len(errors) >= ERRORS_MAX:
                break
    if errors:
        raise InvalidInput(
            Text(
                f"The batch has {len(errors)} or more errors; nothing was stored.",
                f"该批次至少有 {len(errors)} 处错误；未保存任何内容。",
            ),
            fields=errors[:ERRORS_MAX],
        )
    return specs
