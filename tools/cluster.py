"""`make cluster` and `make cluster-down`: Kubernetes and the platform on this machine, and a job that outlives the API server.

Standard library only. It composes `tools/kubernetes` and `tools/up.py`: one directory holds the cluster and an installation of
its own, with its own port and its own sign-in, so that one that is there already stays as it is. Running it again is harmless:
what runs stays, and the example runs again. Nothing here is for production.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Mapping, MutableMapping, Sequence
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from tools.install import make_data_directory  # noqa: E402 - the root comes first.
from tools.kubernetes.cluster import Cluster  # noqa: E402
from tools.kubernetes.images import PYTHON_IMAGE  # noqa: E402
from tools.kubernetes.node import check_place, install_packages  # noqa: E402
from tools.kubernetes.programs import PROGRAMS, Programs  # noqa: E402
from tools.place import Place, alone, check_port, find_running  # noqa: E402
from tools.progress import Stop, say_error, step  # noqa: E402
from tools.up import berth, bring_up, check_python, client_environment, show  # noqa: E402
from tools.up import down as stop_platform  # noqa: E402

PORT = 8640  # Beside that of `make up`.
ACCOUNT = "berth"
NAME = "kubernetes"  # Of the cluster, as examples/pods.yaml has it.
EXAMPLE = ROOT / "examples" / "pods.yaml"
SETTINGS: Mapping[str, str] = {"default_image": PYTHON_IMAGE, "gpus_simulated": "true"}
KEPT = ("BERTH_CACHE", "BERTH_ENVIRONMENT", "BERTH_HOST")  # Of the caller's settings: the others are another installation's.
KILLED_AFTER = "step 5/"  # Of the example's log.
WORKERS, STEPS = 2, 30  # Of the example.
POOLS_SECONDS_MAX = 120
NOTICED_SECONDS_MAX = 120
OUTAGE_SECONDS = 5  # After it was noticed: long enough to be seen.
ENDED_SECONDS_MAX = 300
STOPPED_SECONDS_MAX = 60


class Trial(Place):
    """The installation of a directory, which holds the cluster, too."""

    def __init__(self, directory: Path, port: int) -> None:
        super().__init__(directory / "platform", port)
        suffix = "" if directory == usual_directory() else f" DIR={directory}"
        self.up_command = f"make cluster{suffix}"
        self.down_command = f"make cluster-down{suffix}"
        self.cluster = Cluster(directory / "cluster")
        self.config = self.data / "operator" / "config.toml"

    @classmethod
    def of(cls, directory: Path, port: int) -> Trial:
        """With the port that was asked for, else the one on which its platform runs, else the usual one."""
        trial = cls(directory, port or PORT)
        running = None if port else find_running(trial)
        return cls(directory, int(running.url.rpartition(":")[2])) if running else trial

    def settle(self, environment: MutableMapping[str, str]) -> None:
        """Have all that runs in this environment mean this installation, and leave the user's own sign-in and `berth` alone."""
        for name in [name for name in environment if name.startswith("BERTH_") and name not in KEPT]:
            del environment[name]
        environment["BERTH_DATA_DIR"] = str(self.data)
        environment["BERTH_CONFIG"] = str(self.config)
        environment["BERTH_COMMAND_DIR"] = str(self.command.parent)


def main(arguments: Sequence[str] | None = None) -> int:
    try:
        check_python()
        options = _parser().parse_args(arguments)
        if os.geteuid() != 0:
            raise Stop(f"a node of Kubernetes needs root. Run it as root: sudo make cluster{'-down' * (options.verb == 'down')}")
        os.umask(0o022)
        trial = Trial.of(options.directory.expanduser().resolve(), options.port)
        trial.settle(os.environ)
        if options.verb == "down":
            return down(trial, remove=options.remove)
        return up(trial)
    except Stop as reason:
        say_error(str(reason))
    except OSError as error:
        say_error(f"{error.filename or 'the system'}: {error.strerror or error}. Mend that and run the same command again.")
    except KeyboardInterrupt:
        say_error("interrupted; run the same command again to go on, or `make cluster-down` to stop it.")
        return 130
    return 1


def usual_directory() -> Path:
    """Where `make kubernetes` has its cluster, too."""
    return Programs.cached().folder.parent


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description="Kubernetes and the platform on this machine, to try both.")
    verbs = parser.add_subparsers(dest="verb", required=True)
    begin = verbs.add_parser("up", help="start what does not run, and run the example")
    end = verbs.add_parser("down", help="stop both; the directories stay")
    for verb in (begin, end):
        verb.add_argument("--directory", type=Path, default=usual_directory(), metavar="DIR")
        verb.add_argument("--port", type=_port, default=0, help=f"of the platform ({PORT})")
    end.add_argument("--remove", action="store_true", help="delete the directories, too")
    return parser


def _port(text: str) -> int:
    if text.isdigit() and 0 < int(text) < 65_536:
        return int(text)
    raise Stop(f"{text!r} is not a port. Choose one between 1 and 65535: make cluster PORT={PORT}")


# --- up --------------------------------------------------------------------------------------------------------------


def up(trial: Trial) -> int:
    check_place(trial.cluster.directory)
    if find_running(trial) is None:
        check_port(trial)  # Before the quarter of an hour that a build takes.
    start_kubernetes(trial.cluster)
    start_platform(trial)
    add_cluster(trial)
    code = run_example(trial)
    print_next_steps(trial)
    return code


def start_kubernetes(cluster: Cluster) -> None:
    cluster.programs.build([name for name in PROGRAMS if name != "kwok"])
    with step("packages") as done:
        install_packages()
        done.outcome = "containerd, runc and CNI plugins"
    cluster.up(nodes=1, with_python=True)


def start_platform(trial: Trial) -> None:
    with step("data directory") as done:
        make_data_directory(trial)
        trial.config.parent.mkdir(mode=0o700, exist_ok=True)
        done.outcome = str(trial.data)
    with alone(trial):
        bring_up(trial, "")


def add_cluster(trial: Trial) -> None:
    """Add it by the command line, or keep the one that is there, and wait until it may be used."""
    cluster = trial.cluster
    with step("account") as done:
        cluster.kubectl("apply", "-f", "-", text=cluster_role())
        binding = ("create", "clusterrolebinding", ACCOUNT, f"--clusterrole={ACCOUNT}", f"--user={ACCOUNT}")
        cluster.kubectl("apply", "-f", "-", text=cluster.kubectl(*binding, "--dry-run=client", "-o", "yaml"))
        account = cluster.kubeconfig_for(ACCOUNT)
        done.outcome = f"{ACCOUNT}, with the ClusterRole of docs/kubernetes.md and nothing else"
    known = [row for row in listed(trial, "clusters", "list") if row["name"] == NAME]
    if not known:
        words = [word for name, value in SETTINGS.items() for word in ("--set", f"{name}={value}")]
        if show(trial, "clusters", "add", NAME, "--kubeconfig", str(account), *words):
            raise Stop(f"the cluster was not added. Mend what is said above, and run `{trial.up_command}` again.")
    elif shown(trial, "clusters", "show", NAME)["access"]["server"] != cluster.server:  # It got another network meanwhile.
        berth(trial, "clusters", "change", NAME, "--kubeconfig", str(account))
    with step("pools") as done:
        _wait("its pools", POOLS_SECONDS_MAX, lambda: condition(trial) == "reachable" and bool(pools(trial)))
        done.outcome = f"{', '.join(pools(trial))} of cluster {NAME}"


def cluster_role() -> str:
    """The ClusterRole of the documents, word by word."""
    return (ROOT / "docs" / "kubernetes.md").read_text(encoding="utf-8").split("```text\n")[1].split("```")[0]


def pools(trial: Trial) -> list[str]:
    return [row["name"] for row in listed(trial, "pools") if row["cluster"]["name"] == NAME]


def condition(trial: Trial) -> str:
    return str(shown(trial, "clusters", "show", NAME)["condition"]["name"])


# --- The example -----------------------------------------------------------------------------------------------------


def run_example(trial: Trial) -> int:
    """Submit it, follow its log, kill the API server under it, and say how it ended; 0 where that is once and well."""
    print("\nThe example: two workers in pods. In the middle of it the API server is killed.")
    print(f"\n$ berth submit -f {EXAMPLE.relative_to(ROOT)}", flush=True)
    job = shown(trial, "submit", "-f", str(EXAMPLE), "-y", "-d")["id"]
    print(f"\n$ berth logs -f {job}", flush=True)
    follow(trial, job)
    show(trial, "wait", job, "--timeout", f"{ENDED_SECONDS_MAX}s")
    show(trial, "get", job)
    show_pods(trial, job)
    return say_outcome(trial, job)


def follow(trial: Trial, job: str) -> None:
    """Print the log to its end; the API server is killed on the way."""
    command = [str(trial.command), "logs", "-f", job]
    environment = client_environment(trial)
    is_killed = False
    with subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        for line in process.stdout:
            print(line, end="", flush=True)
            if KILLED_AFTER in line and not is_killed:
                is_killed = True
                kill_and_start(trial, job)
    if not is_killed:
        raise Stop(f"the log of job {job} ended before the API server was killed: berth get {job} says why.")


def kill_and_start(trial: Trial, job: str) -> None:
    show_pods(trial, job)
    plane = trial.cluster.control_plane
    with step("API server") as done:
        plane.kill("kube-apiserver")
        done.outcome = "killed (SIGKILL), while both workers run"
    try:
        with step("platform") as done:
            _wait("the platform's word that it lost contact", NOTICED_SECONDS_MAX, lambda: condition(trial) == "lost_contact")
            time.sleep(OUTAGE_SECONDS)
            done.outcome = f"has lost contact with the cluster; the job is {shown(trial, 'get', job)['state']} still"
    finally:
        with step("API server") as done:
            plane.start("kube-apiserver")
            plane.wait_ready()
            done.outcome = "started again, and ready"
    show_pods(trial, job)


def show_pods(trial: Trial, job: str) -> None:
    words = ("get", "pods", "-A", "-l", f"berth.dev/job={job}")
    print(f"\n$ kubectl {' '.join(words)}", flush=True)
    print(trial.cluster.kubectl(*words) or "None: their output was read to its end, and they were deleted.\n", flush=True)


def say_outcome(trial: Trial, job: str) -> int:
    document = shown(trial, "get", job)
    log = berth(trial, "logs", job).stdout
    state, attempts = document["state"], document["attempt"]
    print(f"Job {job}: {state}, attempts {attempts}; {describe_log(log)}.")
    return 0 if state == "succeeded" and attempts == 1 and is_whole(log) else 1


def is_whole(log: str) -> bool:
    """Whether each step of each worker is in it once."""
    return _steps(log) == Counter({str(number): WORKERS for number in range(1, STEPS + 1)})


def describe_log(log: str) -> str:
    if is_whole(log):
        return f"all {STEPS} steps of both workers are in its log, each once"
    counts = _steps(log)
    return f"its log is not whole: {sum(counts.values())} lines of steps, where {WORKERS * STEPS} are expected"


def _steps(log: str) -> Counter[str]:
    words = (line.partition("step ")[2].partition("/")[0] for line in log.splitlines())
    return Counter(word for word in words if word)


def print_next_steps(trial: Trial) -> None:
    kubectl = trial.cluster.programs.folder
    lines = [
        (f"export PATH={trial.command.parent}:{kubectl}:$PATH", "`berth` and `kubectl`"),
        (f"export BERTH_CONFIG={trial.config}", "`berth` speaks to this platform"),
        (f"export KUBECONFIG={trial.cluster.kubeconfig}", "`kubectl` is the cluster's administrator"),
        ("kubectl get nodes", "the machine, as Kubernetes sees it"),
        (f"berth clusters check {NAME}", "what Berth thinks of it"),
        ("berth submit -f examples/pods.yaml", "submit the example again, undisturbed"),
        (trial.url, f"the portal; name and password: {trial.config.parent / 'first-sign-in.txt'}"),
        (trial.down_command, "stop both; REMOVE=1 deletes their directories, too"),
    ]
    width = max(len(line) for line, _ in lines)
    print("\nNext:")
    for line, meaning in lines:
        print(f"  {line:<{width}}  {meaning}")


# --- down ------------------------------------------------------------------------------------------------------------


def down(trial: Trial, *, remove: bool) -> int:
    if find_running(trial) is not None:
        try:
            stop_jobs(trial)
        except Stop as reason:  # It may be because of what is broken that all of this is stopped.
            print(f"        Its jobs were not stopped: {reason}")
    if trial.data.exists():
        stop_platform(trial, "stopped")
    cluster = trial.cluster
    if cluster.directory.exists():
        with step("cluster") as done:
            if remove:
                cluster.remove()
            else:
                cluster.down()
            done.outcome = "stopped"
    if remove:
        shutil.rmtree(trial.data, ignore_errors=True)
        print(f"Deleted: {cluster.directory} and {trial.data}. The programs stay in {cluster.programs.folder}.")
    else:
        print(f"Nothing runs any more. Data stays in {cluster.directory} and {trial.data}: REMOVE=1 deletes it.")
    return 0


def stop_jobs(trial: Trial) -> None:
    """Jobs of a platform go on without it; here the machines that they run on end, too."""
    jobs = [row["id"] for row in listed(trial, "ps", "-n", "1000")]
    if jobs:
        with step("jobs") as done:
            berth(trial, "stop", *jobs, "--grace", "1s", "--reason", "make cluster-down")
            _wait("the end of its jobs", STOPPED_SECONDS_MAX, lambda: not listed(trial, "ps"))
            done.outcome = f"{len(jobs)} stopped"


# --- The command line ------------------------------------------------------------------------------------------------


def shown(trial: Trial, *words: str) -> Any:
    """What a command prints as JSON. Raises Stop with what it said."""
    return json.loads(berth(trial, *words, "--json").stdout)


def listed(trial: Trial, *words: str) -> list[Any]:
    rows = shown(trial, *words)
    return list(rows["items"]) if isinstance(rows, dict) else list(rows)


def _wait(what: str, seconds: float, is_so: Callable[[], bool]) -> None:
    deadline = time.monotonic() + seconds
    while not is_so():
        if time.monotonic() > deadline:
            raise Stop(f"waited {seconds:.0f} s for {what}, in vain. Stop both with `make cluster-down`, and start them again.")
        time.sleep(0.2)


if __name__ == "__main__":
    sys.exit(main())
