"""What an operator chose attempts to be in a cluster and what places them, and what the cluster needs for it."""

from __future__ import annotations

from collections.abc import Sequence

from clusters.engines.kubernetes import gang, names
from clusters.engines.kubernetes.api import Api, Json
from clusters.engines.kubernetes.config import BERTH, PODS, KubernetesConfig
from clusters.engines.kubernetes.definitions import Resource, is_served
from clusters.engines.kubernetes.gang import Gang
from clusters.engines.kubernetes.kinds import KINDS
from clusters.engines.kubernetes.manifests import Plan

_SCHEDULERS = {gang.POD_GROUP: "Volcano", gang.LOCAL_QUEUE: "Kueue"}


def scheduler(config: KubernetesConfig) -> Gang:
    """The scheduler of the tasks, and their queue, which Volcano's Job has whatever else is chosen. Kueue's queue in a tenant's
    namespace is one that Berth makes."""
    if config.gang_scheduler == BERTH:
        return Gang(queue=config.scheduler_queue)
    is_kueue = config.gang_scheduler == gang.KUEUE
    return Gang(config.gang_scheduler, names.local_queue(config.scheduler_queue) if is_kueue else config.scheduler_queue)


def documents(plan: Plan, config: KubernetesConfig) -> Sequence[Json]:
    """What becomes the tasks, in the order in which it is made: pods, or an object whose controller makes them. Kind and
    scheduler are those of the gate: what one call began under other settings, the next goes on with. Raises CannotRender."""
    ask = Gang(plan.gate.scheduler, plan.gate.queue)
    if plan.gate.parent:
        return KINDS[plan.gate.parent].render(plan, config, ask)
    return gang.pods(plan, config, ask)


def definitions(config: KubernetesConfig) -> tuple[Resource, ...]:
    """The kinds of others that this configuration makes objects of."""
    found = KINDS[config.object_kind].resources if config.object_kind != PODS else ()
    if config.gang_scheduler == gang.KUEUE:
        return (*found, gang.LOCAL_QUEUE)
    has_group = config.gang_scheduler == gang.VOLCANO and config.object_kind == PODS
    return (*found, gang.POD_GROUP) if has_group else found


def resource_of(document: Json) -> Resource:
    """The kind of a document that is none of the cluster's own."""
    known = [gang.POD_GROUP, *(resource for kind in KINDS.values() for resource in kind.resources)]
    return next(item for item in known if (item.api_version, item.kind) == (document["apiVersion"], document["kind"]))


def program_of(resource: Resource) -> str:
    """What brings a kind into a cluster."""
    return _SCHEDULERS.get(resource) or next(kind.program for kind in KINDS.values() if resource in kind.resources)


def setting_of(resource: Resource) -> str:
    """The setting by which a kind is needed."""
    return "gang_scheduler" if resource in _SCHEDULERS else "object_kind"


def missing(resource: Resource) -> str:
    """What to do about a kind that a cluster does not have."""
    what = f"The cluster has no {resource.definition} in version {resource.version}"
    return f"{what}: install {program_of(resource)}, or change {setting_of(resource)}."


def lacking(api: Api, config: KubernetesConfig) -> list[Resource]:
    """The kinds that this configuration needs and the cluster does not have. Raises EngineUnreachable and ApiRefused."""
    return [resource for resource in definitions(config) if not is_served(api, resource)]
