"""`dask`: a Dask cluster of the job's own. The scheduler's task runs the job's program beside it; workers of several kinds join.

Who reaches a Dask scheduler runs code in its workers, and Dask knows no other lock than TLS: the tasks of an attempt speak by a
certificate of their own, which no other job has."""

from __future__ import annotations

from clusters.engines.interface import AddressOf, PortOf
from jobs.frameworks.certificate import certificate_of
from jobs.frameworks.headed import HeadedFramework
from jobs.frameworks.interface import FrameworkJob, FrameworkRole
from jobs.frameworks.task_run import AgentText, Requirement, Scratch, Service, TaskRun

SCHEDULER = "scheduler"
PORT, PAGE_PORT = "berth-dask", "berth-page"
DEATH_SECONDS = 60  # That a worker looks for a scheduler that it has lost.
_ADDRESS = ("tls://", AddressOf(SCHEDULER, 0), ":", PortOf(SCHEDULER, 0, PORT))
_TLS = "DASK_DISTRIBUTED__COMM__TLS__"
_PARTIES = ("SCHEDULER", "WORKER", "CLIENT")
_DASK = Requirement("dask", "pip install distributed", module="distributed")

PAGE = f"""## dask

| variable | meaning |
|---|---|
| `DASK_SCHEDULER_ADDRESS` | Where the scheduler is: `Client()` without arguments joins the job's cluster. |
| `DASK_DISTRIBUTED__COMM__REQUIRE_ENCRYPTION` | True: nothing is said in the open. |
| `{_TLS}CA_FILE` | The certificate that the tasks of this attempt trust, and no other. |
| `{_TLS}<PARTY>__CERT` | That certificate with its key, for `SCHEDULER`, `WORKER` and `CLIENT`. |

`scheduler` (one task) runs the job's program once all workers are there, and its end is the end of the job; without a command it
serves until the job is stopped. Any other role is a kind of worker; its command, which may be left out, runs before it joins. A
worker has as many threads as its role asked for cores, its memory, 1 of a resource of the role's name, and its GPUs as resource
`GPU`: `client.submit(train, resources={{"GPU": 1}})`. See [Dask](frameworks/dask.md).
"""


class Dask(HeadedFramework):
    name = "dask"
    page = PAGE
    head = SCHEDULER
    reserved_env = frozenset(
        {
            *("DASK_SCHEDULER_ADDRESS", "DASK_DISTRIBUTED__COMM__REQUIRE_ENCRYPTION", f"{_TLS}CA_FILE"),
            *(f"{_TLS}{party}__CERT" for party in _PARTIES),
        }
    )

    def head_run(self, job: FrameworkJob, role: FrameworkRole) -> TaskRun:
        argv = (("dask",), ("scheduler",), *_own(role, 0), ("--port=", PortOf(SCHEDULER, 0, PORT)))
        return _run(job, services=(Service("dask", argv, PAGE_PORT),))

    def worker_run(self, job: FrameworkJob, role: FrameworkRole, index: int) -> TaskRun:
        options = {
            "nthreads": role.cores,
            "memory-limit": role.memory_bytes or "auto",
            "resources": " ".join([f"{role.name}=1", *([f"GPU={gpus}"] if (gpus := role.gpu_millis // 1000) else [])]),
            "death-timeout": DEATH_SECONDS,
        }
        argv: tuple[AgentText, ...] = (
            *(("dask",), ("worker",), _ADDRESS, *_own(role, index), ("--worker-port=", PortOf(role.name, index, PORT))),
            *(("--no-nanny",), ("--local-directory=", Scratch("dask"))),  # The task starts a lost worker again, not a nanny.
            *((f"--{name}={value}",) for name, value in options.items()),
        )
        return _run(job, command=argv)


FRAMEWORK = Dask()


def _own(role: FrameworkRole, index: int) -> tuple[AgentText, ...]:
    """Without an address of its own, even a page that is switched off is open to all."""
    host = AddressOf(role.name, index)
    page = (host, ":", PortOf(role.name, index, PAGE_PORT))
    return ("--protocol=tls",), ("--host=", host), ("--dashboard-address=", *page)


def _run(job: FrameworkJob, *, command: tuple[AgentText, ...] | None = None, services: tuple[Service, ...] = ()) -> TaskRun:
    certificate, key = certificate_of(job.key)
    return TaskRun(
        env={
            "DASK_SCHEDULER_ADDRESS": _ADDRESS,
            "DASK_DISTRIBUTED__COMM__REQUIRE_ENCRYPTION": ("True",),
            f"{_TLS}CA_FILE": (certificate,),
        },
        secret_env={f"{_TLS}{party}__CERT": certificate + key for party in _PARTIES},
        ports=(PORT, PAGE_PORT),
        command=command,
        services=services,
        ready_port=PAGE_PORT,  # It opens last, and takes a connection that says nothing; the other warns of it.
        requires=(_DASK,),
    )
