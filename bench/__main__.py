"""`python -m bench P1,P2 [--jobs 2000 ...]`: run benchmarks by number; without one, list them."""

from __future__ import annotations

import argparse
import importlib
import signal
import sys
import traceback
from collections.abc import Sequence
from pathlib import Path
from types import ModuleType

from bench.frame import OUTPUT, Bench, BenchError, environment, write_result

# Number -> module and what it measures. Several modules may stand behind one number; they run in this order.
BENCHMARKS: dict[str, tuple[tuple[str, ...], str]] = {
    "P1": (("bench.submissions",), "submissions: single, batch, array, against sbatch and slurmrestd"),
    "P2": (("bench.dispatch",), "dispatch: no-op jobs from submit to stored end, against Slurm"),
    "P3": (("bench.passes",), "passes: the scheduler's core, cold and after one change"),
    "P4": (("bench.growth",), "growth: how the time of a pass grows with waiting jobs and nodes, as slopes"),
    "P5": (("bench.passes",), "reclaim: whom a gang of 64 GPUs evicts on full nodes, and how fast"),
    "P6": (("bench.kueue_input",), "Kueue's own test input: 15,000 and 50,000 short workloads in cohorts of queues"),
    "P7": (("bench.packing",), "packing: GPU allocated on openb by our own placement, against FGD and best fit"),
    "P8": (("bench.tenancy",), "tenancy: waits of Philly's tenants in one pool, against each on its own nodes"),
    "P9": (("bench.reserved_starts",), "reserved starts against EASY, prediction, and expected starts that come true"),
    "P10": (("bench.lists",), "lists: pages of a million jobs, against squeue"),
    "SCREENS": (("bench.screens",), "screens: the portal in Chromium with a million jobs behind it"),
    "P12": (("bench.memory",), "memory: all processes idle, loaded, and per pending job, against slurmctld"),
    "GOLD": (("bench.golden",), "determinism: public traces give the same decisions to the byte, in any process, as they did"),
    "HOUR": (("bench.live_hour",), "an hour of a live installation: its event log is decided again, and kept as a golden trace"),
    "WHY": (("bench.explanations",), "explanations: whether who waits is told why, and whether what is suggested comes true"),
    "P13": (("bench.start",), "start: from `make up` to /readyz"),
    "K1": (("bench.kubernetes_dispatch",), "pods: jobs of one pod on simulated nodes, against kube-scheduler alone"),
    "K2": (("bench.kubernetes_scale",), "scale: 20,000 pods that run at once on 1,000 simulated nodes"),
    "K3": (("bench.kubernetes_logs",), "logs: 500 running jobs on simulated nodes, all of them followed live"),
    "K4": (("bench.kubernetes_gang",), "gang: one job of 400 tasks with a spec of 2 MB on simulated nodes"),
    "F1": (("bench.clusters",), "clusters: Ray and Spark of 1 + 4 until a driver sees all of it, against the same by hand"),
    "Q1": (("bench.shards",), "shards: 1,000 shards of a job through 8 workers, against xargs"),
    "P14": (("bench.streams",), "streams: thousands of live attempts that print, into the store and how far behind"),
}


def main(arguments: Sequence[str]) -> int:
    numbers, rest = _split(arguments)
    common = argparse.ArgumentParser(prog="python -m bench", add_help=False, allow_abbrev=False)
    common.add_argument("--out", type=Path, default=OUTPUT, help="folder of the JSON files; default build/bench")
    if not numbers:
        _list()
        return 0 if not rest else 2
    try:
        modules = {number: [importlib.import_module(name) for name in BENCHMARKS[number][0]] for number in numbers}
        plans, shared = _parse(modules, common, rest)
    except (BenchError, ModuleNotFoundError) as error:
        print(f"bench: {error}", file=sys.stderr)
        return 2
    machine = environment()
    benches = [_run(number, modules[number], plans[number], shared.out, rest, machine) for number in numbers]
    print()
    for bench, _ in benches:
        for figure in bench.figures:
            print(figure.line())
    missed = [figure for bench, _ in benches for figure in bench.figures if not figure.is_accepted]
    return 1 if missed or not all(went_well for _, went_well in benches) else 0


def _run(
    number: str,
    modules: Sequence[ModuleType],
    options: argparse.Namespace,
    folder: Path,
    arguments: Sequence[str],
    machine: dict[str, object],
) -> tuple[Bench, bool]:
    """One benchmark with whatever it found; whether it came to its end."""
    bench = Bench(number)
    went_well = False
    try:
        for module in modules:
            module.run(options, bench)
        went_well = True
    except BenchError as error:
        print(f"bench: {number}: {error}", file=sys.stderr)
    except Exception:  # The others shall have their turn.
        traceback.print_exc()
    if bench.figures or bench.records:
        print(f"  {write_result(folder, bench, arguments=arguments, machine=machine)}", file=sys.stderr, flush=True)
    return bench, went_well


def _split(arguments: Sequence[str]) -> tuple[list[str], list[str]]:
    """The numbers, `P1 P2` or `P1,P2` or `all`, stand before all else."""
    numbers: list[str] = []
    rest = list(arguments)
    while rest and not rest[0].startswith("-"):
        for word in filter(None, rest.pop(0).replace(",", " ").split()):
            chosen = list(BENCHMARKS) if word == "all" else [word.upper()]
            if chosen[0] not in BENCHMARKS:
                sys.exit(f"bench: there is no benchmark {word}. There are {', '.join(BENCHMARKS)}.")
            numbers += [number for number in chosen if number not in numbers]
    return numbers, rest


def _parse(
    modules: dict[str, list[ModuleType]], common: argparse.ArgumentParser, rest: list[str]
) -> tuple[dict[str, argparse.Namespace], argparse.Namespace]:
    """Each benchmark takes what it knows; an option that none of them knows is a mistake."""
    shared, _ = common.parse_known_args(rest)
    plans: dict[str, argparse.Namespace] = {}
    unknown: set[str] | None = None
    for number, each in modules.items():
        title = "; ".join(module.__doc__.partition("\n")[0] for module in each if module.__doc__)
        parser = argparse.ArgumentParser(
            prog=f"python -m bench {number}", description=title, parents=[common], allow_abbrev=False
        )
        for module in each:
            module.add_arguments(parser)
        plans[number], over = parser.parse_known_args(rest)
        names = {word.partition("=")[0] for word in over if word.startswith("-")}
        unknown = names if unknown is None else unknown & names
    if unknown:
        raise BenchError(f"no benchmark asked for knows {', '.join(sorted(unknown))}")
    return plans, shared


def _list() -> None:
    print('make bench ONLY=P1,P2 ARGS="..."    python -m bench P1,P2 ...    python -m bench P2 --help\n')
    for number, (_, title) in BENCHMARKS.items():
        print(f"  {number:<4} {title}")


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # Leave the blocks in hand, so that what they started is ended.
    sys.exit(main(sys.argv[1:]))
