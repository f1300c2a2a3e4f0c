"""The command line's words about taints of machines and rules of pools, in Chinese."""

from __future__ import annotations

PLACEMENT = {
    "--gpu-shares is on or off.": "--gpu-shares 只能是 on 或 off。",
    "At most so many are shared; or default.": "最多共享多少张；或 default。",
    "Rename a pool, and change how it is filled; what is not named stays. It holds for what starts next.": (
        "重命名资源池，修改其放置规则；未给出的保持不变。对之后启动的作业生效。"
    ),
    "GPU shares": "GPU 共享",
    "Keep a machine for jobs that tolerate its taints; with =avoid others come last. What runs there goes on.": (
        "将节点留给容忍其污点的作业；=avoid 表示其他作业尽量不用。运行中的作业不受影响。"
    ),
    "Lend parts of GPUs.": "允许共享单张 GPU。",
    "Fragmented": "碎片率",
    "Idle GPUs": "空闲 GPU",
    "Learned": "自动选择",
    "Levels": "层级",
    "Measured": "测量时间",
    "Uneven": "节点差异",
    "Name or id of the pool.": "资源池的名称或编号。",
    "Name, or name=avoid; alone it keeps jobs out.": "名称，或 名称=avoid；只写名称则不接受其他作业。",
    "Names of taints.": "污点名称。",
    "Of island,switch,rack; or default.": "island、switch、rack 中的若干项；或 default。",
    "Another name; job files that say the old one find no pool.": "新名称；仍写旧名称的作业文件将找不到资源池。",
    "Policy": "策略",
    "Pool {old} is called {pool} now.": "资源池 {old} 现名为 {pool}。",
    "Pool {pool} is filled by the new rules from now on.": "资源池 {pool} 现在按新规则放置。",
    "Say what changes.": "请说明要修改什么。",
    "Shared GPUs": "共享 GPU 上限",
    "Show one pool and how it is filled. The word `show` may be left out.": "显示资源池及其放置规则。`show` 可以省略。",
    "Show pools of equal machines; change how they are filled.": "查看资源池，修改其放置规则。",
    "Take taints of a machine away that an operator gave it. Those that its cluster gives it stay.": (
        "移除管理员为节点设置的污点。集群设置的污点保留。"
    ),
    "Taints": "污点",
    "{model}: {gpus} on machines {machines}; largest task {task}, largest job {job}": (
        "{model}：{gpus} 张，节点 {machines}；单任务最多 {task} 张，作业最多 {job} 张"
    ),
    "Weight of a term, all anew; or default.": "各项权重，整体替换；或 default。",
    "Weights": "权重",
    "Model": "型号",
    "default": "默认",
    "fragmentation, pack, spread, ratio; or default.": "fragmentation、pack、spread、ratio；或 default。",
    "off": "关闭",
    "on": "开启",
    "placement: {{tolerates: [{taint}]}} in the file of a job lets it go there.": (
        "作业文件中写 placement: {{tolerates: [{taint}]}} 即可使用该节点。"
    ),
    "{entry!r} is no taint: write its name, or name=avoid.": "{entry!r} 不是污点：请写名称，或 名称=avoid。",
    "{entry!r} is no weight: write TERM=N.": "{entry!r} 不是权重：请写 项=数值。",
    "{node} has the taints {taints} now.": "{node} 现在的污点：{taints}。",
    "{weights} since {time}": "{weights}，自 {time}",
    "{number!r} is no whole number.": "{number!r} 不是整数。",
}
