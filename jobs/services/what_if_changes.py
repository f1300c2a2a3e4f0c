"""The changes of a what-if, from what people write to values of the scheduler, with every mistake at its place.

What an explanation suggests is read back as it stands: so fields may be written as in a job (`memory: 64Gi`) or as the API tells
them (`memory_bytes`), and words that only explain (`from`, `name`, `amounts`) are passed over.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

from jobs.bounds import REPLICAS, RUNTIME_SECONDS
from jobs.loading.history import predictor_of_history
from jobs.loading.specs import wish_of
from jobs.loading.state import look_up
from jobs.models import Job
from jobs.scheduling.core.eligibility import eligible
from jobs.scheduling.core.place.gangs import PACK, SPREAD, GangAsk
from jobs.scheduling.core.place.machines import WHOLE_MILLIS, Machine, TaskAsk
from jobs.scheduling.core.state.policy import RENAMED
from jobs.scheduling.core.state.work import JobAsk as Waiting
from jobs.scheduling.questions.predict import Predictor
from jobs.scheduling.questions.whatif import (
    AddMachines,
    Ask,
    Block,
    Change,
    End,
    Rank,
    Release,
    RemoveMachine,
    ReserveWindow,
    SetCap,
    SetPolicy,
    Submit,
)
from jobs.selectors.find import fetch_job
from jobs.services.planned import planned_seconds
from jobs.services.redaction import Redactor
from jobs.services.submit import prepare
from jobs.spec.values import PRIORITY_MAX, BadValue, parse_cpu, parse_gpu, parse_memory, whole
from jobs.spec.values import duration as parse_duration
from jobs.spec.values import moment as parse_moment
from kernel.errors import BerthError, FieldError, Forbidden, InvalidInput
from kernel.resources import RESOURCE_NAMES
from kernel.words import Saying, Text, counted
from tenants.bounds import TENANT_DEPTH
from tenants.capacity.quota.accounting import mark
from tenants.capacity.quota.bookings import Booked
from tenants.capacity.quota.caps import CAPPED, TOGETHER
from tenants.capacity.quota.edits import COLUMNS
from tenants.capacity.quota.edits import Change as SetLimits
from tenants.capacity.quota.limits import AMOUNT_MAX, WEIGHT_MAX
from tenants.identity.access import role_allows

CHANGES_MAX = 50
JOBS_MAX = 1_000  # That are submitted in thought.
NODES_MAX = 1_000
BACKFILL_MAX = 1_000  # Starts that are booked per pool.
MILLIS_MAX = 10**9
Values = Mapping[str, Any]
Parser = Callable[[object], Any]


def _text(value: object) -> str:
    if not isinstance(value, str) or not 0 < len(value) <= 255:
        raise BadValue("invalid", Text("This must be a text of up to 255 characters.", "须为最多 255 个字符的文本。"))
    return value


def _flag(value: object) -> bool:
    if not isinstance(value, bool):
        raise BadValue("invalid", Text("This must be true or false.", "须为 true 或 false。"))
    return value


def _mapping(value: object) -> Values:
    if not isinstance(value, Mapping):
        raise BadValue("invalid", Text("This must be an object.", "须为对象。"))
    return value


def _texts(value: object) -> tuple[str, ...]:
    if not isinstance(value, (list, tuple)) or not 0 < len(value) <= 50:
        raise BadValue("invalid", Text("This must be a list of 1 to 50 names.", "须为 1 到 50 个名称的列表。"))
    return tuple(_text(item) for item in value)


def _counted(value: object) -> str:
    if value not in CAPPED:
        raise BadValue("invalid", Text(f"This must be one of {', '.join(CAPPED)}.", f"可选：{', '.join(CAPPED)}。"))
    return str(value)


def _or_none(parser: Parser) -> Parser:
    return lambda value: None if value is None else parser(value)


def _gpus(value: object) -> int:
    return parse_gpu(value)[1]


def _amount(name: str) -> Parser:
    return whole(name, 0, AMOUNT_MAX)


def _seconds(name: str) -> Parser:
    return parse_duration(name, 0, RUNTIME_SECONDS)


_ROLE: Mapping[str, Parser] = {
    "replicas": whole("replicas", 1, REPLICAS), "gpu": _gpus, "cpu": parse_cpu, "memory": parse_memory,
    "cpu_millis": whole("cpu_millis", 0, MILLIS_MAX), "memory_bytes": _amount("memory_bytes"),
}  # fmt: skip
_NODE = {"pool": _text, "node": _text}
_JOB = {"job": _text, "name": _or_none(_text), "from": _text, "amounts": _mapping, "queued": _flag}
FIELDS: Mapping[str, Mapping[str, Parser]] = {
    "submit": {"spec": _mapping, "count": whole("count", 1, JOBS_MAX)},
    "ask": {
        "job": _text, "roles": _mapping, "pools": _texts, "any_model": _flag, "any_label": _flag, "anywhere": _flag,
        "shared_cores": _flag, "max_runtime": parse_duration("max_runtime", 1, RUNTIME_SECONDS),
        "max_runtime_seconds": whole("max_runtime_seconds", 1, RUNTIME_SECONDS),
    },
    "rank": {"job": _text, "priority": whole("priority", 0, PRIORITY_MAX), "first": _flag},
    "release": _JOB,
    "end": _JOB,
    "quota": {
        "queue": _text, "queue_name": _text, "pool": _text, "resource": _text, "guarantee": _amount("guarantee"),
        "deserved": _or_none(_amount("deserved")), "ceiling": _or_none(_amount("ceiling")),
        "weight": whole("weight", 0, WEIGHT_MAX),
    },
    "cap": {
        "job": _text, "above": whole("above", 0, TENANT_DEPTH), "together": _flag, "what": _counted,
        "amount": _or_none(whole("amount", 0, MILLIS_MAX)),
    },
    "add_nodes": {
        "pool": _text, "count": whole("count", 1, NODES_MAX), "gpu": _gpus, "cpu": parse_cpu, "memory": parse_memory,
        "gpu_model": lambda value: value if value == "" else _text(value),
        "gpu_millis": whole("gpu_millis", 0, MILLIS_MAX), "cpu_millis": whole("cpu_millis", 0, MILLIS_MAX),
        "memory_bytes": _amount("memory_bytes"),
    },
    "reserve": {
        "queue": _text, "pool": _text, "gpu": _gpus, "gpu_millis": whole("gpu_millis", 1, MILLIS_MAX),
        "starts_at": parse_moment("starts_at"), "ends_at": parse_moment("ends_at"),
    },
    "remove_node": _NODE,
    "cordon": _NODE,
    "uncordon": _NODE,
    "policy": {
        "in_order": _flag, "reclaims": _flag, "preempts": _flag, "aging_seconds": _seconds("aging_seconds"),
        "least_runtime_seconds": _seconds("least_runtime_seconds"),
        "reclaim_least_runtime_seconds": _seconds("reclaim_least_runtime_seconds"),
        "starvation_guard_seconds": _seconds("starvation_guard_seconds"),
        "backfill_depth": whole("backfill_depth", 0, BACKFILL_MAX), "rebalances": _flag,
    },
}  # fmt: skip
_NEEDED: Mapping[str, tuple[str, ...]] = {
    "submit": ("spec",), "ask": ("job",), "rank": ("job",), "release": ("job",), "end": ("job",),
    "quota": ("queue", "pool", "resource"), "reserve": ("queue", "pool", "ends_at"),
    "cap": ("job", "what", "amount"),
    "add_nodes": ("pool", "count"), "remove_node": ("pool", "node"),
    "cordon": ("pool", "node"), "uncordon": ("pool", "node"),
}  # fmt: skip
FOR_OPERATORS = frozenset({"add_nodes", "remove_node", "cordon", "uncordon", "policy"})


@dataclass
class _Reading:
    """What is known while changes are read."""

    reader: Redactor
    tenant: str | None
    errors: list[FieldError] = field(default_factory=list)
    submitted: int = 0

    @cached_property
    def predictor(self) -> Predictor:
        """What ran before. One statement, for all that is submitted in thought."""
        return predictor_of_history()

    def mistake(self, path: str, code: str, message: Saying, hint: Saying = "") -> None:
        self.errors.append(FieldError(path, code, message, hint))


def read_changes(entries: Sequence[Values], *, tenant: str | None, reader: Redactor) -> tuple[list[Change], list[str]]:
    """The changes and the path of each. InvalidInput with all mistakes; Forbidden where only operators may think of it."""
    reading = _Reading(reader, tenant)
    changes: list[Change] = []
    places: list[str] = []
    for index, entry in enumerate(entries):
        place = f"/changes/{index}"
        if len(entry) != 1 or next(iter(entry)) not in FIELDS:
            known = ", ".join(FIELDS)
            reading.mistake(
                place,
                "invalid",
                Text(
                    "A change is an object with one key, which says what is changed.",
                    "一项变更是只有一个键的对象，该键说明变更什么。",
                ),
                Text(f"One of: {known}.", f"可选：{known}。"),
            )
            continue
        ((kind, values),) = entry.items()
        if kind in FOR_OPERATORS and not role_allows(reader.actor, None, "node.edit"):
            raise Forbidden(
                Text(f"Only operators may ask what {kind} would change.", f"只有运维人员可以查询 {kind} 的影响。"),
                hint=Text("Leave it out, or ask an operator.", "请省略，或联系运维人员。"),
            )
        path = f"{place}/{kind}"
        parsed = _parsed(values, FIELDS[kind], _NEEDED.get(kind, ()), path, reading)
        made = _READERS[kind](parsed, path, reading) if parsed is not None else None
        if made is not None:
            changes.append(made)
            places.append(path)
    if reading.errors:
        raise InvalidInput(reading.errors[0].message, hint=reading.errors[0].hint, fields=reading.errors)
    return changes, places


def _parsed(
    values: object, fields: Mapping[str, Parser], needed: Sequence[str], path: str, reading: _Reading
) -> dict[str, Any] | None:
    """The values of these fields; None where any is wrong or missing."""
    before = len(reading.errors)
    if not isinstance(values, Mapping):
        reading.mistake(
            path,
            "invalid",
            Text("This must be an object.", "须为对象。"),
            Text(f"With: {', '.join(fields)}.", f"可含：{', '.join(fields)}。"),
        )
        return None
    found: dict[str, Any] = {}
    for name, value in values.items():
        parser = fields.get(str(name))
        if parser is None:
            renamed = RENAMED.get(str(name))
            hint = (
                Text(f"It was renamed to {renamed}.", f"已改名为 {renamed}。")
                if renamed in fields
                else Text(f"Known are: {', '.join(fields)}.", f"可用：{', '.join(fields)}。")
            )
            reading.mistake(
                f"{path}/{str(name)[:80]}",
                "unknown_field",
                Text(f"There is no field {str(name)[:80]!r} here.", f"此处没有字段 {str(name)[:80]!r}。"),
                hint,
            )
            continue
        try:
            found[str(name)] = parser(value)
        except BadValue as error:
            reading.mistake(f"{path}/{name}", error.code, error.message, error.hint)
    for name in needed:
        if name not in values:
            reading.mistake(
                f"{path}/{name}",
                "required",
                Text(f"{name} is missing.", f"缺少 {name}。"),
                Text(f"Give {name}.", f"请给出 {name}。"),
            )
    return found if len(reading.errors) == before else None


# --- One for each kind ----------------------------------------------------------------------------------------------------


def _submit(values: Values, path: str, reading: _Reading) -> Change | None:
    """Jobs that are checked as if they were submitted, and go where these would."""
    loaded = reading.reader.loaded
    try:
        submission = prepare(actor=reading.reader.actor, tenant=reading.tenant, document=values["spec"])
    except InvalidInput as error:
        for problem in error.fields:
            inside = problem.path if problem.path == "/tenant" else f"{path}/spec{problem.path}"
            reading.mistake(inside, problem.code, problem.message, problem.hint)
        if not error.fields:
            reading.mistake(f"{path}/spec", error.code, error.detail_text, error.hint_text)
        return None
    except BerthError as error:
        if isinstance(error, Forbidden):
            raise
        reading.mistake(f"{path}/spec", error.code, error.detail_text, error.hint_text)
        return None
    spec = submission.spec
    count = values.get("count", 1) * (spec.array.size if spec.array else 1)
    reading.submitted += count
    if reading.submitted > JOBS_MAX:
        message = Text(f"The changes submit more than {JOBS_MAX} jobs.", f"假设提交的作业超过 {JOBS_MAX} 个。")
        reading.mistake(f"{path}/count", "too_many", message, Text("Submit fewer.", "请减少数量。"))
        return None
    wish = look_up(wish_of(spec), submission.tenant.id)
    pools = eligible(wish, submission.tenant.id, str(submission.image.kind), loaded.around.pools).pools
    user_id = reading.reader.actor.user_id or uuid.UUID(int=0)
    planned = planned_seconds(reading.predictor, submission, user_id, submission.ask.gpu_millis)
    jobs = []
    for number in range(count):
        job_id = f"{path}/{number}"
        reading.reader.name(job_id, spec.name if count == 1 else f"{spec.name}-{number}")
        jobs.append(
            Waiting(
                job_id,
                loaded.numbers.queue_at[submission.queue.id],
                wish.gang,
                pools,
                loaded.state.at,
                spec.priority,
                max_runtime=submission.max_runtime_seconds,
                predicted=planned.typical,
                cautious=planned.cautious,
                array=path if spec.array and spec.array.parallelism else "",
                parallel=spec.array.parallelism or 0 if spec.array else 0,
            )
        )
    return Submit(tuple(jobs))


def _waiting(values: Values, path: str, reading: _Reading) -> Waiting | None:
    """A job that the reader sees and that waits."""
    found = _find(values["job"], path, reading)
    if found is None:
        return None
    job = next((waiting_job for waiting_job in reading.reader.loaded.state.waiting if waiting_job.id == str(found.id)), None)
    if job is None:
        message = Text(f"Job {found.name} does not wait.", f"作业 {found.name} 不在等待。")
        reading.mistake(
            f"{path}/job", "not_waiting", message, Text("Name one that waits: `berth ps`.", "请指定等待中的作业：`berth ps`。")
        )
    return job


def _find(text: str, path: str, reading: _Reading) -> Job | None:
    try:
        found = fetch_job(reading.reader.actor, text, "job.read")
    except BerthError as error:
        reading.mistake(f"{path}/job", error.code, error.detail_text, error.hint_text)
        return None
    reading.reader.name(str(found.id), found.name)
    return found


def _ask(values: Values, path: str, reading: _Reading) -> Change | None:
    job = _waiting(values, path, reading)
    if job is None:
        return None
    gang = _smaller(job.gang, values.get("roles", {}), f"{path}/roles", reading)
    if values.get("any_model"):
        gang = _each(gang, models=frozenset())
    if values.get("any_label"):
        gang = _each(gang, needs=())
    if values.get("shared_cores"):
        gang = _each(gang, exclusive=False)
    if values.get("anywhere"):
        gang = GangAsk(tuple(replace(role, together=_loose(role.together)) for role in gang.roles), _loose(gang.together))
    pools = [_pool(text, f"{path}/pools/{index}", reading) for index, text in enumerate(values.get("pools", ()))]
    more = tuple(pool for pool in dict.fromkeys(pools) if pool is not None and pool not in job.pools)
    runtime = values.get("max_runtime", values.get("max_runtime_seconds"))
    return Ask(job.id, gang if gang != job.gang else None, (*job.pools, *more) if more else None, runtime)


def _smaller(gang: GangAsk, roles: Values, path: str, reading: _Reading) -> GangAsk:
    known = {role.role: role for role in gang.roles}
    for name, values in roles.items():
        role = known.get(name)
        if role is None:
            hint = Text(f"Roles are: {', '.join(known)}.", f"角色有：{', '.join(known)}。")
            reading.mistake(
                f"{path}/{str(name)[:80]}",
                "not_found",
                Text(f"The job has no role {str(name)[:80]!r}.", f"作业没有角色 {str(name)[:80]!r}。"),
                hint,
            )
            continue
        found = _parsed(values, _ROLE, (), f"{path}/{name}", reading)
        if found is None:
            continue
        ask = TaskAsk(
            found.get("cpu", found.get("cpu_millis", role.ask.cpu_millis)),
            found.get("memory", found.get("memory_bytes", role.ask.memory_bytes)),
            found.get("gpu", role.ask.gpu_millis),
            role.ask.models,
            role.ask.needs,
            role.ask.tolerates,
            role.ask.exclusive,
        )
        least = found.get("replicas", role.minimum)
        most = least if role.minimum == role.maximum else max(least, role.maximum)
        known[name] = replace(role, ask=ask, minimum=least, maximum=most)
    return replace(gang, roles=tuple(known[role.role] for role in gang.roles))


def _each(gang: GangAsk, **values: Any) -> GangAsk:
    return replace(gang, roles=tuple(replace(role, ask=replace(role.ask, **values)) for role in gang.roles))


def _loose(together: str) -> str:
    return together if together in ("", PACK, SPREAD) else PACK


def _rank(values: Values, path: str, reading: _Reading) -> Change | None:
    job = _waiting(values, path, reading)
    if job is None:
        return None
    if ("priority" in values) == bool(values.get("first")):
        reading.mistake(
            path,
            "invalid",
            Text("Give either a priority or first: true.", "请给出 priority 或 first: true，二者选一。"),
            Text("For example priority: 600.", "例如 priority: 600。"),
        )
        return None
    if "priority" in values:
        return Rank(job.id, priority=values["priority"])
    others = [waiting_job for waiting_job in reading.reader.loaded.state.waiting if waiting_job.queue == job.queue]
    aging = reading.reader.loaded.state.policy.aging_seconds
    first = min(waiting_job.submitted_at + waiting_job.order - waiting_job.priority * aging for waiting_job in others)
    mine = job.submitted_at + job.order - job.priority * aging
    return Rank(job.id, order=job.order - (mine - first + 1))


def _release(values: Values, path: str, reading: _Reading) -> Change | None:
    job = _waiting(values, path, reading)
    return Release(job.id) if job is not None else None


def _end(values: Values, path: str, reading: _Reading) -> Change | None:
    found = _find(values["job"], path, reading)
    return End(str(found.id)) if found is not None else None


def _quota(values: Values, path: str, reading: _Reading) -> Change | None:
    before = len(reading.errors)
    queue = _queue(values["queue"], f"{path}/queue", reading)
    pool = _pool(values["pool"], f"{path}/pool", reading)
    if values["resource"] not in RESOURCE_NAMES:
        message = Text(f"There is no resource {values['resource'][:80]!r}.", f"没有资源 {values['resource'][:80]!r}。")
        reading.mistake(
            f"{path}/resource",
            "not_found",
            message,
            Text(f"Resources are: {', '.join(RESOURCE_NAMES)}.", f"资源有：{', '.join(RESOURCE_NAMES)}。"),
        )
    columns = {name: values[name] for name in COLUMNS if name in values}
    if not columns:
        reading.mistake(
            path,
            "required",
            Text("The change names nothing that it changes.", "该项变更没有给出任何内容。"),
            Text(f"Give one of {', '.join(COLUMNS)}.", f"请给出其中之一：{', '.join(COLUMNS)}。"),
        )
    if len(reading.errors) > before or queue is None or pool is None:
        return None
    return SetLimits(queue, reading.reader.loaded.numbers.pools[pool], values["resource"], columns)


def _cap(values: Values, path: str, reading: _Reading) -> Change | None:
    """Another cap on the user of a job that waits, or with `together` on all users, in its tenant or in one above."""
    job = _waiting(values, path, reading)
    if job is None:
        return None
    if job.user is None or values.get("above", 0) >= len(job.tenants):
        hint = (
            Text(
                f"The job counts in {counted(len(job.tenants), 'tenant', 'tenants')}, its own included: give a smaller number.",
                f"该作业连同自身的租户共计入 {len(job.tenants)} 级租户，请给出更小的值。",
            )
            if job.user is not None
            else Text("Name another job.", "请改用其他作业。")
        )
        reading.mistake(f"{path}/above", "not_found", Text("No cap counts this job there.", "该处没有限制此作业的上限。"), hint)
        return None
    user = TOGETHER if values.get("together") else job.user
    return SetCap(job.tenants[values.get("above", 0)], user, values["what"], values["amount"])


def _reserve(values: Values, path: str, reading: _Reading) -> Change | None:
    """A booking of GPUs for a window, from now on where no beginning is given."""
    before = len(reading.errors)
    now = reading.reader.loaded.state.at
    queue = _queue(values["queue"], f"{path}/queue", reading)
    pool = _pool(values["pool"], f"{path}/pool", reading)
    starts_at = mark(values["starts_at"]) if "starts_at" in values else now
    ends_at = mark(values["ends_at"])
    gpus = values.get("gpu", values.get("gpu_millis", 0))
    if not gpus:
        reading.mistake(
            f"{path}/gpu",
            "required",
            Text("The booking does not say how many GPUs.", "预订没有说明 GPU 数量。"),
            Text("For example gpu: 8.", "例如 gpu: 8。"),
        )
    if ends_at <= max(starts_at, now):
        reading.mistake(
            f"{path}/ends_at",
            "out_of_range",
            Text("The booking must end after it begins, and later than now.", "预订的结束须晚于开始，且晚于现在。"),
            Text("Give a later time.", "请给出更晚的时间。"),
        )
    if len(reading.errors) > before or queue is None or pool is None:
        return None
    numbers = reading.reader.loaded.numbers
    return ReserveWindow(Booked(uuid.uuid5(queue, path), queue, numbers.pools[pool], gpus, starts_at, ends_at))


def _queue(text: str, path: str, reading: _Reading) -> uuid.UUID | None:
    found = reading.reader.find_queue(text)
    if found is None:
        message = Text(
            f"There is no queue {text[:80]!r} that you see, or several.", f"没有您可见的队列 {text[:80]!r}，或有多个同名。"
        )
        reading.mistake(
            path, "not_found", message, Text("`berth queues` lists them; use the id.", "`berth queues` 可列出；请使用 ID。")
        )
    return found


def _pool(text: str, path: str, reading: _Reading) -> int | None:
    """A pool by name, `cluster/pool`, or id."""
    pools = reading.reader.loaded.around.pools
    found = [number for number, pool in enumerate(pools) if text in (pool.name, str(pool.id), f"{pool.cluster_name}/{pool.name}")]
    if len(found) == 1:
        return found[0]
    names = ", ".join(sorted({pool.name for pool in pools})[:20])
    message = (
        Text(f"There is no pool {text[:80]!r}.", f"没有资源池 {text[:80]!r}。")
        if not found
        else Text(f"Several pools are named {text[:80]!r}.", f"有多个资源池名为 {text[:80]!r}。")
    )
    reading.mistake(
        path, "not_found", message, _pools_are(names) if not found else Text("Write cluster/pool.", "请写 集群/资源池。")
    )
    return None


def _pools_are(names: str) -> Text[str]:
    return Text(f"Pools are: {names or 'none'}.", f"资源池有：{names or '无'}。")


def _add_nodes(values: Values, path: str, reading: _Reading) -> Change | None:
    pool = _pool(values["pool"], f"{path}/pool", reading)
    if pool is None:
        return None
    inside = [machine for machine in reading.reader.loaded.state.machines if machine.pool == pool]
    like = max(
        inside,
        key=lambda machine: (machine.gpus, machine.cpu_millis, machine.memory_bytes, machine.name),
        default=Machine("", pool, 0, 0),
    )
    gpus = values.get("gpu", values.get("gpu_millis", like.gpus * WHOLE_MILLIS)) // WHOLE_MILLIS
    made = replace(
        like,
        cpu_millis=values.get("cpu", values.get("cpu_millis", like.cpu_millis)),
        memory_bytes=values.get("memory", values.get("memory_bytes", like.memory_bytes)),
        gpus=gpus,
        model=values.get("gpu_model", like.model),
        blocked="",
    )
    known = {machine.name for machine in inside}
    names = [name for number in range(len(known) + values["count"]) if (name := f"more-{number + 1}") not in known]
    return AddMachines(tuple(replace(made, name=name) for name in names[: values["count"]]))


def _node(values: Values, path: str, reading: _Reading) -> tuple[int, str] | None:
    pool = _pool(values["pool"], f"{path}/pool", reading)
    if pool is None:
        return None
    known = sorted(machine.name for machine in reading.reader.loaded.state.machines if machine.pool == pool)
    if values["node"] not in known:
        message = Text(
            f"There is no node {values['node'][:80]!r} in pool {values['pool'][:80]}.",
            f"资源池 {values['pool'][:80]} 中没有节点 {values['node'][:80]!r}。",
        )
        reading.mistake(
            f"{path}/node",
            "not_found",
            message,
            Text(f"Nodes are: {', '.join(known[:20]) or 'none'}.", f"节点有：{', '.join(known[:20]) or '无'}。"),
        )
        return None
    return pool, values["node"]


def _remove_node(values: Values, path: str, reading: _Reading) -> Change | None:
    at = _node(values, path, reading)
    return RemoveMachine(*at) if at is not None else None


def _cordon(values: Values, path: str, reading: _Reading) -> Change | None:
    at = _node(values, path, reading)
    return Block(*at, "cordoned") if at is not None else None


def _uncordon(values: Values, path: str, reading: _Reading) -> Change | None:
    at = _node(values, path, reading)
    return Block(*at) if at is not None else None


def _policy(values: Values, path: str, reading: _Reading) -> Change | None:
    if not values:
        reading.mistake(
            path,
            "required",
            Text("The change names nothing that it changes.", "该项变更没有给出任何内容。"),
            Text(f"Give one of {', '.join(FIELDS['policy'])}.", f"请给出其中之一：{', '.join(FIELDS['policy'])}。"),
        )
        return None
    return SetPolicy(replace(reading.reader.loaded.state.policy, **values))


_READERS: Mapping[str, Callable[[Values, str, _Reading], Change | None]] = {
    "submit": _submit,
    "ask": _ask,
    "rank": _rank,
    "release": _release,
    "end": _end,
    "quota": _quota,
    "reserve": _reserve,
    "cap": _cap,
    "add_nodes": _add_nodes,
    "remove_node": _remove_node,
    "cordon": _cordon,
    "uncordon": _uncordon,
    "policy": _policy,
}
