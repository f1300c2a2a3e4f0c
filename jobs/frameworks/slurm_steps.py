"""Which tasks of a job a step of `srun` runs in, and how many of its processes in each (man srun, Slurm 22.05). Pure.

A task of the job is a node of Slurm's. Steps that run at the same time do not share cores, as Slurm has it: a step takes nodes
that are free as a whole, else the cores that it asks for on nodes that have them, and waits while there are none. `--overlap`
counts nothing. Sent along with a job, so it imports the standard library only and runs on Python 3.7."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple


class Impossible(Exception):
    """A step that this job can never have room for."""


class Node:
    """A task of the job: what it has, and what steps hold of it."""

    def __init__(self, place: int, name: str, cpus: int, gpus: int, tasks: int) -> None:
        self.place, self.name, self.cpus, self.gpus, self.tasks = place, name, cpus, gpus, tasks
        self.held_cpus, self.held_gpus, self.steps = 0, set(), 0  # type: int, set[int], int
        self.left_at = 0.0  # When the last step on it ended.


class StepAsk(NamedTuple):
    """What a step asks for. None is left to the job."""

    nodes: int
    tasks: int
    per_node: int | None = None
    cpus: int | None = None
    gpus_per_task: int | None = None
    gpus_per_node: int | None = None
    names: tuple[str, ...] = ()
    excluded: tuple[str, ...] = ()
    first: int = 0
    exact: bool = False
    overlap: bool = False
    overcommit: bool = False
    cyclic: bool = False
    began_at: float = float("inf")  # When its srun was started.


class Share(NamedTuple):
    """What a step has of one node. `gpus` is None where its processes see all of them."""

    place: int
    ranks: tuple[int, ...]
    cpus: int
    gpus: tuple[int, ...] | None


def ask_of(options: Mapping[str, str], environment: Mapping[str, str], count: int) -> StepAsk:
    """What the options of a command line ask for in a job of so many nodes. What they leave out, the job's own options say."""
    per_node = _number(options.get("ntasks-per-node"))
    asked = options.get("nodes", "").split("-")
    nodes = _number(asked[0])
    tasks = _number(options.get("ntasks"))
    if tasks is None:
        tasks = _tasks_of(nodes, per_node, environment, count)
        nodes = nodes or count
    gpus = _gpus_of(options, environment, nodes or min(count, tasks))
    inside = "SLURM_STEP_ID" in environment  # Started by a process of a step, which holds what this one asks for.
    return StepAsk(
        nodes=min(nodes or count, tasks),
        tasks=tasks,
        per_node=per_node,
        cpus=_number(options.get("cpus-per-task") or environment.get("SRUN_CPUS_PER_TASK")),
        gpus_per_task=gpus[0],
        gpus_per_node=gpus[1],
        names=tuple(names_of(options.get("nodelist", ""))),
        excluded=tuple(names_of(options.get("exclude", ""))),
        first=_number(options.get("relative")) or 0,
        exact=bool({"exact", "exclusive", "cpus-per-task"} & set(options)),
        overlap=inside or "overlap" in options,
        overcommit="overcommit" in options,
        cyclic=options.get("distribution", "").startswith("cyclic"),
    )


def _tasks_of(nodes: int | None, per_node: int | None, environment: Mapping[str, str], count: int) -> int:
    """All tasks of the job, or as many as it has on that many of its nodes."""
    if per_node is not None:
        return (nodes or count) * per_node
    every = _number(environment.get("SLURM_NTASKS")) or count
    return every if nodes is None or nodes >= count else max(nodes, every * nodes // count)


def _gpus_of(options: Mapping[str, str], environment: Mapping[str, str], nodes: int) -> tuple[int | None, int | None]:
    """GPUs of each process, or of each node; both None where all are seen and none is held."""
    if "gpus-per-task" in options:
        return _amount(options["gpus-per-task"]), None
    if "gpus-per-node" in options:
        return None, _amount(options["gpus-per-node"])
    if "gpus" in options:
        return None, -(-_amount(options["gpus"]) // nodes)
    if "gres" in options:
        entries = [entry.partition("(")[0].split(":") for entry in options["gres"].split(",")]
        return None, sum(_amount(":".join(entry[1:]) or "1") for entry in entries if entry[0].rpartition("/")[2] == "gpu")
    kind, _, amount = options.get("gpu-bind", "").split(",")[-1].partition(":")
    if kind in ("single", "per_task"):
        return _number(amount) or 1, None
    return _number(environment.get("SLURM_GPUS_PER_TASK", "").rpartition(":")[2]), None


def allot(ask: StepAsk, nodes: Sequence[Node], job_cpus: int) -> list[Share] | None:
    """The step's shares, in order of its nodes; None while it has to wait. `job_cpus` are those of one task of the job.

    Raises Impossible for what not even the empty job has room for."""
    eligible = _eligible(ask, nodes)
    cpus = ask.cpus or (job_cpus if sum(node.cpus // job_cpus for node in eligible) >= ask.tasks else 1)
    empty = [node if ask.overlap else Node(node.place, node.name, node.cpus, node.gpus, node.tasks) for node in eligible]
    if _chosen(ask, empty, cpus) is None:
        raise Impossible(
            f"{ask.tasks} tasks of {cpus} cores on {ask.nodes} nodes are more than this job has: "
            + ", ".join(f"{node.name} with {node.cpus} cores and {node.gpus} GPUs" for node in eligible[:8])
        )
    chosen = _chosen(ask, eligible, cpus)
    if chosen is None:
        return None
    return [
        Share(node.place, ranks, len(ranks) * cpus, _devices(ask, node, len(ranks)))
        for (node, _), ranks in zip(chosen, _ranks(ask, [tasks for _, tasks in chosen]))  # noqa: B905 - python3.7 has no strict.
    ]


def hold(shares: Sequence[Share], nodes: Sequence[Node], ask: StepAsk, sign: int = 1, now: float = 0.0) -> None:
    """Count what a step holds, or with -1 no longer holds."""
    for share in shares:
        node = nodes[share.place]
        node.steps += sign
        node.left_at = now if sign < 0 else node.left_at
        if not ask.overlap:
            node.held_cpus += sign * share.cpus
            held = set(share.gpus or ())
            node.held_gpus = node.held_gpus | held if sign > 0 else node.held_gpus - held


def names_of(text: str) -> list[str]:
    """Names of a list such as `a1,b[01-03,7]`, in order."""
    found: list[str] = []
    for part in _split(text):
        head, bracket, rest = part.partition("[")
        inner, _, tail = rest.partition("]")
        if not bracket:
            found.append(part)
            continue
        for piece in inner.split(","):
            first, dash, last = piece.partition("-")
            if dash and first.isdigit() and last.isdigit():
                numbers = [str(number).zfill(len(first)) for number in range(int(first), min(int(last), int(first) + 10_000) + 1)]
            else:
                numbers = [piece]
            found += [head + number + name for number in numbers for name in (names_of(tail) or [""])]
    return [name for name in found if name]


def compressed(counts: list[int]) -> str:
    """`2(x3),1`: numbers in a row, each once."""
    made: list[list[int]] = []
    for count in counts:
        if made and made[-1][0] == count:
            made[-1][1] += 1
        else:
            made.append([count, 1])
    return ",".join(f"{count}(x{times})" if times > 1 else str(count) for count, times in made)


def _split(text: str) -> list[str]:
    """The parts between commas that stand in no brackets."""
    parts, depth = [""], 0
    for sign in text.strip():
        depth += {"[": 1, "]": -1}.get(sign, 0)
        if sign == "," and depth == 0:
            parts.append("")
        else:
            parts[-1] += sign
    return parts


def _eligible(ask: StepAsk, nodes: Sequence[Node]) -> list[Node]:
    """Nodes that the step may have, those that it names first. Several tasks of a job may share an address."""
    every = {node.name for node in nodes}
    unknown = [name for name in (*ask.names, *ask.excluded) if name not in every]
    if unknown:
        raise Impossible(f"{unknown[0]} is no node of this job: {', '.join(node.name for node in nodes[:8])}")
    rest = [node for node in nodes if node.name not in ask.excluded and node.place >= ask.first]
    named = [node for node in rest if node.name in ask.names]
    enough = len({node.name for node in named}) >= ask.nodes or len(named) >= ask.nodes
    return named if ask.names and enough else [*named, *(node for node in rest if node.name not in ask.names)]


def _chosen(ask: StepAsk, eligible: Sequence[Node], cpus: int) -> list[tuple[Node, int]] | None:
    """Nodes in order of their place, each with its number of processes."""
    rooms = [(node, _room(ask, node, cpus)) for node in eligible]
    able = [(node, room) for node, room in rooms if room > 0]
    # A step that ended after this srun was started ran beside it, if only for a moment: its node is not the first choice, either.
    able.sort(key=lambda entry: (not ask.exact and entry[0].steps > 0, entry[0].left_at > ask.began_at))
    if ask.names:  # Those that are named come first, as _eligible has them.
        able.sort(key=lambda entry: entry[0].name not in ask.names)
    taken = able[: ask.nodes]
    if len(taken) < ask.nodes or sum(room for _, room in taken) < ask.tasks:
        taken = sorted(able, key=lambda entry: -entry[1])[: ask.nodes]  # The roomiest, where the first do not do.
    if len(taken) < ask.nodes or sum(room for _, room in taken) < ask.tasks:
        return None
    taken.sort(key=lambda entry: entry[0].place)
    return _spread(ask, taken)


def _room(ask: StepAsk, node: Node, cpus: int) -> int:
    """How many processes of the step fit on a node now."""
    room = ask.tasks if ask.overcommit else (node.cpus - (0 if ask.overlap else node.held_cpus)) // cpus
    if ask.per_node is not None:
        room = min(room, ask.per_node)
    free = node.gpus - (0 if ask.overlap else len(node.held_gpus))
    if ask.gpus_per_task:
        room = min(room, free // ask.gpus_per_task)
    if ask.gpus_per_node and free < ask.gpus_per_node:
        return 0
    return room


def _spread(ask: StepAsk, taken: Sequence[tuple[Node, int]]) -> list[tuple[Node, int]]:
    """As the job's own tasks lie, where all of them run; else as evenly as there is room."""
    own = [node.tasks for node, _ in taken]
    if ask.per_node is None and sum(own) == ask.tasks and all(node.tasks <= room for node, room in taken):
        return [(node, node.tasks) for node, _ in taken]
    counts, left = [1] * len(taken), ask.tasks - len(taken)
    while left > 0:
        for place, (_, room) in enumerate(taken):
            more = min(room - counts[place], left) if ask.per_node is not None else min(int(room > counts[place]), left)
            counts[place], left = counts[place] + more, left - more
    return [(node, counts[place]) for place, (node, _) in enumerate(taken)]


def _ranks(ask: StepAsk, counts: Sequence[int]) -> list[tuple[int, ...]]:
    """Ranks of each node: one after another, or in turn."""
    ranks: list[list[int]] = [[] for _ in counts]
    if ask.cyclic:
        rank = 0
        for turn in range(max(counts)):
            for place, count in enumerate(counts):
                if turn < count:
                    ranks[place].append(rank)
                    rank += 1
    else:
        for place, count in enumerate(counts):
            first = sum(counts[:place])
            ranks[place] = list(range(first, first + count))
    return [tuple(own) for own in ranks]


def _devices(ask: StepAsk, node: Node, tasks: int) -> tuple[int, ...] | None:
    wanted = ask.gpus_per_task * tasks if ask.gpus_per_task is not None else ask.gpus_per_node
    if wanted is None:
        return None
    free = [gpu for gpu in range(node.gpus) if ask.overlap or gpu not in node.held_gpus]
    return tuple(free[:wanted])


def _amount(text: str) -> int:
    """The number of `2` or `a100:2`."""
    return _number(text.rpartition(":")[2]) or 0


def _number(text: str | None) -> int | None:
    return int(text) if text and text.isdigit() else None
