"""What a job is, once read: a frozen value with every unit normalised. The JSON Schema is generated from it.

Attributes carry units (`memory_bytes`); documents carry the short keys of users (`memory`). Both doors, a user's document and
the canonical form of a stored job, go through `jobs.spec.parse.parse_spec`; nothing else constructs these models.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import datetime
from enum import StrEnum
from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, WithJsonSchema
from pydantic_core import PydanticCustomError

from jobs import bounds
from jobs.frameworks import framework_names
from jobs.lifecycle.policies import PolicyAction, PolicyEvent
from jobs.spec import values
from jobs.spec.values import BadValue
from kernel import limits
from kernel.resources import Resources
from kernel.signals import SignalTarget
from kernel.words import Saying, Text

DEFAULT_NAME = "job"
DEFAULT_ROLE = "worker"
FRAMEWORKS = framework_names()
TOGETHER = ("pack", "spread", "island", "switch", "rack")


class JobKind(StrEnum):
    BATCH = "batch"
    BUILD = "build"
    TRANSFER = "transfer"


class RetryClass(StrEnum):
    """Classes of failure that a job may ask to be retried after; see `jobs/lifecycle/exits.py`."""

    USER = "user"
    OOM = "oom"
    PLATFORM = "platform"
    UNKNOWN = "unknown"
    HANG = "hang"
    DEADLINE = "deadline"


FAILURES = tuple(entry for entry in RetryClass if entry is not RetryClass.DEADLINE)
"""What `retry.on` means where a job does not say it: to go on after the time limit is asked for by name."""


class Shell(StrEnum):
    """What runs a command that is written as text."""

    AUTO = "auto"
    BASH = "bash"
    SH = "sh"


_BASH_OR_SH = '[ -x /bin/bash ] && exec /bin/bash -c "$0"; exec /bin/sh -c "$0"'
"""Decided where the task runs, since only the image knows; the text is an argument, and nothing of it is read by this."""


def _adapt(parse: Callable[[Any], Any]) -> BeforeValidator:
    """Carry a BadValue through pydantic untouched: its words travel in the context, never through a template."""

    def validate(value: Any) -> Any:
        try:
            return parse(value)
        except BadValue as bad:
            raise PydanticCustomError("value", "value", {"code": bad.code, "message": bad.message, "hint": bad.hint}) from None

    return BeforeValidator(validate)


def _shape(kind: str, *examples: Any, **rules: Any) -> WithJsonSchema:
    return WithJsonSchema({"type": kind, **rules, "examples": list(examples)} if examples else {"type": kind, **rules})


def _any_of(*forms: dict[str, Any], examples: list[Any]) -> WithJsonSchema:
    return WithJsonSchema({"anyOf": list(forms), "examples": examples})


def _grammar(name: Saying, pattern: str, length: int, rule: Text[str]) -> tuple[BeforeValidator, WithJsonSchema]:
    schema = {"type": "string", "pattern": f"^(?:{pattern})$", "maxLength": length}
    return _adapt(values.pattern_text(name, pattern, length, rule)), WithJsonSchema(schema)


def _enumerated(name: Saying, allowed: tuple[str, ...]) -> BeforeValidator:
    def parse(value: object) -> str:
        if isinstance(value, str) and value in allowed:
            return value
        raise BadValue(
            "choice",
            Text(
                f"{name} {values.shown(value)} is not one of {', '.join(allowed)}.",
                f"{values.subject_zh(name)}的值 {values.shown(value, 'zh')} 不可用；可选：{', '.join(allowed)}。",
            ),
            _nearest(value, allowed),
        )

    return _adapt(parse)


def _nearest(value: object, allowed: tuple[str, ...]) -> Saying:
    from difflib import get_close_matches  # Costs a millisecond to load and is needed for mistakes only.

    close = get_close_matches(value.lower(), allowed, n=1) if isinstance(value, str) and len(value) <= values.SHOWN_LENGTH else []
    return Text(f"Did you mean {close[0]}?", f"是否想写 {close[0]}？") if close else ""


def _sequence(name: Saying, most: int, *, unique: bool = True) -> BeforeValidator:
    """A list of at most `most` entries, each at most once; entries are judged by their own type."""

    def parse(value: object) -> tuple[Any, ...]:
        if not isinstance(value, (list, tuple)):
            example = f"{name}: [{value}]" if isinstance(name, str) else f"[{value}]"  # Other names are no keys.
            hint = (
                Text(f"Write {example}.", f"请写 {example}。")
                if isinstance(value, str) and len(value) <= values.SHOWN_LENGTH
                else ""
            )
            raise BadValue(
                "list",
                Text(
                    f"{name} must be a list, not {values.shown(value)}.",
                    f"{values.subject_zh(name)}须为列表，而非{values.shown(value, 'zh')}。",
                ),
                hint,
            )
        if len(value) > most:
            raise BadValue(
                "too_many",
                Text(
                    f"{name} has {len(value)} entries; at most {most} are allowed.",
                    f"{values.subject_zh(name)}有 {len(value)} 项；最多 {most} 项。",
                ),
            )
        if unique:
            seen: set[str] = set()
            for item in value:
                if isinstance(item, str) and item in seen:
                    raise BadValue(
                        "duplicate",
                        Text(
                            f"{name} lists {values.shown(item)} twice.",
                            f"{values.subject_zh(name)}中 {values.shown(item, 'zh')} 重复。",
                        ),
                        Text("Remove one of them.", "请去掉其中一个。"),
                    )
                seen.add(item if isinstance(item, str) else "")
        return tuple(value)

    return _adapt(parse)


def _mapping(name: str, most: int) -> BeforeValidator:
    def parse(value: object) -> dict[Any, Any]:
        if not isinstance(value, Mapping):
            raise BadValue(
                "mapping",
                Text(
                    f"{name} must be a mapping of names to values, not {values.shown(value)}.",
                    f"{name} 须为从名称到值的映射，而非{values.shown(value, 'zh')}。",
                ),
            )
        if len(value) > most:
            raise BadValue(
                "too_many",
                Text(
                    f"{name} has {len(value)} entries; at most {most} are allowed.",
                    f"{name} 有 {len(value)} 项；最多 {most} 项。",
                ),
            )
        return dict(value)

    return _adapt(parse)


_ALNUM = Text(
    "letters, digits, dots, dashes and underscores, starting with a letter or digit",
    "可用字母、数字、点、连字符与下划线，首字符须为字母或数字",
)
_ALNUM_ENDED = Text(f"{_ALNUM.en}, and ending with one", "可用字母、数字、点、连字符与下划线，首尾须为字母或数字")
_DNS_WORD = Text(
    "lower-case letters, digits and dashes, starting with a letter and not ending in a dash",
    "可用小写字母、数字与连字符，以字母开头，不以连字符结尾",
)
_NAME = _grammar(Text("A name", "名称"), values.NAME, limits.NAME_LENGTH, _ALNUM)
_RUNTIME = _adapt(values.duration("max_runtime", 1, bounds.RUNTIME_SECONDS))
_INTERVAL = _adapt(values.duration("interval", 1, bounds.RUNTIME_SECONDS))
_GRACE = _adapt(values.duration("grace", 0, bounds.GRACE_SECONDS))
_BEFORE_DEADLINE = _adapt(values.duration("before_deadline", 1, bounds.GRACE_SECONDS))
_DURATION_FORMS = ({"type": "string", "pattern": "^([0-9]+w)?([0-9]+d)?([0-9]+h)?([0-9]+m)?([0-9]+s)?$"}, {"type": "integer"})

Name = Annotated[str, *_NAME]
RoleName = Annotated[
    str,
    *_grammar(Text("A role name", "角色名"), values.ROLE, 40, _DNS_WORD),
]
PortName = Annotated[
    str,
    *_grammar(Text("A port name", "端口名"), values.ROLE, 15, _DNS_WORD),
]
EnvName = Annotated[
    str,
    *_grammar(
        Text("A variable name", "变量名"),
        values.ENV_NAME,
        limits.NAME_LENGTH,
        Text("letters, digits and underscores, not starting with a digit", "可用字母、数字与下划线，不以数字开头"),
    ),
]
EnvValue = Annotated[
    str,
    _adapt(values.free_text(Text("A variable's value", "变量的值"), numbers=True)),
    WithJsonSchema({"type": ["string", "integer", "boolean"]}),
]
LabelName = Annotated[str, *_grammar(Text("A label name", "标签名"), values.LABEL, 63, _ALNUM_ENDED)]
LabelValue = Annotated[
    str,
    _adapt(
        lambda value: values.pattern_text(
            Text("A label value", "标签值"),
            f"({values.LABEL})?",
            63,
            Text(f"{_ALNUM_ENDED.en}; or empty", f"{_ALNUM_ENDED.zh}；或为空"),
        )(str(value) if isinstance(value, int) and not isinstance(value, bool) else value)
    ),
    WithJsonSchema({"type": ["string", "integer"], "maxLength": 63}),
]
Tag = Annotated[
    str,
    _adapt(values.parse_tag),
    # `\\w` means letters of any script here and ASCII only in editors, so the published pattern says what is not allowed.
    _shape("string", pattern=r"^[^\s,/]+$", maxLength=bounds.TAG_LENGTH),
]
SecretName = Annotated[
    str,
    *_grammar(
        Text("A secret name", "密钥名称"),
        r"[A-Za-z0-9_][A-Za-z0-9._-]*",
        limits.NAME_LENGTH,
        Text("letters, digits, dots, dashes and underscores", "可用字母、数字、点、连字符与下划线"),
    ),
]
VolumeName = Annotated[
    str,
    *_grammar(
        Text("A volume", "存储卷"),
        f"(?:{values.NAME}/)?{values.NAME}",
        limits.NAME_LENGTH,
        Text(f"{_ALNUM.en}; the owner's slug and a slash may come before", f"{_ALNUM.zh}；前面可加所有者的 slug 和斜杠"),
    ),
]
Count = Annotated[
    int, _adapt(values.whole("replicas", 1, bounds.REPLICAS)), _shape("integer", minimum=1, maximum=bounds.REPLICAS)
]
Seconds = Annotated[int, _RUNTIME, _any_of(*_DURATION_FORMS, examples=["2h", "90s", 3600])]
IntervalSeconds = Annotated[int, _INTERVAL, _any_of(*_DURATION_FORMS, examples=["10m", 600])]
GraceSeconds = Annotated[int, _GRACE, _any_of(*_DURATION_FORMS, examples=["60s", 30])]
BeforeSeconds = Annotated[int, _BEFORE_DEADLINE, _any_of(*_DURATION_FORMS, examples=["2m", 120])]
Moment = Annotated[datetime, _adapt(values.moment("start_after")), _shape("string", "2027-01-31T18:00:00Z", format="date-time")]
RelativePath = Annotated[str, _adapt(values.relative_path(Text("A path", "路径"))), _shape("string", minLength=1)]
Command = Annotated[
    str | tuple[str, ...],
    _adapt(values.parse_command),
    _any_of(
        {"type": "string", "minLength": 1},
        {"type": "array", "items": {"type": "string"}, "minItems": 1, "maxItems": limits.COMMAND_ARGUMENTS},
        examples=["python train.py --epochs 3", ["python", "train.py"]],
    ),
]
Dependencies = Annotated[tuple[Name, ...], _sequence(Text("The list of jobs", "作业列表"), bounds.DEPENDENCIES)]
Environment = Annotated[Mapping[EnvName, EnvValue], _mapping("env", bounds.ENV_ENTRIES)]

Labels = Annotated[Mapping[LabelName, LabelValue], _mapping("labels", bounds.LABELS)]
Tags = Annotated[tuple[Tag, ...], _sequence("tags", bounds.TAGS)]
Priority = Annotated[
    int,
    _adapt(values.parse_priority),
    _any_of(
        {"enum": list(values.PRIORITIES)},
        {"type": "integer", "minimum": 0, "maximum": values.PRIORITY_MAX},
        examples=["normal", 500],
    ),
]


class Model(BaseModel):
    """Frozen, and refusing keys that it does not know."""

    model_config = ConfigDict(frozen=True, extra="forbid", hide_input_in_errors=True)


class ReplicaRange(Model):
    """How many tasks: at least `min` to start, at most `max`."""

    min: Count
    max: Count

    @property
    def is_elastic(self) -> bool:
        return self.min != self.max


def _read_replicas(value: Any) -> Any:
    if isinstance(value, int) and not isinstance(value, bool):
        return {"min": value, "max": value}
    if isinstance(value, (Mapping, ReplicaRange)):
        return value
    parse = values.whole("replicas", 1, bounds.REPLICAS)
    return parse(value)


class GpuAsk(Model):
    """A number of GPUs in thousandths, of one model or of any."""

    model: str = ""
    millis: int = 0


def _read_gpu(value: Any) -> Any:
    if isinstance(value, GpuAsk):
        return value
    model, millis = values.parse_gpu(value)
    return {"model": model, "millis": millis}


_CPU_FORMS = _any_of(
    {"type": "number", "exclusiveMinimum": 0}, {"type": "string", "pattern": r"^[0-9]*\.?[0-9]*m?$"}, examples=[4, 0.5, "500m"]
)
_BYTES_FORMS = _any_of(
    {"type": "integer", "minimum": 0},
    {"type": "string", "pattern": r"^([0-9]+\.?[0-9]*|\.[0-9]+)(k|K|M|G|T|P|Ki|Mi|Gi|Ti|Pi)?$"},
    examples=["16Gi", 1073741824],
)
_GPU_FORMS = _any_of(
    {"type": "number", "minimum": 0},
    {"type": "string", "pattern": r"^([A-Za-z0-9][A-Za-z0-9._-]*:)?([0-9]+\.?[0-9]*|\.[0-9]+)$"},
    examples=[1, "a100:1", 0.5],
)


class ResourceAsk(Model):
    """What one task of a role needs."""

    cpu_millis: Annotated[int, _adapt(values.parse_cpu), _CPU_FORMS] = Field(
        1000, validation_alias="cpu", description="Cores, or thousandths with m."
    )
    memory_bytes: Annotated[int, _adapt(values.parse_memory), _BYTES_FORMS] = Field(
        2 * limits.GIB,
        validation_alias="memory",
        description="Memory per task. A task that uses more is killed as out of memory.",
    )
    gpu: Annotated[GpuAsk, _adapt(_read_gpu), _GPU_FORMS] = Field(
        GpuAsk(), description="Whole GPUs, model:number for a model, or a fraction of a GPU below 1."
    )
    shm_bytes: Annotated[int, _adapt(values.parse_shm), _BYTES_FORMS] = Field(
        0, validation_alias="shm", description="Size of /dev/shm; 0 keeps the default of the engine."
    )
    cpu_exclusive: Annotated[bool, _adapt(values.boolean("cpu_exclusive"))] = Field(
        False, description="Exclusive whole cores; only nodes that support them are used."
    )
    rdma: Annotated[bool, _adapt(values.boolean("rdma"))] = Field(
        False, description="The node's adapters for remote memory access (InfiniBand, RoCE); only nodes with one are used."
    )

    processes_per_gpu: Annotated[int, _adapt(values.whole("processes_per_gpu", 1, bounds.PROCESSES_PER_GPU))] = Field(
        1,
        ge=1,
        le=bounds.PROCESSES_PER_GPU,
        description="Processes that share each GPU of a task: the command runs once for each, and is a rank each.",
    )

    @property
    def amounts(self) -> Resources:
        """The same as the quantities that quota and placement count with."""
        return Resources(cpu_millis=self.cpu_millis, memory_bytes=self.memory_bytes, gpu_millis=self.gpu.millis)


class Ready(Model):
    """When a task of the role is ready. Exactly one of port and log."""

    port: PortName | None = Field(None, description="One of the role's ports: ready once the task listens at it.")
    path: (
        Annotated[
            str,
            *_grammar(
                "ready.path",
                r"/[!-~]*",
                1024,
                Text("a path of a URL, such as /health", "URL 路径，例如 /health"),
            ),
        ]
        | None
    ) = Field(None, description="With port: ready once a GET of this path is answered by 2xx or 3xx.")
    log: Annotated[str, _adapt(values.free_text("ready.log"))] | None = Field(
        None, description="Ready once the task has written this text, on either stream."
    )
    timeout_seconds: Annotated[
        int, _adapt(values.duration("timeout", 1, bounds.READY_SECONDS)), _any_of(*_DURATION_FORMS, examples=["5m", 300])
    ] = Field(600, validation_alias="timeout", description="The task fails when it is not ready after this time.")


def _read_events(value: Any) -> Any:
    """One event stands for a list of one."""
    return [value] if isinstance(value, str) else value


class RolePolicy(Model):
    """What the end of a task of the role leads to; the first policy that fits decides."""

    on: Annotated[
        tuple[Annotated[PolicyEvent, _enumerated(Text("An event", "事件"), tuple(PolicyEvent))], ...],
        _sequence("on", len(PolicyEvent)),
        _adapt(_read_events),
        _any_of(
            {"enum": list(PolicyEvent)},
            {"type": "array", "items": {"enum": list(PolicyEvent)}, "minItems": 1, "uniqueItems": True},
            examples=["failed", ["evicted", "lost"]],
        ),
    ] = Field(description="Ends of a task; `role_succeeded`: of the last one of the role; `any`: all that did not end well.")
    action: Annotated[PolicyAction, _enumerated(Text("An action", "动作"), tuple(PolicyAction))] = Field(
        validation_alias="do", description="What follows."
    )
    exit_code: Annotated[
        tuple[Annotated[int, _adapt(values.whole("exit_code", 1, 255))], ...],
        _sequence("exit_code", bounds.POLICY_CODES),
        _adapt(lambda value: [value] if isinstance(value, int) and not isinstance(value, bool) else value),
        _any_of(
            {"type": "integer", "minimum": 1, "maximum": 255},
            {"type": "array", "items": {"type": "integer", "minimum": 1, "maximum": 255}},
            examples=[137, [137, 143]],
        ),
    ] = Field((), description="With `failed`: only after these exit codes, 128 + n for signal n.")


class Role(Model):
    """One kind of task in a job."""

    replicas: Annotated[
        ReplicaRange,
        _adapt(_read_replicas),
        _any_of(
            {"type": "integer", "minimum": 1, "maximum": bounds.REPLICAS},
            {
                "type": "object",
                "properties": {name: {"type": "integer", "minimum": 1, "maximum": bounds.REPLICAS} for name in ("min", "max")},
                "required": ["min", "max"],
                "additionalProperties": False,
            },
            examples=[2, {"min": 1, "max": 4}],
        ),
    ] = Field(ReplicaRange(min=1, max=1), description="Number of tasks of this role that run at the same time.")
    resources: ResourceAsk = Field(ResourceAsk(), description="Resources of each task of this role.")
    command: Command = Field(description="Text is run by `shell`; a list is executed as it is.")
    shell: Annotated[Shell, _enumerated("shell", tuple(Shell))] = Field(
        Shell.AUTO,
        description="The shell of a command that is text: `bash`, `sh`, or `auto`: bash if the image has it, else sh.",
    )
    ports: Annotated[tuple[PortName, ...], _sequence("ports", bounds.PORTS_PER_ROLE)] = Field(
        (), description="Names of ports; each task gets a free number for each, in BERTH_PORT_<NAME>."
    )
    env: Environment = Field({}, description="Variables of this role only; they override the job's.")
    ready: Ready | None = Field(None, description="When a task is ready, for roles that start after it. Default: at its start.")
    start_after_ready: Annotated[tuple[RoleName, ...], _sequence("start_after_ready", bounds.ROLES)] = Field(
        (), description="Roles all of whose tasks must be ready before the command of this role starts."
    )
    max_retry: Annotated[int, _adapt(values.whole("max_retry", 0, bounds.TASK_RETRIES))] | None = Field(
        None,
        description="How often the command of a task is started again, alone and in its place, when it fails. Default: what the "
        "framework says, else 0.",
    )
    policies: Annotated[tuple[RolePolicy, ...], _sequence("policies", bounds.POLICIES, unique=False)] = Field(
        (), description="What ends of tasks lead to, before `completion` counts them."
    )

    @property
    def argv(self) -> tuple[str, ...]:
        """What to execute, the same on all engines."""
        if not isinstance(self.command, str):
            return self.command
        chosen = {Shell.AUTO: ("/bin/sh", "-c", _BASH_OR_SH), Shell.BASH: ("/bin/bash", "-c"), Shell.SH: ("/bin/sh", "-c")}
        return (*chosen[self.shell], self.command)


class Retry(Model):
    """How often failures of which classes lead to another attempt. Without it the operator's budgets alone decide."""

    limit: Annotated[int, _adapt(values.whole("retry.limit", 0, bounds.ATTEMPTS_PER_JOB - 1))] = Field(
        description="Further attempts after failures of the classes in `on`.", ge=0, le=bounds.ATTEMPTS_PER_JOB - 1
    )
    on: Annotated[
        tuple[Annotated[RetryClass, _enumerated(Text("A failure class", "失败类别"), tuple(RetryClass))], ...],
        _sequence("on", len(RetryClass)),
    ] = Field(
        FAILURES,
        description="Classes of ends that count against `limit`; default: all but `deadline`, the end of `max_runtime`.",
    )


class CheckpointScope(StrEnum):
    JOB = "job"
    ROLE = "role"
    TASK = "task"


class Checkpoint(Model):
    """Where the job keeps what it needs to continue, and how it is told to write it before a stop."""

    path: Annotated[str, _adapt(lambda value: _checkpoint_path(value)), _shape("string", "ckpt", minLength=1)] = Field(
        description="Directory kept over attempts: relative to where tasks start, or absolute inside a writable mount."
    )
    signal: Annotated[str, _adapt(values.parse_signal), _shape("string", enum=list(values.SIGNALS))] = Field(
        "TERM", description="Signal sent before a stop or preemption."
    )
    signal_target: Annotated[SignalTarget, _enumerated("checkpoint.to", tuple(SignalTarget))] = Field(
        SignalTarget.PROGRAMS,
        validation_alias="to",
        description="Processes of a task that get the signal: those that handle it, then all others but shells (`programs`), "
        "`all`, all but the first (`children`), or the `first`, which is what the command names or its shell.",
    )
    grace_seconds: GraceSeconds = Field(30, validation_alias="grace", description="Time between the signal and the kill.")
    before_deadline_seconds: BeforeSeconds | None = Field(
        None,
        validation_alias="before_deadline",
        description="How long before the end of `max_runtime` the signal is sent, at most half of it; default: at its end.",
    )
    interval_seconds: IntervalSeconds | None = Field(
        None, validation_alias="interval", description="Interval at which the program writes checkpoints."
    )
    per: Annotated[CheckpointScope, _enumerated("checkpoint.per", tuple(CheckpointScope))] = Field(
        CheckpointScope.JOB, description="All tasks share the directory, or each role or task has its own in it."
    )
    start_from: Annotated[str, *_grammar("checkpoint.from", values.NAME, limits.NAME_LENGTH, _ALNUM)] | None = Field(
        None, validation_alias="from", description="Job (id, unique prefix or name) from whose last checkpoint this job starts."
    )


def _checkpoint_path(value: object) -> str:
    if isinstance(value, str) and value.startswith("/"):
        return values.absolute_path("checkpoint.path")(value)
    return values.relative_path("checkpoint.path")(value)


class Mount(Model):
    """A volume that the tenant may use, seen by every task."""

    volume: VolumeName = Field(description="Name of the volume; `<owner's slug>/<name>` for a volume of another tenant.")
    path: Annotated[str, _adapt(values.absolute_path("path")), _shape("string", "/data", pattern="^/")] = Field(
        description="Absolute path at which tasks see it."
    )
    read_only: Annotated[bool, _adapt(values.boolean("read_only"))] = Field(
        False, description="Mount read-only, even if the grant allows writing."
    )


class Code(Model):
    """Where the working directory comes from. Exactly one of path, git and snapshot."""

    path: Annotated[str, _adapt(values.free_text("code.path"))] | None = Field(
        None, description="A directory of the submitter; the client uploads it and sends `snapshot` instead."
    )
    git: (
        Annotated[
            str,
            *_grammar(
                "code.git",
                values.GIT_URL,
                1024,
                Text("an address starting with https://, ssh:// or git@", "须为以 https://、ssh:// 或 git@ 开头的地址"),
            ),
        ]
        | None
    ) = Field(None, description="Address of a Git repository.")
    ref: (
        Annotated[str, *_grammar("code.ref", values.GIT_REF, 255, Text("a branch, tag or commit", "须为分支、标签或提交"))] | None
    ) = Field(None, description="Branch, tag or commit; with git only.")
    secret: SecretName | None = Field(
        None,
        description="Secret of the tenant with which a private repository is read: a token, or user:token, for https; a private "
        "key for ssh. With git only.",
    )
    snapshot: (
        Annotated[
            str,
            *_grammar(
                "code.snapshot", values.SHA256, 64, Text("64 hexadecimal digits in lower case", "须为 64 位小写十六进制数字")
            ),
        ]
        | None
    ) = Field(None, description="SHA-256 of an uploaded snapshot.")


def _read_accepted(value: Any) -> Any:
    """One value stands for a list of one."""
    if isinstance(value, (list, tuple)) and not value:
        raise BadValue(
            "empty",
            Text(
                "The list of accepted values is empty, and so no machine has one of them.",
                "可接受的值列表为空，因此没有节点符合。",
            ),
            Text("Leave the label out.", "请去掉该标签。"),
        )
    return [value] if isinstance(value, (str, int)) and not isinstance(value, bool) else value


_parse_node_label_value = values.pattern_text(
    Text("A label's value", "标签的值"),
    values.NODE_LABEL_VALUE,
    bounds.NODE_LABEL_VALUE_LENGTH,
    Text("any text on one line", "须为单行文本"),
)


NodeLabelName = Annotated[
    str,
    *_grammar(
        Text("A node label", "节点标签"),
        values.NODE_LABEL,
        253,
        Text(
            "letters, digits, dots, dashes, underscores and slashes, starting and ending with a letter or digit",
            "可用字母、数字、点、连字符、下划线与斜杠，首尾须为字母或数字",
        ),
    ),
]
NodeLabelValue = Annotated[
    str,
    _adapt(
        lambda value: _parse_node_label_value(str(value) if isinstance(value, int) and not isinstance(value, bool) else value)
    ),
]
Accepted = Annotated[
    tuple[NodeLabelValue, ...],
    _sequence(Text("The list of accepted values", "可接受的值列表"), bounds.NODE_LABEL_VALUES),
    _adapt(_read_accepted),
    _any_of(
        {"type": ["string", "integer"]},
        {
            "type": "array",
            "items": {"type": ["string", "integer"]},
            "minItems": 1,
            "maxItems": bounds.NODE_LABEL_VALUES,
            "uniqueItems": True,
        },
        examples=["hall-2", ["hall-1", "hall-2"]],
    ),
]
Taint = Annotated[
    str,
    *_grammar(
        Text("A taint", "污点"),
        values.TAINT,
        limits.TAINT_LENGTH,
        Text(
            "lower-case letters, digits, dots and dashes, starting and ending with a letter or digit",
            "可用小写字母、数字、点与连字符，首尾须为字母或数字",
        ),
    ),
]


class Placement(Model):
    """What tasks ask of the machines that they go to, and of one another."""

    together: Annotated[str, _enumerated("placement.together", TOGETHER), _shape("string", enum=list(TOGETHER))] | None = Field(
        None,
        description="pack: near one another; spread: apart; both as far as possible. island, switch, rack: only within one.",
    )
    labels: Annotated[Mapping[NodeLabelName, Accepted], _mapping("placement.labels", bounds.NODE_LABELS)] = Field(
        {}, description="Labels that a node must have, each with its accepted values."
    )
    tolerates: Annotated[tuple[Taint, ...], _sequence("tolerates", bounds.TOLERATES)] = Field(
        (), description="Taints of nodes that the job tolerates."
    )


class RoleCompletion(Model):
    """When the tasks of one role decide the end of the job. Left out: the defaults of `jobs/lifecycle/completion.py`."""

    min_failed: Annotated[int | Literal["never"], _adapt(lambda value: _threshold("min_failed", value))] | None = Field(
        None,
        description="The job fails once this many tasks of the role failed. Default 1; with a chief role, never for the others.",
    )
    min_succeeded: Annotated[int | Literal["never"], _adapt(lambda value: _threshold("min_succeeded", value))] | None = Field(
        None, description="The job succeeds once this many tasks of the role succeeded. Default: all tasks of all roles ended."
    )


def _threshold(name: str, value: object) -> int | Literal["never"] | None:
    if value is None:
        return None
    if value == "never" and isinstance(value, str):
        return "never"
    if isinstance(value, str) or value == -1:
        raise BadValue(
            "threshold",
            Text(
                f"{name} {values.shown(value)} is not a number of tasks.", f"{name} 的值 {values.shown(value, 'zh')} 不是任务数。"
            ),
            Text(f"Write {name}: never, or a number.", f"请写 {name}: never，或一个数字。"),
        )
    return values.whole(name, 1, bounds.REPLICAS)(value)


class Completion(Model):
    """Which tasks decide how the job ends."""

    chief: RoleName | None = Field(None, description="The role whose end decides the end of the job.")
    roles: Mapping[RoleName, RoleCompletion] = Field({}, description="Thresholds by role.")


class Array(Model):
    """The same job many times, told apart by BERTH_ARRAY_INDEX."""

    size: Annotated[int, _adapt(values.whole("array.size", 1, bounds.ARRAY_SIZE))] = Field(
        ge=1, le=bounds.ARRAY_SIZE, description="Number of children."
    )
    parallelism: Annotated[int, _adapt(values.whole("array.parallelism", 1, bounds.ARRAY_SIZE))] | None = Field(
        None, description="Maximum number of children that run at the same time; default: no limit of its own."
    )


class JobSpec(Model):
    """A job as submitted: complete, normalised, never changed. Everything but a command has a default."""

    name: Name = Field(DEFAULT_NAME, description="Need not be unique.")
    kind: Annotated[JobKind, _enumerated("kind", tuple(JobKind))] = Field(JobKind.BATCH, description="Purpose of the job.")
    queue: Annotated[str, *_grammar("queue", values.QUEUE, limits.NAME_LENGTH, _ALNUM)] | None = Field(
        None, description="Default: the tenant's top queue."
    )
    pool: Name | None = Field(None, description="Default: chosen by the scheduler.")
    cluster: Name | None = Field(None, description="Default: chosen by the scheduler.")
    image: (
        Annotated[
            str,
            *_grammar(
                "image", values.IMAGE, 512, Text("a catalogue name or a registry reference", "须为目录中的镜像名称或镜像仓库引用")
            ),
        ]
        | None
    ) = Field(None, description="A catalogue name or a registry reference. Default: the cluster's own programs.")
    code: Code | None = Field(None, description="Contents of the working directory.")
    workdir: RelativePath = Field(".", description="Working directory of tasks, relative to the code.")
    framework: Annotated[str, _enumerated("framework", FRAMEWORKS), _shape("string", enum=list(FRAMEWORKS))] = Field(
        "none", description="Framework by which the tasks find each other."
    )
    ssh: Annotated[bool, _adapt(values.boolean("ssh"))] = Field(
        False, description="Passwordless ssh between the tasks, by names such as worker-1; the image needs ssh and sshd."
    )
    roles: Annotated[Mapping[RoleName, Role], _mapping("roles", bounds.ROLES)] = Field(description="The tasks, by role.")
    placement: Placement = Field(Placement(), description="Nodes of the tasks, and their distance.")
    priority: Priority = Field(values.PRIORITIES["normal"], description="low is 100, normal 500, high 900, urgent 1000.")
    max_runtime_seconds: Seconds | None = Field(
        None, validation_alias="max_runtime", description="Run time limit; the job is stopped then."
    )
    retry: Retry | None = Field(None, description="Further attempts after failures.")
    checkpoint: Checkpoint | None = Field(None, description="Directory that is kept from attempt to attempt.")
    outputs: Annotated[tuple[RelativePath, ...], _sequence("outputs", bounds.OUTPUTS)] = Field(
        (), description="Files and directories kept as artifacts when an attempt ends."
    )
    env: Environment = Field({}, description="Variables of every task.")
    secrets: Annotated[Mapping[EnvName, SecretName], _adapt(lambda value: _name_secrets(value))] = Field(
        {},
        description="Variables filled from the tenant's secrets. NAME: null takes the secret called NAME, NAME: other the other.",
    )
    mounts: Annotated[tuple[Mount, ...], _sequence("mounts", bounds.MOUNTS, unique=False)] = Field((), description="Volumes.")
    labels: Labels = Field({}, description="For finding and grouping.")
    tags: Tags = Field((), description="Can be changed after submission.")
    completion: Completion = Field(Completion(), description="Conditions of success and failure, instead of the defaults.")
    after: Dependencies = Field((), description="Jobs (id, unique prefix or name) that must have started.")
    after_ok: Dependencies = Field((), description="Jobs that must have succeeded.")
    after_any: Dependencies = Field((), description="Jobs that must have ended, with any result.")
    hold: Annotated[bool, _adapt(values.boolean("hold"))] = Field(False, description="Wait until released.")
    start_after: Moment | None = Field(None, description="Earliest start.")
    array: (
        Annotated[
            Array,
            _adapt(lambda value: {"size": value} if isinstance(value, int) and not isinstance(value, bool) else value),
        ]
        | None
    ) = Field(None, description="Copies of the job, with an index each.")

    @property
    def task_count_max(self) -> int:
        """Tasks of one attempt at most."""
        return sum(role.replicas.max for role in self.roles.values())

    @property
    def task_count_min(self) -> int:
        """Tasks of one attempt at least."""
        return sum(role.replicas.min for role in self.roles.values())


def _name_secrets(value: object) -> dict[Any, Any]:
    if not isinstance(value, Mapping):
        hint = (
            Text(f"Write secrets: {{{value}: null}}.", f"请写 secrets: {{{value}: null}}。")
            if isinstance(value, str) and len(value) <= values.SHOWN_LENGTH
            else ""
        )
        raise BadValue(
            "mapping",
            Text(
                f"secrets must be a mapping of variables to secret names, not {values.shown(value)}.",
                f"secrets 须为从变量到密钥名称的映射，而非{values.shown(value, 'zh')}。",
            ),
            hint,
        )
    if len(value) > bounds.ENV_ENTRIES:
        raise BadValue(
            "too_many",
            Text(
                f"secrets has {len(value)} entries; at most {bounds.ENV_ENTRIES} are allowed.",
                f"secrets 有 {len(value)} 项；最多 {bounds.ENV_ENTRIES} 项。",
            ),
        )
    return {name: name if secret is None else secret for name, secret in value.items()}
