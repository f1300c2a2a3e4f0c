"""Signing in elsewhere: OpenID Connect's authorization code flow, with PKCE, state and nonce, as this server speaks it.

Nothing that the provider says counts before it is checked: its own description names the issuer that operators configured, and
each id_token is signed by one of its keys under an algorithm of our list, made for this client, for this browser's sign-in, and
now. The way back is bound to the browser that set out by a cookie that only this server reads and that works once. Where the
provider does not answer, no new user comes in; those who are signed in stay.

The author of the provider's description cannot send this server into its own network: each address is checked after resolving,
and connected to as checked, like those of webhooks (security T10). `BERTH_OIDC_PRIVATE_HOSTS` names those that are inside.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import secrets
import ssl
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from urllib.parse import urlencode, urlsplit

import httpx2
import structlog
from cryptography.fernet import InvalidToken

from kernel.config import Config, current
from kernel.targets import Resolver, TargetRefused, parse_target, resolve, system_resolver
from tenants.identity.identity_claims import Claims, SignInFailed
from webapi.encryption import box_for

if TYPE_CHECKING:
    from joserfc.jwk import KeySet

# Signatures with a public key alone: `none` and those by a shared secret are on no list (RFC 8725, section 3.1).
ALGORITHMS = ("RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "EdDSA")
STATE_SECONDS = 600  # From setting out to coming back: a user looks for a telephone meanwhile.
ANSWER_SECONDS = 5.0  # To connect, and for each piece of an answer.
WHOLE_ANSWER_SECONDS = 10.0  # A user waits, and a thread with them.
ANSWER_BYTES_MAX = 1024**2  # Security C14: nor does the provider make us read more.
DESCRIPTION_SECONDS = 3_600.0
KEYS_AGAIN_SECONDS = 60.0  # An unknown key asks for the keys again, so often at most.
LEEWAY_SECONDS = 60
SUBJECT_LENGTH = 255  # OpenID Connect Core 1.0, section 2: of ASCII.
NEXT_LENGTH = 2_000
_PURPOSE = b"berth oidc sign-in v1"

log = structlog.get_logger("tenants")


@dataclass(frozen=True, slots=True)
class Provider:
    """What a provider's description says of it."""

    issuer: str
    authorization_endpoint: str
    token_endpoint: str
    jwks_uri: str
    algorithms: tuple[str, ...]
    posts_secret: bool


@dataclass(frozen=True, slots=True)
class AuthRequest:
    """One authentication request: what the browser that goes to the provider has to come back with."""

    state: str
    nonce: str
    verifier: str
    next: str
    user_id: str = ""  # The user who set out to connect an account; empty: a plain sign-in.


def client() -> httpx2.Client:
    """Follows no redirect: a provider's addresses are what its description says. No proxy is asked: it would resolve anew."""
    return httpx2.Client(timeout=ANSWER_SECONDS, follow_redirects=False, trust_env=False, verify=ssl.create_default_context())


resolver: Resolver = system_resolver


def is_on(config: Config) -> bool:
    return bool(config.oidc_issuer)


def safe_next(text: str) -> str:
    """A path of this portal, or its beginning for anything else (security C30)."""
    is_plain = text.isprintable() and "\\" not in text and len(text) <= NEXT_LENGTH
    if not is_plain or not text.startswith("/") or text.startswith("//"):
        return "/"
    parts = urlsplit(text)
    return "/" if parts.scheme or parts.netloc else text


# --- Setting out ------------------------------------------------------------------------------------------------------


def new_auth_request(next_path: str, *, user_id: str = "") -> AuthRequest:
    state, nonce, verifier = (secrets.token_urlsafe(32) for _ in range(3))
    return AuthRequest(state, nonce, verifier, safe_next(next_path), user_id)


def sealed(auth_request: AuthRequest) -> str:
    """The request as the browser keeps it, sealed so that the browser cannot read it."""
    body = json.dumps(
        [auth_request.state, auth_request.nonce, auth_request.verifier, auth_request.next, auth_request.user_id]
    ).encode()
    return box_for(_PURPOSE).encrypt(body).decode()


def unsealed(text: str) -> AuthRequest:
    """The request of a browser that comes back within ten minutes."""
    try:
        return AuthRequest(*json.loads(box_for(_PURPOSE).decrypt(text.encode(), ttl=STATE_SECONDS)))
    except (InvalidToken, ValueError, TypeError):
        raise SignInFailed("oidc_state", "the cookie is missing, too old or not ours") from None


def leave_url(config: Config, auth_request: AuthRequest) -> str:
    """Where the browser goes."""
    provider = describe(config)
    challenge = base64.urlsafe_b64encode(hashlib.sha256(auth_request.verifier.encode()).digest()).rstrip(b"=").decode()
    query = {
        "response_type": "code",
        "client_id": config.oidc_client_id,
        "redirect_uri": return_url(config),
        "scope": config.oidc_scopes,
        "state": auth_request.state,
        "nonce": auth_request.nonce,
        "code_challenge": challenge,
        "code_challenge_method": "S256",
    }
    separator = "&" if urlsplit(provider.authorization_endpoint).query else "?"
    return f"{provider.authorization_endpoint}{separator}{urlencode(query)}"


def return_url(config: Config) -> str:
    return f"{config.url.rstrip('/')}/sign-in/oidc/return"


# --- Coming back ------------------------------------------------------------------------------------------------------


def come_back(config: Config, auth_request: AuthRequest, *, state: str, code: str) -> Claims:
    """The provider's claims about the person who comes back with a code. SignInFailed, whatever is wrong."""
    if not state or not hmac.compare_digest(state.encode("utf-8", "replace"), auth_request.state.encode()):
        raise SignInFailed("oidc_state", "the state is another browser's, or of another sign-in")
    provider = describe(config)
    answer = _token_answer(config, provider, auth_request, code)
    token = answer.get("id_token")
    if not isinstance(token, str) or not token:
        raise SignInFailed("oidc_token", "the answer holds no id_token")
    return check_id_token(config, provider, token, nonce=auth_request.nonce)


def check_id_token(config: Config, provider: Provider, text: str, *, nonce: str) -> Claims:
    """The claims of an id_token that is right in every respect (OpenID Connect Core 1.0, section 3.1.3.7)."""
    claims = _signed_claims(provider, text)
    audience = claims.get("aud")
    audiences = audience if isinstance(audience, list) else [audience]
    now = time.time()
    wrong = {
        "issuer": claims.get("iss") != provider.issuer,
        "audience": config.oidc_client_id not in audiences,
        "authorized party": (len(audiences) > 1 or "azp" in claims) and claims.get("azp") != config.oidc_client_id,
        "expiry": not _is_number(claims.get("exp")) or claims["exp"] <= now - LEEWAY_SECONDS,
        "time of issue": not _is_number(claims.get("iat")) or claims["iat"] > now + LEEWAY_SECONDS,
        "start": "nbf" in claims and (not _is_number(claims["nbf"]) or claims["nbf"] > now + LEEWAY_SECONDS),
        "nonce": not hmac.compare_digest(str(claims.get("nonce", "")).encode("utf-8", "replace"), nonce.encode()),
        "subject": not _is_word(claims.get("sub")),
    }
    found = [name for name, is_wrong in wrong.items() if is_wrong]
    if found:
        raise SignInFailed("oidc_token", f"the id_token is wrong in its {', '.join(found)}")
    return _read(config, claims)


def _signed_claims(provider: Provider, text: str) -> dict[str, Any]:
    from joserfc import jwt  # Fifty modules, which no start needs.
    from joserfc.errors import JoseError

    allowed = [name for name in provider.algorithms if name in ALGORITHMS] or ["RS256"]
    for is_again in (False, True):
        try:
            return dict(jwt.decode(text, _keys(provider, again=is_again), algorithms=allowed).claims)
        except (JoseError, ValueError, TypeError, KeyError) as error:
            # The provider may have changed its keys since we read them.
            if is_again or not _is_other_key(error):
                raise SignInFailed("oidc_token", f"the id_token is not signed as it should be: {type(error).__name__}") from None
    raise AssertionError("the second look answers")


def _is_other_key(error: Exception) -> bool:
    return type(error).__name__ in {"BadSignatureError", "InvalidKeyIdError", "MissingKeyError", "KeyNotFoundError", "ValueError"}


def _read(config: Config, claims: Mapping[str, Any]) -> Claims:
    email = claims.get("email")
    groups = claims.get(config.oidc_groups_claim)
    is_list = isinstance(groups, list) and all(isinstance(group, str) for group in groups)
    words = (claims.get(name) for name in ("preferred_username", "nickname", "email", "name"))
    return Claims(
        issuer=str(claims["iss"]),
        subject=str(claims["sub"]),
        email=email.strip() if isinstance(email, str) and email.isprintable() else "",
        email_verified=claims.get("email_verified") is True or (config.oidc_trusts_email and "email_verified" not in claims),
        name=next((word for word in words if isinstance(word, str) and word), ""),
        groups=tuple(groups) if isinstance(groups, list) and is_list else None,
    )


def _is_word(value: object) -> bool:
    return isinstance(value, str) and 0 < len(value) <= SUBJECT_LENGTH and value.isascii() and value.isprintable()


def _is_number(value: object) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


# --- The provider -----------------------------------------------------------------------------------------------------

_lock = threading.Lock()
_known: dict[str, tuple[float, Any]] = {}


def forget() -> None:
    """Ask the provider anew, as a new process does."""
    with _lock:
        _known.clear()


def describe(config: Config) -> Provider:
    """The provider's description, at most an hour old."""
    issuer = config.oidc_issuer
    if not issuer:
        raise SignInFailed("oidc_off", "no provider is set")
    return _cached(f"description:{issuer}", DESCRIPTION_SECONDS, lambda: _describe(issuer))  # type: ignore[no-any-return]


def _describe(issuer: str) -> Provider:
    found = _json(f"{issuer.rstrip('/')}/.well-known/openid-configuration")
    if found.get("issuer") != issuer:
        raise SignInFailed("oidc_unavailable", f"the provider calls itself {str(found.get('issuer'))[:100]!r}")
    addresses = [found.get(name) for name in ("authorization_endpoint", "token_endpoint", "jwks_uri")]
    scheme = "https://" if issuer.startswith("https://") else ("http://", "https://")
    if not all(isinstance(address, str) and address.startswith(scheme) and _is_address(address) for address in addresses):
        raise SignInFailed("oidc_unavailable", "the description lacks addresses, or gives some without https")
    algorithms = found.get("id_token_signing_alg_values_supported")
    methods = found.get("token_endpoint_auth_methods_supported")
    posts = isinstance(methods, list) and "client_secret_basic" not in methods and "client_secret_post" in methods
    names = tuple(str(name) for name in algorithms) if isinstance(algorithms, list) else ("RS256",)
    authorization, token, keys = (str(address) for address in addresses)
    return Provider(issuer, authorization, token, keys, names, posts)


def _is_address(text: str) -> bool:
    try:
        return bool(urlsplit(text).hostname and httpx2.URL(text).host)
    except (httpx2.InvalidURL, ValueError):
        return False


def _keys(provider: Provider, *, again: bool) -> KeySet:
    from joserfc.errors import JoseError
    from joserfc.jwk import KeySet

    found = _cached(
        f"keys:{provider.jwks_uri}", KEYS_AGAIN_SECONDS if again else DESCRIPTION_SECONDS, lambda: _json(provider.jwks_uri)
    )
    try:
        usable = [key for key in found.get("keys", ()) if isinstance(key, dict) and key.get("use", "sig") == "sig"]
        return KeySet.import_key_set({"keys": [key for key in usable if key.get("kty") in {"RSA", "EC", "OKP"}]})
    except (JoseError, ValueError, TypeError, KeyError):
        raise SignInFailed("oidc_unavailable", "the provider's keys cannot be read") from None


def _cached(name: str, seconds: float, load: Any) -> Any:
    """What was loaded so recently; loads outside the lock, where two at once do no harm."""
    with _lock:
        at, value = _known.get(name, (0.0, None))
    if value is not None and time.monotonic() - at < seconds:
        return value
    value = load()
    with _lock:
        _known[name] = (time.monotonic(), value)
    return value


def _token_answer(config: Config, provider: Provider, auth_request: AuthRequest, code: str) -> dict[str, Any]:
    form = {
        "grant_type": "authorization_code",
        "code": code,
        "redirect_uri": return_url(config),
        "code_verifier": auth_request.verifier,
        "client_id": config.oidc_client_id,
    }
    if provider.posts_secret or not config.oidc_client_secret:
        secret = {"client_secret": config.oidc_client_secret} if config.oidc_client_secret else {}
        return _json(provider.token_endpoint, form={**form, **secret})
    return _json(provider.token_endpoint, form=form, auth=(config.oidc_client_id, config.oidc_client_secret))


@dataclass(frozen=True, slots=True)
class _Pinned:
    """A URL at an address that was checked, with what says its name all the same."""

    url: httpx2.URL
    headers: dict[str, str]
    extensions: dict[str, Any]


def _pinned(url: str) -> _Pinned:
    """SignInFailed for an address inside our own network, unless operators named its host."""
    host = urlsplit(url).hostname or ""
    is_named = host in current().oidc_private_names
    try:
        target = parse_target(url, allow_private=is_named)
        address = resolve(target, resolver=resolver, allow_private=is_named)[0]
    except TargetRefused as error:
        raise SignInFailed("oidc_unavailable", f"the provider may not be asked at {host[:253]}: {error.detail}") from None
    except (OSError, UnicodeError) as error:
        raise SignInFailed("oidc_unavailable", f"the name {host[:253]} does not resolve: {type(error).__name__}") from None
    headers = {"Accept": "application/json", "Host": target.authority}
    return _Pinned(httpx2.URL(url).copy_with(host=address), headers, {"sni_hostname": target.host})


def _json(url: str, *, form: dict[str, str] | None = None, auth: tuple[str, str] | None = None) -> dict[str, Any]:
    """One bounded answer as a JSON object. A refusal of the code is told from a provider that does not work."""
    until = time.monotonic() + WHOLE_ANSWER_SECONDS
    at, method = _pinned(url), "GET" if form is None else "POST"
    try:
        with (
            client() as connection,
            connection.stream(method, at.url, data=form, auth=auth, headers=at.headers, extensions=at.extensions) as response,
        ):
            content = b""
            for piece in response.iter_bytes():
                content += piece
                if len(content) > ANSWER_BYTES_MAX:
                    raise SignInFailed("oidc_unavailable", "the provider's answer is too long")
                if time.monotonic() > until:
                    raise SignInFailed("oidc_unavailable", "the provider's answer takes too long")
            status = response.status_code
    except httpx2.HTTPError as error:
        raise SignInFailed("oidc_unavailable", f"the provider does not answer: {type(error).__name__}") from None
    if form is not None and status in {400, 401, 403}:
        raise SignInFailed("oidc_refused", f"the provider refused the code with {status}")
    try:
        found = json.loads(content)
    except (ValueError, RecursionError):
        found = None
    if status != 200 or not isinstance(found, dict):
        raise SignInFailed("oidc_unavailable", f"the provider answered {status}, or no JSON object")
    return found
