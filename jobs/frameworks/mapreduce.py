"""`mapreduce`: Hadoop streaming's contract by plain commands, with the sorting and sending between them.

Each task of role `map` runs its command, whose output are lines `key<TAB>value`; `map_task.py` sorts them and sends each to the
task of role `reduce` that has its key. When all maps have succeeded, each reduce task runs its command on its sorted lines, into
the file `part-00000` (its index) where tasks start. A task that fails is started again alone; a map that failed for good tells
the reduce tasks, which go on without it where `completion` tolerates that."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from clusters.engines.interface import AddressOf, FileOf, PortOf, Text, TextPart
from jobs.frameworks.agent import gang
from jobs.frameworks.base import BaseFramework
from jobs.frameworks.environment import lay_out
from jobs.frameworks.interface import FrameworkJob, FrameworkRole, GangPlan, RoleShape
from jobs.frameworks.roles import REQUIRED, check_roles
from jobs.frameworks.task_run import Scratch, TaskRun
from kernel.errors import FieldError

MAP, REDUCE = "map", "reduce"
PORT = "berth-reduce"
RETRIES = 3  # Hadoop tries a task four times.
REDUCERS_FILE = "berth-reducers"
_MAP_FILE, _REDUCE_FILE = "map_task.py", "reduce_task.py"
_FILES: Mapping[str, Text] = {
    name: (Path(__file__).with_name(name).read_text(encoding="utf-8"),)
    for name in (_MAP_FILE, _REDUCE_FILE, "sorted_lines.py", "task_http.py")
}

PAGE = """## mapreduce

Role `map` prints lines `key<TAB>value`; role `reduce` reads those of its keys, sorted, and prints into the file `part-00000` (its
index) of the folder `MAPREDUCE_OUTPUT`, which the job may set, or else where it starts. See [mapreduce](frameworks/mapreduce.md).

| variable | meaning |
|---|---|
| `BERTH_INDEX`, `BERTH_MAP_COUNT` | In a map: which part of the input it takes, and of how many. |
| `BERTH_REDUCERS` | A file with index, address and port of each reduce task. |
| `BERTH_SHUFFLE_DIR` | Where lines are kept until they are reduced. |
| `BERTH_ATTEMPT_KEY` | Secret of this attempt, by which its tasks know each other. |
"""


class MapReduce(BaseFramework):
    name = "mapreduce"
    page = PAGE

    def validate(self, roles: Mapping[str, RoleShape]) -> Sequence[FieldError]:
        return list(check_roles(self.name, {MAP: REQUIRED, REDUCE: REQUIRED}, roles))

    def compile(self, job: FrameworkJob) -> GangPlan:
        [maps] = [role for role in job.roles if role.name == MAP]
        [reduces] = [role for role in job.roles if role.name == REDUCE]
        plan = gang(lay_out(job), lambda rank, role, index: _map(role) if role.name == MAP else _reduce(role, index, maps))
        return replace(plan, files={**plan.files, **_FILES, REDUCERS_FILE: tuple(_addresses(reduces))})


FRAMEWORK = MapReduce()


def _map(role: FrameworkRole) -> TaskRun:
    program = (("python3",), (FileOf(_MAP_FILE),))
    return TaskRun(
        env={"BERTH_REDUCERS": (FileOf(REDUCERS_FILE),)},
        command=(*program, ("run",), *((argument,) for argument in role.argv)),
        secret=True,
        max_retry=RETRIES,
        extra_env={"BERTH_SHUFFLE_DIR": (Scratch("lines"),)},
        after_failure=(*program, ("give-up",)),
    )


def _reduce(role: FrameworkRole, index: int, maps: FrameworkRole) -> TaskRun:
    """`tolerated` is how many maps may fail for good: the job is over by its rule when one more has."""
    tolerated = maps.count if maps.min_failed is None else maps.min_failed - 1
    numbers = (maps.count, tolerated, index)
    return TaskRun(
        env={"BERTH_REDUCERS": (FileOf(REDUCERS_FILE),)},
        ports=(PORT,),
        command=(
            ("python3",),
            (FileOf(_REDUCE_FILE),),
            *((str(number),) for number in numbers),
            (PortOf(REDUCE, index, PORT),),
            *((argument,) for argument in role.argv),
        ),
        secret=True,
        max_retry=RETRIES,
        extra_env={"BERTH_SHUFFLE_DIR": (Scratch("lines"),)},
    )


def _addresses(role: FrameworkRole) -> Iterator[TextPart]:
    for index in range(role.count):
        yield f"{index} "
        yield AddressOf(role.name, index)
        yield " "
        yield PortOf(role.name, index, PORT)
        yield "\n"
