"""The command line's words about promises, caps and bookings, in Chinese."""

from __future__ import annotations

CAPACITY = {
    "! Queue {queue} holds {used} {of} of pool {pool}: more than its {column} of {limit}.": (
        "! 队列 {queue} 占用资源池 {pool} 的 {of} {used}，超过其 {column} {limit}。"
    ),
    "36h or 2d; none lifts the limit. Left out: show it.": "36h 或 2d；none 取消限制；省略则显示当前限制。",
    "Write 90m, 36h or 2d; `none` lifts it.": "请写 90m、36h 或 2d；`none` 表示取消。",
    "{given} is no run time for queue {queue}: it must be between 1s and {days}d.": (
        "{given} 不能作为队列 {queue} 的运行时间：须在 1s 到 {days}d 之间。"
    ),
    "An entry has queue, pool and any of {columns}.": "每项包含 queue、pool 以及 {columns} 中的任意几项。",
    "BOOKING": "预订",
    "Book GPUs of a pool for a window: nobody else gets them then. Given back when nobody comes in time.": (
        "预订资源池的 GPU 一段时间：期间他人不可用；无人按时使用则自动释放。"
    ),
    "Book GPUs of a pool for a window; show and cancel bookings.": "预订资源池的 GPU 一段时间；查看和取消预订。",
    "Booked: {gpus} GPU of {pool}, from {start} to {end}.": "已预订 {pool} 的 {gpus} 张 GPU，从 {start} 到 {end}。",
    "CHANGES": "变更",
    "CONTAINERS": "容器",
    "Cancel an edit whose time has not come.": "取消尚未生效的配额变更。",
    "Cap what one person may hold in the tenant at a time; what is not named stays, `none` lifts a cap.\n\n"
    "A line for one person stands in place of the line for everybody. It acts on what starts next: nothing is stopped.": (
        "限制租户内每人同时可占用的资源；未给出的保持不变，`none` 取消限制。\n\n"
        "个人的限制优先于对所有人的限制。只影响之后启动的作业，不会停止运行中的作业。"
    ),
    "Change what queues are promised and allowed, together or not at all; try it first with --dry-run.\n\n"
    "A file holds entries such as {queue: vision, pool: a100, guarantee: {gpu: 8}, ceiling: {gpu: none}}.": (
        "一次性修改多个队列的保障与上限，全部生效或全部不生效；可先用 --dry-run 试算。\n\n"
        "文件中的每项形如 {queue: vision, pool: a100, guarantee: {gpu: 8}, ceiling: {gpu: none}}。"
    ),
    "DESERVED": "应得",
    "EDIT": "变更单",
    "For how long: 10h, 2d.": "时长：10h、2d。",
    "For jobs of this queue; the tenant's own.": "供该队列的作业使用；默认为租户自己的队列。",
    "GPU": "GPU",
    "GUARANTEE": "保障",
    "Give a booking up. What runs on it goes on as ordinary work.": "放弃预订。其上运行的作业作为普通作业继续。",
    "How many GPUs.": "GPU 数量。",
    "Id of the booking.": "预订的编号。",
    "Id of the edit.": "变更单的编号。",
    "JOBS": "作业",
    "Jobs of {queue} may run for any time.": "{queue} 的作业运行时间不限。",
    "Jobs of {queue} may run for {time}.": "{queue} 的作业最长运行 {time}。",
    "How long jobs without max_runtime are planned to run: 2h, or none. It ends no job.": (
        "未设置 max_runtime 的作业按多长时间规划：2h 或 none。不会因此结束作业。"
    ),
    "Those without max_runtime are planned with {time}.": "未设置 max_runtime 的作业按 {time} 规划。",
    "Jobs that run: 10, or none.": "运行中的作业数：10 或 none。",
    "Lent while idle, taken back on demand: gpu=12.": "空闲时借出，需要时收回：gpu=12。",
    "Limit how long jobs of a queue, and of those below it, may run.": "限制队列及其下级队列的作业最长运行时间。",
    "Limit how many jobs and containers a tenant has at a time, of all its users; without options, show it.": (
        "限制租户全体用户同时拥有的作业数和容器数；不带选项则显示。"
    ),
    "Name, path or id of a tenant's top queue.": "租户顶层队列的名称、路径或 ID。",
    "Do not ask.": "不询问。",
    "Empty {node}? {count} jobs have to go.": "排空 {node}？{count} 个作业需让出。",
    "Empty {node}? {count} job has to go.": "排空 {node}？{count} 个作业需让出。",
    "Nothing runs on {node}.": "{node} 上没有运行中的任务。",
    "Only if it comes to what this dry run has shown.": "仅当结果与该次试运行一致时执行。",
    "SAVES": "可保存",
    "Show who would have to go, change nothing.": "只显示需让出的作业，不做修改。",
    "Show who would move, change nothing.": "只显示会移动的作业，不做修改。",
    (
        "Take a machine out of service and empty it: what runs there saves its work, makes way and waits again.\n\n"
        "First it is shown who has to go. If others run there by the time you have said yes, nobody goes."
    ): "停用并排空节点：其上的作业保存进度、让出并重新排队。\n\n先显示需让出的作业；确认时若作业已变化，则不做任何操作。",
    "no": "否",
    "The same with --plan {plan} does just this, or nothing.": "加上 --plan {plan} 再次执行：结果一致才会生效，否则不做修改。",
    "{count} jobs would stand elsewhere.": "{count} 个作业的位置会变化。",
    "{count} job would stand elsewhere.": "{count} 个作业的位置会变化。",
    "{node} is being emptied: {count} jobs make way.": "{node} 正在排空：{count} 个作业让出。",
    "{node} is being emptied: {count} job makes way.": "{node} 正在排空：{count} 个作业让出。",
    "any number of": "不限数量的",
    "{queue} may have {jobs} jobs and {containers} containers at a time.": (
        "{queue} 同时最多 {jobs} 个作业，{containers} 个容器。"
    ),
    "Limits of {count} queues are changed.": "{count} 个队列的配额已修改。",
    "Limits of {count} queue are changed.": "{count} 个队列的配额已修改。",
    "Name changes in the file or on the command line, not both.": "变更请写在文件或命令行中，不能同时使用。",
    "Name or id of the queue; or a file with --file.": "队列的名称或编号；或用 --file 指定文件。",
    "Never lent: gpu=8.": "从不借出：gpu=8。",
    "Never passed: gpu=16, or none.": "不可超过：gpu=16 或 none。",
    "No edits that you may see.": "没有你可以查看的配额变更。",
    "Nobody is capped.": "没有个人限制。",
    "Not now, but from this time on.": "不立即生效，从此时刻起生效。",
    "Nothing is booked.": "没有预订。",
    "Of which pool; CLUSTER/POOL where several have the name.": "所属资源池；重名时写 CLUSTER/POOL。",
    "One person; everybody else when left out.": "某个人；省略则为其他所有人。",
    "Only held, ended, no_show or cancelled.": "只看 held、ended、no_show 或 cancelled。",
    "Only pending, applied, cancelled or refused.": "只看 pending、applied、cancelled 或 refused。",
    "Pool whose limits change.": "要修改配额的资源池。",
    "Say how long, by --for or --until.": "请用 --for 或 --until 说明时长。",
    "Say what is capped: --gpu, --jobs or --containers.": "请说明限制什么：--gpu、--jobs 或 --containers。",
    "Say which queue, which pool, and what changes.": "请说明队列、资源池以及要修改的内容。",
    "Share of what is free: gpu=3.": "空闲资源的分配权重：gpu=3。",
    "Show bookings of GPUs, newest first.": "列出 GPU 预订，最新的在前。",
    "Show edits of limits, also those whose time is still to come.": "列出配额变更，包括尚未生效的。",
    "Show what one person may hold in the tenant at a time.": "显示租户内每人同时可占用的资源。",
    "Show what would become of it, change nothing.": "只显示结果，不做修改。",
    "Tasks that run: 64, or none.": "运行中的任务数：64 或 none。",
    "The booking is cancelled.": "预订已取消。",
    "The cap of {whom} is set.": "{whom} 的限制已设置。",
    "The edit is cancelled.": "变更已取消。",
    "This edit would be made; nothing was changed.": "该变更可以生效；当前未做任何修改。",
    "This edit would be refused.": "该变更会被拒绝。",
    "UNTIL": "结束",
    "When it begins; now when left out.": "开始时间；省略为现在。",
    "When it ends.": "结束时间。",
    "Why, for the record.": "原因，供记录。",
    "YAML or JSON list of changes of many queues.": "多个队列变更的 YAML 或 JSON 列表。",
    "applied": "已生效",
    "cancelled": "已取消",
    "ended": "已结束",
    "everybody": "所有人",
    "held": "已预留",
    "is evicted": "将被驱逐",
    "no show": "未使用",
    "pending": "待生效",
    "refused": "已拒绝",
    "starts": "将启动",
    "waits": "将等待",
    "{column} has amounts by resource.": "{column} 须按资源给出数量。",
    "{count} queues change at {at}.": "{count} 个队列将于 {at} 变更。",
    "{count} queue changes at {at}.": "{count} 个队列将于 {at} 变更。",
    "{name} is no resource.": "{name} 不是资源。",
    "{path} holds no list of changes.": "{path} 中没有变更列表。",
    "{path} is no YAML.": "{path} 不是 YAML。",
    "{number!r} is no whole number.": "{number!r} 不是整数。",
    "{word} names no amount.": "{word} 没有给出数量。",
}
