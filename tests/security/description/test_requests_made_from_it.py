"""The published description against the server: what it allows is understood, what it forbids is refused, nothing breaks."""

from __future__ import annotations

import contextlib
import itertools
from typing import Any

import pytest
from django.db import transaction
from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis.errors import Unsatisfiable
from schemathesis import Case, GenerationMode
from schemathesis.checks import not_a_server_error
from schemathesis.specs.openapi.checks import content_type_conformance, response_schema_conformance, status_code_conformance

from tests.security.description.sending import schema, send
from tests.security.matrix.operations import Operation, described
from tests.security.matrix.principals import Who
from tests.security.matrix.world import World

pytestmark = [pytest.mark.database, pytest.mark.usefixtures("quick")]

CHECKS = [not_a_server_error, status_code_conformance, content_type_conformance, response_schema_conformance]
HEALTH = [HealthCheck.too_slow, HealthCheck.filter_too_much, HealthCheck.data_too_large, HealthCheck.function_scoped_fixture]
SEED = 20_261_121
UNREADY = "/readyz"  # No scheduler leads in this process, and 503 is what it says then.
OPERATIONS = [entry for entry in described() if not entry.path.endswith("/stream") and entry.path != UNREADY]
EXAMPLES = [4, pytest.param(100, marks=[pytest.mark.slow, pytest.mark.timeout(600)])]


def limits(examples: int, **more: Any) -> settings:
    return settings(
        max_examples=examples, deadline=None, database=None, suppress_health_check=HEALTH, phases=[Phase.generate], **more
    )


def run(operation: Operation, world: World, mode: GenerationMode, examples: int) -> None:
    """Cases with the caller's own objects in the path, which get past the door, and a few with any path."""
    found = schema()[operation.path][operation.method]
    callers = itertools.cycle((Who.MANAGER, Who.OPERATOR))

    def try_it(case: Case) -> None:
        case.validate_response(send(case, world.principals[next(callers)]), checks=CHECKS)

    own = path_values(operation, world)
    for fixed, count in [(own, examples), (None, max(1, examples // 3))] if own else [(None, examples)]:
        strategy = found.as_strategy(generation_mode=mode, path_parameters=fixed)
        with contextlib.suppress(Unsatisfiable):  # Nothing to get wrong in a request without any parameter.
            seed(SEED)(limits(count)(given(case=strategy)(try_it)))()


def path_values(operation: Operation, world: World) -> dict[str, Any]:
    template = operation.path.split("/")
    made = world.own.path(operation.path).split("/")
    return {part[1:-1]: value for part, value in zip(template, made, strict=True) if part.startswith("{") and part.endswith("}")}


@pytest.mark.parametrize("examples", EXAMPLES)
@pytest.mark.parametrize("operation", OPERATIONS, ids=str)
def test_what_the_description_allows_is_understood(operation: Operation, world: World, examples: int) -> None:
    run(operation, world, GenerationMode.POSITIVE, examples)


@pytest.mark.parametrize("examples", EXAMPLES)
@pytest.mark.parametrize("operation", OPERATIONS, ids=str)
def test_what_the_description_forbids_breaks_nothing(operation: Operation, world: World, examples: int) -> None:
    run(operation, world, GenerationMode.NEGATIVE, examples)


@pytest.mark.parametrize("scenarios", [12, pytest.param(400, marks=[pytest.mark.slow, pytest.mark.timeout(1_800)])])
def test_what_one_answer_names_the_next_request_may_use(world: World, scenarios: int) -> None:
    """Chains of requests, each with what the one before gave: made, read, changed, removed, and asked for again."""

    class Chain(schema().as_state_machine()):  # type: ignore[misc]
        def setup(self) -> None:
            self.undo = transaction.atomic()
            self.undo.__enter__()

        def teardown(self) -> None:
            transaction.set_rollback(True)
            self.undo.__exit__(None, None, None)

        def call(self, case: Case, **_: Any) -> Any:
            return send(case, world.principals[Who.MANAGER], undo=False)

        def validate_response(self, response: Any, case: Case, **_: Any) -> None:
            if not case.path.endswith(("/stream", UNREADY)):
                case.validate_response(response, checks=CHECKS)

    Chain.run(settings=limits(scenarios, stateful_step_count=10))
