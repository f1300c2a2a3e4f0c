"""The second factor and letting command lines in, over HTTP."""

from __future__ import annotations

from typing import Any

from drf_spectacular.utils import extend_schema
from rest_framework.request import Request
from rest_framework.response import Response

from kernel.clock import database_now
from kernel.config import current
from tenants.identity.access import demand
from tenants.identity.api import session_bodies as bodies
from tenants.identity.api import shapes
from tenants.identity.api.authentication import BySession, known
from tenants.identity.models import DeviceCode, User
from tenants.identity.services import device_codes, second_factor
from tenants.identity.services.device_codes import decide_device_code, make_device_code, redeem_device_code
from tenants.identity.services.second_factor import (
    begin_second_factor,
    confirm_second_factor,
    remove_second_factor,
    reset_second_factor,
)
from tenants.identity.services.sessions import refuse_many_own
from webapi.access import fetch
from webapi.addresses import client_address
from webapi.views import ApiView, Public


class TotpView(ApiView):
    """Your second factor."""

    @extend_schema(responses=bodies.FactorOut)
    def get(self, request: Request) -> Response:
        """Get the state of your second factor, and the number of recovery codes left."""
        demand(self.actor, None, "token.read")
        state = second_factor.factor_state(_user_of(self).pk)
        return Response({"enabled": state.enabled, "recovery_codes_left": state.recovery_codes_left})

    # Not idempotent by key: the kept answer would hold the secret.
    @extend_schema(request=bodies.FactorIn, responses={201: bodies.EnrolmentOut})
    def post(self, request: Request) -> Response:
        """Begin to set up a second factor. It takes effect when a code of it is confirmed."""
        demand(self.actor, None, "user.edit_self")
        body = bodies.FactorIn.validated(request.data)
        user = _user_of(self)
        refuse_many_own(self.actor, user)
        made = begin_second_factor(actor=self.actor, user=user, password=body["password"], now=database_now())
        return Response({"secret": made.secret, "uri": made.uri, "qr_svg": made.qr_svg}, status=201)

    @extend_schema(request=bodies.FactorRemoval, responses={204: None})
    def delete(self, request: Request) -> Response:
        """Remove your second factor, with your password and a code or recovery code."""
        demand(self.actor, None, "user.edit_self")
        body = bodies.FactorRemoval.validated(request.data)
        user = _user_of(self)
        refuse_many_own(self.actor, user)
        remove_second_factor(actor=self.actor, user=user, now=database_now(), **body)
        return Response(status=204)


TotpView.delete.has_body = True  # type: ignore[attr-defined]  # Read back by `webapi.schema`.


class TotpConfirmView(ApiView):
    """The first code of an authenticator."""

    # Not idempotent by key: the kept answer would hold the codes.
    @extend_schema(request=bodies.FactorCode, responses=bodies.RecoveryCodesOut)
    def post(self, request: Request) -> Response:
        """Confirm your authenticator with a code. The recovery codes are only in this answer; each works once.

        All your other sessions end, because they were opened without a code.
        """
        demand(self.actor, None, "user.edit_self")
        body = bodies.FactorCode.validated(request.data)
        user = _user_of(self)
        refuse_many_own(self.actor, user)
        done = confirm_second_factor(actor=self.actor, user=user, code=body["code"], now=database_now())
        return Response({"recovery_codes": done.recovery_codes, "sessions_ended": done.sessions_ended})


class UserTotpView(ApiView):
    """Another user's second factor."""

    @extend_schema(responses={204: None})
    def delete(self, request: Request, user_id: str) -> Response:
        """Remove the second factor of a user who lost it, as an operator."""
        user = fetch(self.actor, User, user_id, "user.read")
        reset_second_factor(actor=self.actor, user=user, now=database_now())
        return Response(status=204)


class DeviceCodesView(ApiView):
    """Command lines that ask to be let in."""

    permission_classes = (Public,)
    authentication_classes = ()

    # Not idempotent by key: the kept answer would hold the code.
    @extend_schema(request=bodies.DeviceCodeIn, responses={201: bodies.DeviceCodeOut})
    def post(self, request: Request) -> Response:
        """Request a sign-in of a program: show `user_code` and `verification_url` to the user, and redeem `device_code` until the
        user has decided."""
        body = bodies.DeviceCodeIn.validated(request.data)
        now = database_now()
        made = make_device_code(client=body["client"], address=client_address(request.META), now=now)
        page = f"{current().url.rstrip('/')}/device"
        return Response(
            {
                "device_code": made.text,
                "user_code": made.shown,
                "verification_url": page,
                "verification_url_complete": f"{page}?code={made.shown}",
                "expires_in": int((made.row.expires_at - now).total_seconds()),
                "interval": made.row.interval_seconds,
            },
            status=201,
        )


class RedeemView(ApiView):
    """The other end of a code: its secret is the credential."""

    permission_classes = (Public,)

    @extend_schema(request=bodies.RedeemIn, responses={201: bodies.RedeemedOut})
    def post(self, request: Request) -> Response:
        """Redeem an approved code for its token, once. Until then `authorization_pending`; `slow_down` if asked too often."""
        body = bodies.RedeemIn.validated(request.data)
        request_id = getattr(request, "request_id", "") or ""
        user, issued = redeem_device_code(text=body["device_code"], request_id=request_id, now=database_now())
        return Response({"user": shapes.user_ref(user), **shapes.show_new_token(issued)}, status=201)


class DeviceCodeView(ApiView):
    """One command line that waits."""

    permission_classes = (BySession,)
    is_by_session = True

    @extend_schema(responses=bodies.WaitingOut)
    def get(self, request: Request, user_code: str) -> Response:
        """Get the command line that waits under a code, with its address and time."""
        now = database_now()
        return Response(_shown(device_codes.find_device_code(actor=self.actor, text=user_code, now=now)))


class DecideView(ApiView):
    """The decision on one command line."""

    permission_classes = (BySession,)
    is_by_session = True
    approve = True

    @extend_schema(request=None, responses={204: None})
    def post(self, request: Request, user_code: str) -> Response:
        """Approve the command line, with all your rights."""
        now = database_now()
        code = device_codes.find_device_code(actor=self.actor, text=user_code, now=now)
        decide_device_code(actor=self.actor, code=code, approve=self.approve, now=now)
        return Response(status=204)


class DenyView(DecideView):
    """The same, turned down."""

    approve = False

    @extend_schema(request=None, responses={204: None})
    def post(self, request: Request, user_code: str) -> Response:
        """Deny the command line."""
        return super().post(request, user_code)


def _user_of(view: ApiView) -> User:
    return User.objects.get(id=known(view.actor.user_id))


def _shown(code: DeviceCode) -> dict[str, Any]:
    return {
        "user_code": device_codes.shown_code(code.user_code),
        "client": code.client,
        "address": code.address,
        "created_at": code.created_at,
        "expires_at": code.expires_at,
    }
