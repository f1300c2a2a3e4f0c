"""Settings that cannot be used stop the start, each with its name and what would do."""

from __future__ import annotations

from pathlib import Path

import pytest

from controlplane.instance import CannotStart, check_data_directory, check_disk, check_exposure, check_port, local_url
from kernel.config import BadSetting, Config, from_environment


def test_every_bad_value_is_named_at_once() -> None:
    with pytest.raises(BadSetting) as refused:
        from_environment(
            {
                "BERTH_PORT": "70000",
                "BERTH_LEASE_SECONDS": "soon",
                "BERTH_SWEEP_SECONDS": "-1",
                "BERTH_SERVER_PROFILE": "huge",
                "BERTH_DEBUG": "perhaps",
                "BERTH_METRICS_TOKEN": "short",
            }
        )
    message = str(refused.value)
    for part in (
        "BERTH_PORT=70000 must be between 1 and 65535",
        "BERTH_LEASE_SECONDS='soon' is not a valid seconds",
        "BERTH_SWEEP_SECONDS=-1.0 must not be negative",
        "BERTH_SERVER_PROFILE='huge' must be one of embedded, production",
        "BERTH_DEBUG='perhaps' is not a valid boolean",
        "BERTH_METRICS_TOKEN must have at least 32 characters",
        "See docs/settings.md.",
    ):
        assert part in message


@pytest.mark.parametrize("name", ["BERTH_LEASE_SECONDS", "BERTH_GRACE_SECONDS", "BERTH_RETRY_BACKOFF_SECONDS"])
@pytest.mark.parametrize("text", ["nan", "inf", "-inf"])
def test_what_is_no_finite_number_is_refused(name: str, text: str) -> None:
    with pytest.raises(BadSetting, match=name):
        from_environment({name: text})


@pytest.mark.parametrize("name", ["BERTH_LEASE_SECONDS", "BERTH_SWEEP_SECONDS", "BERTH_POLL_SECONDS", "BERTH_TELEMETRY_SECONDS"])
def test_an_interval_of_nothing_is_refused(name: str) -> None:
    with pytest.raises(BadSetting, match=f"{name}=0.0 must be more than 0"):
        from_environment({name: "0"})


@pytest.mark.parametrize("text", ["postgres//x", "mysql://host/db", "sqlite:///x"])
def test_a_database_that_is_not_known_is_refused(text: str) -> None:
    with pytest.raises(BadSetting, match="BERTH_DATABASE_URL must begin with postgresql://"):
        from_environment({"BERTH_DATABASE_URL": text})


def test_a_refusal_never_shows_a_password() -> None:
    with pytest.raises(BadSetting) as refused:
        from_environment({"BERTH_DATABASE_URL": "mysql://berth:hunter2@host/db", "BERTH_REDIS_URL": "http://:hunter2@host"})
    assert "hunter2" not in str(refused.value)
    assert "BERTH_REDIS_URL must begin with redis://, rediss:// or unix://" in str(refused.value)


@pytest.mark.parametrize("text", ["4", "xA100", "0xA100", "4x", "4xA100;rm"])
def test_simulated_gpus_that_say_neither_count_nor_model_are_refused(text: str) -> None:
    with pytest.raises(BadSetting, match="BERTH_LOCAL_SIMULATED_GPUS"):
        from_environment({"BERTH_LOCAL_SIMULATED_GPUS": text})


def test_production_needs_its_servers() -> None:
    with pytest.raises(BadSetting, match="BERTH_SERVER_PROFILE=production needs BERTH_DATABASE_URL and BERTH_REDIS_URL"):
        from_environment({"BERTH_SERVER_PROFILE": "production"})


def test_an_empty_environment_is_a_small_safe_platform() -> None:
    config = from_environment({})
    assert (config.server_profile, config.host, config.debug) == ("embedded", "127.0.0.1", False)
    assert config.url == "http://127.0.0.1:8620"


# --- Where it listens -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "10.0.0.7", "berth.example.org"])
@pytest.mark.parametrize("public_url", ["", "http://berth.example.org"])
def test_listening_beyond_this_machine_without_tls_is_refused(host: str, public_url: str) -> None:
    with pytest.raises(CannotStart, match=f"BERTH_HOST={host} listens beyond this machine"):
        check_exposure(Config(host=host, public_url=public_url))


@pytest.mark.parametrize("host", ["127.0.0.1", "::1", "localhost"])
def test_loopback_needs_no_tls(host: str) -> None:
    check_exposure(Config(host=host))


def test_a_platform_behind_tls_may_listen_everywhere() -> None:
    check_exposure(Config(host="0.0.0.0", public_url="https://berth.example.org"))


@pytest.mark.parametrize("host", ["192.0.2.1", "no-such-host.invalid"])
def test_an_address_of_another_machine_is_not_taken_for_a_busy_port(host: str) -> None:
    with pytest.raises(CannotStart, match=f"BERTH_HOST={host} is no address of this machine"):
        check_port(Config(host=host))


@pytest.mark.parametrize(
    ("host", "url"), [("127.0.0.1", "http://127.0.0.1:1"), ("0.0.0.0", "http://127.0.0.1:1"), ("::", "http://[::1]:1")]
)
def test_the_address_for_this_machine_is_one_it_can_call(host: str, url: str) -> None:
    assert local_url(Config(host=host, port=1, public_url="https://berth.example.org")) == url


# --- Where it keeps its data ------------------------------------------------------------------------------------------


def test_data_without_a_directory_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    for path in (tmp_path / "nowhere", tmp_path / "file"):
        with pytest.raises(CannotStart, match=f"{path} is no directory"):
            check_data_directory(Config(data_dir=path))


def test_a_nearly_full_disk_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class Full:
        free = 3 * 1024**2

    monkeypatch.setattr("shutil.disk_usage", lambda path: Full)
    with pytest.raises(CannotStart, match=f"Only 3 MiB are free below {tmp_path}; Berth needs 512 MiB"):
        check_disk(tmp_path)


@pytest.fixture
def with_ldap(monkeypatch: pytest.MonkeyPatch) -> None:
    """As where the extra is installed."""
    monkeypatch.setattr("kernel.config.find_spec", lambda name: name)


DIRECTORY = {"BERTH_LDAP_URL": "ldaps://ldap.example.org", "BERTH_LDAP_BASE": "dc=example,dc=org"}


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"BERTH_LDAP_URL": "ldap://ldap.example.org"}, "must begin with ldaps://, or BERTH_LDAP_STARTTLS be true"),
        ({"BERTH_LDAP_URL": "https://ldap.example.org"}, "BERTH_LDAP_URL must begin with ldap:// or ldaps://"),
        ({"BERTH_LDAP_URL": "ldaps://ldap.example.org/dc=example"}, "must name a host and at most a port"),
        ({"BERTH_LDAP_STARTTLS": "true"}, "BERTH_LDAP_STARTTLS goes with ldap://"),
        ({"BERTH_LDAP_BASE": ""}, "BERTH_LDAP_BASE must be set"),
        ({"BERTH_LDAP_BIND_DN": "cn=reader"}, "BERTH_LDAP_BIND_DN and BERTH_LDAP_BIND_PASSWORD go together"),
        ({"BERTH_LDAP_CA_FILE": "/nowhere.pem"}, "BERTH_LDAP_CA_FILE='/nowhere.pem' cannot be read"),
        ({"BERTH_LDAP_USER_FILTER": "(uid=alice)"}, "must hold {name}, and nothing else in braces"),
        ({"BERTH_LDAP_USER_FILTER": "(uid={name})(x={dn})"}, "must hold {name}, and nothing else in braces"),
        ({"BERTH_LDAP_USER_FILTER": "(uid={name}"}, "must be an LDAP filter in round brackets"),
        ({"BERTH_LDAP_GROUP_FILTER": "(member=me)"}, "BERTH_LDAP_GROUP_FILTER='(member=me)' must hold {dn} or {name}"),
        ({"BERTH_LDAP_ID_ATTRIBUTES": "a)(b"}, "must name attributes, such as entryUUID"),
        ({"BERTH_LDAP_GROUPS": "staff"}, "BERTH_LDAP_GROUPS: 'staff' must be <group>=<tenant>:<role>"),
    ],
)
def test_a_directory_that_cannot_be_used_is_refused(with_ldap: None, changes: dict[str, str], said: str) -> None:
    with pytest.raises(BadSetting) as refused:
        from_environment(DIRECTORY | changes)
    assert said in str(refused.value)


@pytest.mark.parametrize("changes", [{}, {"BERTH_LDAP_URL": "ldap://ldap.example.org:389", "BERTH_LDAP_STARTTLS": "1"}])
def test_a_directory_is_reached_over_tls_or_on_this_machine(with_ldap: None, changes: dict[str, str]) -> None:
    assert from_environment(DIRECTORY | changes).ldap_base == "dc=example,dc=org"
    assert from_environment(DIRECTORY | {"BERTH_LDAP_URL": "ldap://127.0.0.1:389"}).ldap_url


def test_a_directory_without_its_extra_says_how_to_install_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kernel.config.find_spec", lambda name: None)
    with pytest.raises(BadSetting, match="`make up EXTRAS=ldap`, or `pip install --require-hashes"):
        from_environment(DIRECTORY)
    assert from_environment({}).ldap_url == ""


def test_the_old_name_of_a_setting_is_refused_with_the_new_one() -> None:
    with pytest.raises(BadSetting) as refused:
        from_environment({"BERTH_SCHEDULER_MOVES": "0", "BERTH_SCHEDULER_BOOKED": "2", "BERTH_SCHEDULER_PATIENCE_SECONDS": "60"})
    assert "BERTH_SCHEDULER_MOVES was renamed to BERTH_SCHEDULER_MIGRATIONS" in str(refused.value)
    assert "BERTH_SCHEDULER_PATIENCE_SECONDS was renamed to BERTH_SCHEDULER_STARVATION_GUARD_SECONDS" in str(refused.value)
    assert "BERTH_SCHEDULER_BOOKED was renamed to BERTH_SCHEDULER_BACKFILL_DEPTH" in str(refused.value)


@pytest.mark.parametrize(
    ("variable", "meant"),
    [
        ("BERTH_SWEEP_SECOND", "BERTH_SWEEP_SECONDS"),
        ("BERTH_SWEEP", "BERTH_SWEEP_SECONDS"),
        ("BERTH_SCHEDULER_MIGRATION", "BERTH_SCHEDULER_MIGRATIONS"),
        ("BERTH_LDAP_USERS_FILTER", "BERTH_LDAP_USER_FILTER"),
    ],
)
def test_a_variable_that_is_almost_a_setting_is_refused_with_the_name_of_the_setting(variable: str, meant: str) -> None:
    with pytest.raises(BadSetting, match=f"{variable} is not a setting; the closest is {meant}"):
        from_environment({variable: "1"})


def test_variables_of_the_client_of_tools_and_of_tasks_are_no_settings() -> None:
    theirs = (
        "SERVER",
        "TOKEN",
        "TENANT",
        "LANG",
        "CACHE",
        "PYTHONS",
        "CHECKPOINT_DIR",
        "W_HOSTS",
        "HOSTS_FILE",
        "PORT_WEB",
        "JOB_ID",
    )
    assert from_environment({f"BERTH_{name}": "anything" for name in theirs}) == Config()
