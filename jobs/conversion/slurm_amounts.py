"""How many nodes a script asks for, which are tasks here, and what each of them gets."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from jobs.conversion.notes import Findings
from jobs.conversion.slurm_options import SbatchOption
from jobs.conversion.slurm_values import memory_text, read_gpus, read_memory
from jobs.spec.values import shown
from kernel.words import Saying, Text

MIB = 1024 * 1024
# What is said of a node: a script that says it and no number of nodes means one.
OF_NODES = ("ntasks-per-node", "mem", "gres", "gpus-per-node", "exclusive", "mincpus", "tmp")


@dataclass(frozen=True, slots=True)
class Amounts:
    """`resources` are those of one node; `asked` is what the script asked for, in Slurm's own variables."""

    nodes: int = 1
    resources: dict[str, Any] = field(default_factory=dict)
    asked: dict[str, str] = field(default_factory=dict)


def read_amounts(options: Mapping[str, SbatchOption], findings: Findings, *, has_steps: bool) -> Amounts:
    """One task here for each of Slurm's nodes, with what the fullest of them has."""
    ask = _Ask(options, findings)
    per_node, tasks = ask.whole("ntasks-per-node"), ask.whole("ntasks")
    nodes = _nodes(ask, options, per_node, tasks, has_steps=has_steps)
    on_node = per_node or -(-(tasks or nodes) // nodes)  # Slurm's tasks on the fullest node.
    if tasks is not None and per_node is not None:
        on_node = min(on_node, tasks)
    per_task = ask.whole("cpus-per-task")
    cpus = (per_task or 1) * on_node
    model, gpus = ask.gpus(nodes, on_node)
    per_gpu = ask.whole("cpus-per-gpu")
    if per_gpu and gpus and per_task is None:
        cpus = max(cpus, per_gpu * gpus)
    elif per_gpu and not gpus:
        findings.lost("unsupported", "--cpus-per-gpu", ask.line("cpus-per-gpu"), option="--cpus-per-gpu")
    memory = ask.memory(cpus, gpus)
    resources: dict[str, Any] = {}
    if cpus > 1 or per_task:
        resources["cpu"] = cpus
    if memory:
        resources["memory"] = memory_text(memory)
    if gpus:
        resources["gpu"] = f"{model}:{gpus}" if model else gpus
    if nodes > 1:
        findings.changed("tasks_anywhere", ask.place("nodes", "ntasks"), ask.line("nodes", "ntasks"), count=nodes)
    asked = {
        "SLURM_NTASKS": tasks, "SLURM_NTASKS_PER_NODE": per_node, "SLURM_CPUS_PER_TASK": per_task,
        "SLURM_GPUS_PER_TASK": ask.amount("gpus-per-task"), "SLURM_MEM_PER_CPU": ask.mebibytes("mem-per-cpu"),
        "SLURM_MEM_PER_GPU": ask.mebibytes("mem-per-gpu"),
    }  # fmt: skip
    return Amounts(nodes, resources, {name: str(amount) for name, amount in asked.items() if amount})


def _nodes(ask: _Ask, options: Mapping[str, SbatchOption], per_node: int | None, tasks: int | None, *, has_steps: bool) -> int:
    """As many as are asked for, none without a task. Tasks that Slurm may put anywhere are nodes of their own here, as far as the
    script starts them and says nothing of a node: so they fit wherever there is room."""
    asked = ask.nodes()
    if asked is not None:
        return min(asked, tasks or asked)
    if tasks is None:
        return 1
    if per_node is not None:
        return -(-tasks // per_node)
    if tasks > 1 and has_steps and not set(OF_NODES) & set(options):
        ask.findings.changed("task_nodes", "--ntasks", ask.line("ntasks"), count=tasks)
        return tasks
    return 1


class _Ask:
    """Reads the amounts among the options, with a mistake for each that is none."""

    def __init__(self, options: Mapping[str, SbatchOption], findings: Findings) -> None:
        self._options, self.findings = options, findings

    def line(self, *names: str) -> int | None:
        return next((self._options[name].line for name in names if name in self._options), None)

    def place(self, *names: str) -> str:
        return next((f"--{name}" for name in names if name in self._options), "")

    def whole(self, name: str) -> int | None:
        option = self._options.get(name)
        if option is None:
            return None
        if not re.fullmatch(r"[0-9]{1,9}", option.value) or int(option.value) == 0:
            self._wrong(option, Text("is no whole number above 0.", "不是大于 0 的整数。"))
            return None
        self.findings.carried(f"--{name}", _TARGETS[name], option.line)
        return int(option.value)

    def amount(self, name: str) -> int | None:
        """The number of an option that has been read and noted already."""
        option = self._options.get(name)
        read = read_gpus(option.value) if option is not None else None
        return read[1] if read is not None else None

    def mebibytes(self, name: str) -> int | None:
        option = self._options.get(name)
        amount = read_memory(option.value) if option is not None else None
        return amount // MIB if amount is not None else None

    def nodes(self) -> int | None:
        option = self._options.get("nodes")
        if option is None:
            return None
        match = re.fullmatch(r"([0-9]{1,9})(?:-([0-9]{1,9}))?", option.value)
        if match is None or int(match[1]) == 0 or (match[2] and int(match[2]) < int(match[1])):
            self._wrong(
                option,
                Text("is no number of machines.", "不是机器数。"),
                Text("Write --nodes=2, or 2-4.", "请写 --nodes=2，或 2-4。"),
            )
            return 1
        if match[2] and match[2] != match[1]:
            self.findings.changed("node_range", "--nodes", option.line, name=option.value, count=match[2])
        else:
            self.findings.carried("--nodes", "replicas", option.line)
        return int(match[2] or match[1])

    def memory(self, cpus: int, gpus: int) -> int:
        """Bytes of one node; 0 where nothing is said."""
        for name, share in (("mem-per-cpu", cpus), ("mem-per-gpu", gpus)):
            if (option := self._options.get(name)) is not None:
                return self._bytes(option) * share
        if (option := self._options.get("mem")) is None:
            return 0
        if option.value == "0":
            self.findings.lost("whole_memory", "--mem", option.line)
            return 0
        return self._bytes(option)

    def _bytes(self, option: SbatchOption) -> int:
        amount = read_memory(option.value)
        if amount is None:
            self._wrong(
                option,
                Text("is no amount of memory.", "不是内存量。"),
                Text("Write 16G, 4000M, or a number of mebibytes.", "请写 16G、4000M，或 MiB 数。"),
            )
            return 0
        self.findings.carried(f"--{option.name}", "resources.memory", option.line)
        return amount

    def gpus(self, nodes: int, on_node: int) -> tuple[str, int]:
        """Model and number of one node."""
        for name, factor in (("gpus-per-task", on_node), ("gpus-per-node", 1)):
            if (option := self._options.get(name)) is not None:
                model, count = self._gpus(option, option.value)
                return model, count * factor
        if (option := self._options.get("gpus")) is not None:
            model, count = self._gpus(option, option.value)
            return model, self._shared(option, count, nodes)
        return self._gres()

    def _gres(self) -> tuple[str, int]:
        option = self._options.get("gres")
        found = ("", 0)
        for entry in option.value.split(",") if option is not None else ():
            assert option is not None
            name, _, rest = entry.removeprefix("gres/").removeprefix("gres:").partition(":")
            if name != "gpu":
                if entry.lower() != "none":
                    self.findings.lost("gres", "--gres", option.line, name=entry)
                continue
            asked = rest.partition("(")[0]
            model, count = self._gpus(option, asked if re.search(r"(^|:)[0-9]+$", asked) else f"{asked}:1" if asked else "1")
            found = (model or found[0], found[1] + count)
        return found

    def _gpus(self, option: SbatchOption, text: str) -> tuple[str, int]:
        read = read_gpus(text)
        if read is None:
            self._wrong(
                option, Text("is no number of GPUs.", "不是 GPU 数量。"), Text("Write 4, or a100:4.", "请写 4，或 a100:4。")
            )
            return "", 0
        self.findings.carried(f"--{option.name}", "resources.gpu", option.line)
        return read

    def _shared(self, option: SbatchOption, count: int, tasks: int) -> int:
        each = -(-count // tasks)
        if each * tasks != count:
            self.findings.changed(
                "gpus_uneven", f"--{option.name}", option.line, count=count, tasks=tasks, each=each, total=each * tasks
            )
        return each

    def _wrong(self, option: SbatchOption, rest: Text[str], hint: Saying = "") -> None:
        message = Text(
            f"--{option.name} {shown(option.value)} {rest.en}", f"--{option.name} {shown(option.value, 'zh')} {rest.zh}"
        )
        self.findings.wrong(f"/{option.name}", "amount", message, hint, line=option.line)


_TARGETS = {
    "ntasks": "replicas",
    "ntasks-per-node": "replicas",
    "cpus-per-task": "resources.cpu",
    "cpus-per-gpu": "resources.cpu",
}
