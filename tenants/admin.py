"""Tenants, people, queues and what they are promised, in the operators' console."""

from __future__ import annotations

import uuid

from django.contrib import admin, messages
from django.contrib.auth.models import Group
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseRedirect
from django.template.response import TemplateResponse
from django.utils.translation import gettext_lazy as _
from unfold.decorators import action

from kernel.clock import database_now
from kernel.errors import BerthError
from tenants import services
from tenants.capacity.console.limits import LimitsForm, shown
from tenants.capacity.services.bookings import cancel_booking
from tenants.capacity.services.edits import forecast
from tenants.capacity.services.quota_requests import approve_request, deny_request
from tenants.identity.services.tokens import revoke_token
from tenants.identity.services.users import disable_user
from tenants.models import Booking, Budget, Membership, Price, Queue, QuotaEdit, QuotaRequest, Tenant, Token, User, UserCap
from webapi.console import Record, on_each, operator_of, words

admin.site.unregister(Group)  # Rights come from memberships; Django's own groups give no rights.


@admin.register(Tenant)
class TenantRecord(Record):
    list_display = ("name", "slug", "number", "parent", "created_at")
    list_select_related = ("parent",)
    search_fields = ("name", "slug")


@admin.register(User)
class UserRecord(Record):
    list_display = ("name", "email", "email_claimed", "kind", "tenant", "is_operator", "is_active", "created_at")
    list_filter = ("kind", "is_operator", "is_active")
    list_select_related = ("tenant",)
    search_fields = ("name", "email", "email_claimed")
    secrets = ("password",)
    actions = ("disable",)

    disable = on_each(
        _("Lock out: end their tokens and connections"),
        lambda row, actor, now: disable_user(actor=actor, user=row, now=now),
        done=_("Locked out"),
    )


@admin.register(Membership)
class MembershipRecord(Record):
    list_display = ("user", "tenant", "role")
    list_filter = ("role",)
    list_select_related = ("user", "tenant")
    search_fields = ("user__name", "tenant__name")


@admin.register(Token)
class TokenRecord(Record):
    list_display = ("name", "kind", "prefix", "user", "created_at", "last_used_at", "expires_at", "revoked_at")
    list_select_related = ("user",)
    search_fields = ("name", "prefix", "user__name")
    secrets = ("digest",)
    actions = ("revoke",)

    revoke = on_each(_("Revoke"), lambda row, actor, now: revoke_token(actor=actor, token=row, now=now), done=_("Revoked"))


@admin.register(Queue)
class QueueRecord(Record):
    list_display = ("name", "tenant", "parent", "is_top", "version")
    list_filter = ("tenant",)
    list_select_related = ("tenant", "parent")
    search_fields = ("name", "tenant__name")
    actions_detail = ("limits",)

    @action(description=_("Limits"), url_path="limits")
    def limits(self, request: HttpRequest, object_id: str) -> HttpResponse:
        """All limits of the queue: try an edit, then make it. By the rules, the forecast and the audit of the API."""
        queue = _queue(object_id)
        form = LimitsForm(queue, request.POST or None)
        outcome = None
        if request.method == "POST" and form.is_valid():
            try:
                if not form.changes():
                    messages.info(request, _("Nothing is changed: the numbers are what they are now."))
                elif request.POST.get("do") == "make":
                    self._make(request, queue, form)
                    return HttpResponseRedirect(request.path)
                else:
                    trial = services.try_limits(actor=operator_of(request), changes=form.changes())
                    outcome = shown(trial, forecast(trial, actor=operator_of(request), now=database_now()))
            except BerthError as error:
                form.add_error(None, words(error))
        context = {
            **self.admin_site.each_context(request),
            "title": _("Limits of queue %(queue)s") % {"queue": queue.name},
            "queue": queue, "form": form, "lines": list(form.lines()), "outcome": outcome, "opts": self.opts,
            "columns": (
                _("Pool"), _("Resource"), _("The pool has"), _("The queue holds"),
                _("Guarantee"), _("Deserved"), _("Ceiling"), _("Weight"),
            ),
            "meant": (form["effective_from"], form["comment"]),
        }  # fmt: skip
        return TemplateResponse(request, "tenants/console/limits.html", context)

    def _make(self, request: HttpRequest, queue: Queue, form: LimitsForm) -> None:
        edit = services.edit_limits(
            actor=operator_of(request),
            changes=form.changes(),
            effective_from=form.cleaned_data["effective_from"],
            comment=form.cleaned_data["comment"],
            expected_versions={queue.pk: form.cleaned_data["version"]},
            now=database_now(),
        )
        later = _("It will be made at %(time)s UTC.") % {"time": f"{edit.effective_from:%Y-%m-%d %H:%M}"}
        messages.success(request, _("Made.") if edit.decided_at is not None else later)


def _queue(text: str) -> Queue:
    try:
        return Queue.objects.select_related("tenant").get(id=uuid.UUID(text))
    except (ValueError, Queue.DoesNotExist):
        raise Http404("There is no such queue.") from None


@admin.register(QuotaEdit)
class QuotaEditRecord(Record):
    list_display = ("id", "tenant", "state", "effective_from", "created_by", "comment")
    list_filter = ("state",)
    list_select_related = ("tenant", "created_by")
    ordering = ("-id",)
    actions = ("cancel",)

    cancel = on_each(
        _("Cancel, where the time has not come"),
        lambda row, actor, now: services.cancel_edit(actor=actor, edit=row, now=now),
        done=_("Cancelled"),
    )


@admin.register(QuotaRequest)
class QuotaRequestRecord(Record):
    list_display = ("id", "tenant", "state", "reason", "created_by", "effective_from", "expires_at")
    list_filter = ("state",)
    list_select_related = ("tenant", "created_by")
    ordering = ("-id",)
    actions = ("approve", "deny")

    approve = on_each(
        _("Approve"), lambda row, actor, now: approve_request(actor=actor, request=row, now=now), done=_("Approved")
    )

    deny = on_each(_("Deny"), lambda row, actor, now: deny_request(actor=actor, request=row, now=now), done=_("Denied"))


@admin.register(Booking)
class BookingRecord(Record):
    list_display = ("id", "tenant", "queue", "gpu_millis", "starts_at", "ends_at", "state", "claimed_at")
    list_filter = ("state",)
    list_select_related = ("tenant", "queue")
    ordering = ("-id",)
    actions = ("cancel",)

    cancel = on_each(_("Cancel"), lambda row, actor, now: cancel_booking(actor=actor, booking=row, now=now), done=_("Cancelled"))


@admin.register(UserCap)
class UserCapRecord(Record):
    list_display = ("tenant", "user", "gpu_millis", "jobs", "containers")
    list_select_related = ("tenant", "user")
    search_fields = ("tenant__name", "user__name")


@admin.register(Budget)
class BudgetRecord(Record):
    list_display = ("queue", "kind", "amount", "spent", "spent_month", "stops")
    list_select_related = ("queue",)
    search_fields = ("queue__name",)


@admin.register(Price)
class PriceRecord(Record):
    list_display = ("pool_id", "resource", "micros_per_hour", "currency", "effective_at", "created_by")
    list_filter = ("resource",)
    list_select_related = ("created_by",)
    ordering = ("-effective_at",)
