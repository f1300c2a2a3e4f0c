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
from kernel.words import Text
from tenants.identity.access import demand
from tenants.identity.services.names import Problems
from tenants.portal.models import Announcement, AnnouncementDismissal, FeatureSetting, Preference, SavedFilter
from webapi.features import FEATURES

FILTERS_PER_USER = 200  # A menu that no user scrolls through any more.
ANNOUNCEMENTS_MAX = 200  # For all users, and in one tenant: as many as are read.


def set_feature(*, actor: Actor, name: str, enabled: bool | None, tenant_id: uuid.UUID | None, now: datetime) -> None:
    """Switch a feature on or off for a tenant and those below it, or for the installation. None: as inherited again."""
    demand(actor, None, "feature.edit")
    if name not in FEATURES:
        raise NotFound(
            Text(f"There is no feature {name[:40]!r}.", f"没有功能 {name[:40]!r}。"),
            hint=Text(f"Features are: {', '.join(FEATURES)}.", f"功能有：{', '.join(FEATURES)}。"),
        )
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
        raise Conflict(
            Text("Another user set this feature a moment ago.", "此功能刚被他人设置。"),
            hint=Text("Look again, and repeat your change.", "请重新查看，再做修改。"),
        ) from None


def announce(*, actor: Actor, tenant_id: uuid.UUID | None, given: Mapping[str, Any], now: datetime) -> Announcement:
    """Announce something to those who belong to a tenant, or to one above it; without a tenant, to all users."""
    demand(actor, tenant_id, "announcement.create")
    row = Announcement(tenant_id=tenant_id, created_at=now, created_by_id=actor.user_id, starts_at=now)
    _lay_over(row, given)
    with transaction.atomic():
        if Announcement.objects.filter(Q(tenant_id=tenant_id)).count() >= ANNOUNCEMENTS_MAX:
            raise Conflict(
                Text(f"There are {ANNOUNCEMENTS_MAX} announcements already.", f"已有 {ANNOUNCEMENTS_MAX} 条公告。"),
                hint=Text("Delete those that are over.", "请删除已过期的公告。"),
            )
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
            raise NotFound(
                Text("There is no such announcement any more.", "该公告已不存在。"),
                hint=Text("It was withdrawn a moment ago.", "刚刚被撤回。"),
            )
        if expected_version is not None and row.version != expected_version:
            raise PreconditionFailed(
                Text("The announcement was changed meanwhile.", "该公告已被他人修改。"),
                hint=Text("Read it again and repeat your change.", "请重新读取，再做修改。"),
            )
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
        problems.add(
            "/time_zone",
            "unknown_time_zone",
            Text("There is no such time zone.", "没有这个时区。"),
            Text("Write it like Asia/Shanghai.", "请按 Asia/Shanghai 的形式书写。"),
        )
    problems.raise_if_any()
    row, _ = Preference.objects.update_or_create(user_id=_person(actor), defaults=dict(changes))
    return row


def save_filter(*, actor: Actor, page: str, name: str, query: str, now: datetime) -> SavedFilter:
    """Keep a query string under a name for one page."""
    if SavedFilter.objects.filter(user_id=_person(actor)).count() >= FILTERS_PER_USER:
        raise Conflict(
            Text(f"You have {FILTERS_PER_USER} saved filters already.", f"您已保存 {FILTERS_PER_USER} 个筛选。"),
            hint=Text("Delete some that you do not use.", "请删除不用的筛选。"),
        )
    try:
        with transaction.atomic():
            return SavedFilter.objects.create(user_id=_person(actor), page=page, name=name, query=query, created_at=now)
    except IntegrityError:
        raise Conflict(
            Text(f"You have a filter called {name} for this page.", f"您在此页面已有名为 {name} 的筛选。"),
            hint=Text("Delete it, or take another name.", "请删除它，或换一个名称。"),
        ) from None


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
        problems.add(
            "/ends_at",
            "out_of_range",
            Text("It ends before it begins.", "结束早于开始。"),
            Text("Give an end after the start, or none.", "请给出晚于开始的结束时间，或不填。"),
        )
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
