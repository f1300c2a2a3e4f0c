"""Whether a job could ever start: one that no machine can run, even when all are idle and in service, is refused at submission.

What clusters have is remembered, and read again before a job is refused: machines come. A job that was accepted because more
was known of a pool than there is left waits and says so. Cordons, taints and lost contact are no reason to refuse: they pass.
"""

from __future__ import annotations

import threading
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from clusters.placement import RDMA
from clusters.selectors import PoolFacts, list_clusters, pool_totals, pools_and_nodes
from jobs.lifecycle.reasons import explain
from jobs.loading.specs import wish_of
from jobs.scheduling.core.eligibility import PoolView, Refusal, Sizes, Wish, never, unfit
from jobs.scheduling.core.place.machines import WHOLE_MILLIS, Machine, TaskAsk
from jobs.selectors.pools import machines_of, rules_of, views_of
from jobs.spec.model import JobSpec
from kernel.errors import FieldError
from kernel.resources import RESOURCE_NAMES, ZERO, Resources, total
from kernel.wait_codes import WaitCode
from kernel.words import Text, format_amount

POOLS_MAX = 10_000  # Remembered; pools that are gone are forgotten with the rest.
ANSWERS_MAX = 10_000  # Remembered of different gangs; then all is read again.
_known: dict[uuid.UUID, Resources] = {}


def larger_than_any(spec: JobSpec, pools: Sequence[PoolFacts]) -> FieldError | None:
    """The refusal of a gang that no cluster takes even when it is empty; None where one does, or where nothing is known."""
    pools = [pool for pool in pools if spec.pool in (None, pool.name) and spec.cluster in (None, pool.cluster_name)]
    least = Resources()
    for role in spec.roles.values():
        least += role.resources.amounts * role.replicas.min
    if not pools or _most(least, pools, _known) is None:
        return None
    fresh = pool_totals([pool.id for pool in pools])
    for pool in pools:  # What is broken today is repaired tomorrow: a job for the whole pool waits for that.
        healthy, known = pool.node_shape * pool.node_count, fresh.get(pool.id, ZERO)
        fresh[pool.id] = Resources(*(max(getattr(healthy, name), getattr(known, name)) for name in RESOURCE_NAMES))
    if len(_known) + len(fresh) > POOLS_MAX:
        _known.clear()
    _known.update(fresh)
    if any(amounts == ZERO for amounts in fresh.values()) or (found := _most(least, pools, fresh)) is None:
        return None  # A pool without any machine yet may get whatever is asked for.
    resource, most, where = found
    need, there = format_amount(resource, getattr(least, resource)), format_amount(resource, most)
    need_zh, there_zh = format_amount(resource, getattr(least, resource), "zh"), format_amount(resource, most, "zh")
    message = Text(
        f"Job {spec.name} asks for {need} together; {where.en} has {there} in all, and none has more.",
        f"作业 {spec.name} 合计申请 {need_zh}；{where.zh}共有 {there_zh}，没有更多的。",
    )
    hint = (
        Text(f"Ask for at most {there}, or for fewer replicas.", f"请最多申请 {there_zh}，或减少副本数。")
        if most
        else Text(
            "Leave that resource out, or ask an operator for nodes with it.", "请去掉该资源，或请运维人员增加具备它的节点。"
        )
    )
    return FieldError("/roles", str(WaitCode.LARGER_THAN_POOL), message, hint)


def _most(
    least: Resources, pools: Sequence[PoolFacts], totals: Mapping[uuid.UUID, Resources]
) -> tuple[str, int, Text[str]] | None:
    """A resource of which no cluster has enough, the most that one has, and where; None if a cluster has enough of all.

    A gang stays in one cluster and may use several of its pools. A pool that is not known has nothing.
    """
    clusters: dict[uuid.UUID, list[PoolFacts]] = {}
    for pool in pools:
        clusters.setdefault(pool.cluster_id, []).append(pool)
    short: list[tuple[int, int, str, str]] = []
    for own in clusters.values():
        there = total([totals.get(pool.id, ZERO) for pool in own])
        lacks = [index for index, name in enumerate(RESOURCE_NAMES) if getattr(least, name) > getattr(there, name)]
        if not lacks:
            return None
        place = ("pool", own[0].name) if len(own) == 1 else ("cluster", own[0].cluster_name)
        short.append((lacks[-1], getattr(there, RESOURCE_NAMES[lacks[-1]]), *place))
    index, most, kind, name = max(short)
    where = Text(f"{kind} {name}", f"{'资源池' if kind == 'pool' else '集群'} {name} ")
    return RESOURCE_NAMES[index], most, where


@dataclass(frozen=True, slots=True)
class _Snapshot:
    """All machines as they are when they are whole and in service. `empty`: pools, by number, without any machine yet."""

    key: tuple[tuple[uuid.UUID, bool], ...]
    pools: tuple[PoolView, ...]
    sizes: Sizes
    empty: frozenset[int]


_lock = threading.Lock()  # Sizes are tried out on machines that all threads share.
_snapshot: _Snapshot | None = None


def may_be_unmeasured(spec: JobSpec) -> bool:
    """Whether what there is for a job is not known yet: no cluster is set up, or one that it may go to has not been measured."""
    clusters = [cluster for cluster in list_clusters() if cluster.is_enabled]
    return not clusters or any(not cluster.is_measured and spec.cluster in (None, cluster.name) for cluster in clusters)


@dataclass(frozen=True, slots=True)
class Brought:
    """The image that a job brings to its tasks."""

    image_kind: str
    image: str = ""


def starts_nowhere(spec: JobSpec, wish: Wish, brought: Brought, pools: Sequence[PoolFacts]) -> FieldError | None:
    """The refusal of a job that no machine of any enabled cluster could run; None where one could, or nothing is known yet. The
    wish is the spec's, with where its volumes are.

    No query where what was read before says that it could start; five or six where it does not.
    """
    global _snapshot
    key = tuple((pool.id, pool.is_enabled) for pool in pools)
    with _lock:
        snapshot = _snapshot
        is_current = snapshot is not None and snapshot.key == key and snapshot.sizes.known < ANSWERS_MAX
        if snapshot is not None and is_current and _refusal(spec, wish, brought, snapshot) is None:
            return None
        _snapshot = snapshot = _read(key)
        refusal = _refusal(spec, wish, brought, snapshot)
    if refusal is None or not any(enabled for _, enabled in key) or may_be_unmeasured(spec):
        return None
    return _refused(spec, refusal)


def whole_machines(spec: JobSpec, image_kind: str, pools: Sequence[PoolFacts], *, fresh: bool) -> list[Machine]:
    """The machines with GPUs that could run one of a job's tasks with GPUs, whole and in service, as read before, or read now
    where they are to be `fresh`. None, too, where a pool that might run it has no machine yet."""
    global _snapshot
    wish = wish_of(spec)
    key = tuple((pool.id, pool.is_enabled) for pool in pools)
    with _lock:
        if fresh or _snapshot is None or _snapshot.key != key:
            _snapshot = _read(key)
        snapshot = _snapshot
    inside = {n for n, pool in enumerate(snapshot.pools) if pool.enabled and unfit(wish, image_kind, pool) is None}
    if inside & snapshot.empty:
        return []
    asks = [role.ask for role in wish.gang.roles if role.ask.gpu_millis]
    found = [machine for machine in snapshot.sizes.machines if machine.pool in inside and machine.gpus]
    return [machine for machine in found if any(_has_room(machine, ask) for ask in asks)]


def _has_room(machine: Machine, ask: TaskAsk) -> bool:
    """Whether an idle machine has what one task needs."""
    enough = machine.gpus * WHOLE_MILLIS >= ask.gpu_millis and machine.cpu_millis >= ask.cpu_millis
    labels_fit = all(machine.labels.get(label) in accepted for label, accepted in ask.needs)
    return enough and machine.memory_bytes >= ask.memory_bytes and labels_fit


def _read(key: tuple[tuple[uuid.UUID, bool], ...]) -> _Snapshot:
    facts, nodes = pools_and_nodes()
    views = tuple(views_of(facts, {}))
    machines = machines_of(facts, nodes)
    whole = tuple(_whole(machine, facts[machine.pool]) for machine in machines)
    with_machines = {machine.pool for machine in whole}
    rules = {number: replace(rule, shared_devices_max=None) for number, rule in rules_of(facts, machines).items()}
    sizes = Sizes(whole, views, rules)
    return _Snapshot(key, views, sizes, frozenset(range(len(views))) - with_machines)


def _whole(machine: Machine, pool: PoolFacts) -> Machine:
    """A machine once it is repaired, in service and without taints. Machines of a pool are alike."""
    gpus = max(machine.gpus, pool.node_shape.gpu_millis // WHOLE_MILLIS)
    return replace(machine, gpus=gpus, blocked="", taints=frozenset())


def _refusal(spec: JobSpec, wish: Wish, brought: Brought, snapshot: _Snapshot) -> Refusal | None:
    """Why it starts nowhere. A pool without any machine may get whatever is asked for."""
    if any(snapshot.pools[n].enabled and unfit(wish, brought.image_kind, snapshot.pools[n]) is None for n in snapshot.empty):
        return None
    return never(wish, brought.image_kind, snapshot.sizes) or _beyond_every_pool(spec, wish, brought, snapshot)


def _beyond_every_pool(spec: JobSpec, wish: Wish, brought: Brought, snapshot: _Snapshot) -> Refusal | None:
    """What the job asks for or brings beyond every pool that is otherwise right; None where one of these takes it."""
    refusal: Refusal | None = None
    for number, pool in enumerate(snapshot.pools):
        if not pool.enabled or unfit(wish, brought.image_kind, pool) or snapshot.sizes.refusal(wish.gang, number):
            continue
        inside = [machine for machine in snapshot.sizes.machines if machine.pool == number]
        refusal = _too_large_a_share(spec, pool, inside) or _not_carried(spec, brought, pool)
        if refusal is None:
            return None
    return refusal


def _too_large_a_share(spec: JobSpec, pool: PoolView, inside: Sequence[Machine]) -> Refusal | None:
    """Shared memory of a task, or ports of all, beyond what the machines of a pool have."""
    shm = max(role.resources.shm_bytes for role in spec.roles.values())
    ports = sum(len(role.ports) * role.replicas.min for role in spec.roles.values())
    largest = max((machine.memory_bytes for machine in inside), default=0)
    bound = None if pool.node_ports is None else pool.node_ports * len(inside)
    if shm > largest:
        return WaitCode.SHM, {"pool": pool.name, "need": shm, "largest": largest}
    if bound is not None and ports > bound:
        return WaitCode.PORTS, {"pool": pool.name, "need": ports, "most": bound}
    return None


def _not_carried(spec: JobSpec, brought: Brought, pool: PoolView) -> Refusal | None:
    """Code or a checkpoint directory that an image without a shell could not have."""
    if pool.bare_images and brought.image.startswith(pool.bare_images) and (spec.code is not None or spec.checkpoint is not None):
        return WaitCode.NO_SHELL, {"pool": pool.name, "image": brought.image}
    return None


def _refused(spec: JobSpec, refusal: Refusal) -> FieldError:
    reason, detail = refusal
    words, words_zh = explain(reason, detail), explain(reason, detail, "zh")
    code, path = str(reason), _path(spec, reason)
    text, hint = Text(words.text, words_zh.text), Text(words.hint, words_zh.hint)
    if reason == WaitCode.LABEL and _asks_for_rdma_alone(spec, detail):
        path, code = _role_path(spec, "rdma"), "no_rdma"
        text = Text(
            "Its machines would need adapters for RDMA (remote memory access), and none that could hold it has any.",
            "其节点需要 RDMA（远程内存访问）网卡，而能容纳它的节点都没有。",
        )
        hint = Text(
            "Leave rdma out; `berth nodes show` lists the labels of a machine, rdma among them.",
            "请去掉 rdma；`berth nodes show` 列出节点的标签，包括 rdma。",
        )
    message = Text(f"Job {spec.name} can never start. {text.en}", f"作业 {spec.name} 永远无法启动。{text.zh}")
    return FieldError(path, code, message, hint)


def _asks_for_rdma_alone(spec: JobSpec, detail: Mapping[str, object]) -> bool:
    labels = detail.get("labels")
    return isinstance(labels, Mapping) and set(labels) == {RDMA} and RDMA not in spec.placement.labels


def _path(spec: JobSpec, code: WaitCode) -> str:
    """The field to change, as well as it can be said."""
    if code in (WaitCode.NO_POOL, WaitCode.CLUSTER_DISABLED):
        return "/pool" if spec.pool else "/cluster"
    fields = {WaitCode.IMAGE_KIND: "/image", WaitCode.NO_MOUNTS: "/mounts", WaitCode.VOLUME_PLACE: "/mounts",
              WaitCode.CHECKPOINT_PLACE: "/checkpoint", WaitCode.LABEL: "/placement/labels",
              WaitCode.NO_PLACE: "/placement/together", WaitCode.NO_SHELL: "/image",
              WaitCode.CLUSTER_LACKS: "/cluster"}  # fmt: skip
    of_roles = {
        WaitCode.GPU_MODEL: "gpu",
        WaitCode.GPU_SHARES: "gpu",
        WaitCode.EXCLUSIVE_CORES: "cpu_exclusive",
        WaitCode.SHM: "shm_bytes",
    }
    return fields.get(code) or (_role_path(spec, of_roles[code]) if code in of_roles else "/roles")


def _role_path(spec: JobSpec, name: str) -> str:
    """The resource of the first role that asks for it."""
    role = next((key for key, role in spec.roles.items() if getattr(role.resources, name)), next(iter(spec.roles)))
    return f"/roles/{role}/resources/{name.removesuffix('_bytes')}"
