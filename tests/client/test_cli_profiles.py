"""Which server, token and tenant a command uses: options over environment over file, and what sign-in keeps where."""

from __future__ import annotations

import json
import stat
from pathlib import Path
from typing import Any

import httpx2
import pytest
from client_stub import SERVER, TENANT, TOKEN, a_job, problem

import berth
from berth.config import ConfigFile, Profile, read_config, resolve_settings, write_config
from berth.errors import ConfigurationInvalid

UNSET: dict[str, str | None] = {"BERTH_SERVER": None, "BERTH_TOKEN": None, "BERTH_TENANT": None, "BERTH_PROFILE": None}
OTHER = "http://127.0.0.1:8620"
KEPT = ConfigFile(
    "work", {"work": Profile(SERVER, TOKEN, "vision"), "home": Profile(OTHER, "home-token", "attic"), "bare": Profile()}
)


@pytest.fixture
def path(own_home: Path) -> Path:
    place = own_home / "config/berth/config.toml"
    write_config(place, KEPT)
    return place


def asked(stub: Any) -> tuple[str, str, str | None]:
    """Host, token and tenant of the last request."""
    request = stub.requests[-1]
    return (
        str(request.url.copy_with(path="/", query=None)).rstrip("/"),
        request.headers.get("Authorization", ""),
        request.url.params.get("tenant"),
    )


# --- Precedence -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("words", "environment", "server", "token", "tenant"),
    [
        ((), {}, SERVER, TOKEN, "vision"),
        (("-t", "lab"), {}, SERVER, TOKEN, "lab"),
        ((), {"BERTH_TENANT": "lab"}, SERVER, TOKEN, "lab"),
        (("-t", "mine"), {"BERTH_TENANT": "lab"}, SERVER, TOKEN, "mine"),
        (("--profile", "home"), {}, OTHER, "home-token", "attic"),
        ((), {"BERTH_PROFILE": "home"}, OTHER, "home-token", "attic"),
        (("--profile", "work"), {"BERTH_PROFILE": "home"}, SERVER, TOKEN, "vision"),
        ((), {"BERTH_TOKEN": "other"}, SERVER, "other", "vision"),
        (("--server", OTHER), {}, OTHER, "", None),
        (("--server", OTHER), {"BERTH_TOKEN": "other", "BERTH_TENANT": "lab"}, OTHER, "other", "lab"),
        ((), {"BERTH_SERVER": OTHER}, OTHER, "", None),
        (("--server", SERVER), {"BERTH_SERVER": OTHER}, SERVER, TOKEN, "vision"),
        (("--server", f"{SERVER}/"), {}, SERVER, TOKEN, "vision"),
        (("--profile", "home"), {"BERTH_SERVER": SERVER}, SERVER, "", None),
        (("--profile", "home", "--server", OTHER), {"BERTH_TOKEN": "other"}, OTHER, "other", "attic"),
        (("--profile", "new", "--server", OTHER), {}, OTHER, "", None),
    ],
)
def test_options_win_over_the_environment_and_that_over_the_file(
    run: Any,
    stub: Any,
    path: Path,
    words: tuple[str, ...],
    environment: dict[str, str],
    server: str,
    token: str,
    tenant: str | None,
) -> None:
    stub.fail("GET /jobs", *[httpx2.Response(200, json={"items": [], "next": None})] * 2)
    for line in (("ps", *words), (*words, "ps")):
        done = run(*line, env={**UNSET, **environment})
        assert done.exit_code == 0, done.output
        assert asked(stub) == (server, f"Bearer {token}" if token else "", tenant)


@pytest.mark.parametrize(
    ("words", "environment"),
    [
        (("--profile", "absent"), {}),
        ((), {"BERTH_PROFILE": "absent"}),
        (("--profile", "bare"), {}),
        (("--server", "ftp://x"), {}),
        (("--server", "http://alice:secret@x.test"), {}),
        ((), {"BERTH_SERVER": "http://x.test/?a=1"}),
        ((), {"BERTH_TOKEN": "two words"}),
        ((), {"BERTH_CONFIG": "/proc/nowhere/config.toml"}),
    ],
)
def test_what_names_no_server_ends_with_2_and_sends_nothing(
    run: Any, stub: Any, path: Path, words: tuple[str, ...], environment: dict[str, str]
) -> None:
    done = run("ps", *words, env={**UNSET, **environment})
    assert (done.exit_code, done.stdout, stub.requests) == (2, "", [])
    told = json.loads(run("ps", *words, "--json", env={**UNSET, **environment}).stderr)
    assert (told["code"], told["exit_code"]) == ("configuration_invalid", 2)
    assert "secret" not in done.output


def test_a_profile_that_is_not_there_is_told_with_those_that_are(path: Path) -> None:
    with pytest.raises(ConfigurationInvalid, match="bare, home, work") as caught:
        resolve_settings(profile="absent", path=path, environ={})
    assert caught.value.hint.endswith("berth login --profile absent")
    with pytest.raises(ConfigurationInvalid, match="none"):
        resolve_settings(profile="absent", path=path.with_name("absent.toml"), environ={})


def test_the_sdk_takes_arguments_before_the_environment_before_the_file(
    stub: Any, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with berth.Client(http=stub.transport()) as client:
        assert (client.settings.server, client.settings.tenant, client.settings.profile) == (SERVER, "vision", "work")
    monkeypatch.setenv("BERTH_PROFILE", "home")
    with berth.Client(tenant="lab", http=stub.transport()) as client:
        assert (client.settings.server, client.settings.token, client.settings.tenant) == (OTHER, "home-token", "lab")
    with berth.Client(profile="work", config_path=path, http=stub.transport()) as client:
        assert client.settings.server == SERVER
    with berth.Client(OTHER, "given", profile="work", http=stub.transport()) as client:
        assert (client.settings.token, client.settings.tenant) == ("given", "")


# --- Signing in and out -----------------------------------------------------------------------------------------------


def test_signing_in_makes_a_profile_the_current_one_and_keeps_the_others(run: Any, path: Path) -> None:
    done = run("login", "--server", SERVER, "--profile", "new", "--token", TOKEN, "-t", "vision", env=UNSET)
    assert done.exit_code == 0, done.output
    kept = read_config(path)
    assert kept.current == "new"
    assert kept.profiles == {**KEPT.profiles, "new": Profile(SERVER, TOKEN, "vision")}
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert TOKEN not in done.output


@pytest.mark.parametrize(
    ("words", "typed", "ends"),
    [
        (("--token", "wrong"), "", 3),
        (("--token", "-"), "wrong\n", 3),
        (("--token", "two words"), "", 2),
        ((), "", 2),
        (("--profile", "a/b", "--token", TOKEN), "", 2),
        (("--token", TOKEN, "-t", "absent"), "", 4),
    ],
)
def test_a_sign_in_that_fails_leaves_the_file_as_it_was(
    run: Any, path: Path, words: tuple[str, ...], typed: str, ends: int
) -> None:
    before = path.read_bytes()
    done = run("login", "--server", SERVER, *words, input=typed, env=UNSET)
    assert done.exit_code == ends, done.output
    assert path.read_bytes() == before
    assert "wrong" not in done.output


def test_a_tenant_that_was_chosen_before_stays_while_its_account_has_it(run: Any, path: Path) -> None:
    run("login", "--token", TOKEN, env=UNSET)
    assert read_config(path).profiles["work"].tenant == "vision"
    write_config(path, ConfigFile("work", {"work": Profile(SERVER, TOKEN, "of another account")}))
    run("login", "--token", TOKEN, env=UNSET)
    assert read_config(path).profiles["work"].tenant == ""


def test_signing_out_takes_one_profile_away_and_sends_nothing(run: Any, stub: Any, path: Path) -> None:
    assert run("logout", env=UNSET).exit_code == 0
    assert set(read_config(path).profiles) == {"home", "bare"}
    assert run("logout", "--profile", "home", env=UNSET).exit_code == 0
    assert read_config(path) == ConfigFile("bare", {"bare": Profile()})
    missing = run("logout", "--profile", "absent", env=UNSET)
    assert "absent" in missing.stderr
    assert stub.requests == []


# --- Who one is -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("changes", "shown", "hidden"),
    [
        ({}, ("alice@example.org",), ("(not",)),
        ({"email_is_confirmed": False}, ("alice@example.org (",), ()),
        ({"email": ""}, (), ("Mail",)),
        ({"is_operator": True}, ("alice (",), ()),
        ({"name": "a\x1b[31mb"}, ("ab",), ("\x1b",)),
    ],
)
def test_an_account_is_shown_with_what_matters_of_it(
    run: Any, stub: Any, changes: Any, shown: tuple[str, ...], hidden: tuple[str, ...]
) -> None:
    user = {"id": "u", "name": "alice", "email": "alice@example.org", "is_operator": False, **changes}
    stub.fail("GET /whoami", httpx2.Response(200, json={"user": user, "token": None, "tenants": []}))
    done = run("whoami")
    assert [part for part in shown if part not in done.stdout] == []
    assert [part for part in hidden if part in done.stdout] == []


def test_an_account_lists_its_tenants_for_people_and_is_whole_for_programs(run: Any) -> None:
    people = run("whoami", "--profile", "default", "-t", "vision").stdout
    assert people.splitlines()[-1].split() == ["vision", TENANT["slug"], "manager"]
    assert SERVER in people
    assert "read, jobs" in people
    assert TOKEN not in people
    assert json.loads(run("whoami", "--json").stdout)["tenants"][0]["role"] == "manager"


@pytest.mark.parametrize("body", [{"user": "alice", "tenants": []}, {"user": {}}, {"user": {}, "tenants": None}, {"items": []}])
def test_an_account_that_is_none_is_said_to_be_none(run: Any, stub: Any, body: Any) -> None:
    stub.fail("GET /whoami", httpx2.Response(200, json=body))
    done = run("whoami")
    assert (done.exit_code, done.stdout) == (1, "")
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize(
    ("tenants", "ends"),
    [([], 2), ([{"name": "a", "slug": "a"}, {"name": "b", "slug": "b"}], 2), ([{"name": "a", "slug": "t-a"}], 0)],
)
def test_a_tenant_that_is_not_named_is_the_only_one_or_asked_for(run: Any, stub: Any, tenants: Any, ends: int) -> None:
    stub.fail("GET /whoami", httpx2.Response(200, json={"user": {}, "token": None, "tenants": tenants}))
    done = run("members")
    assert done.exit_code == ends, done.output
    assert len(stub.sent("GET /tenants/t-a/members")) == (1 if ends == 0 else 0)
    if ends:
        assert "--tenant" in done.stderr
        assert [tenant["name"] for tenant in tenants if tenant["name"] not in done.stderr] == []


@pytest.mark.parametrize(
    ("version", "warns"),
    [(berth.__version__, False), (f"{berth.__version__.rpartition('.')[0]}.999", False), ("0.0.1", True), ("99.0.0", True)],
)
def test_versions_fit_when_their_first_two_numbers_do(run: Any, stub: Any, version: str, warns: bool) -> None:
    stub.fail("GET /info", httpx2.Response(200, json={"version": version}))
    done = run("version")
    assert (done.exit_code, version in done.stdout, "!" in done.stderr) == (0, True, warns)


def test_a_version_is_told_without_a_server_too(run: Any, stub: Any) -> None:
    alone = run("version", "--json", env=UNSET)
    assert json.loads(alone.stdout) == {"client": berth.__version__, "server": None, "server_url": None}
    stub.fail("GET /info", *[problem(500, "internal", "It broke.")] * 2)
    assert json.loads(run("version", "--json").stdout)["server"] is None
    assert "It broke." in run("version").stderr
    assert run("--version").stdout == f"berth {berth.__version__}\n"


def test_a_page_is_that_of_the_server_or_of_a_job(run: Any, stub: Any) -> None:
    stub.jobs = [a_job("train")]
    assert run("open").stdout == f"{SERVER}/\n"
    assert run("open", "train").stdout == f"{SERVER}/jobs/{stub.jobs[0]['id']}\n"
    assert run("open", "absent").exit_code == 4
