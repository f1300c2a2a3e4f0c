"""The catalogue of wait reasons: every code for which a job waits, and all that is said or decided by the code alone.

The scheduler's core, its driver, the explanations and the pages of documents read it; `docs/wait-reasons.md` is made from it. A
code is stored with its job: another value needs a migration of the rows, and the earlier one in `RENAMED`. A code without a
record, or a record without words, fails at import.

The records stand in the order in which `berth explain` tells conditions, most telling first: what is decided already, what only
people can change, what the numbers of queues say, what the nodes say, what time will bring.
"""

from __future__ import annotations

from collections.abc import Mapping

from jobs.lifecycle import wait_words as words
from jobs.lifecycle.phrases import (
    amount,
    amounts,
    are,
    bracketed,
    bracketed_zh,
    capital,
    cluster,
    cluster_zh,
    count,
    listed,
    moment,
    named,
    named_zh,
    noted,
    noted_zh,
    owner,
    owner_zh,
    plural,
    pool,
    pool_zh,
    size,
)
from jobs.lifecycle.wait_record import Number, WaitRecord, WaitSource
from kernel.limits import GIB
from kernel.wait_codes import WaitCode
from kernel.words import Text, counted, fixed, format_bytes

_ANOTHER = {"name": "train", "user": "bob", "tenant": "speech", "need": {"gpu_millis": 8000}}

# fmt: off
_ALL: tuple[WaitRecord[WaitCode], ...] = (
    WaitRecord(WaitCode.CLAIM, WaitSource.CORE, shown_as=WaitCode.MAKING_ROOM, has_room_kept=True, condition=words.BEING_CLEARED),
    WaitRecord(WaitCode.MOVING, WaitSource.CORE, words.MOVING,
        hint=Text("It resumes there shortly; the migration counts as no retry.", "稍后即在新位置继续；迁移不计入重试次数。"),
        amounts={"pool": "a100"}, numbers={"pool": Number.POOL}, has_room_kept=True, condition=words.as_shown(words.MOVING)),
    WaitRecord(WaitCode.SCHEDULING, WaitSource.HISTORY, fixed("The scheduler has not looked at it yet.", "调度器尚未处理。")),
    WaitRecord(WaitCode.ARRAY, WaitSource.HISTORY, words.CHILDREN, amounts={"running": 3, "queued": 5}),
    WaitRecord(WaitCode.RETRYING, WaitSource.HISTORY, words.RETRYING,
        amounts={"attempt": 1, "class": "node_lost", "seconds": 90, "emptied": "", "failures": 3, "within": 300,
            "at": "2026-11-23T14:05:00Z"}, says_more_than_its_time=True),
    WaitRecord(WaitCode.PREEMPTED_OFTEN, WaitSource.HISTORY,
        Text(lambda d: (f"It was preempted {plural(d, 'preemptions', 'time', 'times')} within an hour and waits before it tries "
            "again."),
            lambda d: f"一小时内被抢占 {d.get('preemptions', '?')} 次，稍后再试。"),
        hint=Text("Request fewer resources, or set a checkpoint.", "减少资源需求，或设置检查点。"),
        amounts={"preemptions": 3}, says_more_than_its_time=True),
    WaitRecord(WaitCode.RESTORED, WaitSource.JOB,
        Text(lambda d: (f"The database was restored from a backup; it starts after {cluster(d)} has reported "
            "what still runs there."),
            lambda d: f"数据库已从备份恢复；需先确认{cluster_zh(d)}上仍在运行的作业。"),
        hint=Text("Usually this takes seconds. Operators see the cluster's condition with `berth clusters`.",
            "通常只需数秒。运维人员可用 `berth clusters` 查看集群状态。"), amounts={"cluster": "dgx"}),
    WaitRecord(WaitCode.QUARANTINED, WaitSource.JOB,
        Text(lambda d: (f"Its attempt {d.get('number') or '?'}, newer than the backup that was restored, is still on "
            f"{cluster(d)}. No other attempt starts while that one may run."),
            lambda d: (f"其第 {d.get('number') or '?'} 次尝试晚于所恢复的备份，"
            f"仍在{cluster_zh(d)}上；为避免重复运行，暂不启动。")),
        hint=Text("An operator adopts that attempt or stops it: `manage.py quarantine`.",
            "由运维人员接管或停止该尝试：`manage.py quarantine`。"), amounts={"number": 2, "cluster": "dgx"}),
    WaitRecord(WaitCode.QUARANTINED_UNKNOWN, WaitSource.JOB,
        fixed(
            "A cluster runs attempts of unknown jobs after a restore; one of them may belong to this job, so it waits.",
            "恢复后，集群上有无法确认所属作业的尝试；其中可能有本作业的，故暂不启动。"),
        hint=Text("It starts when they have ended or an operator has stopped them: `manage.py quarantine`.",
            "待其结束或由运维人员停止后启动：`manage.py quarantine`。"), amounts={"number": 2}),
    WaitRecord(WaitCode.SET_ASIDE, WaitSource.JOB,
        Text(lambda d: (f"The platform failed three times to process this job{bracketed(d, 'error')}; "
            "it retries every ten minutes."),
            lambda d: f"平台处理此作业连续三次失败{bracketed_zh(d, 'error')}，每十分钟重试一次。"),
        hint=Text("Tell an operator: the log has the details. Other jobs are not affected.",
            "请联系运维人员，日志中有详细信息；其他作业不受影响。"), amounts={"error": "KeyError"}),
    WaitRecord(WaitCode.IMAGE_KIND, WaitSource.POOL,
        Text(lambda d: f"Images of kind {d.get('need', '?')} do not run in {pool(d)}.",
            lambda d: f"{pool_zh(d)}不支持 {d.get('need', '?')} 类镜像。"),
        hint=Text("Choose another image or pool.", "换一个镜像或资源池。"), amounts={"need": "registry", "pool": "a100"}),
    WaitRecord(WaitCode.GPU_MODEL, WaitSource.POOL,
        Text(lambda d: f"It requests {listed(d.get('need'))}; {pool(d)} has {d.get('have') or 'no GPU'}.",
            lambda d: f"需要 {listed(d.get('need'))}；{pool_zh(d)}为 {d.get('have') or '无 GPU'}。"),
        hint=Text("Request a model that a pool has, or any model.", "改用现有型号，或不限型号。"),
        amounts={"need": ["h100"], "have": "A100", "pool": "a100"}),
    WaitRecord(WaitCode.NO_MOUNTS, WaitSource.POOL,
        Text(lambda d: f"The nodes of {pool(d)} cannot mount volumes.",
            lambda d: f"{pool_zh(d)}的节点不支持挂载存储卷。"),
        hint=Text("Remove mounts, or choose another pool. Operators: install bubblewrap on the node.",
            "去掉 mounts，或换一个资源池。运维人员可在节点上安装 bubblewrap。"), amounts={"pool": "a100"}),
    WaitRecord(WaitCode.VOLUME_PLACE, WaitSource.POOL, words.VOLUME_PLACE,
        hint=Text("Choose a pool whose cluster mounts it, or another volume. Operators: `shared_paths`, `nfs_servers` and "
            "`storage_class` of a cluster say what it mounts.",
            "请选择能挂载它的集群的资源池，或换一个存储卷。运维人员：集群的 `shared_paths`、`nfs_servers`、`storage_class` "
            "决定其可挂载的内容。"),
        amounts={"pool": "a100", "volume": "digits", "kind": "claim", "cluster": "research", "server": ""}),
    WaitRecord(WaitCode.CHECKPOINT_PLACE, WaitSource.POOL,
        Text(lambda d: (f"The cluster of {pool(d)} keeps no checkpoint directories: it has no storage class for them, and not "
            "the platform's directory on its nodes."),
            lambda d: f"{pool_zh(d)}所属集群不能保存检查点目录：既无存储类，其节点上也没有平台的目录。"),
        hint=Text("Choose another pool, or put checkpoint.path into a mounted volume. Operators: set `storage_class` or "
            "`shared_paths` of the cluster.",
            "请换一个资源池，或将 checkpoint.path 设在已挂载的存储卷中。运维人员：请设置集群的 `storage_class` "
            "或 `shared_paths`。"),
        amounts={"pool": "a100"}),
    WaitRecord(WaitCode.GPU_SHARES, WaitSource.POOL,
        Text(lambda d: f"{capital(pool(d))} allocates whole GPUs only; the job requests a fraction.",
            lambda d: f"{pool_zh(d)}只分配整块 GPU，而作业请求部分 GPU。"),
        hint=Text("Request a whole GPU, or choose a pool that allocates fractions.",
            "改为请求整块 GPU，或选择支持共享的资源池。"),
        amounts={"pool": "a100"}),
    WaitRecord(WaitCode.CLUSTER_LACKS, WaitSource.POOL,
        Text(lambda d: f"{capital(cluster(d))} lacks {', '.join(d.get('lacks') or ['?'])}, which its settings need.",
            lambda d: f"{cluster_zh(d)}缺少其设置所需的 {'、'.join(d.get('lacks') or ['?'])}。"),
        hint=Text("Choose another cluster. Operators: `berth clusters check` says what to install.",
            "请换一个集群。运维人员可用 `berth clusters check` 查看需要安装什么。"),
        amounts={"cluster": "dgx", "lacks": ["jobs.batch.volcano.sh"]}),
    WaitRecord(WaitCode.CLUSTER_DISABLED, WaitSource.POOL,
        Text(lambda d: f"{capital(cluster(d))} is disabled.", lambda d: f"{cluster_zh(d)}已停用。"),
        hint=Text("It starts when an operator enables the cluster; or choose another.",
            "待运维人员启用该集群后启动，或换一个集群。"),
        amounts={"cluster": "dgx"}),
    WaitRecord(WaitCode.CLUSTER_UNREACHABLE, WaitSource.POOL,
        Text(lambda d: f"{capital(cluster(d))} does not answer.", lambda d: f"{cluster_zh(d)}无响应。"),
        hint=Text("It starts when the cluster answers again; `berth clusters` says why it does not.",
            "集群恢复后即可启动；`berth clusters` 可查看原因。"), amounts={"cluster": "dgx"}),
    WaitRecord(WaitCode.ONE_TENANT_ONLY, WaitSource.POOL,
        Text(lambda d: f"{capital(cluster(d))} cannot isolate tenants and is in use by another tenant.",
            lambda d: f"{cluster_zh(d)}无法隔离租户，正被其他租户使用。"), amounts={"cluster": "dgx"}),
    WaitRecord(WaitCode.NO_MACHINES, WaitSource.POOL,
        Text(lambda d: f"{capital(pool(d))} has no nodes.", lambda d: f"{pool_zh(d)}没有节点。"),
        hint=Text("It starts when the pool gets a node that can run it; or choose another pool.",
            "资源池加入合适的节点后即可启动，或换一个资源池。"), amounts={"pool": "a100"}),
    WaitRecord(WaitCode.NO_READY_NODE, WaitSource.POOL,
        Text(lambda d: f"No node of {pool(d)} that could hold it takes jobs now.{words.blocked(d)}",
            lambda d: f"{pool_zh(d)}中能放下它的节点目前都不接受作业。{words.blocked(d)}"),
        hint=Text("It starts when such a node is ready again; `berth nodes` shows them.",
            "节点恢复后即可启动；`berth nodes` 可查看节点。"),
        amounts={"pool": "a100", "why": ["Node n1 is cordoned: new disks."]}),
    WaitRecord(WaitCode.LARGER_THAN_POOL, WaitSource.POOL,
        Text(lambda d: (f"It needs {amounts(d, 'need')}; {pool(d)} could not hold it even when empty "
            f"(largest node: {amounts(d, 'largest_node')})."),
            lambda d: (f"需要 {amounts(d, 'need', 'zh')}；{pool_zh(d)}即使全空也放不下"
            f"（最大节点：{amounts(d, 'largest_node', 'zh')}）。")),
        hint=Text("Lower resources or replicas, or choose a larger pool.", "减少资源或副本数，或换更大的资源池。"),
        amounts={"pool": "a100", "need": {"gpu_millis": 16000}, "largest_node": {"gpu_millis": 8000}}),
    WaitRecord(WaitCode.LABEL, WaitSource.POOL,
        Text(lambda d: (f"It requests nodes with {words.asked_labels(d)}; {pool(d)} has none, or none that could hold it "
            "even when empty."),
            lambda d: (f"要求节点带有标签 {words.asked_labels(d)}；{pool_zh(d)}中没有带此标签且放得下它的节点，"
            "即使节点全空。")),
        hint=Text("Change placement.labels of the job; `berth nodes show` lists the labels of a node.",
            "修改作业的 placement.labels；`berth nodes show` 可查看节点标签。"),
        amounts={"pool": "a100", "labels": {"rdma": ["ib"]}}),
    WaitRecord(WaitCode.TAINT, WaitSource.POOL,
        Text(lambda d: (f"The nodes of {pool(d)} that could hold it have taints that it does not tolerate: "
            f"{listed(d.get('taints'))}."),
            lambda d: f"{pool_zh(d)}中放得下它的节点带有它不容忍的污点：{listed(d.get('taints'))}。"),
        hint=Text("If it may use them, name the taints in placement.tolerates of the job.",
            "如允许使用，请在作业的 placement.tolerates 中列出这些污点。"), amounts={"pool": "a100", "taints": ["vision"]}),
    WaitRecord(WaitCode.EXCLUSIVE_CORES, WaitSource.POOL,
        Text(lambda d: (f"Each task requests {d.get('cores', '?')} exclusive cores; "
            f"{counted(d.get('machines', 0), 'node', 'nodes')} of {pool(d)} {'offers' if d.get('machines') == 1 else 'offer'} "
            f"them, at most {d.get('largest', 0)} per node."),
            lambda d: (f"每个任务要求 {d.get('cores', '?')} 个独占核心；{pool_zh(d)}中有 "
            f"{d.get('machines', 0)} 个节点提供独占核心，每个节点最多 {d.get('largest', 0)} 个。")),
        hint=Text("Request fewer cores, remove cpu_exclusive, or choose a pool that offers more.",
            "减少核心数、去掉 cpu_exclusive，或选择提供更多独占核心的资源池。"),
        amounts={"pool": "a100", "cores": 32, "machines": 4, "largest": 16}),
    WaitRecord(WaitCode.NO_PLACE, WaitSource.POOL,
        Text(lambda d: (f"All its {d.get('tasks', '?')} tasks must run in one {d.get('place') or 'place'}; no "
            f"{d.get('place') or 'place'} of {pool(d)} could hold them even when empty."),
            lambda d: (f"要求其 {d.get('tasks', '?')} 个任务位于同一 {d.get('place') or '位置'}；"
            f"{pool_zh(d)}中任何一处即使全空也放不下。")),
        hint=Text("Set placement.together to a larger place or to pack, or request fewer tasks.",
            "将 placement.together 改为更大的范围或 pack，或减少任务数。"),
        amounts={"pool": "a100", "place": "rack", "tasks": 8}),
    WaitRecord(WaitCode.SHM, WaitSource.POOL,
        Text(lambda d: (f"A task requests {size(d, 'need')} of shared memory; the largest node of "
            f"{pool(d)} has {size(d, 'largest')} of memory."),
            lambda d: (f"任务要求 {size(d, 'need')} 共享内存；{pool_zh(d)}中最大的节点内存为 "
            f"{size(d, 'largest')}。")), hint=Text("Lower shm.", "减少 shm。"),
        amounts={"pool": "a100", "need": 64 * GIB, "largest": 32 * GIB}),
    WaitRecord(WaitCode.PORTS, WaitSource.POOL,
        Text(lambda d: (f"Its tasks together request {d.get('need', '?')} ports; the nodes of {pool(d)} have "
            f"{d.get('most', '?')}."),
            lambda d: (f"其任务共要求 {d.get('need', '?')} 个端口；{pool_zh(d)}的节点共有 "
            f"{d.get('most', '?')} 个。")), hint=Text("Request fewer ports or replicas.", "减少端口或副本数。"),
        amounts={"pool": "a100", "need": 200, "most": 100}),
    WaitRecord(WaitCode.NO_SHELL, WaitSource.POOL,
        Text(lambda d: (f"By the settings of {pool(d)} image {d.get('image', '?')} has no shell; code and checkpoint directories "
            "need one."),
            lambda d: (f"按{pool_zh(d)}的设置，镜像 {d.get('image', '?')} 没有 shell；代码和检查点目录需要它。")),
        hint=Text("Leave code and checkpoint out, or choose an image with /bin/sh. Operators: see `direct_images`.",
            "请去掉 code 和 checkpoint，或选择含 /bin/sh 的镜像。运维人员请查看 `direct_images`。"),
        amounts={"pool": "a100", "image": "registry.example/tools/static:1"}),
    WaitRecord(WaitCode.TENANT_DISABLED, WaitSource.JOB,
        Text(lambda d: f"{'A tenant above its own' if d.get('above') else 'Its tenant'} is disabled{noted(d)}",
            lambda d: f"{'其上级租户' if d.get('above') else '其租户'}已停用{noted_zh(d)}"),
        hint=Text("It starts when an operator enables the tenant.", "待运维人员启用该租户后启动。"),
        amounts={"above": False, "note": "unpaid"},
        released=Text("It starts when an operator enables the tenant.", "待运维人员启用该租户后启动。")),
    WaitRecord(WaitCode.OWNER_LEFT, WaitSource.JOB,
        Text(lambda d: f"{owner(d)} is {'disabled' if d.get('disabled') else 'no longer a member of its tenant'}.",
            lambda d: f"{owner_zh(d)}{'已停用' if d.get('disabled') else '已不再是其租户的成员'}。"),
        hint=Text(
            "A manager of the tenant hands it to a member (`berth members hand-over USER NAME`) or stops it (`berth stop JOB`).",
            "租户管理员可将其移交给成员（`berth members hand-over USER NAME`）或停止它（`berth stop JOB`）。"),
        amounts={"user": "bob", "disabled": False},
        released=Text("It starts when a manager hands it to a member of the tenant, or its owner is one again.",
            "管理员将其移交给租户成员，或其所有者重新成为成员后，即启动。")),
    WaitRecord(WaitCode.HELD, WaitSource.JOB, fixed("It is held and starts after its release.", "已挂起，释放后启动。"),
        hint=Text("Release it.", "释放该作业。"),
        released=Text("Release it.", "释放该作业。")),
    WaitRecord(WaitCode.BUDGET, WaitSource.JOB,
        Text(lambda d: f"This month's budget of its queue, or of a queue above it, is spent{words.spent_part(d)}.",
            lambda d: f"所属队列或其上级队列的本月预算已用尽{words.spent_part(d)}。"),
        hint=Text("It starts next month, or when a manager raises the budget: `berth budgets`.",
            "将于下月启动，或由管理员提高预算后启动：`berth budgets`。"), amounts={"amount": 1000, "spent": 1020},
        released=Text("It starts when a manager of the tenant above, or an operator, has raised the budget.",
            "上级租户的管理员或运维人员提高预算后即启动。")),
    WaitRecord(WaitCode.IMAGE_BUILDING, WaitSource.JOB, fixed("Its image is being built.", "镜像正在构建。")),
    WaitRecord(WaitCode.DEPENDENCY, WaitSource.JOB, words.DEPENDENCY, amounts={"open": 2},
        released=Text("It starts when the jobs that it waits for have ended.", "所依赖的作业结束后即启动。")),
    WaitRecord(WaitCode.NOT_BEFORE, WaitSource.CORE,
        Text(lambda d: f"Earliest start: {moment(d, 'at', 'not known')}.",
            lambda d: f"最早启动时间：{moment(d, 'at', '未知')}。"), amounts={"at": "2026-11-23T14:05:00Z"},
        released=Text("It starts at that time; or set an earlier start_after.", "到时即启动；也可提前 start_after。")),
    WaitRecord(WaitCode.CHECKPOINT_UNREADABLE, WaitSource.JOB,
        Text(lambda d: f"Its checkpoint cannot be read: {d.get('problem') or 'see the log of the platform.'}",
            lambda d: f"检查点无法读取：{d.get('problem') or '原因见平台日志。'}"),
        hint=Text("Repair the directory, then release the job: `berth release JOB`; or rerun it without: `berth rerun JOB`.",
            "修复该目录后释放作业：`berth release JOB`；或不使用检查点重新运行：`berth rerun JOB`。"),
        amounts={"problem": "ckpt is no directory."}, is_of_checkpoint=True,
        released=Text("Repair its checkpoint and release it.", "修复检查点后释放该作业。")),
    WaitRecord(WaitCode.CHECKPOINT_OVER_QUOTA, WaitSource.JOB,
        Text(lambda d: (f"Its checkpoint directory holds {format_bytes(d.get('size_bytes', 0))} of the disk{words.longer(d)}; "
            f"{format_bytes(d.get('quota_bytes', 0))} are allowed. Nothing was removed."),
            lambda d: (f"检查点目录占用磁盘 {format_bytes(d.get('size_bytes', 0))}{words.longer_zh(d)}，"
            f"上限为 {format_bytes(d.get('quota_bytes', 0))}；未删除任何内容。")),
        hint=Text(
            "Fetch what you need (`berth cp JOB:checkpoint/ DIR`) and have the program keep fewer checkpoints, or ask an "
            "operator to raise BERTH_CHECKPOINT_QUOTA_BYTES; then release the job: `berth release JOB`.",
            "取回所需内容（`berth cp JOB:checkpoint/ DIR`）并减少保留的检查点，"
            "或请运维人员提高 BERTH_CHECKPOINT_QUOTA_BYTES，"
            "然后释放作业：`berth release JOB`。"),
        amounts={"size_bytes": 120 * GIB, "length_bytes": 150 * GIB, "quota_bytes": 100 * GIB},
        is_of_checkpoint=True,
        released=Text("Remove files from its checkpoint, or have an operator raise the quota of checkpoints; then release it.",
            "清理其检查点目录，或由运维人员提高检查点配额，然后释放该作业。")),
    WaitRecord(WaitCode.CHECKPOINT_CHECKING, WaitSource.JOB,
        fixed("Its checkpoint is being checked.", "正在检查其检查点。"),
        released=Text("It starts after its checkpoint has been checked.", "检查点检查完毕后即启动。")),
    WaitRecord(WaitCode.ARRAY_PARALLELISM, WaitSource.CORE,
        fixed("Its array has reached its parallelism.", "数组作业的并行数已满。"),
        hint=Text("Raise array.parallelism when you submit it.", "提交时提高 array.parallelism。"), ends_help=True,
        condition=Text(
            lambda d: (f"{plural(d, 'held', 'child of its array runs', 'children of its array run')}; "
                f"at most {count(d, 'limit')} may."),
            lambda d: f"数组作业已有 {count(d, 'held')} 个子作业运行，上限为 {count(d, 'limit')}。"),
        released=Text("It starts when another child of its array ends; or raise array.parallelism.",
            "同数组的作业结束后即启动。")),
    WaitRecord(WaitCode.USER_CAP, WaitSource.CORE, words.USER_CAP,
        hint=Text("It starts when other jobs of the user end. A manager can raise the cap: `berth queues caps`.",
            "该用户的其他作业结束后即可启动；管理员可提高上限：`berth queues caps`。"),
        amounts={"what": "gpu_millis", "need": 4000, "used": 6000, "limit": 8000},
        numbers={"what": Number.WHAT, "need": Number.NEED, "used": Number.HELD, "limit": Number.LIMIT}, ends_help=True,
        condition=words.as_shown(words.USER_CAP)),
    WaitRecord(WaitCode.TENANT_CAP, WaitSource.CORE, words.TENANT_CAP,
        hint=Text(
            "It starts when other jobs of the tenant end. A manager of the queue above can raise it: "
            "`berth queues counts`.",
            "该租户的其他作业结束后即可启动；上级队列的管理员可提高上限：`berth queues counts`。"),
        amounts={"what": "gpu_millis", "need": 4000, "used": 62000, "limit": 64000},
        numbers={"what": Number.WHAT, "need": Number.NEED, "used": Number.HELD, "limit": Number.LIMIT}, ends_help=True,
        condition=words.as_shown(words.TENANT_CAP)),
    WaitRecord(WaitCode.NO_POOL, WaitSource.CORE, words.NO_POOL,
        hint=Text("Choose another pool or cluster, or leave it out.", "换一个资源池或集群，或不指定。"),
        amounts={"pool": "a100", "cluster": "dgx"}, stage=0, is_unfit=True, may_be_too_large=True,
        condition=fixed("No pool may take it.", "没有可接纳它的资源池。")),
    WaitRecord(WaitCode.NO_MACHINE, WaitSource.CORE, shown_as=WaitCode.NO_ROOM, stage=10, is_unfit=True, may_be_too_large=True,
        is_counted=True, machines_help=True, condition=words.NONE_FITS),
    WaitRecord(WaitCode.CEILING_TOO_LOW, WaitSource.SHOWN,
        Text(lambda d: (f"It needs {amount(d, 'need')}; {named(d, 'queue', 'queue')} may never use more than "
                f"{amount(d, 'ceiling')} in {pool(d)}."),
            lambda d: (f"需要 {amount(d, 'need', 'zh')}；{named_zh(d, 'queue', '队列')}在{pool_zh(d)}的上限仅为 "
                f"{amount(d, 'ceiling', 'zh')}。")),
        hint=Text("Ask a manager to raise the limit, or request less.", "请管理员提高上限，或减少资源需求。"),
        amounts={"queue": "vision", "pool": "a100", "resource": "gpu_millis", "need": 16000, "used": 4000, "ceiling": 8000}),
    WaitRecord(WaitCode.CEILING, WaitSource.CORE, words.CEILING,
        hint=Text("It starts when jobs of the queue end. A manager can raise the limit.",
            "队列中的作业结束后即可启动；管理员可提高上限。"),
        amounts={"queue": "vision", "pool": "a100", "resource": "gpu_millis", "need": 6000, "used": 4000, "ceiling": 8000},
        numbers={"queue": Number.QUEUE, "pool": Number.POOL, "resource": Number.RESOURCE, "need": Number.NEED,
            "used": Number.HELD, "ceiling": Number.LIMIT},
        stage=20, may_be_too_large=True, ends_help=True, condition=words.OVER_CEILING),
    WaitRecord(WaitCode.KEPT_FOR_OTHERS, WaitSource.SHOWN,
        Text(lambda d: (f"It needs {amount(d, 'need')}; {pool(d)} has {amount(d, 'free')} that its queue may use, and "
            f"{amount(d, 'kept')} {are(amount(d, 'kept'))} idle but guaranteed to other queues."),
            lambda d: (f"需要 {amount(d, 'need', 'zh')}；{pool_zh(d)}可供其队列使用 {amount(d, 'free', 'zh')}，"
            f"另有 {amount(d, 'kept', 'zh')} 空闲但已保障给其他队列。")),
        hint=Text("It starts when its queue may use more, or when other jobs end. `berth queues` shows all guarantees.",
            "待所属队列额度增加或其他作业结束后启动；`berth queues` 可查看各队列的保障额度。"),
        amounts={"pool": "a100", "resource": "gpu_millis", "need": 4000, "free": 2000, "kept": 6000},
        numbers={"pool": Number.POOL, "resource": Number.RESOURCE, "need": Number.NEED, "free": Number.FREE, "kept": Number.KEPT},
        is_for_room=True),
    WaitRecord(WaitCode.WITHHELD, WaitSource.CORE, shown_as=WaitCode.KEPT_FOR_OTHERS, stage=30, may_be_too_large=True,
        ends_help=True, machines_help=True, condition=words.WITHHELD),
    WaitRecord(WaitCode.ADVANCE_RESERVATION, WaitSource.CORE, words.BOOKED_FOR_A_TIME,
        hint=Text(
            "A job whose max_runtime ends before the booking begins may start now; `berth reserve list` shows bookings.",
            "若 max_runtime 在预订开始前结束，则可立即启动；`berth reserve list` 可查看预订。"),
        amounts={"pool": "a100", "resource": "gpu_millis", "need": 4000, "kept": 8000, "from": "2026-11-23T14:05:00Z",
            "until": "2026-11-23T18:00:00Z"},
        numbers={"pool": Number.POOL, "resource": Number.RESOURCE, "need": Number.NEED, "kept": Number.KEPT,
            "from": Number.SINCE, "until": Number.UNTIL},
        stage=40, machines_help=True, is_for_room=True, condition=words.as_shown(words.BOOKED_FOR_A_TIME)),
    WaitRecord(WaitCode.CAPACITY, WaitSource.CORE, shown_as=WaitCode.NO_ROOM, stage=50, may_be_too_large=True, ends_help=True,
        machines_help=True, condition=words.USED_UP),
    WaitRecord(WaitCode.BEHIND, WaitSource.CORE, words.BEHIND,
        hint=Text("It starts after that job.", "待该作业启动后启动。"), amounts={"queue": "vision", "kept_for": _ANOTHER},
        numbers={"queue": Number.QUEUE}, ends_help=True, is_for_another=True, condition=words.as_shown(words.BEHIND)),
    WaitRecord(WaitCode.NOT_TOGETHER, WaitSource.CORE,
        Text(lambda d: f"{capital(pool(d))} has room for all its {d.get('tasks', '')} tasks, but not close enough together.",
            lambda d: f"{pool_zh(d)}放得下其全部 {d.get('tasks', '')} 个任务，但位置不够集中。"),
        hint=Text("It starts when enough gets free in one place, or remove placement.together.",
            "待同一位置空出足够资源后启动，或去掉 placement.together。"), amounts={"pool": "a100", "tasks": 8, "fitting": 4},
        numbers={"pool": Number.POOL, "tasks": Number.NEED, "fitting": Number.FITTING}, stage=70, may_be_too_large=True,
        ends_help=True, machines_help=True, is_for_room=True, condition=words.TOO_FEW_FIT_TOGETHER),
    WaitRecord(WaitCode.NO_ROOM, WaitSource.CORE, words.NO_ROOM,
        hint=Text("It starts when enough jobs there have ended.", "有足够作业结束后即可启动。"),
        amounts={"pool": "a100", "need": {"gpu_millis": 4000}, "free": {"gpu_millis": 1000}, "left_out": {"taint": 1},
            "tasks": 4, "fitting": 1, "shared_devices_max": 2,
            "holder": {"name": "train", "user": "bob", "tenant": "speech", "is_alone": True, "until": "2026-11-23T14:05:00Z"}},
        stage=60, may_be_too_large=True, is_counted=True, ends_help=True, machines_help=True, is_for_room=True,
        condition=words.TOO_FEW_FIT),
    WaitRecord(WaitCode.MAKING_ROOM, WaitSource.SHOWN, words.MAKING_ROOM,
        hint=Text("It starts as soon as they have saved their work and ended.", "待其保存进度并结束后立即启动。"),
        amounts={"jobs": 2, "moving": 1, "at": "2026-11-23T14:05:00Z"}),
    WaitRecord(WaitCode.BACKFILL_RESERVATION, WaitSource.CORE, words.KEPT_FROM_THEN,
        hint=Text("Set a max_runtime that ends before then, and it may start now.",
            "设置在此之前结束的 max_runtime，即可立即启动。"),
        amounts={"pool": "a100", "at": "2026-11-23T14:05:00Z", "kept_for": _ANOTHER},
        numbers={"pool": Number.POOL, "at": Number.UNTIL}, stage=80, ends_help=True, machines_help=True, is_for_room=True,
        is_for_another=True, condition=words.as_shown(words.KEPT_FROM_THEN)),
    WaitRecord(WaitCode.TOO_YOUNG, WaitSource.CORE,
        Text(lambda d: (f"It may preempt jobs in {pool(d)} from {moment(d, 'at', 'a later time', up=True)} on; until then they "
            "have not reached the least run time."),
            lambda d: (f"自 {moment(d, 'at', '稍后', up=True)} 起可抢占{pool_zh(d)}的作业；此前这些作业未达最短运行时间。")),
        hint=Text("It starts then, or sooner when other jobs end.", "届时启动；有作业提前结束则更早。"),
        amounts={"pool": "a100", "at": "2026-11-23T14:05:00Z"}, numbers={"pool": Number.POOL, "at": Number.UNTIL}, stage=90,
        machines_help=True, is_for_eviction=True, condition=words.TAKES_BACK_LATER),
    WaitRecord(WaitCode.EVICTION_BRAKE, WaitSource.SHOWN,
        Text(lambda d: (f"Preemption limit: {d.get('evictions', '?')} of at most {plural(d, 'limit', 'job was', 'jobs were')} "
            "preempted recently."),
            lambda d: f"抢占上限：近期已抢占 {d.get('evictions', '?')} 个作业，上限为 {d.get('limit', '?')}。"),
        hint=Text("It continues automatically.", "将自动继续。"),
        amounts={"evictions": 16, "limit": 16, "at": "2026-11-23T14:05:00Z"},
        numbers={"evictions": Number.HELD, "limit": Number.LIMIT, "at": Number.UNTIL}),
    WaitRecord(WaitCode.BRAKE, WaitSource.CORE, shown_as=WaitCode.EVICTION_BRAKE, stage=100, machines_help=True,
        is_for_eviction=True, condition=words.TOO_MANY_EVICTED),
)
# fmt: on


def _by_code(records: tuple[WaitRecord[WaitCode], ...]) -> Mapping[str, WaitRecord[WaitCode]]:
    found: dict[str, WaitRecord[WaitCode]] = {record.code: record for record in records}
    if len(found) < len(records) or found.keys() != set(WaitCode):
        raise TypeError(f"wait reasons without exactly one record: {sorted(set(WaitCode) - found.keys()) or 'one has several'}")
    return found


WAITS: Mapping[str, WaitRecord[WaitCode]] = _by_code(_ALL)


def _cause(record: WaitRecord[WaitCode]) -> WaitCode:
    """Of two codes with one cause the same: what a job shows and what the core says; a job too large for a ceiling is at it."""
    if record.code == WaitCode.CEILING_TOO_LOW:
        return WaitCode.CEILING
    return WaitCode.NOT_BEFORE if record.says_more_than_its_time else record.shown_as or record.code


_CAUSES: Mapping[str, WaitCode] = {code: _cause(record) for code, record in WAITS.items()}


def cause_of(code: str) -> str:
    """The code for the cause of a wait, by any code of it: the core's, or the one that a job shows. Other texts as they are."""
    return _CAUSES.get(code, code)
