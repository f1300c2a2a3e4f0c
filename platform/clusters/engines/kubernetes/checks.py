"""`berth clusters check`: what keeps jobs from running in a cluster, or will, each with the next step.

In the order in which things depend on each other: where the server is not reached nothing more can be told, and where it does not
know the account neither. Only reads; nothing is made in the cluster.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from datetime import datetime, timedelta

from clusters.engines.interface import EngineUnreachable
from clusters.engines.kubernetes import choices, names, permissions
from clusters.engines.kubernetes.api import Api, ApiRefused, Forbidden, Json, NotFound, items
from clusters.engines.kubernetes.config import KubernetesConfig
from clusters.engines.kubernetes.credentials import read_access
from clusters.engines.kubernetes.definitions import is_served
from clusters.engines.kubernetes.gpu_exporter import GpuExporters
from clusters.engines.kubernetes.inventory import read_inventory
from clusters.engines.settings import Finding, Outcome, SettingsInvalid
from kernel.words import Text

MINOR_MIN = 30  # Of Kubernetes 1: pods with scheduling gates.
MINOR_TESTED = 35
EXPIRES_SOON = timedelta(days=14)
EXPORTERS_SECONDS = 30.0  # As long as all of them are asked.
NAMED_MAX = 5  # Nodes that one line names.
_ENFORCERS = ("calico", "cilium", "antrea", "weave", "kube-router", "canal", "ovn", "romana", "kindnet", "aws-node", "azure-npm")


def check(api: Api, config: KubernetesConfig, now: datetime) -> list[Finding]:
    """Look at everything; ends early where what follows cannot be told."""
    found: list[Finding] = []
    try:
        for finding in _check(api, config, now):
            found.append(finding)
    except EngineUnreachable as error:
        found.append(_unreachable(str(error)))
    except ApiRefused as error:
        found.append(_refused(error))
    return found


def _check(api: Api, config: KubernetesConfig, now: datetime) -> Iterator[Finding]:
    yield from _credentials(config, now)
    try:
        version = api.get("/version")
    except Forbidden:
        raise
    except ApiRefused as error:
        yield _no_api_server(error)
        return
    yield _ok("reachable", Text("The API server answers.", "API 服务器有应答。"))
    yield from _transport(config)
    yield judge_version(version)
    lacking = permissions.missing(api, config)  # The first question that the server answers to accounts alone.
    yield _ok("authentication", Text("The server knows the account.", "服务器认识该账户。"))
    yield from _permissions(lacking)
    yield from _definitions(api, config)
    yield from _classes(api, config)
    if not _lacks(lacking, "get", "namespaces"):
        yield from _namespaces(api, config)
    if _lacks(lacking, "list", "nodes") or _lacks(lacking, "list", "pods"):
        return
    nodes = items(api.get("/api/v1/nodes", labelSelector=config.nodes))
    pods = items(api.get("/api/v1/pods", fieldSelector="status.phase=Running", limit=5000))
    yield from _pools(nodes, pods, config, now)
    yield from _network(pods)
    yield from _measures(api, config)
    yield from _gpu_exporters(api, config, [node.name for node in read_inventory(nodes, [], config, now).nodes if node.gpus])
    yield from _images(config)


def _credentials(config: KubernetesConfig, now: datetime) -> Iterator[Finding]:
    try:
        _, account, _, expires_at, _ = read_access(config.kubeconfig)
    except SettingsInvalid as error:
        hint = Text("Give a kubeconfig that can be used.", "请提供可用的 kubeconfig。")
        yield Finding("credentials", Outcome.FAILED, Text(str(error), f"凭据无法使用：{error}"), hint)
        return
    renew = Text("Give a new kubeconfig: berth clusters change NAME --kubeconfig FILE.",
                 "请提供新的 kubeconfig：berth clusters change NAME --kubeconfig FILE。")  # fmt: skip
    if expires_at is None:
        text = Text(f"Account {account}; no end of its credentials is told.", f"账户 {account}；凭据未注明到期时间。")
        yield _ok("credentials", text)
        return
    moment = f"{expires_at:%Y-%m-%d %H:%M} UTC"
    if expires_at <= now:
        text = Text(f"The credentials of {account} expired at {moment}.", f"{account} 的凭据已于 {moment} 过期。")
        yield Finding("credentials", Outcome.FAILED, text, renew)
    elif expires_at - now < EXPIRES_SOON:
        text = Text(f"The credentials of {account} expire at {moment}.", f"{account} 的凭据将于 {moment} 过期。")
        yield Finding("credentials", Outcome.WARNING, text, renew)
    else:
        yield _ok("credentials", Text(f"Account {account}, until {moment}.", f"账户 {account}，有效期至 {moment}。"))


def _transport(config: KubernetesConfig) -> Iterator[Finding]:
    if read_access(config.kubeconfig)[4]:
        yield _ok("tls", Text("The server has proved itself by its certificate.", "服务器已用证书证明身份。"))
        return
    text = Text("The server need not prove who it is: its certificate is not verified.", "未验证服务器证书，无法确认其身份。")
    hint = Text("Put certificate-authority-data into the kubeconfig in place of insecure-skip-tls-verify.",
                "请在 kubeconfig 中用 certificate-authority-data 取代 insecure-skip-tls-verify。")  # fmt: skip
    yield Finding("tls", Outcome.WARNING, text, hint)


def judge_version(answer: Json) -> Finding:
    """Whether Berth works with the version that the server tells."""
    name = str(answer.get("gitVersion", "?"))[:60]
    numbers = re.match(r"v?1\.(\d+)", name)
    if numbers is None:
        text = Text(
            f"The server tells no version of Kubernetes that is known: {name}.", f"服务器给出的 Kubernetes 版本未知：{name}。"
        )
        hint = Text(
            f"Needed is 1.{MINOR_MIN} or later; check the server's address.", f"需要 1.{MINOR_MIN} 或更高版本；请检查服务器地址。"
        )
        return Finding("version", Outcome.FAILED, text, hint)
    if int(numbers[1]) < MINOR_MIN:
        text = Text(f"Kubernetes {name} is older than 1.{MINOR_MIN}, the first whose scheduling gates Berth can rely on.",
                    f"Kubernetes {name} 早于 1.{MINOR_MIN}；Berth 依赖自该版本起稳定的调度门控。")  # fmt: skip
        hint = Text(f"Upgrade the cluster to 1.{MINOR_MIN} or later.", f"请将集群升级到 1.{MINOR_MIN} 或更高版本。")
        return Finding("version", Outcome.FAILED, text, hint)
    if int(numbers[1]) > MINOR_TESTED:
        text = Text(f"Kubernetes {name} is newer than 1.{MINOR_TESTED}, with which Berth was tested.",
                    f"Kubernetes {name} 比 Berth 测试过的 1.{MINOR_TESTED} 更新。")  # fmt: skip
        hint = Text("Run a job of two tasks there before others use it.", "请先在此运行一个含两个任务的作业，再开放使用。")
        return Finding("version", Outcome.WARNING, text, hint)
    return _ok("version", Text(f"Kubernetes {name}.", f"Kubernetes {name}。"))


def _permissions(lacking: Sequence[str]) -> Iterator[Finding]:
    if not lacking:
        yield _ok("permissions", Text("The account has all permissions that it needs.", "账户拥有所需的全部权限。"))
        return
    hint = Text(
        "Bind the ClusterRole of docs/kubernetes.md to the account.", "请将 docs/kubernetes.md 中的 ClusterRole 绑定到该账户。"
    )
    for line in lacking:
        yield Finding("permissions", Outcome.FAILED, Text(f"The account may not {line}.", f"账户缺少权限：{line}。"), hint)


def _definitions(api: Api, config: KubernetesConfig) -> Iterator[Finding]:
    """What the operator chose attempts to be, where that is something that not every cluster has."""
    for resource in choices.definitions(config):
        name, program = resource.definition, choices.program_of(resource)
        if is_served(api, resource):
            text = Text(f"{name} is there ({resource.version}).", f"{name} 可用（{resource.version}）。")
            yield _ok("objects", text)
            continue
        text = Text(f"The cluster has no {name} in version {resource.version}: no attempt can start.",
                    f"集群没有 {resource.version} 版本的 {name}：任何尝试都无法启动。")  # fmt: skip
        setting = choices.setting_of(resource)
        hint = Text(f"Install {program}, or change {setting}.", f"请安装 {program}，或修改 {setting}。")
        yield Finding("objects", Outcome.FAILED, text, hint)


def _classes(api: Api, config: KubernetesConfig) -> Iterator[Finding]:
    """Whether what the settings name is there. What the account may not read is told among the permissions."""
    asked = (("storage_class", "storage.k8s.io", "storageclasses", config.storage_class),
             ("priority_class", "scheduling.k8s.io", "priorityclasses", config.priority_class))  # fmt: skip
    for setting, group, plural, name in asked:
        if not name:
            continue
        try:
            api.get(f"/apis/{group}/v1/{plural}/{name}")
        except Forbidden:
            continue
        except NotFound:
            text = Text(f"The cluster has no {name} among its {plural} ({setting}).",
                        f"集群的 {plural} 中没有 {name}（{setting}）。")  # fmt: skip
            hint = Text(f"kubectl get {plural} lists them; change {setting}, or make it.",
                        f"kubectl get {plural} 可列出；请修改 {setting}，或创建它。")  # fmt: skip
            yield Finding("classes", Outcome.FAILED, text, hint)
        else:
            yield _ok("classes", Text(f"{name} is among the {plural}.", f"{plural} 中有 {name}。"))


def _lacks(lacking: Sequence[str], verb: str, resource: str) -> bool:
    """Whether a line of `permissions.missing` is about this verb on this resource."""
    return any(f" on {resource} (" in line and verb in line.partition(" on ")[0].split(", ") for line in lacking)


def _namespaces(api: Api, config: KubernetesConfig) -> Iterator[Finding]:
    name = names.control_namespace(config.namespace_prefix)
    try:
        found = api.get(f"/api/v1/namespaces/{name}")
    except NotFound:
        text = Text(f"Namespace {name} is free.", f"命名空间 {name} 可用。")
    else:
        owner = ((found.get("metadata") or {}).get("labels") or {}).get(names.CLUSTER)
        if owner != config.cluster_id:
            text = Text(f"Namespace {name} is there and was not made for this cluster of Berth.",
                        f"命名空间 {name} 已存在，且不是为此 Berth 集群创建的。")  # fmt: skip
            hint = Text("Choose another namespace_prefix, or delete the namespace if another Berth has left it.",
                        "请改用其他 namespace_prefix；若为其他 Berth 的残留，请删除该命名空间。")  # fmt: skip
            yield Finding("namespaces", Outcome.FAILED, text, hint)
            return
        text = Text(f"Namespace {name} is Berth's.", f"命名空间 {name} 属于 Berth。")
    yield _ok("namespaces", text)


def _pools(nodes: Sequence[Json], pods: Sequence[Json], config: KubernetesConfig, now: datetime) -> Iterator[Finding]:
    if not nodes:
        labels = ", ".join(f"{name}={value}" for name, value in sorted(config.node_selector.items()))
        text = (
            Text(f"No node has the labels {labels}.", f"没有节点带有标签 {labels}。")
            if labels
            else Text("The cluster has no nodes.", "集群没有节点。")
        )
        hint = Text("Label nodes, or change node_selector.", "请为节点添加标签，或修改 node_selector。")
        yield Finding("nodes", Outcome.FAILED, text, hint)
        return
    others = [pod for pod in pods if ((pod.get("metadata") or {}).get("labels") or {}).get(names.CLUSTER) != config.cluster_id]
    seen = read_inventory(nodes, others, config, now).nodes
    unready = [node for node in seen if not node.ready]
    if unready:
        told = ", ".join(f"{node.name} ({node.reason})" for node in unready[:NAMED_MAX])
        outcome = Outcome.FAILED if len(unready) == len(seen) else Outcome.WARNING
        text = Text(f"{len(unready)} of {len(seen)} nodes are not ready: {told}.",
                    f"{len(seen)} 个节点中有 {len(unready)} 个未就绪：{told}。")  # fmt: skip
        yield Finding("nodes", outcome, text, Text("kubectl describe node", "kubectl describe node"))
    else:
        yield _ok("nodes", Text(f"All {len(seen)} nodes are ready.", f"全部 {len(seen)} 个节点已就绪。"))
    gpus = sum(len(node.gpus) for node in seen)
    if not gpus:
        text = Text(f"No node offers {config.gpu_resource}: jobs that ask for GPUs cannot start.",
                    f"没有节点提供 {config.gpu_resource}：请求 GPU 的作业无法启动。")  # fmt: skip
        hint = Text("Install the device plugin, or set gpu_resource to the name that the nodes offer.",
                    "请安装设备插件，或将 gpu_resource 设为节点提供的资源名。")  # fmt: skip
        yield Finding("gpus", Outcome.WARNING, text, hint)
        return
    nameless = [node.name for node in seen if node.gpus and not node.gpu_model]
    if nameless:
        text = Text(f"Nodes have GPUs without the label {config.gpu_model_label}: {', '.join(nameless[:NAMED_MAX])}.",
                    f"有 GPU 的节点缺少标签 {config.gpu_model_label}：{', '.join(nameless[:NAMED_MAX])}。")  # fmt: skip
        hint = Text("Install GPU feature discovery, or set gpu_model_label; jobs cannot ask for a model until then.",
                    "请安装 GPU feature discovery，或设置 gpu_model_label；在此之前作业无法指定 GPU 型号。")  # fmt: skip
        yield Finding("gpus", Outcome.WARNING, text, hint)
        return
    yield _ok("gpus", Text(f"{gpus} GPUs.", f"{gpus} 块 GPU。"))


def _network(pods: Sequence[Json]) -> Iterator[Finding]:
    running = {str((pod.get("metadata") or {}).get("name", "")) for pod in pods}
    enforcer = next((word for word in _ENFORCERS if any(word in name for name in running)), "")
    if enforcer:
        yield _ok("network_policies", Text(f"A network plugin runs that enforces NetworkPolicy ({enforcer}).",
                                           f"运行着可执行 NetworkPolicy 的网络插件（{enforcer}）。"))  # fmt: skip
        return
    text = Text("No network plugin is known to enforce NetworkPolicy here: tenants' pods may reach each other.",
                "未发现可执行 NetworkPolicy 的网络插件：不同租户的 Pod 可能互通。")  # fmt: skip
    hint = Text(f"Use one that does, such as {', '.join(_ENFORCERS[:3])}; one without pods of a known name is not noticed.",
                f"请使用支持的插件，例如 {'、'.join(_ENFORCERS[:3])}；名称未知的插件无法识别。")  # fmt: skip
    yield Finding("network_policies", Outcome.WARNING, text, hint)


def _measures(api: Api, config: KubernetesConfig) -> Iterator[Finding]:
    if config.kubelet_summary:
        return
    try:
        api.get("/apis/metrics.k8s.io/v1beta1")
    except (NotFound, EngineUnreachable):
        text = Text(
            "There is no Metrics API: use of processors and memory stays empty.", "没有 Metrics API：CPU 和内存用量将为空。"
        )
        hint = Text("Install metrics-server, or set kubelet_summary.", "请安装 metrics-server，或设置 kubelet_summary。")
        yield Finding("metrics", Outcome.WARNING, text, hint)
        return
    yield _ok("metrics", Text("The Metrics API answers.", "Metrics API 有应答。"))


def _gpu_exporters(api: Api, config: KubernetesConfig, nodes: Sequence[str]) -> Iterator[Finding]:
    """Whether figures come from the nodes that have GPUs."""
    if not nodes or (config.gpus_simulated and not config.gpu_exporter):
        return
    if not config.gpu_exporter:
        text = Text("No exporter of GPU figures is named: use of GPUs stays empty.", "未指定 GPU 指标导出器：GPU 用量将为空。")
        hint = Text("Set gpu_exporter where NVIDIA's DCGM exporter runs.", "若运行着 NVIDIA DCGM exporter，请设置 gpu_exporter。")
        yield Finding("gpu_exporter", Outcome.WARNING, text, hint)
        return
    exporters = GpuExporters(api, config, round_seconds=EXPORTERS_SECONDS)
    silent = sorted(set(nodes) - {node for node, page in exporters.pages().items() if page})
    if not silent:
        yield _ok("gpu_exporter", Text(f"GPU exporters answer on all {len(nodes)} nodes with GPUs.",
                                       f"全部 {len(nodes)} 个 GPU 节点上的指标导出器均有应答。"))  # fmt: skip
        return
    named = ", ".join(f"{node} ({'no answer' if node in exporters.find() else 'no pod'})" for node in silent[:NAMED_MAX])
    text = Text(f"GPU exporters answer on {len(nodes) - len(silent)} of {len(nodes)} nodes with GPUs; not on: {named}.",
                f"{len(nodes)} 个 GPU 节点中有 {len(nodes) - len(silent)} 个的指标导出器有应答；无应答：{named}。")  # fmt: skip
    hint = Text("Compare gpu_exporter with the labels and the port of the exporter's pods; the account needs get on pods/proxy.",
                "请核对 gpu_exporter 与导出器 Pod 的标签和端口；账户需要 pods/proxy 的 get 权限。")  # fmt: skip
    yield Finding("gpu_exporter", Outcome.WARNING, text, hint)


def _images(config: KubernetesConfig) -> Iterator[Finding]:
    if config.default_image:
        yield _ok(
            "images",
            Text(f"Jobs without an image run in {config.default_image}.", f"未指定镜像的作业使用 {config.default_image}。"),
        )
        return
    text = Text("Jobs without an image of their own go to other clusters.", "未指定镜像的作业只会进入其他集群。")
    yield Finding(
        "images", Outcome.WARNING, text, Text("Set default_image to run them here.", "设置 default_image 后可在此运行。")
    )


def _unreachable(detail: str) -> Finding:
    """By the words of the client, which has no classes for them."""
    lower = detail.lower()
    if "certificate verify failed" in lower or "ssl" in lower:
        hint = Text("Put the cluster's certificate authority into certificate-authority-data of the kubeconfig.",
                    "请将集群的 CA 证书写入 kubeconfig 的 certificate-authority-data。")  # fmt: skip
        return Finding("tls", Outcome.FAILED, Text(f"TLS failed: {detail}", f"TLS 失败：{detail}"), hint)
    if "name or service not known" in lower or "failed to resolve" in lower or "nameresolution" in lower:
        hint = Text("Check the server's name in the kubeconfig, and the DNS of the platform's hosts.",
                    "请检查 kubeconfig 中的服务器名称，以及平台主机的 DNS。")  # fmt: skip
    elif "refused" in lower:
        hint = Text("The address answers, but no API server listens there: check the port, and that it runs.",
                    "该地址可达，但没有 API 服务器监听：请检查端口及其是否在运行。")  # fmt: skip
    else:
        hint = Text("Check the address, firewalls between the platform's hosts and the cluster, and that the API server runs.",
                    "请检查地址、平台主机与集群之间的防火墙，以及 API 服务器是否在运行。")  # fmt: skip
    return Finding("reachable", Outcome.FAILED, Text(f"No answer: {detail}", f"无应答：{detail}"), hint)


def _refused(error: ApiRefused) -> Finding:
    if isinstance(error, Forbidden) and error.status == 401:
        text = Text("The server does not know the credentials: they are wrong, expired or revoked.",
                    "服务器不认识这些凭据：错误、已过期或已吊销。")  # fmt: skip
        hint = Text("Give a new kubeconfig: berth clusters change NAME --kubeconfig FILE.",
                    "请提供新的 kubeconfig：berth clusters change NAME --kubeconfig FILE。")  # fmt: skip
        return Finding("authentication", Outcome.FAILED, text, hint)
    hint = Text("Try the same with kubectl and this kubeconfig: a proxy or an admission rule may stand before the server.",
                "请用 kubectl 和此 kubeconfig 重试：服务器之前可能有代理或准入规则。")  # fmt: skip
    return Finding("permissions", Outcome.FAILED, Text(f"The server refuses: {error}", f"服务器拒绝：{error}"), hint)


def _no_api_server(error: ApiRefused) -> Finding:
    text = Text(f"What answers there is no API server of Kubernetes, or is not spoken to rightly: {error}",
                f"该地址的应答者不是 Kubernetes API 服务器，或访问方式不对：{error}")  # fmt: skip
    hint = Text("Check `server` in the kubeconfig: https://, the host and the port.",
                "请检查 kubeconfig 中的 `server`：https://、主机与端口。")  # fmt: skip
    return Finding("reachable", Outcome.FAILED, text, hint)


def _ok(check: str, text: Text[str]) -> Finding:
    return Finding(check, Outcome.OK, text)
