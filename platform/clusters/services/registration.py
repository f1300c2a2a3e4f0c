"""Adding, changing and removing clusters while the platform runs.

Workers, observers and schedulers read the rows every few seconds: what is said here holds within five. Credentials are sealed and
given back to nobody. What runs on a cluster must not be lost from sight, or it would run twice: a cluster on which attempts live
is neither removed nor pointed at another place.
"""

from __future__ import annotations

import re
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import datetime
from functools import partial
from typing import Any

from django.db import IntegrityError, transaction

from activity import hints
from activity.services import NewEvent, record_audit, record_events
from clusters.engines.interface import EngineUnreachable
from clusters.engines.settings import Finding, Outcome, SettingsInvalid, SettingsRead, SupportsChecks
from clusters.models import Cluster, ClusterCondition, ClusterKind, Node, Pool, Quarantined
from clusters.services.credentials import seal, unseal
from clusters.services.engines import close_engine, forget_engine, make_engine, settings_readers
from clusters.services.removal import Obstacle, clean_up_after, obstacles_of
from kernel import config
from kernel.actor import Actor
from kernel.clock import utc_text
from kernel.errors import Conflict, FieldError, InvalidInput, PreconditionFailed
from kernel.ids import new_id
from kernel.words import Text, counted
from reconciling import bulk

CHANGED = "clusters"  # The topic of hints that clusters were added, changed or removed.
CLUSTERS_MAX = 200  # Each has loops, threads and connections in every worker and observer.
NAME_MAX = 63
CONFIG_KEYS_MAX = 100
_NAME = re.compile(r"[A-Za-z0-9]([A-Za-z0-9._-]{0,61}[A-Za-z0-9])?")


@dataclass(frozen=True, slots=True)
class NewCluster:
    """A cluster that an operator adds. `credentials` empty: the account of the pod or machine that Berth runs on."""

    name: str
    kind: str
    config: Mapping[str, Any]
    credentials: str
    is_enabled: bool = True

    def __repr__(self) -> str:
        return f"NewCluster(name={self.name!r}, kind={self.kind!r})"


@dataclass(frozen=True, slots=True)
class ClusterChanges:
    """What an operator changes; None leaves it as it is. `config` by name; a value of None there restores the default."""

    name: str | None = None
    config: Mapping[str, Any] | None = None
    credentials: str | None = None
    is_enabled: bool | None = None
    is_lost: bool | None = None

    def __repr__(self) -> str:
        return f"ClusterChanges(name={self.name!r}, is_enabled={self.is_enabled!r})"


def add_cluster(*, actor: Actor, wanted: NewCluster, now: datetime) -> Cluster:
    """Add a cluster; its inventory is read within seconds. The caller was asked whether the actor may.

    Raises InvalidInput with all that is wrong with it, and Conflict for a name that another cluster has. Nothing is asked of the
    cluster: one that does not answer yet can be added.
    """
    cluster = read_new_cluster(wanted, now=now)
    _expect_unexpired(cluster, now)
    with transaction.atomic():
        if Cluster.objects.count() >= CLUSTERS_MAX:
            raise Conflict(
                Text(f"There are {CLUSTERS_MAX} clusters already.", f"已有 {CLUSTERS_MAX} 个集群。"),
                hint=Text("Remove those that are not used.", "请移除不再使用的集群。"),
            )
        _expect_free(cluster)
        try:
            with transaction.atomic():
                cluster.save(force_insert=True)
        except IntegrityError:
            raise _taken(cluster.name) from None
        _tell(cluster, "added", now)
        record_audit(
            actor=actor, verb="cluster.edit", tenant_id=None, target_kind="cluster", target_id=cluster.pk,
            target_name=cluster.name, before={}, after=_shown(cluster), at=now,
        )  # fmt: skip
    return cluster


def read_new_cluster(wanted: NewCluster, *, now: datetime) -> Cluster:
    """The row that `add_cluster` would store. Raises InvalidInput with all that is wrong, and Conflict for a name or place that
    another cluster has."""
    problems = _wrong_name(wanted.name)
    readers = settings_readers()
    if wanted.kind not in readers:
        known = ", ".join(readers)
        message = Text(
            f"There is no kind of cluster {wanted.kind[:40]!r} that can be added. Kinds are: {known}.",
            f"不能添加 {wanted.kind[:40]!r} 类集群。可用类型：{known}。",
        )
        problems.append(FieldError("/kind", "unknown_kind", message, Text(f"Write kind: {known}.", f"请写 kind: {known}。")))
        raise InvalidInput(problems[0].message, fields=problems)
    read, wrong = _read(wanted.kind, wanted.config, wanted.credentials)
    problems += wrong
    if problems or read is None:
        raise InvalidInput(problems[0].message, fields=problems)
    pk = new_id()
    cluster = Cluster(
        id=pk, name=wanted.name, kind=wanted.kind, config=dict(wanted.config), is_enabled=wanted.is_enabled,
        credentials_sealed=seal(pk, wanted.credentials), access=_access(read), created_at=now,
    )  # fmt: skip
    _expect_free(cluster)
    _expect_own_place(cluster)
    return cluster


def change_cluster(
    *, actor: Actor, cluster_id: uuid.UUID, changes: ClusterChanges, expected_version: int | None = None, now: datetime
) -> Cluster:
    """Change what is named. Within seconds all processes use it; what runs goes on, unless the cluster is declared lost.

    Raises InvalidInput, PreconditionFailed, and Conflict: for a name that is taken, for another place of a cluster on which
    attempts live, and for a loss of one that is enabled or answers.
    """
    with transaction.atomic():
        cluster = Cluster.objects.select_for_update().get(pk=cluster_id)
        _expect_version(cluster, expected_version)
        before, sealed_before = _shown(cluster), cluster.credentials_sealed
        _apply(cluster, changes, now)
        if changes.credentials is not None:
            _expect_unexpired(cluster, now)
        if _shown(cluster) != before or cluster.credentials_sealed != sealed_before:
            if cluster.name != before["name"]:
                _expect_free(cluster)
            cluster.version += 1
            columns = ("name", "config", "is_enabled", "lost_at", "credentials_sealed", "access", "version")
            try:
                with transaction.atomic():
                    bulk.update(Cluster, [{"id": cluster.pk, **{name: getattr(cluster, name) for name in columns}}])
            except IntegrityError:
                raise _taken(cluster.name) from None
            _tell(cluster, "changed", now)
        after = _shown(cluster)
        if changes.credentials is not None:
            after["credentials"] = "replaced"
        record_audit(
            actor=actor, verb="cluster.edit", tenant_id=None, target_kind="cluster", target_id=cluster.pk,
            target_name=cluster.name, before=before, after=after, at=now,
        )  # fmt: skip
    return cluster


def remove_cluster(*, actor: Actor, cluster_id: uuid.UUID, expected_version: int | None = None, now: datetime) -> None:
    """Remove a cluster with its pools, nodes and their limits; jobs keep what they were told of it.

    Raises Conflict with everything that stands against it, each with what to do first.
    """
    with transaction.atomic():
        cluster = Cluster.objects.select_for_update().get(pk=cluster_id)
        _expect_version(cluster, expected_version)
        # An admission locks the nodes that it uses (`cordoned_of`): those under way end before this, later ones find no node.
        list(Node.objects.select_for_update().filter(cluster_id=cluster_id).order_by("id").values_list("id"))
        pools = list(Pool.objects.filter(cluster_id=cluster_id).order_by("id").values_list("id", flat=True))
        _expect_removable(cluster, pools)
        clean_up_after(pools)
        Cluster.objects.filter(pk=cluster_id).delete()
        _tell(cluster, "removed", now)
        record_audit(
            actor=actor, verb="cluster.delete", tenant_id=None, target_kind="cluster", target_id=cluster_id,
            target_name=cluster.name, before=_shown(cluster), after={}, at=now,
        )  # fmt: skip


def with_changes(cluster: Cluster, changes: ClusterChanges, *, now: datetime) -> Cluster:
    """The row as it would be, which is not stored. Raises InvalidInput and Conflict."""
    _apply(cluster, changes, now)
    return cluster


def check_cluster(cluster: Cluster, *, now: datetime) -> list[Finding]:
    """Look at a cluster through an engine of its own, which ends with the look. The row need not be stored."""
    try:
        engine = make_engine(cluster)
    except (EngineUnreachable, LookupError) as error:
        return [Finding("configuration", Outcome.FAILED, Text(str(error), str(error)))]
    try:
        return list(engine.check(now)) if isinstance(engine, SupportsChecks) else _check_by_inventory(engine)
    finally:
        close_engine(engine)


def _check_by_inventory(engine: Any) -> list[Finding]:
    """Of an engine without checks of its own: whether it answers, and whether it has a machine."""
    try:
        found = engine.inventory()
    except EngineUnreachable as error:
        said = str(error)
        return [Finding("reachable", Outcome.FAILED, Text(f"No answer: {said}", f"无应答：{said}"))]
    ready = [node for node in found.nodes if node.ready]
    answered = Finding("reachable", Outcome.OK, Text("The engine answers.", "引擎有应答。"))
    text = Text(f"{len(ready)} of {len(found.nodes)} nodes are ready.", f"{len(found.nodes)} 个节点中有 {len(ready)} 个就绪。")
    return [answered, Finding("nodes", Outcome.OK if ready else Outcome.FAILED, text)]


# --- Reading what is wanted ------------------------------------------------------------------------------------------


def _apply(cluster: Cluster, changes: ClusterChanges, now: datetime) -> None:
    """Put the changes into the row. Raises InvalidInput and Conflict."""
    problems: list[FieldError] = []
    if changes.name is not None and changes.name != cluster.name:
        problems += _wrong_name(changes.name)
        if cluster.kind == ClusterKind.LOCAL:
            message = Text(
                "The cluster of this machine is found by its name at each start, and keeps it.",
                "本机集群每次启动时按名称查找，名称不能修改。",
            )
            problems.append(FieldError("/name", "not_changeable", message))
        cluster.name = changes.name
    if changes.is_enabled is not None:
        cluster.is_enabled = changes.is_enabled
    if changes.is_lost is False or (changes.is_enabled and changes.is_lost is None):
        cluster.lost_at = None
    elif changes.is_lost:
        _expect_lost(cluster)
        cluster.lost_at = cluster.lost_at or now
    if changes.config is not None or changes.credentials is not None:
        problems += _apply_settings(cluster, changes)
    if problems:
        raise InvalidInput(problems[0].message, fields=problems)


def _apply_settings(cluster: Cluster, changes: ClusterChanges) -> list[FieldError]:
    if cluster.kind not in settings_readers():
        message = Text(
            f"Clusters of kind {cluster.kind} have no settings: they are made by the platform.",
            f"{cluster.kind} 类集群没有设置：由平台建立。",
        )
        path = "/config" if changes.config is not None else "/credentials"
        return [
            FieldError(
                path,
                "not_changeable",
                message,
                Text("The settings of this machine are those of the server.", "本机的设置即服务器的设置。"),
            )
        ]
    merged = {**cluster.config, **(changes.config or {})}
    kept = {name: value for name, value in merged.items() if value is not None}
    credentials = unseal(cluster) if changes.credentials is None else changes.credentials
    read, problems = _read(cluster.kind, kept, credentials)
    if read is None or problems:
        return problems
    access = _access(read)
    is_moved = cluster.access is not None and access["place"] != cluster.access["place"]
    if is_moved:
        _expect_movable(cluster)
    cluster.config, cluster.access = kept, access
    if is_moved:
        _expect_own_place(cluster)
    if changes.credentials is not None:
        cluster.credentials_sealed = seal(cluster.pk, credentials)
    return []


def _read(kind: str, settings: Mapping[str, Any], credentials: str) -> tuple[SettingsRead | None, list[FieldError]]:
    if len(settings) > CONFIG_KEYS_MAX:
        return None, [
            FieldError(
                "/config",
                "too_many",
                Text(f"A configuration has at most {CONFIG_KEYS_MAX} names.", f"一份配置最多有 {CONFIG_KEYS_MAX} 个名称。"),
            )
        ]
    try:
        return settings_readers()[kind](settings, credentials), []
    except SettingsInvalid as error:
        return None, list(error.fields)


def _wrong_name(name: str) -> list[FieldError]:
    if _NAME.fullmatch(name):
        return []
    message = Text(
        f"A cluster's name has 1 to {NAME_MAX} letters, digits, dots, dashes and underscores, a letter or digit at both ends.",
        f"集群名称为 1 到 {NAME_MAX} 个字母、数字、点、连字符或下划线，首尾须为字母或数字。",
    )
    return [FieldError("/name", "invalid", message)]


def _access(read: SettingsRead) -> dict[str, Any]:
    return {**asdict(read), "expires_at": None if read.expires_at is None else utc_text(read.expires_at)}


# --- What stands against it ------------------------------------------------------------------------------------------


def _expect_version(cluster: Cluster, expected: int | None) -> None:
    if expected is not None and cluster.version != expected:
        raise PreconditionFailed(
            Text(
                f"Cluster {cluster.name} has version {cluster.version} now, not {expected}.",
                f"集群 {cluster.name} 当前版本为 {cluster.version}，而非 {expected}。",
            ),
            hint=Text(
                "Read it again, apply your change to the new version, and send its ETag.",
                "请重新读取，在新版本上修改，并发送其 ETag。",
            ),
        )


def _expect_free(cluster: Cluster) -> None:
    # The constraint is what guards; this is for the words.
    if Cluster.objects.filter(name=cluster.name).exclude(pk=cluster.pk).exists():
        raise _taken(cluster.name)


def _expect_own_place(cluster: Cluster) -> None:
    """Two rows for one place would each take the other's objects for those of a stranger. One API server under two addresses is
    found by the check, which sees whose the namespaces are."""
    place = (cluster.access or {}).get("place")
    other = Cluster.objects.filter(access__place=place).exclude(pk=cluster.pk).first() if place else None
    if other is None:
        return
    server = str((cluster.access or {}).get("server", ""))
    message = Text(
        f"Cluster {other.name} works at {server} with the same namespace_prefix already.",
        f"集群 {other.name} 已在 {server} 上使用相同的 namespace_prefix。",
    )
    hint = Text(
        f"Change that cluster (`berth clusters change {other.name}`), or give this one another namespace_prefix.",
        f"请修改该集群（`berth clusters change {other.name}`），或为本集群设置另一个 namespace_prefix。",
    )
    raise Conflict(message, fields=[FieldError("/config/namespace_prefix", "place_taken", message, hint)], hint=hint)


def _expect_unexpired(cluster: Cluster, now: datetime) -> None:
    """Credentials that are over let nothing be done; a cluster whose credentials end later says so itself."""
    expires_at = (cluster.access or {}).get("expires_at")
    if expires_at is None or datetime.fromisoformat(expires_at) > now:
        return
    account = str((cluster.access or {}).get("account", ""))
    message = Text(f"The credentials of {account} expired at {expires_at}.", f"{account} 的凭据已于 {expires_at} 过期。")
    hint = Text("Give a kubeconfig with a new certificate or token.", "请提供带有新证书或令牌的 kubeconfig。")
    raise InvalidInput(message, hint=hint, fields=[FieldError("/credentials", "expired", message, hint)])


def _taken(name: str) -> Conflict:
    message = Text(f"There is a cluster {name} already.", f"已有集群 {name}。")
    return Conflict(message, fields=[FieldError("/name", "taken", message)], hint=Text("Choose another name.", "请换一个名称。"))


def _expect_removable(cluster: Cluster, pools: Sequence[uuid.UUID]) -> None:
    found = [*obstacles_of(cluster.pk, pools), *_own_obstacles(cluster)]
    if cluster.kind == ClusterKind.LOCAL and config.current().local_cluster:
        text = Text(
            "It is the machine of this platform and would be made again at the next start.",
            "它是本平台所在的机器，下次启动时会重新建立。",
        )
        hint = Text(
            "Set BERTH_LOCAL_CLUSTER=false first, or disable the cluster.",
            "请先设置 BERTH_LOCAL_CLUSTER=false，或停用该集群。",
        )
        found.append(Obstacle("local", text, hint))
    if found:
        raise _refused(Text(f"Cluster {cluster.name} cannot be removed.", f"集群 {cluster.name} 不能移除。"), found)


def _expect_movable(cluster: Cluster) -> None:
    pools = list(Pool.objects.filter(cluster_id=cluster.pk).values_list("id", flat=True))
    found = [obstacle for obstacle in (*obstacles_of(cluster.pk, pools), *_own_obstacles(cluster)) if obstacle.is_of_place]
    if found:
        message = Text(
            f"Cluster {cluster.name} cannot be pointed at another place. Another server or namespace_prefix would lose what runs "
            "from sight.",
            f"集群 {cluster.name} 不能改指向别处。换用其他服务器或 namespace_prefix 会丢失正在运行的内容。",
        )
        raise _refused(message, found)


def _expect_lost(cluster: Cluster) -> None:
    """Nothing may start on a cluster that is declared lost, and what it still runs would run a second time elsewhere."""
    found = []
    if cluster.kind == ClusterKind.LOCAL:
        text = Text("It is the machine of this platform, which runs.", "它就是本平台所在的机器，正在运行。")
        hint = Text("Stop its jobs with `berth stop`.", "请用 `berth stop` 停止其作业。")
        found.append(Obstacle("local", text, hint))
    if cluster.is_enabled:
        text = Text("It is enabled, and attempts may start there.", "它已启用，可能会启动新的尝试。")
        command = f"`berth clusters disable {cluster.name}`"
        found.append(Obstacle("enabled", text, Text(f"Disable it first: {command}.", f"请先停用：{command}。")))
    if cluster.condition == ClusterCondition.REACHABLE:
        text = Text("It answers, and what it runs would run twice.", "它有应答，其中运行的内容会重复运行。")
        hint = Text("Wait for its jobs, or stop them with `berth stop`.", "请等待其作业结束，或用 `berth stop` 停止。")
        found.append(Obstacle("reachable", text, hint))
    if found:
        message = Text(f"Cluster {cluster.name} cannot be declared lost.", f"集群 {cluster.name} 不能声明为丢失。")
        raise _refused(message, found)


def _own_obstacles(cluster: Cluster) -> list[Obstacle]:
    undecided = Quarantined.objects.filter(cluster_id=cluster.pk, resolution="").count()
    if not undecided:
        return []
    text = Text(f"{counted(undecided, 'attempt is', 'attempts are')} in quarantine.", f"隔离区中有 {undecided} 个尝试。")
    hint = Text("Decide about each with `manage.py quarantine`.", "请用 `manage.py quarantine` 逐一处理。")
    return [Obstacle("quarantine", text, hint, is_of_place=True)]


def _refused(message: Text[str], found: Sequence[Obstacle]) -> Conflict:
    fields = [FieldError("", obstacle.code, obstacle.text, obstacle.hint) for obstacle in found]
    hints = list(dict.fromkeys(obstacle.hint for obstacle in found))
    return Conflict(_joined([message, *(obstacle.text for obstacle in found)]), fields=fields, hint=_joined(hints))


def _joined(sentences: Sequence[Text[str]]) -> Text[str]:
    return Text(" ".join(words.en for words in sentences), "".join(words.zh for words in sentences))


# --- Telling ---------------------------------------------------------------------------------------------------------


def _shown(cluster: Cluster) -> dict[str, Any]:
    """What an audit row tells of a cluster: never its credentials."""
    access = {name: value for name, value in (cluster.access or {}).items() if name != "place"}
    return {
        "name": cluster.name,
        "kind": cluster.kind,
        "is_enabled": cluster.is_enabled,
        "is_lost": cluster.lost_at is not None,
        "config": dict(cluster.config),
        "access": access or None,
    }


def _tell(cluster: Cluster, what: str, now: datetime) -> None:
    event = NewEvent(
        kind=f"cluster.{what}", tenant_id=None, subject_kind="cluster", subject_id=cluster.pk, data={"name": cluster.name}, at=now
    )
    record_events([event])
    transaction.on_commit(partial(forget_engine, cluster.pk), robust=True)
    hints.wake(CHANGED)
