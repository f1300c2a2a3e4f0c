"""Plans: what a call would do, told without doing it, and held to when it is done.

A dry run answers a plan, and with it its name: a digest of all that the plan says. A caller that sends the name with the call
itself (`?plan=`) gets exactly that, or a refusal that holds the plan as it is by now. The name is bound to the state only
through what the plan says, so a state that was changed and changed back does no harm.

Nothing is stored. The plan is made again where the call acts, under the locks under which it acts.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from typing import Any

from rest_framework.request import Request

from kernel.errors import FieldError, InvalidInput, PlanChanged
from kernel.words import Text

PREFIX = "plan-"
LENGTH = 40  # Hexadecimal digits: 160 bits, which never occur twice.
UNTOLD = frozenset({"plan", "at"})  # Parts that are no part of what is done: the name itself, and when it was asked.

Plan = Mapping[str, Any]


def name_of(plan: Plan) -> str:
    """The name of what a plan says. Equal plans have equal names, in whatever order their members are listed."""
    told = {key: value for key, value in plan.items() if key not in UNTOLD}
    text = json.dumps(told, sort_keys=True, separators=(",", ":"), ensure_ascii=False, default=str)
    return PREFIX + hashlib.sha256(text.encode()).hexdigest()[:LENGTH]


def named(plan: Plan) -> dict[str, Any]:
    """A plan with its name, as a dry run answers it."""
    return {**plan, "plan": name_of(plan)}


def asked_plan(request: Request) -> str | None:
    """The name that the caller holds the call to; None where anything goes."""
    text = request.query_params.get("plan")
    if text is None:
        return None
    if not text.startswith(PREFIX) or len(text) != len(PREFIX) + LENGTH:
        message = Text("plan is no name of a plan.", "plan 不是计划的名称。")
        hint = Text("Send `plan` of a dry run as it was received.", "请原样发送试运行给出的 `plan`。")
        raise InvalidInput(message, hint=hint, fields=[FieldError("/plan", "invalid", message, hint)])
    return text


def hold_to(asked: str | None, plan: Plan) -> None:
    """Refuse to go on where the plan is not the one that was asked for any more."""
    if asked is not None and name_of(plan) != asked:
        raise PlanChanged(
            Text("The plan is not what it was: something that it depends on has changed.", "计划已变化：其所依赖的内容有改动。"),
            hint=Text(
                "Look at `plan`, which is what would be done now, and send its `plan` if you still want it.",
                "请查看 `plan`（现在将执行的内容）；如仍需要，请发送其 `plan`。",
            ),
            plan=named(plan),
        )
