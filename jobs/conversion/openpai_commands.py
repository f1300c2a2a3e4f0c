"""What commands of an OpenPAI job call for that is not here: SSH between its tasks, by which mpirun and others start theirs."""

from __future__ import annotations

from functools import cache

from jobs.conversion.notes import Findings
from jobs.conversion.shell import Command, Script, read_script, tell_secrets, tell_unknown
from jobs.frameworks import FrameworkJob, FrameworkRole, get_framework
from kernel.words import Text

SSH = frozenset({"ssh", "scp", "sftp", "pdsh", "pssh"})
# Programs that start processes on other machines over SSH, each with the options that name these machines.
OVER_SSH = {
    **dict.fromkeys(
        ("mpirun", "mpiexec", "mpiexec.hydra", "orterun", "prun"),
        ("-H", "-host", "--host", "-hosts", "--hosts", "-hostfile", "--hostfile", "-machinefile", "--machinefile", "-f"),
    ),
    "horovodrun": ("-H", "--hosts", "-hostfile", "--hostfile"),
    "deepspeed": ("-H", "--hostfile"),
}
# Named by each role, task or port: known by how they begin.
FAMILIES = (
    *("PAI_HOST_IP_", "PAI_PORT_LIST_", "PAI_TASK_ROLE_TASK_COUNT_", "PAI_RESOURCE_", "PAI_MIN_FAILED_TASK_COUNT_"),
    *("PAI_MIN_SUCCEEDED_TASK_COUNT_", "PAI_CONTAINER_HOST_", "PAI_TASK_ROLE_"),
)


def judge_commands(commands: list[tuple[str, int | None]], findings: Findings, place: str, *, tasks: int) -> None:
    """Notes on the commands of one role, each with its line in the file, and a mistake for each that cannot be carried."""
    script = read_script("\n".join(text for text, _ in commands))
    lines = [line for text, line in commands for _ in text.split("\n")]
    tell_secrets(script, findings, place)
    _tell_unknown(script, findings, place)
    if script.unread_line is not None:
        findings.lost("shell_unread", place, _at(lines, script.unread_line))
    for command in script.commands if tasks > 1 else ():
        if command.name in SSH:
            findings.lost("no_ssh", place, _at(lines, command.line), name=command.name)
        elif _names_hosts(command):
            _refuse(command, findings, place, _at(lines, command.line))


def _names_hosts(command: Command) -> bool:
    options = OVER_SSH.get(command.name, ())
    return any(word.partition("=")[0] in options for word in command.words)


def _refuse(command: Command, findings: Findings, place: str, line: int | None) -> None:
    message = Text(
        f"{command.name} starts its ranks on other tasks over SSH, which is not here.",
        f"{command.name} 通过 SSH 在其他任务中启动进程，而这里没有 SSH。",
    )
    hint = Text(
        "Write a job with framework: mpi: mpirun in it starts ranks in all tasks, without host names (docs/environment.md).",
        "请写 framework: mpi 的作业：其中的 mpirun 无需主机名即可在各任务中启动进程（docs/environment.md）。",
    )
    findings.wrong(f"/{place.replace('.', '/')}", "over_ssh", message, hint, line=line)


def _tell_unknown(script: Script, findings: Findings, place: str) -> None:
    named = {name for name in script.variables if name.startswith(FAMILIES) or name.endswith("_PORT")}
    tell_unknown(script, "PAI_", _known() | named, findings, place)


@cache
def _known() -> frozenset[str]:
    job = FrameworkJob("0", "job", 1, (FrameworkRole("worker", 1, ("true",)),))
    [task] = get_framework("openpai").compile(job).tasks
    return frozenset(task.env)


def _at(lines: list[int | None], line: int) -> int | None:
    return lines[line - 1] if line <= len(lines) else None
