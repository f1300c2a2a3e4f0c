"""The command line's words about priorities and the order of waiting jobs, in Chinese."""

from __future__ import annotations

ORDER = {
    "After all others of its owner.": "排在其所有者的其他作业之后。",
    "Among everybody's jobs of the queue, not the owner's own; for managers.": (
        "在队列中所有人的作业之间移动，而不只是所有者自己的；仅限管理员。"
    ),
    "Approved.": "已批准。",
    "Ask for a higher priority than you may use yourself: for a job, or for all that you submit for a while.": (
        "申请高于自己权限的优先级：针对一个作业，或针对一段时间内提交的所有作业。"
    ),
    "Ask for a priority above your own; it waits with yours meanwhile.": "申请高于自己权限的优先级；批准前按自己的优先级等待。",
    "Ask whoever may change it, where you may not.": "自己无权修改时，向有权者申请。",
    "Asked for; whoever may change these limits decides.": "已提交申请，由有权修改该配额的人决定。",
    "Make the change that somebody else asked for.": "执行他人申请的变更。",
    "Nobody asked for other limits.": "没有配额申请。",
    "Only pending, approved, denied, withdrawn or expired.": "只看 pending、approved、denied、withdrawn 或 expired。",
    "Show limits that tenants asked for, newest first.": "列出租户的配额申请，最新的在前。",
    "Take back a request that waits.": "撤回等待中的申请。",
    "Asked for priority {priority}; a manager decides.": "已申请优先级 {priority}，由管理员决定。",
    "Before all others of its owner; the default.": "排在其所有者的其他作业之前；默认如此。",
    "Change a waiting job's priority, up to the highest that you may use yourself.": (
        "修改等待中作业的优先级，最高不超过自己可用的优先级。"
    ),
    "DECIDED BY": "决定人",
    "Denied.": "已拒绝。",
    "FOR": "对象",
    "For all that you submit for a while, not for one job.": "针对一段时间内提交的所有作业，而不是一个作业。",
    "Give one of --before, --after, --first and --last.": "--before、--after、--first、--last 只能给出一个。",
    "Give what somebody else asked for; a waiting job moves at once.": "批准他人的申请；等待中的作业立即调整位置。",
    "Id of the request.": "申请的编号。",
    "Job {name} has priority {priority}.": "作业 {name} 的优先级为 {priority}。",
    "Job {name} is moved.": "作业 {name} 已移动。",
    "Job {name} is moved; its place in the queue is {place}.": "作业 {name} 已移动，在队列中的位置是 {place}。",
    "Move a waiting job among your own of the same queue and priority. Nobody else's job comes later by it.\n\n"
    "Before or after somebody else's job is for managers.": (
        "在自己同一队列、同一优先级的等待作业之间移动一个作业，他人的作业不会因此推后。\n\n移动到他人作业的前后仅限管理员。"
    ),
    "Move a waiting job before or after others.": "把等待中的作业移到其他作业之前或之后。",
    "Name a job and the priority that it needs.": "请给出作业以及所需的优先级。",
    "Nobody asked for a priority.": "没有优先级申请。",
    "Only pending, approved, denied, withdrawn, expired or revoked.": (
        "只看 pending、approved、denied、withdrawn、expired 或 revoked。"
    ),
    "PRIORITY": "优先级",
    "REASON": "原因",
    "REQUEST": "申请",
    "Refuse what somebody else asked for.": "拒绝他人的申请。",
    "Right after this waiting job.": "紧接在这个等待作业之后。",
    "Right before this waiting job.": "紧接在这个等待作业之前。",
    "SET IN": "设置于",
    "Say which priority, and for how long by --for.": "请给出优先级，并用 --for 说明时长。",
    "Set priorities; ask for higher ones, and decide what others ask for.": "设置优先级；申请更高的优先级，审批他人的申请。",
    "Set what members may use; default takes the line away.": "设置成员可用的最高优先级；default 取消该设置。",
    "Show requests for a higher priority, newest first.": "列出优先级申请，最新的在前。",
    "Show which priority each role may use by itself in the tenant; set it with --member and --manager.": (
        "显示租户内各角色可自行使用的最高优先级；用 --member 和 --manager 设置。"
    ),
    "Take a request back, or end a window that was approved.": "撤回申请，或提前结束已批准的时间段。",
    "The job; left out with --me or --user.": "作业；使用 --me 或 --user 时省略。",
    "The request is {state}.": "申请状态：{state}。",
    "The same as move.": "同 move。",
    "The same for managers; for whoever stands above.": "对管理员的同样设置；由上级设置。",
    "The same for somebody whom you manage.": "为你管理的某人申请。",
    "What whoever asked is told.": "给申请人的答复。",
    "Why, for whoever decides.": "原因，供审批人参考。",
    "You may use up to {priority}.": "你可用的最高优先级为 {priority}。",
    "approved": "已批准",
    "denied": "已拒绝",
    "expired": "已过期",
    "low, normal, high, urgent, or a number to 1000.": "low、normal、high、urgent，或不超过 1000 的数字。",
    "revoked": "已撤销",
    "withdrawn": "已撤回",
    "{user} until {end}": "{user}，至 {end}",
}
