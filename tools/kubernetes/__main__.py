"""`python -m tools.kubernetes`: a cluster on this machine, for development."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from tools.kubernetes.cluster import Cluster, check_rights
from tools.kubernetes.hold import hold, sweep
from tools.kubernetes.node import install_packages
from tools.kubernetes.programs import PROGRAMS, Programs
from tools.progress import Stop, say_error, step

FOR_NODES = ("kubelet", "coredns")
NEEDED = tuple(name for name in PROGRAMS if name not in (*FOR_NODES, "kwok"))


def main(arguments: Sequence[str] | None = None) -> int:
    options = _parser().parse_args(arguments)
    try:
        if options.verb == "build":
            Programs.cached().build(options.programs or tuple(PROGRAMS))
        elif options.verb == "up":
            _up(options)
        elif options.verb == "down":
            _down(options)
        elif options.verb == "sweep":
            for directory in sweep():
                print(f"removed {directory}")
        else:
            return hold(
                Cluster(options.directory, dies_with_caller=True),
                options.lock,
                nodes=options.nodes,
                simulated=options.simulated,
                gpus=options.gpus,
                with_python=options.python,
            )
    except Stop as refusal:
        say_error(str(refusal))
        return 1
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m tools.kubernetes", description="Kubernetes on this machine, for development."
    )
    verbs = parser.add_subparsers(dest="verb", required=True)
    build = verbs.add_parser("build", help="build the programs that are missing, from their Go modules")
    build.add_argument("programs", nargs="*", metavar="PROGRAM", choices=[[], *PROGRAMS], help=f"of {', '.join(PROGRAMS)}")
    up = verbs.add_parser("up", help="start a cluster; what runs stays")
    held = verbs.add_parser("hold", help="the same for tests: it ends with its last connection")
    for verb in (up, held):
        verb.add_argument("directory", type=Path, metavar="DIR", help="where all of it is kept")
        verb.add_argument("--nodes", type=int, default=1, metavar="N", help="real nodes, as root (1)")
        verb.add_argument("--simulated", type=int, default=0, metavar="N", help="nodes that kwok plays (0)")
        verb.add_argument("--gpus", type=int, default=4, metavar="N", help="simulated GPUs of each real node (4)")
        verb.add_argument("--python", action="store_true", help="an image with Python, too")
    held.add_argument("--lock", type=int, required=True)
    down = verbs.add_parser("down", help="stop a cluster; nothing of it is left but DIR")
    down.add_argument("directory", type=Path, metavar="DIR")
    down.add_argument("--remove", action="store_true", help="delete DIR, too")
    verbs.add_parser("sweep", help="remove what killed test runs have left")
    return parser


def _up(options: argparse.Namespace) -> None:
    check_rights(options.nodes)
    programs = [*NEEDED, *(FOR_NODES if options.nodes else []), *(["kwok"] if options.simulated else [])]
    Programs.cached().build(programs)
    if options.nodes:
        with step("packages") as done:
            install_packages()
            done.outcome = "containerd, runc and CNI plugins"
    cluster = Cluster(options.directory)
    cluster.up(nodes=options.nodes, simulated=options.simulated, gpus=options.gpus, with_python=options.python)
    print(
        f"\n  export KUBECONFIG={cluster.kubeconfig}\n"
        f"  {cluster.programs.path('kubectl')} get nodes\n"
        f"  python -m tools.kubernetes down {cluster.directory}"
    )


def _down(options: argparse.Namespace) -> None:
    if not (options.directory / "cluster.json").exists():
        raise Stop(f"{options.directory} has no cluster.")
    cluster = Cluster(options.directory)
    with step("cluster") as done:
        if options.remove:
            cluster.remove()
        else:
            cluster.down()
        done.outcome = "gone, with its directory" if options.remove else f"stopped; its data stays in {cluster.directory}"


if __name__ == "__main__":
    sys.exit(main())
