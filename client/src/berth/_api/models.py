"""Shapes of the API, made by tools/generate_client_types.py from client/openapi.json. Do not edit."""

from __future__ import annotations
from typing import Any, Literal, NotRequired, TypeAlias, TypedDict


class AcceptInRequest(TypedDict):
    name: NotRequired[str]
    password: NotRequired[str]
    token: str
    with_token: NotRequired[bool]


class AdoptedOut(TypedDict):
    attempt: str
    job: str


class AgainInRequest(TypedDict):
    changes: NotRequired[dict[str, Any]]


class AmountsInRequest(TypedDict):
    cpu_millis: NotRequired[int]
    gpu_millis: NotRequired[int]
    memory_bytes: NotRequired[int]


class AmountsOut(TypedDict):
    cpu_millis: int
    gpu_millis: int
    memory_bytes: int


class AnnouncementInRequest(TypedDict):
    ends_at: NotRequired[str | None]
    level: NotRequired[Literal["info", "warning", "critical"]]
    starts_at: NotRequired[str | None]
    tenant: NotRequired[str | None]
    text: str
    text_zh: NotRequired[str]


class ArrayOut(TypedDict):
    index: int | None
    parallelism: int | None
    size: int | None


class ArtifactOut(TypedDict):
    created_at: str
    mode: str
    path: str
    sha256: str
    size_bytes: int


class ArtifactPageOut(TypedDict):
    attempt: int
    complete: bool
    items: list[ArtifactOut]
    marker: str | None
    next: str | None


class AttemptCostOut(TypedDict):
    cpu_milli_seconds: int
    fate: str | None
    gpu_busy_milli_seconds: int
    gpu_measured_milli_seconds: int
    gpu_milli_seconds: int
    held_seconds: int | None
    memory_byte_seconds: int
    micros: int
    number: int


class AuditActorOut(TypedDict):
    id: str | None
    name: str
    token_id: str | None


class AuditTargetOut(TypedDict):
    id: str
    kind: str
    name: str


class BatchInRequest(TypedDict):
    items: list[Any]
    spec: Any
    tenant: NotRequired[str]


class BatchOut(TypedDict):
    count: int
    ids: list[str]


class BookingInRequest(TypedDict):
    comment: NotRequired[str]
    ends_at: str
    gpu_millis: int
    pool: str
    queue: NotRequired[str | None]
    starts_at: str
    tenant: NotRequired[str | None]


WarnAtItem: TypeAlias = int


class BudgetInRequest(TypedDict):
    amount: int
    kind: Literal["money", "gpu_time", "node_time"]
    stops: NotRequired[bool]
    warn_at: NotRequired[list[WarnAtItem]]


class BudgetQueue(TypedDict):
    id: str
    name: str


class CapInRequest(TypedDict):
    containers: NotRequired[int | None]
    gpu_millis: NotRequired[int | None]
    jobs: NotRequired[int | None]
    user: NotRequired[str | None]


class CeilingOut(TypedDict):
    cpu_millis: int | None
    gpu_millis: int | None
    memory_bytes: int | None


class ChangeInRequest(TypedDict):
    ceiling: NotRequired[int | None]
    deserved: NotRequired[int | None]
    guarantee: NotRequired[int]
    pool: str
    queue: str
    resource: Literal["cpu_millis", "memory_bytes", "gpu_millis"]
    weight: NotRequired[int]


class CheckOut(TypedDict):
    detail: str
    milliseconds: int
    ok: bool


class ClusterAccessOut(TypedDict):
    account: str
    expires_at: str | None
    origin: str
    server: str
    verifies_tls: bool


class ClusterEditRequest(TypedDict):
    config: NotRequired[dict[str, Any]]
    credentials: NotRequired[str | None]
    is_enabled: NotRequired[bool]
    is_lost: NotRequired[bool]
    name: NotRequired[str]


class ClusterFindingOut(TypedDict):
    check: str
    hint: str
    outcome: Literal["ok", "warning", "failed"]
    text: str


class ClusterInRequest(TypedDict):
    config: NotRequired[dict[str, Any]]
    credentials: str | None
    is_enabled: NotRequired[bool]
    kind: str
    name: str


class ClusterOfClaim(TypedDict):
    id: str
    name: str


class ConditionOut(TypedDict):
    detail: str
    name: Literal["unknown", "reachable", "lost_contact"]
    since_at: str | None


class ConnectOut(TypedDict):
    url: str


class ConsequenceOut(TypedDict):
    job_id: str
    name: str
    what: Literal["starts", "waits", "is_evicted"]
    why: str


ConvertInRequest = TypedDict(
    "ConvertInRequest",
    {
        "from": NotRequired[Literal["openpai", "sbatch"]],
        "name": NotRequired[str],
        "text": str,
    },
)


class CurvePoint(TypedDict):
    month: int
    own_micros: int
    rent_micros: int


class DecisionInRequest(TypedDict):
    answer: NotRequired[str]


class DecisionOut(TypedDict):
    at: str
    detail: dict[str, Any]
    id: str
    kind: Literal["start", "wait_turned_start", "evict", "claim", "refuse"]
    pool: str | None


class DecisionPage(TypedDict):
    items: list[DecisionOut]
    next: str | None


class DeleteTenantInRequest(TypedDict):
    confirm: NotRequired[str]


class DeletedTenantRef(TypedDict):
    id: str
    name: str
    slug: str


class DeliveryOut(TypedDict):
    created_at: str
    delivered_at: str | None
    id: str
    job_id: str | None
    kind: str
    last_error: str | None
    last_status: int | None
    retry_at: str | None
    seq: int | None
    state: Literal["pending", "sent", "failed"]
    subscription_id: str
    tries: int


class DeliveryPageOut(TypedDict):
    items: list[DeliveryOut]
    next: str | None


class DeservedInRequest(TypedDict):
    cpu_millis: NotRequired[int | None]
    gpu_millis: NotRequired[int | None]
    memory_bytes: NotRequired[int | None]


class DeviceCodeInRequest(TypedDict):
    client: str


class DeviceCodeOut(TypedDict):
    device_code: str
    expires_in: int
    interval: int
    user_code: str
    verification_url: str
    verification_url_complete: str


class DirectoryBodyRequest(TypedDict):
    name: str
    password: str


class DisableInRequest(TypedDict):
    reason: NotRequired[str | None]
    stop_jobs: NotRequired[bool]


class DrainInRequest(TypedDict):
    reason: NotRequired[str]


class DrainedNodeOut(TypedDict):
    id: str
    name: str
    pool: str


class EditInRequest(TypedDict):
    changes: list[ChangeInRequest]
    comment: NotRequired[str]
    dry_run: NotRequired[bool]
    effective_from: NotRequired[str | None]
    tenant: NotRequired[str | None]
    versions: NotRequired[dict[str, int]]


class EditProblemOut(TypedDict):
    code: str
    hint: NotRequired[str]
    message: str
    path: str


class EndedOut(TypedDict):
    ended: int


class EnrolmentOut(TypedDict):
    qr_svg: str
    secret: str
    uri: str


class EvictionOut(TypedDict):
    lost_cost: int | None
    lost_gpu_seconds: float
    lost_seconds: int


ExitOut = TypedDict(
    "ExitOut",
    {
        "class": str,
        "code": int | None,
        "evidence": str,
        "failure_class": str,
        "hint": str,
        "reason": str,
        "signal": int | None,
        "stage": str,
        "task": str | None,
        "text": str,
        "who_pays": str,
    },
)


class ExpectedStartOut(TypedDict):
    error: float | None
    known_by: str | None
    p50_at: str | None
    p90_at: str | None
    reason: str
    said_at: str
    was_by: str | None


class FactorCodeRequest(TypedDict):
    code: str


class FactorInRequest(TypedDict):
    password: str


class FactorOut(TypedDict):
    enabled: bool
    recovery_codes_left: int


class FactorRemovalRequest(TypedDict):
    code: str
    password: str


class FailureOut(TypedDict):
    at: str
    error: str


class FeatureInRequest(TypedDict):
    enabled: bool | None
    tenant: NotRequired[str | None]


class FeatureOut(TypedDict):
    enabled: bool
    installation: bool
    name: str
    setting: bool | None
    title: str
    title_zh: str


class FeaturesOut(TypedDict):
    items: list[FeatureOut]


class FetchedFirstOut(TypedDict):
    git: str
    job: str
    ref: str


class FieldProblem(TypedDict):
    code: str
    hint: NotRequired[str]
    message: str
    path: str


class FileOut(TypedDict):
    kind: Literal["file", "directory", "link", "other"]
    mode: str
    modified_at: str
    path: str
    size_bytes: int


class FilterOut(TypedDict):
    best: int
    code: str
    machines: int
    need: int
    never: int
    text: str


class FindingOut(TypedDict):
    by: Literal["stranger", "nobody", "job"]
    operation: str
    problem: str
    query: NotRequired[list[str]]
    status: int


class GoesOut(TypedDict):
    bookings: int
    images: int
    invitations: int
    members: int
    secrets: int
    service_accounts: int
    volumes: int


class GpuFaultOut(TypedDict):
    kind: Literal["xid", "ecc", "remap", "throttle", "lost"]
    number: int
    since_at: str
    text: str


class GpuOut(TypedDict):
    faults: list[GpuFaultOut]
    healthy: bool
    identifier: str
    memory_bytes: int
    model: str
    simulated: bool


class GrantInRequest(TypedDict):
    read_only: NotRequired[bool]
    tenant: str


class HandOverInRequest(TypedDict):
    to: str


class HandedKindOut(TypedDict):
    count: int
    kind: str


class HeldTenantOut(TypedDict):
    id: str
    name: str | None


class IdleModelOut(TypedDict):
    gpus: int
    largest_job: int
    largest_task: int
    machines: dict[str, int]


class ImageInRequest(TypedDict):
    base: NotRequired[str | None]
    containerfile: NotRequired[str | None]
    context_sha256: NotRequired[str | None]
    description: NotRequired[str]
    kind: Literal["host", "python", "registry"]
    name: str
    reference: NotRequired[str | None]
    requirements: NotRequired[str | None]
    shared: NotRequired[bool]
    tenant: NotRequired[str | None]


class ImportedLineOut(TypedDict):
    action: Literal["created", "updated", "unchanged"]
    line: int
    name: str


class InfoOut(TypedDict):
    features: dict[str, bool]
    name: str
    now: str
    profile: Literal["embedded", "production"]
    time_zone: str
    url: str
    version: str


class InvitationCodeInRequest(TypedDict):
    token: str


class InvitationInRequest(TypedDict):
    email: str
    role: NotRequired[Literal["viewer", "member", "manager"]]
    tenant: NotRequired[str | None]


class IsolationOut(TypedDict):
    facts: list[str]
    tenants_kept_apart: bool


class JobCodeOut(TypedDict):
    commit: str | None
    digest: str


class JobCostOut(TypedDict):
    attempts: list[AttemptCostOut]
    cpu_milli_seconds: int
    currency: str
    gpu_busy_milli_seconds: int
    gpu_measured_milli_seconds: int
    gpu_milli_seconds: int
    memory_byte_seconds: int
    micros: int
    micros_per_hour: int


class JobImageOut(TypedDict):
    digest: str
    name: str


class LatestOut(TypedDict):
    at: str | None
    kind: Literal["backfill_reservation", "claim", "line"] | None
    next_reservation_from: str | None
    reason: str
    text: str


class LimitColumns(TypedDict):
    ceiling: int | None
    deserved: int | None
    guarantee: int
    weight: int


class LivezOut(TypedDict):
    ok: bool


class LogItemOut(TypedDict):
    at: str
    marker: str | None
    offset: int
    skipped_bytes: int
    stream: Literal["stdout", "stderr"]
    task: dict[str, Any]
    text: str


class LogPageOut(TypedDict):
    attempt: int
    complete: bool
    cursor: str
    items: list[LogItemOut]


Node: TypeAlias = str


class MaintenanceInRequest(TypedDict):
    drain: NotRequired[bool]
    ends_at: str
    nodes: NotRequired[list[Node]]
    pool: NotRequired[str | None]
    reason: NotRequired[str]
    starts_at: str


class MemberInRequest(TypedDict):
    role: Literal["viewer", "member", "manager"]
    user: str


class MemberUser(TypedDict):
    email: str | None
    id: str
    is_active: bool
    kind: Literal["person", "service"]
    name: str


class MoveInRequest(TypedDict):
    after: NotRequired[str]
    among: NotRequired[Literal["own", "queue"]]
    before: NotRequired[str]
    to: NotRequired[Literal["first", "last"]]


class MovedJobOut(TypedDict):
    id: str
    name: str
    placed_at: str


class NoteOut(TypedDict):
    code: str
    hint: str
    kind: Literal["carried", "changed", "lost"]
    line: int | None
    place: str
    text: str


class OccupiedGpuOut(TypedDict):
    held: bool
    held_millis: int
    holders: int
    identifier: str
    index: int
    is_healthy: bool
    is_simulated: bool
    job_id: str | None
    job_name: str | None
    model: str
    tenant: str | None
    user: str | None
    utilisation: float | None


class OidcOut(TypedDict):
    name: str
    url: str


class OptionCostOut(TypedDict):
    micros: int | None
    micros_max: int | None
    micros_per_hour: int
    micros_per_hour_max: int


class OwnSessionOut(TypedDict):
    address: str
    browser: str | None
    created_at: str
    device: str
    expires_at: str
    id: str
    is_current: bool
    last_used_at: str
    system: str | None


class OwnSessionPage(TypedDict):
    items: list[OwnSessionOut]
    next: str | None


class PackageOut(TypedDict):
    name: str
    version: str


class ParameterOut(TypedDict):
    choices: list[Any]
    default: Any
    description: str
    description_zh: str
    maximum: float | None
    minimum: float | None
    name: str
    required: bool
    title: str
    title_zh: str
    type: Literal["string", "integer", "number", "boolean", "choice"]


class PasswordBodyRequest(TypedDict):
    current: str
    new: str


class PastOut(TypedDict):
    by_p90: float | None
    median_error_seconds: int | None
    predictions: int


class PatchedAnnouncementChangeRequest(TypedDict):
    ends_at: NotRequired[str | None]
    level: NotRequired[Literal["info", "warning", "critical"]]
    starts_at: NotRequired[str | None]
    text: NotRequired[str]
    text_zh: NotRequired[str]


class PatchedClusterEditRequest(TypedDict):
    config: NotRequired[dict[str, Any]]
    credentials: NotRequired[str | None]
    is_enabled: NotRequired[bool]
    is_lost: NotRequired[bool]
    name: NotRequired[str]


class PatchedCordonInRequest(TypedDict):
    cordon_reason: NotRequired[str]
    cordoned: NotRequired[bool]
    taints: NotRequired[dict[str, Any]]


Tag: TypeAlias = str


class PatchedEditInRequest(TypedDict):
    hold: NotRequired[bool]
    max_runtime_seconds: NotRequired[int | None]
    priority: NotRequired[Literal["low", "normal", "high", "urgent"] | int]
    queue: NotRequired[str]
    retry_now: NotRequired[bool]
    tags: NotRequired[list[Tag]]


class PatchedMemberChangeRequest(TypedDict):
    role: NotRequired[Literal["viewer", "member", "manager"]]


class PatchedPoolEditRequest(TypedDict):
    gpu_shares: NotRequired[bool | None]
    levels: NotRequired[list[Literal["island", "switch", "rack"]] | None]
    name: NotRequired[str]
    policy: NotRequired[Literal["fragmentation", "pack", "spread", "ratio"] | None]
    shared_devices_max: NotRequired[int | None]
    weights: NotRequired[dict[str, Any] | None]


class PatchedPreferenceInRequest(TypedDict):
    default_tenant: NotRequired[str | None]
    first_steps_done: NotRequired[bool]
    language: NotRequired[Literal["", "en", "zh"]]
    theme: NotRequired[Literal["system", "light", "dark"]]
    time_zone: NotRequired[str]


class PatchedQueueChangeRequest(TypedDict):
    name: NotRequired[str]


class PatchedSubscriptionChangeRequest(TypedDict):
    is_active: NotRequired[bool]
    jobs: NotRequired[Literal["mine", "all"]]
    kinds: NotRequired[
        list[
            Literal[
                "running",
                "succeeded",
                "failed",
                "stopped",
                "retried",
                "budget",
                "priority",
                "capacity",
                "limit",
            ]
        ]
    ]
    settings: NotRequired[dict[str, str]]
    target: NotRequired[str]


class PatchedTemplateChangeRequest(TypedDict):
    description: NotRequired[str]
    description_zh: NotRequired[str]
    icon: NotRequired[str]
    name: NotRequired[str]
    parameters: NotRequired[list[dict[str, Any]]]
    spec: NotRequired[Any]
    tags: NotRequired[list[Tag]]
    title: NotRequired[str]
    title_zh: NotRequired[str]


class PatchedTenantChangeRequest(TypedDict):
    description: NotRequired[str]
    name: NotRequired[str]


class PatchedUserChangeRequest(TypedDict):
    email: NotRequired[str]
    hand_to: NotRequired[str]
    is_active: NotRequired[bool]
    is_operator: NotRequired[bool]
    stop_jobs: NotRequired[bool]


class PatchedVolumeChangeRequest(TypedDict):
    description: NotRequired[str]
    name: NotRequired[str]
    read_only: NotRequired[bool]
    size_quota_bytes: NotRequired[int | None]


class PhaseOut(TypedDict):
    attempt: int | None
    began_at: str
    cause: str | None
    ended_at: str | None
    phase: str
    reason_text: str | None
    seconds: float


class PlaceOut(TypedDict):
    in_pool: int | None
    in_queue: int | None
    pool_length: int
    queue_length: int


class PlannedImageOut(TypedDict):
    digest: str | None
    kind: str
    name: str


class PoolIdleOut(TypedDict):
    cpu_millis: int
    models: dict[str, IdleModelOut]


class PoolRef(TypedDict):
    cluster: str
    id: str
    name: str


class PoolRulesOut(TypedDict):
    gpu_shares: NotRequired[bool | None]
    levels: NotRequired[list[Literal["island", "switch", "rack"]] | None]
    policy: NotRequired[Literal["fragmentation", "pack", "spread", "ratio"] | None]
    shared_devices_max: NotRequired[int | None]
    weights: NotRequired[dict[str, Any] | None]


class PoolUseOut(TypedDict):
    fragmentation: float | None
    idle: PoolIdleOut | None
    measured_at: str | None


class PriceInRequest(TypedDict):
    cpu_hour_micros: NotRequired[int]
    effective_at: NotRequired[str | None]
    gpu_hour_micros: NotRequired[int]
    memory_gib_hour_micros: NotRequired[int]
    pool: str


class PriorityGrantsInRequest(TypedDict):
    manager: NotRequired[Literal["low", "normal", "high", "urgent"] | int | None]
    member: NotRequired[Literal["low", "normal", "high", "urgent"] | int | None]


class PriorityRequestInRequest(TypedDict):
    ends_at: NotRequired[str | None]
    job: NotRequired[str]
    priority: Literal["low", "normal", "high", "urgent"] | int
    reason: NotRequired[str]
    starts_at: NotRequired[str | None]
    tenant: NotRequired[str | None]
    user: NotRequired[str]


class Problem(TypedDict):
    code: str
    detail: str
    fields: NotRequired[list[FieldProblem]]
    hint: NotRequired[str]
    request_id: str
    retryable: bool
    status: int
    title: str
    type: str


class ProgressOut(TypedDict):
    at: str
    done: int
    total: int


class QuarantinedTaskOut(TypedDict):
    cpu_millis: int
    gpu_millis: int
    index: int
    memory_bytes: int
    node: str
    role: str
    state: str


class QueueCountsOut(TypedDict):
    queue_id: str
    states: dict[str, int]


class QueueInRequest(TypedDict):
    name: str
    parent: NotRequired[str | None]
    tenant: NotRequired[str | None]


class QueueName(TypedDict):
    id: str
    name: str


class QueuePoolOut(TypedDict):
    ceiling: CeilingOut
    deserved: CeilingOut
    effective_ceiling: CeilingOut
    guarantee: AmountsOut
    headroom: CeilingOut
    pool: PoolRef
    used: AmountsOut
    weight: AmountsOut


class QuotaDecisionInRequest(TypedDict):
    answer: NotRequired[str]
    effective_from: NotRequired[str | None]


class QuotaRequestInRequest(TypedDict):
    changes: list[ChangeInRequest]
    effective_from: NotRequired[str | None]
    reason: NotRequired[str]
    tenant: NotRequired[str | None]


class ReadyzOut(TypedDict):
    checks: dict[str, CheckOut]
    ok: bool


class ReasonOut(TypedDict):
    code: str
    detail: dict[str, Any]
    found_at: str | None
    hint: str
    text: str


class RecoveryCodesOut(TypedDict):
    recovery_codes: list[str]
    sessions_ended: int


class RedeemInRequest(TypedDict):
    device_code: str


class ReferenceOut(TypedDict):
    id: str
    name: str


class RegistryAccountInRequest(TypedDict):
    password: str
    username: str


class RegistryAccountOut(TypedDict):
    created_at: str
    host: str
    updated_at: str
    username: str


class RegistryAccountPage(TypedDict):
    items: list[RegistryAccountOut]
    next: str | None


class RegistryCheckInRequest(TypedDict):
    image: NotRequired[str | None]


class RegistryCheckOut(TypedDict):
    code: str | None
    detail: str | None
    digest: str | None
    hint: str | None
    ok: bool
    size_bytes: int | None
    title: str | None


class RenderInRequest(TypedDict):
    name: NotRequired[str]
    parameters: NotRequired[dict[str, Any]]
    preview: NotRequired[bool]
    queue: NotRequired[str]
    tenant: NotRequired[str | None]


class RequestedChangeOut(TypedDict):
    pool: PoolRef | None
    queue: QueueName | None
    resource: str
    values: dict[str, int | None]


class ResourcesOut(TypedDict):
    cpu_millis: int
    gpu_millis: int
    memory_bytes: int


class RoleLayoutOut(TypedDict):
    beside: list[list[str]]
    command: list[str]
    count: int
    environment: dict[str, str]
    installs: list[str]
    max_retry: int
    ports: list[str]
    processes: int
    ready_when: str
    role: str
    secrets: list[str]
    starts_after: list[str]
    waits_for: list[str]


class RoomHolderOut(TypedDict):
    cpu_millis: int
    gpu_millis: int
    memory_bytes: int
    queue: ReferenceOut | None


class RulesInRequest(TypedDict):
    default_runtime_seconds: NotRequired[int | None]
    max_containers: NotRequired[int | None]
    max_jobs: NotRequired[int | None]
    max_runtime_seconds: NotRequired[int | None]


class RulesOut(TypedDict):
    default_runtime_seconds: int | None
    effective_default_runtime_seconds: int | None
    effective_max_runtime_seconds: int | None
    max_containers: int | None
    max_jobs: int | None
    max_runtime_seconds: int | None
    version: int


class RunningRowOut(TypedDict):
    borrowed: bool
    gpus: float
    job: ReferenceOut | None
    pool: str | None
    priority: int
    queue: ReferenceOut | None
    started_at: str | None
    state: Literal[
        "queued",
        "admitted",
        "starting",
        "running",
        "stopping",
        "succeeded",
        "failed",
        "stopped",
    ]
    tenant: str | None
    user: ReferenceOut | None


class SavedFilterInRequest(TypedDict):
    name: str
    page: str
    query: str


class SavedFilterOut(TypedDict):
    created_at: str
    id: str
    name: str
    page: str
    query: str


class SavedFilterPage(TypedDict):
    items: list[SavedFilterOut]
    next: str | None


class SecretInRequest(TypedDict):
    value: str


class SecretOut(TypedDict):
    created_at: str
    name: str
    updated_at: str


class SecretPage(TypedDict):
    items: list[SecretOut]
    next: str | None


class SeriesOut(TypedDict):
    highs: list[float | None]
    lows: list[float | None]
    metric: str
    resolution_seconds: float
    simulated: bool
    subject: str
    times: list[str]
    unit: str
    values: list[float | None]


class ServiceAccountInRequest(TypedDict):
    name: str
    role: NotRequired[Literal["viewer", "member", "manager"]]


class ShareLimitOut(TypedDict):
    ceiling: int | None
    deserved: int | None
    guarantee: int
    pool: str
    resource: str
    since: int
    weight: int


class ShareLineOut(TypedDict):
    deficit: int
    delivered: int
    delivered_by_all: int
    delivered_ppm: int
    due: int
    fair: int
    fair_ppm: int
    pool: str
    promised: int
    resource: str
    shortfall: int
    wanted: int
    wanted_by_all: int


class ShareWeekOut(TypedDict):
    closed_at: str
    sha256: str
    week: str


class ShareWeeksOut(TypedDict):
    items: list[ShareWeekOut]


class SignInBodyRequest(TypedDict):
    code: NotRequired[str | None]
    name: str
    password: str


class SignInMethodsOut(TypedDict):
    directory: bool
    oidc: OidcOut | None
    password: bool


class SigningKeysOut(TypedDict):
    algorithm: str
    former: list[str]
    public_key: str


class SpecChangeOut(TypedDict):
    newer: Any
    older: Any
    path: str


class SpecProblemOut(TypedDict):
    code: str
    hint: NotRequired[str]
    message: str
    path: str


class StartWaitOut(TypedDict):
    code: str
    detail: str
    since: str
    tasks: list[str]
    tasks_count: int
    text: str


class StatementLine(TypedDict):
    attempts: int
    cpu_micros: int
    cpu_milli_seconds: int
    fate: Literal["useful", "failed", "retried", "evicted", "stopped"]
    gpu_micros: int
    gpu_milli_seconds: int
    memory_byte_seconds: int
    memory_micros: int
    micros: int
    pool: str
    queue: str
    used_in: str
    user: str


class StatementPrice(TypedDict):
    micros_per_hour: int
    pool: str
    resource: str
    since: int


class StatementRef(TypedDict):
    closed_at: str
    currency: str
    month: str
    sha256: str


class StatementTotals(TypedDict):
    attempts: int
    cpu_micros: int
    cpu_milli_seconds: int
    gpu_micros: int
    gpu_milli_seconds: int
    gpu_milli_seconds_by_fate: dict[str, int]
    memory_byte_seconds: int
    memory_micros: int
    micros: int
    micros_by_fate: dict[str, int]


class StatementsOut(TypedDict):
    items: list[StatementRef]


class StaysOut(TypedDict):
    jobs: int


class StopInRequest(TypedDict):
    grace_seconds: NotRequired[float | None]
    reason: NotRequired[str]


class StragglerOut(TypedDict):
    behind_percent: int
    median_percent: int


class SubjectOut(TypedDict):
    id: str
    kind: str


class SubmitInRequest(TypedDict):
    spec: Any
    tenant: NotRequired[str]


class SubscriptionInRequest(TypedDict):
    channel: str
    jobs: NotRequired[Literal["mine", "all"]]
    kinds: NotRequired[
        list[
            Literal[
                "running",
                "succeeded",
                "failed",
                "stopped",
                "retried",
                "budget",
                "priority",
                "capacity",
                "limit",
            ]
        ]
    ]
    settings: NotRequired[dict[str, str]]
    target: NotRequired[str]
    tenant: NotRequired[str | None]


class SubscriptionOut(TypedDict):
    channel: str
    created_at: str
    id: str
    is_active: bool
    jobs: str
    kinds: list[str]
    last_failure: FailureOut | None
    problem: str | None
    secret: NotRequired[str]
    settings: dict[str, str | None]
    target: str
    tenant_id: str | None
    version: int


class SubscriptionPageOut(TypedDict):
    items: list[SubscriptionOut]
    next: str | None


class TaskWaitingOut(TypedDict):
    code: str
    detail: str
    since: str
    text: str


class TemplateInRequest(TypedDict):
    description: NotRequired[str]
    description_zh: NotRequired[str]
    icon: NotRequired[str]
    name: str
    parameters: NotRequired[list[dict[str, Any]]]
    public: NotRequired[bool]
    spec: Any
    tags: NotRequired[list[Tag]]
    tenant: NotRequired[str | None]
    title: str
    title_zh: NotRequired[str]


class TenantInRequest(TypedDict):
    description: NotRequired[str]
    name: str
    parent: NotRequired[str | None]


class TenantRef(TypedDict):
    id: str
    name: str
    slug: str


class TestInRequest(TypedDict):
    queue: NotRequired[str]
    tenant: NotRequired[str | None]


class TestJobOut(TypedDict):
    id: str
    name: str


class TestRunOut(TypedDict):
    at: str | None
    job: TestJobOut | None
    result: Literal["never", "running", "passed", "failed", "outdated"]


class TicketOut(TypedDict):
    expires_at: str
    ticket: str


class TimelineOut(TypedDict):
    phases: list[PhaseOut]
    seconds: float


Scope: TypeAlias = str


class TokenInRequest(TypedDict):
    expires_at: NotRequired[str | None]
    name: str
    scopes: NotRequired[list[Scope]]
    service_account: NotRequired[str | None]


class TransitionOut(TypedDict):
    actor: str
    at: str
    detail: dict[str, Any]
    from_state: str | None
    id: str
    reason: str | None
    reason_text: str | None
    subject: dict[str, Any]
    to_state: str


class TransitionPage(TypedDict):
    items: list[TransitionOut]
    next: str | None


class TriedWeightsOut(TypedDict):
    allocated: float
    weights: dict[str, int]


class UploadOut(TypedDict):
    chunk_bytes_max: int
    complete: bool
    expires_at: str | None
    id: str | None
    offset_bytes: int
    path: str | None
    sha256: str
    size_bytes: int
    tenant_id: str
    volume_id: str | None


class UploadTargetInRequest(TypedDict):
    code: NotRequired[bool]
    path: NotRequired[str]
    volume: NotRequired[str]


class UsageHeldItem(TypedDict):
    cpu_milli_seconds: int
    gpu_milli_seconds: int
    kind: Literal["starting", "ending", "booked"]
    memory_byte_seconds: int
    micros: int | None
    tenant: HeldTenantOut


class UsageHeldOut(TypedDict):
    currency: str
    items: list[UsageHeldItem]
    since: str | None
    until: str | None


class UsageItem(TypedDict):
    attempts: int
    cpu_milli_seconds: int
    gpu_busy_milli_seconds: int
    gpu_measured_milli_seconds: int
    gpu_milli_seconds: int
    id: str
    memory_byte_seconds: int
    micros: int | None
    name: str | None


class UsageOut(TypedDict):
    currency: str
    group_by: Literal["tenant", "user", "queue", "pool", "job", "fate", "day"]
    items: list[UsageItem]
    next: str | None
    since: str | None
    until: str | None


class UserInRequest(TypedDict):
    email: NotRequired[str]
    is_operator: NotRequired[bool]
    name: str


class UserOut(TypedDict):
    created_at: str
    email: str | None
    email_is_confirmed: bool | None
    id: str
    is_active: bool
    is_operator: bool
    kind: Literal["person", "service"]
    name: str
    version: int


class UserPage(TypedDict):
    items: list[UserOut]
    next: str | None


class UserRef(TypedDict):
    id: str
    name: str


class VolumeInRequest(TypedDict):
    claim: NotRequired[str]
    cluster: NotRequired[str]
    description: NotRequired[str]
    export: NotRequired[str]
    kind: NotRequired[Literal["local", "claim", "nfs"]]
    name: str
    read_only: NotRequired[bool]
    server: NotRequired[str]
    size_quota_bytes: NotRequired[int | None]
    tenant: NotRequired[str | None]


class WaitingOut(TypedDict):
    address: str
    client: str
    created_at: str
    expires_at: str
    user_code: str


class WaitingRowOut(TypedDict):
    expected_start: ExpectedStartOut | None
    gpus: float
    hold: bool
    job: ReferenceOut | None
    position: int | None
    priority: int
    queue: ReferenceOut | None
    reason: ReasonOut | None
    submitted_at: str
    tenant: str | None
    user: ReferenceOut | None


class WallOut(TypedDict):
    boundary: str
    cluster: str
    evidence: str
    outcome: Literal["closed", "open", "hole", "not_tried"]
    text: str


class WeightsInRequest(TypedDict):
    cpu_millis: NotRequired[int]
    gpu_millis: NotRequired[int]
    memory_bytes: NotRequired[int]


class WhatIfCountsOut(TypedDict):
    evicted: int
    starts: int
    waits: int


class WhatIfInRequest(TypedDict):
    changes: list[dict[str, Any]]
    tenant: NotRequired[str]


class WhatIfJobOut(TypedDict):
    evicts: int
    job: ReferenceOut
    nodes: list[str]
    pool: str | None
    reason: dict[str, Any] | None


class WhatIfListOut(TypedDict):
    jobs: list[WhatIfJobOut]
    more: int
    others: int


class WhatIfOut(TypedDict):
    after: WhatIfCountsOut
    before: WhatIfCountsOut
    displaced: WhatIfListOut
    evicted: WhatIfListOut
    spared: WhatIfListOut
    starts: WhatIfListOut
    starts_not: WhatIfListOut
    waits: WhatIfListOut


class WhoTenant(TypedDict):
    id: str
    name: str
    parent: str | None
    role: Literal["viewer", "member", "manager"]
    slug: str


class WhoToken(TypedDict):
    expires_at: str
    id: str
    name: str
    prefix: str
    scopes: list[Literal["all", "read", "jobs", "data", "tenant", "account", "operate"]]


class WhoUser(TypedDict):
    email: str
    email_is_confirmed: bool
    id: str
    is_operator: bool
    kind: Literal["person", "service"]
    name: str
    password_in: Literal["here", "directory"] | None


class WordsOut(TypedDict):
    en: str
    zh: str


class AnnouncementOut(TypedDict):
    active: bool
    created_at: str
    created_by: UserRef | None
    dismissed: bool
    ends_at: str | None
    everybody: bool
    id: str
    level: Literal["info", "warning", "critical"]
    may_edit: bool
    starts_at: str
    tenant: TenantRef | None
    text: str
    text_zh: str
    version: int


class AnnouncementPage(TypedDict):
    items: list[AnnouncementOut]
    next: str | None


class AuditOut(TypedDict):
    actor: AuditActorOut
    after: dict[str, Any] | None
    at: str
    before: dict[str, Any] | None
    count: int
    hash: str | None
    id: str
    request_id: str
    seq: int | None
    target: AuditTargetOut
    tenant_id: str | None
    verb: str


class AuditPageOut(TypedDict):
    items: list[AuditOut]
    next: str | None


class BoardOut(TypedDict):
    at: str
    borrowed_count: int
    queue: ReferenceOut
    running: list[RunningRowOut]
    running_count: int
    waiting: list[WaitingRowOut]
    waiting_count: int


class BookingOut(TypedDict):
    claimed_at: str | None
    comment: str
    created_at: str
    created_by: UserRef | None
    ends_at: str
    gpu_millis: int
    id: str
    pool: PoolRef | None
    queue: QueueName
    released_at: str | None
    starts_at: str
    state: Literal["held", "ended", "no_show", "cancelled"]
    tenant: TenantRef


class BookingPage(TypedDict):
    items: list[BookingOut]
    next: str | None


class BreakEvenOut(TypedDict):
    assumptions: dict[str, int]
    capacity_milli_hours_per_month: int
    crossover_month: int | None
    currency: str
    curve: list[CurvePoint]
    gpu_milli_hours_per_month: int
    measured_since: str | None
    own_micros_per_month: int
    pool: PoolRef | None
    rent_micros_per_month: int
    saved_micros: int
    stays_below: bool
    use_percent: int
    use_percent_needed: int | None


class BudgetOut(TypedDict):
    amount: int
    currency: str
    kind: Literal["money", "gpu_time", "node_time"]
    measured_at: str | None
    month: str
    percent: int
    queue: BudgetQueue
    spent: int
    stops: bool
    tenant: TenantRef | None
    version: int
    warn_at: list[int]


class BudgetPage(TypedDict):
    items: list[BudgetOut]
    next: str | None


class BuildOut(TypedDict):
    created_at: str
    digest: str
    ended_at: str | None
    error: str | None
    id: str
    job_id: str | None
    requested_by: UserRef | None
    started_at: str | None
    state: Literal["queued", "building", "succeeded", "failed"]


class BuildPage(TypedDict):
    items: list[BuildOut]
    next: str | None


class CapOut(TypedDict):
    containers: int | None
    gpu_millis: int | None
    jobs: int | None
    user: UserRef | None


class CapsOut(TypedDict):
    items: list[CapOut]


class ChannelFieldOut(TypedDict):
    example: str
    hint: WordsOut
    is_required: bool
    is_secret: bool
    name: str
    words: WordsOut


class ChannelProblemOut(TypedDict):
    code: str
    words: WordsOut


class CheckpointOut(TypedDict):
    age_seconds: int | None
    file_count: int
    grace_seconds: int
    if_evicted_now: EvictionOut | None
    interval_seconds: int | None
    kept_until: str | None
    path: str
    per: Literal["job", "role", "task"]
    problem: str
    quota_bytes: int
    saved_at: str | None
    signal: str
    size_bytes: int
    started_from: str | None
    state: Literal["none", "writing", "ready", "checking", "unreadable", "removed"]


class ClusterCheckOut(TypedDict):
    items: list[ClusterFindingOut]
    outcome: Literal["ok", "warning", "failed"]


class ClusterOut(TypedDict):
    access: ClusterAccessOut | None
    condition: ConditionOut
    config: dict[str, Any] | None
    created_at: str
    id: str
    inventory_read_at: str | None
    is_enabled: bool
    isolation: IsolationOut
    kind: Literal["local", "kubernetes", "slurm", "fake"]
    lost_at: str | None
    name: str
    version: int


class ClusterPage(TypedDict):
    items: list[ClusterOut]
    next: str | None


ConvertOut = TypedDict(
    "ConvertOut",
    {
        "from": Literal["openpai", "sbatch"],
        "notes": list[NoteOut],
        "problems": list[SpecProblemOut],
        "spec": dict[str, Any],
    },
)


class DeletedTenantOut(TypedDict):
    goes: GoesOut
    plan: str
    stays: StaysOut
    tenant: DeletedTenantRef


class EditChangeOut(TypedDict):
    before: LimitColumns | None
    pool: PoolRef | None
    queue: QueueName | None
    resource: str
    values: dict[str, int | None]


class EstimateItem(TypedDict):
    micros: int
    micros_per_hour: int
    pool: PoolRef


class EstimateOut(TypedDict):
    currency: str
    items: list[EstimateItem]
    seconds: int


class EventOut(TypedDict):
    at: str
    data: dict[str, Any]
    job_id: str | None
    kind: str
    seq: int
    subject: SubjectOut
    tenant_id: str | None


class EventPageOut(TypedDict):
    items: list[EventOut]
    next: str | None


class ExpectedOut(TypedDict):
    error: float | None
    known_by: str | None
    p50_at: str | None
    p90_at: str | None
    past: PastOut
    reason: str
    said_at: str
    was_by: str | None


class FileListOut(TypedDict):
    items: list[FileOut]
    next: str | None
    truncated: bool


class GrantOut(TypedDict):
    created_at: str
    id: str
    read_only: bool
    tenant: TenantRef


class HandedOut(TypedDict):
    handed_over: list[HandedKindOut]
    to: UserRef
    user: UserRef


class HolderOut(TypedDict):
    cpu_millis: int
    gpu_millis: int
    jobs: int
    kept: bool
    memory_bytes: int
    queue: ReferenceOut | None
    since: str | None
    standing: Literal["guaranteed", "deserved", "borrowed"]


class ImageOut(TypedDict):
    base: str | None
    build_job_id: str | None
    containerfile: str | None
    context_sha256: str | None
    created_at: str
    created_by: UserRef | None
    description: str
    digest: str | None
    error: str | None
    id: str
    kind: Literal["host", "python", "registry"]
    name: str
    packages: NotRequired[list[PackageOut]]
    pinned: bool
    python: str | None
    ready_at: str | None
    reference: str | None
    requirements: str | None
    size_bytes: int | None
    state: Literal["queued", "building", "ready", "failed"]
    tenant: TenantRef | None
    version: int


class ImagePage(TypedDict):
    items: list[ImageOut]
    next: str | None


class ImportOut(TypedDict):
    created: int
    dry_run: bool
    lines: list[ImportedLineOut]
    unchanged: int
    updated: int


class InvitationOut(TypedDict):
    created_at: str
    email: str
    expires_at: str
    id: str
    invited_by: UserRef | None
    role: Literal["viewer", "member", "manager"]
    state: Literal["open", "accepted", "withdrawn", "expired"]
    tenant: TenantRef


class InvitationPage(TypedDict):
    items: list[InvitationOut]
    next: str | None


class JobCountsOut(TypedDict):
    queues: NotRequired[list[QueueCountsOut]]
    states: dict[str, int]
    total: int


class JobOut(TypedDict):
    array: ArrayOut | None
    attempt: int
    cluster: str | None
    code: JobCodeOut | None
    condition: str | None
    counts: dict[str, Any] | None
    desired: Literal["run", "stop"]
    ended_at: str | None
    exit: ExitOut | None
    expected_start: NotRequired[ExpectedStartOut | None]
    framework: str
    gpus_simulated: bool
    held: NotRequired[ResourcesOut | None]
    held_by: NotRequired[list[RoomHolderOut]]
    hold: bool
    id: str
    image: JobImageOut
    isolation: str | None
    kind: str
    labels: dict[str, str]
    max_runtime_seconds: int | None
    name: str
    not_before_at: str | None
    origin: dict[str, Any] | None
    parent_id: str | None
    place: int | None
    planned_runtime_seconds: int | None
    pool: str | None
    priority: int
    progress: NotRequired[ProgressOut | None]
    queue: ReferenceOut
    reason: ReasonOut | None
    resources: ResourcesOut
    spec_digest: str
    started_at: str | None
    state: Literal[
        "queued",
        "admitted",
        "starting",
        "running",
        "stopping",
        "succeeded",
        "failed",
        "stopped",
    ]
    submitted_at: str
    tags: list[str]
    tenant: TenantRef
    user: ReferenceOut
    version: int
    warnings: NotRequired[list[str]]


class JobPage(TypedDict):
    items: list[JobOut]
    next: str | None


class LayoutOut(TypedDict):
    chief: str | None
    roles: list[RoleLayoutOut]
    vital: list[str]


class LearnedOut(TypedDict):
    chosen_at: str
    learned_at: str
    machines: int
    tasks: int
    tried: list[TriedWeightsOut]
    weights: dict[str, int]


class LeavingOut(TypedDict):
    checkpoint: bool
    is_leaving: bool
    job: ReferenceOut
    started_at: str | None
    tasks: int
    tenant: str
    user: str


class LeftItemOut(TypedDict):
    id: str
    name: str
    tenant: TenantRef


class LeftKindOut(TypedDict):
    can_be_handed_over: bool
    count: int
    first: list[LeftItemOut]
    kind: str


class LeftOut(TypedDict):
    kinds: list[LeftKindOut]
    user: UserRef


class LimitInRequest(TypedDict):
    cpu_millis: NotRequired[int | None]
    deserved: NotRequired[DeservedInRequest]
    gpu_millis: NotRequired[int | None]
    guarantee: NotRequired[AmountsInRequest]
    memory_bytes: NotRequired[int | None]
    pool: str
    weight: NotRequired[WeightsInRequest]


class MaintenanceOut(TypedDict):
    began_at: str | None
    created_at: str
    created_by: str
    drain: bool
    ended_at: str | None
    ends_at: str
    id: str
    node_count: int
    nodes: list[ReferenceOut]
    pool: ReferenceOut | None
    reason: str
    starts_at: str
    state: Literal["planned", "active", "over", "cancelled"]


class MaintenancePage(TypedDict):
    items: list[MaintenanceOut]
    next: str | None


class MakerOut(TypedDict):
    role: Literal["manager", "operator"]
    tenant: ReferenceOut | None


class MemberOut(TypedDict):
    created_at: str
    role: Literal["viewer", "member", "manager"]
    user: MemberUser
    version: int


class MemberPage(TypedDict):
    items: list[MemberOut]
    next: str | None


class MoveOut(TypedDict):
    among: Literal["own", "queue"]
    digest: NotRequired[str]
    job: JobOut
    job_id: NotRequired[str]
    jobs: NotRequired[list[MovedJobOut]]
    moved: int
    plan: NotRequired[str]


class NewInvitationOut(TypedDict):
    command: str
    created_at: str
    email: str
    expires_at: str
    id: str
    invited_by: UserRef | None
    role: Literal["viewer", "member", "manager"]
    state: Literal["open", "accepted", "withdrawn", "expired"]
    tenant: TenantRef
    token: str


class NewTokenOut(TypedDict):
    created_at: str
    expires_at: str
    id: str
    last_used_at: str | None
    name: str
    prefix: str
    revoked_at: str | None
    scopes: list[Literal["all", "read", "jobs", "data", "tenant", "account", "operate"]]
    token: str
    user: UserRef


class NodeOut(TypedDict):
    allocated: ResourcesOut
    capacity: ResourcesOut
    cluster: ReferenceOut
    cordon_reason: str | None
    cordoned: bool
    cordoned_at: str | None
    cordoned_by: str | None
    gpu_model: str | None
    gpus: list[GpuOut]
    gpus_simulated: bool
    id: str
    labels: dict[str, str]
    last_seen_at: str
    name: str
    own_taints: dict[str, Literal["keep-out", "avoid"]]
    pool: ReferenceOut
    ready: bool
    ready_since_at: str
    reason: str | None
    taints: dict[str, Literal["keep-out", "avoid"]]
    version: int


class NodePage(TypedDict):
    items: list[NodeOut]
    next: str | None


class OccupiedNodeOut(TypedDict):
    cluster: ReferenceOut
    cordoned: bool
    gpus: list[OccupiedGpuOut]
    gpus_simulated: bool
    name: str
    node_id: str
    pool: ReferenceOut
    ready: bool
    undecided_gpu_millis: int


class OptionRoleOut(TypedDict):
    name: str
    replicas: int
    resources: ResourcesOut


class OverOut(TypedDict):
    column: Literal["deserved", "ceiling"]
    limit: int
    pool: PoolRef | None
    queue: QueueName
    resource: str
    used: int
    was_over: bool


class PlannedRoleOut(TypedDict):
    command: Any
    name: str
    replicas: int
    resources: ResourcesOut


class PoolOut(TypedDict):
    allocated: ResourcesOut
    capacity: ResourcesOut
    cluster: ReferenceOut
    created_at: str
    gpu_model: str | None
    gpus_simulated: bool
    id: str
    learned: LearnedOut | None
    name: str
    node_count: int
    node_shape: ResourcesOut
    nodes_available: int
    rules: PoolRulesOut
    uneven: dict[str, list[str]]
    use: PoolUseOut
    version: int


class PoolPage(TypedDict):
    items: list[PoolOut]
    next: str | None


class PreferenceOut(TypedDict):
    default_tenant: TenantRef | None
    first_steps_done: bool
    language: Literal["", "en", "zh"]
    theme: Literal["system", "light", "dark"]
    time_zone: str


class PriceOut(TypedDict):
    created_at: str
    created_by: UserRef | None
    currency: str
    effective_at: str
    id: str
    micros_per_hour: int
    pool: PoolRef | None
    resource: str
    state: Literal["past", "now", "planned"]


class PricePage(TypedDict):
    items: list[PriceOut]
    next: str | None


class PricesOut(TypedDict):
    items: list[PriceOut]


class PriorityGrantOut(TypedDict):
    priority: int
    priority_name: str
    role: Literal["member", "manager"]
    tenant: TenantRef | None


class PriorityGrantsOut(TypedDict):
    classes: dict[str, int]
    items: list[PriorityGrantOut]
    yours: int


class PriorityRequestOut(TypedDict):
    answer: str
    created_at: str
    created_by: ReferenceOut
    decided_at: str | None
    decided_by: ReferenceOut | None
    ends_at: str | None
    expires_at: str
    id: str
    job: ReferenceOut | None
    priority: int
    priority_name: str
    reason: str
    starts_at: str | None
    state: Literal["pending", "approved", "denied", "withdrawn", "expired", "revoked"]
    tenant: TenantRef
    user: ReferenceOut


class PriorityRequestPage(TypedDict):
    items: list[PriorityRequestOut]
    next: str | None


class QuarantinedOut(TypedDict):
    attempt: str
    cluster: str
    decision: Literal["undecided", "stopping"]
    first_seen_at: str
    fits: bool
    job: str | None
    last_seen_at: str
    name: str
    number: int | None
    problem: str | None
    running: bool
    started_at: str | None
    tasks: list[QuarantinedTaskOut]


class QuarantinedPage(TypedDict):
    items: list[QuarantinedOut]
    next: str | None


class QueueFactorOut(TypedDict):
    is_owed: bool
    queue: ReferenceOut | None
    share: int
    share_now: int


class QueueOut(TypedDict):
    id: str
    is_top: bool
    name: str
    parent_id: str | None
    path: str
    pools: list[QueuePoolOut]
    tenant: TenantRef | None
    version: int


class QueuePage(TypedDict):
    items: list[QueueOut]
    next: str | None


class QuotaRequestOut(TypedDict):
    answer: str
    changes: list[RequestedChangeOut]
    created_at: str
    created_by: UserRef | None
    decided_at: str | None
    decided_by: UserRef | None
    edit_id: str | None
    effective_from: str | None
    expires_at: str
    id: str
    reason: str
    state: Literal["pending", "approved", "denied", "withdrawn", "expired"]
    tenant: TenantRef


class QuotaRequestPage(TypedDict):
    items: list[QuotaRequestOut]
    next: str | None


class ReadInvitationOut(TypedDict):
    email: str
    expires_at: str
    invited_by: UserRef | None
    name: str | None
    role: Literal["viewer", "member", "manager"]
    tenant: TenantRef


class RedeemedOut(TypedDict):
    created_at: str
    expires_at: str
    id: str
    last_used_at: str | None
    name: str
    prefix: str
    revoked_at: str | None
    scopes: list[Literal["all", "read", "jobs", "data", "tenant", "account", "operate"]]
    token: str
    user: UserRef


class RenderOut(TypedDict):
    problems: list[SpecProblemOut]
    spec: dict[str, Any]


class SelfTestOut(TypedDict):
    detail: str
    findings: list[FindingOut]
    finished_at: str | None
    id: str
    removed: bool
    requests: int
    started_at: str
    verdict: Literal["", "passed", "failed", "broken"]
    walls: list[WallOut]


class SelfTestPage(TypedDict):
    items: list[SelfTestOut]
    next: str | None


class SeriesListOut(TypedDict):
    items: list[SeriesOut]


class SessionOut(TypedDict):
    csrf: str
    expires_at: str
    session: str
    tenants: list[WhoTenant]
    user: WhoUser


class ShareDocumentOut(TypedDict):
    format: int
    kind: str
    limits: list[ShareLimitOut]
    lines: list[ShareLineOut]
    queue: str
    since: int
    tenant: str
    until: int
    week: str


class ShareOut(TypedDict):
    deficit: int
    delivered: int
    delivered_by_all: int
    delivered_ppm: int
    deserved: int
    due: int
    fair: int
    fair_ppm: int
    is_top: bool
    pool: PoolRef | None
    queue: ReferenceOut
    requested: int
    requested_by_all: int
    resource: str
    shortfall: int
    tenant: TenantRef


class ShareStatementOut(TypedDict):
    algorithm: str
    closed_at: str | None
    document: ShareDocumentOut
    names: dict[str, str]
    public_key: str
    sha256: str
    signature: str
    tenant: TenantRef
    week: str


class SharesOut(TypedDict):
    items: list[ShareOut]
    since: str
    until: str


class StatementDocument(TypedDict):
    currency: str
    format: int
    lines: list[StatementLine]
    month: str
    prices: list[StatementPrice]
    tenant: str
    totals: StatementTotals


class StatementOut(TypedDict):
    closed_at: str | None
    document: StatementDocument
    month: str
    names: dict[str, str]
    sha256: str
    tenant: TenantRef


class SuggestionOut(TypedDict):
    by: list[MakerOut]
    changes: list[dict[str, Any]]
    evicts: list[ReferenceOut]
    evicts_count: int
    kind: str
    starts_now: bool
    text: str


class TaskOut(TypedDict):
    address: str | None
    ended_at: str | None
    exit: dict[str, Any] | None
    gpus: list[str]
    gpus_simulated: bool
    index: int
    node: str | None
    ports: dict[str, int]
    progress: ProgressOut | None
    resources: ResourcesOut
    role: str
    started_at: str | None
    state: Literal["pending", "running", "succeeded", "failed", "stopped"]
    straggler: StragglerOut | None
    waiting: TaskWaitingOut | None


class TaskPage(TypedDict):
    items: list[TaskOut]
    next: str | None


class TemplateOut(TypedDict):
    created_at: str
    description: str
    description_zh: str
    icon: str
    id: str
    may_edit: bool
    may_publish: bool
    name: str
    owner: UserRef | None
    parameters: list[ParameterOut]
    public: bool
    published_at: str | None
    shipped: bool
    spec: dict[str, Any]
    tags: list[str]
    tenant: TenantRef | None
    test: TestRunOut
    title: str
    title_zh: str
    updated_at: str
    uses: int
    version: int


class TemplatePage(TypedDict):
    items: list[TemplateOut]
    next: str | None


class TenantOut(TypedDict):
    created_at: str
    deleted_at: str | None
    description: str
    disabled_at: str | None
    disabled_reason: str
    id: str
    is_disabled: bool
    name: str
    parent: TenantRef | None
    role: Literal["viewer", "member", "manager"] | None
    slug: str
    version: int


class TenantPage(TypedDict):
    items: list[TenantOut]
    next: str | None


class TokenOut(TypedDict):
    created_at: str
    expires_at: str
    id: str
    last_used_at: str | None
    name: str
    prefix: str
    revoked_at: str | None
    scopes: list[Literal["all", "read", "jobs", "data", "tenant", "account", "operate"]]
    user: UserRef


class TokenPage(TypedDict):
    items: list[TokenOut]
    next: str | None


class UnmetOut(TypedDict):
    code: str
    filters: list[FilterOut]
    fitting: int
    held: int
    held_by: list[HolderOut]
    instead: bool
    jobs: list[ReferenceOut]
    jobs_count: int
    kept: int
    limit: int
    need: int
    own: bool
    pool: str | None
    queue: ReferenceOut | None
    resource: str | None
    text: str
    until: str | None


class UploadInRequest(TypedDict):
    sha256: str
    size_bytes: int
    target: UploadTargetInRequest
    tenant: NotRequired[str | None]


class VolumeOut(TypedDict):
    claim: str
    cluster: ClusterOfClaim | None
    created_at: str
    created_by: UserRef | None
    description: str
    export: str
    grants: list[GrantOut]
    id: str
    is_granted: bool
    kind: Literal["local", "claim", "nfs"]
    mount_as: str
    name: str
    read_only: bool
    server: str
    size_quota_bytes: int | None
    tenant: TenantRef
    used_bytes: int | None
    used_read_at: str | None
    version: int


class VolumePage(TypedDict):
    items: list[VolumeOut]
    next: str | None


class WhoOut(TypedDict):
    tenants: list[WhoTenant]
    token: WhoToken | None
    user: WhoUser


class AcceptedOut(TypedDict):
    role: Literal["viewer", "member", "manager"]
    tenant: TenantRef
    token: NewTokenOut | None
    user: UserRef


class AffectedOut(TypedDict):
    jobs: list[LeavingOut]
    node: DrainedNodeOut
    others: int


class AttemptOut(TypedDict):
    cluster: str
    condition: str | None
    created_at: str
    ended_at: str | None
    exit: ExitOut | None
    gpus_simulated: bool
    id: str
    isolation: str | None
    launched_at: str | None
    logs_complete: bool
    number: int
    outcome: str | None
    outputs_complete: bool
    pool: str
    started_at: str | None
    state: Literal["admitted", "starting", "running", "stopping", "ended"]
    stop_cause: str | None
    tasks: list[TaskOut]


class AttemptPage(TypedDict):
    items: list[AttemptOut]
    next: str | None


class ChannelOut(TypedDict):
    inputs: list[ChannelFieldOut]
    kind: str
    problem: ChannelProblemOut | None
    signs: bool
    words: WordsOut


class ChannelsOut(TypedDict):
    items: list[ChannelOut]


class DisabledOut(TypedDict):
    people: int
    running: int
    stopped: int
    tenant: TenantOut
    tenants: int
    waiting: int


class DrainOut(TypedDict):
    jobs: list[LeavingOut]
    node: DrainedNodeOut
    plan: str


class FactorsOut(TypedDict):
    order_seconds: int
    priority: int
    priority_seconds: int
    queues: list[QueueFactorOut]
    waited_seconds: int


class ForecastOut(TypedDict):
    jobs: list[ConsequenceOut] | None
    over: list[OverOut]
    problems: list[EditProblemOut]


class OccupancyOut(TypedDict):
    next: str | None
    nodes: list[OccupiedNodeOut]


class OptionOut(TypedDict):
    cost: OptionCostOut | None
    p50_at: str | None
    p90_at: str | None
    pools: list[str]
    reason: str
    roles: list[OptionRoleOut]
    size: Literal["asked", "half", "quarter"]
    starts_now: bool
    total: ResourcesOut


class StartForecastOut(TypedDict):
    currency: str
    options: list[OptionOut]
    past: PastOut
    runs_by: str
    runs_seconds: int | None


class EditOut(TypedDict):
    changes: list[EditChangeOut]
    comment: str
    created_at: str | None
    created_by: UserRef | None
    decided_at: str | None
    effective_from: str | None
    forecast: ForecastOut | None
    id: str | None
    plan: NotRequired[str]
    problems: list[EditProblemOut]
    state: Literal["pending", "applied", "cancelled", "refused", "dry_run"]
    tenant: TenantRef | None


class EditPage(TypedDict):
    items: list[EditOut]
    next: str | None


class ExplainOut(TypedDict):
    at: str
    conditions: list[UnmetOut]
    decisions: list[DecisionOut]
    expected: ExpectedOut | None
    factors: FactorsOut | None
    job: ReferenceOut
    latest: LatestOut | None
    now: ReasonOut | None
    place: PlaceOut | None
    reason: ReasonOut | None
    starting: list[StartWaitOut]
    starts: bool
    state: Literal[
        "queued",
        "admitted",
        "starting",
        "running",
        "stopping",
        "succeeded",
        "failed",
        "stopped",
    ]
    suggestions: list[SuggestionOut]
    suggestions_bounded: bool


class PlanOut(TypedDict):
    changes: NotRequired[list[SpecChangeOut]]
    depends_on: list[str]
    fetches: FetchedFirstOut | None
    forecast: NotRequired[StartForecastOut]
    framework: str
    image: PlannedImageOut
    jobs: int
    layout: NotRequired[LayoutOut | None]
    max_runtime_seconds: int | None
    name: str
    plan: NotRequired[str]
    planned_runtime_seconds: int | None
    priority: int
    queue: ReferenceOut
    roles: list[PlannedRoleOut]
    spec: dict[str, Any]
    spec_digest: str
    tenant: TenantRef
    total: ResourcesOut
    warnings: list[str]


class BatchPlanOut(TypedDict):
    count: int
    digest: str
    first: PlanOut
    plan: str
