"""The command line on deserved and delivered shares, and statements that are checked without the server."""

from __future__ import annotations

import base64
import json
import re
import sys
import tomllib
from pathlib import Path
from typing import Any

import httpx2
import pytest
from client_stub import NOON, POOL, TENANT
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from hypothesis import given, settings
from hypothesis import strategies as some
from packaging.requirements import Requirement

from berth.costs import digest_of
from berth.signatures import is_signed

HOUR = 3_600_000
KEY = Ed25519PrivateKey.from_private_bytes(bytes(range(32)))
LINE = {"pool": POOL["id"], "resource": "gpu_millis", "promised": 8 * HOUR, "wanted": 6 * HOUR, "due": 6 * HOUR,
        "delivered": 4 * HOUR, "shortfall": 2 * HOUR, "fair": 5 * HOUR, "wanted_by_all": 20 * HOUR,
        "delivered_by_all": 10 * HOUR, "deficit": HOUR, "fair_ppm": 500_000, "delivered_ppm": 400_000}  # fmt: skip


def public(key: Ed25519PrivateKey) -> str:
    return base64.b64encode(key.public_key().public_bytes(Encoding.Raw, PublicFormat.Raw)).decode()


def a_week(**changes: Any) -> dict[str, Any]:
    document = {"format": 1, "kind": "shares", "tenant": TENANT["id"], "queue": "q", "week": "2026-W47", "since": 0,
                "until": 604_800, "lines": [LINE], "limits": []}  # fmt: skip
    data = json.dumps(document, sort_keys=True, separators=(",", ":")).encode()
    return {"tenant": TENANT, "week": "2026-W47", "closed_at": NOON, "sha256": digest_of(document), "algorithm": "ed25519",
            "signature": base64.b64encode(KEY.sign(data)).decode(), "public_key": public(KEY), "document": document,
            "names": {POOL["id"]: "a100"}, **changes}  # fmt: skip


def answer(stub: Any, line: str, body: Any) -> None:
    stub.faults.append((line, httpx2.Response(200, json=body)))


@pytest.mark.capability("33", "Every queue reads what it deserved, wanted and got, and what is missing")
def test_shares_are_shown_in_hours_with_what_is_missing(run: Any, stub: Any) -> None:
    row = {
        **LINE,
        "deserved": LINE["promised"],
        "requested": LINE["wanted"],
        "tenant": TENANT,
        "queue": {"id": "q", "name": "vision"},
        "is_top": True,
        "pool": POOL,
    }
    answer(stub, "GET /shares", {"since": NOON, "until": NOON, "items": [row]})
    shown = run("shares", "--since", "7d").stdout.splitlines()

    assert shown[1].split() == ["vision", "a100", "GPU", "6.00", "6.00", "4.00", "2.00", "5.00", "1.00", "40.0%", "50.0%"]
    assert shown[0].endswith("DELIVERED %  FAIR %"), "two figures are no ratio"
    answer(stub, "GET /shares", {"since": NOON, "until": NOON, "items": [row]})
    assert "欠额" in run("shares", env={"BERTH_LANG": "zh_CN.UTF-8"}).stdout


def test_a_week_is_shown_and_checked(run: Any, stub: Any) -> None:
    path = f"GET /tenants/{TENANT['slug']}/shares/2026-W47"
    keys = {"algorithm": "ed25519", "public_key": public(KEY), "former": []}
    answer(stub, path, a_week())
    answer(stub, "GET /signing-keys", keys)
    done = run("shares", "week", "2026-W47", "--verify")

    assert done.exit_code == 0, done.stderr
    assert "a100" in done.stdout
    assert "✓" in done.stderr


@pytest.mark.capability("6.10", "A statement is checked with the public key alone, without the server")
@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"document": {**a_week()["document"], "week": "2026-W48"}}, "digest"),
        ({"signature": base64.b64encode(bytes(64)).decode()}, "signature does not match"),
        ({"signature": "no base64 at all"}, "signature does not match"),
    ],
)
def test_a_kept_statement_that_was_changed_is_found_without_a_server(
    run: Any, tmp_path: Path, change: dict[str, Any], words: str
) -> None:
    file = tmp_path / "week.json"
    file.write_text(json.dumps(a_week()))
    assert run("shares", "verify", str(file), "--key", public(KEY)).exit_code == 0
    file.write_text(json.dumps(a_week(**change)))
    done = run("shares", "verify", str(file), "--key", public(KEY))

    assert done.exit_code == 1
    assert words in done.stderr


def test_without_the_extra_a_signature_counts_neither_as_right_nor_as_wrong(
    run: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "cryptography.hazmat.primitives.asymmetric.ed25519", None)
    file = tmp_path / "week.json"
    file.write_text(json.dumps(a_week()))
    done = run("shares", "verify", str(file), "--key", public(KEY))

    assert done.exit_code == 1
    assert "✓" not in done.stderr
    assert "✗" not in done.stderr
    assert "was not checked" in done.stderr
    assert "pip install cryptography" in done.stderr
    chinese = run("shares", "verify", str(file), "--key", public(KEY), env={"BERTH_LANG": "zh_CN.UTF-8"}).stderr
    assert "未核对签名" in chinese
    assert "请安装" in chinese
    machine = run("shares", "verify", str(file), "--key", public(KEY), "--json")
    assert json.loads(machine.stderr)["code"] == "extra_missing"


def test_without_the_extra_a_changed_document_is_found_and_weeks_are_shown(
    run: Any, stub: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "cryptography.hazmat.primitives.asymmetric.ed25519", None)
    file = tmp_path / "week.json"
    file.write_text(json.dumps(a_week(document={**a_week()["document"], "week": "2026-W48"})))
    answer(stub, f"GET /tenants/{TENANT['slug']}/shares/2026-W47", a_week())

    assert "digest" in run("shares", "verify", str(file), "--key", public(KEY)).stderr
    assert run("shares", "week", "2026-W47").exit_code == 0


def test_the_platform_s_own_environment_has_what_the_extra_brings() -> None:
    """`make up` installs the locked packages and runs the client from its source, without extras."""
    root = Path(__file__).parents[2]
    extras = tomllib.loads((root / "client" / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    lock = dict(re.findall(r"^([a-z0-9-]+)==(\S+)", (root / "requirements.lock").read_text(), re.MULTILINE))

    wanted = [Requirement(line) for lines in extras.values() for line in lines]
    assert wanted
    assert not [need for need in wanted if not need.specifier.contains(lock.get(need.name, "0"))]


def test_a_statement_that_another_installation_signed_is_found(run: Any, tmp_path: Path) -> None:
    file = tmp_path / "week.json"
    file.write_text(json.dumps(a_week()))
    other = Ed25519PrivateKey.from_private_bytes(bytes(32))

    assert "not signed by this installation" in run("shares", "verify", str(file), "--key", public(other)).stderr
    file.write_text("[]")
    assert run("shares", "verify", str(file), "--key", "x").exit_code == 2


@pytest.mark.capability("6.10", "A statement is checked with the public key alone, without the server")
@settings(max_examples=15, deadline=None)
@given(some.binary(min_size=32, max_size=32), some.binary(max_size=100), some.integers(0, 511))
def test_a_signature_holds_for_its_bytes_and_its_key_alone(seed: bytes, data: bytes, bit: int) -> None:
    key = Ed25519PrivateKey.from_private_bytes(seed)
    signature = key.sign(data)
    flipped = bytearray(signature)
    flipped[bit // 8] ^= 1 << bit % 8

    assert is_signed(data, base64.b64encode(signature).decode(), public(key))
    assert not is_signed(data, base64.b64encode(bytes(flipped)).decode(), public(key))
    assert not is_signed(data + b"!", base64.b64encode(signature).decode(), public(key))


def test_the_example_of_the_standard_is_right() -> None:
    """RFC 8032, 7.1, test 3."""
    key = base64.b64encode(bytes.fromhex("fc51cd8e6218a1a38da47ed00230f0580816ed13ba3303ac5deb911548908025")).decode()
    signature = bytes.fromhex(
        "6291d657deec24024827e69c3abe01a30ce548a284743a445e3680d7db5ac3ac18ff9b538d16f290ae67f760984dc6594a7c15e9716ed28dc027beceea1ec40a"
    )
    assert is_signed(bytes.fromhex("af82"), base64.b64encode(signature).decode(), key)


@pytest.mark.capability("39", "A dry run shows start and cost of the ask, of half and of a quarter of it")
def test_a_dry_run_shows_start_and_cost_of_the_ask_and_of_smaller_ones(run: Any, stub: Any) -> None:
    amounts = {"cpu_millis": 4000, "memory_bytes": 0, "gpu_millis": 0}
    cost = {"micros_per_hour": 4_000_000, "micros_per_hour_max": 4_000_000, "micros": 8_000_000, "micros_max": 9_000_000}
    option = {"size": "asked", "roles": [], "total": amounts, "pools": ["cpu"], "p50_at": NOON, "p90_at": NOON,
              "starts_now": False, "reason": "", "cost": cost}  # fmt: skip
    options = [option, {**option, "size": "half", "starts_now": True}, {**option, "size": "quarter", "cost": None}]
    stub.plan_extra = {"forecast": {"currency": "EUR", "runs_seconds": 7200, "runs_by": "name", "options": options,
                                    "past": {"predictions": 20, "by_p90": 0.9, "median_error_seconds": 5}}}  # fmt: skip
    done = run("submit", "--dry-run", "echo", "hello")

    assert dict(stub.sent("POST /jobs")[0].url.params)["forecast"] == "true"
    assert "8.00 – 9.00 EUR" in done.stdout
    assert "at once" in done.stdout
    assert "90%" in done.stderr
    assert "四分之一" in run("submit", "--dry-run", "echo", "hello", env={"BERTH_LANG": "zh_CN.UTF-8"}).stdout
