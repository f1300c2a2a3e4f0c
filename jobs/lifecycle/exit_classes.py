"""What an entry of the classification of ends is made of; the entries are in `exit_table.py`."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from clusters.engines.interface import ExitReason
from kernel.words import Text


class FailureClass(StrEnum):
    """Whose fault and which budget. The names are those of `retry.on` in a job, where a job may choose them."""

    SUCCESS = "success"
    USER = "user"
    OOM = "oom"
    PLATFORM = "platform"
    UNKNOWN = "unknown"
    HANG = "hang"
    DEADLINE = "deadline"
    PREEMPTED = "preempted"
    STOPPED = "stopped"


class Stage(StrEnum):
    PREPARE = "prepare"  # Before anything runs: image, code, volumes, secrets.
    START = "start"  # From the launch until all tasks run.
    RUN = "run"
    STOP = "stop"


class Reaction(StrEnum):
    NEVER = "never"  # Another attempt would end the same way, or none is wanted.
    IF_ASKED = "if_asked"  # Only if the job's `retry.on` names the class.
    BACKOFF = "backoff"  # Another attempt after a wait that grows.
    AT_ONCE = "at_once"  # Another attempt as soon as there is room.
    REQUEUE = "requeue"  # Back into the queue at its old place; no failure at all.


class Payer(StrEnum):
    USER = "user"
    PLATFORM = "platform"
    NOBODY = "nobody"


@dataclass(frozen=True, slots=True)
class ExitClass:
    """One entry of the classification."""

    code: str
    title: Text[str]
    failure_class: FailureClass
    stage: Stage
    reaction: Reaction
    payer: Payer
    reason: str  # What happened, for a user who reads it for the first time.
    remedy: Text[str]  # What to do now; empty where nothing is to be done.
    example: str  # How it comes about.
    exit_codes: tuple[int, ...] = ()
    signal: int | None = None
    exit_reason: ExitReason | None = None
    patterns: tuple[str, ...] = ()  # Found in the log, they name the cause of a code that says little.

    @property
    def is_success(self) -> bool:
        return self.failure_class is FailureClass.SUCCESS


def of_user(
    code: str,
    title: Text[str],
    reason: str,
    remedy: Text[str],
    example: str,
    *,
    stage: Stage = Stage.RUN,
    exit_codes: tuple[int, ...] = (),
    signal: int | None = None,
    exit_reason: ExitReason | None = None,
    patterns: tuple[str, ...] = (),
    failure_class: FailureClass = FailureClass.USER,
    reaction: Reaction = Reaction.IF_ASKED,
) -> ExitClass:
    """An end for which the job's owner pays."""
    return ExitClass(
        code,
        title,
        failure_class,
        stage,
        reaction,
        Payer.USER,
        reason,
        remedy,
        example,
        exit_codes,
        signal,
        exit_reason,
        patterns,
    )


def of_platform(
    code: str,
    title: Text[str],
    reason: str,
    remedy: Text[str],
    example: str,
    *,
    stage: Stage = Stage.RUN,
    exit_codes: tuple[int, ...] = (),
    exit_reason: ExitReason | None = None,
    patterns: tuple[str, ...] = (),
    failure_class: FailureClass = FailureClass.PLATFORM,
    reaction: Reaction = Reaction.BACKOFF,
    payer: Payer = Payer.PLATFORM,
) -> ExitClass:
    """An end for which the platform pays, or no payer."""
    return ExitClass(
        code,
        title,
        failure_class,
        stage,
        reaction,
        payer,
        reason,
        remedy,
        example,
        exit_codes,
        None,
        exit_reason,
        patterns,
    )


def unclear(
    code: str,
    title: Text[str],
    reason: str,
    remedy: Text[str],
    example: str,
    *,
    exit_codes: tuple[int, ...] = (),
    signal: int | None = None,
    patterns: tuple[str, ...] = (),
) -> ExitClass:
    """An end whose cause is not known: retried a few times, and the owner pays."""
    return ExitClass(
        *(code, title, FailureClass.UNKNOWN, Stage.RUN, Reaction.BACKOFF, Payer.USER, reason, remedy),
        example,
        exit_codes,
        signal,
        None,
        patterns,
    )
