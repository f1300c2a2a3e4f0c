"""The command line's words about priorities and the order of waiting jobs, in Chinese."""

from __future__ import annotations

ORDER = {
    "Move to the end of the owner's jobs.": "排在其所有者的其他作业之后。",
    "Move among the jobs of all users of the queue; for managers.": (
        "在队列中所有人的作业之间移动，而不只是所有者自己的；仅限管理员。"
    ),
    "Approved.": "已批准。",
    "Request a priority above your limit: for a job, or for all your submissions in a time window.": (
        "申请高于您权限的优先级：针对一个作业，或针对一段时间内提交的所有作业。"
    ),
    "Request a priority above your limit; the job keeps its present priority until approval.": (
        "申请高于您权限的优先级；批准前作业保持当前优先级。"
    ),
    "Request the edit from a manager, if you may not make it.": "您无权修改时，向管理员申请。",
    "The edit is requested; a manager of these limits decides.": "已提交申请，由有权修改该配额的管理员决定。",
    "Approve a request for other limits.": "执行他人申请的变更。",
    "No requests for other limits.": "没有配额申请。",
    "Only requests in this state: pending, approved, denied, withdrawn or expired.": (
        "只看此状态的申请：pending、approved、denied、withdrawn 或 expired。"
    ),
    "Show limits that tenants asked for, newest first.": "列出租户的配额申请，最新的在前。",
    "Withdraw a pending request.": "撤回等待中的申请。",
    "Priority {priority} is requested; a manager decides.": "已申请优先级 {priority}，由管理员决定。",
    "Move to the front of the owner's jobs; the default.": "排在其所有者的其他作业之前；默认如此。",
    "Change the priority of a queued job, up to your limit.": ("修改等待中作业的优先级，最高不超过您可用的优先级。"),
    "DECIDED BY": "决定人",
    "Denied.": "已拒绝。",
    "FOR": "对象",
    "Request a time window for all your submissions, not for one job.": "针对一段时间内提交的所有作业，而不是一个作业。",
    "Give one of --before, --after, --first and --last.": "--before、--after、--first、--last 只能给出一个。",
    "Approve a request for a priority; a queued job moves at once.": "批准他人的申请；等待中的作业立即调整位置。",
    "Id of the request.": "申请的 ID。",
    "Job {name} has priority {priority}.": "作业 {name} 的优先级为 {priority}。",
    "Job {name} is moved.": "作业 {name} 已移动。",
    "Job {name} is moved; its place in the queue is {place}.": "作业 {name} 已移动，在队列中的位置是 {place}。",
    "Move a queued job among your own jobs of the same queue and priority. Jobs of other users keep their "
    "place.\n\nOnly managers move a job before or after a job of another user.": (
        "在您自己同一队列、同一优先级的等待作业之间移动一个作业，其他用户的作业位置不变。\n\n移动到其他用户的作业前后仅限管理员。"
    ),
    "Move a queued job before or after others.": "把等待中的作业移到其他作业之前或之后。",
    "Give a job and its priority.": "请给出作业以及所需的优先级。",
    "No requests for a priority.": "没有优先级申请。",
    "Only requests in this state: pending, approved, denied, withdrawn, expired or revoked.": (
        "只看此状态的申请：pending、approved、denied、withdrawn、expired 或 revoked。"
    ),
    "PRIORITY": "优先级",
    "REASON": "原因",
    "REQUEST": "申请",
    "Deny a request.": "拒绝他人的申请。",
    "Move directly after this queued job.": "紧接在这个等待作业之后。",
    "Move directly before this queued job.": "紧接在这个等待作业之前。",
    "SET IN": "设置于",
    "Give the priority, and the duration with --for.": "请给出优先级，并用 --for 说明时长。",
    "Set priorities; request higher ones, and decide on requests.": "设置优先级；申请更高的优先级，审批他人的申请。",
    "Priority limit of members; `default` removes the setting.": "成员的最高优先级；`default` 取消该设置。",
    "Show requests for a higher priority, newest first.": "列出优先级申请，最新的在前。",
    "Show the priority limit of each role in the tenant; set it with --member and --manager.": (
        "显示租户内各角色可自行使用的最高优先级；用 --member 和 --manager 设置。"
    ),
    "Withdraw a request, or end an approved window.": "撤回申请，或提前结束已批准的时间段。",
    "The job; omitted with --me or --user.": "作业；使用 --me 或 --user 时省略。",
    "The request is {state}.": "申请状态：{state}。",
    "Alias of move.": "move 的别名。",
    "Priority limit of managers; set by a manager of the parent tenant or an operator.": (
        "管理员的最高优先级；由上级租户的管理员或运维人员设置。"
    ),
    "User for whom the window is requested; for managers.": "为其申请的用户；仅限管理员。",
    "Answer to the requester.": "给申请人的答复。",
    "Reason, for the decision.": "原因，供审批人参考。",
    "You may use up to {priority}.": "您可用的最高优先级为 {priority}。",
    "approved": "已批准",
    "denied": "已拒绝",
    "expired": "已过期",
    "low, normal, high, urgent, or a number up to 1000.": "low、normal、high、urgent，或不超过 1000 的数字。",
    "revoked": "已撤销",
    "withdrawn": "已撤回",
    "{user} until {end}": "{user}，至 {end}",
}
