"""A platform that could be weak does not start: each weakness is named, no secret is shown, and nothing is made up in silence."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from controlplane.instance import CannotStart, check_exposure
from controlplane.keys import read_secret_key
from kernel.config import BadSetting, Config, from_environment
from tests.architecture.sources import ROOT

GOOD = "kq3V9xTfW2mZr7Lp0sYd8HuBn5Jc1GaE"
SERVERS = {
    "BERTH_SERVER_PROFILE": "production",
    "BERTH_DATABASE_URL": "postgresql://berth:hunter2hunter2@/berth?host=/run/x",
    "BERTH_REDIS_URL": "unix://:hunter2hunter2@/run/x/redis.sock",
}


@pytest.mark.parametrize(
    ("environment", "named"),
    [
        ({**SERVERS, "BERTH_DEBUG": "1"}, "BERTH_DEBUG"),
        ({"BERTH_DEBUG": "1", "BERTH_PUBLIC_URL": "https://berth.example.org"}, "BERTH_DEBUG"),
        ({"BERTH_METRICS_TOKEN": "short"}, "BERTH_METRICS_TOKEN"),
        ({"BERTH_SERVER_PROFILE": "production"}, "BERTH_DATABASE_URL and BERTH_REDIS_URL"),
        ({**SERVERS, "BERTH_DATABASE_URL": "sqlite:///x"}, "BERTH_DATABASE_URL"),
        ({"BERTH_LOCAL_ISOLATION": "off"}, "BERTH_LOCAL_ISOLATION"),
        ({"BERTH_TRUSTED_PROXIES": "0.0.0.0/0"}, "BERTH_TRUSTED_PROXIES"),
        ({"BERTH_TRUSTED_PROXIES": "127.0.0.1, proxy.example.org"}, "BERTH_TRUSTED_PROXIES"),
    ],
)
def test_a_weak_setting_stops_the_start_and_is_named(environment: dict[str, str], named: str) -> None:
    with pytest.raises(BadSetting, match=named) as refused:
        from_environment(environment)

    assert "hunter2" not in str(refused.value)


def test_what_is_switched_on_by_default_is_safe() -> None:
    config = from_environment({})

    assert (config.debug, config.host, config.local_isolation, config.metrics_token) == (False, "127.0.0.1", "auto", "")
    assert config.requests_per_minute > 0
    assert config.tenant_requests_per_minute > 0
    assert not config.webhook_private_targets
    assert config.selftest_hours > 0


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "10.0.0.1", "berth.example.org"])
@pytest.mark.parametrize("public_url", ["", "http://berth.example.org"])
def test_listening_to_the_world_without_tls_is_refused(host: str, public_url: str) -> None:
    with pytest.raises(CannotStart, match="BERTH_PUBLIC_URL=https"):
        check_exposure(replace(Config(), host=host, public_url=public_url))


@pytest.mark.parametrize(
    "weak", ["", "secret", GOOD[:31], "a" * 64, "ab" * 32, "django-insecure-" + GOOD, f"{GOOD}-changeme", "example" + GOOD]
)
def test_a_key_that_is_short_repeated_or_a_sample_opens_nothing(
    weak: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "secret.key").write_text(weak)
    monkeypatch.delenv("BERTH_SECRET_KEY", raising=False)
    with pytest.raises(BadSetting) as refused:
        read_secret_key(tmp_path, may_generate=False)

    assert len(weak) < 10 or weak not in str(refused.value)


@pytest.mark.parametrize(
    ("settings", "named"),
    [
        ({"BERTH_SECRET_KEY": "change-me-" + GOOD}, "shorter than 256 bits or a sample"),
        ({**SERVERS, "BERTH_SECRET_KEY": GOOD, "BERTH_DEBUG": "1"}, "BERTH_DEBUG"),
    ],
    ids=["a sample key", "tracebacks in production"],
)
def test_the_process_itself_ends_in_words_and_without_a_traceback(settings: dict[str, str], named: str, tmp_path: Path) -> None:
    environment = {"PATH": os.environ["PATH"], "BERTH_DATA_DIR": str(tmp_path), "BERTH_PORT": "1", **settings}
    done = subprocess.run(
        [sys.executable, str(ROOT / "manage.py"), "serve"],
        env=environment,
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    said = done.stdout + done.stderr

    assert done.returncode != 0
    assert named in said
    assert "Traceback" not in said
    assert "hunter2" not in said
    assert GOOD not in said
    assert not (tmp_path / "secret.key").exists()
    assert not (tmp_path / "berth.sqlite3").exists()
