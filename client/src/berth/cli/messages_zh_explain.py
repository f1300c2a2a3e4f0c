"""The command line's words about waits and what-if questions, in Chinese."""

from __future__ import annotations

EXPLAIN = {
    "Expected": "预计启动",
    "Latest": "最迟启动",
    "50 % likely by {time}": "{time} 前启动的可能为 50%",
    "overdue: was predicted by {time}; no new prediction": "原预计在 {time} 前启动，该时间已过；不再给出新的时间",
    "not predicted yet ({time})": "尚未预测（{time}后）",
    "not predicted yet; prediction by {time}": "尚未预测，将于 {time} 前给出",
    "90 % likely by {time}": "{time} 前启动的可能为 90%",
    "no prediction: too many jobs are queued or running": "未预测：等待或运行的作业过多",
    "no predicted start": "暂时看不到启动时间",
    "no prediction: too few jobs have ended to predict run times": ("未预测：已结束的作业太少，无法预测运行时间"),
    "no prediction: no similar job has ended yet": ("未预测：尚无类似的作业结束"),
    "no prediction: beyond the planning horizon": "未预测：超出预测范围",
    "no 50 % time: too few jobs have ended": "已结束的作业太少，不给出 50% 的时间",
    "no 50 % time: too uncertain": "不确定性过大，不给出 50% 的时间",
    "median error: {rate} of the wait": "误差中位数：等待时间的 {rate}",
    "not predicted": "未预测",
    "by {time}": "{time} 前",
    "{rate} of the last {count} predictions were kept": "最近 {count} 次预计中有 {rate} 按时启动",
    "AT": "时间",
    "After the changes: {starts} start, {waits} wait, {evicted} are preempted.": (
        "之后：{starts} 个启动，{waits} 个等待，{evicted} 个被抢占。"
    ),
    "DECISION": "决定",
    "Candidates": "候选",
    "HOLDS": "占用",
    "Runs on": "依据",
    "Tasks go": "任务放置",
    "SCORE": "得分",
    "Placement": "放置依据",
    "{count} excluded: {why}": "排除 {count} 台：{why}",
    "{count} in the pool": "资源池中 {count} 台",
    "The changes would make no difference now.": "目前不会有任何变化。",
    "Jobs: {names}": "作业：{names}",
    "Skip the search for changes that would start the job, which takes longest.": "跳过最耗时的一步：查找能使作业启动的变更。",
    "Now": "现在",
    "Or as soon as": "或者一旦",
    "Order": "排序",
    "Place": "位置",
    "SINCE": "自",
    "STANDING": "依据",
    "Explain why a job waits, and what would start it.": "查看作业等待的全部原因，以及如何才能启动。",
    "Explain why a job waits: all reasons, who holds the missing resources, its place, and what would start it.\n\n"
    "Each suggested change was tried on a copy of the cluster's state, where the job started.": (
        "查看作业等待的全部原因、谁占用了什么、它的位置，以及如何才能启动。\n\n"
        "所示的每项变更都已在集群状态的副本上试过：之后作业确实会启动。"
    ),
    "Show which jobs would start, wait or be preempted after changes.": "查看变更后哪些作业会启动、等待或被抢占。",
    "Show which jobs would start, wait or be preempted after changes; nothing is changed.\n\n"
    "The file holds `changes`, a list of entries with one key each: submit, ask, rank, release, end, quota, cap, and "
    "for\n"
    "operators add_nodes, remove_node, cordon, uncordon, policy. Suggestions of `berth explain --json` can be used "
    "unchanged.": (
        "查看变更后哪些作业会启动、等待或被抢占；不会真正修改。\n\n"
        "文件包含 `changes` 列表，每项一个键：submit、ask、rank、release、end、quota、cap；运维人员还可用 add_nodes、"
        "remove_node、cordon、uncordon、policy。`berth explain --json` 给出的建议可直接使用。"
    ),
    "The scheduler is about to start it.": "调度器即将启动它。",
    "{why} The reason above is of {time}.": "{why} 以上原因得于 {time}。",
    "What is missing": "缺少什么",
    "Decisions": "决定记录",
    "What would start it": "如何才能启动",
    "What its tasks wait for": "任务在等待什么",
    "for {duration}": "已 {duration}",
    "The search stopped at its limit; other changes may help, too.": "搜索已达上限，可能还有其他可行的变更。",
    "Would be preempted": "将被抢占",
    "Would lose their node": "将失去所在节点",
    "Would no longer be preempted": "将不再被抢占",
    "Would no longer start": "将不再启动",
    "Would start": "将启动",
    "Would wait": "将等待",
    "YAML or JSON file with the changes; - is standard input.": "包含变更的 YAML 或 JSON 文件；- 为标准输入。",
    "a queue above": "上级队列",
    "and {count} more": "另有 {count} 个",
    "and {count} of other tenants": "以及其他租户的 {count} 个",
    "borrowed": "借用",
    "claim": "占位",
    "deserved": "应得",
    "preempt": "抢占",
    "guaranteed": "保障",
    "kept": "保留",
    "other tenants": "其他租户",
    "priority {priority}, equal to {time} of waiting": "优先级 {priority}，相当于等待 {time}",
    "queue {queue} holds less than it deserves and comes first": "队列 {queue} 占用少于应得，优先",
    "queue {queue} holds {share} of its pool by weight": "队列 {queue} 按权重占用资源池的 {share}",
    "refuse": "暂不启动",
    "start": "启动",
    "started after waiting": "等待后启动",
    "waited {time}": "已等待 {time}",
    "1 core": "1 核",
    "{count} jobs would be preempted for it.": "将为此抢占 {count} 个作业。",
    "{place} of {count} in its queue": "队列中第 {place} / {count}",
    "{place} of {count} among jobs for the same pools": "使用相同资源池的作业中第 {place} / {count}",
}
