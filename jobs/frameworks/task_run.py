"""What a framework makes of one task: the values that `agent.py` lays out."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from clusters.engines.interface import Text, TextPart


@dataclass(frozen=True, slots=True)
class Scratch:
    """Stands for a folder below the task's private temporary one, which has a short path and goes with the task."""

    name: str


@dataclass(frozen=True, slots=True)
class WorkFolder:
    """Stands for the absolute path of a folder in the task's working directory, where the job's outputs can name it."""

    name: str


@dataclass(frozen=True, slots=True)
class OwnVariable:
    """Stands for the value of a variable of the task: for secrets, which stand in no plan."""

    name: str


AgentText = tuple[TextPart | Scratch | WorkFolder | OwnVariable, ...]


@dataclass(frozen=True, slots=True)
class Requirement:
    """A module that python3 must find in the image, or a program on its path, and how to add it.

    `variable` names the folder of a copy elsewhere: where the image or the job sets it, nothing is looked for."""

    name: str
    install: str
    module: str = ""
    program: str = ""
    variable: str = ""


@dataclass(frozen=True, slots=True)
class Service:
    """A program of the framework that runs beside the command. It is up when its port is open."""

    name: str
    argv: tuple[AgentText, ...]
    port: str = ""  # One of the task's own.


@dataclass(frozen=True, slots=True)
class TaskRun:
    """What a framework makes of one task. `command` None: the role's own; (): the services alone.

    `after` are roles that are ready before anything of the task starts, `before_command` those before its command does.
    `extra_env` are variables of the command and the services that only the task can complete. `loopback` takes the place of the
    address 127.0.0.1 in them and in what the framework runs, for programs that refuse it.
    """

    env: Mapping[str, Text] = field(default_factory=dict)
    ports: tuple[str, ...] = ()
    command: tuple[AgentText, ...] | None = None
    secret: bool = False  # The task gets the attempt's key.
    secret_env: Mapping[str, str] = field(default_factory=dict, repr=False)  # As it is, made from the attempt's key.
    prepares: bool = False  # The role's own command is run first, once.
    requires: tuple[Requirement, ...] = ()
    services: tuple[Service, ...] = ()
    ready_port: str = ""  # Of the framework: the task is ready when it is open.
    after: tuple[str, ...] = ()
    before_command: tuple[str, ...] = ()
    max_retry: int = 0  # Where the job says nothing.
    extra_env: Mapping[str, AgentText] = field(default_factory=dict)
    files: Mapping[str, AgentText] = field(default_factory=dict)  # Below the task's private folder.
    loopback: str = ""
    after_failure: tuple[AgentText, ...] = ()  # What is run when the command has failed and is not started again.
    processes: tuple[Mapping[str, str], ...] = ()  # The command once for each, with these variables, and its part of a GPU.
