"""F1: from nothing to a driver that sees its whole cluster: Ray and Spark of 1 + 4 through Berth, against the same by hand.

By hand, as their guides say: `ray start --head`, then `ray start --address` for each worker; Spark's master, then its workers,
by `spark-class`; the workers beside one another, each with ports of its own, and the driver when the head is up. The clock stops
when the driver has seen four workers, on both sides; on Berth's it begins with the request that submits the job.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import signal
import socket
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from pathlib import Path

from bench.frame import Bench, BenchError, alternate, temporary_folder
from bench.platforms import RunningPlatform, running_platform
from tests.builders.frameworks import SEEN, SYSTEM_PATH, through_namespace
from tools.frameworks import Environments

WORKERS = 4
SECONDS_MAX = 240.0
POLL_SECONDS = 0.05
SIZE = {"cpu": 1, "memory": "1Gi", "shm": "128Mi"}
STORE_BYTES = "100000000"
DRIVERS = {
    "ray": f"""
import time, ray
ray.init(log_to_driver=False)
while sum(node["Alive"] for node in ray.nodes()) < {WORKERS + 1}:
    time.sleep(0.05)
print("cluster is up", flush=True)
""",
    "spark": f"""
import time
from pyspark.sql import SparkSession
spark = SparkSession.builder.getOrCreate()
status = spark.sparkContext._jsc.sc().statusTracker()
while len(status.getExecutorInfos()) < {WORKERS + 1}:
    time.sleep(0.05)
print("cluster is up", flush=True)
""",
}
HEADS = {"ray": ("head", "worker"), "spark": ("driver", "executor")}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--runs", type=int, default=3, help="runs of each side; default 3")
    parser.add_argument("--kinds", default="ray,spark", help="which clusters; default both")


def run(options: argparse.Namespace, bench: Bench) -> None:
    environments = Environments.cached()
    kinds = options.kinds.split(",")
    if unknown := [kind for kind in kinds if kind not in DRIVERS]:
        raise BenchError(f"no cluster is called {', '.join(unknown)}; there are {', '.join(DRIVERS)}")
    if missing := environments.missing(kinds):
        raise BenchError(f"python -m tools.frameworks {' '.join(missing)} makes what is missing")
    with running_platform(through=through_namespace(), BERTH_LOCAL_CPU_MILLIS="64000") as platform:
        for kind in kinds:
            folder = environments.path(kind)
            sides = {
                "berth": partial(_through_berth, platform, kind, folder.name),
                "by hand": partial(_by_hand, kind, folder / "bin"),
            }
            seconds = alternate(bench, sides, runs=options.runs, unit="s")
            bench.record(kind, seconds)
            peers = {"by hand": seconds["by hand"]}
            bench.figure(f"start-{kind}", seconds["berth"], "s", less_is_better=True, peers=peers, note=f"1 + {WORKERS}")
            ratios = [ours / theirs for ours, theirs in zip(seconds["berth"], seconds["by hand"], strict=True)]
            bench.figure(f"start-{kind}-ratio", ratios, "x", accept=1.2, aim=1.0, less_is_better=True)


def _through_berth(platform: RunningPlatform, kind: str, folder: str) -> float:
    head, worker = HEADS[kind]
    roles = {
        head: {"resources": SIZE, "command": ["python3", "-c", DRIVERS[kind]]},
        worker: {"resources": SIZE, "replicas": WORKERS},
    }
    env = {"PATH": f"{SEEN}/{folder}/bin:{SYSTEM_PATH}"}
    began = time.monotonic()
    spec = {"name": f"start-{kind}", "framework": kind, "roles": roles, "env": env}
    job = platform.api("POST", "/jobs", {"spec": spec, "tenant": platform.tenant})
    while True:
        found = platform.api("GET", f"/jobs/{job['id']}")
        log = platform.api("GET", f"/jobs/{job['id']}/logs")
        if any("cluster is up" in item["text"] for item in log["items"]):
            seconds = time.monotonic() - began
            break
        if found["state"] in ("failed", "stopped") or time.monotonic() - began > SECONDS_MAX:
            raise BenchError(f"the job is {found['state']}: {''.join(item['text'] for item in log['items'])[-2000:]}")
        time.sleep(POLL_SECONDS)
    while platform.api("GET", f"/jobs/{job['id']}")["state"] not in ("succeeded", "failed", "stopped"):
        time.sleep(POLL_SECONDS)
    return seconds


def _by_hand(kind: str, programs: Path) -> float:
    with temporary_folder(f"start-{kind}") as folder, _session(folder, programs) as start:
        began = time.monotonic()
        {"ray": _ray, "spark": _spark}[kind](folder, programs, start)
        return time.monotonic() - began


Start = Callable[[Mapping[str, str], list[str], str], "subprocess.Popen[bytes]"]


@contextlib.contextmanager
def _session(folder: Path, programs: Path) -> Iterator[Start]:
    """Starts programs, and ends all that they have started."""
    running: list[subprocess.Popen[bytes]] = []

    def start(env: Mapping[str, str], argv: list[str], name: str) -> subprocess.Popen[bytes]:
        environment = {"PATH": f"{programs}:{SYSTEM_PATH}", "HOME": str(folder), "LANG": "C.UTF-8", **env}
        with (folder / f"{name}.log").open("wb") as log:
            process = subprocess.Popen(argv, env=environment, cwd=folder, stdout=log, stderr=log, start_new_session=True)
        running.append(process)
        return process

    try:
        yield start
    finally:
        for process in running:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()


def _ray(folder: Path, programs: Path, start: Start) -> None:
    env = {"RAY_USAGE_STATS_ENABLED": "0"}
    port, *others = _free_ports(1 + 7 * (WORKERS + 1) + 2)

    def node(number: int) -> list[str]:
        names = ("node-manager", "object-manager", "dashboard-agent-listen", "dashboard-agent-grpc", "runtime-env-agent")
        own = others[7 * number : 7 * number + 7]
        ports = [f"--{name}-port={value}" for name, value in zip((*names, "metrics-export"), own, strict=False)]
        place = Path("/tmp") / f"{folder.name[-8:]}{number}"
        return ["ray", "start", "--block", "--node-ip-address=127.0.0.2", f"--temp-dir={place}", "--num-cpus=1",
                "--num-gpus=0", f"--object-store-memory={STORE_BYTES}", *ports]  # fmt: skip

    metrics = {"DASHBOARD_METRIC_PORT": str(others[-1]), "AUTOSCALER_METRIC_PORT": str(others[-2])}
    client = f"--ray-client-server-port={others[6]}"
    start({**env, **metrics}, [*node(0), "--head", f"--port={port}", client, "--include-dashboard=false"], "head")
    _until_open("127.0.0.2", port)
    for number in range(1, WORKERS + 1):
        start(env, [*node(number), f"--address=127.0.0.2:{port}"], f"worker-{number}")
    _until_up(start({**env, "RAY_ADDRESS": f"127.0.0.2:{port}"}, ["python3", "-c", DRIVERS["ray"]], "driver"), folder)


def _spark(folder: Path, programs: Path, start: Start) -> None:
    [home] = programs.parent.glob("lib/python3.*/site-packages/pyspark")
    port, *others = _free_ports(1 + 1 + 2 * WORKERS)
    env = {"SPARK_LOCAL_IP": "127.0.0.1", "SPARK_DAEMON_MEMORY": "256m"}
    program = [str(home / "bin" / "spark-class")]
    deploy = "org.apache.spark.deploy"
    head = ["--host", "127.0.0.1", "--port", str(port), "--webui-port", str(others[0])]
    start(env, [*program, f"{deploy}.master.Master", *head], "head")
    _until_open("127.0.0.1", port)
    for number in range(WORKERS):
        own, page = others[1 + 2 * number : 3 + 2 * number]
        size = ["--cores", "1", "--memory", "768m", "--work-dir", str(folder / f"work-{number}")]
        place = ["--host", "127.0.0.1", "--port", str(own), "--webui-port", str(page)]
        start(env, [*program, f"{deploy}.worker.Worker", *place, *size, f"spark://127.0.0.1:{port}"], f"worker-{number}")
    settings = ["--conf", "spark.executor.memory=512m", "--conf", "spark.ui.enabled=false", "pyspark-shell"]
    driver = {**env, "PYSPARK_SUBMIT_ARGS": " ".join(["--master", f"spark://127.0.0.1:{port}", *settings])}
    _until_up(start(driver, ["python3", "-c", DRIVERS["spark"]], "driver"), folder)


def _until_open(host: str, port: int) -> None:
    deadline = time.monotonic() + SECONDS_MAX
    while time.monotonic() < deadline:
        with contextlib.suppress(OSError), socket.create_connection((host, port), timeout=1):
            return
        time.sleep(POLL_SECONDS)
    raise BenchError(f"nothing listens at {host}:{port}")


def _until_up(driver: subprocess.Popen[bytes], folder: Path) -> None:
    deadline = time.monotonic() + SECONDS_MAX
    log = folder / "driver.log"
    while b"cluster is up" not in log.read_bytes():
        if driver.poll() or time.monotonic() > deadline:
            raise BenchError(f"the driver by hand: {log.read_text(errors='replace')[-2000:]}")
        time.sleep(POLL_SECONDS)


def _free_ports(count: int) -> list[int]:
    with contextlib.ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket()) for _ in range(count)]
        for each in sockets:
            each.bind(("127.0.0.1", 0))
        return [each.getsockname()[1] for each in sockets]
