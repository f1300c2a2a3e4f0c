"""How an attempt ended, in one word that decides what follows: is it tried again, who pays, what should its owner do.

The evidence is taken in the order of its weight: what Berth itself did (a stop, a launch that was given up), what the engine
knows (out of memory, a lost machine), then the exit code or signal, and last what the log says about a code that says little.
Exit 137 alone means nothing: it is `oom` when the engine says so, the stop's own class when the stop was ours, else `killed`.

The table is `exit_table.py`; `docs/exit-codes.md` is produced from it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, TypeVar

from clusters.engines.interface import ExitReason, StopCause, TaskExit, TaskName
from jobs.lifecycle.exit_classes import ExitClass, FailureClass, Stage
from jobs.lifecycle.exit_table import TABLE
from jobs.lifecycle.states import Outcome

LOG_TAIL_BYTES = 64 * 1024  # What `classify` looks at; the cause of an end stands at the end.
LOG_LINE_LENGTH = 2_000  # A longer line is looked at up to here, so that no line costs more than its share.
EVIDENCE_LENGTH = 300
Key = TypeVar("Key")


@dataclass(frozen=True, slots=True)
class EndedTask:
    """A task that ended, with the last part of its log if it is at hand."""

    name: TaskName
    exit: TaskExit
    log_tail: str = ""


@dataclass(frozen=True, slots=True)
class ExitVerdict:
    """The class of an attempt's end, and the task and evidence that it rests on."""

    exit_class: ExitClass
    outcome: Outcome
    task: TaskName | None = None
    exit_code: int | None = None
    signal: int | None = None
    evidence: str = ""

    @property
    def code(self) -> str:
        return self.exit_class.code

    @property
    def failure_class(self) -> FailureClass:
        return self.exit_class.failure_class

    @property
    def text(self) -> str:
        """What the end means; with the number, where all that is known of it is that number."""
        if self.code == "program_error" and self.exit_code is not None:
            return f"The program ended with code {self.exit_code}, which only the program can explain."
        return self.exit_class.reason

    def as_dict(self) -> dict[str, Any]:
        """The `exit` of a job in the API."""
        return {
            "class": self.code,
            "failure_class": str(self.failure_class),
            "code": self.exit_code,
            "signal": self.signal,
            "task": str(self.task) if self.task else None,
            "reason": self.exit_class.title.en,
            "text": self.text,
            "hint": self.exit_class.remedy.en,
            "who_pays": str(self.exit_class.payer),
            "stage": str(self.exit_class.stage),
            "evidence": self.evidence,
        }


def classify(
    ended: Sequence[EndedTask] = (),
    *,
    stop_cause: StopCause | None = None,
    engine_code: str | None = None,
    engine_detail: str = "",
) -> ExitVerdict:
    """Name the end of an attempt.

    `ended` holds its tasks in the order in which they ended. `stop_cause` is set when Berth stopped the attempt for a reason
    of its own; COMPLETION is no such reason, since the completion policy acted on an end that is among `ended`.
    `engine_code` is set when the engine gave up: an entry of the table, else `engine_gave_up`.
    """
    if engine_code is not None:
        entry = _by_code().get(engine_code, _by_code()["engine_gave_up"])
        return _verdict(entry, evidence=engine_detail or engine_code)
    if stop_cause is not None and stop_cause is not StopCause.COMPLETION:
        return _verdict(_by_code()[_STOPS[stop_cause]], _first_failed(ended))
    decisive = _decisive(ended)
    if decisive is None:
        return ExitVerdict(_by_code()["success"], Outcome.SUCCEEDED, exit_code=0) if ended else _verdict(_by_code()["vanished"])
    entry, evidence = _classify_task(decisive)
    return _verdict(entry, decisive, evidence)


def classify_task(ended: EndedTask) -> ExitVerdict:
    """Name the end of one task alone, for its row on the screen."""
    if ended.exit.stop_cause is not None and not _is_success(ended.exit):
        return _verdict(_by_code()[_STOPS[ended.exit.stop_cause]], ended)
    if _is_success(ended.exit):
        return _verdict(_by_code()["success"], ended)
    entry, evidence = _classify_task(ended)
    return _verdict(entry, ended, evidence)


def all_classes() -> tuple[ExitClass, ...]:
    """The whole classification, in the order of the document."""
    return TABLE


def find_class(code: str) -> ExitClass | None:
    """The entry of this code, if there is one."""
    return _by_code().get(code)


# --- Which task decides ----------------------------------------------------------------------------------------------

_STOPS = {
    StopCause.USER: "stopped_by_user",
    StopCause.PREEMPTED: "preempted",
    StopCause.DEADLINE: "deadline",
    StopCause.PLATFORM: "stopped_by_platform",
    StopCause.GPU_FAULT: "gpu_fault",
    StopCause.COMPLETION: "stopped_with_job",
}

# The heavier the evidence, the earlier: a task that fails because its peer's machine died is a symptom of that death.
_WEIGHT = (
    ExitReason.GPU_FAULT,
    ExitReason.NODE_LOST,
    ExitReason.EVICTED,
    ExitReason.NODE_OOM,
    ExitReason.OOM,
    ExitReason.START_FAILED,
)


def _decisive(ended: Sequence[EndedTask]) -> EndedTask | None:
    """The failed task that best explains the end: by the weight of its evidence, then the first to end."""
    failed = [task for task in ended if not _is_success(task.exit)]
    own = [task for task in failed if task.exit.stop_cause is None and task.exit.reason is not ExitReason.STOPPED]
    candidates = own or ([] if any(_is_success(task.exit) for task in ended) else failed)
    return min(candidates, key=lambda task: _weight(task.exit), default=None)


def _weight(found: TaskExit) -> int:
    return _WEIGHT.index(found.reason) if found.reason in _WEIGHT else len(_WEIGHT)


def _first_failed(ended: Sequence[EndedTask]) -> EndedTask | None:
    return next((task for task in ended if not _is_success(task.exit)), ended[0] if ended else None)


def _is_success(found: TaskExit) -> bool:
    return found.code == 0 and found.signal is None and found.reason in {ExitReason.NONE, ExitReason.STOPPED}


# --- What its end means ----------------------------------------------------------------------------------------------


def _classify_task(task: EndedTask) -> tuple[ExitClass, str]:
    found = task.exit
    if found.stop_cause is not None:
        return _by_code()[_STOPS[found.stop_cause]], found.evidence
    if found.given_up:
        return _by_code().get(found.given_up, _by_code()["engine_gave_up"]), found.evidence
    by_reason = _by_reason().get(found.reason)
    if by_reason is not None:
        return by_reason, found.evidence
    entry = _by_number(found)
    if entry.code in REFINABLE or entry.code == "command_not_found":
        refined = match_log(task.log_tail)
        if refined is not None and (entry.code in REFINABLE or refined[0].code in OF_SHELLS):
            return refined
    return entry, found.evidence


def _by_number(found: TaskExit) -> ExitClass:
    signal = signal_of(found)
    if signal is not None:
        return _by_signal().get(signal, _by_code()["realtime_signal"])
    if found.code is None:
        return _by_code()["vanished"]
    return _by_exit_code().get(found.code, _by_code()["program_error"])


def signal_of(found: TaskExit) -> int | None:
    """The signal that ended a task: told directly, or as the 128 + n that shells make of it."""
    if found.signal is not None:
        return found.signal
    if found.code is not None and 129 <= found.code <= 192:
        return found.code - 128
    return None


# Ends that say little by themselves, so that the log may say more. A kill is among them for the lines that programs write
# when they notice that memory or a device is gone.
REFINABLE = frozenset(
    {
        *("general_error", "usage_error", "program_error", "exit_out_of_range", "software_error", "system_error", "io_error"),
        *("temporary_failure", "service_unavailable", "cannot_create", "abort", "bus_error", "segmentation_fault", "killed"),
        *("illegal_instruction", "terminated", "interrupt", "file_not_found", "not_executable", "container_failure"),
    }
)
# What a shell did not find may be a word of another shell, or of another line end; nothing else in the log says more about it.
OF_SHELLS = frozenset({"windows_line_ends", "interpreter_absent", "shell_not_bash"})


def match_log(tail: str) -> tuple[ExitClass, str] | None:
    """The class whose pattern stands in the log, and the line; the table's order decides between several."""
    lines = [line[:LOG_LINE_LENGTH] for line in tail[-LOG_TAIL_BYTES:].splitlines()]
    text = "\n".join(lines)
    for entry, pattern in _compiled():
        match = pattern.search(text)
        if match is not None:
            start = text.rfind("\n", 0, match.start()) + 1
            end = text.find("\n", match.end())
            return entry, _printable(text[start : end if end >= 0 else None])
    return None


def _printable(line: str) -> str:
    return "".join(char if char.isprintable() else " " for char in line.strip())[:EVIDENCE_LENGTH]


def _verdict(entry: ExitClass, task: EndedTask | None = None, evidence: str = "") -> ExitVerdict:
    return ExitVerdict(
        entry,
        _outcome(entry),
        task.name if task else None,
        task.exit.code if task else None,
        signal_of(task.exit) if task else None,
        evidence or (task.exit.evidence if task else ""),
    )


def _outcome(entry: ExitClass) -> Outcome:
    special = {
        FailureClass.SUCCESS: Outcome.SUCCEEDED,
        FailureClass.STOPPED: Outcome.STOPPED,
        FailureClass.PREEMPTED: Outcome.PREEMPTED,
    }
    return special.get(entry.failure_class, Outcome.FAILED)


# --- The table, indexed ----------------------------------------------------------------------------------------------


@cache
def _by_code() -> dict[str, ExitClass]:
    return _unique((entry.code, entry) for entry in all_classes())


@cache
def _by_exit_code() -> dict[int, ExitClass]:
    return _unique((number, entry) for entry in all_classes() for number in entry.exit_codes)


@cache
def _by_signal() -> dict[int, ExitClass]:
    return _unique((entry.signal, entry) for entry in all_classes() if entry.signal is not None)


@cache
def _by_reason() -> dict[ExitReason, ExitClass]:
    return _unique((entry.exit_reason, entry) for entry in all_classes() if entry.exit_reason is not None)


@cache
def _compiled() -> tuple[tuple[ExitClass, re.Pattern[str]], ...]:
    return tuple((entry, re.compile(pattern)) for entry in all_classes() for pattern in entry.patterns)


def _unique(pairs: Iterable[tuple[Key, ExitClass]]) -> dict[Key, ExitClass]:
    found: dict[Key, ExitClass] = {}
    for key, entry in pairs:
        if key in found:
            raise AssertionError(f"{key!r} stands in both {found[key].code} and {entry.code}")
        found[key] = entry
    return found


# --- The document ----------------------------------------------------------------------------------------------------


def exit_table_markdown() -> str:
    """The whole of docs/exit-codes.md."""
    parts = [_INTRODUCTION]
    for stage in Stage:
        entries = [entry for entry in all_classes() if entry.stage is stage]
        parts.append("\n".join([f"## {_STAGE_TITLES[stage]}\n", *_HEADER, *(_row(entry) for entry in entries)]))
    return "\n\n".join(parts) + "\n"


def _row(entry: ExitClass) -> str:
    again = entry.reaction.value.replace("_", " ")
    whose = f"{entry.failure_class}, paid by {entry.payer}"
    what = f"**{entry.title.en}.** {entry.reason} For example: {entry.example}"
    return f"| `{entry.code}` | {_found_by(entry)} | {whose} | {again} | {what} | {entry.remedy.en or 'Nothing.'} |"


def _found_by(entry: ExitClass) -> str:
    marks = [f"exit {number}" for number in entry.exit_codes]
    if entry.signal is not None:
        marks.append(f"signal {entry.signal}, exit {128 + entry.signal}")
    if entry.exit_reason is not None:
        marks.append(f"engine: {entry.exit_reason}")
    if entry.patterns:
        marks.append("log")
    return "; ".join(marks) or "Berth"


_HEADER = ("| class | found by | whose | again | what happened | what to do |", "|---|---|---|---|---|---|")

_STAGE_TITLES = {
    Stage.PREPARE: "Before the start",
    Stage.START: "While starting",
    Stage.RUN: "While running",
    Stage.STOP: "Stopped",
}

_INTRODUCTION = """# How jobs end

Every attempt ends in exactly one of these classes. `berth get JOB` and the job's page show it with the evidence it rests on.

- **Whose** says who is at fault and which retry budget an attempt counts against. Jobs choose classes by these names in
  `retry.on`: `user`, `oom`, `platform`, `unknown`, `hang`.
- **Again** says what follows: `never`; `if asked`, that is, if `retry.on` names the class; `backoff`, after a wait that grows;
  `at once`; `requeue`, back to the old place in the queue. No job gets more than 20 attempts.
- Exit 137 is told apart: `oom` when the engine reports it, the class of the stop when Berth stopped the task, else `killed`.
- The evidence is weighed in this order: what Berth did, what the engine knows, the exit code or signal, the log. Of several
  failed tasks the one with the heaviest evidence decides, then the first to end."""
