"""`ray`: a Ray cluster of its own. The head runs the cluster's services and the job's program, workers of several kinds join.

Who reaches a Ray cluster runs code in it, and Ray listens on all addresses of the machine: each attempt has a token of its own.
Each task has its own ports and its own short temporary folder, so that tasks of one machine do not meet."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from clusters.engines.interface import AddressOf, PortOf
from jobs.frameworks.headed import HeadedFramework
from jobs.frameworks.interface import FrameworkJob, FrameworkRole, RoleShape
from jobs.frameworks.roles import check_memory
from jobs.frameworks.task_run import AgentText, Requirement, Scratch, Service, TaskRun
from kernel.errors import FieldError

HEAD = "head"
GCS, LAST = "berth-gcs", "berth-env"  # What listens on the second is there before a node joins, and little before.
_PORTS = {  # Ports of every node, by option. What runs the tasks takes ports that the system gives out.
    "node-manager-port": "berth-node",
    "object-manager-port": "berth-objects",
    "dashboard-agent-listen-port": "berth-agent",
    "dashboard-agent-grpc-port": "berth-agent-rpc",
    "runtime-env-agent-port": LAST,
    "metrics-export-port": "berth-metrics",
}
_HEAD_PORTS = {"port": GCS, "ray-client-server-port": "berth-client", "dashboard-port": "berth-page"}
_HEAD_PORT_VARIABLES = {"DASHBOARD_METRIC_PORT": "berth-page-mon", "AUTOSCALER_METRIC_PORT": "berth-scale-mon"}
_LOOPBACK = "127.0.0.2"  # Ray takes 127.0.0.1 for a mistake, and another address of the machine in its place.
_MIB_MIN = 768  # A head: 430 to 650 in nine processes, before any task (Ray 2.60).
_STORE_SHARE = 0.3  # Of the task's memory, for objects, as Ray has it.
_STORE_BYTES_MIN = 80 * 1024**2  # Ray takes no less than 75 MiB.
_STORE_BYTES_MAX = 10**10  # Beside /dev/shm; Ray takes no more there.
_SHM_SHARE = 0.95
_ADDRESS = (AddressOf(HEAD, 0), ":", PortOf(HEAD, 0, GCS))
_RAY = Requirement("ray", "pip install 'ray[default]'", program="ray")

PAGE = """## ray

| variable | meaning |
|---|---|
| `RAY_ADDRESS` | Address and port of the head: `ray.init()` without arguments joins the job's cluster. |
| `RAY_AUTH_MODE`, `RAY_AUTH_TOKEN` | `token`, and the secret of this attempt without which the cluster refuses everything. |
| `RAY_USAGE_STATS_ENABLED` | 0: nothing is told to Ray's makers. |
| `DASHBOARD_METRIC_PORT`, `AUTOSCALER_METRIC_PORT` | At the head: ports of its own for two of its programs. |

`head` (one task) runs the job's program once all workers are there, and its end is the end of the job; without a command the head
serves until the job is stopped. Any other role is a kind of worker; its command, which may be left out, runs before it joins. A
worker has as many CPUs and GPUs as its role asked for, and 1 of a resource of the role's name:
`@ray.remote(resources={"learner": 0.01})` runs on the role `learner`. See [Ray](frameworks/ray.md).
"""


class Ray(HeadedFramework):
    name = "ray"
    page = PAGE
    head = HEAD
    reserved_env = frozenset({"RAY_ADDRESS", "RAY_AUTH_MODE", "RAY_AUTH_TOKEN", "RAY_USAGE_STATS_ENABLED", *_HEAD_PORT_VARIABLES})

    def validate(self, roles: Mapping[str, RoleShape]) -> Sequence[FieldError]:
        return [*super().validate(roles), *check_memory(self.name, _MIB_MIN, roles)]

    def head_run(self, job: FrameworkJob, role: FrameworkRole) -> TaskRun:
        cpus = role.cpu_millis // 1000 if len(job.roles) > 1 else role.cores
        argv = (*_start(role, 0, cpus, {**_PORTS, **_HEAD_PORTS}), ("--head",), ("--include-dashboard=false",))
        run = _run(job, (*_PORTS.values(), *_HEAD_PORTS.values(), *_HEAD_PORT_VARIABLES.values()))
        variables = {name: (PortOf(HEAD, 0, port),) for name, port in _HEAD_PORT_VARIABLES.items()}
        return replace(run, env={**run.env, **variables}, services=(Service("ray", argv, GCS),), ready_port=GCS)

    def worker_run(self, job: FrameworkJob, role: FrameworkRole, index: int) -> TaskRun:
        argv = (*_start(role, index, role.cores, _PORTS), ("--address=", *_ADDRESS))
        return replace(_run(job, tuple(_PORTS.values())), command=argv, ready_port=LAST)


FRAMEWORK = Ray()


def _run(job: FrameworkJob, ports: tuple[str, ...]) -> TaskRun:
    """What head and workers share. The address is there twice: for the task's processes, and for a terminal beside them."""
    return TaskRun(
        env={"RAY_ADDRESS": _ADDRESS, "RAY_AUTH_MODE": ("token",), "RAY_USAGE_STATS_ENABLED": ("0",)},
        extra_env={"RAY_ADDRESS": _ADDRESS},
        secret_env={"RAY_AUTH_TOKEN": job.key},
        ports=ports,
        requires=(_RAY,),
        loopback=_LOOPBACK,
    )


def _start(role: FrameworkRole, index: int, cpus: int, ports: Mapping[str, str]) -> tuple[AgentText, ...]:
    return (
        *(("ray",), ("start",), ("--block",)),
        ("--node-ip-address=", AddressOf(role.name, index)),
        *((f"--{option}=", PortOf(role.name, index, port)) for option, port in ports.items()),
        ("--temp-dir=", Scratch("ray")),
        (f"--num-cpus={cpus}",),
        (f"--num-gpus={role.gpu_millis // 1000}",),
        (f"--resources={json.dumps({role.name: 1})}",),
        *((option,) for option in _memory(role)),
    )


def _memory(role: FrameworkRole) -> Iterator[str]:
    """Ray would divide up all memory of the machine where it cannot see the task's limit."""
    if role.memory_bytes:
        most = int(role.shm_bytes * _SHM_SHARE) or _STORE_BYTES_MAX
        store = max(_STORE_BYTES_MIN, min(int(role.memory_bytes * _STORE_SHARE), most))
        yield f"--object-store-memory={store}"
        yield f"--memory={max(0, role.memory_bytes - store)}"
