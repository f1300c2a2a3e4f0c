"""What the fake adds to the contract: faults on demand and time that is moved by hand."""

from __future__ import annotations

import uuid
from datetime import UTC, datetime, timedelta

import pytest

from clusters.engines.fake import FakeEngine, Script, script_from_labels
from clusters.engines.interface import (
    EngineUnreachable,
    Ensured,
    ExitReason,
    ImageKind,
    ImageRef,
    ObservedNode,
    Stop,
    StopCause,
    TaskName,
    TaskObservation,
    TaskState,
    TaskWorkload,
    Workload,
)
from kernel.resources import Resources

START = datetime(2026, 1, 1, tzinfo=UTC)


class World:
    """A fake engine and its clock."""

    def __init__(self) -> None:
        self.now = START
        nodes = [ObservedNode(name, Resources(8_000, 1 << 34)) for name in ("one", "two")]
        self.engine = FakeEngine(clock=lambda: self.now, script_for=script_from_labels, nodes=nodes)

    def workload(self, *, node: str = "", **labels: str) -> Workload:
        task = TaskWorkload(TaskName("worker", 0), (("true",),), {}, node=node)
        named = {f"fake.{name}": value for name, value in labels.items()}
        image = ImageRef(ImageKind.HOST, "")
        return Workload(uuid.uuid4(), uuid.uuid4(), 1, "x", "t", 1, "u", named, image, (task,))

    def task(self, workload: Workload) -> TaskObservation:
        items = {item.attempt_id: item for item in self.engine.observe(None).items}
        return items[workload.attempt_id].tasks[0]


@pytest.fixture
def world() -> World:
    return World()


def test_a_lost_reply_has_acted_and_the_repeat_finds_it(world: World) -> None:
    workload = world.workload(duration="never")
    world.engine.faults.lose_reply("ensure")
    with pytest.raises(EngineUnreachable):
        world.engine.ensure([workload])
    assert world.engine.ensure([workload]) == [Ensured(workload.attempt_id, created=False)]
    assert world.engine.state.starts == [workload.attempt_id]


def test_a_refused_call_has_not_acted(world: World) -> None:
    workload = world.workload()
    world.engine.faults.refuse("*")
    with pytest.raises(EngineUnreachable):
        world.engine.ensure([workload])
    assert world.engine.state.starts == []


def test_an_engine_that_is_down_stays_so_until_it_is_up(world: World) -> None:
    world.engine.faults.is_down = True
    for _ in range(3):
        with pytest.raises(EngineUnreachable):
            world.engine.observe(None)
    world.engine.faults.is_down = False
    assert world.engine.observe(None).complete


def test_a_partial_observation_says_so(world: World) -> None:
    workloads = [world.workload(duration="never") for _ in range(4)]
    world.engine.ensure(workloads)
    world.engine.faults.observe_partly()
    partial = world.engine.observe(None)
    assert (len(partial.items), partial.complete) == (2, False)
    assert len(world.engine.observe(None).items) == 4


def test_time_is_jumped_to_the_next_change(world: World) -> None:
    workload = world.workload(duration="3600")
    world.engine.ensure([workload])
    assert world.task(workload).state is TaskState.RUNNING
    following = world.engine.next_change_at()
    assert following == START + timedelta(hours=1)
    world.now = following
    assert world.task(workload).state is TaskState.ENDED
    assert world.engine.next_change_at() is None


def test_a_lost_node_takes_its_tasks_and_no_others(world: World) -> None:
    here, there = world.workload(node="one", duration="never"), world.workload(node="two", duration="never")
    world.engine.ensure([here, there])
    world.engine.lose_node("one")
    lost = world.task(here)
    assert (lost.state, lost.exit and lost.exit.reason) == (TaskState.GONE, ExitReason.NODE_LOST)
    assert world.task(there).state is TaskState.RUNNING


def test_a_task_cut_off_is_unreachable_and_comes_back_with_its_end(world: World) -> None:
    workload = world.workload(duration="10", code="6")
    world.engine.ensure([workload])
    world.engine.cut_off(workload.attempt_id)
    assert world.task(workload).state is TaskState.UNREACHABLE
    world.engine.cut_off(workload.attempt_id, is_cut=False)
    world.now += timedelta(seconds=11)
    task = world.task(workload)
    assert task.exit is not None
    assert task.exit.code == 6


def test_an_attempt_deleted_by_hand_is_absent_from_a_complete_observation(world: World) -> None:
    workload = world.workload(duration="never")
    world.engine.ensure([workload])
    world.engine.delete(workload.attempt_id)
    seen = world.engine.observe(None)
    assert (seen.items, seen.complete) == ((), True)


def test_labels_make_a_script(world: World) -> None:
    workload = world.workload(duration="never", stop="never", reason="oom", code="137")
    script = script_from_labels(workload, workload.tasks[0])
    assert script == Script(duration_seconds=None, code=137, reason=ExitReason.OOM, stop_seconds=None)


def test_a_stop_that_is_ignored_kills_at_the_end_of_the_grace_exactly(world: World) -> None:
    workload = world.workload(duration="never", stop="never")
    world.engine.ensure([workload])
    world.engine.stop([Stop(workload.attempt_id, 30, StopCause.PREEMPTED)])
    world.now += timedelta(seconds=29)
    assert world.task(workload).state is TaskState.RUNNING
    world.now += timedelta(seconds=1)
    task = world.task(workload)
    assert task.exit is not None
    assert (task.exit.code, task.exit.stop_cause, task.ended_at) == (137, StopCause.PREEMPTED, START + timedelta(seconds=30))
