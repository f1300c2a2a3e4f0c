"""`queue`: a dispatcher hands the shards of the job out to workers, so that a slow or lost worker loses none.

The command of role `dispatcher` prints one shard a line. The commands of all other roles are run once for each shard by
`queue_worker.py`, but for role `consumer`, whose program asks the dispatcher for shards itself. The end of the dispatcher is that
of the job; a worker that is lost is started again alone. `ordered` is the same with a first deal."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from clusters.engines.interface import AddressOf, FileOf, PortOf
from clusters.engines.interface import Text as TaskText
from jobs.frameworks.agent import gang
from jobs.frameworks.base import BaseFramework
from jobs.frameworks.environment import lay_out
from jobs.frameworks.interface import Deciding, FrameworkJob, FrameworkRole, GangPlan, RoleShape
from jobs.frameworks.roles import SINGLE, check_roles
from jobs.frameworks.task_run import AgentText, TaskRun
from kernel.errors import FieldError
from kernel.words import Text

DISPATCHER, CONSUMER = "dispatcher", "consumer"
PORT = "berth-queue"
WORKER_RETRIES = 10  # What loses a worker its shard again and again fails the shard first.
_DISPATCHER_FILE, _WORKER_FILE = "queue_dispatcher.py", "queue_worker.py"
_FILES: Mapping[str, TaskText] = {
    name: (Path(__file__).with_name(name).read_text(encoding="utf-8"),)
    for name in (_DISPATCHER_FILE, _WORKER_FILE, "queue_shards.py", "task_http.py")
}

PAGE = """## queue

The command of role `dispatcher` (one task) prints one shard a line; the command of each other role is run once for each shard.
See [queue](frameworks/queue.md) for its settings and for programs that ask for shards themselves (role `consumer`).

| variable | meaning |
|---|---|
| `BERTH_SHARD` | The shard: a line that the dispatcher's command printed. In workers. |
| `BERTH_SHARD_INDEX`, `BERTH_SHARD_COUNT` | Its number, from 0, and how many shards there are. In workers. |
| `BERTH_SHARD_TRY` | Which try of the shard this is, from 1. In workers. |
| `BERTH_QUEUE_URL` | Where the dispatcher hands shards out. |
| `BERTH_ATTEMPT_KEY` | Secret of this attempt, by which its tasks know each other. |
"""


class Queue(BaseFramework):
    name = "queue"
    page = PAGE
    dealing: tuple[str, ...] = ()  # What the dispatcher is told beside its command.

    def completion(self, roles: Collection[str]) -> Deciding:
        return Deciding(DISPATCHER)

    def validate(self, roles: Mapping[str, RoleShape]) -> Sequence[FieldError]:
        return [*check_roles(self.name, {DISPATCHER: SINGLE}, roles, takes_others=True), *_check_workers(roles)]

    def compile(self, job: FrameworkJob) -> GangPlan:
        url: TaskText = ("http://", AddressOf(DISPATCHER, 0), ":", PortOf(DISPATCHER, 0, PORT))
        plan = gang(lay_out(job, chief=DISPATCHER), lambda rank, role, index: self._run(role, url))
        return replace(plan, files={**plan.files, **_FILES})

    def _run(self, role: FrameworkRole, url: TaskText) -> TaskRun:
        env = {"BERTH_QUEUE_URL": url}
        if role.name == DISPATCHER:
            command = _program(_DISPATCHER_FILE, (*self.dealing, "--", *role.argv))
            return TaskRun(env=env, ports=(PORT,), command=command, secret=True, ready_port=PORT)
        return TaskRun(
            env=env,
            command=None if role.name == CONSUMER else _program(_WORKER_FILE, ("--", *role.argv)),
            secret=True,
            after=(DISPATCHER,),
            max_retry=WORKER_RETRIES,
        )


FRAMEWORK = Queue()


def _program(file: str, arguments: tuple[str, ...]) -> tuple[AgentText, ...]:
    return (("python3",), (FileOf(file),), *((argument,) for argument in arguments))


def _check_workers(roles: Mapping[str, RoleShape]) -> Iterator[FieldError]:
    if DISPATCHER in roles and len(roles) == 1:
        yield FieldError(
            "/roles",
            "role_missing",
            Text("The dispatcher has no workers to hand shards to.", "dispatcher 没有可分发分片的 worker。"),
            Text("Add roles: {worker: ...}.", "请添加 roles: {worker: ...}。"),
        )
