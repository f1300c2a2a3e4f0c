"""How many tasks a script asks for, and what each of them gets."""

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


@dataclass(frozen=True, slots=True)
class Amounts:
    """Of one task here: `cpus`, `gpus`, `resources`. Of the script as Slurm reads it: `tasks`, `nodes`, `on_node`."""

    replicas: int = 1
    cpus: int = 1
    gpus: int = 0
    tasks: int = 1
    nodes: int = 1
    on_node: int = 1  # Tasks of the fullest node.
    resources: dict[str, Any] = field(default_factory=dict)


def read_amounts(options: Mapping[str, SbatchOption], findings: Findings, *, has_steps: bool, has_mpi: bool) -> Amounts:
    """One task here for each of Slurm's; for tasks of one machine that nothing in the script starts, one with all their cores."""
    ask = _Ask(options, findings)
    nodes = ask.nodes()
    per_node = ask.whole("ntasks-per-node")
    tasks = ask.whole("ntasks") or (nodes * per_node if per_node else nodes)
    cpus = ask.whole("cpus-per-task") or 1
    nodes = min(nodes, tasks)  # Slurm gives no node without a task.
    on_node = asked_on_node = per_node or -(-tasks // nodes)  # Tasks of the fullest machine.
    replicas = tasks
    if tasks > 1 and not (has_steps or has_mpi):
        replicas = nodes
        if on_node > 1:
            findings.changed(
                "cores_of_one", ask.place("ntasks-per-node", "ntasks"), ask.line("ntasks-per-node", "ntasks"), count=on_node
            )
            cpus, on_node = cpus * on_node, 1
    if replicas > 1 and not has_mpi:
        findings.changed("tasks_everywhere", ask.place("ntasks", "nodes"), ask.line("ntasks", "nodes"), count=replicas)
    if nodes > 1:
        findings.changed("tasks_anywhere", "--nodes", ask.line("nodes"), count=nodes)
    model, gpus = ask.gpus(nodes, replicas, on_node)
    if not gpus and "cpus-per-gpu" in options:
        findings.lost("unsupported", "--cpus-per-gpu", ask.line("cpus-per-gpu"), option="--cpus-per-gpu")
    per_gpu = ask.whole("cpus-per-gpu")
    if gpus and per_gpu and "cpus-per-task" not in options:
        cpus = per_gpu * gpus
    memory = ask.memory(cpus, gpus, on_node)
    resources: dict[str, Any] = {}
    if cpus > 1 or "cpus-per-task" in options:
        resources["cpu"] = cpus
    if memory:
        resources["memory"] = memory_text(memory)
    if gpus:
        resources["gpu"] = f"{model}:{gpus}" if model else gpus
    return Amounts(replicas, cpus, gpus, tasks, nodes, asked_on_node, resources)


class _Ask:
    """Reads the amounts among the options, with a mistake for each that is none."""

    def __init__(self, options: Mapping[str, SbatchOption], findings: Findings) -> None:
        self._options, self._findings = options, findings

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
        self._findings.carried(f"--{name}", _TARGETS[name], option.line)
        return int(option.value)

    def nodes(self) -> int:
        option = self._options.get("nodes")
        if option is None:
            return 1
        match = re.fullmatch(r"([0-9]{1,9})(?:-([0-9]{1,9}))?", option.value)
        if match is None or int(match[1]) == 0 or (match[2] and int(match[2]) < int(match[1])):
            self._wrong(
                option,
                Text("is no number of machines.", "不是机器数。"),
                Text("Write --nodes=2, or 2-4.", "请写 --nodes=2，或 2-4。"),
            )
            return 1
        if match[2] and match[2] != match[1]:
            self._findings.changed("node_range", "--nodes", option.line, name=option.value, count=match[2])
        else:
            self._findings.carried("--nodes", "replicas", option.line)
        return int(match[2] or match[1])

    def memory(self, cpus: int, gpus: int, on_node: int) -> int:
        """Bytes of one task; 0 where nothing is said."""
        for name, share in (("mem-per-cpu", cpus), ("mem-per-gpu", gpus)):
            if (option := self._options.get(name)) is not None:
                return self._bytes(option) * share
        if (option := self._options.get("mem")) is None:
            return 0
        if option.value == "0":
            self._findings.lost("whole_memory", "--mem", option.line)
            return 0
        return self._bytes(option) // on_node

    def _bytes(self, option: SbatchOption) -> int:
        amount = read_memory(option.value)
        if amount is None:
            self._wrong(
                option,
                Text("is no amount of memory.", "不是内存量。"),
                Text("Write 16G, 4000M, or a number of mebibytes.", "请写 16G、4000M，或 MiB 数。"),
            )
            return 0
        self._findings.carried(f"--{option.name}", "resources.memory", option.line)
        return amount

    def gpus(self, nodes: int, replicas: int, on_node: int) -> tuple[str, int]:
        """Model and number of one task."""
        if (option := self._options.get("gpus-per-task")) is not None:
            return self._gpus(option, option.value)
        if (option := self._options.get("gpus-per-node")) is not None:
            model, count = self._gpus(option, option.value)
            return model, self._shared(option, count, on_node)
        if (option := self._options.get("gpus")) is not None:
            model, count = self._gpus(option, option.value)
            return model, self._shared(option, count, replicas)
        return self._gres(on_node)

    def _gres(self, on_node: int) -> tuple[str, int]:
        option = self._options.get("gres")
        found = ("", 0)
        for entry in option.value.split(",") if option is not None else ():
            assert option is not None
            name, _, rest = entry.removeprefix("gres/").removeprefix("gres:").partition(":")
            if name != "gpu":
                if entry.lower() != "none":
                    self._findings.lost("gres", "--gres", option.line, name=entry)
                continue
            asked = rest.partition("(")[0]
            model, count = self._gpus(option, asked if re.search(r"(^|:)[0-9]+$", asked) else f"{asked}:1" if asked else "1")
            found = (model or found[0], found[1] + count)
        return (found[0], self._shared(option, found[1], on_node)) if option is not None else found

    def _gpus(self, option: SbatchOption, text: str) -> tuple[str, int]:
        read = read_gpus(text)
        if read is None:
            self._wrong(
                option, Text("is no number of GPUs.", "不是 GPU 数量。"), Text("Write 4, or a100:4.", "请写 4，或 a100:4。")
            )
            return "", 0
        self._findings.carried(f"--{option.name}", "resources.gpu", option.line)
        return read

    def _shared(self, option: SbatchOption, count: int, tasks: int) -> int:
        each = -(-count // tasks)
        if each * tasks != count:
            self._findings.changed(
                "gpus_uneven", f"--{option.name}", option.line, count=count, tasks=tasks, each=each, total=each * tasks
            )
        return each

    def _wrong(self, option: SbatchOption, rest: Text[str], hint: Saying = "") -> None:
        message = Text(
            f"--{option.name} {shown(option.value)} {rest.en}", f"--{option.name} {shown(option.value, 'zh')} {rest.zh}"
        )
        self._findings.wrong(f"/{option.name}", "amount", message, hint, line=option.line)


_TARGETS = {
    "ntasks": "replicas",
    "ntasks-per-node": "replicas",
    "cpus-per-task": "resources.cpu",
    "cpus-per-gpu": "resources.cpu",
}
