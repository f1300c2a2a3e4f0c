"""The secret key: generated once for new data, never replaced, never weak."""

from __future__ import annotations

import stat
from pathlib import Path

import pytest

from controlplane.keys import generate_secret_key, read_previous_keys, read_secret_key
from kernel.config import BadSetting

GOOD = "kq3VtM8x-Zr0pN5sYd2LwC7uHf4JbA9e"


@pytest.fixture(autouse=True)
def _no_keys_around(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("BERTH_SECRET_KEY", raising=False)
    monkeypatch.delenv("BERTH_SECRET_KEY_PREVIOUS", raising=False)


def test_new_data_gets_a_key_that_only_its_owner_reads(tmp_path: Path) -> None:
    key = read_secret_key(tmp_path, may_generate=True)
    assert len(key) >= 64
    assert stat.S_IMODE((tmp_path / "secret.key").stat().st_mode) == 0o600
    assert read_secret_key(tmp_path, may_generate=True) == key


def test_two_installations_have_two_keys(tmp_path: Path) -> None:
    keys = set()
    for name in ("one", "other"):
        (tmp_path / name).mkdir()
        keys.add(read_secret_key(tmp_path / name, may_generate=True))
    assert len(keys) == 2


def test_a_key_that_is_there_is_never_replaced(tmp_path: Path) -> None:
    (tmp_path / "secret.key").write_text(GOOD)
    assert not generate_secret_key(tmp_path)
    assert read_secret_key(tmp_path, may_generate=True) == GOOD


def test_a_database_whose_key_is_missing_is_not_given_another(tmp_path: Path) -> None:
    (tmp_path / "berth.sqlite3").write_text("")
    with pytest.raises(
        BadSetting, match=r"secret\.key cannot be read: No such file.*Restore it from a backup, or set BERTH_SECRET_KEY"
    ):
        read_secret_key(tmp_path, may_generate=True)
    assert not (tmp_path / "secret.key").exists()


def test_production_is_never_given_a_key(tmp_path: Path) -> None:
    with pytest.raises(BadSetting, match="BERTH_SECRET_KEY"):
        read_secret_key(tmp_path, may_generate=False)
    assert not (tmp_path / "secret.key").exists()


def test_a_directory_that_is_not_there_is_named_and_not_its_key(tmp_path: Path) -> None:
    with pytest.raises(BadSetting, match=f"BERTH_DATA_DIR={tmp_path / 'nowhere'} is no directory"):
        read_secret_key(tmp_path / "nowhere", may_generate=True)


@pytest.mark.parametrize(
    "weak",
    [
        "short",
        GOOD[:-1],  # 31 bytes.
        "0" * 64,
        "abcabcabc" * 8,
        "django-insecure-" + GOOD,
        "change-me-" + GOOD,
        "CHANGEME" + GOOD,
        "your-secret-key-here-" + GOOD,
    ],
)
@pytest.mark.parametrize("where", ["setting", "file"])
def test_a_short_key_or_a_sample_is_refused_without_being_shown(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, weak: str, where: str
) -> None:
    if where == "setting":
        monkeypatch.setenv("BERTH_SECRET_KEY", weak)
    else:
        (tmp_path / "secret.key").write_text(weak)
    with pytest.raises(BadSetting, match="shorter than 256 bits or a sample") as refused:
        read_secret_key(tmp_path, may_generate=True)
    assert len(weak) < 10 or weak not in str(refused.value)


def test_previous_keys_come_from_the_setting_or_the_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert read_previous_keys(tmp_path) == []
    (tmp_path / "secret.key.previous").write_text("newer\nolder\n\n")
    assert read_previous_keys(tmp_path) == ["newer", "older"]
    monkeypatch.setenv("BERTH_SECRET_KEY_PREVIOUS", "one two")
    assert read_previous_keys(tmp_path) == ["one", "two"]


def test_previous_keys_that_cannot_be_read_stop_the_start(tmp_path: Path) -> None:
    (tmp_path / "secret.key.previous").mkdir()
    with pytest.raises(BadSetting, match=r"secret\.key\.previous cannot be read: Is a directory"):
        read_previous_keys(tmp_path)
