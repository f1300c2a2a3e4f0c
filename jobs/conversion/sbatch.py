"""A script for Slurm's `sbatch` as a job of Berth: its `#SBATCH` lines as fields, the rest as the command.

Slurm starts the script once and `srun` in it starts the tasks; Berth starts the command in every task. So the script runs in
every task, with an `srun` that runs what stands behind it; with `mpirun` the framework `mpi` does what Slurm did."""

from __future__ import annotations

import re
from typing import Any

from jobs import bounds
from jobs.conversion.names import job_name
from jobs.conversion.notes import Findings
from jobs.conversion.shell import names_read, settings, tell_secrets
from jobs.conversion.slurm_amounts import Amounts, read_amounts
from jobs.conversion.slurm_options import SbatchOption, read_options
from jobs.conversion.slurm_values import NO_LIMIT, Indexes, read_array, read_seconds
from jobs.spec.advice import is_secret_name
from jobs.spec.values import ENV_NAME, shown
from kernel.words import Text

DIRECTIVE = "#SBATCH"
SHELLS = {"sh": "/bin/sh", "dash": "/bin/sh", "bash": "/bin/bash", "zsh": "/bin/zsh", "ksh": "/bin/ksh"}
PROGRAMS = {"python": "-c", "pypy": "-c", "perl": "-e", "ruby": "-e", "Rscript": "-e", "julia": "-e", "node": "-e"}
_STEP = re.compile(r"^[ \t]*(?:[A-Za-z_]\w*=\S*[ \t]+|time[ \t]+|exec[ \t]+)*srun\b", re.MULTILINE)
_MPI = re.compile(r"^[ \t]*(?:[A-Za-z_]\w*=\S*[ \t]+|time[ \t]+|exec[ \t]+)*(mpirun|mpiexec(?:\.hydra)?)\b", re.MULTILINE)
_MODULE = re.compile(r"^[ \t]*(?:module|ml)[ \t]+\S", re.MULTILINE)
_HOSTNAMES = re.compile(r"(?<![\w./-])scontrol[ \t]+show[ \t]+hostnames?\b")
_PROGRAM = re.compile(r"(?<![\w./-])(sbatch|squeue|scancel|scontrol|sacct|sinfo|sbcast|salloc)(?![\w.-])")
# Variables whose value tells Slurm's nodes apart from the tasks here.
OF_NODES = frozenset(
    ("SLURM_NNODES", "SLURM_JOB_NUM_NODES", "SLURM_NODEID", "SLURM_NTASKS_PER_NODE", "SLURM_TASKS_PER_NODE", "SLURM_LOCALID")
)
PROGRAM_LENGTH = 256  # Of the first line; Linux reads no more of it (BINPRM_BUF_SIZE).
SRUN = """srun() {
  while [ $# -gt 0 ]; do
    case "$1" in
      --*=*) shift ;;
      --nodes|--ntasks|--ntasks-per-node|--cpus-per-task|--gpus|--gpus-per-task|--gpus-per-node|--gres|--mem|--mem-per-cpu|\
--time|--mpi|--partition|--job-name|--output|--error|--cpu-bind|--chdir|--nodelist|--container-image|--het-group) shift 2 ;;
      -[NncGtpJoewxDmAqTC]) shift 2 ;;
      -*) shift ;;
      *) break ;;
    esac
  done
  "$@"
}"""
# The usual way to MASTER_ADDR; of its list without brackets only the commas are to be undone.
SCONTROL = """scontrol() {
  case "$1 $2" in
    "show hostname"|"show hostnames") echo "${3:-$SLURM_JOB_NODELIST}" | tr ',' '\\n' ;;
    *) echo "scontrol: there is no Slurm here; only 'show hostnames' works" >&2; return 1 ;;
  esac
}"""
MODULE = "module() { :; }\nml() { :; }"
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
    spec: dict[str, Any] = {"name": _name(options, findings, file_name)}
    if image := options.get("container-image"):
        spec["image"] = image.value
        findings.carried("--container-image", "image", image.line)
    has_steps, mpi = bool(_STEP.search(script.body)), _MPI.search(script.body)
    amounts = read_amounts(options, findings, has_steps=has_steps, has_mpi=mpi is not None)
    indexes = _array(options, spec, findings)
    if mpi is not None and amounts.replicas > 1:
        spec["framework"] = "mpi"
        findings.changed("mpirun", "script", None, name=mpi[1])
    if amounts.replicas > 1:
        spec["replicas"] = amounts.replicas
    if amounts.resources:
        spec["resources"] = amounts.resources
    _limits(options, spec, findings)
    _environment(options, spec, findings)
    _left_out(options, findings)
    spec["command"] = _command(script, amounts, indexes, has_steps=has_steps, findings=findings)
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


def _environment(options: dict[str, SbatchOption], spec: dict[str, Any], findings: Findings) -> None:
    if (option := options.get("export")) is not None:
        own: dict[str, str] = {}
        secrets: dict[str, None] = {}
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
        if own:
            spec["env"] = own
            findings.carried("--export", "env", option.line)
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


def _command(
    script: _Script, amounts: Amounts, indexes: Indexes | None, *, has_steps: bool, findings: Findings
) -> str | list[str]:
    """The rest of the script, behind what it needs here; as arguments where it is not for /bin/sh."""
    body = script.body
    tell_secrets(body, findings, "script")
    read = names_read(body, "SLURM_")
    has_hostnames = bool(script.shell) and _HOSTNAMES.search(body) is not None
    rest = _HOSTNAMES.sub("", body) if has_hostnames else body
    for name in sorted({match[1] for match in _PROGRAM.finditer(rest)}):
        findings.lost("slurm_program", name, None, name=name)
    has_modules = _MODULE.search(body) is not None
    if has_modules:
        findings.lost("modules", "module", None)
    if not script.shell:
        option = next((option for name, option in PROGRAMS.items() if script.name.startswith(name)), None)
        if option is None:
            hint = Text(f"Programs are {', '.join([*SHELLS, *PROGRAMS])}.", f"可用的程序：{', '.join([*SHELLS, *PROGRAMS])}。")
            findings.wrong(
                "/script",
                "program",
                Text(
                    f"Nothing is known of {shown(script.name)}, which runs the script.",
                    f"未知的脚本解释器 {shown(script.name, 'zh')}。",
                ),
                hint,
                line=1,
            )
        elif read or has_steps:
            findings.lost("other_shell", "#!", 1, name=script.name)
        return [*script.program, option or "-c", body]
    if has_hostnames:
        findings.changed("scontrol", "scontrol", None)
        read = sorted({*read, "SLURM_JOB_NODELIST"})  # What it prints without an argument.
    before = settings(read, _variables(amounts, indexes), findings, "script")
    if amounts.replicas > amounts.nodes and not OF_NODES.isdisjoint(read):
        findings.changed("nodes_as_asked", "script", None, nodes=amounts.nodes, tasks=amounts.on_node)
    if has_hostnames:
        before.append(SCONTROL)
    if has_steps:
        findings.changed("srun", "srun", None)
        before.append(SRUN)
    if has_modules:
        before.append(MODULE)
    text = "\n".join([*before, body])
    return text if script.shell == "/bin/sh" else [script.shell, *_login(script), "-c", text]


def _login(script: _Script) -> list[str]:
    """Options of the shell that the first line gives; only those that are letters."""
    return [word for word in script.program[1:] if re.fullmatch(r"-[a-z]{1,8}", word)]


def _variables(amounts: Amounts, indexes: Indexes | None) -> dict[str, str]:
    """Slurm's variables (man sbatch, "output environment variables") in terms of Berth's."""
    is_joined = amounts.replicas < amounts.tasks  # One task here has all that the tasks of a node had there.
    of_node = 1 if is_joined else amounts.on_node  # Tasks here that were on one node there.
    share = amounts.on_node if is_joined else 1
    hosts = _hosts(amounts.replicas, of_node)
    known = {
        **dict.fromkeys(("SLURM_JOB_ID", "SLURM_JOBID"), '"$BERTH_JOB_ID"'),
        "SLURM_JOB_NAME": '"$BERTH_JOB_NAME"',
        "SLURM_JOB_USER": '"$BERTH_USER"',
        "SLURM_JOB_ACCOUNT": '"$BERTH_TENANT"',
        "SLURM_JOB_PARTITION": '"$BERTH_QUEUE"',
        "SLURM_SUBMIT_DIR": '"$PWD"',
        **dict.fromkeys(
            ("SLURM_NTASKS", "SLURM_NPROCS", "SLURM_STEP_NUM_TASKS"),
            str(amounts.tasks) if is_joined else '"$BERTH_WORLD_SIZE"',
        ),
        "SLURM_PROCID": '"$BERTH_RANK"',
        "SLURM_NODEID": '"$BERTH_RANK"' if of_node == 1 else f"$((BERTH_RANK / {of_node}))",
        **dict.fromkeys(("SLURM_NNODES", "SLURM_JOB_NUM_NODES", "SLURM_STEP_NUM_NODES"), str(amounts.nodes)),
        "SLURM_LOCALID": "0",
        **dict.fromkeys(("SLURM_NTASKS_PER_NODE", "SLURM_TASKS_PER_NODE"), str(amounts.on_node)),
        "SLURM_CPUS_PER_TASK": str(amounts.cpus // share),
        **dict.fromkeys(("SLURM_CPUS_ON_NODE", "SLURM_JOB_CPUS_PER_NODE"), str(amounts.cpus * of_node)),
        "SLURM_GPUS": str(amounts.gpus * amounts.replicas),
        **dict.fromkeys(("SLURM_GPUS_ON_NODE", "SLURM_GPUS_PER_NODE"), str(amounts.gpus * of_node)),
        "SLURM_GPUS_PER_TASK": str(amounts.gpus // share),
        **dict.fromkeys(("SLURM_JOB_NODELIST", "SLURM_NODELIST", "SLURM_STEP_NODELIST"), hosts),
        "SLURMD_NODENAME": '"$BERTH_HOST"',
        "SLURM_RESTART_COUNT": "$((BERTH_ATTEMPT - 1))",
    }
    if indexes is not None:
        last = indexes.listed[-1] if indexes.listed else indexes.first + (indexes.size - 1) * indexes.step
        known |= {
            "SLURM_ARRAY_TASK_ID": _index(indexes),
            "SLURM_ARRAY_JOB_ID": '"$BERTH_JOB_ID"',
            "SLURM_ARRAY_TASK_COUNT": str(indexes.size),
            "SLURM_ARRAY_TASK_MIN": str(indexes.first),
            "SLURM_ARRAY_TASK_MAX": str(last),
            "SLURM_ARRAY_TASK_STEP": str(indexes.step),
        }
    return known


def _hosts(replicas: int, of_node: int) -> str:
    """Addresses with commas, one for each node; from the file, where a variable would hold too many or those of all tasks."""
    if of_node == 1 and replicas <= bounds.HOSTS_IN_ENV:
        return '"$BERTH_WORKER_HOSTS"'
    first = f'[ $((rank % {of_node})) -ne 0 ] || {{ printf %s "$comma$host"; comma=,; }}'
    return f'"$(comma=; while read -r rank role index host; do {first}; done < "$BERTH_HOSTS_FILE")"'


def _index(indexes: Indexes) -> str:
    if indexes.listed:
        return f"\"$(echo '{' '.join(map(str, indexes.listed))}' | cut -d' ' -f$((BERTH_ARRAY_INDEX + 1)))\""
    return '"$BERTH_ARRAY_INDEX"' if indexes.is_plain else f"$(({indexes.first} + BERTH_ARRAY_INDEX * {indexes.step}))"
