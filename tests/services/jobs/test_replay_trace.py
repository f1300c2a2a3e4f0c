"""A past window: exported from what the platform did, lived through again as it was, and under another policy."""

from __future__ import annotations

import io
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import pytest
from django.core.management import call_command

from clusters.engines.fake import Script
from clusters.models import Node
from jobs.models import Job
from jobs.reconcile import event_log
from jobs.reconcile.replay_trace import past_trace
from jobs.scheduling.replay.mask import masked
from jobs.scheduling.replay.report import as_it_was, as_replayed
from jobs.scheduling.replay.trace import Past, lived, past_lines, read_past
from kernel import clock
from tenants.capacity.quota.edits import Change
from tenants.capacity.quota.tree import Ceiling
from tenants.capacity.services.limits import PoolLimit, set_limits
from tenants.models import Queue, QueueLimit
from tenants.services import edit_limits
from tests.builders.quay import Quay
from tests.factories.clusters import node_facts
from tests.factories.tenants import Cast, top_queue

pytestmark = pytest.mark.database


@pytest.fixture
def harbour(cast: Cast) -> Iterator[Quay]:
    """Eight GPUs on two machines."""
    made = Quay(cast, nodes=[node_facts(f"node-{number}", cores=64, gpus=4) for number in range(2)])
    with clock.virtual(lambda: made.now):
        yield made


def gang(tasks: int, gpus: int = 1) -> dict[str, object]:
    return {"roles": {"worker": {"command": "true", "replicas": tasks, "resources": {"gpu": gpus, "memory": "1Gi"}}}}


def lasting(seconds: int) -> Script:
    return Script(duration_seconds=seconds)


def a_busy_hour(quay: Quay) -> tuple[Past, list[Job]]:
    """One job runs at the beginning; two come and wait; one gives up; one runs on after the end."""
    before = quay.submit("before", script=lasting(100), **gang(4, 2))
    quay.turn(2)
    quay.pass_time(50)
    quay.turn()
    begins_at = quay.now
    jobs = [before]
    jobs.append(quay.submit("large", script=lasting(60), **gang(2, 4)))
    quay.pass_time(2)
    jobs.append(quay.submit("small", script=lasting(30), **gang(1, 2)))
    jobs.append(quay.submit("impatient", script=lasting(30), **gang(2, 4)))
    for _ in range(10):
        quay.turn()
        quay.pass_time(2)
    quay.stop(jobs[3])
    for _ in range(120):
        quay.turn()
        quay.pass_time(2)
    jobs.append(quay.submit("last", script=lasting(1000), **gang(1, 4)))
    quay.turn(2)
    quay.pass_time(20)
    return past_trace(begins_at, quay.now, quay.now), jobs


def test_a_window_holds_who_ran_who_came_and_for_how_long(harbour: Quay) -> None:
    past, (before, large, small, impatient, last) = a_busy_hour(harbour)
    assert [run.job.id for run in past.runs] == [str(before.id)]
    assert abs(past.runs[0].ends_at - past.begins_at - 50) <= 4
    entries = {entry.job.id: entry for entry in past.entries}
    assert set(entries) == {str(job.id) for job in (large, small, impatient, last)}
    assert abs(entries[str(large.id)].duration - 60) <= 6
    assert entries[str(impatient.id)].duration == -1
    assert entries[str(impatient.id)].gave_up_at > past.begins_at
    assert entries[str(last.id)].is_open
    assert sum(task.ask.gpu_millis for held in past.state.running for task in held.placed.tasks) == 8000


@pytest.mark.capability("6.5", "A past window is replayed under its own policy and another")
def test_lived_through_again_under_its_own_policy_it_comes_out_as_it_was(harbour: Quay) -> None:
    past, _ = a_busy_hour(harbour)
    outcome, samples = lived(past)
    ours = as_replayed("same", past, outcome, samples).waits
    was = as_it_was(past).waits
    assert ours.keys() == was.keys()
    for queue, values in was.items():
        assert len(ours[queue]) == len(values)
        for mine, theirs in zip(sorted(ours[queue]), sorted(values), strict=True):
            assert abs(mine - theirs) <= 6  # The platform looked every two seconds.
    assert max(sample.waiting for sample in samples) == 3
    assert max(sample.held.gpu_millis for sample in samples) == 8000


def test_without_names_it_is_decided_exactly_like_with_them(harbour: Quay) -> None:
    past, jobs = a_busy_hour(harbour)
    hidden = masked(past)
    text = "\n".join(past_lines(hidden))
    for secret in ("node-0", "harbour", str(jobs[0].id), top_queue(harbour.cast.tenant).name, str(harbour.pool.pk)):
        assert secret in "\n".join(past_lines(past)) or secret == "harbour"
        assert secret not in text
    mine, theirs = lived(past), lived(hidden)
    assert [stay.first_started_at for stay in mine[0].stays.values()] == [
        stay.first_started_at for stay in theirs[0].stays.values()
    ]
    assert mine[1] == theirs[1]
    assert list(past_lines(read_past(past_lines(hidden)))) == list(past_lines(hidden))


def test_limits_are_those_of_the_time_and_change_when_they_did(harbour: Quay) -> None:
    queue: Queue = top_queue(harbour.cast.tenant)
    QueueLimit.objects.create(queue=queue, pool_id=harbour.pool.pk, resource="gpu_millis", ceiling=4000)
    begins_at = harbour.now
    harbour.pass_time(100)
    changed_at = harbour.now
    limit = PoolLimit(pool_id=harbour.pool.pk, ceiling=Ceiling(gpu_millis=8000))
    set_limits(actor=harbour.cast.otto.actor, queue=queue, limits=[limit], now=changed_at)
    harbour.pass_time(100)
    change = Change(queue.pk, harbour.pool.pk, "gpu_millis", {"ceiling": 6000, "deserved": 2000})
    edit_limits(actor=harbour.cast.otto.actor, changes=[change], now=harbour.now)
    harbour.pass_time(100)
    past = past_trace(begins_at, harbour.now, harbour.now)

    def ceiling(queues: tuple[object, ...]) -> int | None:
        (own,) = (limited for limited in queues if limited.id == queue.pk)  # type: ignore[attr-defined]
        return own.limit(harbour.pool.pk, "gpu_millis").ceiling  # type: ignore[attr-defined,no-any-return]

    assert ceiling(past.state.queues) == 4000
    first, second = past.edits
    assert [ceiling(first.queues), ceiling(second.queues)] == [8000, 6000]
    assert first.at == int(changed_at.timestamp())
    assert past_trace(harbour.now - timedelta(seconds=50), harbour.now, harbour.now).edits == ()


def test_machines_are_those_of_the_time_and_change_when_they_did(harbour: Quay) -> None:
    """The event log says so; without one they are those of now."""
    first, second = Node.objects.order_by("name")

    def cordon(node: Node, *, is_cordoned: bool) -> None:
        Node.objects.filter(pk=node.pk).update(cordoned=is_cordoned, cordoned_at=harbour.now if is_cordoned else None)
        harbour.turn()

    harbour.submit("long", script=lasting(1000), **gang(1, 1))
    harbour.submit("waits", hold=True, **gang(1, 1))  # While nobody waits, it is seen ten seconds later.
    cordon(first, is_cordoned=True)
    begins_at = harbour.now
    harbour.pass_time(20)
    cordon(first, is_cordoned=False)
    harbour.pass_time(20)
    cordon(second, is_cordoned=True)
    harbour.pass_time(20)
    harbour.driver.forget()
    past = past_trace(begins_at, harbour.now, harbour.now)
    assert [machine.name for machine in past.state.machines if machine.blocked] == [first.name]
    assert [(arrival.machine.name, bool(arrival.machine.blocked)) for arrival in past.new_machines] == [
        (first.name, False),
        (second.name, True),
    ]
    assert [arrival.at - past.begins_at for arrival in past.new_machines] == [20, 40]
    assert list(past_lines(read_past(past_lines(masked(past))))) == list(past_lines(masked(past)))
    lived(past)
    for kept in event_log.files(event_log.folder()):
        kept.path.unlink()
    without = past_trace(begins_at, harbour.now, harbour.now)
    assert [machine.name for machine in without.state.machines if machine.blocked] == [second.name]
    assert without.new_machines == ()


@pytest.mark.capability("6.5", "A past window is replayed under its own policy and another")
def test_the_commands_write_a_file_and_compare_two_policies(harbour: Quay, tmp_path: Path) -> None:
    past, _ = a_busy_hour(harbour)
    file, policy, plot, said = tmp_path / "window.jsonl", tmp_path / "policy.yaml", tmp_path / "out.svg", io.StringIO()
    begins = (harbour.now - timedelta(seconds=harbour.now.timestamp() - past.begins_at)).isoformat()
    call_command("export_window", str(file), "--from", begins, stdout=said)
    assert "1 jobs ran at the beginning, 4 waited or came" in said.getvalue()
    assert "Names are made up" in said.getvalue()
    policy.write_text("in_order: true\nfill: {pool-0: spread}\n")
    said = io.StringIO()
    call_command("replay_window", str(file), "--policy", str(policy), "--plot", str(plot), stdout=said)
    lines = said.getvalue().splitlines()
    totals = [line for line in lines if line.startswith("all ")]
    assert [way for way in ("as it was", "same policy", "other policy") if any(f" {way} " in line for line in totals)] == [
        "as it was",
        "same policy",
        "other policy",
    ]
    assert "1 jobs still ran when this was exported, 1 never ran" in lines[-1]
    picture = plot.read_text()
    assert picture.count("<polyline") == 4
    assert "GPUs in use" in picture


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("colour: red", "/colour: There is no such field. Fields are: aging_seconds, "),
        ("rebook_seconds: 60", "/rebook_seconds: There is no such field. It was renamed to replan_seconds."),
        ("evens: true", "/evens: There is no such field. It was renamed to rebalances."),
        ("aging_seconds: -1\nin_order: 3", "/in_order: This is neither true nor false."),
        ("fill: {moon: pack}", "/fill/moon: There is no such pool. Pools are: "),
        ("fill: {pool-0: best}", "There are: fragmentation, pack, ratio, spread."),
    ],
)
def test_a_policy_that_makes_no_sense_is_refused_with_every_mistake(harbour: Quay, tmp_path: Path, text: str, words: str) -> None:
    file, policy, said = tmp_path / "window.jsonl", tmp_path / "policy.yaml", io.StringIO()
    file.write_text("".join(f"{line}\n" for line in past_lines(masked(past_trace(harbour.now, harbour.now, harbour.now)))))
    policy.write_text(text)
    with pytest.raises(SystemExit):
        call_command("replay_window", str(file), "--policy", str(policy), stderr=said)
    assert words in said.getvalue()


def test_a_file_that_was_cut_off_or_is_none_is_refused_with_the_line(harbour: Quay, tmp_path: Path) -> None:
    file = tmp_path / "window.jsonl"
    lines = [f"{line}\n" for line in past_lines(past_trace(harbour.now, harbour.now, harbour.now))]
    file.write_text("".join(lines[:4]))
    with pytest.raises(SystemExit, match="line 5: the file ends after 4 lines"):
        call_command("replay_window", str(file))
    file.write_bytes(b"\xff\xfe")
    with pytest.raises(SystemExit, match="line 1: this is no file of the scheduler"):
        call_command("replay_window", str(file))
    with pytest.raises(SystemExit, match="cannot read"):
        call_command("replay_window", str(tmp_path / "missing"))
    with pytest.raises(SystemExit, match="a window begins before it ends"):
        call_command("export_window", str(tmp_path / "new"), "--from", "2999-01-01")
