"""Which options `sbatch` takes, and reading them from `#SBATCH` lines (man sbatch, Slurm 24.05)."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from dataclasses import dataclass

from jobs.conversion.notes import Findings
from jobs.spec.values import shown
from kernel.words import Text

# Options with a value, with their letters; names alone have none.
WITH_VALUE = {
    "account": "A", "acctg-freq": "", "array": "a", "batch": "", "bb": "", "bbf": "", "begin": "b", "chdir": "D",
    "cluster-constraint": "", "clusters": "M", "comment": "", "constraint": "C", "container": "", "container-id": "",
    "container-image": "", "container-mounts": "", "container-name": "", "container-workdir": "", "core-spec": "S",
    "cores-per-socket": "", "cpu-freq": "", "cpus-per-gpu": "", "cpus-per-task": "c", "deadline": "", "delay-boot": "",
    "dependency": "d", "distribution": "m", "error": "e", "exclude": "x", "export": "", "export-file": "", "extra": "",
    "extra-node-info": "B", "gid": "", "gpu-bind": "", "gpu-freq": "", "gpus": "G", "gpus-per-node": "", "gpus-per-socket": "",
    "gpus-per-task": "", "gres": "", "gres-flags": "", "hint": "", "input": "i", "job-name": "J", "licenses": "L",
    "mail-type": "", "mail-user": "", "mcs-label": "", "mem": "", "mem-bind": "", "mem-per-cpu": "", "mem-per-gpu": "",
    "mincpus": "", "network": "", "nodefile": "F", "nodelist": "w", "nodes": "N", "ntasks": "n", "ntasks-per-core": "",
    "ntasks-per-gpu": "", "ntasks-per-node": "", "ntasks-per-socket": "", "open-mode": "", "output": "o", "partition": "p",
    "power": "", "prefer": "", "priority": "", "profile": "", "qos": "q", "reservation": "", "signal": "", "sockets-per-node": "",
    "switches": "", "thread-spec": "", "threads-per-core": "", "time": "t", "time-min": "", "tmp": "", "tres-bind": "",
    "tres-per-task": "", "uid": "", "wait-all-nodes": "", "wckey": "", "wrap": "",
}  # fmt: skip
WITHOUT_VALUE = {
    "contiguous": "", "disable-stdout-job-summary": "", "hold": "H", "ignore-pbs": "", "kill-on-invalid-dep": "",
    "no-requeue": "", "oom-kill-step": "", "overcommit": "O", "oversubscribe": "s", "parsable": "", "quiet": "Q",
    "reboot": "", "requeue": "", "resv-ports": "", "spread-job": "", "stepmgr": "", "test-only": "",
    "use-min-nodes": "", "verbose": "v", "wait": "W",
}  # fmt: skip
MAYBE_VALUE = {"exclusive": "", "get-user-env": "", "nice": "", "no-kill": "k", "propagate": ""}
NAMES = {**WITH_VALUE, **WITHOUT_VALUE, **MAYBE_VALUE}
LETTERS = {letter: name for name, letter in NAMES.items() if letter}
PART_ENDS = frozenset({"hetjob", "packjob"})  # Between the parts of a heterogeneous job; the second is its name before 20.02.
ALIASES = {"tasks-per-node": "ntasks-per-node"}  # Taken by Slurm, and in no manual.
LINE_LENGTH = 8_192  # Of one #SBATCH line; longer than what a shell's user ever wrote.
WORDS_MAX = 1_000  # In the directives of one script.


HETJOB = Text("A heterogeneous job has parts that differ; another one begins here.", "异构作业的各部分不同；另一部分从这里开始。")
HETJOB_HINT = Text(
    "Write each part as a role with a command of its own: roles: {first: {...}, second: {...}}.",
    "请把每一部分写成一个有自己命令的角色：roles: {first: {...}, second: {...}}。",
)


@dataclass(frozen=True, slots=True)
class SbatchOption:
    name: str
    value: str
    line: int


def read_options(directives: list[tuple[int, str]], findings: Findings) -> dict[str, SbatchOption]:
    """The options of a script; of one that is given again, the last counts, as for Slurm."""
    found: dict[str, SbatchOption] = {}
    count = 0
    for line, text in directives:
        if len(text) > LINE_LENGTH:
            findings.wrong(
                f"/line/{line}",
                "too_long",
                Text(f"An #SBATCH line has at most {LINE_LENGTH} characters.", f"一行 #SBATCH 最多 {LINE_LENGTH} 个字符。"),
                line=line,
            )
            continue
        try:
            words = shlex.split(text, comments=True)
        except ValueError:
            findings.wrong(f"/line/{line}", "quotes", Text("A quote is opened and not closed.", "引号没有闭合。"), line=line)
            continue
        count += len(words)
        if count > WORDS_MAX:
            findings.wrong(
                f"/line/{line}",
                "too_many",
                Text(f"The #SBATCH lines have more than {WORDS_MAX} words.", f"#SBATCH 行超过 {WORDS_MAX} 个词。"),
                line=line,
            )
            return found
        if set(words) & PART_ENDS:
            findings.wrong(f"/line/{line}", "hetjob", HETJOB, HETJOB_HINT, line=line)
            return found
        found.update((option.name, option) for option in _options(words, line, findings))
    return found


def _options(words: list[str], line: int, findings: Findings) -> Iterator[SbatchOption]:
    rest = iter(words)
    for word in rest:
        if word.startswith("--") and len(word) > 2:
            name, equals, value = word[2:].partition("=")
            yield from _option(name, value if equals else None, rest, line, findings)
        elif word.startswith("-") and len(word) > 1:
            yield from _letters(word[1:], rest, line, findings)
        else:
            findings.wrong(
                f"/line/{line}",
                "word",
                Text(f"{shown(word)} belongs to no option.", f"{shown(word, 'zh')} 不属于任何选项。"),
                Text("Begin options with --.", "选项以 -- 开头。"),
                line=line,
            )


def _option(name: str, value: str | None, rest: Iterator[str], line: int, findings: Findings) -> Iterator[SbatchOption]:
    known = name if name in NAMES else _completed(name)
    if known is None:
        findings.lost("unknown_key", f"--{name}", line, name=f"--{name}")
    elif known in WITH_VALUE:
        value = next(rest, None) if value is None else value
        if value is None or value == "":
            findings.wrong(
                f"/line/{line}",
                "value",
                Text(f"--{known} needs a value.", f"--{known} 需要值。"),
                Text(f"Write --{known}=VALUE.", f"请写 --{known}=VALUE。"),
                line=line,
            )
        else:
            yield SbatchOption(known, value, line)
    elif known in WITHOUT_VALUE and value is not None:
        findings.wrong(
            f"/line/{line}",
            "value",
            Text(f"--{known} takes no value.", f"--{known} 不带值。"),
            Text(f"Write --{known}.", f"请写 --{known}。"),
            line=line,
        )
    else:
        yield SbatchOption(known, value or "", line)


def _letters(letters: str, rest: Iterator[str], line: int, findings: Findings) -> Iterator[SbatchOption]:
    """`-N2`, `-N 2`, or several without a value in one word."""
    for index, letter in enumerate(letters):
        name = LETTERS.get(letter)
        if name is None:
            findings.lost("unknown_key", f"-{letter}", line, name=f"-{letter}")
            return
        after = letters[index + 1 :]
        if name in WITH_VALUE:
            yield from _option(name, after.removeprefix("=") or None, rest, line, findings)
            return
        if name in MAYBE_VALUE:
            yield SbatchOption(name, after, line)
            return
        yield SbatchOption(name, "", line)


def _completed(name: str) -> str | None:
    """The option that another name or a beginning stands for, where only one begins so."""
    if name in ALIASES:
        return ALIASES[name]
    found = [known for known in NAMES if known.startswith(name)] if name else []
    return found[0] if len(found) == 1 else None
