"""The only way an object reaches a view: deny by default, tenant by tenant.

An app registers one rule per model at start (`AppConfig.ready`); a model without a rule is never served. What an actor may
not see does not exist for it (404); what it sees but may not do is refused (403). The policy itself - who may do what -
lives in `tenants/identity/access.py`; this module only makes it impossible to walk around it.
"""

from __future__ import annotations

import contextlib
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any, TypeVar

from django.db.models import Model, Q, QuerySet

from kernel.actor import Actor
from kernel.errors import Forbidden, NotAuthenticated, NotFound
from kernel.words import Saying, Text

M = TypeVar("M", bound=Model)
ASK_A_MANAGER = Text(
    "Ask a manager of the tenant, or use a token with the needed scope.", "请联系租户管理员，或使用具有所需权限范围的令牌。"
)


@dataclass(frozen=True, slots=True)
class Rule:
    """`sees` narrows a model's rows to those that exist for an actor; None means no row at all.

    `allows` answers for one visible object and one verb. Verbs are `<noun>.<verb>`, such as `job.stop`. `hints` says by verb
    who may, where that is not a manager of the tenant.
    """

    sees: Callable[[Actor], Q | None]
    allows: Callable[[Actor, Any, str], bool]
    hints: Mapping[str, Saying]


_rules: dict[type[Model], Rule] = {}


def register(
    model: type[Model],
    *,
    sees: Callable[[Actor], Q | None],
    allows: Callable[[Actor, Any, str], bool],
    hints: Mapping[str, Saying] | None = None,
) -> None:
    """Give a model its rule. A second rule for the same model is a mistake."""
    if model in _rules:
        raise AssertionError(f"{model.__name__} already has an access rule")
    _rules[model] = Rule(sees, allows, hints or {})


def registered_models() -> frozenset[type[Model]]:
    return frozenset(_rules)


def visible(actor: Actor, model: type[M]) -> QuerySet[M]:
    """All rows that exist for the actor. Raises LookupError for a model without a rule."""
    rule = _rules.get(model)
    if rule is None:
        raise LookupError(f"{model.__name__} has no access rule and is never served")
    condition = rule.sees(actor)
    rows: QuerySet[M] = model._default_manager.all()
    return rows.none() if condition is None else rows.filter(condition)


def fetch(
    actor: Actor,
    model: type[M],
    object_id: uuid.UUID | str,
    verb: str,
    *,
    key: str = "id",
    within: Q | None = None,
    related: Iterable[str] = (),
) -> M:
    """One object for one verb: NotFound if it does not exist for the actor, Forbidden if the verb is not allowed.

    `key` is the column that `object_id` is compared with; `within` narrows further (a child of the object in the path).
    """
    if not actor.is_authenticated and not actor.name.startswith("system:"):
        raise needs_token()
    noun = verb.split(".", 1)[0]
    rows = visible(actor, model)
    if within is not None:
        rows = rows.filter(within)
    names = tuple(related)
    if names:
        rows = rows.select_related(*names)
    try:
        found = rows.filter(**{key: object_id}).first()
    except (ValueError, TypeError):  # Not even a possible id.
        found = None
    except Exception as error:
        if type(error).__name__ != "ValidationError":
            raise
        found = None
    if found is None:
        raise NotFound(
            Text(f"There is no {noun} {str(object_id)[:80]!r}.", f"没有 {noun} {str(object_id)[:80]!r}。"),
            hint=Text("List what you can see, then try again with its id.", "请先列出可见的对象，再用其 ID 重试。"),
        )
    require(actor, found, verb)
    return found


def needs_token() -> NotAuthenticated:
    """The refusal of a request without a credential."""
    return NotAuthenticated(
        Text("This needs a token.", "此操作需要令牌。"),
        hint=Text(
            "Run `berth login`, or send `Authorization: Bearer <token>`.",
            "请运行 `berth login`，或发送 `Authorization: Bearer <token>`。",
        ),
    )


def require(actor: Actor, found: Model, verb: str) -> None:
    """Refuse a verb on an object that the actor already sees."""
    if not allows(actor, found, verb):
        noun, action = type(found).__name__.lower(), verb.split(".", 1)[-1].replace("_", " ")
        raise Forbidden(
            Text(f"{actor.name} may see this {noun} but not {action} it.", f"{actor.name} 可以查看此 {noun}，但无权 {action}。"),
            hint=_rules[type(found)].hints.get(verb, ASK_A_MANAGER),
        )


def allows(actor: Actor, found: Model, verb: str) -> bool:
    """Whether the actor may do `verb` to an object of a registered model."""
    rule = _rules.get(type(found))
    if rule is None:
        raise LookupError(f"{type(found).__name__} has no access rule and is never served")
    return rule.allows(actor, found, verb)


@dataclass(frozen=True, slots=True)
class Granted:
    """One answer of the policy: that the actor may do `verb` in a tenant (None: the installation). `is_own`: because what it is
    done to belongs to them."""

    tenant_id: uuid.UUID | None
    verb: str
    is_own: bool = False


_granted: ContextVar[set[Granted] | None] = ContextVar("granted", default=None)


@contextlib.contextmanager
def noting_grants() -> Iterator[set[Granted]]:
    """Collect every right that the policy grants inside the block: whatever the work inside it rested on."""
    found: set[Granted] = set()
    before = _granted.set(found)
    try:
        yield found
    finally:
        _granted.reset(before)


def note_grant(granted: Granted) -> None:
    """Called by the policy for each right that it grants."""
    found = _granted.get()
    if found is not None:
        found.add(granted)


Holds = Callable[[Actor, Granted], bool]
_holds: list[Holds] = []


def register_holds(holds: Holds) -> None:
    """Give the policy's answer to whether an actor holds a right now. The last one counts."""
    _holds[:] = [holds]


def holds(actor: Actor, granted: Granted) -> bool:
    """Whether the actor holds, now and through this credential, a right that was granted before."""
    return bool(_holds) and _holds[0](actor, granted)
