"""What keeps jobs apart on a cluster, in words: engines report the English sentences, readers of Chinese get the other ones.

The sentences are kept with clusters and attempts as they were reported; one that is not here, say of another release, shows
itself.
"""

from __future__ import annotations

from kernel.words import Text

TURNED_OFF = Text(
    "Turned off by the operator (local_isolation = none): jobs of all tenants run as one user and share their files.",
    "已被运维人员关闭（local_isolation = none）：所有租户的作业以同一用户运行，文件共享。",
)
OWN_USERS = Text(
    "Each tenant's jobs run as a user of their own; files and processes of other tenants are closed to them.",
    "每个租户的作业以各自的用户运行，其他租户的文件和进程对其不可见。",
)
NO_ROOT = Text(
    "All jobs run as the platform's own user: Berth was started without root.",
    "所有作业以平台自己的用户运行：Berth 启动时没有 root 权限。",
)
SANDBOX = Text(
    "bubblewrap gives each task its own view: system read-only, private /tmp and processes, only the leased GPUs.",
    "bubblewrap 为每个任务提供独立视图：系统只读，/tmp 与进程私有，仅可见所租用的 GPU。",
)
NO_SANDBOX = Text(
    "bubblewrap is not in force: tasks see the host's directories and process names; volumes and builds need it.",
    "bubblewrap 未生效：任务可见主机的目录和进程名；卷和镜像构建需要它。",
)
FILTER = Text(
    "System calls are filtered: no user namespaces, mounts, BPF, keyrings, io_uring or performance counters.",
    "系统调用受过滤：不允许用户命名空间、挂载、BPF、密钥环、io_uring 和性能计数器。",
)
NO_FILTER = Text(
    "System calls are not filtered: libseccomp is not installed (Debian: libseccomp2).",
    "系统调用未受过滤：未安装 libseccomp（Debian：libseccomp2）。",
)
WATCHED = Text(
    "Memory is watched, not limited, and processors are not limited: there are no control groups that we may write.",
    "内存仅被监视而不受限制，处理器也不受限制：没有可写的控制组。",
)
NETWORK = Text(
    "The network is the host's: jobs reach services on its loopback, each other's ports, and abstract sockets.",
    "网络与主机共用：作业可访问主机回环上的服务、彼此的端口以及抽象套接字。",
)
ONE_TENANT = Text(
    "Nothing keeps tenants apart here: the cluster takes jobs of one tenant only.",
    "此处没有隔离租户的手段：该集群只接受一个租户的作业。",
)
RESTRICTED_PODS = Text(
    "Pods are restricted: no root, no capability, no privilege escalation, system calls filtered by the runtime's profile.",
    "Pod 受限：非 root、无任何 capability、不可提权，系统调用由运行时的配置过滤。",
)
TENANT_NAMESPACES = Text(
    "Each tenant has a namespace of its own, and its pods run as a user of their own without a token of the cluster.",
    "每个租户有自己的命名空间，其 Pod 以独立用户运行，且没有集群的令牌。",
)
NETWORK_POLICIES = Text(
    "Network policies refuse traffic between attempts; they hold only where the cluster's network enforces them.",
    "网络策略禁止不同作业之间的流量；仅当集群网络执行网络策略时才有效。",
)
PRETENDED = Text(
    "Nothing runs: this cluster is pretended.",
    "没有实际运行：这是一个模拟的集群。",
)


def limited(version: int) -> Text[str]:
    """Control groups of this version are in force."""
    return Text(
        f"Memory, processors and process counts are limited by control groups (version {version}).",
        f"内存、处理器和进程数由控制组（版本 {version}）限制。",
    )


FACTS = (
    *(TURNED_OFF, OWN_USERS, NO_ROOT, SANDBOX, NO_SANDBOX, FILTER),
    *(NO_FILTER, WATCHED, NETWORK, ONE_TENANT, PRETENDED),
    *(RESTRICTED_PODS, TENANT_NAMESPACES, NETWORK_POLICIES),
    *(limited(version) for version in (1, 2)),
)
_BY_ENGLISH = {fact.en: fact for fact in FACTS}


def fact_in(fact: str, language: str) -> str:
    """A sentence that an engine reported, in the reader's language."""
    return _BY_ENGLISH[fact].in_language(language) if fact in _BY_ENGLISH else fact
