"""What users and operators say of placement reaches the machines that jobs go to."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace

import pytest

from clusters.engines.fake import Script
from clusters.engines.interface import ObservedNode, Workload
from clusters.models import Node, Pool
from clusters.services import edit_pool, record_inventory, taint_node
from jobs.lifecycle.reasons import explain
from jobs.models import DecisionRecord, Job
from jobs.reconcile.driver import SchedulerDriver
from jobs.services.compile import compile_attempts
from kernel.errors import InvalidInput
from tests.builders.quay import Quay
from tests.factories.clusters import node_facts
from tests.factories.tenants import Cast

pytestmark = pytest.mark.database

ENDLESS = Script(duration_seconds=1_000_000)
HALF = {"cpu": 4, "memory": "1Gi"}
WHOLE = {"cpu": 8, "memory": "1Gi"}


def rack(name: str, rack: str, **labels: str) -> ObservedNode:
    return node_facts(name, cores=8, labels={"rack": rack, **labels})


def nodes_of(quay: Quay, job: Job) -> list[str]:
    return sorted(task.node_name for task in quay.tasks(job))


def words(quay: Quay, job: Job, language: str = "en") -> str:
    found = Job.objects.get(id=job.id)
    told = explain(found.reason_code, found.reason_detail, language)
    return f"{told.text} {told.hint}"


@contextmanager
def while_there(quay: Quay, *more: ObservedNode) -> Iterator[None]:
    """Further machines, which are removed again: what no machine can ever give is refused at submission."""
    record_inventory(quay.cluster.pk, replace(quay.engine.inventory(), nodes=(*quay.nodes, *more)), quay.now)
    yield
    Node.objects.filter(name__in=[facts.name for facts in more]).delete()
    quay.driver.forget()


@pytest.fixture
def racks(cast: Cast) -> Quay:
    """Two machines in each of two racks; one of them is of an older make."""
    return Quay(cast, nodes=[rack("a-1", "a"), rack("a-2", "a", make="old"), rack("b-1", "b"), rack("b-2", "b")])


@pytest.mark.capability(
    "15", "task-topology and network-topology-aware: tasks go near or apart, by machine, island, switch and rack"
)
@pytest.mark.capability("87", "A job wishes its tasks near one another or apart, or insists on one rack")
@pytest.mark.parametrize(
    ("together", "expected"),
    [("pack", ["a-1", "a-1"]), ("spread", ["a-1", "b-1"]), ("rack", ["a-1", "a-1"])],
)
def test_tasks_go_as_near_or_apart_as_the_job_says(racks: Quay, together: str, expected: list[str]) -> None:
    job = racks.submit("train", script=ENDLESS, replicas=2, resources=HALF, placement={"together": together})
    racks.turn()
    assert nodes_of(racks, job) == expected


@pytest.mark.capability("87", "A job wishes its tasks near one another or apart, or insists on one rack")
def test_a_gang_that_insists_on_one_rack_waits_until_one_has_room_for_all(racks: Quay) -> None:
    first = racks.submit("one", script=Script(duration_seconds=5), resources=WHOLE, placement={"labels": {"rack": "a"}})
    second = racks.submit("two", script=ENDLESS, resources=WHOLE, placement={"labels": {"rack": ["b", "c"]}})
    racks.turn()
    gang = racks.submit("gang", script=ENDLESS, replicas=2, resources=WHOLE, placement={"together": "rack"})
    racks.turn()
    assert (nodes_of(racks, first)[0][0], nodes_of(racks, second)[0][0]) == ("a", "b")
    assert racks.reason(gang) == "not_together"
    racks.pass_time(10)
    racks.turn(3)
    assert nodes_of(racks, gang) == ["a-1", "a-2"]


@pytest.mark.capability("87", "A gang that no rack could ever hold says so")
def test_a_gang_that_no_rack_could_ever_hold_says_so(racks: Quay) -> None:
    with while_there(racks, rack("b-3", "b")):
        job = racks.submit("gang", replicas=3, resources=WHOLE, placement={"together": "rack"})
    racks.turn()
    assert racks.reason(job) == "no_place"
    assert "no rack of pool" in words(racks, job)
    assert "placement.together" in words(racks, job, "zh")


@pytest.mark.capability("90", "A job goes only to machines with the labels that it asks for, and says which are missing")
def test_a_job_goes_only_to_machines_with_the_labels_that_it_asks_for(racks: Quay) -> None:
    job = racks.submit("train", script=ENDLESS, resources=WHOLE, placement={"labels": {"make": ["old", "older"]}})
    second = racks.submit("second", script=ENDLESS, resources=HALF, placement={"labels": {"make": "old"}})
    racks.turn()
    assert nodes_of(racks, job) == ["a-2"]
    assert racks.reason(second) == "no_room"
    assert "3 of its nodes lack a label that it requests." in words(racks, second)
    assert "3 个节点缺少所要求的标签" in words(racks, second, "zh")


@pytest.mark.capability("90", "A job goes only to machines with the labels that it asks for, and says which are missing")
def test_a_job_that_asks_for_a_label_that_no_machine_has_says_so(racks: Quay) -> None:
    with while_there(racks, rack("b-3", "b", make="new")):
        job = racks.submit("train", placement={"labels": {"make": "new"}})
    racks.turn()
    assert racks.reason(job) == "label"
    assert "make=new" in words(racks, job)
    assert "make=new" in words(racks, job, "zh")


def test_jobs_that_differ_in_their_placement_alone_are_told_apart(racks: Quay) -> None:
    jobs = [racks.submit(f"to-{name}", script=ENDLESS, placement={"labels": {"rack": name}}) for name in ("b", "a", "b")]
    racks.turn()
    assert [nodes_of(racks, job)[0][0] for job in jobs] == ["b", "a", "b"]


# --- Taints -----------------------------------------------------------------------------------------------------------


@pytest.fixture
def kept(cast: Cast) -> Quay:
    """A machine for everybody, one that the cluster's labels keep for jobs with FPGAs, and one that is best avoided."""
    labels = {"b": {"berth.dev/taint.fpga": "keep-out"}, "c": {"berth.dev/taint.flaky": "avoid"}}
    return Quay(cast, nodes=[node_facts(name, cores=8, labels=labels.get(name, {})) for name in "abc"])


@pytest.mark.capability("90", "Machines are kept for jobs that tolerate their taints, of the cluster or of an operator")
def test_a_machine_with_a_taint_is_kept_for_jobs_that_tolerate_it(kept: Quay) -> None:
    jobs = [kept.submit(f"job-{number}", script=ENDLESS, resources=WHOLE) for number in range(3)]
    kept.turn()
    assert [nodes_of(kept, job) for job in jobs] == [["a"], ["c"], []]
    assert kept.reason(jobs[2]) == "no_room"
    assert "1 of its nodes has a taint that it does not tolerate." in words(kept, jobs[2])
    assert "1 个节点带有其不容忍的污点" in words(kept, jobs[2], "zh")
    tolerant = kept.submit("tolerant", script=ENDLESS, resources=WHOLE, placement={"tolerates": ["fpga"]})
    kept.turn()
    assert nodes_of(kept, tolerant) == ["b"]


@pytest.mark.capability("90", "Machines are kept for jobs that tolerate their taints, of the cluster or of an operator")
def test_an_operator_taints_a_machine_and_takes_that_back(quay: Quay) -> None:
    node = Node.objects.get()
    taint_node(actor=quay.cast.otto.actor, node_id=node.pk, taints={"demo": "keep-out"}, now=quay.now)
    job = quay.submit("train", script=ENDLESS)
    quay.turn()
    assert quay.reason(job) == "taint"
    assert "have taints that it does not tolerate: demo" in words(quay, job)
    assert "demo" in words(quay, job, "zh")
    taint_node(actor=quay.cast.otto.actor, node_id=node.pk, taints={"demo": "avoid"}, now=quay.now)
    quay.turn()
    assert quay.state(job) == "running"


def test_an_operators_word_on_a_taint_outweighs_the_clusters(kept: Quay) -> None:
    node = Node.objects.get(name="b")
    taint_node(actor=kept.cast.otto.actor, node_id=node.pk, taints={"fpga": "avoid"}, now=kept.now)
    jobs = [kept.submit(f"job-{number}", script=ENDLESS, resources=WHOLE) for number in range(3)]
    kept.turn()
    assert sorted(name for job in jobs for name in nodes_of(kept, job)) == ["a", "b", "c"]


# --- Rules of pools ---------------------------------------------------------------------------------------------------


def edit(quay: Quay, **changes: object) -> None:
    edit_pool(actor=quay.cast.otto.actor, pool_id=quay.pool.pk, changes=changes, now=quay.now)


@pytest.mark.capability("15", "binpack and nodeorder: the machines of a pool are filled by the policy that its operator chose")
@pytest.mark.capability("90", "Operators choose by which policy a pool is filled")
@pytest.mark.parametrize(("policy", "nodes"), [("pack", 1), ("spread", 2), ("ratio", 2)])
def test_a_pool_is_filled_by_the_policy_that_an_operator_chose(cast: Cast, policy: str, nodes: int) -> None:
    quay = Quay(cast, nodes=[node_facts(name, cores=8) for name in "ab"])
    edit(quay, policy=policy)
    jobs = [quay.submit(f"job-{number}", script=ENDLESS, resources={"cpu": 2, "memory": "1Gi"}) for number in range(2)]
    quay.turn()
    assert len({name for job in jobs for name in nodes_of(quay, job)}) == nodes


def test_changed_rules_hold_for_what_starts_next(cast: Cast) -> None:
    quay = Quay(cast, nodes=[node_facts(name, cores=8) for name in "ab"])
    first = quay.submit("first", script=ENDLESS, resources={"cpu": 2, "memory": "1Gi"})
    quay.turn()
    core = quay.driver.kept.core
    quay.turn()
    assert quay.driver.kept.core is core
    edit(quay, policy="pack")
    second = quay.submit("second", script=ENDLESS, resources={"cpu": 2, "memory": "1Gi"})
    quay.turn()
    assert nodes_of(quay, first) == nodes_of(quay, second)


def test_a_place_that_the_pool_does_not_have_takes_nobody(racks: Quay) -> None:
    job = racks.submit("gang", replicas=2, resources=HALF, placement={"together": "rack"})
    edit(racks, levels=["island"])
    racks.turn()
    assert racks.reason(job) == "no_place"


@pytest.mark.capability("95", "A part is refused with its own reason until an operator lets the pool lend parts")
def test_parts_of_a_gpu_are_lent_where_an_operator_says_so_and_two_halves_share_one(cast: Cast) -> None:
    quay = Quay(cast, nodes=[node_facts(cores=8, gpus=2, simulated=True)])
    half = {"cpu": 1, "memory": "1Gi", "gpu": 0.5}
    with pytest.raises(InvalidInput) as refused:
        quay.submit("half", script=ENDLESS, resources=half)
    assert [field.code for field in refused.value.fields] == ["gpu_shares"]
    edit(quay, gpu_shares=True)
    jobs = [quay.submit(f"half-{number}", script=ENDLESS, resources=half) for number in range(2)]
    quay.turn()
    whole = quay.submit("whole", script=ENDLESS, resources={"cpu": 1, "memory": "1Gi", "gpu": 1})
    quay.turn()
    assert [quay.state(job) for job in (*jobs, whole)] == ["running"] * 3


@pytest.mark.capability("90", "Parts of a GPU are lent where operators say so")
@pytest.mark.capability("95", "No more GPUs are shared than the pool allows, and a part joins one that is shared already")
def test_no_more_gpus_are_shared_than_the_pool_allows(cast: Cast) -> None:
    quay = Quay(cast, nodes=[node_facts(cores=8, gpus=2, simulated=True)])
    edit(quay, gpu_shares=True, shared_devices_max=1)
    jobs = [
        quay.submit(f"job-{number}", script=ENDLESS, resources={"cpu": 1, "memory": "1Gi", "gpu": 0.6}) for number in range(2)
    ]
    quay.turn()
    assert sorted(quay.state(job) for job in jobs) == ["queued", "running"]
    waiting = next(job for job in jobs if quay.state(job) == "queued")
    told = words(quay, waiting)
    assert "may share 1 GPU at most" in told, "a limit is no fragmentation"
    assert "fragmented" not in told
    assert "最多共享 1 块 GPU" in words(quay, waiting, "zh")


def test_a_scheduler_that_starts_anew_knows_which_device_is_shared(cast: Cast) -> None:
    quay = Quay(cast, nodes=[node_facts(cores=8, gpus=2, simulated=True)])
    edit(quay, gpu_shares=True)
    halves = [
        quay.submit(f"half-{number}", script=ENDLESS, resources={"cpu": 1, "memory": "1Gi", "gpu": 0.5}) for number in range(2)
    ]
    quay.turn()
    assert len({name for job in halves for task in quay.tasks(job) for name in task.gpus}) == 1
    quay.driver = SchedulerDriver()
    whole = quay.submit("whole", script=ENDLESS, resources={"cpu": 1, "memory": "1Gi", "gpu": 1})
    quay.turn()
    assert [quay.state(job) for job in (*halves, whole)] == ["running"] * 3


@pytest.mark.capability("15", "numaaware: machines are not known by NUMA nodes; a task may have its cores alone")
@pytest.mark.capability("71", "Exclusive cores that cannot be had are told with numbers, at submission and in the queue")
def test_who_wants_cores_of_its_own_goes_where_they_are_given_and_says_so_where_they_are_not(cast: Cast) -> None:
    quay = Quay(cast, nodes=[node_facts("a"), node_facts("b", labels={"exclusive_cores": "8"})])
    alone = {"cpu": 6, "memory": "1Gi", "cpu_exclusive": True}
    first, second = (quay.submit(name, script=ENDLESS, resources=alone) for name in ("one", "two"))
    with while_there(quay, node_facts("c", labels={"exclusive_cores": "8"})):
        both = quay.submit("both", script=ENDLESS, replicas=2, resources=alone)
    quay.turn()
    assert nodes_of(quay, first) == ["b"]
    assert (quay.reason(second), quay.reason(both)) == ("no_room", "exclusive_cores")
    assert "Each task requests 6 exclusive cores; 1 node of pool cpu offers them, at most 8 per node." in words(quay, both)
    assert "cpu_exclusive" in words(quay, both, "zh")


@pytest.mark.capability("88", "Seven tasks that want to be apart are on seven machines, or on all there are")
@pytest.mark.parametrize(("machines", "expected"), [(3, 3), (7, 7), (9, 7)])
def test_seven_parallel_tasks_that_want_to_be_apart_are_on_as_many_machines_as_can_be(
    cast: Cast, machines: int, expected: int
) -> None:
    quay = Quay(cast, nodes=[node_facts(f"n-{number}") for number in range(machines)])
    small = {"cpu": 1, "memory": "1Gi"}
    job = quay.submit("pulls", script=ENDLESS, replicas=7, resources=small, placement={"together": "spread"})
    quay.turn()
    assert len(set(nodes_of(quay, job))) == expected


@pytest.mark.capability("61", "Gangs go to one machine, island, switch or rack, and the record tells hops and how many places")
def test_a_placement_tells_over_how_many_machines_and_places_it_is_spread_and_how_far(cast: Cast) -> None:
    stands = [("a", "1"), ("a", "2"), ("b", "3"), ("b", "4")]
    quay = Quay(cast, nodes=[node_facts(f"{rack}{switch}", labels={"rack": rack, "switch": switch}) for rack, switch in stands])
    found = []
    for count in (1, 2, 1):  # The last one is left with a machine by itself.
        job = quay.submit("gang", script=ENDLESS, replicas=count, resources=WHOLE, placement={"together": "pack"})
        quay.turn()
        record = DecisionRecord.objects.filter(job_id=job.id, kind="start").latest("id").payload
        found.append((record["nodes_count"], record["hops"], record["spans"]))
    assert found[0] == (1, 0, {"switch": 1, "rack": 1})
    assert found[1] == (2, 3, {"switch": 2, "rack": 1})
    assert found[2][:2] == (1, 0)


@pytest.mark.capability("111", "A new machine is used as soon as the cluster reports it")
@pytest.mark.capability(
    "58", "A model that nobody had heard of makes a pool, is asked for and used as soon as a machine reports it"
)
def test_a_gpu_model_that_nobody_had_heard_of_is_used_as_soon_as_a_machine_reports_it(cast: Cast) -> None:
    quay = Quay(cast, nodes=[node_facts("old", gpus=2)])
    asks = {"cpu": 1, "memory": "1Gi", "gpu": "Zeta-9000:2"}
    with pytest.raises(InvalidInput, match="No pool has GPUs of model Zeta-9000; there is A100"):
        quay.submit("early", resources=asks)
    found = replace(quay.engine.inventory(), nodes=(*quay.nodes, node_facts("new", gpus=2, gpu_model="Zeta-9000")))
    record_inventory(quay.cluster.pk, found, quay.now)
    job = quay.submit("train", script=ENDLESS, resources=asks)
    other = quay.submit("other", script=ENDLESS, resources={**asks, "gpu": "A100:2"})
    quay.turn(2)
    assert (nodes_of(quay, job), nodes_of(quay, other)) == (["new"], ["old"])
    assert set(Pool.objects.values_list("gpu_model", flat=True)) == {"A100", "Zeta-9000"}


@pytest.mark.capability(
    "61", "RDMA is asked for, placed where it is, and told to the engine; the local one hands its device files over"
)
def test_a_job_that_asks_for_rdma_goes_to_machines_that_have_it_and_its_engine_is_told(cast: Cast) -> None:
    quay = Quay(cast, nodes=[node_facts("a"), node_facts("b", labels={"rdma": "yes"}), node_facts("c", labels={"rdma": "no"})])
    asks = {"cpu": 6, "memory": "1Gi", "rdma": True}
    job, waits = (quay.submit(name, script=ENDLESS, resources=asks) for name in ("one", "two"))
    quay.turn(2)
    assert nodes_of(quay, job) == ["b"]
    assert quay.reason(waits) == "no_room"
    assert "2 of its nodes lack a label" in words(quay, waits)
    (workload,) = compile_attempts(quay.attempts(job))
    assert isinstance(workload, Workload)
    assert [task.rdma for task in workload.tasks] == [True]
