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
from jobs.bounds import SPEC_BYTES
from jobs.models import TEMPLATE_NAME_LENGTH, Template
from jobs.selectors.templates import found_by
from jobs.services.shipped_templates import LATER, SHIPPED, SHIPPED_SET
from jobs.services.submit import prepare
from jobs.spec.templating import check_template, fill, judge, read_parameters, read_values, stored_parameters
from jobs.spec.values import BadValue, parse_tag
from kernel.actor import Actor, system_actor
from kernel.errors import BerthError, Conflict, FieldError, InvalidInput, NotFound, PreconditionFailed, TooLarge
from kernel.names import SLUG
from kernel.words import Text
from tenants.identity.access import demand

PER_TENANT = 500  # More than a user looks through; a list of them is a few pages.
TAGS_MAX = 16
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
    """Keep a new template for a tenant; without a tenant, for all users. Raises InvalidInput with all that is wrong."""
    demand(actor, tenant_id, "template.publish" if tenant_id is None else "template.create", actor.user_id)
    values = _checked(given)
    with transaction.atomic():
        if Template.objects.filter(Q(tenant_id=tenant_id)).count() >= PER_TENANT:
            raise Conflict(
                Text(f"There are {PER_TENANT} templates here already.", f"此处已有 {PER_TENANT} 个模板。"),
                hint=Text("Delete some that are not used.", "请删除无人使用的模板。"),
            )
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
                Text(
                    f"The template has version {row.version} now, not {expected_version}.",
                    f"该模板当前版本为 {row.version}，而非 {expected_version}。",
                ),
                hint=Text(
                    "Read it again, apply your change to the new version, and send its ETag.",
                    "请重新读取，在新版本上修改，并发送其 ETag。",
                ),
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
    """Give a tenant's template to all users. It leaves the tenant: from now on operators look after it."""
    if template.tenant_id is None:
        raise Conflict(
            Text("This template is public already.", "该模板已经公开。"),
            hint=Text("There is nothing left to do.", "无需再做任何操作。"),
        )
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
    """Count a use: a user filled it in to run it."""
    Template.objects.filter(id=template_id).update(uses=F("uses") + 1)


def ensure_shipped_templates(now: datetime) -> int:
    """The public templates of the sets that the installation was not given yet; returns how many are new. Those that operators
    delete stay deleted: a cursor remembers which set was made last."""
    if cursors.position(_SHIPPED) >= SHIPPED_SET:
        return 0
    actor = system_actor("bootstrap")
    with transaction.atomic():
        cursor = cursors.lock_cursor(_SHIPPED)
        # Earlier releases made the first set without remembering it.
        given = cursor.seq or int(Template.objects.filter(is_shipped=True).exists())
        cursors.move(cursor, max(cursor.seq, SHIPPED_SET))
        taken = set(Template.objects.filter(tenant__isnull=True).values_list("name", flat=True))
        rows = []
        for template in SHIPPED:
            values = _checked(template)
            if LATER.get(values["name"], 1) > given and values["name"] not in taken:
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
        return error.fields or (FieldError("", "invalid", error.detail_text, error.hint_text),)
    except BerthError as error:
        if error.status in {403, 404}:
            raise
        return (FieldError("", str(error.code), error.detail_text, error.hint_text),)
    return ()


def _checked(given: Mapping[str, Any]) -> dict[str, Any]:
    """The columns of a template. All mistakes of names, tags and parameters at once; then those of the document."""
    errors: list[FieldError] = []
    name, icon = str(given.get("name", "")), str(given.get("icon", ""))
    if not SLUG.fullmatch(name) or len(name) > TEMPLATE_NAME_LENGTH:
        message = Text(
            "Use small letters, digits and inner hyphens, at most 63.", "请使用小写字母、数字及名称内部的连字符，最多 63 个字符。"
        )
        errors.append(FieldError("/name", "invalid", message))
    if icon and not SLUG.fullmatch(icon):
        errors.append(
            FieldError(
                "/icon",
                "invalid",
                Text(
                    "An icon is one word: small letters, digits and inner hyphens.",
                    "图标为一个单词：小写字母、数字及内部的连字符。",
                ),
            )
        )
    tags = list(dict.fromkeys(given.get("tags", ())))
    if len(tags) > TAGS_MAX:
        errors.append(
            FieldError(
                "/tags", "too_many", Text(f"A template has at most {TAGS_MAX} tags.", f"一个模板最多有 {TAGS_MAX} 个标签。")
            )
        )
    for index, tag in enumerate(tags):
        try:
            parse_tag(tag)
        except BadValue as error:
            errors.append(FieldError(f"/tags/{index}", error.code, error.message, error.hint))
    document = given["spec"]
    if len(json.dumps(document)) > SPEC_BYTES:
        raise TooLarge(
            Text(f"A template's document has at most {SPEC_BYTES} bytes.", f"模板的文档最多 {SPEC_BYTES} 字节。"),
            hint=Text("Put data into files or volumes.", "请将数据放入文件或存储卷。"),
        )
    if not isinstance(document, dict):
        errors.append(
            FieldError(
                "/spec",
                "mapping",
                Text("A job is a mapping of keys to values.", "作业是从键到值的映射。"),
                Text("Begin with command.", "请以 command 开头。"),
            )
        )
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
        "parameters": [parameter.as_dict() for parameter in parameters],
        "spec": document,
        "found_by": found_by(name, (texts["title"], texts["title_zh"]), tags),
    }


def locked(template: Template) -> Template:
    """The row as it is now, where the template still belongs to whom it did when the actor was asked about: the rights of a
    tenant's member end when it is published."""
    row = Template.objects.select_for_update().filter(id=template.pk).first()
    if row is None:
        raise NotFound(
            Text("There is no such template any more.", "该模板已不存在。"),
            hint=Text("It was deleted a moment ago.", "刚刚被删除。"),
        )
    if row.tenant_id != template.tenant_id:
        raise Conflict(
            Text("The template was published meanwhile.", "该模板已被发布。"),
            hint=Text("Read it again: operators look after it now.", "请重新读取：现在由运维人员维护。"),
        )
    return row


def _save(row: Template, *, force_insert: bool = False) -> None:
    try:
        with transaction.atomic():
            row.save(force_insert=force_insert)
    except IntegrityError:
        message = (
            Text(f"A template called {row.name} is public already.", f"已有名为 {row.name} 的公开模板。")
            if row.tenant_id is None
            else Text(f"A template called {row.name} is in this tenant already.", f"该租户已有名为 {row.name} 的模板。")
        )
        raise Conflict(
            message, hint=Text("Take another name.", "请换一个名称。"), fields=[FieldError("/name", "taken", message)]
        ) from None


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
    """Tenants and owners to look up for what is shown of them: owners of public templates are shown to no user."""
    tenants = frozenset(row.tenant_id for row in rows if row.tenant_id is not None)
    return tenants, frozenset(row.owner_id for row in rows if row.tenant_id is not None and row.owner_id is not None)
