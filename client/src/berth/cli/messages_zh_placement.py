"""The command line's words about taints of machines and rules of pools, in Chinese."""

from __future__ import annotations

PLACEMENT = {
    "--gpu-shares is on or off.": "--gpu-shares 只能是 on 或 off。",
    "Maximum number of shared GPUs; or default.": "最多共享多少块；或 default。",
    "Rename a pool, or change its placement policy; settings that are not named stay. The policy applies to future starts.": (
        "重命名资源池，修改其放置规则；未给出的保持不变。对之后启动的作业生效。"
    ),
    "GPU shares": "GPU 共享",
    "Taint a node: only jobs that tolerate the taint start there; with =avoid, others use it last. Running jobs continue.": (
        "将节点留给容忍其污点的作业；=avoid 表示其他作业尽量不用。运行中的作业不受影响。"
    ),
    "Allow fractions of a GPU.": "允许共享单块 GPU。",
    "Fragmented": "碎片率",
    "Idle GPUs": "空闲 GPU",
    "Learned": "自动选择",
    "Levels": "层级",
    "Measured": "测量时间",
    "Uneven": "节点差异",
    "Name or id of the pool.": "资源池的名称或 ID。",
    "Taint: a name keeps other jobs out, name=avoid makes them prefer other nodes.": (
        "污点：只写名称则不接受其他作业；名称=avoid 则其他作业优先选用别的节点。"
    ),
    "Names of taints.": "污点名称。",
    "Topology levels, of island,switch,rack; or default.": "island、switch、rack 中的若干项；或 default。",
    "New name; job files with the old name no longer find the pool.": "新名称；仍写旧名称的作业文件将找不到资源池。",
    "Policy": "策略",
    "Pool {old} is renamed to {pool}.": "资源池 {old} 现名为 {pool}。",
    "Pool {pool} has a new placement policy.": "资源池 {pool} 现在按新规则放置。",
    "Give at least one change.": "请说明要修改什么。",
    "Shared GPUs": "共享 GPU 上限",
    "Show a pool and its placement policy. The word `show` is optional.": "显示资源池及其放置规则。`show` 可以省略。",
    "Show pools of homogeneous nodes; change their placement policy.": "查看资源池，修改其放置规则。",
    "Remove taints that an operator set on a node. Taints that the cluster set stay.": (
        "移除运维人员为节点设置的污点。集群设置的污点保留。"
    ),
    "Taints": "污点",
    "{model}: {gpus} on nodes {machines}; largest task {task}, largest job {job}": (
        "{model}：{gpus} 块，节点 {machines}；单任务最多 {task} 块，作业最多 {job} 块"
    ),
    "Scoring weights, TERM=N, may be repeated; replaces all. `default` "
    "resets them.": "评分权重，TERM=N，可重复；整体替换。`default` 恢复默认。",
    "Weights": "权重",
    "Model": "型号",
    "default": "默认",
    "fragmentation, pack, spread, ratio; or default.": "fragmentation、pack、spread、ratio；或 default。",
    "off": "关闭",
    "on": "开启",
    "A job file tolerates it with placement: {{tolerates: [{taint}]}}.": (
        "作业文件中写 placement: {{tolerates: [{taint}]}} 即可使用该节点。"
    ),
    "{entry!r} is not a taint: write its name, or name=avoid.": "{entry!r} 不是污点：请写名称，或 名称=avoid。",
    "{entry!r} is not a weight: write TERM=N.": "{entry!r} 不是权重：请写 项=数值。",
    "Taints of {node}: {taints}.": "{node} 现在的污点：{taints}。",
    "{weights} since {time}": "{weights}，自 {time}",
}
