"""A Kubernetes control plane with nodes that kwok plays, and Berth beside it: for benchmarks of the Kubernetes engine.

    with simulated_cluster(nodes=1_000) as cluster, berth_on(cluster) as berth:
        berth.api("POST", "/jobs", {...})

What Berth starts there runs for SECONDS and succeeds, unless the job asks for GPUs: then it runs on. With `runs_on` everything
does, until it is stopped or `end_pod` ends it. Every container's log is the same file of the benchmark's, written as Berth's
wrapper writes it; what is appended to it appears in the logs of all.
"""

from __future__ import annotations

import base64
import contextlib
import json
import time
from collections import Counter
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import psutil

from bench.frame import Bench, BenchError, number, temporary_folder
from bench.platforms import RunningPlatform, running_platform
from tools.kubernetes.cluster import Cluster
from tools.kubernetes.control_plane import AUDIT_POLICY, NAMES
from tools.kubernetes.programs import Programs
from tools.kubernetes.simulated import TOLERATION
from tools.progress import Stop

CLUSTER, IMAGE, USER = "simulated", "bench.invalid/none:1", "berth"
SECONDS = 1
POOL_SECONDS_MAX = 600.0
STALL_SECONDS_MAX = 300.0
AUDIT_FILES = 20  # Of 100 MB each.
PLAYERS = 32  # Kubelets of a thousand nodes do not wait for each other's requests; kwok lets four of them ask at once.
MIB = 1024**2

_ENDS = """\
apiVersion: kwok.x-k8s.io/v1alpha1
kind: Stage
metadata: {name: task-ends}
spec:
  resourceRef: {apiGroup: v1, kind: Pod}
  selector:
    matchExpressions:
      - {key: '.metadata.deletionTimestamp', operator: DoesNotExist}
      - {key: '.status.phase', operator: In, values: ["Running"]}
      - {key: '.spec.containers.[].name', operator: In, values: ["task"]}
      - {key: '.spec.containers.[].resources.limits["nvidia.com/gpu"]', operator: DoesNotExist}
  delay: {durationMilliseconds: SECONDS000}
  next:
    statusTemplate: |
      {{ $now := Now | Quote }}
      phase: Succeeded
      conditions:
        - {type: Ready, status: "False", reason: PodCompleted, lastTransitionTime: {{ $now }}}
        - {type: ContainersReady, status: "False", reason: PodCompleted, lastTransitionTime: {{ $now }}}
      containerStatuses:
      {{ range .spec.containers }}
        - name: {{ .name | Quote }}
          image: {{ .image | Quote }}
          imageID: ""
          ready: false
          started: false
          restartCount: 0
          state:
            terminated: {exitCode: 0, reason: Completed, startedAt: {{ $now }}, finishedAt: {{ $now }}}
      {{ end }}
---
"""
_STOPS = """\
apiVersion: config.kwok.x-k8s.io/v1alpha1
kind: KwokConfiguration
options:
  enableDebuggingHandlers: true  # Logs; true by itself only where no options are given.
  podPlayStageParallelism: PLAYERS
  nodePlayStageParallelism: PLAYERS
  nodeLeaseParallelism: PLAYERS
---
apiVersion: kwok.x-k8s.io/v1alpha1
kind: Stage
metadata: {name: task-is-stopped}
spec:
  resourceRef: {apiGroup: v1, kind: Pod}
  selector:
    matchExpressions:
      - {key: '.metadata.deletionTimestamp', operator: Exists}
      - {key: '.status.phase', operator: In, values: ["Running"]}
  weight: 1
  next:
    statusTemplate: |
      {{ $now := Now | Quote }}
      phase: Failed
      containerStatuses:
      {{ range .status.containerStatuses }}
        - name: {{ .name | Quote }}
          image: {{ .image | Quote }}
          imageID: ""
          ready: false
          started: false
          restartCount: 0
          state:
            terminated:
              {exitCode: 143, reason: Error, startedAt: {{ .state.running.startedAt | Quote }}, finishedAt: {{ $now }}}
      {{ end }}
---
"""
_LOGS = """\
apiVersion: kwok.x-k8s.io/v1alpha1
kind: ClusterLogs
metadata: {name: all}
spec:
  logs: [{logsFile: LOG}]
"""


class SimulatedCluster(Cluster):
    """A cluster on loopback whose containers all have one log."""

    log: Path

    def print_line(self, stream: str, offset: int, data: bytes) -> None:
        """Append to the log of every container what its task prints at this offset; no data: the stream ends."""
        words = f"{stream}{offset}:{base64.b64encode(data).decode()}" if data else f"{stream}{offset}."
        kind = {"O": "stdout", "E": "stderr"}[stream]
        with self.log.open("a") as file:
            file.write(f"{datetime.now(UTC).isoformat().removesuffix('+00:00')}000Z {kind} F {words}\n")

    def end_pod(self, namespace: str, name: str) -> float:
        """Have the pod's container end with code 0, as its kubelet would say; when that was asked, by the monotonic clock."""
        now = datetime.now(UTC).isoformat(timespec="seconds").replace("+00:00", "Z")
        over = {"status": "False", "reason": "PodCompleted", "lastTransitionTime": now}
        ended = {"terminated": {"exitCode": 0, "reason": "Completed", "startedAt": now, "finishedAt": now}}
        container = {"name": "task", "image": IMAGE, "imageID": "", "ready": False, "restartCount": 0, "state": ended}
        status = {
            "phase": "Succeeded",
            "conditions": [{"type": "Ready", **over}, {"type": "ContainersReady", **over}],
            "containerStatuses": [container],
        }
        path = f"/api/v1/namespaces/{namespace}/pods/{name}/status"
        asked_at = time.monotonic()
        self.request("PATCH", path, {"status": status}, content_type="application/strategic-merge-patch+json")
        return asked_at

    def cpu_seconds(self) -> dict[str, float]:
        """What its programs have used so far."""
        found = {}
        for name in NAMES:
            if pid := self.control_plane.processes.process(name):
                times = psutil.Process(pid).cpu_times()
                found[name] = times.user + times.system
        return found

    def memory_bytes(self) -> dict[str, int]:
        """What its programs hold."""
        pids = {name: self.control_plane.processes.process(name) for name in NAMES}
        return {name: psutil.Process(pid).memory_info().rss for name, pid in pids.items() if pid}

    def requests(self, user: str = USER) -> Counter[str]:
        """How often this user has asked, by verb and resource: what the audit log still has."""
        found: Counter[str] = Counter()
        for path in sorted(self.control_plane.audit_log.parent.glob("audit*.log")):
            with path.open() as lines:
                for line in lines:
                    with contextlib.suppress(ValueError):
                        event = json.loads(line)
                        about = event.get("objectRef") or {}
                        part = f"/{about['subresource']}" if about.get("subresource") else ""
                        if event["user"]["username"] == user and event["stage"] == "ResponseComplete":
                            found[f"{event['verb']} {about.get('resource', '')}{part}"] += 1
        return found


@contextlib.contextmanager
def simulated_cluster(*, nodes: int, gpus: int = 8, runs_on: bool = False) -> Iterator[SimulatedCluster]:
    """The cluster while the block runs. With `runs_on` no pod ends by itself, and the audit log has Berth's requests alone: what
    is measured lasts, and simulated nodes renew their leases all the time. Raises BenchError where its programs are missing."""
    programs = Programs.cached()
    if missing := programs.missing():
        raise BenchError(f"not built yet: {', '.join(missing)}. `make kubernetes` builds them from their Go modules.")
    with temporary_folder("kubernetes") as folder:
        (folder / "logs").mkdir()
        log = folder / "logs" / "all.log"
        log.touch()
        config = folder / "kwok.yaml"
        stages = _STOPS.replace("PLAYERS", str(PLAYERS)) if runs_on else _ENDS.replace("SECONDS", str(SECONDS))
        config.write_text(stages + _LOGS.replace("LOG", str(log)))
        options = {"kwok": [f"--config={config}"]}
        if runs_on:
            policy = folder / "audit.json"
            rules = [{"level": "Metadata", "users": [USER]}, {"level": "None"}]
            policy.write_text(json.dumps({**AUDIT_POLICY, "rules": rules}))
            options["kube-apiserver"] = [f"--audit-policy-file={policy}", f"--audit-log-maxbackup={AUDIT_FILES}"]
        cluster = SimulatedCluster(folder / "cluster", programs, options=options, dies_with_caller=True)
        cluster.log = log
        try:
            cluster.up(nodes=0)
            cluster.add_simulated_nodes(nodes, gpus=gpus)
            yield cluster
        except Stop as stop:
            raise BenchError(str(stop)) from None
        finally:
            cluster.remove()


@contextlib.contextmanager
def berth_on(
    cluster: SimulatedCluster, *, profile: str = "embedded", nodes: int, pod_addresses: bool = True
) -> Iterator[RunningPlatform]:
    """A new platform to which the cluster was added, as soon as all its nodes are in pools; its local cluster takes no jobs.
    Without `pod_addresses` tasks of a job are told each other's names: nothing there resolves them, and nothing asks."""
    with running_platform(profile=profile) as berth:
        config = {
            "default_image": IMAGE,
            "pod_addresses": pod_addresses,
            "tolerations": [dict(TOLERATION)],
            "requests_per_second": 2_000.0,
            "requests_burst": 2_000.0,
        }
        kubeconfig = cluster.kubeconfig_for(USER, ["system:masters"]).read_text()
        body = {"name": CLUSTER, "kind": "kubernetes", "credentials": kubeconfig, "config": config}
        berth.api("POST", "/clusters", body)
        deadline = time.monotonic() + POOL_SECONDS_MAX
        known = f"SELECT count(*) FROM clusters_node JOIN clusters_cluster c ON c.id = cluster_id WHERE c.name = '{CLUSTER}'"
        while berth.rows(known)[0][0] < nodes:
            if time.monotonic() > deadline:
                raise BenchError(f"not all of {nodes} nodes are in a pool after {POOL_SECONDS_MAX:.0f} s")
            time.sleep(0.5)
        yield berth


def wait_for(berth: RunningPlatform, bench: Bench, sql: str, count: int, what: str) -> None:
    """Until the query counts so many rows. Raises BenchError once it has counted no more of them for STALL_SECONDS_MAX."""
    most, at = -1, time.monotonic()
    while (found := int(berth.rows(sql)[0][0])) < count:
        if found > most:
            most, at = found, time.monotonic()
        if time.monotonic() - at > STALL_SECONDS_MAX:
            raise BenchError(f"{found} of {count} {what}, and no more for {STALL_SECONDS_MAX:.0f} s")
        bench.progress(f"{found} of {count} {what}")
        time.sleep(0.5)


def cpu(cluster: SimulatedCluster, berth: RunningPlatform) -> dict[str, float]:
    """Seconds of CPU by program, Berth's own with `berth` before their names."""
    return {**cluster.cpu_seconds(), **{f"berth {name}": used for name, used in berth.cpu_seconds().items()}}


def spent(before: dict[str, float], after: dict[str, float], *, per: float) -> dict[str, float]:
    """Milliseconds of CPU for each of what there was, by program; `berth` is the sum of Berth's own."""
    found = {name: 1_000 * (used - before.get(name, 0.0)) / per for name, used in after.items()}
    return {"berth": sum(each for name, each in found.items() if name.startswith("berth ")), **found}


def memory(cluster: SimulatedCluster, berth: RunningPlatform) -> dict[str, float]:
    """MiB by program: what Berth's own have to themselves and of what they share, and what the cluster's hold."""
    ours = {f"berth {name}": proportional / MIB for name, (_, proportional) in berth.memory_bytes().items()}
    return {"berth": sum(ours.values()), **ours, **{name: size / MIB for name, size in cluster.memory_bytes().items()}}


def shown(values: dict[str, float], unit: str) -> str:
    """What is worth a word of several values."""
    return ", ".join(f"{name} {number(value)} {unit}" for name, value in values.items() if value >= 0.05)
