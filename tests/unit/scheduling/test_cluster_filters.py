"""The filters by which the scheduler of Kubernetes refuses a node, and the code by which Berth says so of a job.

Of what inventories tell, Berth's own scheduler speaks, before anything is placed. What the cluster alone knows of volumes, the
cluster's scheduler says of the placed pod, in words of its own: `tests/engines/kubernetes/test_volumes.py` hears real ones.
"""

from __future__ import annotations

import uuid
from dataclasses import replace

import pytest

from clusters.engines.interface import Claim, Places, StartStep
from clusters.engines.kubernetes.scheduler_words import step_of
from jobs.lifecycle.start_waits import STEPS
from jobs.scheduling.core.eligibility import PoolView, Refusal, Sizes, VolumeAsk, Wish, eligible
from jobs.scheduling.core.place.gangs import GangAsk, RoleAsk
from jobs.scheduling.core.place.machines import Machine, TaskAsk
from jobs.services.fitting import _too_large_a_share
from jobs.spec.parse import parse_spec
from kernel.limits import GIB

PLACES = Places(claims=True, checkpoints=True)
POOL = PoolView(uuid.UUID(int=1), uuid.UUID(int=2), "cpu", "harbour", places=PLACES, node_ports=4)
NODE = Machine("node-1", 0, 8000, 32 * GIB, labels={"kubernetes.io/hostname": "node-1"})
ASK = TaskAsk(1000, GIB, 0)
NAMED = replace(ASK, needs=(("kubernetes.io/hostname", frozenset({"node-1"})),))
OTHER = replace(NODE, name="node-2", labels={"kubernetes.io/hostname": "node-2"})


def by_size(ask: TaskAsk, *machines: Machine) -> Refusal | None:
    return Sizes(machines, [POOL]).refusal(GangAsk((RoleAsk("worker", ask, 1, 1),)), 0)


def by_place(claim: Claim) -> Refusal:
    wish = Wish(GangAsk((RoleAsk("worker", ASK, 1, 1),)), mounts=("data",), places=(VolumeAsk("data", claim, "annex"),))
    return eligible(wish, uuid.UUID(int=3), "host", [POOL]).refusal


def by_ports(count: int) -> Refusal | None:
    role = {"command": "true", "replicas": count, "ports": ["rpc"]}
    return _too_large_a_share(parse_spec({"name": "x", "roles": {"worker": role}}), POOL, [NODE])


REFUSED: dict[str, Refusal | StartStep | None] = {
    "NodePorts": by_ports(5),
    "NodeName": by_size(NAMED, replace(NODE, blocked="Not ready."), OTHER),
    "NodeResourcesFit": by_size(replace(ASK, cpu_millis=9000), NODE),
    "NodeAffinity": by_size(NAMED, OTHER),
    "TaintToleration": by_size(ASK, replace(NODE, taints=frozenset({"fpga"}))),
    "another cluster": by_place(Claim(uuid.UUID(int=9), "data")),
    "VolumeZone": step_of("0/2 nodes are available: 1 node(s) had no available volume zone."),
    "VolumeRestrictions": step_of("0/2 nodes are available: 1 node(s) had no available disk."),
    "NodeVolumeLimits": step_of("0/2 nodes are available: 1 node(s) exceed max volume count."),
    "VolumeBinding": step_of("0/2 nodes are available: pod has unbound immediate PersistentVolumeClaims."),
}


@pytest.mark.capability("89", "Each filter of a Kubernetes scheduler has a code of its own, before a job is placed or after")
def test_each_filter_of_the_clusters_scheduler_has_a_code_of_its_own() -> None:
    codes = {name: told[0] if isinstance(told, tuple) else told for name, told in REFUSED.items()}
    assert codes == {
        "NodePorts": "ports",
        "NodeName": "no_ready_node",
        "NodeResourcesFit": "larger_than_pool",
        "NodeAffinity": "label",
        "TaintToleration": "taint",
        "another cluster": "volume_place",
        "VolumeZone": "volume_elsewhere",
        "VolumeRestrictions": "volume_in_use",
        "NodeVolumeLimits": "volumes_attached",
        "VolumeBinding": "volume_unbound",
    }
    assert len(set(codes.values())) == len(codes)


@pytest.mark.parametrize(
    ("words", "step"),
    [
        ('0/1 nodes are available: persistentvolumeclaim "data" not found.', StartStep.VOLUME_UNBOUND),
        ('0/1 nodes are available: persistentvolumeclaim "data" is being deleted.', StartStep.VOLUME_UNBOUND),
        ("1 node(s) unavailable due to one or more pvc(s) bound to non-existent pv(s).", StartStep.VOLUME_UNBOUND),
        ("0/3 nodes are available: 1 node(s) had volume node affinity conflict.", StartStep.VOLUME_ELSEWHERE),
        (
            "1 node has pod using PersistentVolumeClaim with the same name and ReadWriteOncePod access mode.",
            StartStep.VOLUME_IN_USE,
        ),
        ("0/3 nodes are available: 3 Insufficient nvidia.com/gpu.", StartStep.UNSCHEDULABLE),
        ("", StartStep.UNSCHEDULABLE),
    ],
)
def test_what_the_clusters_scheduler_says_of_volumes_is_told_apart(words: str, step: StartStep) -> None:
    assert step_of(words) is step


def test_every_step_before_the_first_has_words_in_both_languages() -> None:
    assert set(STEPS) == set(StartStep)
    assert all(STEPS[step].en.endswith(".") and STEPS[step].zh.endswith("。") for step in StartStep)
