"""What tenants bring to the layers below: errors, tables that requests remember, features, and who may see what."""

from __future__ import annotations

from django.db.models import Model

from activity.notifications.kinds import register_notice_kinds
from kernel.crashpoints import register_crash_points
from kernel.tenant_rows import TENANT, USER, register_tenant_rows
from kernel.words import Text
from tenants import models
from tenants.access import register_rules
from tenants.billing.notices import BUDGET
from tenants.capacity.lifecycle import BookingState
from tenants.hooks import register_hooks
from tenants.identity.leaving import Belonging, register_belongings
from webapi.facts import register_fact_tables
from webapi.features import Feature, register_features
from webapi.reference import register_errors

ERRORS = {
    "bad_credentials": "Check both, or ask an operator to restore your access.",
    "locked": "Wait as long as `Retry-After` says; nothing has to be unlocked.",
    "directory_unavailable": "Try again in a minute, or sign in with a password in Berth.",
    "directory_refused": "Sign in to the existing account and link it once, or ask an operator.",
    "password_elsewhere": "Change it where your organisation keeps it.",
    "second_factor_required": "Send the same request again with `code`, from your authenticator.",
    "bad_code": "Type the digits that are shown now, or a recovery code; no code works twice.",
    "authorization_pending": "Wait `interval` seconds and ask again, until the code expires.",
    "slow_down": "Wait as long as `Retry-After` says before you ask again.",
    "expired_code": "Run `berth login` again; a code is valid for ten minutes and works once.",
    "access_denied": "Run `berth login` again if you wanted it, and approve it in the browser.",
    "csrf_failed": "Send the `csrf` of GET /api/v1/session as `X-Berth-CSRF`, from a page under the portal's own address.",
    "tenant_disabled": "Ask an operator to enable the tenant; its waiting jobs start by themselves then.",
    "queue_in_use": "End what the refusal names, then delete the queue again; its history stays.",
}

FACT_TABLES: dict[type[Model], tuple[str, ...]] = {
    models.Token: ("user_id", "prefix", "digest", "scopes", "expires_at", "revoked_at"),
    models.User: ("name", "email", "kind", "tenant_id", "is_operator", "is_active"),
    models.Membership: ("tenant_id", "user_id", "role"),
    models.Tenant: ("slug", "name", "number", "parent_id", "disabled_at", "disabled_reason", "deleted_at"),
    models.TenantAncestor: ("tenant_id", "ancestor_id"),
    models.Queue: ("tenant_id", "parent_id", "name", "path", "is_top", "deleted_at"),
    models.QueueLimit: ("queue_id", "pool_id", "resource", "ceiling"),
    models.QueueRule: ("queue_id", "max_runtime_seconds", "max_jobs", "max_containers"),
    models.UserCap: ("tenant_id", "user_id", "gpu_millis", "jobs", "containers"),
    models.FeatureSetting: ("tenant_id", "name", "enabled"),
    models.PriorityGrant: ("tenant_id", "role", "priority"),
}

FEATURES = (
    Feature("billing", Text("Prices, costs, budgets and statements", "价格、费用、预算与账单")),
    Feature("bookings", Text("Bookings of GPUs", "GPU 预订")),
    Feature("announcements", Text("Announcements", "公告")),
)

CRASH_POINTS = {
    "tenants.quota_request.before_commit": "A request for other limits is made or decided, not committed.",
}

NOTICE_KINDS = (BUDGET,)

TENANT_ROWS = {
    "tenants.TenantAncestor": (TENANT,),
    "tenants.User": (TENANT,),
    "tenants.Membership": (TENANT, USER),
    "tenants.Token": (USER,),
    "tenants.BrowserSession": (USER,),
    "tenants.SecondFactor": (USER,),
    "tenants.RecoveryCode": (USER,),
    "tenants.DeviceCode": (USER,),
    "tenants.ExternalIdentity": (USER,),
    "tenants.Invitation": (TENANT,),
    "tenants.Secret": (TENANT,),
    "tenants.QuotaEdit": (TENANT,),
    "tenants.QuotaRequest": (TENANT,),
    "tenants.UserCap": (TENANT, USER),
    "tenants.PriorityGrant": (TENANT,),
    "tenants.Booking": (TENANT,),
    "tenants.Queue": (TENANT,),
    "tenants.Reservation": (TENANT,),
    "tenants.UsageDay": (TENANT, USER),
    "tenants.Statement": (TENANT,),
    "tenants.ShareStatement": (TENANT,),
    "tenants.LedgerEntry": (TENANT, USER),
    "tenants.FeatureSetting": (TENANT,),
    "tenants.Announcement": (TENANT,),
    "tenants.AnnouncementDismissal": (USER,),
    "tenants.Preference": (USER,),
    "tenants.SavedFilter": (USER,),
}


BELONGINGS = {
    "bookings": Belonging(
        lambda user_id: models.Booking.objects.filter(created_by_id=user_id, state=BookingState.HELD),
        name="id",
        owner="created_by_id",
    ),
    "tokens": Belonging(
        lambda user_id: models.Token.objects.filter(user_id=user_id, kind=models.TokenKind.PERSONAL, revoked_at__isnull=True),
        name="",
        tenant="",
    ),
}


def register() -> None:
    """Called once, from `AppConfig.ready`."""
    register_errors(ERRORS)
    register_fact_tables(FACT_TABLES)
    register_features(FEATURES)
    register_crash_points(CRASH_POINTS)
    register_notice_kinds(NOTICE_KINDS)
    register_tenant_rows(TENANT_ROWS)
    register_belongings(BELONGINGS)
    register_rules()
    register_hooks()
