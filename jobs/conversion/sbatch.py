"""A script for Slurm's `sbatch` as a job of framework slurm: its `#SBATCH` lines as fields, the rest as the command, as it is.

The framework does what Slurm does: the script runs once, in the first task, and `srun` in it starts processes on all of them. So
a conversion has to see that what the script asks of `srun` means something here, and to say what else of Slurm it calls for."""

from __future__ import annotations

import re
from typing import Any

from jobs import bounds
from jobs.conversion.names import job_name
from jobs.conversion.notes import Findings
from jobs.conversion.shell import Script, read_script, tell_secrets, tell_unknown
from jobs.conversion.slurm_amounts import Amounts, read_amounts
from jobs.conversion.slurm_calls import known_variables, tell_calls
from jobs.conversion.slurm_options import SbatchOption, read_options
from jobs.conversion.slurm_values import NO_LIMIT, read_seconds
from jobs.frameworks.slurm_array import Indexes, read_array
from jobs.spec.advice import is_secret_name
from jobs.spec.values import ENV_NAME, shown
from kernel.words import Text

DIRECTIVE = "#SBATCH"
MPIRUN = ("mpirun", "mpiexec", "mpiexec.hydra")
SHELLS = {"sh": "/bin/sh", "dash": "/bin/sh", "bash": "/bin/bash", "zsh": "/bin/zsh", "ksh": "/bin/ksh"}
PROGRAMS = {"python": "-c", "pypy": "-c", "perl": "-e", "ruby": "-e", "Rscript": "-e", "julia": "-e", "node": "-e"}
PROGRAM_LENGTH = 256  # Of the first line; Linux reads no more of it (BINPRM_BUF_SIZE).
# Options that are left out with words of their own: code of the note, and the name that its words call the value by.
LEFT_OUT = {
    "partition": "partition", "clusters": "partition", "account": "account", "qos": "qos", "mail-type": "mail",
    "mail-user": "mail", "output": "output", "error": "output", "input": "input", "begin": "begin", "deadline": "begin",
    "signal": "signal", "exclusive": "exclusive", "constraint": "machines", "prefer": "machines", "nodelist": "machines",
    "exclude": "machines", "nodefile": "machines", "reservation": "machines", "requeue": "requeue",
}  # fmt: skip
SILENT = frozenset({"parsable", "quiet", "verbose", "wait", "test-only", "open-mode", "ignore-pbs", "kill-on-invalid-dep"})
DEPENDENCIES = {
    "after": "after",
    "afterok": "after_ok",
    "afterany": "after_any",
    "aftercorr": "after_ok",
    "afternotok": "after_any",
}


def convert_sbatch(text: str, findings: Findings, *, file_name: str = "") -> dict[str, Any]:
    """The document that a script becomes. Slurm names a job without a name after its file, and so do we."""
    script = _Script(text, findings)
    options = read_options(script.directives, findings)
    spec: dict[str, Any] = {"name": _name(options, findings, file_name), "framework": "slurm"}
    if image := options.get("container-image"):
        spec["image"] = image.value
        findings.carried("--container-image", "image", image.line)
    read = read_script(text) if script.shell else Script()
    amounts = read_amounts(options, findings, has_steps=next(read.called("srun", *MPIRUN), None) is not None)
    indexes = _array(options, spec, findings)
    if amounts.nodes > 1:
        spec["replicas"] = amounts.nodes
    if amounts.resources:
        spec["resources"] = amounts.resources
    _limits(options, spec, findings)
    _environment(options, amounts, indexes, spec, findings)
    _left_out(options, findings)
    spec["command"] = _command(script, findings)
    if script.shell:
        tell_secrets(read, findings, "script")
        tell_unknown(read, "SLURM_", known_variables(), findings, "script")
        tell_calls(read, amounts, findings)
    return spec


class _Script:
    """A script taken apart: the program that runs it, its directives with their lines, and what is left."""

    def __init__(self, text: str, findings: Findings) -> None:
        self.directives: list[tuple[int, str]] = []
        kept: list[str] = []
        self.program: tuple[str, ...] = ("/bin/bash",)
        is_over = False
        for number, line in enumerate(text.split("\n"), start=1):
            if number == 1 and line.startswith("#!"):
                self.program = tuple(line[2:PROGRAM_LENGTH].split()) or self.program
            elif line.startswith(DIRECTIVE) and line[len(DIRECTIVE) : len(DIRECTIVE) + 1] in {"", " ", "\t"}:
                if is_over:
                    findings.lost("late_directive", line, number)
                else:
                    self.directives.append((number, line[len(DIRECTIVE) :]))
            else:
                is_over = is_over or not (line.strip() == "" or line.lstrip().startswith("#"))
                kept.append(line)
        self.body = "\n".join(kept).strip("\n")
        if not is_over:
            findings.wrong(
                "/script",
                "required",
                Text("The script runs nothing.", "脚本没有运行任何内容。"),
                Text("Write a command below the #SBATCH lines.", "请在 #SBATCH 行之后写上命令。"),
                line=1,
            )

    @property
    def name(self) -> str:
        """What the program is called, without its folder and without `env`."""
        names = [word.rpartition("/")[2] for word in self.program if not word.startswith("-")]
        return next((name for name in names if name != "env"), "bash")

    @property
    def shell(self) -> str:
        """The shell that runs it; empty where another program does."""
        return SHELLS.get(self.name, "")


def _name(options: dict[str, SbatchOption], findings: Findings, file_name: str) -> str:
    option = options.get("job-name")
    if option is None:
        return job_name(file_name.rpartition("/")[2].rpartition(".")[0] or file_name)
    name = job_name(option.value)
    if name == option.value:
        findings.carried("--job-name", "name", option.line)
    else:
        findings.changed("name_changed", "--job-name", option.line, name=name)
    return name


def _array(options: dict[str, SbatchOption], spec: dict[str, Any], findings: Findings) -> Indexes | None:
    option = options.get("array")
    if option is None:
        return None
    indexes = read_array(option.value)
    if indexes is None:
        hint = Text(
            f"Write --array=0-15, 0-15%4, 1,3,5 or 0-20:4, with at most {bounds.ARRAY_SIZE} indexes.",
            f"请写 --array=0-15、0-15%4、1,3,5 或 0-20:4，最多 {bounds.ARRAY_SIZE} 个下标。",
        )
        findings.wrong(
            "/array",
            "array_form",
            Text(f"--array {shown(option.value)} is no list of indexes.", f"--array {shown(option.value, 'zh')} 不是下标列表。"),
            hint,
            line=option.line,
        )
        return None
    spec["array"] = {"size": indexes.size}
    if indexes.parallelism is not None:
        spec["array"]["parallelism"] = min(indexes.parallelism, indexes.size)
    if indexes.is_plain:
        findings.carried("--array", "array", option.line)
    else:
        findings.changed("array_steps", "--array", option.line, name=option.value, last=indexes.size - 1)
    return indexes


def _limits(options: dict[str, SbatchOption], spec: dict[str, Any], findings: Findings) -> None:
    if (option := options.get("time")) is not None:
        seconds = read_seconds(option.value)
        if option.value.lower() in NO_LIMIT:
            findings.carried("--time", "max_runtime: null", option.line)
        elif not seconds:
            hint = Text("Write minutes, 1:30:00 or 2-12:00:00.", "请写分钟数、1:30:00 或 2-12:00:00。")
            findings.wrong(
                "/time",
                "time_form",
                Text(f"--time {shown(option.value)} is no time.", f"--time {shown(option.value, 'zh')} 不是时间。"),
                hint,
                line=option.line,
            )
        else:
            spec["max_runtime"] = min(seconds, bounds.RUNTIME_SECONDS)
            if seconds > bounds.RUNTIME_SECONDS:
                findings.changed("value_lowered", "--time", option.line, value=option.value, most="365d")
            else:
                findings.carried("--time", "max_runtime", option.line)
    if (option := options.get("hold")) is not None:
        spec["hold"] = True
        findings.carried("--hold", "hold", option.line)
    if (option := options.get("no-requeue")) is not None:
        spec["retry"] = {"limit": 0}
        findings.carried("--no-requeue", "retry.limit", option.line)


def _environment(
    options: dict[str, SbatchOption], amounts: Amounts, indexes: Indexes | None, spec: dict[str, Any], findings: Findings
) -> None:
    own = dict(amounts.asked)
    if indexes is not None and not indexes.is_plain:
        own["SBATCH_ARRAY_INX"] = options["array"].value.partition("%")[0]
    if (option := options.get("export")) is not None:
        secrets: dict[str, None] = {}
        count = len(own)
        for entry in option.value.split(","):
            name, equals, value = entry.partition("=")
            if equals and re.fullmatch(ENV_NAME, name) and not name.upper().startswith("BERTH_"):
                if is_secret_name(name):
                    secrets[name] = None
                    findings.changed("secret_named", "--export", option.line, name=name, variable=name)
                else:
                    own[name] = value
            elif entry.upper() != "NONE":
                findings.lost("export", "--export", option.line, name=name if is_secret_name(name) else entry)
        if secrets:
            spec["secrets"] = secrets
        if len(own) > count:
            findings.carried("--export", "env", option.line)
    if own:
        spec["env"] = own
    if (option := options.get("chdir")) is not None:
        if option.value.startswith(("/", "~")) or ".." in option.value.split("/"):
            findings.lost("chdir", "--chdir", option.line, name=option.value)
        else:
            spec["workdir"] = option.value
            findings.carried("--chdir", "workdir", option.line)
    if (option := options.get("dependency")) is not None:
        kind = re.split(r"[:,?]", option.value, maxsplit=1)[0].lower()
        findings.lost("dependency", "--dependency", option.line, name=option.value, key=DEPENDENCIES.get(kind, "after_any"))


def _left_out(options: dict[str, SbatchOption], findings: Findings) -> None:
    for name, option in options.items():
        if name in LEFT_OUT:
            findings.lost(LEFT_OUT[name], f"--{name}", option.line, name=option.value, option=f"--{name}")
        elif name not in CONVERTED and name not in SILENT:
            findings.lost("unsupported", f"--{name}", option.line, option=f"--{name}")


CONVERTED = frozenset(
    {
        *("job-name", "container-image", "array", "time", "hold", "no-requeue", "export", "chdir", "dependency"),
        *("nodes", "ntasks", "ntasks-per-node", "cpus-per-task", "cpus-per-gpu", "mem", "mem-per-cpu", "mem-per-gpu"),
        *("gres", "gpus", "gpus-per-node", "gpus-per-task"),
    }
)


def _command(script: _Script, findings: Findings) -> list[str]:
    """The script as its own program runs it."""
    if script.shell:
        return [script.shell, *_login(script), "-c", script.body]
    option = next((option for name, option in PROGRAMS.items() if script.name.startswith(name)), None)
    if option is None:
        hint = Text(f"Programs are {', '.join([*SHELLS, *PROGRAMS])}.", f"可用的程序：{', '.join([*SHELLS, *PROGRAMS])}。")
        message = Text(
            f"Nothing is known of {shown(script.name)}, which runs the script.", f"未知的脚本解释器 {shown(script.name, 'zh')}。"
        )
        findings.wrong("/script", "program", message, hint, line=1)
    return [*script.program, option or "-c", script.body]


def _login(script: _Script) -> list[str]:
    """Options of the shell that the first line gives; only those that are letters."""
    return [word for word in script.program[1:] if re.fullmatch(r"-[a-z]{1,8}", word)]
