"""Paths of tenants, people and capacity, below `/api/v1/`."""

from django.urls import path

from tenants.api import bookings, capacity, grants, ledger_urls, people, quota, quota_requests, tenants

urlpatterns = [
    path("whoami", people.WhoamiView.as_view(), name="whoami"),
    path("tenants", tenants.TenantsView.as_view(), name="tenants"),
    path("tenants/<str:tenant>", tenants.TenantView.as_view(), name="tenant"),
    path("tenants/<str:tenant>/members", tenants.MembersView.as_view(), name="members"),
    path("tenants/<str:tenant>/members/<uuid:user_id>", tenants.MemberView.as_view(), name="member"),
    path("tenants/<str:tenant>/secrets", tenants.SecretsView.as_view(), name="secrets"),
    path("tenants/<str:tenant>/secrets/<str:name>", tenants.SecretView.as_view(), name="secret"),
    path("tenants/<str:tenant>/service-accounts", tenants.ServiceAccountsView.as_view(), name="service-accounts"),
    path("tenants/<str:tenant>/service-accounts/<uuid:user_id>", tenants.ServiceAccountView.as_view(), name="service-account"),
    path("users", people.UsersView.as_view(), name="users"),
    path("users:import", people.UserImportView.as_view(), name="users-import"),
    path("users/<uuid:user_id>", people.UserView.as_view(), name="user"),
    path("tokens", people.TokensView.as_view(), name="tokens"),
    path("tokens/<uuid:token_id>", people.TokenView.as_view(), name="token"),
    path("invitations", people.InvitationsView.as_view(), name="invitations"),
    path("invitations:accept", people.AcceptInvitationView.as_view(), name="invitations-accept"),
    path("invitations/<uuid:invitation_id>", people.InvitationView.as_view(), name="invitation"),
    path("queues", capacity.QueuesView.as_view(), name="queues"),
    path("queues/<uuid:queue_id>", capacity.QueueView.as_view(), name="queue"),
    path("queues/<uuid:queue_id>/limits", capacity.QueueLimitsView.as_view(), name="queue-limits"),
    path("bookings", bookings.BookingsView.as_view(), name="bookings"),
    path("bookings/<uuid:booking_id>", bookings.BookingView.as_view(), name="booking"),
    path("queues/<uuid:queue_id>/rules", quota.QueueRulesView.as_view(), name="queue-rules"),
    path("quota/edits", quota.QuotaEditsView.as_view(), name="quota-edits"),
    path("quota/edits/<uuid:edit_id>", quota.QuotaEditView.as_view(), name="quota-edit"),
    path("quota/requests", quota_requests.QuotaRequestsView.as_view(), name="quota-requests"),
    path("quota/requests/<uuid:request_id>", quota_requests.QuotaRequestView.as_view(), name="quota-request"),
    path(
        "quota/requests/<uuid:request_id>/approve",
        quota_requests.QuotaRequestApproveView.as_view(),
        name="quota-request-approve",
    ),
    path("quota/requests/<uuid:request_id>/deny", quota_requests.QuotaRequestDenyView.as_view(), name="quota-request-deny"),
    path("tenants/<str:tenant>/caps", quota.TenantCapsView.as_view(), name="tenant-caps"),
    path("tenants/<str:tenant>/priority-grants", grants.PriorityGrantsView.as_view(), name="priority-grants"),
    *ledger_urls.urlpatterns,
]
