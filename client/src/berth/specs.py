"""Reading a job file as the server reads one, and finding the line that an error speaks of.

YAML here is the core schema of version 1.2: `on`, `yes` and dates are text, only `true` and `false` are booleans. Variables in
an `env` are text as it is written: `3.10`, `True`. Aliases and repeated keys are refused, because both hide what is meant. JSON
is YAML, so both may be given."""

from __future__ import annotations

import copy
import math
import re
import shlex
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import yaml

from berth import limits
from berth.errors import FieldProblem, SpecInvalid, TextUnreadable
from berth.texts import decode

Spec = dict[str, Any]
ROLE_KEYS = frozenset({"command", "shell", "resources", "replicas", "ports"})
"""What a job with one role may write at the top."""
_DIRECTIVE = re.compile(r"^#SBATCH(?:\s|$)", re.MULTILINE)
_PROTOCOL = frozenset({"taskRoles", "protocolVersion"})
"""What stands in scripts for Slurm and in jobs of OpenPAI, and in no job file."""
BESIDE_THE_SPEC = frozenset({"/tenant"})
"""What a submission says beside the spec; no line of the job file is to blame for it."""


@dataclass(frozen=True, slots=True)
class SpecSource:
    """A spec as read. `folder` is what relative paths in it start from; `lines` maps JSON pointers to line numbers."""

    spec: Spec
    name: str = ""
    folder: Path = field(default_factory=Path)
    lines: Mapping[str, int] = field(default_factory=dict)

    def locate(self, problems: Iterable[FieldProblem]) -> tuple[FieldProblem, ...]:
        """Add file and line to each problem; a place that is missing in the file gets the line of what surrounds it, and one
        that is not of the file, such as the tenant, none."""
        return tuple(
            problem if problem.path in BESIDE_THE_SPEC else replace(problem, file=self.name, line=self._line(problem.path))
            for problem in problems
        )

    def _line(self, pointer: str) -> int:
        pointer = pointer.removeprefix("/spec")
        while pointer:
            if pointer in self.lines:
                return self.lines[pointer]
            pointer = pointer.rpartition("/")[0]
        return self.lines.get("", 0)


def load_spec(source: Mapping[str, Any] | str | Path) -> SpecSource:
    """Read a spec from a mapping, a path, or YAML text (text that has a line break or a colon with a space)."""
    if isinstance(source, Mapping):
        return SpecSource(copy.deepcopy(dict(source)), folder=Path.cwd())
    if isinstance(source, str) and ("\n" in source or ": " in source or source.lstrip().startswith("{")):
        return parse_spec(source, name="spec", folder=Path.cwd())
    path = Path(source).expanduser()
    try:
        if path.stat().st_size > limits.SPEC_BYTES:
            raise SpecInvalid(f"{path} is larger than {limits.SPEC_BYTES // limits.MIB} MiB; a job file is not.")
        data = path.read_bytes()
    except OSError as error:
        raise SpecInvalid(
            f"{path} cannot be read: {error.strerror}.", hint="Name a job file, or - for standard input."
        ) from error
    try:
        text = decode(data, str(path))
    except TextUnreadable as error:
        raise SpecInvalid(error.detail, hint=error.hint) from error
    return parse_spec(text, name=str(source), folder=path.resolve().parent)


def parse_spec(text: str, *, name: str, folder: Path) -> SpecSource:
    """Parse YAML text; every break found by the parser names its line."""
    if len(text) > limits.SPEC_BYTES:
        raise SpecInvalid(f"{name} is larger than {limits.SPEC_BYTES // limits.MIB} MiB; a job file is not.")
    if _DIRECTIVE.search(text):
        raise _foreign(name)
    try:
        _check_events(text, name)
        node = yaml.compose(text, Loader=_CoreLoader)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        problem = FieldProblem("", error.problem or "not YAML", file=name, line=mark.line + 1 if mark else 0)
        raise SpecInvalid(f"{name} is not YAML.", fields=[problem]) from error
    except (yaml.YAMLError, RecursionError) as error:
        raise SpecInvalid(f"{name} is not YAML: {error}") from error
    if node is None:
        raise SpecInvalid(f"{name} is empty.", hint="The smallest job is one line: command: echo hello")
    reader = _Reader(name)
    value = reader.value(node, "")
    if isinstance(value, dict) and not _PROTOCOL.isdisjoint(value):
        raise _foreign(name)
    if reader.problems:
        raise SpecInvalid(
            f"{name} has {len(reader.problems)} mistakes." if len(reader.problems) > 1 else f"{name} has a mistake.",
            fields=reader.problems,
        )
    if not isinstance(value, dict):
        raise SpecInvalid(f"{name} must hold `key: value` lines, not {type(value).__name__}.")
    return SpecSource(value, name=name, folder=folder, lines=reader.lines)


def _foreign(name: str) -> SpecInvalid:
    hint = f"berth convert {shlex.quote(name)} > job.yaml"
    return SpecInvalid(f"{name} is written for another system, OpenPAI or Slurm.", hint=hint)


def apply_changes(spec: Spec, changes: Sequence[str]) -> Spec:
    """Give a copy with `path=value` texts applied: `roles.worker.replicas=4`, `env.SEED=7`. Values are YAML, but
    what was text stays text."""
    changed = copy.deepcopy(spec)
    for change in changes:
        path, equals, text = change.partition("=")
        steps = path.split(".")
        if not equals or not all(steps):
            raise SpecInvalid(f"{change!r} is not a change.", hint="Write path=value, such as roles.worker.replicas=4")
        _set(changed, steps, text, change)
    return changed


def parse_value(text: str) -> Any:
    """A YAML value in one line."""
    try:
        node = yaml.compose(text, Loader=_CoreLoader)
    except yaml.YAMLError:
        return text
    return None if node is None else _Reader("value").value(node, "")


def in_single_role(spec: Spec, changes: Sequence[str]) -> list[str]:
    """Let `resources.memory=32Gi` mean the only role's, as in a short job file."""
    roles = spec.get("roles")
    if not isinstance(roles, dict) or len(roles) != 1:
        return list(changes)
    [role] = roles
    return [f"roles.{role}.{change}" if _first_step(change) in ROLE_KEYS else change for change in changes]


def _first_step(change: str) -> str:
    return change.partition("=")[0].partition(".")[0]


def difference(before: Spec, after: Spec) -> list[tuple[str, Any, Any]]:
    """Leaves that differ, as (path, before, after); `MISSING` stands for not there."""
    older, newer = dict(_leaves(before, "")), dict(_leaves(after, ""))
    return [
        (path, older.get(path, MISSING), newer.get(path, MISSING))
        for path in [*older, *(path for path in newer if path not in older)]
        if older.get(path, MISSING) != newer.get(path, MISSING)
    ]


class _Missing:
    def __repr__(self) -> str:
        return "(not set)"


MISSING = _Missing()


class _CoreLoader(yaml.SafeLoader):
    """Composes nodes with the scalar rules of YAML 1.2."""


_CoreLoader.yaml_implicit_resolvers = {}
for _tag, _pattern, _first in (
    ("tag:yaml.org,2002:bool", r"true|True|TRUE|false|False|FALSE", "tTfF"),
    ("tag:yaml.org,2002:null", r"~|null|Null|NULL|", ["~", "n", "N", ""]),
    ("tag:yaml.org,2002:int", r"[-+]?[0-9]+|0o[0-7]+|0x[0-9a-fA-F]+", "-+0123456789"),
    ("tag:yaml.org,2002:float", r"[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?", "-+.0123456789"),
):
    _CoreLoader.add_implicit_resolver(_tag, re.compile(rf"^(?:{_pattern})$"), list(_first))


class _Reader:
    """Turns nodes into values, noting lines and mistakes."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.lines: dict[str, int] = {}
        self.problems: list[FieldProblem] = []

    def value(self, node: yaml.Node, pointer: str) -> Any:
        self.lines.setdefault(pointer, node.start_mark.line + 1)
        if isinstance(node, yaml.MappingNode):
            return self._mapping(node, pointer)
        if isinstance(node, yaml.SequenceNode):
            return [self.value(item, f"{pointer}/{index}") for index, item in enumerate(node.value)]
        return self._scalar(node, pointer)

    def _mapping(self, node: yaml.MappingNode, pointer: str) -> dict[str, Any]:
        result: dict[str, Any] = {}
        for key_node, value_node in node.value:
            if not isinstance(key_node, yaml.ScalarNode):
                self._problem(pointer, "a key must be plain text", key_node)
                continue
            key = key_node.value
            place = f"{pointer}/{key.replace('~', '~0').replace('/', '~1')}"
            if key in result:
                self._problem(place, f"`{key}` is written twice; the first is in line {self.lines[place]}", key_node)
                continue
            self.lines[place] = key_node.start_mark.line + 1
            result[key] = self.value(value_node, place)
        return result

    def _scalar(self, node: yaml.Node, pointer: str) -> Any:
        kind = node.tag.rpartition(":")[2]
        text: str = node.value
        if kind == "null":
            return None
        if _is_variable(pointer.split("/")):
            return text
        if kind == "bool":
            return text.lower() == "true"
        if kind == "int":
            return self._int(text, pointer, node)
        if kind == "float":
            if math.isfinite(number := float(text)):
                return number
            self._problem(pointer, "this number is too large", node)
            return text
        if kind != "str":
            self._problem(pointer, f"the tag !{kind} is not used in job files", node)
        return text

    def _int(self, text: str, pointer: str, node: yaml.Node) -> Any:
        try:
            return int(text, 0) if text[:2] in ("0o", "0x") else int(text)
        except ValueError:  # Python reads no number of thousands of digits.
            self._problem(pointer, "this number is too large", node)
            return text

    def _problem(self, pointer: str, message: str, node: yaml.Node) -> None:
        self.problems.append(FieldProblem(pointer, message, file=self.name, line=node.start_mark.line + 1))


def _check_events(text: str, name: str) -> None:
    """Refuse aliases and depth while parsing, before anything is built."""
    depth = 0
    for event in yaml.parse(text, Loader=_CoreLoader):
        depth += isinstance(event, yaml.CollectionStartEvent) - isinstance(event, yaml.CollectionEndEvent)
        if isinstance(event, yaml.AliasEvent) or getattr(event, "anchor", None):
            raise _refused(name, event, "anchors and aliases are not used in job files")
        if depth > limits.SPEC_DEPTH:
            raise _refused(name, event, f"it is nested deeper than {limits.SPEC_DEPTH} levels")


def _refused(name: str, event: yaml.Event, message: str) -> SpecInvalid:
    line = event.start_mark.line + 1 if event.start_mark else 0
    return SpecInvalid(f"{name} has a mistake.", fields=[FieldProblem("", message, file=name, line=line)])


def _set(target: Any, steps: Sequence[str], text: str, change: str) -> None:
    for step in steps[:-1]:
        if isinstance(target, list):
            target = target[_index(target, step, change)]
        elif isinstance(target, dict):
            if target.get(step) is None:
                target[step] = {}
            target = target[step]
        else:
            break
    if not isinstance(target, (dict, list)):
        raise SpecInvalid(f"{change!r} leads through a value that has no parts.")
    place: Any = _index(target, steps[-1], change) if isinstance(target, list) else steps[-1]
    before = target[place] if isinstance(target, list) else target.get(place)
    target[place] = text if isinstance(before, str) else _variable(text) if _is_variable(steps) else parse_value(text)


def _variable(text: str) -> str | None:
    """A variable as it is written, without quotes around it; none of that name for null."""
    value = parse_value(text)
    return value if value is None or isinstance(value, str) else text


def _is_variable(steps: Sequence[str]) -> bool:
    """Whether a place is that of a variable for programs; a role may be called env, too."""
    return list(steps[-2:-1]) == ["env"] and list(steps[-3:-2]) != ["roles"]


def _index(target: list[Any], step: str, change: str) -> int:
    if not step.isdigit() or int(step) >= len(target):
        raise SpecInvalid(f"{change!r}: the list has {len(target)} entries, counted from 0; {step!r} is none of them.")
    return int(step)


def _leaves(value: Any, path: str) -> Iterable[tuple[str, Any]]:
    if isinstance(value, dict) and value:
        for key, item in value.items():
            yield from _leaves(item, f"{path}.{key}" if path else str(key))
    else:
        yield path, value
