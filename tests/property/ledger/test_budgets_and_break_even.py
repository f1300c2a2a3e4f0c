"""When a budget warns and stops, and when machines that are bought have paid for themselves."""

from __future__ import annotations

import uuid
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tenants.billing.ledger.breakeven import MONTH_HOURS, Assumptions, break_even
from tenants.billing.ledger.budgets import BudgetFacts, BudgetKind, Spent, budget_refusal, sums_along
from tenants.billing.ledger.statements import as_csv, hours_text, money_text, safe_cell

QUEUE, PARENT, ROOT = (uuid.UUID(int=number) for number in (3, 2, 1))
PATH = (QUEUE, PARENT, ROOT)


def spent(queue_id: uuid.UUID, amount: int, gone: int, *, stops: bool = True) -> Spent:
    return Spent(BudgetFacts(queue_id, BudgetKind.MONEY, amount, stops=stops), gone)


def test_the_first_spent_budget_on_the_way_up_is_named_with_its_numbers() -> None:
    found = budget_refusal(PATH, {PARENT: spent(PARENT, 100, 100), ROOT: spent(ROOT, 50, 90)})

    assert found is not None
    assert found.as_dict() == {"queue": str(PARENT), "kind": "money", "amount": 100, "spent": 100}


def test_a_budget_that_only_warns_or_has_a_rest_keeps_nobody_waiting() -> None:
    assert budget_refusal(PATH, {QUEUE: spent(QUEUE, 100, 500, stops=False), PARENT: spent(PARENT, 100, 99)}) is None
    assert budget_refusal(PATH, {}) is None


@given(st.integers(0, 10**12), st.integers(0, 10**12))
def test_the_level_is_the_highest_threshold_that_is_reached(amount: int, gone: int) -> None:
    found = Spent(BudgetFacts(QUEUE, BudgetKind.GPU_TIME, amount, (50, 80, 100)), gone)
    assert found.level == max([at for at in (50, 80, 100) if gone * 100 >= amount * at], default=0)
    assert found.is_over == (found.level == 100)


def test_what_a_queue_used_counts_for_all_above_it() -> None:
    paths = {QUEUE: PATH, PARENT: PATH[1:]}
    assert sums_along(paths, [(QUEUE, 5), (PARENT, 2), (QUEUE, 1)]) == {QUEUE: 6, PARENT: 8, ROOT: 8}


@pytest.mark.capability(
    "66", "Break-even of owning is computed from the hours in the ledger, with assumptions that are told and changed"
)
def test_a_busy_machine_pays_for_itself_and_an_idle_one_does_not() -> None:
    given_ = Assumptions()
    busy = break_even(8 * MONTH_HOURS * 1_000, given_)
    idle = break_even(8 * MONTH_HOURS * 10, given_)

    assert busy.crossover_month is not None
    assert break_even(8 * MONTH_HOURS * 1_000, replace(given_, horizon_months=48)).stays_below
    assert not busy.stays_below  # Bought again in month 49, it costs more once more, for a while.
    assert busy.use_percent == 100
    point = busy.curve[busy.crossover_month]
    before = busy.curve[busy.crossover_month - 1]
    assert point.own_micros <= point.rent_micros
    assert before.own_micros > before.rent_micros
    assert idle.crossover_month is None
    assert idle.saved_micros < 0


@pytest.mark.capability("66", "Machines that are worn out are bought again, and use beyond them is rented")
@given(st.integers(0, 10**8), st.integers(1, 64), st.integers(1, 10**8), st.integers(1, 120))
def test_both_curves_only_rise_and_the_purchase_comes_again_when_worn_out(
    hours: int, gpus: int, rent: int, lifetime: int
) -> None:
    found = break_even(hours, replace(Assumptions(), gpus=gpus, rent_micros_per_gpu_hour=rent, lifetime_months=lifetime))
    for name in ("own_micros", "rent_micros"):
        values = [getattr(point, name) for point in found.curve]
        assert values == sorted(values)
    assert found.curve[0].own_micros == Assumptions().capex_micros
    assert len(found.curve) == Assumptions().horizon_months + 1


@pytest.mark.capability("66", "Machines that are worn out are bought again, and use beyond them is rented")
def test_use_beyond_what_the_machines_can_do_is_rented_in_both_cases() -> None:
    full, more = (break_even(hours, Assumptions()) for hours in (8 * MONTH_HOURS * 1_000, 9 * MONTH_HOURS * 1_000))
    extra = MONTH_HOURS * 2_500_000
    assert more.own_micros_per_month - full.own_micros_per_month == extra
    assert more.rent_micros_per_month - full.rent_micros_per_month == extra


@pytest.mark.parametrize("text", ["=1+1", "+1", "-1", "@SUM(A1)", "\t=1", "\r=1"])
def test_a_cell_that_a_spreadsheet_would_calculate_begins_with_an_apostrophe(text: str) -> None:
    assert safe_cell(text) == f"'{text}"
    assert as_csv(("a",), [(text,)]).splitlines()[0] == "a"


def test_numbers_stay_numbers_and_money_keeps_its_decimals() -> None:
    assert safe_cell(-5) == "-5"
    assert as_csv(("a", "b"), [('x,"y"', 3)]) == 'a,b\r\n"x,""y""",3\r\n'
    assert [money_text(value) for value in (0, 1, 12_500_000, -1)] == ["0.000000", "0.000001", "12.500000", "-0.000001"]
    assert hours_text(1_000 * 5_400, 1_000) == "1.500000"
