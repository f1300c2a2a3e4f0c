"""The command line on use, prices, statements, budgets and break-even: what a person reads, and what is sent."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import httpx2
import pytest
from client_stub import NOON, POOL, TENANT, USER

from berth.cli.costs import money, parse_money
from berth.costs import digest_of
from berth.errors import BerthError

HOUR = 3_600_000
NUMBERS = {"cpu_milli_seconds": 2 * HOUR, "memory_byte_seconds": 0, "attempts": 2}
QUEUE_PATH = "/queues/0198c000-0000-7000-8000-00000000bbbb/budget"


def answer(stub: Any, line: str, body: Any, status: int = 200) -> None:
    made = httpx2.Response(status, content=body) if isinstance(body, bytes) else httpx2.Response(status, json=body)
    stub.faults.append((line, made))


def use(stub: Any, *rows: dict[str, Any]) -> None:
    answer(stub, "GET /usage", {"items": list(rows), "next": None, "currency": "EUR"})


def a_statement(**changes: Any) -> dict[str, Any]:
    line = {"used_in": "2026-10", "pool": POOL["id"], "queue": "q", "user": USER["id"], "fate": "useful",
            "gpu_milli_seconds": 4 * HOUR, "micros": 10_000_000, **NUMBERS}  # fmt: skip
    totals = {**NUMBERS, "gpu_milli_seconds": 4 * HOUR, "micros": 10_000_000,
              "micros_by_fate": {"useful": 10_000_000, "failed": 0},
              "gpu_milli_seconds_by_fate": {"useful": 4 * HOUR, "failed": 0}}  # fmt: skip
    document = {"format": 1, "tenant": TENANT["id"], "month": "2026-11", "currency": "EUR", "lines": [line], "totals": totals,
                "prices": []}  # fmt: skip
    names = {POOL["id"]: "a100", USER["id"]: "alice", "q": "vision"}
    return {"tenant": TENANT, "month": "2026-11", "closed_at": NOON, "sha256": digest_of(document), "document": document,
            "names": names, **changes}  # fmt: skip


def test_use_shows_what_it_cost_where_that_may_be_seen(run: Any, stub: Any) -> None:
    row = {"id": USER["id"], "name": "alice", "gpu_milli_seconds": HOUR, **NUMBERS}
    use(stub, {**row, "micros": 2_500_000})
    shown = run("usage", "--user", "me", "--pool", "a100", "--fate", "failed").stdout.splitlines()

    assert shown[0].split() == ["USER", "GPU", "HOURS", "CPU", "HOURS", "GIB", "HOURS", "COST", "ATTEMPTS"]
    assert shown[1].split() == ["alice", "1.00", "2.00", "0.00", "2.50", "EUR", "2"]
    sent = dict(stub.sent("GET /usage")[0].url.params)
    assert {name: sent[name] for name in ("user", "pool", "fate", "group_by")} == {
        "user": "me", "pool": "a100", "fate": "failed", "group_by": "user",
    }  # fmt: skip
    use(stub, {**row, "micros": None})
    assert "COST" not in run("usage").stdout


@pytest.mark.capability("60", "GPU hours that were held stand beside busy ones, by tenant, user, queue, pool and job")
def test_how_busy_gpus_were_is_shown_where_it_was_measured(run: Any, stub: Any) -> None:
    row = {"gpu_milli_seconds": 4 * HOUR, **NUMBERS, "gpu_measured_milli_seconds": 2 * HOUR, "gpu_busy_milli_seconds": HOUR // 2}
    unseen = {**row, "gpu_measured_milli_seconds": 0, "gpu_busy_milli_seconds": 0}
    use(stub, {"id": "1", "name": "alice", **row}, {"id": "2", "name": "bob", **unseen})
    shown = [line.split() for line in run("usage").stdout.splitlines()]

    assert shown[0][:6] == ["USER", "GPU", "HOURS", "BUSY", "HOURS", "BUSY"]
    assert [line[:4] for line in shown[1:3]] == [["alice", "4.00", "0.50", "25%"], ["bob", "4.00", "0.00", "-"]]
    use(stub, {"id": "2", "name": "bob", **unseen})
    assert "BUSY" not in run("usage").stdout


@pytest.mark.capability("60", "Use and waste are shown on the command line and in the portal")
@pytest.mark.capability("6.4", "Waste is split by the outcome of jobs, and what was held and not used is counted")
def test_waste_is_shown_as_a_share_of_all(run: Any, stub: Any) -> None:
    hours = {"useful": 3, "evicted": 1}
    rows = [{"id": fate, "name": fate, "gpu_milli_seconds": hours[fate] * HOUR, "micros": 0, **NUMBERS} for fate in hours]
    use(stub, *rows)
    assert [line.split()[-1] for line in run("usage", "--by", "fate").stdout.splitlines()] == ["SHARE", "75.0%", "25.0%"]
    use(stub, *rows)
    assert "被抢占" in run("usage", "--by", "fate", env={"BERTH_LANG": "zh_CN.UTF-8"}).stdout


def test_use_is_written_as_csv(run: Any, stub: Any, tmp_path: Path) -> None:
    answer(stub, "GET /usage:export", b"day,cost\r\n2026-11-20,2.500000\r\n")
    done = run("usage", "--csv", str(tmp_path / "usage.csv"))

    assert done.exit_code == 0, done.stderr
    assert (tmp_path / "usage.csv").read_bytes().endswith(b"2.500000\r\n")


def test_a_price_is_set_in_money_and_sent_in_millionths(run: Any, stub: Any) -> None:
    row = {"id": "1", "pool": POOL, "resource": "gpu_millis", "micros_per_hour": 2_500_000, "currency": "EUR",
           "effective_at": NOON, "state": "planned", "created_by": USER}  # fmt: skip
    answer(stub, "POST /prices", {"items": [row]}, 201)
    done = run("prices", "set", "a100", "--gpu", "2.50", "--cpu", "0", "--from", "2027-01-31T00:00:00Z")

    assert done.exit_code == 0, done.stderr
    assert json.loads(stub.sent("POST /prices")[0].content) == {
        "pool": "a100", "effective_at": "2027-01-31T00:00:00Z", "gpu_hour_micros": 2_500_000, "cpu_hour_micros": 0,
    }  # fmt: skip
    assert "2.50 EUR" in done.stdout
    answer(stub, "GET /prices", {"items": [row], "next": None})
    assert "2.50 EUR" in run("prices", "--pool", "a100").stdout
    assert run("prices", "set", "a100").exit_code == 2
    assert run("prices", "set", "a100", "--gpu", "cheap").exit_code == 2


def test_a_statement_is_shown_with_its_digest_which_is_checked_here(run: Any, stub: Any) -> None:
    path = "GET /tenants/t-7f3k2/statements/2026-11"
    answer(stub, path, a_statement())
    done = run("statement", "2026-11", "--verify")

    assert done.exit_code == 0, done.stderr
    assert "✓ The digest matches the document." in done.stderr
    for words in ("10.00 EUR", "alice", "2026-10", a_statement()["sha256"]):
        assert words in done.stdout
    answer(stub, path, a_statement(sha256="0" * 64))
    wrong = run("statement", "2026-11")
    assert wrong.exit_code == 1
    assert "✗" in wrong.stderr
    answer(stub, path, a_statement(closed_at=None))
    assert "open: may still grow" in run("statement", "2026-11").stdout
    answer(stub, path, a_statement())
    assert json.loads(run("statement", "2026-11", "--json").stdout)["month"] == "2026-11"


def test_a_budget_is_given_in_money_gpu_hours_or_node_hours(run: Any, stub: Any) -> None:
    row = {"queue": {"id": "q", "name": "vision"}, "tenant": TENANT, "kind": "gpu_time", "amount": 500 * HOUR, "warn_at": [80],
           "stops": True, "month": "2026-11", "spent": 250 * HOUR, "percent": 50, "currency": "EUR", "version": 1}  # fmt: skip
    answer(stub, f"PUT {QUEUE_PATH}", row)
    done = run("budgets", "set", "vision", "--gpu-hours", "500", "--warn", "80", "--stop")

    assert done.exit_code == 0, done.stderr
    assert json.loads(stub.sent(f"PUT {QUEUE_PATH}")[0].content) == {
        "kind": "gpu_time", "amount": 500 * HOUR, "warn_at": [80], "stops": True,
    }  # fmt: skip
    assert "Queue vision may spend 500.0 GPU hours a month; 50 % of it is spent." in done.stderr
    answer(stub, "GET /budgets", {"items": [row], "next": None})
    shown = run("budgets").stdout
    assert "██████░░░░░░   50 %" in shown
    assert "new jobs wait" in shown
    assert run("budgets", "set", "vision").exit_code == 2
    assert run("budgets", "set", "vision", "--money", "1", "--gpu-hours", "1").exit_code == 2
    answer(stub, f"PUT {QUEUE_PATH}", {**row, "kind": "node_time"})
    assert "may spend 500.0 node hours a month" in run("budgets", "set", "vision", "--node-hours", "500").stderr
    assert json.loads(stub.sent(f"PUT {QUEUE_PATH}")[1].content)["kind"] == "node_time"
    answer(stub, f"DELETE {QUEUE_PATH}", b"", 204)
    assert run("budgets", "remove", "vision", "--yes").exit_code == 0


def test_break_even_says_when_owning_pays_and_what_it_assumed(run: Any, stub: Any, tmp_path: Path) -> None:
    curve = [{"month": month, "own_micros": 100_000_000 + month, "rent_micros": 60_000_000 * month} for month in range(3)]
    body = {"pool": POOL, "currency": "EUR", "gpu_milli_hours_per_month": 5_840_000, "use_percent": 100, "use_percent_needed": 60,
            "crossover_month": 2, "stays_below": False, "own_micros_per_month": 1, "rent_micros_per_month": 60_000_000,
            "saved_micros": -5, "curve": curve,
            "assumptions": {"gpus": 8, "horizon_months": 2, "kwh_micros": 250_000}}  # fmt: skip
    answer(stub, "GET /breakeven", body)
    done = run("breakeven", "--rent", "2.50", "--gpus", "8")

    assert done.exit_code == 0, done.stderr
    assert dict(stub.sent("GET /breakeven")[0].url.params)["rent_micros_per_gpu_hour"] == "2500000"
    for words in ("in month 2 (until the GPUs are replaced)", "5,840.0 a month", "Kilowatt-hour", "0.25 EUR"):
        assert words in done.stdout
    answer(stub, "GET /breakeven", {**body, "crossover_month": None})
    assert "never within 2 months" in run("breakeven").stdout
    answer(stub, "GET /breakeven", body)
    run("breakeven", "--csv", str(tmp_path / "curve.csv"))
    assert (tmp_path / "curve.csv").read_text().splitlines()[:2] == ["month,own,rent", "0,100.00,0.00"]


@pytest.mark.parametrize(("text", "micros"), [("2.50", 2_500_000), ("0", 0), ("0.000001", 1), ("10_000", 10_000_000_000)])
def test_money_is_read_exactly(text: str, micros: int) -> None:
    assert parse_money(text) == micros


@pytest.mark.parametrize("text", ["", "-1", "NaN", "Infinity", "1e99", "0.0000001", "2,50", "€2"])
def test_what_is_no_money_is_refused(text: str) -> None:
    with pytest.raises(BerthError):
        parse_money(text)


def test_small_money_keeps_its_decimals() -> None:
    assert [money(value, "EUR") for value in (2_500_000, 1, 1_234_567_890, None)] == [
        "2.50 EUR",
        "0.000001 EUR",
        "1,234.57 EUR",
        "-",
    ]


def test_a_job_shows_its_cost_by_attempt_and_by_the_hour(run: Any, stub: Any) -> None:
    numbers = {1: "retried", 2: None}
    attempts = [{"number": key, "fate": numbers[key], "gpu_milli_seconds": HOUR, "micros": 2_500_000} for key in numbers]
    body = {"currency": "EUR", "micros": 5_000_000, "micros_per_hour": 2_500_000, "gpu_milli_seconds": 2 * HOUR,
            "cpu_milli_seconds": 0, "attempts": attempts}  # fmt: skip
    answer(stub, "GET /jobs/digits/cost", body)
    shown = run("cost", "digits").stdout

    for words in ("5.00 EUR", "Per hour now", "2.50 EUR", "retried", "running"):
        assert words in shown
    answer(stub, "GET /jobs/digits/cost", body)
    assert json.loads(run("cost", "digits", "--json").stdout)["micros"] == 5_000_000


def test_a_table_that_cannot_be_written_is_named(run: Any, stub: Any, own_home: Path) -> None:
    for words, line in (
        (("usage",), "GET /usage:export"),
        (("shares", "show"), "GET /shares"),
        (("statement", "2026-11"), f"GET /tenants/{TENANT['slug']}/statements/2026-11"),
    ):
        stub.fail(line, *[httpx2.Response(200, content="a,数\r\n".encode())] * 3)
        refused = run(*words, "--csv", "absent/use.csv")
        assert (refused.exit_code, refused.stdout) == (1, "")
        assert "absent/use.csv" in refused.stderr
        assert run(*words, "--csv", "-").stdout_bytes == "a,数\r\n".encode()
        assert run(*words, "--csv", "use.csv").exit_code == 0
        assert (own_home / "work/use.csv").read_bytes() == "a,数\r\n".encode()
