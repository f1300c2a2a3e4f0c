"""What is set in the portal: features (operators), announcements (managers, operators), one's own preferences and filters."""

from __future__ import annotations

import uuid
import zoneinfo
from collections.abc import Mapping
from datetime import datetime
from functools import cache
from typing import Any

from django.db import IntegrityError, transaction
from django.db.models import Q

from activity.services import record_audit
from kernel.actor import Actor
from kernel.errors import Conflict, NotFound, PreconditionFailed
from tenants.access import demand
from tenants.models import Announcement, AnnouncementDismissal, FeatureSetting, Preference, SavedFilter
from tenants.services.names import Problems
from webapi.features import FEATURES

FILTERS_PER_USER = 200  # A menu that nobody scrolls through any more.
ANNOUNCEMENTS_MAX = 200  # For everybody, and in one tenant: as many as are read.


def set_feature(*, actor: Actor, name: str, enabled: bool | None, tenant_id: uuid.UUID | None, now: datetime) -> None:
    """Switch a feature on or off for a tenant and those below it, or for the installation. None: as inherited again."""
    demand(actor, None, "feature.edit")
    if name not in FEATURES:
        raise NotFound(f"There is no feature {name[:40]!r}.", hint=f"Features are: {', '.join(FEATURES)}.")
    with transaction.atomic():
        rows = FeatureSetting.objects.select_for_update().filter(Q(tenant_id=tenant_id), name=name)
        before = rows.values_list("enabled", flat=True).first()
        if enabled is None:
            rows.delete()
        elif not rows.update(enabled=enabled):
            _create_setting(name, tenant_id, enabled)
        record_audit(
            actor=actor, verb="feature.edit", tenant_id=tenant_id, target_kind="feature", target_id=None, target_name=name,
            before={"enabled": before}, after={"enabled": enabled}, at=now,
        )  # fmt: skip


def _create_setting(name: str, tenant_id: uuid.UUID | None, enabled: bool) -> None:
    try:
        with transaction.atomic():
            FeatureSetting.objects.create(name=name, tenant_id=tenant_id, enabled=enabled)
    except IntegrityError:
        raise Conflict("Somebody else set this feature a moment ago.", hint="Look again, and repeat your change.") from None


def announce(*, actor: Actor, tenant_id: uuid.UUID | None, given: Mapping[str, Any], now: datetime) -> Announcement:
    """Announce something to those who belong to a tenant, or to one above it; without a tenant, to everybody."""
    demand(actor, tenant_id, "announcement.create")
    row = Announcement(tenant_id=tenant_id, created_at=now, created_by_id=actor.user_id, starts_at=now)
    _lay_over(row, given)
    with transaction.atomic():
        if Announcement.objects.filter(Q(tenant_id=tenant_id)).count() >= ANNOUNCEMENTS_MAX:
            raise Conflict(f"There are {ANNOUNCEMENTS_MAX} announcements already.", hint="Delete those that are over.")
        row.save(force_insert=True)
        _audit(row, actor, "announcement.create", now)
    return row


def change_announcement(
    *, actor: Actor, announcement: Announcement, changes: Mapping[str, Any], expected_version: int | None, now: datetime
) -> Announcement:
    """Change words or window. Who has dismissed it sees it again: it says something else now."""
    with transaction.atomic():
        row = Announcement.objects.select_for_update().filter(id=announcement.pk).first()
        if row is None:
            raise NotFound("There is no such announcement any more.", hint="Somebody took it back a moment ago.")
        if expected_version is not None and row.version != expected_version:
            raise PreconditionFailed("The announcement was changed meanwhile.", hint="Read it again and repeat your change.")
        _lay_over(row, changes)
        row.version += 1
        row.save()
        AnnouncementDismissal.objects.filter(announcement=row).delete()
        _audit(row, actor, "announcement.edit", now)
    return row


def take_back(*, actor: Actor, announcement: Announcement, now: datetime) -> None:
    """Delete an announcement."""
    with transaction.atomic():
        _audit(announcement, actor, "announcement.delete", now)
        Announcement.objects.filter(id=announcement.pk).delete()


def dismiss(*, actor: Actor, announcement: Announcement) -> None:
    """Show it to this person no more. May be called twice."""
    AnnouncementDismissal.objects.bulk_create(
        [AnnouncementDismissal(announcement=announcement, user_id=_person(actor))], ignore_conflicts=True
    )


def set_preferences(*, actor: Actor, changes: Mapping[str, Any]) -> Preference:
    """Change what a person prefers; `default_tenant_id` was found among those that they see."""
    problems = Problems()
    zone = changes.get("time_zone")
    if zone and zone not in _zones():
        problems.add("/time_zone", "unknown_time_zone", "There is no such time zone.", "Write it like Asia/Shanghai.")
    problems.raise_if_any()
    row, _ = Preference.objects.update_or_create(user_id=_person(actor), defaults=dict(changes))
    return row


def save_filter(*, actor: Actor, page: str, name: str, query: str, now: datetime) -> SavedFilter:
    """Keep a query string under a name for one page."""
    if SavedFilter.objects.filter(user_id=_person(actor)).count() >= FILTERS_PER_USER:
        raise Conflict(f"You have {FILTERS_PER_USER} saved filters already.", hint="Delete some that you do not use.")
    try:
        with transaction.atomic():
            return SavedFilter.objects.create(user_id=_person(actor), page=page, name=name, query=query, created_at=now)
    except IntegrityError:
        raise Conflict(f"You have a filter called {name} for this page.", hint="Delete it, or take another name.") from None


def delete_filter(row: SavedFilter) -> None:
    SavedFilter.objects.filter(id=row.pk).delete()


def _person(actor: Actor) -> uuid.UUID:
    assert actor.user_id is not None, "whoever has settings is signed in"
    return actor.user_id


def _lay_over(row: Announcement, given: Mapping[str, Any]) -> None:
    for name, value in given.items():
        if not (name == "starts_at" and value is None):
            setattr(row, name, value)
    if row.ends_at is not None and row.ends_at <= row.starts_at:
        problems = Problems()
        problems.add("/ends_at", "out_of_range", "It ends before it begins.", "Give an end after the start, or none.")
        problems.raise_if_any()


@cache
def _zones() -> frozenset[str]:
    return frozenset(zoneinfo.available_timezones())


def _audit(row: Announcement, actor: Actor, verb: str, now: datetime) -> None:
    record_audit(
        actor=actor,
        verb=verb,
        tenant_id=row.tenant_id,
        target_kind="announcement",
        target_id=row.pk,
        after={
            "level": row.level,
            "text": row.text,
            "starts_at": row.starts_at.isoformat(),
            "ends_at": None if row.ends_at is None else row.ends_at.isoformat(),
        },
        at=now,
    )
