"""Help texts of the command line in Chinese."""

from __future__ import annotations

HELP = {
    "Local path, VOLUME:PATH, or JOB:PATH.": "本机路径、VOLUME:PATH 或 JOB:PATH。",
    "Local path, or VOLUME:PATH.": "本机路径或 VOLUME:PATH。",
    "Accept an invitation: create an account and sign in, or join with the account that is signed in on this computer.\n\n"
    "Code and password are typed at a prompt without echo, or read from two lines of standard input.": (
        "接受邀请：建立您的账户并在本机登录，或以本机已登录的账户加入。\n\n邀请码和密码输入时不显示，也可以来自标准输入的两行。"
    ),
    "Address of the server.": "服务器地址。",
    "All jobs of the tenant, not only yours.": "租户的全部作业，而不只是您的。",
    "Include jobs that have ended.": "也列出已结束的作业。",
    "Number of the attempt; default: the latest.": "尝试的序号；默认为最近一次。",
    "Maximum number of rows.": "最多显示的条数。",
    "Unsubscribe.": "取消订阅。",
    "Subscribe to the end of jobs. The secret that signs a webhook is shown once.": (
        "订阅作业结束的通知。webhook 的签名密钥只显示一次。"
    ),
    "Prefix each line with its time.": "每行前加上时间。",
    "Start with the last N lines.": "从最后 N 行开始。",
    "Send mail to your address.": "发邮件到您的邮箱。",
    "Send a signed request to this URL.": "向此地址发送带签名的请求。",
    "CPU cores of each task.": "每个任务的 CPU 核数。",
    "CPU cores: 16, 0.5, or none.": "CPU 核数：16、0.5 或 none。",
    "CSV file; - is standard input.": "CSV 文件；- 为标准输入。",
    "Change the spec: roles.worker.replicas=4.": "修改规格：roles.worker.replicas=4。",
    "Change the spec: roles.worker.resources.memory=32Gi.": "修改规格：roles.worker.resources.memory=32Gi。",
    "Manage notification subscriptions and their channels.": "管理通知订阅及其渠道。",
    "Cluster and queues": "集群与队列",
    "Copy files to volumes, and artifacts to this computer.": "上传文件到存储卷，下载作业产物。",
    "Copy files, as `cp -r` does. An interrupted copy resumes where it stopped, and every file is verified.\n\n"
    "To a volume: berth cp ./data digits:raw. From a job: berth cp train:model ./. All artifacts: berth cp train: ./\n"
    "The checkpoint directory of a job, also while it runs: berth cp train:checkpoint/ ./kept": (
        "像 `cp -r` 一样复制文件；中断后从断点继续，每个文件都经过校验。\n\n"
        "到存储卷：berth cp ./data digits:raw。取产物：berth cp train:model ./。取全部产物：berth cp train: ./\n"
        "作业的检查点目录（运行中也可）：berth cp train:checkpoint/ ./kept"
    ),
    "Start from a copy of the job's last checkpoint.": "从该作业最后一个检查点的副本开始。",
    "Create a tenant.": "建立租户。",
    "Create an access token. It is printed only once, on standard output; with -o name on standard error.": (
        "创建访问令牌。令牌只在标准输出显示一次；使用 -o name 时显示在标准错误。"
    ),
    "Create a volume: on the platform's host, on a claim of a Kubernetes cluster, or on NFS.": (
        "创建存储卷：位于平台主机、Kubernetes 集群的存储声明，或 NFS。"
    ),
    "Quota, or size of a new claim: 100Gi.": "配额，或新存储声明的大小：100Gi。",
    "On a PersistentVolumeClaim in this cluster.": "使用该集群中的存储声明（PersistentVolumeClaim）。",
    "Existing claim in the tenant's namespace; for operators.": "租户命名空间中既有的存储声明；供运维人员使用。",
    "On an NFS server; for operators.": "位于 NFS 服务器；供运维人员使用。",
    "Jobs may only read it.": "作业只能读取。",
    "Delete a file of a volume.": "删除存储卷里的一个文件。",
    "Delete a secret; jobs that use it can no longer be submitted.": "删除密钥；之后引用它的作业将无法提交。",
    "Delete a volume with all its files.": "删除存储卷及其全部内容。",
    "Delete an image from the catalogue; running jobs continue.": "从目录中删除镜像；正在使用它的作业不受影响。",
    "Skip the confirmation.": "跳过确认。",
    "Do not follow the log.": "不跟随日志。",
    "Lifetime, such as 90d.": "有效期，例如 90d。",
    "File of Python requirements.": "Python 依赖文件。",
    "File or folder to keep as artifact.": "作为产物保留的文件或目录。",
    "Files and images": "文件与镜像",
    "Folder on the volume.": "存储卷里的目录。",
    "Folder to upload and run in.": "要上传并在其中运行的目录。",
    "Follow the build's log.": "跟随构建日志。",
    "Follow the log also when there is no terminal.": "没有终端时也跟随日志。",
    "Follow the new job's log.": "跟随新作业的日志。",
    "User or service account that owns the tokens; for operators.": "此用户或服务账户的令牌；供运维人员使用。",
    "Delete the token stored on this computer.": "删除本机保存的令牌。",
    "Delete the token stored on this computer. To revoke it everywhere: berth tokens revoke.": (
        "删除本机保存的令牌。要彻底吊销：berth tokens revoke。"
    ),
    "Output format: table, wide, json, yaml or name.": "输出格式：table、wide、json、yaml 或 name。",
    "Start of the period: 7d, or 2027-01-31.": "时段的开始：7d 或 2027-01-31。",
    "GPUs of each task: 1, 0.5, or a100:2.": "每个任务的 GPU：1、0.5 或 a100:2。",
    "GPUs: 8, 0.5, or none.": "GPU 数量：8、0.5 或 none。",
    "Rename a queue; its jobs stay in it.": "给队列改名；作业留在其中。",
    "Timeout, such as 10m; exit code 124.": "超时时间，例如 10m；退出码 124。",
    "Follow the log until the job ends. Ctrl+C stops following; the job continues.": (
        "一直显示到作业结束。Ctrl+C 只是离开，作业继续。"
    ),
    "Id, name or prefix of the token.": "令牌的 ID、名称或前缀。",
    "Id, unique prefix of an id, or name (its latest job).": "ID、唯一的 ID 前缀，或名称（取最近的作业）。",
    "Ids, unique prefixes of ids, or names.": "ID、唯一的 ID 前缀，或名称。",
    "Image to run in.": "运行所用的镜像。",
    "Invite a user to the tenant. Prints a command and a code, which is shown only once, for the user.": (
        "邀请他人加入租户。输出一条命令和只显示一次的邀请码，请一并转交给该用户。"
    ),
    "Invite all new users; the links are written to this new CSV file.": "邀请所有新用户；链接写入这个新的 CSV 文件。",
    "Invite, import and disable users.": "邀请、导入和停用用户。",
    "Also allow writing.": "同时允许写入。",
    "Job file (YAML or JSON); - is standard input.": "作业文件（YAML 或 JSON）；- 为标准输入。",
    "Job to show.": "要显示的作业。",
    "Refresh the list until Ctrl+C.": "持续刷新列表。",
    "Refresh until the job has ended.": "持续刷新，直到作业结束。",
    "Enable a disabled user.": "重新启用已停用的用户。",
    "Let another tenant mount a volume; read-only, unless --write.": "允许另一个租户挂载存储卷；默认只读，除非加 --write。",
    "Cordon a node: no new task starts there; running tasks continue.": "封锁节点：不再启动新任务；运行中的任务继续。",
    "Uncordon a node: tasks may start there again.": "解除节点封锁：重新接受任务。",
    "List a folder of a volume.": "列出存储卷里的目录。",
    "List and create tenants; disable, enable and delete them.": "查看和建立租户；停用、启用和删除租户。",
    "List clusters with their health and the isolation of tenants.": "查看集群的健康状况和租户隔离方式。",
    "List images that you may use.": "查看可用的镜像。",
    "List jobs, newest first: those that have not ended, or all with -a.": "列出作业，最新的在前：默认未结束的，-a 列出全部。",
    "List jobs.": "列出作业。",
    "List nodes and their usage.": "列出节点及其占用。",
    "List nodes; cordon, drain and uncordon them.": "列出节点；封锁、排空和恢复节点。",
    "List pools of homogeneous nodes.": "列出由同类节点组成的资源池。",
    "List tenants that you may see.": "列出可见的租户。",
    "List the members of the tenant.": "列出租户的成员。",
    "List the names of the tenant's secrets; values cannot be read back.": "列出租户密钥的名称；值无法读回。",
    "List users; for operators.": "列出用户；供运维人员使用。",
    "List volumes that you may use.": "列出可用的存储卷。",
    "List the files; copy nothing.": "只列出内容，不复制。",
    "List your subscriptions.": "列出已订阅的通知。",
    "List your access tokens.": "列出您的访问令牌。",
    "List, add and remove members of a tenant.": "查看、添加和移除租户成员。",
    "List, create and revoke access tokens.": "查看、创建和吊销访问令牌。",
    "List, create and share volumes.": "查看、创建和共享存储卷。",
    "List, create and inspect images.": "查看和制作镜像。",
    "Revoke a token; effective at once.": "立即吊销令牌。",
    "Add a user to the tenant, or change a member's role.": "将用户加入租户，或更改其角色。",
    "Create an image: a Python environment, a container image to build and push, or a name for a registry reference.": (
        "创建镜像：Python 环境、构建并推送的容器镜像，或给镜像仓库引用起的名称。"
    ),
    "Build a failed image again, or any container image that was built here.": "重新构建失败的镜像，或任何在此构建的容器镜像。",
    "Containerfile to build a container image from.": "用于构建容器镜像的 Containerfile。",
    "Folder that the Containerfile copies from; it is uploaded.": "Containerfile 从中复制文件的文件夹；会被上传。",
    "Image into which the requirements are installed.": "依赖安装到其中的基础镜像。",
    "Create users and memberships from a CSV file, all lines or none. New users sign in by an invitation.": (
        "从 CSV 文件建立用户和成员关系；要么全部成功，要么都不执行。新用户凭邀请加入。"
    ),
    "Memory of each task, such as 16Gi.": "每个任务的内存，例如 16Gi。",
    "Memory: 64Gi, or none.": "内存：64Gi 或 none。",
    "Name of the copy.": "副本的名称。",
    "Name of the job.": "作业名称。",
    "Name of the new image.": "新镜像的名称。",
    "Name of the new queue.": "新队列的名称。",
    "Name of the new volume.": "新存储卷的名称。",
    "Name or id of the image.": "镜像的名称或 ID。",
    "Name or id of the node.": "节点的名称或 ID。",
    "Name or id of the user.": "用户的名称或 ID。",
    "Name or id of the volume.": "存储卷的名称或 ID。",
    "Name, path or id of the queue.": "队列的名称、路径或 ID。",
    "Number of tasks.": "任务数量。",
    "Only from this time on: 10m, 2h, or 2027-01-31T18:00.": "只显示此时之后的：10m、2h 或 2027-01-31T18:00。",
    "Only jobs of this name.": "只列出此名称的。",
    "Only jobs with this text in their name or a tag.": "只列出名称或标签含有此文字的。",
    "Sort order: created (default), finished (ended jobs only) or priority.": (
        "排序方式：created（默认）、finished（仅已结束的）或 priority。"
    ),
    "Only stdout, or only stderr.": "只显示 stdout 或只显示 stderr。",
    "Only tasks of this index.": "只显示此序号的任务。",
    "Only tasks of this role.": "只显示此角色的任务。",
    "Only the children of this array.": "只列出此数组的子作业。",
    "Only this metric.": "只显示此指标。",
    "Only this operation, such as job.submit.": "只显示此操作，例如 job.submit。",
    "Only jobs of this queue.": "只列出此队列的。",
    "Only this queue.": "只显示此队列。",
    "Only jobs in this state; may be repeated.": "只列出此状态的；可重复。",
    "Only this task, such as worker-0.": "只显示此任务，例如 worker-0。",
    "Only jobs of this user; `me`: yourself.": "只列出此用户的；`me`：您自己。",
    "Only jobs with this label.": "只列出带此键值标签的。",
    "Only jobs with this tag.": "只列出带此标签的。",
    "Open the web page of a job, or of the server.": "打开作业或服务器的网页。",
    "Open the web page of a job, or of the server; prints the address where there is no browser.": (
        "打开作业或服务器的网页；没有浏览器时打印地址。"
    ),
    "Pool to limit; CLUSTER/POOL where several have the name.": "要限制的资源池；重名时写 CLUSTER/POOL。",
    "Pool to run in.": "运行所在的资源池。",
    "Print a completion script. For bash: echo 'eval \"$(berth completion bash)\"' >> ~/.bashrc": (
        "打印补全脚本。bash：echo 'eval \"$(berth completion bash)\"' >> ~/.bashrc"
    ),
    "Print a job's log. With several tasks, each line begins with its task; with --json, each line is a document.": (
        "打印作业日志。有多个任务时每行标明来源；--json 时每行是一个文档。"
    ),
    "Print a job's log; -f follows it.": "打印作业日志；-f 持续跟随。",
    "Print a completion script for a shell.": "打印 shell 补全脚本。",
    "Print the stored spec, ready to edit and resubmit.": "打印保存的规格，以便修改后重新提交。",
    "Profile of the configuration file.": "配置文件中的配置名。",
    "Parent queue; default: the tenant's top queue.": "上级队列；省略时为租户的顶层队列。",
    "Queue of the job.": "作业所属的队列。",
    "Registry reference to list under this name, or to push a built image to.": "以此名称登记的镜像引用，或构建后推送到的引用。",
    "Framework by which the tasks find each other, such as pytorch.": "任务互相发现所用的框架，例如 pytorch。",
    "Kind of NAME if a job and a volume share it: job or volume.": "名称同时是作业和存储卷时，写明 `job` 或 `volume`。",
    "Environment variable with a secret as its value.": "以密钥为值的环境变量。",
    "Resend a notification that was not delivered.": "重新发送未能送达的通知。",
    "Set a secret from standard input or a hidden prompt; never from the command line, which other users can read.": (
        "从标准输入或隐藏的提示设置密钥；绝不写在命令行上，以免他人看到。"
    ),
    "Set and delete a tenant's secrets.": "设置和删除租户的密钥。",
    "Set the ceiling of a queue in a pool: all that its jobs, child queues included, may hold; `none` removes a limit.\n\n"
    "Resources and pools that are not named keep their limits. Limits apply to future starts: no running job is stopped.": (
        "设定队列及其下级队列的全部作业可以同时占用的资源池上限；`none` 取消上限。\n\n"
        "没有写明的资源和其他资源池保持原有上限。只影响之后的启动，不会停止任何作业。"
    ),
    "Show CPU, memory, disk and GPU usage of each task: latest value, maximum and trend.": (
        "显示每个任务的 CPU、内存、磁盘和 GPU 用量：当前值、最高值和走势。"
    ),
    "Show GPUs by model and pool: total, allocated and free.": "按型号和资源池显示 GPU：总数、占用和空闲。",
    "Show GPUs by model: total, free, allocated.": "按型号显示 GPU：总数、空闲、占用。",
    "Show limits and current usage of each queue in each pool.": "显示各队列在各资源池的上限和当前用量。",
    "Show an image, its requirements and its builds.": "显示一个镜像、它的依赖和构建。",
    "Show a job: state, reason, nodes, attempts and tasks; -o wide adds details.": (
        "显示一个作业：状态和原因、运行位置、各次尝试和任务；-o wide 显示更多。"
    ),
    "Show a job: state, reason, attempts, tasks.": "显示一个作业：状态、原因、尝试、任务。",
    "Show a node with all details. The word `show` is optional.": "显示一个节点的全部细节。`show` 可以省略。",
    "Show the tree of queues.": "显示队列树。",
    "Show the version of this program.": "显示本程序的版本。",
    "Show the versions of client and server, and whether they are compatible.": "显示客户端和服务器的版本以及是否兼容。",
    "Show the versions of client and server.": "显示客户端和服务器的版本。",
    "Show this message and exit.": "显示此说明并退出。",
    "Show a job's resource usage; -w refreshes it.": "显示作业的资源用量；-w 持续观察。",
    "Show a job's events and their reasons.": "显示作业发生了什么以及原因。",
    "Show a job's events, oldest first: states, reasons, attempts.": "按时间顺序显示作业经历：状态、原因、尝试。",
    "Show your notifications, delivered and failed.": "显示已发送和未能送达的通知。",
    "Show limits and usage of your queues.": "显示队列的上限和当前用量。",
    "Show the audit log, newest first.": "显示审计日志，最新的在前。",
    "Show the audit log.": "显示审计日志。",
    "Show your account on the server, and its tenants.": "显示您在服务器上的身份和所属租户。",
    "Sign in to a server and store the token.": "登录服务器并保存令牌。",
    "Sign in: print an address and a code, and wait for your approval in a browser.\n\n"
    "The token is stored in a file that only you can read. Without a browser: berth login --server URL < token-file": (
        "登录：显示地址和代码，等待您在浏览器中批准。\n\n令牌保存到只有您能读取的文件。没有浏览器时：berth login "
        "--server URL < token-file"
    ),
    "Create a child queue: jobs can be submitted to it, and it can have limits of its own.": (
        "建立下级队列：可以向其提交作业，也可以设置自己的上限。"
    ),
    "Stop jobs.": "停止作业。",
    "Stop jobs: send each its signal, then kill it after the grace period.": "停止作业：先发信号，宽限期后强制结束。",
    "Run time limit, such as 2h.": "运行时间上限，例如 2h。",
    "Submit a copy of a job under another name.": "以另一个名称提交作业的副本。",
    "Submit a copy of a job. Secrets are not copied: give them again with --secret.": (
        "提交作业的副本。密钥不会复制：请用 --secret 重新指定。"
    ),
    "Submit a job from a file or a command, and follow it.": "从文件或命令提交作业，并跟随日志。",
    "Resubmit a job's spec, with changes.": "修改后重新提交作业。",
    "Resubmit a job's spec. --set changes it, and the difference is shown.": ("重新提交作业的规格。用 --set 修改，并显示差异。"),
    "Submit a job: from a file with -f, or as a command with options before it.\n\n"
    "On a terminal: shows the plan, asks for confirmation, uploads the code and follows the log; the exit code is 0 if "
    "the job\n"
    "succeeded, 1 if not. Ctrl+C leaves the job running. Without a terminal: submits and returns.": (
        "提交作业：用 -f 指定文件，或直接写命令（选项写在命令之前）。\n\n"
        "先显示计划，在终端上询问确认，上传代码，然后跟随日志；退出码即作业结果：成功为 0，否则为 1。\n"
        "Ctrl+C 只是离开，作业继续。没有终端时提交后立即返回。"
    ),
    "Idempotency key: submissions with the same key create one job.": "幂等键：相同的键只建立一个作业。",
    "Parent tenant.": "所属的上级租户。",
    "Submitted (with --sort finished: ended) before this time: 7d, or 2027-01-31.": (
        "在此时间之前提交（配合 --sort finished 时为结束）：7d，或 2027-01-31。"
    ),
    "Submitted (with --sort finished: ended) from this time on.": "自此时间起提交（配合 --sort finished 时为结束）。",
    "Tenant that may mount it.": "可以挂载的租户。",
    "Tenant to work in: name or slug.": "所用的租户：名称或标识。",
    "Tenants and users": "租户与用户",
    "The new name.": "新名称。",
    "Same as -o json.": "等同于 -o json。",
    "Alias of submit.": "submit 的别名。",
    "All job commands as subcommands.": "以子命令形式提供的作业命令。",
    "This computer": "本机",
    "Grace period between signal and kill, such as 30s.": "宽限期：发信号到强制结束之间的时间，例如 30s。",
    "Token; a dash prompts for it without echo.": "令牌；写 - 则提示输入，不回显。",
    "End of the period.": "时段的结束。",
    "User name of the new account; default: prompted for.": "新账户的用户名；省略时会询问。",
    "Environment variable; may be repeated.": "环境变量；可重复。",
    "Wait until a job has ended.": "等待作业结束。",
    "Wait until jobs have ended. The exit code is 0 if all succeeded, 1 if not, 124 after the timeout.": (
        "等待作业结束。全部成功退出码为 0，否则为 1，超时为 124。"
    ),
    "Purpose of the token.": "令牌的用途。",
    "Scope of the token; default: all your rights.": "令牌的权限范围；省略则与您相同。",
    "Command to run, without a job file.": "没有文件时要运行的命令。",
    "State of a job that notifies: succeeded, failed, stopped.": "触发通知的作业状态：succeeded、failed、stopped。",
    "Reason; shown to all users who can see the job.": "原因：能看到该作业的人都会看到。",
    "Reason; shown to all users whose jobs wait for the node.": "原因；作业等待该节点的用户都能看到。",
    "Work with jobs.": "管理作业。",
    "bash, zsh or fish.": "bash、zsh 或 fish。",
    "viewer, member or manager.": "viewer、member 或 manager。",
}
