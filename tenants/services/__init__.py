"""Everything that writes people, tenants and capacity. Plain functions; each owns its transaction, audit row and events."""

from tenants.billing.services.ledger import LedgerLine, append_ledger
from tenants.capacity.services.bookings import NewBooking, book, cancel_booking, register_waiting, sweep_bookings
from tenants.capacity.services.caps import CapLine, set_rules, set_user_caps
from tenants.capacity.services.edits import apply_due_edits, cancel_edit, edit_limits, register_forecast, try_limits
from tenants.capacity.services.grants import set_priority_grants
from tenants.capacity.services.limits import PoolLimit, set_limits
from tenants.capacity.services.queue_removal import QueueObstacle, delete_queue, register_queue_obstacles
from tenants.capacity.services.queues import create_queue, rename_queue
from tenants.capacity.services.quota_requests import (
    approve_request,
    deny_request,
    request_limits,
    sweep_quota_requests,
    withdraw_request,
)
from tenants.capacity.services.reservations import Drift, ReserveRequest, recount_usage, release, reserve
from tenants.identity.services.device_codes import decide_device_code, forget_device_codes, make_device_code, redeem_device_code
from tenants.identity.services.invitations import (
    Accepted,
    IssuedInvitation,
    accept_invitation,
    invite_user,
    read_invitation,
    withdraw_invitation,
)
from tenants.identity.services.leaving import Settlement, hand_over
from tenants.identity.services.members import add_member, change_role, remove_member
from tenants.identity.services.second_factor import (
    begin_second_factor,
    confirm_second_factor,
    remove_second_factor,
    reset_second_factor,
    rotate_second_factors,
)
from tenants.identity.services.secrets import decrypt_secrets, delete_secret, missing_secrets, rotate_secrets, set_secret
from tenants.identity.services.sessions import end_other_sessions, end_session, sign_in
from tenants.identity.services.standing import disable_tenant, enable_tenant
from tenants.identity.services.tokens import IssuedToken, create_token, revoke_token
from tenants.identity.services.user_import import ImportReport, export_users_csv, import_users_csv
from tenants.identity.services.users import (
    create_service_account,
    create_user,
    disable_service_account,
    disable_user,
    set_password,
    update_user,
)
from tenants.services.bootstrap import Credentials, bootstrap_installation
from tenants.services.tenants import create_tenant, update_tenant

__all__ = [
    "Accepted",
    "CapLine",
    "Credentials",
    "Drift",
    "ImportReport",
    "IssuedInvitation",
    "IssuedToken",
    "LedgerLine",
    "NewBooking",
    "PoolLimit",
    "QueueObstacle",
    "ReserveRequest",
    "Settlement",
    "accept_invitation",
    "add_member",
    "append_ledger",
    "apply_due_edits",
    "approve_request",
    "begin_second_factor",
    "book",
    "bootstrap_installation",
    "cancel_booking",
    "cancel_edit",
    "change_role",
    "confirm_second_factor",
    "create_queue",
    "create_service_account",
    "create_tenant",
    "create_token",
    "create_user",
    "decide_device_code",
    "decrypt_secrets",
    "delete_queue",
    "delete_secret",
    "deny_request",
    "disable_service_account",
    "disable_tenant",
    "disable_user",
    "edit_limits",
    "enable_tenant",
    "end_other_sessions",
    "end_session",
    "export_users_csv",
    "forget_device_codes",
    "hand_over",
    "import_users_csv",
    "invite_user",
    "make_device_code",
    "missing_secrets",
    "read_invitation",
    "recount_usage",
    "redeem_device_code",
    "register_forecast",
    "register_queue_obstacles",
    "register_waiting",
    "release",
    "remove_member",
    "remove_second_factor",
    "rename_queue",
    "request_limits",
    "reserve",
    "reset_second_factor",
    "revoke_token",
    "rotate_second_factors",
    "rotate_secrets",
    "set_limits",
    "set_password",
    "set_priority_grants",
    "set_rules",
    "set_secret",
    "set_user_caps",
    "sign_in",
    "sweep_bookings",
    "sweep_quota_requests",
    "try_limits",
    "update_tenant",
    "update_user",
    "withdraw_invitation",
    "withdraw_request",
]
