"""The same job with small differences, thousands of times: the items of a batch.

Only what an item changes is validated; the rest is the base, which is valid already. So an item costs tens of microseconds."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from pydantic import Field, ValidationError

from jobs import bounds
from jobs.spec import model
from jobs.spec.checks import check_environment, cross_check
from jobs.spec.documents import check_document, pointer
from jobs.spec.model import JobSpec, Model, Role
from jobs.spec.problems import Problem
from jobs.spec.translation import Location, existing, refusal, translate
from jobs.spec.values import shown
from jobs.spec.vocabulary import keys_of
from kernel.errors import FieldError, InvalidInput
from kernel.words import Text


class RoleOverrides(Model):
    """What an item may change of one role."""

    command: model.Command | None = None
    resources: Mapping[str, Any] | None = None
    env: model.Environment = Field({})


class Overrides(RoleOverrides):
    """What an item may change. `env` and `labels` are laid over the base's, `tags` are added, the rest replaces."""

    name: model.Name | None = None
    labels: model.Labels = Field({})
    tags: model.Tags = Field(())
    priority: model.Priority | None = None
    roles: Mapping[str, RoleOverrides] = Field({})


def apply_overrides(spec: JobSpec, overrides: object) -> JobSpec:
    """The spec of one item. Raises InvalidInput with all errors of the item, by JSON pointer within it.

    `command` and `resources` beside `roles` are for jobs of one role, as in a job itself.
    """
    check_document(overrides)
    if not isinstance(overrides, dict):
        message = Text(
            f"An item is a mapping of what differs, not {shown(overrides)}.",
            f"每一项须为写明差异的映射，而非{shown(overrides, 'zh')}。",
        )
        raise InvalidInput(message, fields=[FieldError("", "mapping", message)])
    try:
        changes = Overrides.model_validate({key: value for key, value in overrides.items() if value is not None})
    except ValidationError as error:
        found = error.errors(include_url=False)
        raise refusal(
            Text("The item", "该项"), translate(found, lambda place: pointer(existing(overrides, place)), _keys_at)
        ) from None
    errors: list[FieldError] = []
    roles = _change_roles(spec, changes, errors)
    changed = spec.model_copy(update=_updates(spec, changes, roles))
    errors += _recheck(changed, changes)
    if errors:
        raise refusal(Text("The item", "该项"), errors)
    return changed


def _keys_at(location: Location) -> tuple[str, ...]:
    return keys_of(RoleOverrides if location[0] == "roles" else Overrides)


def _change_roles(spec: JobSpec, changes: Overrides, errors: list[FieldError]) -> Mapping[str, Role]:
    wanted: dict[str, RoleOverrides] = dict(changes.roles)
    if changes.command is not None or changes.resources is not None:
        if len(spec.roles) != 1 or wanted:
            key = "command" if changes.command is not None else "resources"
            message = Text(
                f"{key} beside roles is only for jobs of one role; this one has {len(spec.roles)}.",
                f"与 roles 并列的 {key} 只用于单个角色的作业；此作业有 {len(spec.roles)} 个角色。",
            )
            errors.append(
                FieldError(
                    pointer([key]),
                    "shorthand",
                    message,
                    Text("Write roles: {<role>: {...}} in the item.", "请在该项中写 roles: {<角色>: {...}}。"),
                )
            )
            return spec.roles
        wanted[next(iter(spec.roles))] = RoleOverrides(command=changes.command, resources=changes.resources)
    if not wanted:
        return spec.roles
    roles = dict(spec.roles)
    for name, change in wanted.items():
        if name not in roles:
            hint = Text(f"Its roles: {', '.join(spec.roles)}.", f"其角色：{', '.join(spec.roles)}。")
            errors.append(
                FieldError(
                    pointer(["roles", name]),
                    "unknown_role",
                    Text(f"The job has no role {shown(name)}.", f"作业没有角色 {shown(name, 'zh')}。"),
                    hint,
                )
            )
        else:
            prefix = ("roles", name) if name in changes.roles else ()
            roles[name] = _change_role(roles[name], change, prefix, errors)
    return roles


def _change_role(role: Role, change: RoleOverrides, prefix: tuple[str, ...], errors: list[FieldError]) -> Role:
    update: dict[str, Any] = {}
    if change.command is not None:
        update["command"] = change.command
    if change.env:
        update["env"] = {**role.env, **change.env}
    if change.resources is not None:
        try:
            given = model.ResourceAsk.model_validate(change.resources)
            changed = {name: getattr(given, name) for name in given.model_fields_set}
            update["resources"] = role.resources.model_copy(update=changed)
        except ValidationError as error:
            place = (*prefix, "resources")
            keys = keys_of(model.ResourceAsk)
            errors += translate(error.errors(include_url=False), lambda part: pointer((*place, *part[:1])), lambda _: keys)
    return role.model_copy(update=update)


def _updates(spec: JobSpec, changes: Overrides, roles: Mapping[str, Role]) -> dict[str, Any]:
    update: dict[str, Any] = {"roles": roles}
    if changes.name is not None:
        update["name"] = changes.name
    if changes.priority is not None:
        update["priority"] = changes.priority
    if changes.env:
        update["env"] = {**spec.env, **changes.env}
    if changes.labels:
        update["labels"] = {**spec.labels, **changes.labels}
    if changes.tags:
        update["tags"] = (*spec.tags, *(tag for tag in changes.tags if tag not in spec.tags))
    return update


def _recheck(spec: JobSpec, changes: Overrides) -> list[FieldError]:
    """What laying an item over its base can break: sizes of what was merged, and rules between fields."""
    errors = [
        FieldError(
            f"/{key}",
            "too_many",
            Text(
                f"{key} has {count} entries with those of the base; at most {most} are allowed.",
                f"{key} 与基础规格合计有 {count} 项；最多 {most} 项。",
            ),
        )
        for key, count, most in (
            ("env", len(spec.env), bounds.ENV_ENTRIES),
            ("labels", len(spec.labels), bounds.LABELS),
            ("tags", len(spec.tags), bounds.TAGS),
        )
        if count > most
    ]
    found: Iterable[Problem] = ()
    if changes.roles or changes.resources is not None:
        found = cross_check(spec)
    elif changes.env:
        found = check_environment(spec)
    errors += [FieldError(pointer(problem.location), *problem[1:]) for problem in found]
    return errors
