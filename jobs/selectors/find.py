"""Finding jobs by what people type: an id, a unique prefix of one, or a name, whose latest job is meant."""

from __future__ import annotations

import re
import uuid
from collections.abc import Sequence

from django.db.models import Q, QuerySet

from jobs.models import Job
from kernel.actor import Actor
from kernel.errors import FieldError, InvalidInput, NotFound
from kernel.limits import NAME_LENGTH
from kernel.words import Text
from webapi.access import require, visible

PREFIX_LENGTH_MIN = 8
_HEX = re.compile(r"[0-9a-f-]{8,36}")


def fetch_job(actor: Actor, text: str, verb: str, *, tenant_id: uuid.UUID | None = None) -> Job:
    """One job for one verb, by id, unique prefix or name. NotFound if it does not exist for the actor."""
    rows = visible(actor, Job).select_related("tenant", "queue", "user")
    if tenant_id is not None:
        rows = rows.filter(tenant_id=tenant_id)
    found = _by_id(rows, text) or _by_prefix(rows, text) or _by_name(rows, text)
    if found is None:
        raise NotFound(
            Text(f"There is no job {text[:80]!r}.", f"没有作业 {text[:80]!r}。"),
            hint=Text("`berth ps -a` lists ids and names.", "`berth ps -a` 列出 ID 与名称。"),
        )
    require(actor, found, verb)
    return found


def find_jobs_by_reference(actor: Actor, tenant_id: uuid.UUID, references: Sequence[str]) -> dict[str, uuid.UUID]:
    """Ids of the tenant's jobs by what a spec calls them; what is not found is left out. Full ids cost one query for all."""
    found: dict[str, uuid.UUID] = {}
    ids = {text: parsed for text in references if (parsed := _parse(text)) is not None}
    known = set(visible(actor, Job).filter(tenant_id=tenant_id, id__in=ids.values()).values_list("id", flat=True))
    for text in dict.fromkeys(references):
        if text in ids and ids[text] in known:
            found[text] = ids[text]
        elif text not in ids:
            try:
                found[text] = fetch_job(actor, text, "job.read", tenant_id=tenant_id).id
            except NotFound:
                continue
    return found


def _parse(text: str) -> uuid.UUID | None:
    try:
        return uuid.UUID(text)
    except ValueError:
        return None


def _by_id(rows: QuerySet[Job], text: str) -> Job | None:
    parsed = _parse(text)
    return rows.filter(id=parsed).first() if parsed is not None else None


def _by_name(rows: QuerySet[Job], text: str) -> Job | None:
    """The latest job of that name. Children share the name of their array; who says it means the array."""
    return rows.filter(name=text[:NAME_LENGTH], parent_id__isnull=True).order_by("-id").first()


def _by_prefix(rows: QuerySet[Job], text: str) -> Job | None:
    """Ids are ordered, so a prefix is a range: from itself filled with zeros to itself filled with f."""
    digits = text.lower().replace("-", "")
    if not _HEX.fullmatch(text.lower()) or not PREFIX_LENGTH_MIN <= len(digits) < 32:
        return None
    low, high = uuid.UUID(digits.ljust(32, "0")), uuid.UUID(digits.ljust(32, "f"))
    found = list(rows.filter(Q(id__gte=low) & Q(id__lte=high)).order_by("id")[:2])
    if len(found) > 1:
        message = Text(f"Several jobs begin with {text}.", f"有多个作业以 {text} 开头。")
        raise InvalidInput(
            message, hint=Text("Give more digits.", "请给出更多位。"), fields=[FieldError("/job", "ambiguous", message)]
        )
    return found[0] if found else None
