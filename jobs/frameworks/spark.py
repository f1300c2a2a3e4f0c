"""`spark`: a standalone cluster for the length of a job, whose driver is a task: cluster mode, for every language.

The driver's task runs the master, and beside it the job's command. Other roles run a worker each, whose one executor has the
task's cores and memory. All settings are in a generated spark-defaults.conf, so that programs build their session without any.
Spark replaces an executor that is lost; a worker that ends is started again alone. A driver without other roles runs Spark in its
own process (local mode)."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from itertools import chain

from clusters.engines.interface import AddressOf, PortOf
from jobs.frameworks.agent import KEY
from jobs.frameworks.headed import HeadedFramework
from jobs.frameworks.interface import FrameworkJob, FrameworkRole, RoleShape
from jobs.frameworks.roles import check_memory
from jobs.frameworks.task_run import AgentText, OwnVariable, Requirement, Scratch, Service, TaskRun, WorkFolder
from kernel.errors import FieldError

Settings = Mapping[str, str | AgentText]

DRIVER, EXECUTOR = "driver", "executor"
MASTER, MASTER_PAGE, WORKER, WORKER_PAGE = "berth-spark", "berth-spark-ui", "berth-worker", "berth-worker-ui"
RPC, BLOCKS, DRIVER_PAGE = "berth-driver", "berth-blocks", "berth-driver-ui"
MIB = 1024**2
DAEMON_MIB = 256  # Heap of a master or worker, which take no more in all: 231 MiB resident (Spark 4.3, Java 17).
HEAP_MIB_MIN = 512  # Spark refuses less than 450.
TASK_MIB_MIN = HEAP_MIB_MIN + 2 * DAEMON_MIB
_REQUIRES = (
    Requirement("pyspark", "pip install pyspark, or set SPARK_HOME", module="pyspark", variable="SPARK_HOME"),
    Requirement("Java", "apt-get install openjdk-17-jre-headless, or set JAVA_HOME", program="java", variable="JAVA_HOME"),
)
_PACKAGE = "import importlib.util as u, os; print(os.path.dirname(u.find_spec('pyspark').origin))"
_CLASS = f"""exec "${{SPARK_HOME:-$(python3 -c "{_PACKAGE}")}}/bin/spark-class" "$@\""""
_MASTER_URL = ("spark://", AddressOf(DRIVER, 0), ":", PortOf(DRIVER, 0, MASTER))
_SHARED: Settings = {
    "spark.authenticate": "true",
    "spark.authenticate.secret": (OwnVariable(KEY),),
    "spark.master.rest.enabled": "false",  # It takes programs from strangers, whatever the secret is.
    "spark.master.ui.decommission.allow.mode": "DENY",
    "spark.ui.killEnabled": "false",
}
_DRIVER: Settings = {
    "spark.driver.host": (AddressOf(DRIVER, 0),),
    "spark.driver.bindAddress": (AddressOf(DRIVER, 0),),
    "spark.driver.port": (PortOf(DRIVER, 0, RPC),),
    "spark.driver.blockManager.port": (PortOf(DRIVER, 0, BLOCKS),),
    "spark.ui.showConsoleProgress": "false",  # It is drawn for a screen, over and over.
    "spark.ui.port": (PortOf(DRIVER, 0, DRIVER_PAGE),),
    "spark.eventLog.enabled": "true",
    "spark.eventLog.dir": (WorkFolder("spark-events"),),
    "spark.shuffle.readHostLocalDisk": "false",  # Tasks that have the same address have folders of their own all the same.
}

PAGE = f"""## spark

| variable | meaning |
|---|---|
| `SPARK_CONF_DIR` | Folder of the generated spark-defaults.conf: master, addresses, ports, secret, and sizes. |
| `SPARK_LOCAL_IP`, `SPARK_LOCAL_HOSTNAME` | Address of this task. |
| `SPARK_LOCAL_DIRS` | A private folder for shuffled data, which goes with the task. |
| `SPARK_DAEMON_MEMORY` | Heap of master and workers. |
| `PYTHONPATH` | Begins with the working directory, so that executors find the job's modules. |

`driver` (one task) runs the master and the program, whose end is the end of the job; without a command it serves. All other roles
are executors and need no command. A driver alone is Spark in one process. `outputs: [spark-events]` keeps the driver's event log,
`outputs: [spark-work]` what executors printed. A task needs {TASK_MIB_MIN} MiB of memory. More: [Spark](frameworks/spark.md).
"""


class Spark(HeadedFramework):
    name = "spark"
    page = PAGE
    head = DRIVER
    worker = EXECUTOR
    reserved_env = frozenset(
        {"SPARK_CONF_DIR", "SPARK_LOCAL_IP", "SPARK_LOCAL_HOSTNAME", "SPARK_LOCAL_DIRS", "SPARK_DAEMON_MEMORY"}
    )

    def default_command(self, role: str, roles: Collection[str]) -> str | None:
        return super().default_command(role, roles) if len(roles) > 1 else None

    def validate(self, roles: Mapping[str, RoleShape]) -> Sequence[FieldError]:
        return [*super().validate(roles), *check_memory(self.name, TASK_MIB_MIN, roles)]

    def head_run(self, job: FrameworkJob, role: FrameworkRole) -> TaskRun:
        executors = [other for other in job.roles if other.name != DRIVER]
        run = _run(role, 0, {**_SHARED, **_DRIVER, **_sizes(role, executors)}, (RPC, BLOCKS, DRIVER_PAGE))
        if not executors:
            return run
        master = Service("master", _daemon("master.Master", role, 0, MASTER, MASTER_PAGE), MASTER)
        return replace(run, ports=(MASTER, MASTER_PAGE, *run.ports), services=(master,), ready_port=MASTER)

    def worker_run(self, job: FrameworkJob, role: FrameworkRole, index: int) -> TaskRun:
        size = (("--cores",), (f"{role.cores}",), ("--memory",), (f"{_room_mib(role)}m",))
        rest: Sequence[AgentText] = (*size, ("--work-dir",), (WorkFolder("spark-work"),), _MASTER_URL)
        # Only as an option of its own Java has each executor a port of its own: what the driver sets holds for all.
        java: AgentText = (" -Dspark.blockManager.port=", PortOf(role.name, index, BLOCKS))
        run = _run(role, index, _SHARED, (WORKER, WORKER_PAGE, BLOCKS), java)
        return replace(run, command=(*_daemon("worker.Worker", role, index, WORKER, WORKER_PAGE), *rest), ready_port=WORKER)


FRAMEWORK = Spark()


def _run(role: FrameworkRole, index: int, settings: Settings, ports: tuple[str, ...], java: AgentText = ()) -> TaskRun:
    """What all tasks share. Java is told its size: what it reads of control groups in a sandbox misleads or ends it."""
    address = (AddressOf(role.name, index),)
    lines = [(f"{name} ", *(value if isinstance(value, tuple) else (value,)), "\n") for name, value in settings.items()]
    options: AgentText = (f"-XX:-UseContainerSupport -XX:ActiveProcessorCount={role.cores}", *java, "\n")
    return TaskRun(
        env={"SPARK_LOCAL_IP": address, "SPARK_LOCAL_HOSTNAME": address, "SPARK_DAEMON_MEMORY": (f"{DAEMON_MIB}m",)},
        ports=ports,
        secret=True,
        requires=_REQUIRES,
        files={"conf/spark-defaults.conf": tuple(chain.from_iterable(lines)), "conf/java-opts": options},
        extra_env={
            "SPARK_CONF_DIR": (Scratch("conf"),),
            "SPARK_LOCAL_DIRS": (Scratch("local"),),
            "PYTHONPATH": (WorkFolder("."), ":", OwnVariable("PYTHONPATH")),
        },
    )


def _daemon(name: str, role: FrameworkRole, index: int, port: str, page: str) -> tuple[AgentText, ...]:
    """The command of a master or worker, with the address and the ports of its task."""
    places = (("--host",), (AddressOf(role.name, index),), ("--port",), (PortOf(role.name, index, port),))
    program = (("sh",), ("-c",), (_CLASS,), ("spark-class",), (f"org.apache.spark.deploy.{name}",))
    return (*program, *places, ("--webui-port",), (PortOf(role.name, index, page),))


def _sizes(driver: FrameworkRole, executors: Sequence[FrameworkRole]) -> Settings:
    """Executors of an application have one size. Where there may be fewer than there are, Spark gives back those that idle."""
    if not executors:
        return {"spark.master": f"local[{driver.cores}]", "spark.driver.memory": f"{_room_mib(driver)}m"}
    settings: dict[str, str | AgentText] = {
        "spark.master": _MASTER_URL,
        "spark.driver.memory": f"{_heap_mib(driver)}m",
        "spark.executor.memory": f"{min(map(_heap_mib, executors))}m",
        "spark.executor.cores": f"{min(role.cores for role in executors)}",
    }
    least, most = sum(role.count_min for role in executors), sum(role.count for role in executors)
    if least < most:
        counts = {"minExecutors": f"{least}", "maxExecutors": f"{most}", "initialExecutors": f"{most}"}
        dynamic = {"enabled": "true", "shuffleTracking.enabled": "true", **counts}
        settings |= {f"spark.dynamicAllocation.{name}": value for name, value in dynamic.items()}
    return settings


def _room_mib(role: FrameworkRole) -> int:
    """What a master or worker leaves of its task's memory."""
    return max(HEAP_MIB_MIN, role.memory_bytes // MIB - DAEMON_MIB)


def _heap_mib(role: FrameworkRole) -> int:
    """What Java, Python and native code leave of that for the heap."""
    room = _room_mib(role)
    return max(HEAP_MIB_MIN, room - max(DAEMON_MIB, room // 5))
