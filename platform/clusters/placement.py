"""What operators may say of placement: taints of machines, and rules by which a pool is filled. Plain values, read strictly.

A taint keeps jobs away from a machine, or only asks them to avoid it, unless they tolerate it by its name. It comes from an
operator or from a label that the cluster gives the machine, `berth.dev/taint.<name>=avoid|keep-out`; an operator's word wins.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from enum import StrEnum
from typing import Any

from kernel import limits
from kernel.errors import FieldError, InvalidInput
from kernel.words import Saying, Text

TAINT_LABEL = "berth.dev/taint."
EXCLUSIVE_CORES = "exclusive_cores"  # A label: how many cores tasks may have for themselves on a machine; without it none.
RDMA, RDMA_PRESENT = "rdma", "yes"  # A label: whether a machine has adapters for remote memory access that tasks can get.
GPU_DRIVER, GPU_CUDA = "gpu_driver", "gpu_cuda"  # Labels: the version of the GPUs' driver, and the newest CUDA that it supports.
LEVEL_LABEL = "berth.dev/"  # Before a level: `berth.dev/rack` says the same as `rack`.
POLICIES = ("fragmentation", "pack", "spread", "ratio")
TERMS = ("fragmentation", "pack", "spread", "ratio", "balanced", "taints", "image", "data")
LEVELS = ("island", "switch", "rack")  # Nearest first.
WEIGHT_MAX = 10_000
SHARED_DEVICES_MAX = 1_000_000
TAINTS_MAX = 32
NAME_MAX = 63  # Short enough for a column of a list; names that the inventory makes are shorter.
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")  # As job files write names, so that each can be named there.
_TAINT = re.compile(r"[a-z0-9]([a-z0-9.-]*[a-z0-9])?")


class Effect(StrEnum):
    KEEP_OUT = "keep-out"
    AVOID = "avoid"


def taints_of(labels: Mapping[str, object], own: Mapping[str, str] | None) -> dict[str, str]:
    """Effects by taint, of a machine's labels and of an operator. A label with another value than `avoid` keeps out."""
    found = {
        name.removeprefix(TAINT_LABEL).lower(): str(Effect.AVOID if value == Effect.AVOID else Effect.KEEP_OUT)
        for name, value in sorted(labels.items())
        if name.startswith(TAINT_LABEL) and name != TAINT_LABEL
    }
    return dict(sorted({**found, **(own or {})}.items()))


def levels_of(labels: Mapping[str, str]) -> Mapping[str, str]:
    """The labels, with where the machine stands also under the plain names of the levels."""
    known = {level: labels[LEVEL_LABEL + level] for level in LEVELS if LEVEL_LABEL + level in labels}
    return {**known, **labels} if known else labels


def learns(rules: Mapping[str, Any]) -> bool:
    """Whether the weights of a pool may be chosen by what it gets: its rules say no weights, and no other policy."""
    return "weights" not in rules and rules.get("policy", "fragmentation") == "fragmentation"


def read_taints(document: object, path: str = "/taints") -> dict[str, str]:
    """Effects by name. Raises InvalidInput with all that is wrong."""
    problems: list[FieldError] = []
    if not isinstance(document, Mapping):
        problems.append(
            _problem(
                path,
                "mapping",
                Text("Taints are a mapping of names to avoid or keep-out.", "污点是从名称到 avoid 或 keep-out 的映射。"),
                Text("{fpga: keep-out}", "{fpga: keep-out}"),
            )
        )
        raise _refused(problems)
    if len(document) > TAINTS_MAX:
        problems.append(
            _problem(
                path, "too_many", Text(f"A machine has at most {TAINTS_MAX} taints.", f"一个节点最多有 {TAINTS_MAX} 个污点。"), ""
            )
        )
    for name, effect in document.items():
        place = f"{path}/{str(name)[:80].replace('~', '~0').replace('/', '~1')}"
        if not isinstance(name, str) or len(name) > limits.TAINT_LENGTH or _TAINT.fullmatch(name) is None:
            hint = Text(
                "Lower-case letters, digits, dots and dashes, starting and ending with a letter or digit.",
                "可用小写字母、数字、点与连字符，首尾须为字母或数字。",
            )
            problems.append(
                _problem(
                    place,
                    "grammar",
                    Text(f"{str(name)[:80]!r} is no name of a taint.", f"{str(name)[:80]!r} 不能作为污点的名称。"),
                    hint,
                )
            )
        if effect not in tuple(Effect):
            problems.append(
                _problem(
                    place,
                    "choice",
                    Text(f"{effect!r:.80} is neither avoid nor keep-out.", f"{effect!r:.80} 既不是 avoid 也不是 keep-out。"),
                    "",
                )
            )
    if problems:
        raise _refused(problems)
    return {name: str(effect) for name, effect in sorted(document.items())}


def read_pool_changes(document: object) -> tuple[str | None, dict[str, Any]]:
    """The name that a request gives a pool, None without one, and the rules that it names, None for one that goes back to its
    default. Raises InvalidInput with all that is wrong."""
    problems: list[FieldError] = []
    if not isinstance(document, Mapping):
        raise _refused(
            [
                _problem(
                    "",
                    "mapping",
                    Text("The changes of a pool are a mapping.", "资源池的修改须为映射。"),
                    Text(f"Known are: {', '.join(KNOWN)}.", f"可用：{', '.join(KNOWN)}。"),
                )
            ]
        )
    document = dict(document)
    given = document.pop("name", None)
    if given is not None and (not isinstance(given, str) or len(given) > NAME_MAX or _NAME.fullmatch(given) is None):
        hint = Text(
            f"Letters, digits, dots, dashes and underscores, starting with a letter or digit; at most {NAME_MAX}.",
            f"可用字母、数字、点、连字符与下划线，首字符须为字母或数字；最多 {NAME_MAX} 个字符。",
        )
        problems.append(
            _problem(
                "/name",
                "grammar",
                Text(f"{str(given)[:80]!r} is no name of a pool.", f"{str(given)[:80]!r} 不能作为资源池的名称。"),
                hint,
            )
        )
    read: dict[str, Any] = {}
    for name, value in document.items():
        check = _RULES.get(name)
        if check is None:
            message = Text(f"There is no field {str(name)[:80]!r} here.", f"此处没有字段 {str(name)[:80]!r}。")
            problems.append(
                _problem(
                    f"/{str(name)[:80]}",
                    "unknown_field",
                    message,
                    Text(f"Known are: {', '.join(KNOWN)}.", f"可用：{', '.join(KNOWN)}。"),
                )
            )
            continue
        found = [] if value is None else check(value)
        problems += found
        read[name] = sorted(value, key=LEVELS.index) if name == "levels" and value is not None and not found else value
    if problems:
        raise _refused(problems)
    return given, read


def _check_policy(value: object) -> list[FieldError]:
    if isinstance(value, str) and value in POLICIES:
        return []
    return [
        _problem(
            "/policy",
            "choice",
            Text(f"There is no policy {value!r:.80}.", f"没有策略 {value!r:.80}。"),
            Text(f"One of {', '.join(POLICIES)}.", f"可选：{', '.join(POLICIES)}。"),
        )
    ]


def _check_weights(value: object) -> list[FieldError]:
    if not isinstance(value, Mapping):
        return [
            _problem(
                "/weights",
                "mapping",
                Text("weights maps terms to whole numbers.", "weights 是从评分项到整数的映射。"),
                Text(f"Terms: {', '.join(TERMS)}.", f"评分项：{', '.join(TERMS)}。"),
            )
        ]
    problems = []
    for term, weight in value.items():
        path = f"/weights/{str(term)[:80].replace('~', '~0').replace('/', '~1')}"
        if term not in TERMS:
            problems.append(
                _problem(
                    path,
                    "choice",
                    Text(f"There is no term {str(term)[:80]!r}.", f"没有评分项 {str(term)[:80]!r}。"),
                    Text(f"One of {', '.join(TERMS)}.", f"可选：{', '.join(TERMS)}。"),
                )
            )
        problems += _check_whole(path, weight, 0, WEIGHT_MAX)
    return problems


def _check_shares(value: object) -> list[FieldError]:
    return (
        []
        if isinstance(value, bool)
        else [_problem("/gpu_shares", "boolean", Text("gpu_shares is true or false.", "gpu_shares 须为 true 或 false。"), "")]
    )


def _check_levels(value: object) -> list[FieldError]:
    if not isinstance(value, list):
        return [
            _problem(
                "/levels",
                "list",
                Text("levels is a list.", "levels 须为列表。"),
                Text(f"Of {', '.join(LEVELS)}.", f"可用：{', '.join(LEVELS)}。"),
            )
        ]
    problems = [
        _problem(
            f"/levels/{index}",
            "choice",
            Text(f"There is no level {level!r:.80}.", f"没有层级 {level!r:.80}。"),
            Text(f"One of {', '.join(LEVELS)}.", f"可选：{', '.join(LEVELS)}。"),
        )
        for index, level in enumerate(value)
        if not isinstance(level, str) or level not in LEVELS
    ]
    if not problems and len(set(value)) != len(value):
        problems.append(
            _problem(
                "/levels",
                "duplicate",
                Text("levels names one twice.", "levels 中有重复的层级。"),
                Text("Remove one of them.", "请去掉其中一个。"),
            )
        )
    return problems


def _check_whole(path: str, value: object, least: int, most: int) -> list[FieldError]:
    if isinstance(value, int) and not isinstance(value, bool) and least <= value <= most:
        return []
    return [
        _problem(
            path,
            "range",
            Text(
                f"{value!r:.80} is no whole number from {least} to {most}.", f"{value!r:.80} 不是 {least} 到 {most} 之间的整数。"
            ),
            "",
        )
    ]


_RULES: Mapping[str, Callable[[object], list[FieldError]]] = {
    "policy": _check_policy,
    "weights": _check_weights,
    "gpu_shares": _check_shares,
    "shared_devices_max": lambda value: _check_whole("/shared_devices_max", value, 0, SHARED_DEVICES_MAX),
    "levels": _check_levels,
}

RULES = tuple(_RULES)
KNOWN = ("name", *RULES)


def _problem(path: str, code: str, message: Saying, hint: Saying) -> FieldError:
    return FieldError(path, code, message, hint)


def _refused(problems: list[FieldError]) -> InvalidInput:
    first = problems[0]
    return InvalidInput(first.message, hint=first.hint, fields=problems)
