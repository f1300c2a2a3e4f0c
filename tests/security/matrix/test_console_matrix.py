"""Every page of the operators' console, asked for by everybody who is no operator in a session."""

from __future__ import annotations

import re
import uuid

import pytest
from rest_framework.test import APIClient

from tests.factories.tenants import make_token, make_user
from tests.security.matrix.operations import CONSOLE, console_routes
from tests.security.matrix.principals import Who
from tests.security.matrix.sending import client_of
from tests.security.matrix.world import World

pytestmark = [pytest.mark.database, pytest.mark.usefixtures("quick")]

OPEN = {"/admin/login/", "/admin/logout/"}  # Both lead whoever is not signed in to the sign-in.


def addresses() -> list[str]:
    found = set()
    for path, _ in console_routes():
        plain = re.sub(r"<(?:\w+:)?(\w+)>", str(uuid.UUID(int=1)), re.sub(r"\(\?P<.*$", "tenants/", path))
        found.add("/" + re.sub(r"[\^$]", "", plain))
    return sorted(found)


def test_the_console_is_one_tree_with_many_pages() -> None:
    assert len(addresses()) > 50
    assert all(address.startswith(CONSOLE) for address in addresses())


@pytest.mark.parametrize("who", Who)
def test_no_page_opens_for_anybody_without_an_operators_session(who: Who, world: World) -> None:
    client = client_of(world.principals[who])
    wrong = []
    for address in addresses():
        if address in OPEN:
            continue
        for method in ("GET", "POST"):
            answer = client.generic(method, address)
            location = answer.headers.get("Location", "")
            if answer.status_code != 302 or not location.startswith("/admin/login/"):
                wrong.append(f"{method} {address}: {answer.status_code} {location}")
    assert not wrong, "\n".join(wrong)


def test_a_token_of_an_operator_signs_nobody_in(world: World) -> None:
    token = make_token(make_user(is_operator=True))
    client = APIClient(headers={"authorization": f"Bearer {token.text}"})
    assert client.get("/admin/").status_code == 302
    answer = client.post("/admin/login/", {"username": "otto", "password": token.text})
    assert answer.status_code == 200
