from __future__ import annotations

import pytest

from jobs.lifecycle.states import (
    ATTEMPT_LIFECYCLE,
    JOB_DRIVERS,
    JOB_LIFECYCLE,
    TASK_LIFECYCLE,
    AttemptState,
    JobState,
    TaskState,
)

ALL = [JOB_LIFECYCLE, ATTEMPT_LIFECYCLE, TASK_LIFECYCLE]


@pytest.mark.parametrize("table", ALL, ids=lambda table: table.name)
def test_every_state_reaches_an_end(table):
    ending = set(table.terminal_states)
    while grown := {state for state, targets in table.edges.items() if targets & ending} - ending:
        ending |= grown
    assert ending == set(table.edges)


@pytest.mark.parametrize("table", ALL, ids=lambda table: table.name)
def test_every_state_is_reached_from_the_first(table):
    first = next(iter(table.edges))
    reached = {first}
    while grown := {target for state in reached for target in table.edges[state]} - reached:
        reached |= grown
    assert reached == set(table.edges)


def test_ends_are_final():
    assert set(JOB_LIFECYCLE.terminal_states) == {JobState.SUCCEEDED, JobState.FAILED, JobState.STOPPED}
    assert set(ATTEMPT_LIFECYCLE.terminal_states) == {AttemptState.ENDED}
    assert set(TASK_LIFECYCLE.terminal_states) == {TaskState.SUCCEEDED, TaskState.FAILED, TaskState.STOPPED}


def test_every_edge_of_a_job_has_somebody_who_drives_it():
    edges = {(source, target) for source, targets in JOB_LIFECYCLE.edges.items() for target in targets}
    assert {(str(source), str(target)) for source, target in JOB_DRIVERS} == edges


@pytest.mark.parametrize("state", [JobState.ADMITTED, JobState.STARTING, JobState.RUNNING, JobState.STOPPING])
def test_a_job_with_an_attempt_can_go_back_to_the_queue(state):
    assert JOB_LIFECYCLE.allows(state, JobState.QUEUED)


def test_an_attempt_never_goes_back():
    order = list(AttemptState)
    for source, targets in ATTEMPT_LIFECYCLE.edges.items():
        assert all(order.index(AttemptState(target)) > order.index(AttemptState(source)) for target in targets)
