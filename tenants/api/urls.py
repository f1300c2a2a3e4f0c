"""Paths of tenants, people and capacity, below `/api/v1/`."""

from django.urls import path

from tenants.api import tenants
from tenants.billing.api import urls as ledger_urls
from tenants.capacity.api import bookings, grants, quota, quota_requests
from tenants.capacity.api import queues as capacity
from tenants.identity.api import oidc, people, second_factor, sessions
from tenants.portal import api as portal

urlpatterns = [
    path("whoami", people.WhoamiView.as_view(), name="whoami"),
    path("session", sessions.SessionView.as_view(), name="session"),
    path("sessions", sessions.SessionsView.as_view(), name="sessions"),
    path("sessions:end-others", sessions.EndOthersView.as_view(), name="sessions-end-others"),
    path("sessions/<uuid:session_id>", sessions.OneSessionView.as_view(), name="one-session"),
    path("sign-in-methods", sessions.SignInMethodsView.as_view(), name="sign-in-methods"),
    path("totp", second_factor.TotpView.as_view(), name="totp"),
    path("totp:confirm", second_factor.TotpConfirmView.as_view(), name="totp-confirm"),
    path("users/<uuid:user_id>/totp", second_factor.UserTotpView.as_view(), name="user-totp"),
    path("device-codes", second_factor.DeviceCodesView.as_view(), name="device-codes"),
    path("device-codes:redeem", second_factor.RedeemView.as_view(), name="device-codes-redeem"),
    path("device-codes/<str:user_code>", second_factor.DeviceCodeView.as_view(), name="device-code"),
    path("device-codes/<str:user_code>/approve", second_factor.DecideView.as_view(), name="device-code-approve"),
    path("device-codes/<str:user_code>/deny", second_factor.DenyView.as_view(), name="device-code-deny"),
    path("identities:connect-directory", sessions.ConnectDirectoryView.as_view(), name="identities-connect-directory"),
    path("identities:connect", oidc.ConnectView.as_view(), name="identities-connect"),
    path("password", sessions.PasswordView.as_view(), name="password"),
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
    path("invitations:read", people.ReadInvitationView.as_view(), name="invitations-read"),
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
    path("features", portal.FeaturesView.as_view(), name="features"),
    path("features/<str:name>", portal.FeatureView.as_view(), name="feature"),
    path("announcements", portal.AnnouncementsView.as_view(), name="announcements"),
    path("announcements/<uuid:announcement_id>", portal.AnnouncementView.as_view(), name="announcement"),
    path("announcements/<uuid:announcement_id>/dismiss", portal.AnnouncementDismissView.as_view(), name="announcement-dismiss"),
    path("preferences", portal.PreferencesView.as_view(), name="preferences"),
    path("saved-filters", portal.SavedFiltersView.as_view(), name="saved-filters"),
    path("saved-filters/<uuid:filter_id>", portal.SavedFilterView.as_view(), name="saved-filter"),
    *ledger_urls.urlpatterns,
]
