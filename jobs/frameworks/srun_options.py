"""The options of `srun` from its manual (Slurm 22.05, and what came up to 24.05), and reading them as getopt does.

One table for both that need it: the converter, which refuses what has no meaning here before the job is submitted, and the
`srun` inside a job, to which this file is sent along. So it imports the standard library only and runs on Python 3.7."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

VALUE, MAYBE, NONE = "value", "maybe", "none"  # `--opt=value` or `--opt value`; `--opt` or `--opt=value`; `--opt`.

# What an option is here. STEP: the step is made by it. IDLE: nothing that the program could notice depends on it. All others
# are reasons for which a step that has it is refused.
STEP, IDLE = "step", "idle"
TERMINAL, PROGRAMS, PARTS, CONTAINER, COPY, HOOK = "terminal", "programs", "parts", "container", "copy", "hook"
IDENTITY, PMI, LAYOUT, OTHER_JOB, DISPLAY, SIGNAL = "identity", "pmi", "layout", "other_job", "display", "signal"
TEST, UNKNOWN_OPTION = "test", "unknown"
UNKNOWN = "\0"  # In a word: what only the shell that runs the script will know.


class Option(NamedTuple):
    letter: str
    form: str
    kind: str


def _table(form: str, kind: str, names: str) -> dict[str, Option]:
    """Options from words such as `ntasks/n`: name, and letter where there is one."""
    parts = (word.partition("/") for word in names.split())
    return {name: Option(letter, form, kind) for name, _, letter in parts}


OPTIONS: dict[str, Option] = {
    **_table(
        VALUE,
        STEP,
        "chdir/D cpus-per-task/c distribution/m error/e exclude/x export gpu-bind gpus/G gpus-per-node gpus-per-task gres "
        "input/i job-name/J jobid mpi nodelist/w nodes/N ntasks/n ntasks-per-node open-mode output/o relative/r time/t wait/W",
    ),
    **_table(MAYBE, STEP, "exclusive kill-on-bad-exit/K"),
    **_table(NONE, STEP, "exact label/l overcommit/O overlap unbuffered/u"),
    # Of the allocation, which is there, or of the machine, which is not described here; bindings do not change what runs.
    **_table(
        VALUE,
        IDLE,
        "accel-bind account/A acctg-freq bb bbf begin/b bcast-exclude cluster-constraint comment constraint/C core-spec/S "
        "cores-per-socket cpu-bind cpu-freq cpus-per-gpu deadline delay-boot dependency/d extra-node-info/B gpu-freq "
        "gpus-per-socket gres-flags hint licenses/L mail-type mail-user mcs-label mem mem-bind mem-per-cpu mem-per-gpu mincpus "
        "msg-timeout network ntasks-per-core ntasks-per-socket partition/p power prefer priority profile qos/q reservation "
        "segment slurmd-debug sockets-per-node switches thread-spec threads/T threads-per-core time-min tmp tres-bind wckey",
    ),
    **_table(MAYBE, IDLE, "compress immediate/I nice no-kill/k oom-kill-step propagate resv-ports send-libs"),
    **_table(
        NONE,
        IDLE,
        "contiguous disable-status/X hold/H oversubscribe/s preserve-env/E quiet/Q quit-on-interrupt reboot spread-job stepmgr "
        "use-min-nodes verbose/v wait-all-nodes",
    ),
    # Refused, each with its reason.
    **_table(NONE, TERMINAL, "pty interactive"),
    **_table(NONE, PROGRAMS, "multi-prog"),
    **_table(VALUE, PARTS, "het-group pack-group"),
    **_table(
        VALUE,
        CONTAINER,
        "container container-id container-image container-mounts container-name container-save container-workdir container-env",
    ),
    **_table(
        NONE,
        CONTAINER,
        "container-entrypoint container-mount-home container-readonly container-remap-root container-writable "
        "no-container-entrypoint no-container-mount-home no-container-remap-root",
    ),
    **_table(MAYBE, COPY, "bcast"),
    **_table(VALUE, HOOK, "epilog prolog task-epilog task-prolog"),
    **_table(VALUE, IDENTITY, "gid uid"),
    **_table(VALUE, LAYOUT, "nodefile/F ntasks-per-gpu tres-per-task"),
    **_table(VALUE, OTHER_JOB, "clusters/M"),
    **_table(NONE, OTHER_JOB, "no-allocate/Z external-launcher"),
    **_table(MAYBE, DISPLAY, "x11"),
    **_table(VALUE, SIGNAL, "signal"),
    **_table(NONE, TEST, "test-only help/h usage version/V autocomplete"),
}
ALIASES = {"tasks-per-node": "ntasks-per-node"}  # Taken by Slurm, and in no manual.
LETTERS = {option.letter: name for name, option in OPTIONS.items() if option.letter}
REFUSED = (*sorted({option.kind for option in OPTIONS.values()} - {STEP, IDLE}), PMI, UNKNOWN_OPTION)
NO_PMI = frozenset({"none", "list"})  # Of --mpi: ranks that need nothing of Slurm to find each other.
LAYOUTS = frozenset({"block", "cyclic", "*"})  # Of --distribution, over nodes.
WIDE = ("none", "closest")  # Of --gpu-bind: each task sees all GPUs of the step.
NARROW = ("single", "per_task")  # Of --gpu-bind: each task sees that many.


class Refused(Exception):
    """A step that cannot be started here. `reason` is one of REFUSED, or `value` for a value that is none."""

    def __init__(self, option: str, reason: str, value: str = "") -> None:
        super().__init__(f"{option} {reason} {value}".strip())
        self.option, self.reason, self.value = option, reason, value


class Reading(NamedTuple):
    """A command line of `srun`: its options, and what it runs. Not `is_known`: an option, or what it runs, is not known yet."""

    options: dict[str, str]
    idle: tuple[str, ...]
    command: tuple[str, ...]
    is_known: bool


def read(words: Sequence[str], job: str = "") -> Reading:
    """Take the words behind `srun` apart. A part of a word that only the shell will know is UNKNOWN; `job` is the number of the
    job that it runs in, which `--jobid` may name. Raises Refused."""
    options: dict[str, str] = {}
    rest = list(words)
    is_known = True
    while rest and rest[0].startswith("-") and rest[0] != "-":
        word = rest.pop(0)
        if word == "--":
            break
        found = _long(word, rest) if word.startswith("--") else _short(word, rest)
        is_known = is_known and not any(UNKNOWN in name for name, _ in found)
        options.update((name, value) for name, value in found if UNKNOWN not in name)
    if rest and rest[0].startswith(UNKNOWN):
        is_known = False  # An option, or the command.
    for place, word in enumerate(rest[:-1]):
        if word == ":" and rest[place + 1].startswith("-"):
            raise Refused(":", PARTS)
    _check(options, job)
    idle = tuple(name for name in options if OPTIONS[name].kind == IDLE)
    return Reading({name: value for name, value in options.items() if name not in idle}, idle, tuple(rest), is_known)


def _long(word: str, rest: list[str]) -> list[tuple[str, str]]:
    given, equals, value = word[2:].partition("=")
    if UNKNOWN in given:
        return [(given, "")]
    name = complete(given)
    if name is None:
        raise Refused(f"--{given}", UNKNOWN_OPTION)
    form = OPTIONS[name].form
    if form == NONE and equals:
        raise Refused(f"--{name}", "value", value)
    return [(name, _next(name, rest) if form == VALUE and not equals else value)]


def _short(word: str, rest: list[str]) -> list[tuple[str, str]]:
    """`-N2`, `-N 2`, `-N=2`, or several without a value in one word, of which the last may have one."""
    found: list[tuple[str, str]] = []
    for place, letter in enumerate(word[1:], start=2):
        if letter == UNKNOWN:
            return [*found, (UNKNOWN, "")]
        name = LETTERS.get(letter)
        if name is None:
            raise Refused(f"-{letter}", UNKNOWN_OPTION)
        form, after = OPTIONS[name].form, word[place:]
        if form == NONE:
            found.append((name, ""))
            continue
        if form == VALUE:
            after = after[1:] if after.startswith("=") else after or _next(name, rest)
        return [*found, (name, after)]
    return found


def _next(name: str, rest: list[str]) -> str:
    if not rest:
        raise Refused(f"--{name}", "value")
    return rest.pop(0)


def complete(given: str) -> str | None:
    """The option that a name or its beginning stands for; None where none or several do."""
    if given in ALIASES:
        return ALIASES[given]
    if given in OPTIONS:
        return given
    found = [name for name in OPTIONS if name.startswith(given)] if given else []
    return found[0] if len(found) == 1 else None


def _check(options: dict[str, str], job: str) -> None:
    for name, value in options.items():
        kind = OPTIONS[name].kind
        if kind not in (STEP, IDLE):
            raise Refused(f"--{name}", kind)
        if UNKNOWN in value:
            continue
        reason = OTHER_JOB if name == "jobid" and value != job else _refused_value(name, value)
        if reason:
            raise Refused(f"--{name}", reason, value)


def _refused_value(name: str, value: str) -> str:
    if name == "mpi":
        return "" if value in NO_PMI else PMI
    if name == "distribution":
        return "" if value.partition(":")[0].partition(",")[0] in LAYOUTS else LAYOUT
    if name == "gpu-bind":
        kind = value.split(",")[-1].partition(":")[0]
        return "" if kind in WIDE + NARROW else LAYOUT
    if name in ("ntasks", "cpus-per-task", "ntasks-per-node"):
        return "" if value.isdigit() and int(value) > 0 else "value"
    if name == "nodes":
        parts = value.split("-")
        return "" if len(parts) <= 2 and all(part.isdigit() and int(part) > 0 for part in parts) else "value"
    if name == "relative":
        return "" if value.isdigit() else "value"
    return ""
