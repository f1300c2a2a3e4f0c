"""One run from beginning to end: parties, trial, verdict, removal. Its end is told in the log, as an event, and by metrics."""

from __future__ import annotations

import contextlib
import os
import socket
import time
from collections.abc import Iterable
from datetime import datetime, timedelta
from typing import Any

import httpx2
import structlog
from django.apps import apps
from django.db import transaction
from prometheus_client.core import GaugeMetricFamily, Metric

from activity.services import NewEvent, record_audit, record_events
from controlplane.models import SelfTest
from controlplane.selftest.address import own_url
from controlplane.selftest.parties import ACTOR, Parties, SelfTestBroken, make_parties
from controlplane.selftest.removal import NotRemoved, remove_what_was_made
from controlplane.selftest.trial import judge, tries
from controlplane.selftest.walls import holes, try_walls
from kernel.clock import database_now
from kernel.config import current
from kernel.errors import BerthError
from reconciling import leases
from webapi.description import describe

LEASE = "selftest"
SECONDS_MAX = 45.0  # No task of a worker lasts longer than a minute; a quiet machine needs five seconds.
AFTERWARDS_SECONDS = 75.0  # For the removal, before another run may begin.
FINDINGS_MAX = 100
DETAIL_LENGTH = 1_000

log = structlog.get_logger("selftest")


def due(now: datetime) -> bool:
    """Whether the next run is due: `BERTH_SELFTEST_HOURS` after the last, and after the installation was made."""
    hours = current().selftest_hours
    if not hours:
        return False
    last = SelfTest.objects.order_by("-started_at").values_list("started_at", flat=True).first() or _installed_at()
    return last is not None and now - last >= timedelta(hours=hours)


def _installed_at() -> datetime | None:
    """When the first tenant was made. An installation is not tried in its first hours: people look at it then."""
    found: datetime | None = (
        apps.get_model("tenants.Tenant").objects.order_by("created_at").values_list("created_at", flat=True).first()
    )
    return found


def run_selftest(*, seconds_max: float = SECONDS_MAX) -> SelfTest | None:
    """Carry out a run; None if another one is just being carried out. One that takes longer than `seconds_max` is broken."""
    holder, seconds = f"{socket.gethostname()}:{os.getpid()}", seconds_max + AFTERWARDS_SECONDS
    token = leases.acquire(LEASE, holder=holder, seconds=seconds, now=database_now())
    if token is None:
        return None
    try:
        return _run(seconds_max)
    finally:
        leases.release(LEASE, token)


def _run(seconds_max: float) -> SelfTest:
    run = SelfTest.objects.create(started_at=database_now())
    findings: list[dict[str, Any]] = []
    walls: list[dict[str, Any]] = []
    requests, verdict, detail = 0, "broken", ""
    try:
        parties = make_parties(run, url=own_url(), now=run.started_at)
        with contextlib.closing(parties):
            findings = _try_everything(parties, time.monotonic() + seconds_max)
        walls = try_walls(run.pk, tenant_number=parties.stranger_number, url=parties.stranger.url)
        findings += holes(walls)
        requests, verdict = parties.requests, "failed" if findings else "passed"
    except (SelfTestBroken, BerthError, httpx2.HTTPError, OSError) as error:
        detail = f"{type(error).__name__}: {error}"[:DETAIL_LENGTH]
    finally:
        _conclude(run, verdict=verdict, requests=requests, findings=findings, walls=walls, detail=detail)
        try:
            remove_what_was_made(run, now=database_now())
        except (NotRemoved, OSError) as error:  # The duty tries again.
            log.warning("selftest_left", run=str(run.pk), detail=str(error))
    run.refresh_from_db()
    return run


def _try_everything(parties: Parties, deadline: float) -> list[dict[str, Any]]:
    description = describe()
    _control(parties)
    findings: list[dict[str, Any]] = []
    for tried in tries(description, parties):
        for caller in (parties.stranger,) if tried.query else (parties.stranger, parties.nobody):
            if time.monotonic() > deadline:
                raise SelfTestBroken(f"It took too long; {parties.requests} requests were tried.")
            answer = caller.send(tried.method, tried.path, body=tried.body, query=tried.query)
            problem = judge(tried, caller, answer, parties.marks)
            if problem and len(findings) < FINDINGS_MAX:
                findings.append(
                    {"operation": tried.operation, "by": caller.name, "status": answer.status, "problem": problem}
                    | ({"query": sorted(tried.query)} if tried.query else {})
                )
    return findings


def _control(parties: Parties) -> None:
    """The owner does see its things: where all callers are refused, a refusal shows nothing."""
    for name in ("jobs/job", "volumes/volume_id", "queues/queue_id", "images/image_id", "tenant"):
        noun = name.partition("/")[0] if "/" in name else "tenants"
        answer = parties.owner.send("GET", f"/api/v1/{noun}/{parties.values[name]}")
        if answer.status != 200:
            raise SelfTestBroken(f"The owner does not see its own {noun}: {answer.status} {answer.text[:300]}")


def _conclude(
    run: SelfTest,
    *,
    verdict: str,
    requests: int,
    findings: list[dict[str, Any]],
    walls: list[dict[str, Any]],
    detail: str,
) -> None:
    now = database_now()
    with transaction.atomic():
        SelfTest.objects.filter(id=run.pk).update(
            finished_at=now, verdict=verdict, requests=requests, findings=findings, walls=walls, detail=detail
        )
        facts = {"verdict": verdict, "requests": requests, "findings": len(findings), "detail": detail}
        record_audit(
            actor=ACTOR, verb="selftest.run", tenant_id=None, target_kind="selftest", target_id=run.pk, after=facts, at=now
        )
        record_events([NewEvent(f"selftest.{verdict}", None, "selftest", run.pk, now, data=facts)])
    tell = log.info if verdict == "passed" else log.error
    tell("selftest", run=str(run.pk), **facts, first=findings[:3])


def selftest_metrics(now: datetime) -> Iterable[Metric]:
    """What an alarm looks at: findings of the last run, and when the last one passed. One query."""
    last = SelfTest.objects.exclude(verdict="").order_by("-started_at").first()
    passed = SelfTest.objects.filter(verdict="passed").order_by("-started_at").values_list("started_at", flat=True).first()
    family = GaugeMetricFamily("berth_selftest_findings", "What the last tenant escape self-test found: 0, or an alarm.")
    if last is not None:
        family.add_metric([], float(len(last.findings)))
    yield family
    seen = GaugeMetricFamily("berth_selftest_passed_timestamp_seconds", "When a tenant escape self-test last passed.")
    if passed is not None:
        seen.add_metric([], passed.timestamp())
    yield seen
