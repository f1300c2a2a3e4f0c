"""What queries on use ask for: names and ids of what the caller sees, whole numbers, months. All mistakes at once."""

from __future__ import annotations

import re
import uuid
from collections.abc import Sequence
from datetime import datetime

from django.db.models import Q
from rest_framework.request import Request

from clusters.selectors import PoolFacts, list_pools
from kernel.actor import Actor
from kernel.errors import InvalidInput
from kernel.words import Text
from tenants.billing.ledger.entries import FATES
from tenants.billing.usage import UsageFilter
from tenants.capacity import selectors as queue_selectors
from tenants.identity.models import User
from tenants.identity.services.names import Problems
from webapi.access import visible
from webapi.fields import read_utc

NUMBER = re.compile(r"[0-9]{1,18}")
MONTH = re.compile(r"(2[0-9]{3})-(0[1-9]|1[0-2])")
WINDOW = ("tenant", "since", "until", "user", "queue", "pool", "fate")


def usage_filter(request: Request, actor: Actor, tenant_ids: frozenset[uuid.UUID] | None, problems: Problems) -> UsageFilter:
    """The window and filters of a query on use within these tenants. Whatever the caller does not see does not exist.

    Raises for whatever is wrong, and for what `problems` holds already.
    """
    query = request.query_params
    since, until = (_time(query.get(name, ""), name, problems) for name in ("since", "until"))
    if since is not None and until is not None and until < since:
        problems.add("/until", "before_since", Text("until lies before since.", "until 早于 since。"))
    user_id = _user(actor, query.get("user", ""), problems)
    queue_ids = _queues(actor, query.get("queue", ""), problems)
    pools = find_pools(query.get("pool", ""), problems)
    fate = query.get("fate", "") or None
    if fate is not None and fate not in FATES:
        problems.add("/fate", "invalid", Text(f"fate is one of {', '.join(FATES)}.", f"fate 可选：{', '.join(FATES)}。"))
    problems.raise_if_any()
    pool_ids = frozenset(pool.id for pool in pools) if pools is not None else None
    return UsageFilter(tenant_ids, since, until, user_id, queue_ids, pool_ids, fate)


def find_pools(text: str, problems: Problems) -> Sequence[PoolFacts] | None:
    """All pools with this id or name; None for no text."""
    if not text:
        return None
    found = [
        pool for pool in list_pools() if text.lower() == str(pool.id) or text in (pool.name, f"{pool.cluster_name}/{pool.name}")
    ]
    if not found:
        problems.add(
            "/pool",
            "not_found",
            Text("There is no such pool.", "没有这个资源池。"),
            Text("`berth pools` lists them.", "`berth pools` 可列出。"),
        )
    return found


def one_pool(text: str, problems: Problems) -> PoolFacts | None:
    """The pool with this id, or with a name that only one has."""
    found = find_pools(text, problems) or ()
    if len(found) > 1:
        problems.add(
            "/pool",
            "ambiguous",
            Text("Several clusters have a pool of this name.", "多个集群有此名称的资源池。"),
            Text("Write CLUSTER/POOL, or its id.", "请写 集群/资源池，或其 ID。"),
        )
    return found[0] if len(found) == 1 else None


def whole_number(text: str, name: str, problems: Problems, *, lowest: int, highest: int) -> int:
    """A parameter within bounds; `lowest` where it is not valid, after saying so."""
    if NUMBER.fullmatch(text) and lowest <= int(text) <= highest:
        return int(text)
    problems.add(
        f"/{name}",
        "out_of_range",
        Text(f"{name} is a whole number between {lowest} and {highest}.", f"{name} 须为 {lowest} 到 {highest} 之间的整数。"),
    )
    return lowest


def read_month(text: str) -> int:
    """`2026-11` as 202611."""
    match = MONTH.fullmatch(text)
    if match is None:
        problems = Problems()
        problems.add("/month", "invalid", Text("A month is written like 2026-11.", "月份写作 2026-11。"))
        problems.raise_if_any()
        raise AssertionError("unreachable")
    return int(match[1]) * 100 + int(match[2])


def _time(text: str, name: str, problems: Problems) -> datetime | None:
    if not text:
        return None
    try:
        return read_utc(text, name=name)
    except InvalidInput as error:
        problems.fields += error.fields
        return None


def _user(actor: Actor, text: str, problems: Problems) -> uuid.UUID | None:
    if not text:
        return None
    if text == "me" and actor.user_id is not None:
        return actor.user_id
    try:
        condition = Q(id=uuid.UUID(text))
    except ValueError:
        condition = Q(name=text)
    found = visible(actor, User).filter(condition).values_list("id", flat=True).first()
    if found is None:
        problems.add("/user", "not_found", Text("There is no such user that you see.", "没有您可见的这个用户。"))
    return found


def _queues(actor: Actor, text: str, problems: Problems) -> frozenset[uuid.UUID] | None:
    if not text:
        return None
    found = queue_selectors.find_queue_ids(actor, text)
    if not found:
        problems.add(
            "/queue",
            "not_found",
            Text("There is no such queue that you see.", "没有您可见的这个队列。"),
            Text("`berth queues` lists them.", "`berth queues` 可列出。"),
        )
    return found
