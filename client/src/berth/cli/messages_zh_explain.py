"""The command line's words about waits and what-if questions, in Chinese."""

from __future__ import annotations

EXPLAIN = {
    "Expected": "预计启动",
    "Latest": "最迟启动",
    "as likely as not by {time}": "五成可能在 {time} 前",
    "was expected by {time}, which has passed; no new time is told": "原预计在 {time} 前启动，该时间已过；不再给出新的时间",
    "known in {time}": "{time}后得知",
    "not known yet, known by {time}": "尚未得知，将于 {time} 前得知",
    "nine times in ten by {time}": "九成可能在 {time} 前",
    "not looked ahead: too many jobs wait or run": "未预测：等待或运行的作业过多",
    "no start in sight": "暂时看不到启动时间",
    "cannot be known: too few jobs have ended to say how long others will run": (
        "无法得知：已结束的作业太少，无法判断其他作业会运行多久"
    ),
    "cannot be known: no similar job has finished yet, so no start can be predicted": (
        "无法得知：尚无类似的作业结束，因此无法预测启动时间"
    ),
    "cannot be known: further away than is looked ahead": "无法得知：超出预测范围",
    "too few jobs have ended for a likely time": "已结束的作业太少，不给出约半数可能的时间",
    "too uncertain for a likely time": "不确定性过大，不给出约半数可能的时间",
    "half of such times were off by less than {rate} of the wait": "此类时间有一半的误差小于等待时间的 {rate}",
    "not known": "无法得知",
    "by {time}": "{time} 前",
    "of the last {count}, {rate} started by then": "最近 {count} 次预计中有 {rate} 按时启动",
    "AT": "时间",
    "After it: {starts} start, {waits} wait, {evicted} are evicted.": (
        "之后：{starts} 个启动，{waits} 个等待，{evicted} 个被抢占。"
    ),
    "DECISION": "决定",
    "Candidates": "候选",
    "HOLDS": "占用",
    "MACHINE": "节点",
    "Policy": "策略",
    "Runs on": "依据",
    "SCORE": "得分",
    "Why there": "为何在此",
    "{count} left out: {why}": "排除 {count} 台：{why}",
    "{count} in the pool": "资源池中 {count} 台",
    "It would make no difference now.": "目前不会有任何变化。",
    "Job": "作业",
    "Jobs: {names}": "作业：{names}",
    "Leave out what would start it: that takes the longest.": "不计算如何启动：这一步最耗时。",
    "Now": "现在",
    "Or as soon as": "或者一旦",
    "Order": "排序",
    "Place": "位置",
    "SINCE": "自",
    "STANDING": "依据",
    "Show all that keeps a job waiting, and what would start it.": "查看作业等待的全部原因，以及如何才能启动。",
    "Show all that keeps a job waiting, with what is held and by whom, its place, and what would start it.\n\n"
    "Each change that is shown was tried on a copy of the cluster's state: after it the job does start.": (
        "查看作业等待的全部原因、谁占用了什么、它的位置，以及如何才能启动。\n\n"
        "所示的每项变更都已在集群状态的副本上试过：之后作业确实会启动。"
    ),
    "Show who would start, wait or be evicted after changes.": "查看变更后哪些作业会启动、等待或被抢占。",
    "Show who would start, wait or be evicted after changes; nothing is changed.\n\n"
    "The file holds `changes`, a list of entries with one key each: submit, ask, rank, release, end, quota, cap, and for\n"
    "operators add_nodes, remove_node, cordon, uncordon, policy. What `berth explain --json` suggests can be used as it is.": (
        "查看变更后哪些作业会启动、等待或被抢占；不会真正修改。\n\n"
        "文件包含 `changes` 列表，每项一个键：submit、ask、rank、release、end、quota、cap；管理员还可用 "
        "add_nodes、remove_node、cordon、uncordon、policy。`berth explain --json` 给出的建议可直接使用。"
    ),
    "The scheduler is about to start it.": "调度器即将启动它。",
    "WHERE": "位置",
    "What is missing": "缺少什么",
    "What was decided": "已作的决定",
    "What would start it": "如何才能启动",
    "The search for changes ended at its bound: others may help, too.": "搜索已达上限，可能还有其他可行的变更。",
    "Would be evicted": "将被抢占",
    "Would lose their machine": "将失去所在节点",
    "Would not be evicted any more": "将不再被抢占",
    "Would not start any more": "将不再启动",
    "Would start": "将启动",
    "Would wait": "将等待",
    "YAML or JSON file with the changes; - is standard input.": "包含变更的 YAML 或 JSON 文件；- 为标准输入。",
    "a queue above": "上级队列",
    "and {count} more": "另有 {count} 个",
    "and {count} of other tenants": "以及其他租户的 {count} 个",
    "borrowed": "借用",
    "claim": "占位",
    "deserved": "应得",
    "evict": "抢占",
    "guaranteed": "保障",
    "kept": "保留",
    "other tenants": "其他租户",
    "priority {priority}, worth {time} of waiting": "优先级 {priority}，相当于等待 {time}",
    "queue {queue} holds less than it deserves and comes first": "队列 {queue} 占用少于应得，优先",
    "queue {queue} holds {share} of its pool by weight": "队列 {queue} 按权重占用资源池的 {share}",
    "refuse": "暂不启动",
    "start": "启动",
    "wait turned start": "等待后启动",
    "waited {time}": "已等待 {time}",
    "1 core": "1 核",
    "{cores} cores": "{cores} 核",
    "{count} are evicted for it.": "为此抢占 {count} 个。",
    "{place} of {count} in its queue": "队列中第 {place} / {count}",
    "{place} of {count} that want the same pools": "同资源池中第 {place} / {count}",
}
