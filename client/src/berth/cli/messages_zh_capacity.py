"""The command line's words about promises, caps and bookings, in Chinese."""

from __future__ import annotations

CAPACITY = {
    "! Queue {queue} holds {used} {of} of pool {pool}: more than its {column} of {limit}.": (
        "! 队列 {queue} 占用资源池 {pool} 的 {of} {used}，超过其 {column} {limit}。"
    ),
    "Run time limit: 36h, 2d or none; default: show it.": "运行时间上限：36h、2d 或 none；省略则显示当前上限。",
    "Write 90m, 36h or 2d; `none` removes the limit.": "请写 90m、36h 或 2d；`none` 表示取消。",
    "{given} is not a valid run time for queue {queue}: it must be between 1s and {days}d.": (
        "{given} 不能作为队列 {queue} 的运行时间：须在 1s 到 {days}d 之间。"
    ),
    "An entry has queue, pool and any of {columns}.": "每项包含 queue、pool 以及 {columns} 中的任意几项。",
    "BOOKING": "预订",
    "Make an advance reservation: book GPUs of a pool for a time window. A booking that no job uses in time is released.": (
        "预订（提前预留）资源池的 GPU 一段时间；没有作业按时使用则自动释放。"
    ),
    "Book GPUs of a pool for a time window; show and cancel bookings.": "预订资源池的 GPU 一段时间；查看和取消预订。",
    "Booked: {gpus} GPU of {pool}, from {start} to {end}.": "已预订 {pool} 的 {gpus} 块 GPU，从 {start} 到 {end}。",
    "CHANGES": "变更",
    "CONTAINERS": "容器",
    "Cancel a scheduled edit of limits.": "取消尚未生效的配额变更。",
    "Set per-user caps of the tenant; caps that are not named stay, `none` removes one.\n\n"
    "A cap of one user replaces the cap of all users. Caps apply to future starts: no running job is stopped.": (
        "设置租户的每用户上限；未给出的保持不变，`none` 取消上限。\n\n"
        "单个用户的上限取代所有用户的上限。只影响之后的启动，不会停止运行中的作业。"
    ),
    "Edit guarantees, deserved shares, ceilings and weights of queues, all or none; --dry-run previews it.\n\n"
    "A file holds entries such as {queue: vision, pool: a100, guarantee: {gpu: 8}, ceiling: {gpu: none}}.": (
        "修改队列的保障、应得、上限与权重，全部生效或全部不生效；可先用 --dry-run 预览。\n\n"
        "文件中的每项形如 {queue: vision, pool: a100, guarantee: {gpu: 8}, ceiling: {gpu: none}}。"
    ),
    "DESERVED": "应得",
    "EDIT": "变更单",
    "Duration: 10h, 2d.": "时长：10h、2d。",
    "Queue that may use the booking; default: the tenant's top queue.": "供该队列的作业使用；默认为租户自己的队列。",
    "GPU": "GPU",
    "GUARANTEE": "保障",
    "Cancel a booking. Jobs that run on it continue as ordinary jobs.": "取消预订。其上运行的作业作为普通作业继续。",
    "Number of GPUs.": "GPU 数量。",
    "Id of the booking.": "预订的 ID。",
    "Id of the edit.": "变更单的 ID。",
    "JOBS": "作业",
    "Jobs of {queue} have no run time limit.": "{queue} 的作业运行时间不限。",
    "Jobs of {queue} may run for at most {time}.": "{queue} 的作业最长运行 {time}。",
    "Default run time, for planning jobs without max_runtime: 2h, or none. It ends no job.": (
        "默认运行时间，用于规划未设置 max_runtime 的作业：2h 或 none。不会因此结束作业。"
    ),
    "Jobs without max_runtime are planned with {time}.": "未设置 max_runtime 的作业按 {time} 规划。",
    "Running jobs: 10, or none.": "运行中的作业数：10 或 none。",
    "Deserved share, lent while idle and reclaimed on demand: gpu=12.": "应得份额，空闲时借出，需要时收回：gpu=12。",
    "Set the run time limit of a queue and its child queues.": "限制队列及其下级队列的作业最长运行时间。",
    "Limit the jobs and containers of a tenant, of all users together; without options, show the limit.": (
        "限制租户全体用户同时拥有的作业数和容器数；不带选项则显示。"
    ),
    "Name, path or id of a tenant's top queue.": "租户顶层队列的名称、路径或 ID。",
    "Drain {node}? {count} jobs will be evicted.": "排空 {node}？{count} 个作业将被驱逐。",
    "Drain {node}? {count} job will be evicted.": "排空 {node}？{count} 个作业将被驱逐。",
    "Nothing runs on {node}.": "{node} 上没有运行中的任务。",
    "Id of a dry run; apply only if its outcome still holds.": "试运行的 ID；仅当结果仍与其一致时执行。",
    "SAVES": "可保存",
    "Dry run: show the jobs that would be evicted.": "试运行：只显示将被驱逐的作业。",
    "Dry run: show the jobs that would move.": "试运行：只显示会移动的作业。",
    (
        "Drain a node: cordon it and evict its jobs, which save their work and are requeued.\n\nThe jobs are listed "
        "first. If the jobs have changed before your confirmation, none is evicted."
    ): "排空节点：封锁节点并驱逐其上的作业；作业保存进度后重新排队。\n\n先列出这些作业；确认时若作业已变化，则不驱逐任何作业。",
    "no": "否",
    "To do exactly this or nothing, repeat the command with --plan {plan}.": (
        "加上 --plan {plan} 再次执行：结果一致才会生效，否则不做修改。"
    ),
    "{count} jobs would change their place.": "{count} 个作业的位置会变化。",
    "{count} job would change its place.": "{count} 个作业的位置会变化。",
    "{node} is draining: {count} jobs are being evicted.": "{node} 正在排空：{count} 个作业正被驱逐。",
    "{node} is draining: {count} job is being evicted.": "{node} 正在排空：{count} 个作业正被驱逐。",
    "any number of": "不限数量的",
    "{queue} may have {jobs} jobs and {containers} containers at a time.": (
        "{queue} 同时最多 {jobs} 个作业，{containers} 个容器。"
    ),
    "Limits of {count} queues are changed.": "{count} 个队列的配额已修改。",
    "Limits of {count} queue are changed.": "{count} 个队列的配额已修改。",
    "Give changes in the file or on the command line, not both.": "变更请写在文件或命令行中，不能同时使用。",
    "Name or id of the queue; or a file with --file.": "队列的名称或 ID；或用 --file 指定文件。",
    "Guarantee, never lent: gpu=8.": "保障，从不借出：gpu=8。",
    "Ceiling, never exceeded: gpu=16, or none.": "上限，不可超过：gpu=16 或 none。",
    "No edits that you may see.": "没有您可以查看的配额变更。",
    "No user has a cap.": "没有用户上限。",
    "Time at which the edit takes effect; default: now.": "变更生效的时刻；省略为立即。",
    "Nothing is booked.": "没有预订。",
    "Pool; CLUSTER/POOL where several have the name.": "所属资源池；重名时写 CLUSTER/POOL。",
    "User of the cap; default: all other users.": "上限针对的用户；省略则为其他所有用户。",
    "Only bookings in this state: held, ended, no_show or cancelled.": "只看此状态的预订：held、ended、no_show 或 cancelled。",
    "Only edits in this state: pending, applied, cancelled or refused.": (
        "只看此状态的变更：pending、applied、cancelled 或 refused。"
    ),
    "Pool whose limits change.": "要修改配额的资源池。",
    "Give the duration with --for, or the end with --until.": "请用 --for 或 --until 说明时长。",
    "Give at least one cap: --gpu, --jobs or --containers.": "请说明限制什么：--gpu、--jobs 或 --containers。",
    "Give the queue, the pool and the change.": "请说明队列、资源池以及要修改的内容。",
    "Weight in sharing free capacity: gpu=3.": "分配空闲资源的权重：gpu=3。",
    "Show bookings of GPUs, newest first.": "列出 GPU 预订，最新的在前。",
    "Show edits of limits, including scheduled ones.": "列出配额变更，包括尚未生效的。",
    "Show the per-user caps of the tenant.": "显示租户的每用户上限。",
    "Dry run: show the effect, change nothing.": "试运行：只显示结果，不做修改。",
    "Running tasks: 64, or none.": "运行中的任务数：64 或 none。",
    "The booking is cancelled.": "预订已取消。",
    "The cap of {whom} is set.": "{whom} 的限制已设置。",
    "The edit is cancelled.": "变更已取消。",
    "The edit would be accepted; nothing was changed.": "该变更可以生效；当前未做任何修改。",
    "The edit would be refused.": "该变更会被拒绝。",
    "UNTIL": "结束",
    "Start of the window; default: now.": "开始时间；省略为现在。",
    "End of the window.": "结束时间。",
    "Reason, for the record.": "原因，供记录。",
    "File with a YAML or JSON list of changes to several queues.": "多个队列变更的 YAML 或 JSON 列表。",
    "applied": "已生效",
    "cancelled": "已取消",
    "ended": "已结束",
    "all users": "所有用户",
    "held": "已预留",
    "is preempted": "将被抢占",
    "no show": "未使用",
    "pending": "待生效",
    "refused": "已拒绝",
    "starts": "将启动",
    "waits": "将等待",
    "{column} has amounts by resource.": "{column} 须按资源给出数量。",
    "{count} queues change at {at}.": "{count} 个队列将于 {at} 变更。",
    "{count} queue changes at {at}.": "{count} 个队列将于 {at} 变更。",
    "{name} is not a resource.": "{name} 不是资源。",
    "{path} has no list of changes.": "{path} 中没有变更列表。",
    "{path} is not YAML.": "{path} 不是 YAML。",
    "{number!r} is not an integer.": "{number!r} 不是整数。",
    "{word} has no amount.": "{word} 没有给出数量。",
}
