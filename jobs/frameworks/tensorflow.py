"""`tensorflow`: `tf.distribute` over the tasks of the job, told by TF_CONFIG.

Workers alone reduce together (MultiWorkerMirroredStrategy): worker 0 is TensorFlow's chief, and the job succeeds when all have.
With a role `chief` (ParameterServerStrategy) its end decides, and the others, which never end by themselves, are stopped after
it; a parameter server or worker that is lost ends the job, because the chief would wait for it for ever. An evaluator decides
nothing."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence

from clusters.engines.interface import AddressOf, PortOf
from clusters.engines.interface import Text as TaskText
from jobs import bounds
from jobs.frameworks.agent import gang, json_text
from jobs.frameworks.base import BaseFramework
from jobs.frameworks.environment import lay_out
from jobs.frameworks.interface import Deciding, FrameworkJob, FrameworkRole, GangPlan, RoleShape
from jobs.frameworks.roles import ANY, AT_MOST_ONE, REQUIRED, SINGLE, check_roles, ring, served
from jobs.frameworks.task_run import Requirement, TaskRun
from kernel.errors import FieldError
from kernel.words import Text

CHIEF, WORKER, SERVERS, EVALUATOR = "chief", "worker", "ps", "evaluator"
PORT = "berth-tf"
_LAWS = {CHIEF: AT_MOST_ONE, WORKER: REQUIRED, SERVERS: ANY, EVALUATOR: AT_MOST_ONE}
_TENSORFLOW = Requirement("tensorflow", "pip install tensorflow", module="tensorflow")
_SERVE = """python3 -c '
import tensorflow as tf
resolver = tf.distribute.cluster_resolver.TFConfigClusterResolver()
server = tf.distribute.Server(resolver.cluster_spec(), job_name=resolver.task_type, task_index=resolver.task_id, protocol="grpc")
server.join()'"""

PAGE = """## tensorflow

| variable | meaning |
|---|---|
| `TF_CONFIG` | Addresses of all tasks by role, and the role and index of this one, as `tf.distribute` reads it. |

| roles | strategy | the job ends |
|---|---|---|
| `worker` | MultiWorkerMirroredStrategy; worker 0 is the chief | when all workers have succeeded, or one has failed |
| `chief`, `worker`, `ps` | ParameterServerStrategy | as the chief ends; the others are stopped then |
| and `evaluator` | evaluates checkpoints beside training | no change: it is stopped with the others |

`ps` needs no command: it serves. With a chief, neither does `worker`. Tasks go on from a checkpoint in the next attempt:
`tf.keras.callbacks.BackupAndRestore(os.environ["BERTH_CHECKPOINT_DIR"])` with `checkpoint` and `retry` in the job file. Keras 3
does not train under MultiWorkerMirroredStrategy; the package tf-keras with `TF_USE_LEGACY_KERAS=1` does.
"""


class TensorFlow(BaseFramework):
    name = "tensorflow"
    page = PAGE
    reserved_env = frozenset({"TF_CONFIG"})

    def completion(self, roles: Collection[str]) -> Deciding:
        return Deciding(CHIEF, frozenset({WORKER, SERVERS}))

    def placement(self, roles: Mapping[str, RoleShape]) -> Mapping[str, str]:
        return served(roles, SERVERS) if SERVERS in roles else ring(roles)

    def default_command(self, role: str, roles: Collection[str]) -> str | None:
        return _SERVE if role == SERVERS or (role == WORKER and CHIEF in roles) else None

    def validate(self, roles: Mapping[str, RoleShape]) -> Sequence[FieldError]:
        laws = {**_LAWS, CHIEF: SINGLE} if SERVERS in roles else _LAWS
        return [*check_roles(self.name, laws, roles), *_check_size(roles)]

    def compile(self, job: FrameworkJob) -> GangPlan:
        layout = lay_out(job)
        cluster = json_text({role.name: _addresses(role) for role in layout.roles if role.name != EVALUATOR})
        return gang(layout, lambda rank, role, index: _run(cluster, role, index))


FRAMEWORK = TensorFlow()


def _addresses(role: FrameworkRole) -> list[TaskText]:
    return [(AddressOf(role.name, index), ":", PortOf(role.name, index, PORT)) for index in range(role.count)]


def _check_size(roles: Mapping[str, RoleShape]) -> Iterator[FieldError]:
    count = sum(shape.replicas_max for shape in roles.values())
    if count > bounds.TENSORFLOW_TASKS:
        yield FieldError(
            "/roles",
            "too_many_tasks",
            Text(
                f"A TensorFlow job has at most {bounds.TENSORFLOW_TASKS} tasks, not {count}: each has the addresses of all.",
                f"TensorFlow 作业最多 {bounds.TENSORFLOW_TASKS} 个任务，而非 {count} 个：每个任务都保存全部地址。",
            ),
            Text("Lower replicas.", "请减少副本数。"),
        )


def _run(cluster: TaskText, role: FrameworkRole, index: int) -> TaskRun:
    own = json_text({"type": role.name, "index": index})
    config: TaskText = ('{"cluster": ', *cluster, ', "task": ', *own, "}")
    ports = () if role.name == EVALUATOR else (PORT,)
    return TaskRun(env={"TF_CONFIG": config}, ports=ports, requires=(_TENSORFLOW,))
