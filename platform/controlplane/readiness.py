"""What `/readyz` asks beyond the database: broker, scheduler and every cluster, each by name."""

from __future__ import annotations

from collections import Counter
from datetime import timedelta

import redis
from django.db import DatabaseError, InterfaceError

from clusters.selectors import list_clusters
from clusters.services.quarantine import current_holds
from controlplane.instance import CLOSED_FOLDERS, OPEN_FOLDERS
from controlplane.processes.heartbeat import living
from controlplane.servers import PROBE
from kernel.clock import database_now
from kernel.config import current
from kernel.errors import Unavailable
from kernel.words import Text
from reconciling import poison
from reconciling.models import Lease
from storage.space import troubles
from webapi.health import register_check
from webapi.problems import as_failure

ROLES = ("web", "worker", "scheduler", "observer")
SCHEDULER_SILENT = timedelta(seconds=30)  # Past the end of its lease without a taker.


def register() -> None:
    """Register every check. Called once, when the project starts."""
    register_check("broker", _broker)
    register_check("scheduler", _scheduler)
    register_check("clusters", _clusters)
    register_check("set_aside", _set_aside)
    register_check("disk", _disk)
    register_check("database_writes", _database_writes)
    register_check("quarantine", _quarantine)
    register_check("processes", _processes)


def _broker() -> str:
    url = current().redis_url
    if not url:
        return "memory"
    try:
        with redis.Redis.from_url(url, socket_timeout=1.0, socket_connect_timeout=1.0) as client:
            client.ping()
            client.set(PROBE, 1, ex=60)  # A journal without room: it answers, and takes nothing.
    except redis.ResponseError as error:
        raise Unavailable(
            Text(
                f"Redis answers but takes nothing: {str(error).partition(' ')[0]}.",
                f"Redis 有应答但拒绝写入：{str(error).partition(' ')[0]}。",
            )
        ) from error
    except redis.RedisError as error:  # Its text holds addresses; the probe is public.
        raise Unavailable(
            Text(f"Redis does not answer: {type(error).__name__}.", f"Redis 没有应答：{type(error).__name__}。")
        ) from error
    return "redis"


def _scheduler() -> str:
    """A scheduler leads, or did until a moment ago: a standby needs a moment to take over."""
    lease = Lease.objects.filter(name="scheduler").first()
    if lease is None or lease.expires_at is None or lease.expires_at < database_now() - SCHEDULER_SILENT:
        raise Unavailable(Text("No scheduler runs. Start a scheduler process.", "没有调度器在运行。请启动调度器进程。"))
    return "led"


def _clusters() -> str:
    """Lost contact with a cluster is said, but the platform stays ready: everything else works."""
    facts = [f"{cluster.name} {cluster.condition}" for cluster in list_clusters() if cluster.is_enabled]
    return ", ".join(facts) or "none"


def _processes() -> str:
    """How many processes of each role live. A role of which none lives is said; this process answers all the same."""
    if not current().is_production:
        return "one"
    found = Counter(process.role for process in living(database_now()))
    return ", ".join(f"{role} {found[role] or 'none'}" for role in ROLES)


def _set_aside() -> str:
    """Rows at which the platform failed three times are told of; it is ready all the same, because the others go on."""
    counts = poison.count_set_aside()
    return ", ".join(f"{number} by {handler}" for handler, number in sorted(counts.items())) or "none"


def _quarantine() -> str:
    """What waits for an operator after a restore is said; the platform is ready all the same."""
    holds = current_holds()
    if holds.since_at is None:
        return "none"
    asked = f"; not asked yet: {', '.join(name for _, name in holds.unlooked)}" if holds.unlooked else ""
    return f"{holds.undecided} attempts undecided{asked}"


def _disk() -> str:
    """Folders that cannot be written to, by name and cause. The platform stays ready: it reads, stops and observes, and says 507
    where it would have to write."""
    data_dir = current().data_dir
    found = troubles([data_dir / name for name in (*OPEN_FOLDERS, *CLOSED_FOLDERS)])
    return "; ".join(f"{name}: {cause}" for name, cause in found.items()) or "writable"


def _database_writes() -> str:
    """Write one row: a database whose disk is full, or that is read-only, answers questions and takes no job."""
    try:
        Lease.objects.update_or_create(name=PROBE, defaults={"expires_at": database_now()})
    except (DatabaseError, InterfaceError) as error:
        failure = as_failure(error)
        if failure.status in (503, 507):
            return f"refused: {failure.detail}"
        raise
    return "taken"
