"""Where the code comes from, as a spec says it."""

from __future__ import annotations

import pytest

from jobs.services import code_fetch
from jobs.spec.parse import parse_spec
from kernel.errors import InvalidInput


@pytest.mark.parametrize(
    ("code", "path", "expected"),
    [
        ({"git": "https://alice:word@git.example.org/a.git"}, "/code/git", "code_git_credential"),
        ({"git": "https://token@git.example.org/a.git"}, "/code/git", "code_git_credential"),
        ({"git": "ssh://git:word@git.example.org/a.git"}, "/code/git", "code_git_credential"),
        ({"snapshot": "0" * 64, "secret": "TOKEN"}, "/code/secret", "code_secret"),
    ],
)
def test_code_that_would_show_a_credential_or_has_no_use_for_one_is_refused(
    code: dict[str, str], path: str, expected: str
) -> None:
    with pytest.raises(InvalidInput) as refused:
        parse_spec({"command": "true", "code": code})
    assert [(field.path, field.code) for field in refused.value.fields] == [(path, expected)]


def test_an_ssh_address_may_name_its_user() -> None:
    spec = parse_spec({"command": "true", "code": {"git": "ssh://git@git.example.org/a.git", "secret": "DEPLOY_KEY"}})
    assert spec.code is not None
    assert (spec.code.git, spec.code.secret) == ("ssh://git@git.example.org/a.git", "DEPLOY_KEY")


def test_the_password_of_an_operators_proxy_is_in_no_spec() -> None:
    given = {
        "https_proxy": "http://operator:word@proxy.example.org:3128",
        "http_proxy": "operator:word@proxy.example.org:3128",
        "no_proxy": "localhost,10.0.0.1",
        "HOME": "/root",
    }
    assert code_fetch._settings(given) == {
        "https_proxy": "http://proxy.example.org:3128",
        "http_proxy": "proxy.example.org:3128",
        "no_proxy": "localhost,10.0.0.1",
    }
