"""One tenant floods the server with all its tokens; the others are served, operators get in, and the flood is cheap."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from django.test.utils import CaptureQueriesContext

from tests.factories.tenants import Cast, make_member, make_tenant, make_token, make_user
from webapi import throttles

pytestmark = [pytest.mark.database, pytest.mark.usefixtures("still_counts")]

Api = Callable[..., Any]
WHO = "/api/v1/whoami"


@pytest.fixture(autouse=True)
def limits(configure: Callable[..., Any]) -> None:
    configure(requests_per_minute=5, tenant_requests_per_minute=12, redis_url="")


def flood(api: Api, user: Any, requests: int) -> list[int]:
    """Each request with a token of its own, so that no token is over its limit."""
    return [api(make_token(user).text).get(WHO).status_code for _ in range(requests)]


def test_a_tenant_has_a_limit_for_all_its_tokens_together(cast: Cast, api: Api) -> None:
    assert flood(api, cast.bob.user, 12) == [200] * 12
    refused = api(cast.alice).get(WHO)

    assert refused.status_code == 429
    assert refused.json()["code"] == "too_many_requests"
    assert "tenant" in refused.json()["detail"]
    assert 1 <= int(refused["Retry-After"]) <= 60


@pytest.mark.capability("26", "A flood of requests from one tenant leaves the others served")
def test_other_tenants_are_served_meanwhile_and_operators_get_in(cast: Cast, api: Api) -> None:
    assert 429 in flood(api, cast.bob.user, 14)

    assert [api(cast.carol).get(WHO).status_code for _ in range(5)] == [200] * 5
    assert [api(cast.otto).get(WHO).status_code for _ in range(5)] == [200] * 5


def test_a_script_in_a_loop_uses_up_its_own_token_and_not_its_tenants_share(cast: Cast, api: Api) -> None:
    loop = api(cast.bob)

    assert [loop.get(WHO).status_code for _ in range(40)].count(200) == 5
    assert api(cast.alice).get(WHO).status_code == 200


def test_whoever_belongs_to_two_tenants_counts_for_the_older_one_whatever_they_ask_for(cast: Cast, api: Api) -> None:
    make_member(cast.elsewhere, cast.bob.user)
    assert 429 in flood(api, cast.bob.user, 14)

    assert api(cast.carol).get(WHO).status_code == 200
    assert api(cast.vera).get(WHO).status_code == 429


def test_a_role_from_above_counts_above(cast: Cast, api: Api) -> None:
    child = make_tenant("child", parent=cast.tenant)
    below = make_user("only-below")
    make_member(child, below)
    assert 429 in flood(api, cast.alice.user, 14)

    assert api(make_token(below).text).get(WHO).status_code == 200


def test_a_refused_credential_costs_no_query_until_it_may_come_back(cast: Cast, api: Api) -> None:
    from django.db import connection

    loop = api(cast.bob)
    while loop.get(WHO).status_code == 200:
        pass
    with CaptureQueriesContext(
        connection,
    ) as queries:
        answers = [loop.get(WHO) for _ in range(20)]

    assert {answer.status_code for answer in answers} == {429}
    assert all("Retry-After" in answer.headers for answer in answers)
    assert len(queries) == 0


def test_counting_costs_no_query(cast: Cast, api: Api, configure: Callable[..., Any]) -> None:
    from django.db import connection

    client = api(cast.bob)
    configure(requests_per_minute=0)
    client.get(WHO)
    with CaptureQueriesContext(connection) as without:
        client.get(WHO)
    configure(requests_per_minute=1_000, tenant_requests_per_minute=1_000)
    with CaptureQueriesContext(connection) as counted:
        client.get(WHO)

    assert len(counted) == len(without)


def test_a_redis_that_hangs_is_not_waited_for_by_every_request(
    cast: Cast, api: Api, configure: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    from redis.exceptions import RedisError

    asked = []

    class Hanging:
        def take_all(self, charges: Any) -> list[float]:
            asked.append(charges)
            raise RedisError("timeout")

    monkeypatch.setattr(throttles, "_shared", lambda url: Hanging())
    monkeypatch.setattr(throttles, "REDIS_PAUSE_SECONDS", 3600.0)
    configure(redis_url="unix:///nonexistent/berth.sock")

    assert {api(cast.bob).get(WHO).status_code for _ in range(5)} == {200}
    assert api(cast.bob).get(WHO).status_code == 429
    assert len(asked) == 1
