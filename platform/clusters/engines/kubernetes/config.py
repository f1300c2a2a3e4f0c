"""What an operator says of one Kubernetes cluster, read from the cluster's configuration; all mistakes are told at once."""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import Any

from clusters.engines.kubernetes.config_values import check_value
from clusters.engines.kubernetes.names import is_dns_label, is_subdomain
from clusters.engines.settings import SettingsInvalid
from kernel.errors import FieldError
from kernel.words import Saying, Text, as_text

KUBECONFIG = "kubeconfig"  # Given apart from the configuration, as the cluster's credentials.
NOT_KNOWN = Text("not known", "没有此项")
PODS = "pod"
OBJECT_KINDS = (PODS, "volcanojob")  # Of all that are rendered, those with which attempts were seen to run to their end.
BERTH = "berth"
GANG_SCHEDULERS = (BERTH, "volcano", "kueue")
_CHOICES = {"object_kind": OBJECT_KINDS, "gang_scheduler": GANG_SCHEDULERS}
_GPU_EXPORTER = re.compile(
    r"(?P<namespace>[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?)/(?P<selector>[^\s:=]+=[^\s:]+):(?P<port>[1-9][0-9]{0,4})"
)
_PREFIX_LENGTH = 20  # A namespace has 63 letters; a tenant's key takes up to 40.


class ConfigInvalid(SettingsInvalid):
    """The configuration cannot be used; `problems` says all that is wrong, each as `name: what`."""

    def __init__(self, problems: Sequence[Saying]) -> None:
        super().__init__([_field(as_text(problem)) for problem in problems])
        self.problems = tuple(str(problem) for problem in problems)

    def __str__(self) -> str:
        return "; ".join(self.problems)


@dataclass(frozen=True, slots=True)
class KubernetesConfig:
    """Defaults are for a cluster with DNS, without shared storage, and GPUs by NVIDIA's device plugin."""

    cluster_id: str
    kubeconfig: str = field(default="", repr=False)  # "": the account of the pod that Berth runs in.
    namespace_prefix: str = "berth"
    object_kind: str = PODS  # What an attempt is in the cluster: pods, or an object whose controller makes them.
    gang_scheduler: str = BERTH  # Which scheduler places the tasks of an attempt together.
    scheduler_queue: str = ""  # Volcano's Queue, or Kueue's ClusterQueue. Kueue needs one; "": Volcano's default.
    node_selector: Mapping[str, str] = field(default_factory=dict)  # Only these nodes belong to Berth.
    tolerations: Sequence[Mapping[str, Any]] = ()
    priority_class: str = ""
    image_pull_secrets: Sequence[str] = ()  # Names of Secrets that are in each tenant's namespace.
    default_image: str = ""  # What jobs run in that ask for the host's own programs; "": they are refused.
    direct_images: Sequence[str] = ()  # Beginnings of references without /bin/sh: run as they are, both streams in one.
    gpu_resource: str = "nvidia.com/gpu"
    gpu_shares: Mapping[str, str] = field(
        default_factory=dict
    )  # Resource by share in thousandths: {"250": "nvidia.com/mig-1g.10gb"}.
    gpu_model_label: str = "nvidia.com/gpu.product"
    gpu_memory_label: str = "nvidia.com/gpu.memory"  # In MiB.
    gpus_simulated: bool = False
    rdma_resource: str = ""
    exclusive_cores: bool = False  # The nodes' kubelets have the static CPU manager policy.
    cpu_request_percent: int = 100  # Of the processors that a task may use, how many are kept free for it.
    pod_addresses: bool = False  # The cluster has no DNS: tasks are told addresses.
    cluster_domain: str = "cluster.local"
    tenant_quota: Mapping[str, str] = field(default_factory=dict)  # A ResourceQuota's `hard` in each tenant's namespace.
    egress: Sequence[str] = ("0.0.0.0/0", "::/0")  # Where tasks may connect to,
    egress_except: Sequence[str] = ("169.254.0.0/16", "fe80::/10")  # and of that, where not.
    uid_base: int = 200_000
    gid_base: int = 300_000
    storage_class: str = ""  # Of claims that are made: one for each job's checkpoint directory, and volumes.
    storage_bytes: int = 50 * 1024**3
    storage_access: str = "ReadWriteMany"
    shared_paths: Sequence[str] = ()  # Directories that are the same on all nodes and on the platform's hosts.
    nfs_servers: Sequence[str] = ()  # Servers whose exports the nodes can mount.
    kubelet_summary: bool = False  # Measure by the kubelets themselves: needs the right to `nodes/proxy`.
    gpu_exporter: str = ""  # Pods of NVIDIA's DCGM exporter: `NAMESPACE/LABEL=VALUE:PORT`. Needs the right to `pods/proxy`.
    cordon_nodes: bool = True  # A node that is cordoned in Berth is cordoned in the cluster, too: the right to patch nodes.
    requests_per_second: float = 50.0
    requests_burst: float = 100.0
    parallel: int = 8
    connect_seconds: float = 5.0
    read_seconds: float = 30.0
    image_patience_seconds: float = 60.0  # How long an image is waited for from its first failed pull.
    unschedulable_patience_seconds: float = 300.0
    outputs_patience_seconds: float = 3_600.0  # How long a task's files wait in its pod, with what it holds, to be brought home.
    log_quota_bytes: int = 256 * 1024**2
    tombstone_days: int = 7
    ports: tuple[int, int] = (20_000, 40_000)

    @property
    def nodes(self) -> str | None:
        """The label selector of Berth's nodes; None: all are."""
        return ",".join(f"{name}={value}" for name, value in sorted(self.node_selector.items())) or None

    @property
    def exporter_place(self) -> tuple[str, str, int]:
        """Namespace, label selector and port of `gpu_exporter`, which must not be empty."""
        match = _GPU_EXPORTER.fullmatch(self.gpu_exporter)
        assert match is not None, self.gpu_exporter  # Read by `read_config`.
        return match["namespace"], match["selector"], int(match["port"])

    def is_direct(self, image: str) -> bool:
        """Whether the image has no shell."""
        return any(image.startswith(prefix) for prefix in self.direct_images)


def wrong_with(name: str, what: Text[str]) -> Text[str]:
    """A problem as ConfigInvalid takes it."""
    return Text(f"{name}: {what.en}", f"{name}: {what.zh}")


def _field(problem: Text[str]) -> FieldError:
    name, _, what = problem.en.partition(": ")
    what_zh = problem.zh.partition(": ")[2]
    if name == KUBECONFIG:
        message = Text(f"The kubeconfig cannot be used: {what}.", f"kubeconfig 不可用：{what_zh}。")
        hint = Text(
            "`kubectl config view --minify --flatten --raw` writes one context with its keys inline.",
            "`kubectl config view --minify --flatten --raw` 可输出单个上下文，密钥直接写入其中。",
        )
        return FieldError("/credentials", "invalid", message, hint)
    code = "unknown_field" if what == NOT_KNOWN.en else "invalid"
    return FieldError(
        f"/config/{name}",
        code,
        Text(f"{name}: {what}.", f"{name}：{what_zh}。"),
        Text("docs/kubernetes.md lists all names with their meaning.", "docs/kubernetes.md 列出所有名称及其含义。"),
    )


def read_config(cluster_id: str, document: Mapping[str, Any], **defaults: Any) -> KubernetesConfig:
    """Read an operator's words. Raises ConfigInvalid with everything that is wrong with them."""
    known = {item.name: item for item in fields(KubernetesConfig) if item.name not in ("cluster_id",)}
    problems = [wrong_with(name, NOT_KNOWN) for name in sorted(set(document) - set(known))]
    values: dict[str, Any] = {}
    for name, value in document.items():
        if name not in known:
            continue
        problem = _check(name, value) or check_value(name, value)
        if problem:
            problems.append(wrong_with(name, problem))
        else:
            values[name] = tuple(value) if isinstance(value, list) else value
    if not problems:
        problems += _together(values)
    if problems:
        raise ConfigInvalid(problems)
    return KubernetesConfig(cluster_id=cluster_id, **{**defaults, **values})


def _together(values: Mapping[str, Any]) -> list[Text[str]]:
    """What is wrong with settings that are right by themselves."""
    kueue = values.get("gang_scheduler") == "kueue"
    if kueue and not values.get("scheduler_queue"):
        needed = Text(
            "must be the name of a ClusterQueue where gang_scheduler is kueue",
            "gang_scheduler 为 kueue 时，须为 ClusterQueue 的名称",
        )
        return [wrong_with("scheduler_queue", needed)]
    if kueue and values.get("object_kind", PODS) != PODS:
        held = Text("must be pod where gang_scheduler is kueue", "gang_scheduler 为 kueue 时，须为 pod")
        return [wrong_with("object_kind", held)]
    return []


def _check(name: str, value: Any) -> Text[str] | None:
    """What is wrong with a value, or None."""
    sample = _SAMPLES[name]
    if isinstance(sample, bool) or isinstance(value, bool):
        if isinstance(sample, bool):
            return None if isinstance(value, bool) else Text("must be true or false", "须为 true 或 false")
        return Text("must not be true or false", "不能为 true 或 false")
    if isinstance(sample, (int, float)):
        whole = isinstance(value, int)
        if name == "cpu_request_percent" and not (whole and 1 <= value <= 100):
            return Text("must be a whole number from 1 to 100", "须为 1 到 100 之间的整数")
        if not (whole or (isinstance(sample, float) and isinstance(value, float))) or not 0 < value < 2**60:
            return Text("must be a number above 0", "须为大于 0 的数字")
        return None
    if isinstance(sample, str):
        if not isinstance(value, str):
            return Text("must be a text", "须为文本")
        if name == "namespace_prefix" and not (is_dns_label(value) and len(value) <= _PREFIX_LENGTH):
            return Text(
                f"must have lower-case letters, digits and hyphens, at most {_PREFIX_LENGTH}",
                f"可用小写字母、数字与连字符，最多 {_PREFIX_LENGTH} 个",
            )
        if name == "scheduler_queue" and value and not is_subdomain(value):
            return Text(
                "must be the name of a queue: lower-case letters, digits, hyphens and dots",
                "须为队列名称：小写字母、数字、连字符与点",
            )
        if name == "gpu_exporter" and value and not _GPU_EXPORTER.fullmatch(value):
            return Text(
                "must be NAMESPACE/LABEL=VALUE:PORT, like gpu-operator/app=nvidia-dcgm-exporter:9400",
                "须为 命名空间/标签=值:端口，例如 gpu-operator/app=nvidia-dcgm-exporter:9400",
            )
        if name in _CHOICES and value not in _CHOICES[name]:
            return Text(f"must be one of {', '.join(_CHOICES[name])}", f"须为 {'、'.join(_CHOICES[name])} 之一")
        return None
    if isinstance(sample, Mapping):
        pairs = isinstance(value, dict) and all(isinstance(item, str) for pair in value.items() for item in pair)
        return None if pairs else Text("must be a mapping of texts", "须为文本的映射")
    if not isinstance(value, (list, tuple)):
        return Text("must be a list", "须为列表")
    if name == "tolerations":
        return None if all(isinstance(item, dict) for item in value) else Text("must be a list of mappings", "须为映射的列表")
    if name == "ports":
        whole = len(value) == 2 and all(isinstance(item, int) for item in value)
        return (
            None
            if whole and 1024 <= value[0] < value[1] <= 65_535
            else Text("must be two ports, the lower one first", "须为两个端口，小的在前")
        )
    if name == "nfs_servers" and not all(isinstance(item, str) and _is_host(item) for item in value):
        return Text("must be a list of names or addresses of servers", "须为服务器名或地址的列表")
    if name == "shared_paths" and not all(isinstance(item, str) and item.startswith("/") and ".." not in item for item in value):
        return Text("must be a list of absolute paths", "须为绝对路径的列表")
    return None if all(isinstance(item, str) for item in value) else Text("must be a list of texts", "须为文本的列表")


def _is_host(text: str) -> bool:
    """Whether it is a name or an address of a host."""
    try:
        return bool(ipaddress.ip_address(text))
    except ValueError:
        return is_subdomain(text)


_EXAMPLE = KubernetesConfig(cluster_id="")
_SAMPLES = {item.name: getattr(_EXAMPLE, item.name) for item in fields(KubernetesConfig)}
