"""A policy as an operator writes it down to try it: some fields of `Policy`, by name, and how pools are filled."""

from __future__ import annotations

import dataclasses
import typing
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from jobs.scheduling.core.core import Policy
from jobs.scheduling.core.place.scores import POLICIES, PoolRules
from jobs.scheduling.replay.trace import Past
from kernel.errors import FieldError, InvalidInput

MOST = 2**40  # Seconds of 34,000 years: whatever is longer is a mistake.
HINT = "Fields of a policy, and `fill` with a policy of placement per pool."


def under(past: Past, document: Any) -> Past:
    """The window with another policy. Raises InvalidInput with every mistake at once."""
    errors: list[FieldError] = []
    if not isinstance(document, Mapping):
        raise InvalidInput("A policy is a mapping of names to values.", hint=HINT)
    kinds = typing.get_type_hints(Policy)
    changes: dict[str, Any] = {}
    for name, value in document.items():
        if name == "fill":
            continue
        if name not in kinds:
            known = ", ".join([*sorted(kinds), "fill"])
            errors.append(FieldError(f"/{name}", "not_found", "There is no such field.", f"Fields are: {known}."))
        elif kinds[name] is bool and type(value) is not bool:
            errors.append(FieldError(f"/{name}", "invalid", "This is neither true nor false.", "Write true or false."))
        elif kinds[name] is int and (type(value) is not int or not 0 <= value <= MOST):
            errors.append(FieldError(f"/{name}", "invalid", "This is no whole number, or too large.", f"Give 0 to {MOST}."))
        else:
            changes[str(name)] = value
    pools = _filled(past, document.get("fill", {}), errors)
    if errors:
        raise InvalidInput("The policy cannot be used.", fields=errors, hint=HINT)
    return replace(past, state=replace(past.state, pools=pools, policy=replace(past.state.policy, **changes)))


def policy_fields(policy: Policy) -> dict[str, int | bool]:
    """A policy as it would be written down."""
    return {one.name: getattr(policy, one.name) for one in dataclasses.fields(policy)}


def _filled(past: Past, fill: Any, errors: list[FieldError]) -> tuple[Any, ...]:
    names = {pool.name for pool in past.state.pools}
    if not isinstance(fill, Mapping):
        errors.append(FieldError("/fill", "invalid", "This is no mapping of pools to policies.", "Write for example gpu: pack."))
        return past.state.pools
    for name, policy in fill.items():
        if name not in names:
            known = ", ".join(sorted(names)[:20])
            errors.append(FieldError(f"/fill/{name}", "not_found", "There is no such pool.", f"Pools are: {known}."))
        elif not isinstance(policy, str) or policy not in POLICIES:
            known = ", ".join(sorted(POLICIES))
            errors.append(
                FieldError(f"/fill/{name}", "not_found", "There is no such policy of placement.", f"There are: {known}.")
            )
    return tuple(
        replace(pool, rules=replace(pool.rules or PoolRules(), policy=fill[pool.name]))
        if isinstance(fill.get(pool.name), str) and fill[pool.name] in POLICIES
        else pool
        for pool in past.state.pools
    )
