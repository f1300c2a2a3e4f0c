"""What a script for Slurm calls for when it runs: its steps, which are judged by the options of `srun`, and other programs."""

from __future__ import annotations

from functools import cache

from jobs.conversion.notes import Findings
from jobs.conversion.shell import Command, Script
from jobs.conversion.slurm_amounts import Amounts
from jobs.conversion.slurm_refusals import REFUSALS
from jobs.frameworks import FrameworkJob, FrameworkRole, get_framework, srun_options
from jobs.frameworks.slurm import SET_LATER
from jobs.frameworks.srun_options import UNKNOWN
from jobs.spec.values import shown
from kernel.words import Text

ASKING = frozenset({"squeue", "sinfo", "sacct", "sstat", "sprio", "sshare", "sreport", "sdiag", "seff", "scontrol"})
ACTING = frozenset({"sbatch", "salloc", "scancel", "sbcast", "sattach", "strigger", "scrun", "sacctmgr"})
MPIRUN = frozenset({"mpirun", "mpiexec", "mpiexec.hydra"})


@cache
def known_variables() -> frozenset[str]:
    """What a task finds of Slurm, whatever the job asks for."""
    role = FrameworkRole("worker", 1, ("true",), gpu_millis=1000)
    job = FrameworkJob("0", "job", 1, (role,), key="key", array_index=0, array_size=1)
    [task] = get_framework("slurm").compile(job).tasks
    asked = ("SLURM_NTASKS_PER_NODE", "SLURM_GPUS_PER_TASK", "SLURM_MEM_PER_CPU", "SLURM_MEM_PER_GPU")
    return frozenset(task.env) | SET_LATER | frozenset(asked)


def tell_calls(script: Script, amounts: Amounts, findings: Findings) -> None:
    """Notes on what the script calls, and a mistake for each call that cannot be carried."""
    if script.unread_line is not None:
        findings.lost("shell_unread", "script", script.unread_line)
    steps = [command for command in script.commands if command.name == "srun"]
    for command in script.commands:
        if command.folder.strip(UNKNOWN) and command.name in {"srun", "scontrol"}:
            _refuse_folder(command, findings)
        elif command.name == "srun":
            _judge_step(command, findings)
        elif command.name in MPIRUN:
            findings.changed("mpirun", command.name, command.line, name=command.name)
        elif command.name in ("module", "ml"):
            findings.lost("modules", command.name, command.line)
        elif command.name in ASKING | ACTING:
            _judge_program(command, findings)
    if steps:
        findings.changed("srun", "srun", steps[0].line)
    elif amounts.nodes > 1 and not any(command.name in MPIRUN for command in script.commands):
        findings.changed("idle_nodes", "script", None, count=amounts.nodes)
    elif amounts.nodes > 1:
        findings.changed("first_task", "script", None, count=amounts.nodes)


def _refuse_folder(command: Command, findings: Findings) -> None:
    message = Text(
        f"{command.name} stands in no folder {shown(command.folder)} here.",
        f"这里的 {shown(command.folder, 'zh')} 目录中没有 {command.name}。",
    )
    hint = Text(f"Write {command.name} without a folder.", f"请只写 {command.name}，不带目录。")
    findings.wrong(f"/line/{command.line}", "slurm_folder", message, hint, line=command.line)


def _judge_step(command: Command, findings: Findings) -> None:
    """A step with options that mean nothing here is refused; where only the shell will know them, srun says so when it runs."""
    try:
        reading = srun_options.read(command.words)
    except srun_options.Refused as refused:
        reason, advice = REFUSALS[refused.reason]
        option = f"{refused.option}={refused.value}" if refused.value else refused.option
        message = Text(f"srun {shown(option)}: {reason.en}", f"srun {shown(option, 'zh')}：{reason.zh}")
        findings.wrong(f"/line/{command.line}", "srun_option", message, advice, line=command.line)
        return
    if not reading.is_known:
        findings.changed("srun_later", "srun", command.line)
    elif not reading.command:
        message = Text("srun has no command to run.", "srun 没有要运行的命令。")
        hint = Text("Write the command behind its options.", "请在选项之后写上命令。")
        findings.wrong(f"/line/{command.line}", "srun_command", message, hint, line=command.line)
    if reading.idle:
        names = ", ".join(f"--{name}" for name in reading.idle)
        findings.changed("srun_idle", "srun", command.line, names=names)


def _judge_program(command: Command, findings: Findings) -> None:
    """Programs that ask Slurm find nothing; those that act on it would leave something undone that the script counts on."""
    words = [word for word in command.words if not word.startswith("-")]
    if command.name == "scontrol":
        if words[:2] in (["show", "hostnames"], ["show", "hostname"]):
            return
        is_asking = words[:1] in (["show"], ["ping"], ["version"], [UNKNOWN], [])
    else:
        is_asking = command.name in ASKING
    if is_asking:
        findings.lost("slurm_program", command.name, command.line, name=command.name)
        return
    message = Text(
        f"{command.name} acts on Slurm, which is not here: what the script counts on would not happen.",
        f"{command.name} 操作的是 Slurm，而这里没有 Slurm：脚本所依赖的事情不会发生。",
    )
    findings.wrong(f"/line/{command.line}", "slurm_program", message, PROGRAM_ADVICE[command.name], line=command.line)


_OWN_JOB = Text(
    "Take the line out, and submit what follows as a job of its own: after_ok: [NAME].",
    "请去掉该行，并把后续内容作为单独的作业提交：after_ok: [NAME]。",
)
_OUT = Text("Take the line out.", "请去掉该行。")
PROGRAM_ADVICE = {
    "sbatch": _OWN_JOB,
    "salloc": _OWN_JOB,
    "scancel": Text("End the script with exit, or stop a job with berth stop.", "请用 exit 结束脚本，或用 berth stop 停止作业。"),
    "sbcast": Text("Send the files along as code:, or mount a volume.", "请用 code: 随作业上传文件，或挂载存储卷。"),
    "scontrol": Text(
        "Take the line out; for another attempt write retry: {limit: 3}.", "请去掉该行；需要重试请写 retry: {limit: 3}。"
    ),
    "sattach": _OUT,
    "strigger": _OUT,
    "scrun": _OUT,
    "sacctmgr": _OUT,
}
