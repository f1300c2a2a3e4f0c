"""A policy that an operator writes down to try it: some fields of `Policy`, by name, and how pools are filled."""

from __future__ import annotations

import typing
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from jobs.scheduling.core.core import Policy
from jobs.scheduling.core.place.scores import POLICIES, PoolRules
from jobs.scheduling.core.state.policy import RENAMED
from jobs.scheduling.replay.trace import Past
from kernel.errors import FieldError, InvalidInput
from kernel.words import Text

MOST = 2**40  # Seconds of 34,000 years: whatever is longer is a mistake.
HINT = Text(
    "Fields of a policy, and `fill` with a policy of placement per pool.", "策略的字段，以及 `fill`：每个资源池的放置策略。"
)


def under(past: Past, document: Any) -> Past:
    """The window with another policy. Raises InvalidInput with every mistake at once."""
    errors: list[FieldError] = []
    if not isinstance(document, Mapping):
        raise InvalidInput(Text("A policy is a mapping of names to values.", "策略是从名称到值的映射。"), hint=HINT)
    kinds = typing.get_type_hints(Policy)
    changes: dict[str, Any] = {}
    for name, value in document.items():
        if name == "fill":
            continue
        if name not in kinds:
            renamed, known = RENAMED.get(str(name)), ", ".join([*sorted(kinds), "fill"])
            hint = (
                Text(f"It was renamed to {renamed}.", f"已改名为 {renamed}。")
                if renamed
                else Text(f"Fields are: {known}.", f"字段有：{known}。")
            )
            errors.append(FieldError(f"/{name}", "not_found", Text("There is no such field.", "没有这个字段。"), hint))
        elif kinds[name] is bool and type(value) is not bool:
            errors.append(
                FieldError(
                    f"/{name}",
                    "invalid",
                    Text("This is neither true nor false.", "这既不是 true 也不是 false。"),
                    Text("Write true or false.", "请写 true 或 false。"),
                )
            )
        elif kinds[name] is int and (type(value) is not int or not 0 <= value <= MOST):
            errors.append(
                FieldError(
                    f"/{name}",
                    "invalid",
                    Text("This is no whole number, or too large.", "这不是整数，或过大。"),
                    Text(f"Give 0 to {MOST}.", f"请给出 0 到 {MOST}。"),
                )
            )
        else:
            changes[str(name)] = value
    pools = _filled(past, document.get("fill", {}), errors)
    if errors:
        raise InvalidInput(Text("The policy cannot be used.", "该策略不可用。"), fields=errors, hint=HINT)
    return replace(past, state=replace(past.state, pools=pools, policy=replace(past.state.policy, **changes)))


def _filled(past: Past, fill: Any, errors: list[FieldError]) -> tuple[Any, ...]:
    names = {pool.name for pool in past.state.pools}
    if not isinstance(fill, Mapping):
        errors.append(
            FieldError(
                "/fill",
                "invalid",
                Text("This is no mapping of pools to policies.", "这不是从资源池到策略的映射。"),
                Text("Write for example gpu: pack.", "例如写 gpu: pack。"),
            )
        )
        return past.state.pools
    for name, policy in fill.items():
        if name not in names:
            known = ", ".join(sorted(names)[:20])
            errors.append(
                FieldError(
                    f"/fill/{name}",
                    "not_found",
                    Text("There is no such pool.", "没有这个资源池。"),
                    Text(f"Pools are: {known}.", f"资源池有：{known}。"),
                )
            )
        elif not isinstance(policy, str) or policy not in POLICIES:
            known = ", ".join(sorted(POLICIES))
            errors.append(
                FieldError(
                    f"/fill/{name}",
                    "not_found",
                    Text("There is no such policy of placement.", "没有这种放置策略。"),
                    Text(f"There are: {known}.", f"可用：{known}。"),
                )
            )
    return tuple(
        replace(pool, rules=replace(pool.rules or PoolRules(), policy=fill[pool.name]))
        if isinstance(fill.get(pool.name), str) and fill[pool.name] in POLICIES
        else pool
        for pool in past.state.pools
    )
