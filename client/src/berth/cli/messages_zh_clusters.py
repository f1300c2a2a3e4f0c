"""The command line's words about clusters, in Chinese."""

from __future__ import annotations

CLUSTERS = {
    "Account": "账户",
    "Add a cluster, as an operator, after a check of it; its nodes and pools appear within seconds.\n\n"
    "The check connects from the server, not from this computer.": (
        "（运维人员）检查并添加集群；其节点和资源池在数秒内出现。\n\n检查从服务器发起连接，而非本机。"
    ),
    "Add it disabled: no job starts there yet.": "添加后保持停用：暂不在其中启动作业。",
    "Add it without a check, or although the check fails.": "跳过检查，或在检查失败时仍然添加。",
    "Change a cluster: its credentials, settings or name. What runs there continues.": (
        "修改集群的凭据、设置或名称。运行中的继续运行。"
    ),
    "Check a cluster, as it is or with other credentials or settings; ends with 1 where something fails.\n\n"
    "Address, TLS, credentials, version, permissions, nodes, GPUs, network policies.": (
        "按现状或使用其他凭据、设置检查集群；有失败项时退出码为 1。\n\n检查地址、TLS、凭据、版本、权限、节点、GPU 和网络策略。"
    ),
    "Cluster {cluster} is added.": "集群 {cluster} 已添加。",
    "Cluster {cluster} is changed.": "集群 {cluster} 已修改。",
    "Cluster {cluster} is lost: its attempts end, and their jobs start elsewhere.": (
        "集群 {cluster} 已丢失：其中的尝试结束，作业在别处启动。"
    ),
    "Cluster {cluster} is disabled: no new attempt starts; what runs continues.": (
        "集群 {cluster} 已停用：不再启动新的尝试；运行中的继续。"
    ),
    "Cluster {cluster} is enabled.": "集群 {cluster} 已启用。",
    "Cluster {cluster} is removed.": "集群 {cluster} 已移除。",
    "Condition": "状况",
    "Declare a disabled cluster lost that does not answer: its attempts end, and their jobs start elsewhere.\n\n"
    "What still runs there would run twice. If it comes back, enable it: what is left of those attempts is stopped.": (
        "声明一个已停用且无应答的集群已丢失：其中的尝试结束，作业在别处启动。\n\n"
        "仍在其中运行的作业会重复运行。集群恢复后请启用它：遗留的尝试会被停止。"
    ),
    "Declare {cluster} lost? What still runs there would run twice.": "声明 {cluster} 已丢失？仍在其中运行的作业会重复运行。",
    "Detail": "详情",
    "Disable a cluster: no new attempt starts there; what runs continues and is observed.": (
        "停用集群：不再启动新的尝试；运行中的继续并受到观察。"
    ),
    "Dry run: check the cluster, store nothing.": "试运行：检查集群，不保存任何内容。",
    "Enable a cluster: jobs may start there again.": "启用集群：作业可以重新在其中启动。",
    "File with settings, as a YAML or JSON mapping.": "含设置的文件：YAML 或 JSON 映射。",
    "Give --kubeconfig FILE, or --in-cluster.": "请给出 --kubeconfig 文件，或 --in-cluster。",
    "Give --kubeconfig or --in-cluster, not both.": "--kubeconfig 与 --in-cluster 只能给出其一。",
    "Kind of the cluster.": "集群的类型。",
    "Kubeconfig with keys inline; - reads standard input. Stored encrypted.": (
        "内嵌密钥的 kubeconfig；- 表示从标准输入读取。加密保存。"
    ),
    "List clusters and their health; add, change, check and remove them.": "查看集群及其健康状况；添加、修改、检查和移除集群。",
    "Name of the new cluster.": "新集群的名称。",
    "Name or id of the cluster.": "集群的名称或 ID。",
    "New name; job files with the old name no longer find it.": "新名称；使用旧名称的作业文件将找不到它。",
    "Remove a cluster with its pools and their limits; its jobs stay on record.\n\n"
    "Refused while attempts live there, or guarantees or bookings hold; what is in the cluster itself stays there.": (
        "移除集群及其资源池和限额；作业记录保留。\n\n仍有尝试未结束，或仍有保障、预订时会被拒绝；集群自身中的内容保留。"
    ),
    "Remove {cluster} with its pools and their limits?": "移除 {cluster} 及其资源池和限额？",
    "Restore the default of a setting; may be repeated.": "恢复某项设置的默认值；可重复。",
    "Say what to change.": "请说明要修改什么。",
    "Setting, may be repeated: pod_addresses=true, node_selector.team=research.": (
        "设置，可重复：pod_addresses=true、node_selector.team=research。"
    ),
    "Settings": "设置",
    "Show a cluster with all details. The word `show` is optional.": "查看集群的全部信息。可省略 `show`。",
    "Since": "自",
    "The cluster was not added. Mend what failed, or add it with --skip-check.": (
        "集群未添加。请修复失败的项目，或使用 --skip-check 添加。"
    ),
    "Use the account of the pod that Berth runs in.": "使用 Berth 所在 Pod 的账户。",
    "{entry!r} is no setting: write NAME=VALUE, or NAME.KEY=VALUE.": "{entry!r} 不是设置：请写作 NAME=VALUE 或 NAME.KEY=VALUE。",
    "{path} is no YAML or JSON mapping.": "{path} 不是 YAML 或 JSON 映射。",
    "✗ lost": "✗ 已丢失",
}
