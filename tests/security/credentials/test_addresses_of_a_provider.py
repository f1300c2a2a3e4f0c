"""An identity provider's description cannot send this server into its own network (security T10)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import httpx2
import pytest

from kernel.config import current
from tenants.identity import oidc
from tenants.identity.oidc import SignInFailed
from tests.unit.activity.test_targets import ANSWERS_INSIDE, INSIDE

ISSUER, PUBLIC = "https://id.example.org", "93.184.216.34"
NEVER = ["169.254.169.254", "fd00:ec2::254", "168.63.129.16", "100.100.100.200"]


class Asked:
    """The network: what was connected to, and under which name."""

    def __init__(self) -> None:
        self.names = {"id.example.org": [PUBLIC]}
        self.requests: list[httpx2.Request] = []
        self.description: dict[str, Any] = {
            "issuer": ISSUER,
            "authorization_endpoint": f"{ISSUER}/authorize",
            "token_endpoint": f"{ISSUER}/token",
            "jwks_uri": f"{ISSUER}/keys",
        }

    def resolve(self, host: str, port: int) -> Sequence[str]:
        return self.names.get(host, [host])

    def answer(self, request: httpx2.Request) -> httpx2.Response:
        self.requests.append(request)
        return httpx2.Response(200, json=self.description if "well-known" in request.url.path else {"keys": []})


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch, configure: Callable[..., Any]) -> Any:
    made = Asked()
    monkeypatch.setattr(oidc, "resolver", made.resolve)
    monkeypatch.setattr(oidc, "client", lambda: httpx2.Client(transport=httpx2.MockTransport(made.answer)))
    configure(oidc_issuer=ISSUER, oidc_client_id="berth")
    oidc.forget()
    yield made
    oidc.forget()


def describe() -> oidc.Provider:
    return oidc.describe(current())


def refused(work: Callable[[], object]) -> str:
    with pytest.raises(SignInFailed) as failure:
        work()
    assert failure.value.code == "oidc_unavailable"
    return str(failure.value)


def test_a_provider_on_the_internet_is_reached_at_the_address_that_was_checked(asked: Asked) -> None:
    oidc._json(describe().jwks_uri)

    assert [request.url.host for request in asked.requests] == [PUBLIC, PUBLIC]
    assert {request.headers["host"] for request in asked.requests} == {"id.example.org"}
    assert {request.extensions["sni_hostname"] for request in asked.requests} == {"id.example.org"}


@pytest.mark.parametrize("address", ANSWERS_INSIDE)
def test_an_issuer_that_leads_inside_is_never_asked(address: str, asked: Asked) -> None:
    asked.names["id.example.org"] = [address]

    assert "id.example.org" in refused(describe)
    assert not asked.requests


@pytest.mark.parametrize("url", INSIDE)
def test_no_address_of_the_description_leads_inside(url: str, asked: Asked) -> None:
    provider = describe()
    asked.requests.clear()
    inside = url.replace("http://", "https://")
    refused(lambda: oidc._keys(replace(provider, jwks_uri=inside), again=False))
    refused(lambda: oidc._json(inside, form={"code": "x"}, auth=("berth", "secret")))
    assert not asked.requests


def test_a_host_that_operators_name_may_be_inside(asked: Asked, configure: Callable[..., Any]) -> None:
    configure(oidc_private_hosts="other.example.org, ID.example.org")
    asked.names["id.example.org"] = ["10.1.2.3"]

    assert describe().issuer == ISSUER
    assert asked.requests[0].url.host == "10.1.2.3"


@pytest.mark.parametrize("address", NEVER)
def test_metadata_services_stay_out_of_reach_whoever_is_named(address: str, asked: Asked, configure: Callable[..., Any]) -> None:
    configure(oidc_private_hosts="id.example.org")
    asked.names["id.example.org"] = [address]

    refused(describe)
    assert not asked.requests


def test_one_host_that_is_named_opens_no_other(asked: Asked, configure: Callable[..., Any]) -> None:
    configure(oidc_private_hosts="id.example.org")
    asked.names |= {"id.example.org": ["10.1.2.3"], "vault.example.org": ["10.1.2.4"]}
    asked.description["jwks_uri"] = "https://vault.example.org/keys"

    refused(lambda: oidc._keys(describe(), again=False))
    assert [request.url.host for request in asked.requests] == ["10.1.2.3"]
