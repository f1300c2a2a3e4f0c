"""Where a job may go at all, and what is told of it where it may go nowhere."""

import uuid
from dataclasses import replace

import pytest

from clusters.engines.interface import NO_PLACES, Claim, HostDir, Place, Places, Share
from jobs.lifecycle.reasons import explain
from jobs.scheduling.core.eligibility import PoolView, Sizes, VolumeAsk, Wish, eligible, never
from jobs.scheduling.core.place.gangs import GangAsk, RoleAsk
from jobs.scheduling.core.place.machines import Machine, TaskAsk
from kernel.limits import GIB

TENANT, OTHER = uuid.UUID(int=1), uuid.UUID(int=2)
CPU = PoolView(uuid.UUID(int=10), uuid.UUID(int=20), "cpu", "harbour")
GPU = replace(CPU, id=uuid.UUID(int=11), name="gpu", gpu_model="a100")


def wish(*, cores: int = 1, gpus: float = 0, tasks: int = 1, **given: object) -> Wish:
    ask = TaskAsk(cores * 1000, GIB, int(gpus * 1000))
    return replace(Wish(GangAsk((RoleAsk("worker", ask, tasks, tasks),))), **given)  # type: ignore[arg-type]


def machines(count: int, *, cores: int = 8, pool: int = 0, blocked: str = "") -> list[Machine]:
    return [Machine(f"node-{number}", pool, cores * 1000, 32 * GIB, blocked=blocked) for number in range(count)]


def test_a_job_may_go_to_every_pool_that_is_what_it_asks_for() -> None:
    assert eligible(wish(), TENANT, "host", [CPU, GPU]).pools == (0, 1)
    assert eligible(wish(models=frozenset({"a100"})), TENANT, "host", [CPU, GPU]).pools == (1,)
    assert eligible(wish(pool_name="gpu"), TENANT, "host", [CPU, GPU]).pools == (1,)


@pytest.mark.parametrize(
    ("asked", "kind", "pool", "code"),
    [
        (wish(pool_name="tpu"), "host", CPU, "no_pool"),
        (wish(cluster_name="elsewhere"), "host", CPU, "no_pool"),
        (wish(models=frozenset({"h100"})), "host", GPU, "gpu_model"),
        (wish(), "oci", CPU, "image_kind"),
        (wish(gpus=0.5), "host", GPU, "gpu_shares"),
        (wish(mounts=("digits",)), "host", replace(CPU, places=NO_PLACES), "no_mounts"),
        (wish(), "host", replace(CPU, reachable=False), "cluster_unreachable"),
        (wish(), "host", replace(CPU, keeps_apart=False, tenant_bound=OTHER), "one_tenant_only"),
    ],
)
def test_each_obstacle_has_its_own_reason(asked: Wish, kind: str, pool: PoolView, code: str) -> None:
    found = eligible(asked, TENANT, kind, [pool])
    assert (found.pools, found.refusal[0]) == ((), code)


HERE, THERE = CPU.cluster_id, uuid.UUID(int=99)
KUBERNETES = replace(CPU, places=Places(below=("/srv",), claims=True, shares=("nas",), checkpoints=False), checkpoints=False)


@pytest.mark.parametrize(
    ("place", "fits"),
    [
        (HostDir("/srv/volumes/1"), True),
        (HostDir("/srv"), False),
        (HostDir("/srv/../etc/x"), False),
        (Claim(HERE, "digits"), True),
        (Claim(THERE, "digits"), False),
        (Claim(HERE, "volume-1", is_made=True), False),
        (Share("nas", "/x"), True),
        (Share("other", "/x"), False),
    ],
)
def test_a_job_goes_where_its_volumes_can_be_mounted(place: Place, fits: bool) -> None:
    asked = wish(mounts=("digits",), places=(VolumeAsk("digits", place, "annex"),))
    found = eligible(asked, TENANT, "host", [KUBERNETES])
    assert found.pools == ((0,) if fits else ())
    if not fits:
        code, detail = found.refusal
        assert (code, detail["volume"], detail["pool"]) == ("volume_place", "digits", "cpu")
        assert "digits" in explain(code, detail).text
        assert "/" not in explain(code, detail).text, "paths of the host are nobody's business"


def test_a_job_with_a_checkpoint_goes_where_one_is_kept() -> None:
    found = eligible(wish(keeps_checkpoint=True), TENANT, "host", [KUBERNETES, CPU])
    assert found.pools == (1,)
    assert eligible(wish(keeps_checkpoint=True), TENANT, "host", [KUBERNETES]).refusal[0] == "checkpoint_place"


def test_the_reason_is_that_of_the_pool_where_it_came_furthest() -> None:
    silent = replace(GPU, reachable=False)
    assert eligible(wish(models=frozenset({"a100"})), TENANT, "host", [silent, CPU]).refusal[0] == "cluster_unreachable"


def test_a_cluster_that_cannot_keep_tenants_apart_takes_more_of_the_one_that_is_there() -> None:
    bound = replace(CPU, keeps_apart=False, tenant_bound=TENANT)
    assert eligible(wish(), TENANT, "host", [bound]).pools == (0,)


def test_what_is_larger_than_an_empty_pool_is_told_so_with_the_largest_node() -> None:
    code, detail = Sizes(machines(2), [CPU]).refusal(wish(cores=9).gang, 0) or ("", {})
    assert code == "larger_than_pool"
    assert detail["largest_node"] == {"cpu_millis": 8000, "memory_bytes": 32 * GIB, "gpu_millis": 0}
    assert Sizes(machines(2), [CPU]).refusal(wish(cores=8, tasks=2).gang, 0) is None


def test_what_only_nodes_out_of_service_could_hold_waits_for_them_and_hears_why() -> None:
    large = [replace(machine, name="large") for machine in machines(1, cores=64, blocked="Cordoned.")]
    sizes = Sizes([*machines(1), *large], [CPU])
    assert sizes.refusal(wish(cores=32).gang, 0) == ("no_ready_node", {"pool": "cpu", "why": ["Cordoned."]})
    assert sizes.refusal(wish(cores=4).gang, 0) is None


def test_a_submission_is_warned_only_of_what_no_pool_could_ever_hold() -> None:
    sizes = Sizes([*machines(2), *machines(1, cores=64, pool=1, blocked="Not ready.")], [CPU, GPU])
    assert never(wish(cores=32), "host", sizes) is None
    refusal = never(wish(cores=65), "host", sizes)
    assert refusal is not None
    assert refusal[0] == "larger_than_pool"


def test_an_elastic_gang_is_judged_by_its_smallest_size() -> None:
    gang = GangAsk((RoleAsk("worker", TaskAsk(8000, GIB), 1, 9),))
    assert Sizes(machines(2), [CPU]).refusal(gang, 0) is None


def asking(**given: object) -> Wish:
    """Two tasks, each of all but a core of a machine of eight."""
    gang = wish(cores=7, tasks=2).gang
    together = str(given.pop("together", ""))
    role = replace(gang.roles[0], ask=replace(gang.roles[0].ask, **given))  # type: ignore[arg-type]
    return Wish(replace(gang, roles=(role,), together=together))


HALL = ("hall", frozenset({"a", "b"}))
HALLS = [replace(machine, labels={"hall": name, "rack": name}) for machine, name in zip(machines(3), "abc", strict=True)]
TAINTED = [replace(machine, taints=frozenset({"fpga"})) for machine in HALLS]


@pytest.mark.parametrize(
    ("asked", "there", "code", "told"),
    [
        (asking(needs=(HALL,)), HALLS, None, {}),
        (asking(needs=(HALL,)), HALLS[1:], "label", {"labels": {"hall": ["a", "b"]}}),
        (asking(), TAINTED[:2], "taint", {"taints": ["fpga"]}),
        (asking(tolerates=frozenset({"fpga"})), TAINTED, None, {}),
        (asking(), [*TAINTED, *machines(5)[3:]], None, {}),
        (asking(exclusive=True), machines(5), "exclusive_cores", {"cores": 7, "machines": 0, "largest": 0}),
        (asking(together="rack"), HALLS, "no_place", {"place": "rack", "tasks": 2}),
        (asking(together="pack"), HALLS, None, {}),
        (asking(needs=(HALL,)), TAINTED[1:], "label", {"labels": {"hall": ["a", "b"]}}),
        (asking(together="rack"), TAINTED, "taint", {"taints": ["fpga"]}),
        (asking(needs=(HALL,)), HALLS[:1], "larger_than_pool", {}),
    ],
)
def test_a_wish_about_machines_that_alone_keeps_a_job_away_is_named(
    asked: Wish, there: list[Machine], code: str | None, told: dict[str, object]
) -> None:
    found = Sizes(there, [CPU]).refusal(asked.gang, 0)
    assert (found and found[0]) == code
    assert found is None or code == "larger_than_pool" or found[1] == {"pool": "cpu", **told}


def test_a_label_on_a_node_out_of_service_alone_is_waited_for() -> None:
    out = [replace(machine, blocked="Not ready.") for machine in HALLS[:2]]
    assert (Sizes([*out, HALLS[2]], [CPU]).refusal(asking(needs=(HALL,)).gang, 0) or ("",))[0] == "no_ready_node"
