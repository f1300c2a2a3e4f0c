"""What a user leaves, and confirmations of what cannot be taken back, in Chinese."""

from __future__ import annotations

LEAVING = {
    "COUNT": "数量",
    "LEFT": "留下的内容",
    "NAMES": "名称",
    "running jobs": "运行中的作业",
    "waiting jobs": "等待中的作业",
    "templates": "模板",
    "volumes": "存储卷",
    "images": "镜像",
    "bookings": "预订",
    "tokens": "令牌",
    "nothing": "无",
    "Nothing is left.": "没有留下任何内容。",
    "Stop all jobs of the user; otherwise running jobs continue and waiting jobs are held.": (
        "停止该用户的全部作业；否则运行中的作业继续，等待中的作业挂起。"
    ),
    "Member who gets the user's jobs, templates, volumes, images and bookings.": (
        "接手该用户的作业、模板、存储卷、镜像和预订的成员。"
    ),
    "Name or id of the member who gets them.": "接手者的名称或 ID。",
    "Show what a member would leave in the tenant, or a former member has left there.": (
        "显示成员离开后会在租户中留下的内容，或前成员已留下的内容。"
    ),
    "Hand over the jobs, templates, volumes, images and bookings of a member or former member to another member.": (
        "将成员或前成员的作业、模板、存储卷、镜像和预订移交给另一名成员。"
    ),
    "Remove a user from the tenant. Shows what the user leaves: running jobs continue and waiting jobs are held, unless\n"
    "--stop-jobs or --hand-to.": (
        "将用户移出租户。先显示其留下的内容：运行中的作业继续，等待中的作业挂起，除非使用 --stop-jobs 或 --hand-to。"
    ),
    "Disable a user at once: tokens stop working. Shows what the user leaves: running jobs continue and waiting jobs are held,\n"
    "unless --stop-jobs or --hand-to.": (
        "立即停用用户；令牌失效。先显示其留下的内容：运行中的作业继续，等待中的作业挂起，除非使用 --stop-jobs 或 --hand-to。"
    ),
    "Jobs are stopped or handed over, not both.": "作业只能停止或移交，不能同时进行。",
    "Leave out --stop-jobs or --hand-to.": "请去掉 --stop-jobs 或 --hand-to。",
    "All their jobs are stopped.": "其全部作业将被停止。",
    "All of it is handed over to {to}.": "全部内容将移交给 {to}。",
    "Running jobs continue; waiting jobs are held until they are handed over.": (
        "运行中的作业继续；等待中的作业将挂起，直到移交。"
    ),
    "{user} hands over to {to}: {amounts}.": "{user} 移交给 {to}：{amounts}。",
    "Disable {user}?": "停用 {user}？",
    "Delete {path} of volume {volume}?": "删除存储卷 {volume} 的 {path}？",
    "Revoke token {name}?": "吊销令牌 {name}？",
    "Withdraw the announcement?": "撤回该公告？",
    "Unsubscribe?": "取消订阅？",
    "Delete queue {queue}?": "删除队列 {queue}？",
    "Queue {queue} is deleted.": "队列 {queue} 已删除。",
    "Delete a queue without unfinished jobs, child queues and bookings; its finished jobs and its history stay.": (
        "删除没有未结束作业、下级队列和预订的队列；已结束的作业及历史记录保留。"
    ),
    "Show queues; create, rename, limit and delete them.": "查看队列；建立、改名、限制和删除队列。",
}
