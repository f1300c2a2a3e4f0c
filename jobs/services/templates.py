"""Templates: kept, changed, published, deleted, and filled in. What a user writes into one stays data all the way."""

from __future__ import annotations

import json
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.db import IntegrityError, transaction
from django.db.models import F, Q

from activity import cursors
from activity.services import record_audit
from jobs.models import TEMPLATE_NAME_LENGTH, Template
from jobs.selectors.templates import found_by
from jobs.services.shipped_templates import SHIPPED
from jobs.services.submit import prepare
from jobs.spec.templating import check_template, fill, judge, read_parameters, read_values, stored_parameters
from jobs.spec.values import BadValue, parse_tag
from kernel.actor import Actor, system_actor
from kernel.errors import BerthError, Conflict, FieldError, InvalidInput, NotFound, PreconditionFailed, TooLarge
from kernel.limits import SPEC_BYTES
from tenants.access import demand
from webapi.fields import SLUG

PER_TENANT = 500  # More than anybody looks through; a list of them is a few pages.
TAGS_MAX = 16
SHIPPED_SET = 1  # Grows when a release brings others that installations should be given.
_SHIPPED = "jobs.shipped_templates"
FIELDS = (
    "name", "title", "title_zh", "description", "description_zh", "icon", "tags", "parameters", "spec",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Rendered:
    """A filled-in template, and what keeps it from being submitted."""

    spec: Any
    problems: tuple[FieldError, ...]


def create_template(*, actor: Actor, tenant_id: uuid.UUID | None, given: Mapping[str, Any], now: datetime) -> Template:
    """Keep a new template for a tenant; without a tenant, for everybody. Raises InvalidInput with all that is wrong."""
    demand(actor, tenant_id, "template.publish" if tenant_id is None else "template.create", actor.user_id)
    values = _checked(given)
    with transaction.atomic():
        if Template.objects.filter(Q(tenant_id=tenant_id)).count() >= PER_TENANT:
            raise Conflict(f"There are {PER_TENANT} templates here already.", hint="Delete some that nobody uses.")
        row = Template(
            tenant_id=tenant_id,
            owner_id=actor.user_id,
            created_at=now,
            updated_at=now,
            published_at=now if tenant_id is None else None,
            **values,
        )
        _save(row, force_insert=True)
        _audit(row, actor, "template.create", now, after={"name": row.name, "title": row.title})
    return row


def update_template(
    *, actor: Actor, template: Template, changes: Mapping[str, Any], expected_version: int | None, now: datetime
) -> Template:
    """Change a template; the caller was asked whether the actor may."""
    with transaction.atomic():
        row = locked(template)
        if expected_version is not None and row.version != expected_version:
            raise PreconditionFailed(
                f"The template has version {row.version} now, not {expected_version}.",
                hint="Read it again, apply your change to the new version, and send its ETag.",
            )
        before = {name: getattr(row, name) for name in changes}
        values = _checked({**{name: getattr(row, name) for name in FIELDS}, **changes})
        for name, value in values.items():
            setattr(row, name, value)
        row.version += 1
        row.updated_at = now
        _save(row)
        names = [name for name in changes if before[name] != getattr(row, name)]
        _audit(row, actor, "template.edit", now, after={"name": row.name, "changed": names, "version": row.version})
    return row


def publish_template(*, actor: Actor, template: Template, now: datetime) -> Template:
    """Give a tenant's template to everybody. It leaves the tenant: from now on operators look after it."""
    if template.tenant_id is None:
        raise Conflict("This template is public already.", hint="There is nothing left to do.")
    with transaction.atomic():
        row = locked(template)
        tenant_id, row.tenant_id = row.tenant_id, None
        row.published_at = row.updated_at = now
        row.version += 1
        _save(row)
        _audit(row, actor, "template.publish", now, after={"name": row.name}, tenant_id=tenant_id)
    return row


def delete_template(*, actor: Actor, template: Template, now: datetime) -> None:
    """Delete a template. Jobs that were made from it are their own."""
    with transaction.atomic():
        row = locked(template)
        _audit(row, actor, "template.delete", now, before={"name": row.name, "title": row.title})
        row.delete()


def render(
    *, actor: Actor, template: Template, parameters: Mapping[str, Any], name: str = "", queue: str = "", tenant: str | None = None
) -> Rendered:
    """Fill a template in. Wrong parameters raise InvalidInput; what is wrong with the job is in `problems`, by pointer.

    With a tenant also what the job names there: queue, image, volumes, secrets.
    """
    values = read_values(stored_parameters(template.parameters), parameters)
    document = fill(template.spec, values)
    document = {key: value for key, value in document.items() if value is not None}
    if name:
        document["name"] = name
    if queue:
        document["queue"] = queue
    problems = judge(document)
    if not problems and tenant is not None:
        problems = _judged_there(actor, tenant, document)
    return Rendered(document, problems)


def count_use(template_id: uuid.UUID) -> None:
    """Somebody filled it in to run it."""
    Template.objects.filter(id=template_id).update(uses=F("uses") + 1)


def ensure_shipped_templates(now: datetime) -> int:
    """On an installation that never had them, the public templates that come with the release; returns how many are new. Those
    that operators delete stay deleted: a cursor remembers which set was made."""
    if cursors.position(_SHIPPED) >= SHIPPED_SET:
        return 0
    actor = system_actor("bootstrap")
    with transaction.atomic():
        cursor = cursors.lock_cursor(_SHIPPED)
        # Earlier releases made them without remembering it.
        had_them = cursor.seq >= SHIPPED_SET or Template.objects.filter(is_shipped=True).exists()
        cursors.move(cursor, max(cursor.seq, SHIPPED_SET))
        if had_them:
            return 0
        taken = set(Template.objects.filter(tenant__isnull=True).values_list("name", flat=True))
        rows = []
        for one in SHIPPED:
            values = _checked(one)
            if values["name"] not in taken:
                rows.append(Template(is_shipped=True, created_at=now, updated_at=now, published_at=now, **values))
        Template.objects.bulk_create(rows)
        if rows:
            record_audit(
                actor=actor, verb="template.ship", tenant_id=None, target_kind="template", target_id=None,
                after={"names": [row.name for row in rows]}, count=len(rows), at=now,
            )  # fmt: skip
    return len(rows)


def _judged_there(actor: Actor, tenant: str, document: Any) -> tuple[FieldError, ...]:
    try:
        prepare(actor=actor, tenant=tenant, document=document)
    except InvalidInput as error:
        return error.fields or (FieldError("", "invalid", error.detail, error.hint),)
    except BerthError as error:
        if error.status in {403, 404}:
            raise
        return (FieldError("", str(error.code), error.detail, error.hint),)
    return ()


def _checked(given: Mapping[str, Any]) -> dict[str, Any]:
    """The columns of a template. All mistakes of names, tags and parameters at once; then those of the document."""
    errors: list[FieldError] = []
    name, icon = str(given.get("name", "")), str(given.get("icon", ""))
    if not SLUG.fullmatch(name) or len(name) > TEMPLATE_NAME_LENGTH:
        message = "Use small letters, digits and inner hyphens, at most 63."
        errors.append(FieldError("/name", "invalid", message))
    if icon and not SLUG.fullmatch(icon):
        errors.append(FieldError("/icon", "invalid", "An icon is one word: small letters, digits and inner hyphens."))
    tags = list(dict.fromkeys(given.get("tags", ())))
    if len(tags) > TAGS_MAX:
        errors.append(FieldError("/tags", "too_many", f"A template has at most {TAGS_MAX} tags."))
    for index, tag in enumerate(tags):
        try:
            parse_tag(tag)
        except BadValue as error:
            errors.append(FieldError(f"/tags/{index}", error.code, error.message, error.hint))
    document = given["spec"]
    if len(json.dumps(document)) > SPEC_BYTES:
        raise TooLarge(f"A template's document has at most {SPEC_BYTES} bytes.", hint="Put data into files or volumes.")
    if not isinstance(document, dict):
        errors.append(FieldError("/spec", "mapping", "A job is a mapping of keys to values.", "Begin with command."))
    try:
        parameters = read_parameters(given.get("parameters", ()))
        if isinstance(document, dict):
            check_template(document, parameters)
    except InvalidInput as error:
        errors += error.fields
    if errors:
        raise InvalidInput(errors[0].message, hint=errors[0].hint, fields=errors)
    texts = {key: str(given.get(key, "")) for key in ("title", "title_zh", "description", "description_zh")}
    return {
        **texts,
        "name": name,
        "icon": icon,
        "tags": tags,
        "parameters": [one.as_dict() for one in parameters],
        "spec": document,
        "found_by": found_by(name, (texts["title"], texts["title_zh"]), tags),
    }


def locked(template: Template) -> Template:
    """The row as it is now, where the template still belongs to whom it did when the actor was asked about: the rights of a
    tenant's member end when it is published."""
    row = Template.objects.select_for_update().filter(id=template.pk).first()
    if row is None:
        raise NotFound("There is no such template any more.", hint="Somebody deleted it a moment ago.")
    if row.tenant_id != template.tenant_id:
        raise Conflict("The template was published meanwhile.", hint="Read it again: operators look after it now.")
    return row


def _save(row: Template, *, force_insert: bool = False) -> None:
    try:
        with transaction.atomic():
            row.save(force_insert=force_insert)
    except IntegrityError:
        where = "is public already" if row.tenant_id is None else "is in this tenant already"
        message = f"A template called {row.name} {where}."
        raise Conflict(message, hint="Take another name.", fields=[FieldError("/name", "taken", message)]) from None


def _audit(
    row: Template,
    actor: Actor,
    verb: str,
    now: datetime,
    *,
    before: Mapping[str, Any] | None = None,
    after: Mapping[str, Any] | None = None,
    tenant_id: uuid.UUID | None = None,
) -> None:
    record_audit(
        actor=actor,
        verb=verb,
        tenant_id=tenant_id or row.tenant_id,
        target_kind="template",
        target_id=row.pk,
        target_name=row.name,
        before=before,
        after=after,
        at=now,
    )


def names_of(rows: Sequence[Template]) -> tuple[frozenset[uuid.UUID], frozenset[uuid.UUID]]:
    """Tenants and owners to look up for what is shown of them: owners of public ones are nobody's business."""
    tenants = frozenset(row.tenant_id for row in rows if row.tenant_id is not None)
    return tenants, frozenset(row.owner_id for row in rows if row.tenant_id is not None and row.owner_id is not None)
