"""Who you are, users, tokens and invitations over HTTP."""

from __future__ import annotations

from typing import Any

from django.db.models import Q, QuerySet
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import OpenApiParameter, extend_schema
from rest_framework.request import Request
from rest_framework.response import Response

from kernel.actor import TenantRole
from kernel.clock import database_now, utc_text
from kernel.errors import FieldError, InvalidInput
from kernel.limits import MIB
from kernel.texts import decode_file
from kernel.words import Text
from tenants.identity import selectors
from tenants.identity.access import demand, looked_after
from tenants.identity.api import serializers as bodies
from tenants.identity.api import shapes
from tenants.identity.api.leaving import settlement
from tenants.identity.models import Invitation, Token, TokenKind, User, UserKind
from tenants.identity.permissions import Scope
from tenants.identity.services.invitations import accept_invitation, invite_user, read_invitation, withdraw_invitation
from tenants.identity.services.names import Problems
from tenants.identity.services.tokens import create_token, revoke_token
from tenants.identity.services.user_import import import_users_csv
from tenants.identity.services.users import create_user, update_user
from webapi.access import fetch, visible
from webapi.etags import expected_version, with_etag
from webapi.idempotency import OnceResponse, idempotent
from webapi.pagination import page
from webapi.parsers import CsvBody
from webapi.schema import IF_MATCH, page_of
from webapi.views import ApiView, Public, known_query, query_flag

SEARCH_LENGTH = 200


class WhoamiView(ApiView):
    """Who acts."""

    @extend_schema(responses=bodies.WhoOut)
    def get(self, request: Request) -> Response:
        """Get the signed-in user, the token (null in a browser session), and the tenants of the user."""
        actor = self.actor
        user = fetch(actor, User, str(actor.user_id), "user.read")
        token = Token.objects.filter(id=actor.token_id).first() if actor.token_id else None
        shown: dict[str, Any] = shapes.show_tokens([token])[0] if token and token.kind == TokenKind.PERSONAL else {}
        keys = ("id", "name", "prefix", "scopes", "expires_at")
        return Response(
            {
                **shapes.show_who(user, selectors.tenants_of(actor)),
                "token": {key: shown[key] for key in keys} if shown else None,
            }
        )


class UsersView(ApiView):
    """People and service accounts."""

    @extend_schema(
        parameters=[
            OpenApiParameter("q", str, description="Part of the name, for operators also of the address; case-insensitive."),
            OpenApiParameter("kind", str, enum=[str(kind) for kind in UserKind]),
            OpenApiParameter("active", bool, description="Only enabled, or only disabled users."),
            OpenApiParameter("operator", bool, description="Only operators, or only other users."),
        ],
        responses=page_of(bodies.UserOut),
    )
    def get(self, request: Request) -> Response:
        """List yourself and the members of your tenants, by name; operators see all users."""
        known_query(request, ("q", "kind", "active", "operator"))
        rows = _filtered(visible(self.actor, User), request, by_email=self.actor.is_operator)
        return page(request, rows, order=("name",), serialize=lambda rows: shapes.show_users(self.actor, rows))

    @extend_schema(request=bodies.UserIn, responses={201: bodies.UserOut})
    @idempotent
    def post(self, request: Request) -> Response:
        """Create a user, as an operator. The user signs in after an invitation."""
        demand(self.actor, None, "user.create")
        body = bodies.UserIn.validated(request.data)
        user = create_user(actor=self.actor, now=database_now(), **body)
        return with_etag(Response(shapes.show_users(self.actor, [user])[0], status=201), user.version)


class UserView(ApiView):
    """One user."""

    @extend_schema(responses=bodies.UserOut)
    def get(self, request: Request, user_id: str) -> Response:
        """Get a user."""
        user = fetch(self.actor, User, user_id, "user.read")
        return with_etag(Response(shapes.show_users(self.actor, [user])[0]), user.version)

    @extend_schema(parameters=[IF_MATCH], request=bodies.UserChange, responses=bodies.UserOut)
    def patch(self, request: Request, user_id: str) -> Response:
        """Change your address, which signs you in once it is confirmed; as an operator, change any user.

        Disabling a user ends all tokens and connections of the user at once. Running jobs continue, and waiting jobs wait until a
        manager hands them over; `stop_jobs` stops all, `hand_to` hands them over at once."""
        user = fetch(self.actor, User, user_id, "user.read")
        if user.pk != self.actor.user_id:
            demand(self.actor, None, "user.edit")
        body = bodies.UserChange.validated(request.data, partial=True)
        rest = settlement(self.actor, stops_jobs=body.pop("stop_jobs", False), hand_to=body.pop("hand_to", ""))
        changed = update_user(
            actor=self.actor,
            user=user,
            expected_version=expected_version(request),
            settlement=rest,
            now=database_now(),
            **body,
        )
        return with_etag(Response(shapes.show_users(self.actor, [changed])[0]), changed.version)


class UsersCsv(CsvBody):
    """10,000 lines of the longest names and addresses are under 8 MiB."""

    body_bytes_max = 8 * MIB


class UserImportView(ApiView):
    """Users from a file."""

    parser_classes = (UsersCsv,)

    @extend_schema(
        parameters=[OpenApiParameter("dry_run", bool, description="Dry run: check everything, write nothing.")],
        request={("text/csv"): OpenApiTypes.STR},
        responses=bodies.ImportOut,
    )
    def post(self, request: Request) -> Response:
        """Create users and memberships from CSV lines `name,email,tenant,role` (or apart by `;` or tabs), as an operator.

        All errors of all lines are reported at once, and then nothing is written. Importing a file again changes nothing.
        """
        demand(self.actor, None, "user.create")
        known_query(request, ("dry_run",))
        text = decode_file(request.data) if isinstance(request.data, bytes) else ""
        report = import_users_csv(actor=self.actor, text=text, dry_run=query_flag(request, "dry_run"), now=database_now())
        return Response(
            {
                "dry_run": report.dry_run,
                **{action: report.count(action) for action in ("created", "updated", "unchanged")},
                "lines": [{"line": line.line, "name": line.name, "action": line.action} for line in report.lines],
            }
        )


class TokensView(ApiView):
    """Your tokens, and those of service accounts that you manage."""

    @extend_schema(
        parameters=[OpenApiParameter("user", str, description="Only tokens of this user or service account, by id or name.")],
        responses=page_of(bodies.TokenOut),
    )
    def get(self, request: Request) -> Response:
        """List tokens without their secret part, newest first. Operators see tokens of all users, one `user` at a time."""
        known_query(request, ("user",))
        rows = visible(self.actor, Token).select_related("user")
        if text := request.query_params.get("user"):
            user_id = selectors.find_visible_user(self.actor, text)
            if user_id is None:
                message = Text("There is no such user, or you do not see them.", "没有这个用户，或您无权查看。")
                raise InvalidInput(message, fields=[FieldError("/user", "not_found", message)])
            rows = rows.filter(user_id=user_id)
        else:
            rows = rows.filter(looked_after(self.actor))
        return page(request, rows, order=("-id",), serialize=shapes.show_tokens)

    @extend_schema(request=bodies.TokenIn, responses={201: bodies.NewTokenOut})
    @idempotent
    def post(self, request: Request) -> Response:
        """Create a token. Its text is only in this answer."""
        demand(self.actor, None, "token.create")
        body = bodies.TokenIn.validated(request.data)
        account = body["service_account"] or str(self.actor.user_id)
        issued = create_token(
            actor=self.actor,
            user=selectors.find_user(self.actor, account),
            name=body["name"],
            scopes=body.get("scopes") or self._own_scopes(),
            expires_at=body.get("expires_at"),
            now=database_now(),
        )
        return OnceResponse(shapes.show_new_token(issued), status=201)

    def _own_scopes(self) -> list[str]:
        """A token made without scopes gets those of the token that made it."""
        return [Scope.ALL] if self.actor.scopes is None else sorted(self.actor.scopes)


class TokenView(ApiView):
    """One token."""

    @extend_schema(responses={204: None})
    def delete(self, request: Request, token_id: str) -> Response:
        """Revoke a token: it ends at once, with all its connections. No effect on a revoked token."""
        token = fetch(self.actor, Token, token_id, "token.delete", related=("user",))
        revoke_token(actor=self.actor, token=token, now=database_now())
        return Response(status=204)


class InvitationsView(ApiView):
    """Codes that make members."""

    @extend_schema(responses=page_of(bodies.InvitationOut))
    def get(self, request: Request) -> Response:
        """List invitations to tenants that you manage, newest first."""
        known_query(request, ())
        now = database_now()
        rows = visible(self.actor, Invitation).select_related("tenant", "invited_by")
        return page(request, rows, order=("-id",), serialize=lambda rows: shapes.show_invitations(rows, now=now))

    @extend_schema(request=bodies.InvitationIn, responses={201: bodies.NewInvitationOut})
    @idempotent
    def post(self, request: Request) -> Response:
        """Invite a user by e-mail address. The one-time code is only in this answer; it works once, within 7 days."""
        body = bodies.InvitationIn.validated(request.data)
        tenant = selectors.get_tenant(self.actor, body["tenant"])
        now = database_now()
        issued = invite_user(actor=self.actor, tenant_id=tenant.pk, email=body["email"], role=TenantRole(body["role"]), now=now)
        row = visible(self.actor, Invitation).select_related("tenant", "invited_by").get(id=issued.invitation.pk)
        shown = shapes.show_invitations([row], now=now)[0]
        return OnceResponse({**shown, "token": issued.text, "command": issued.command}, status=201)


class InvitationView(ApiView):
    """One invitation."""

    @extend_schema(responses={204: None})
    def delete(self, request: Request, invitation_id: str) -> Response:
        """Withdraw an open invitation."""
        found = fetch(self.actor, Invitation, invitation_id, "invitation.delete")
        withdraw_invitation(actor=self.actor, invitation=found, now=database_now())
        return Response(status=204)


class ReadInvitationView(ApiView):
    """What the holder of a code joins, told before a password is asked for."""

    permission_classes = (Public,)

    @extend_schema(request=bodies.InvitationCodeIn, responses=bodies.ReadInvitationOut)
    def post(self, request: Request) -> Response:
        """Get an open invitation by its code, without accepting it."""
        found = read_invitation(text=bodies.InvitationCodeIn.validated(request.data)["token"], now=database_now())
        row = found.invitation
        return Response(
            {
                "email": row.email,
                "tenant": shapes.tenant_ref(row.tenant),
                "role": row.role,
                "invited_by": shapes.user_ref(row.invited_by),
                "expires_at": utc_text(row.expires_at),
                "name": found.name,
            }
        )


class AcceptInvitationView(ApiView):
    """The one operation for people who have no account yet: the invitation's code is the credential."""

    permission_classes = (Public,)

    @extend_schema(request=bodies.AcceptIn, responses={201: bodies.AcceptedOut})
    def post(self, request: Request) -> Response:
        """Accept an invitation: for your account if you are signed in, otherwise with `name` and `password` for a new account."""
        body = bodies.AcceptIn.validated(request.data)
        actor = self.actor
        accepted = accept_invitation(
            text=body["token"],
            actor=actor if actor.is_authenticated else None,
            name=body["name"],
            password=body["password"],
            with_token=body["with_token"],
            request_id=actor.request_id or getattr(request, "request_id", ""),
            now=database_now(),
        )
        return Response(
            {
                "user": shapes.user_ref(accepted.user),
                "tenant": shapes.tenant_ref(accepted.membership.tenant),
                "role": str(accepted.membership.role),
                "token": shapes.show_new_token(accepted.token) if accepted.token else None,
            },
            status=201,
        )


def _filtered(rows: QuerySet[User], request: Request, *, by_email: bool) -> QuerySet[User]:
    """`by_email`: for callers who are shown the addresses; to others a search would tell them piece by piece."""
    query, problems = request.query_params, Problems()
    if text := query.get("q", ""):
        if len(text) > SEARCH_LENGTH or "\x00" in text:
            problems.add("/q", "invalid", Text(f"q has at most {SEARCH_LENGTH} characters.", f"q 最多 {SEARCH_LENGTH} 个字符。"))
        else:
            by_address = Q(email__icontains=text) | Q(email_claimed__icontains=text)
            rows = rows.filter(Q(name__icontains=text) | by_address if by_email else Q(name__icontains=text))
    if kind := query.get("kind"):
        if kind not in UserKind.values:
            problems.add(
                "/kind",
                "choice",
                Text(f"kind is one of {', '.join(UserKind.values)}.", f"kind 可选：{', '.join(UserKind.values)}。"),
            )
        rows = rows.filter(kind=kind)
    for name, column in (("active", "is_active"), ("operator", "is_operator")):
        if name in query:
            if query[name] not in {"true", "false"}:
                problems.add(f"/{name}", "invalid", Text(f"{name} must be true or false.", f"{name} 须为 true 或 false。"))
            rows = rows.filter(**{column: query[name] == "true"})
    problems.raise_if_any()
    return rows
