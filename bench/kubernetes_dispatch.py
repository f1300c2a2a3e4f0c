"""K1: jobs of one pod through Berth on simulated nodes, against the same pods through kube-scheduler alone.

Each side in turn has a new control plane with the same nodes, which kwok plays: a pod runs for a second and succeeds. Berth's
clock runs from the first of its submissions, by eight clients, until the last end is a row. The peer's runs from the first of its
creates, by eight threads, until its watch has shown the last pod as succeeded; it makes the pods that Berth makes, without what
Berth adds to hold them back and to see their end, and deletes none. All of it shares this machine's cores, so a second is worth
what the control plane leaves of it, and the ratio is what Berth costs beside it.
"""

from __future__ import annotations

import argparse
import copy
import json
import threading
import time
import uuid
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any

from bench.dispatch import CLIENTS, run_noops
from bench.frame import Bench, BenchError, alternate
from bench.kubernetes_nodes import CLUSTER, SimulatedCluster, berth_on, simulated_cluster
from bench.platforms import RunningPlatform
from clusters.engines.kubernetes.api import Api
from clusters.engines.kubernetes.client import ClientTransport

WARM_JOBS = 20
NAMESPACE = "peer"
STALL_SECONDS_MAX = 300.0
SPEC: dict[str, Any] = {"name": "noop", "cluster": CLUSTER, "command": ["true"], "resources": {"cpu": 1, "memory": "64Mi"}}

Json = Any


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--pods", type=int, default=1_000, help="jobs, or pods, of each run; default 1000")
    parser.add_argument("--nodes", type=int, default=100, help="simulated nodes of 64 cores and 110 pods; default 100")
    parser.add_argument("--pod-runs", type=int, default=3, help="runs of each side; default 3")
    parser.add_argument("--pod-profile", choices=["embedded", "production"], default="embedded", help="Berth's profile")


def run(options: argparse.Namespace, bench: Bench) -> None:
    costs: dict[str, list[dict[str, float]]] = {"berth": [], "kube-scheduler": []}
    template: list[Json] = []
    sides = {"berth": partial(_berth, options, bench, costs["berth"], template),
             "kube-scheduler": partial(_peer, options, costs["kube-scheduler"], template)}  # fmt: skip
    rates = alternate(bench, sides, runs=options.pod_runs, unit="pods/s")
    bench.record("pods_per_second", rates)
    bench.record("cpu_milliseconds_per_pod", costs)
    note = f"{options.pods} pods on {options.nodes} nodes, {options.pod_profile}"
    peers = {"kube-scheduler": rates["kube-scheduler"]}
    bench.figure("pods-berth", rates["berth"], "jobs/s", peers=peers, note=note)
    ratios = [ours / theirs for ours, theirs in zip(rates["berth"], rates["kube-scheduler"], strict=True)]
    bench.figure("pods-ratio", ratios, "x kube-scheduler alone", accept=0.8, aim=0.95)
    for side, runs in costs.items():
        means = {
            name: sum(each.get(name, 0.0) for each in runs) / len(runs)
            for name in sorted({name for each in runs for name in each})
        }
        bench.say(f"{side}: CPU a pod: " + ", ".join(f"{name} {value:.1f} ms" for name, value in means.items() if value >= 0.05))


def _berth(options: argparse.Namespace, bench: Bench, costs: list[dict[str, float]], template: list[Json]) -> float:
    with simulated_cluster(nodes=options.nodes) as cluster:
        cluster.print_line("O", 0, b"")
        cluster.print_line("E", 0, b"")
        with berth_on(cluster, profile=options.pod_profile, nodes=options.nodes) as berth:
            warm(berth, bench, cluster, template)
            before, asked_before = _cpu(cluster, berth), cluster.requests()
            rate = run_noops(berth, bench, options.pods, SPEC)
            costs.append(_per_pod(before, _cpu(cluster, berth), options.pods))
            asked = cluster.requests() - asked_before
            bench.record("requests_per_job", {name: round(count / options.pods, 2) for name, count in asked.most_common()})
            changes = sum(count for name, count in asked.items() if name.split()[0] not in ("list", "watch"))
            bench.figure("pods-requests", changes / options.pods, "requests/job", aim=6, less_is_better=True)
            return rate


def warm(berth: RunningPlatform, bench: Bench, cluster: SimulatedCluster, template: list[Json]) -> None:
    """The first jobs of a process pay for imports and caches; and one of their pods is what the peer makes."""
    job = berth.api("POST", "/jobs", {"spec": {**SPEC, "resources": {**SPEC["resources"], "gpu": 1}}, "tenant": berth.tenant})
    while not template:
        found = cluster.request("GET", "/api/v1/pods?labelSelector=berth.dev%2Fkind%3Dtask")["items"]
        template += [pod for pod in found if pod["status"].get("phase") == "Running"][:1]
        time.sleep(0.1)
    berth.api("POST", f"/jobs/{job['id']}/stop", {"grace_seconds": 0})
    run_noops(berth, bench, WARM_JOBS, SPEC)


def _peer(options: argparse.Namespace, costs: list[dict[str, float]], template: list[Json]) -> float:
    with simulated_cluster(nodes=options.nodes) as cluster:
        cluster.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}})
        account = f"/api/v1/namespaces/{NAMESPACE}/serviceaccounts"
        cluster.request("POST", account, {"metadata": {"name": "berth-task"}})
        transport = ClientTransport(cluster.kubeconfig.read_text(), connections=CLIENTS + 2)
        api = Api(transport, rate=1e6, burst=1e6)
        _run_pods(api, template[0], WARM_JOBS)
        before = _cpu(cluster)
        rate = _run_pods(api, template[0], options.pods)
        costs.append(_per_pod(before, _cpu(cluster), options.pods))
        transport.close()
        return rate


def _run_pods(api: Api, template: Json, count: int) -> float:
    """Pods per second from the first create until a watch has shown the last one as succeeded."""
    mark = uuid.uuid4().hex[:8]
    documents = [bare_pod(template, f"{mark}-{number}", mark) for number in range(count)]
    left = {document["metadata"]["name"] for document in documents}
    done = threading.Event()
    began = time.monotonic()
    version = api.get(f"/api/v1/namespaces/{NAMESPACE}/pods", labelSelector=f"bench={mark}")["metadata"]["resourceVersion"]

    def watch() -> None:
        at = version
        while left:
            query = {"watch": True, "resourceVersion": at, "labelSelector": f"bench={mark}"}
            for line in api.lines(f"/api/v1/namespaces/{NAMESPACE}/pods", silence_seconds=60.0, **query):
                pod = json.loads(line)["object"]
                at = pod["metadata"]["resourceVersion"]
                if (pod.get("status") or {}).get("phase") == "Succeeded":
                    left.discard(pod["metadata"]["name"])
                if not left:
                    break
        done.set()

    threading.Thread(target=watch, daemon=True).start()
    with ThreadPoolExecutor(CLIENTS) as pool:
        list(pool.map(lambda document: api.create(f"/api/v1/namespaces/{NAMESPACE}/pods", document), documents))
    if not done.wait(STALL_SECONDS_MAX):
        raise BenchError(f"{len(left)} pods of {count} have not ended after {STALL_SECONDS_MAX:.0f} s")
    return count / (time.monotonic() - began)


def bare_pod(template: Json, name: str, mark: str) -> Json:
    """The pod without what holds it back, and without the node that Berth chose."""
    spec = copy.deepcopy(template["spec"])
    for word in ("nodeName", "affinity", "schedulingGates", "priority", "preemptionPolicy"):
        spec.pop(word, None)
    for container in spec["containers"]:
        for amounts in container["resources"].values():
            amounts.pop("nvidia.com/gpu", None)
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "labels": {"bench": mark}}, "spec": spec}


def _cpu(cluster: SimulatedCluster, berth: RunningPlatform | None = None) -> dict[str, float]:
    ours = {f"berth {name}": used for name, used in berth.cpu_seconds().items()} if berth is not None else {}
    return {**cluster.cpu_seconds(), **ours}


def _per_pod(before: dict[str, float], after: dict[str, float], count: int) -> dict[str, float]:
    return {name: 1_000 * (used - before.get(name, 0.0)) / count for name, used in after.items()}
