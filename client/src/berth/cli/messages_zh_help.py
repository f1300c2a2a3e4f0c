"""Help texts of the command line in Chinese."""

from __future__ import annotations

HELP = {
    "A path here, VOLUME:PATH, or JOB:PATH.": "本机路径、VOLUME:PATH 或 JOB:PATH。",
    "A path here, or VOLUME:PATH.": "本机路径或 VOLUME:PATH。",
    "Accept an invitation: makes your account and signs in here, or joins with the account that is signed in here.\n\n"
    "The code and a password are asked for without being shown, or read from two lines of standard input.": (
        "接受邀请：建立你的账户并在本机登录，或以本机已登录的账户加入。\n\n邀请码和密码输入时不显示，也可以来自标准输入的两行。"
    ),
    "Address of the server.": "服务器地址。",
    "All jobs of the tenant, not only yours.": "租户的全部作业，而不只是你的。",
    "Also jobs that have ended.": "也列出已结束的作业。",
    "Another attempt than the latest.": "指定某次尝试，默认最近一次。",
    "At most so many.": "最多这么多条。",
    "Be told no longer.": "取消通知。",
    "Be told when a job ends. The secret that signs a webhook is shown once.": "作业结束时通知你。webhook 的签名密钥只显示一次。",
    "Begin each line with its time.": "每行前加上时间。",
    "Begin with the last so many lines.": "从最后这么多行开始。",
    "By mail to your address.": "发邮件到你的邮箱。",
    "By signed request to this address.": "向此地址发送带签名的请求。",
    "CPU cores of each task.": "每个任务的 CPU 核数。",
    "CPU cores: 16, 0.5, or none.": "CPU 核数：16、0.5 或 none。",
    "CSV file; - is standard input.": "CSV 文件；- 为标准输入。",
    "Change the spec: roles.worker.replicas=4.": "修改规格：roles.worker.replicas=4。",
    "Change the spec: roles.worker.resources.memory=32Gi.": "修改规格：roles.worker.resources.memory=32Gi。",
    "Choose what you are told about, and how.": "选择通知的内容和方式。",
    "Cluster and queues": "集群与队列",
    "Copy files to volumes, and artifacts home.": "上传文件到存储卷，下载作业产物。",
    "Copy files, as `cp -r` does; what was interrupted goes on where it stopped, and every file is checked.\n\n"
    "To a volume: berth cp ./data digits:raw. From a job: berth cp train:model ./. All that a job left: berth cp train: ./\n"
    "The checkpoint directory of a job, also while it runs: berth cp train:checkpoint/ ./kept": (
        "像 `cp -r` 一样复制文件；中断后从断点继续，每个文件都经过校验。\n\n"
        "到存储卷：berth cp ./data digits:raw。取产物：berth cp train:model ./。取全部产物：berth cp train: ./\n"
        "作业的检查点目录（运行中也可）：berth cp train:checkpoint/ ./kept"
    ),
    "Start from a copy of the job's last checkpoint, not anew.": "从该作业最后一个检查点的副本开始，而非从头开始。",
    "Create a tenant.": "建立租户。",
    "Create an access token. It is printed once, on standard output, and never again.": (
        "创建访问令牌。令牌只在标准输出显示一次。"
    ),
    "Create an empty volume.": "创建空的存储卷。",
    "Delete a file of a volume.": "删除存储卷里的一个文件。",
    "Delete a secret; jobs that name it can no longer be submitted.": "删除密钥；之后引用它的作业将无法提交。",
    "Delete a volume with all that is on it.": "删除存储卷及其全部内容。",
    "Delete an image from the catalogue; jobs that run in it go on.": "从目录中删除镜像；正在使用它的作业不受影响。",
    "Do it without asking.": "不询问，直接执行。",
    "Accepted as by `berth submit`; this never asks.": "与 `berth submit` 一致而接受；此命令从不询问。",
    "Do not follow the log.": "不跟随日志。",
    "Ends after this time, such as 90d.": "经过这段时间后到期，例如 90d。",
    "File of Python requirements.": "Python 依赖文件。",
    "File or folder to keep as artifact.": "作为产物保留的文件或目录。",
    "Files and images": "文件与镜像",
    "Folder on the volume.": "存储卷里的目录。",
    "Folder to upload and run in.": "要上传并在其中运行的目录。",
    "Follow the build's log.": "跟随构建日志。",
    "Follow the log also when there is no terminal.": "没有终端时也跟随日志。",
    "Follow the new job's log.": "跟随新作业的日志。",
    "Of this person or service account; for operators.": "此用户或服务账号的令牌；供平台管理员使用。",
    "Forget the token kept here.": "忘记本机保存的令牌。",
    "Forget the token kept here. To make it useless everywhere: berth tokens revoke.": (
        "忘记本机保存的令牌。要使其彻底失效：berth tokens revoke。"
    ),
    "Form of the answer: table, wide, json, yaml or name.": "输出格式：table、wide、json、yaml 或 name。",
    "From this time on: 7d, or 2027-01-31.": "从此时起：7d 或 2027-01-31。",
    "GPUs of each task: 1, 0.5, or a100:2.": "每个任务的 GPU：1、0.5 或 a100:2。",
    "GPUs: 8, 0.5, or none.": "GPU 数量：8、0.5 或 none。",
    "Give a queue another name; jobs stay in it.": "给队列改名；作业留在其中。",
    "Give up after this time, such as 10m; exit code 124.": "超过这段时间就放弃，例如 10m；退出码 124。",
    "Go on until the job has ended. Ctrl+C leaves; the job goes on.": "一直显示到作业结束。Ctrl+C 只是离开，作业继续。",
    "Id, name or prefix of the token.": "令牌的 ID、名称或前缀。",
    "Id, unique prefix of an id, or name (its latest job).": "ID、唯一的 ID 前缀，或名称（取最近的作业）。",
    "Ids, unique prefixes of ids, or names.": "ID、唯一的 ID 前缀，或名称。",
    "Image to run in.": "运行所用的镜像。",
    "Invite a person to the tenant. The answer is a command and its code, which is shown once; hand over both.": (
        "邀请他人加入租户。返回一条命令和只显示一次的邀请码，请一并转交。"
    ),
    "Invite all new people; the links go to this new CSV file.": "邀请所有新用户；链接写入这个新的 CSV 文件。",
    "Invite, import and disable users.": "邀请、导入和停用用户。",
    "It may also write.": "也可以写入。",
    "Job file (YAML or JSON); - is standard input.": "作业文件（YAML 或 JSON）；- 为标准输入。",
    "Job to show.": "要显示的作业。",
    "Keep showing the list.": "持续刷新列表。",
    "Keep showing, until the job has ended.": "持续刷新，直到作业结束。",
    "Let a disabled user in again.": "重新启用已停用的用户。",
    "Let another tenant mount a volume; reading only, unless --write.": "允许另一个租户挂载存储卷；默认只读，除非加 --write。",
    "Let nothing new start on a machine; what runs there goes on.": "不再在节点上启动新任务；正在运行的继续运行。",
    "Let work start on a machine again.": "让节点重新接受任务。",
    "List a folder of a volume.": "列出存储卷里的目录。",
    "List and create tenants; disable, enable and delete them.": "查看和建立租户；停用、启用和删除租户。",
    "List clusters and their condition.": "查看集群及其状况。",
    "List clusters, whether they answer, and how tenants are kept apart there.": "查看集群、是否有应答，以及如何隔离租户。",
    "List images that you may use.": "查看可用的镜像。",
    "List jobs, newest first: those that have not ended, or all with -a.": "列出作业，最新的在前：默认未结束的，-a 列出全部。",
    "List jobs.": "列出作业。",
    "List machines with what is used of them.": "列出节点及其占用。",
    "List machines; take them out of service and back.": "列出节点；封锁和恢复节点。",
    "List pools of equal machines.": "列出由同类节点组成的资源池。",
    "List tenants that you may see.": "列出可见的租户。",
    "List the members of the tenant.": "列出租户的成员。",
    "List the names of the tenant's secrets; values cannot be read back.": "列出租户密钥的名称；值无法读回。",
    "List users; for operators.": "列出用户；供平台管理员使用。",
    "List volumes that you may use.": "列出可用的存储卷。",
    "List what is there instead of copying.": "只列出内容，不复制。",
    "List what you are told about.": "列出已订阅的通知。",
    "List your access tokens.": "列出你的访问令牌。",
    "List, add and remove members of a tenant.": "查看、添加和移除租户成员。",
    "List, create and revoke access tokens.": "查看、创建和吊销访问令牌。",
    "List, create and share volumes.": "查看、创建和共享存储卷。",
    "List, make and inspect images.": "查看和制作镜像。",
    "Lock a user out at once; tokens stop working, jobs and records stay.": "立即停用用户；令牌失效，作业和记录保留。",
    "Make a token useless at once.": "立即吊销令牌。",
    "Make a user a member of the tenant, or change the role.": "将用户加入租户，或更改其角色。",
    "Make an image: a Python environment from a requirements file, or a registry reference under a name.": (
        "制作镜像：由依赖文件生成的 Python 环境，或以名称登记的镜像仓库引用。"
    ),
    "Make users and memberships from a CSV file; all lines or none. New people get in by an invitation.": (
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
    "Name or id of the machine.": "节点的名称或 ID。",
    "Name or id of the user.": "用户的名称或 ID。",
    "Name or id of the volume.": "存储卷的名称或 ID。",
    "Name, path or id of the queue.": "队列的名称、路径或 ID。",
    "Number of tasks.": "任务数量。",
    "Only from this time on: 10m, 2h, or 2027-01-31T18:00.": "只显示此时之后的：10m、2h 或 2027-01-31T18:00。",
    "Only of this name.": "只列出此名称的。",
    "Only with this text in their name or a tag.": "只列出名称或标签含有此文字的。",
    "created (the default), finished (those that ended) or priority.": "created（默认）、finished（已结束的）或 priority。",
    "Only stdout, or only stderr.": "只显示 stdout 或只显示 stderr。",
    "Only tasks of this index.": "只显示此序号的任务。",
    "Only tasks of this role.": "只显示此角色的任务。",
    "Only the children of this array.": "只列出此数组的子作业。",
    "Only this metric.": "只显示此指标。",
    "Only this operation, such as job.submit.": "只显示此操作，例如 job.submit。",
    "Only this queue's.": "只列出此队列的。",
    "Only this queue.": "只显示此队列。",
    "Only this state; may be repeated.": "只列出此状态的；可重复。",
    "Only this task, such as worker-0.": "只显示此任务，例如 worker-0。",
    "Only this user's; `me` is you.": "只列出此用户的；`me` 表示你自己。",
    "Only with this label.": "只列出带此标签的。",
    "Only with this tag.": "只列出带此标记的。",
    "Open the web page of a job, or of the server.": "打开作业或服务器的网页。",
    "Open the web page of a job, or of the server; prints the address where there is no browser.": (
        "打开作业或服务器的网页；没有浏览器时打印地址。"
    ),
    "Pool that is limited; CLUSTER/POOL where several have the name.": "要限制的资源池；重名时写 CLUSTER/POOL。",
    "Pool to run in.": "运行所在的资源池。",
    "Print a completion script. For bash: echo 'eval \"$(berth completion bash)\"' >> ~/.bashrc": (
        "打印补全脚本。bash：echo 'eval \"$(berth completion bash)\"' >> ~/.bashrc"
    ),
    "Print a job's log. With several tasks each line says whose it is; with --json each line is one document.": (
        "打印作业日志。有多个任务时每行标明来源；--json 时每行是一个文档。"
    ),
    "Print a job's log; -f follows it.": "打印作业日志；-f 持续跟随。",
    "Print the shell's completion script.": "打印 shell 补全脚本。",
    "Print the spec as stored, to change and submit again.": "打印保存的规格，以便修改后重新提交。",
    "Profile of the configuration file.": "配置文件中的配置名。",
    "Queue to split; the tenant's own when left out.": "要拆分的队列；省略时为租户的顶层队列。",
    "Queue to wait in.": "排队所在的队列。",
    "Registry reference to list under this name.": "以此名称登记的镜像仓库引用。",
    "Rendezvous of the tasks: jax, pytorch, mpi.": "任务的会合方式：jax、pytorch、mpi。",
    "Say `job` or `volume` when a name is both.": "名称同时是作业和存储卷时，写明 `job` 或 `volume`。",
    "Secret to fill a variable with.": "用哪个密钥填充变量。",
    "Send once more what could not be delivered.": "重新发送未能送达的通知。",
    "Set a secret from standard input, or by a hidden prompt; never from the command line, where others could read it.": (
        "从标准输入或隐藏的提示设置密钥；绝不写在命令行上，以免他人看到。"
    ),
    "Set and delete a tenant's secrets.": "设置和删除租户的密钥。",
    "Set what all jobs of a queue, and of those below it, may hold of a pool at a time; `none` lifts a limit.\n\n"
    "What is not named, and other pools, keep their limits. It acts on what starts next: nothing is stopped.": (
        "设定队列及其下级队列的全部作业可以同时占用的资源池上限；`none` 取消上限。\n\n"
        "没有写明的资源和其他资源池保持原有上限。只影响之后的启动，不会停止任何作业。"
    ),
    "Show CPU, memory, disk and GPU use of each task: the latest value, the highest, and the course.": (
        "显示每个任务的 CPU、内存、磁盘和 GPU 用量：当前值、最高值和走势。"
    ),
    "Show GPUs by model and pool: all, held by jobs, and free.": "按型号和资源池显示 GPU：总数、占用和空闲。",
    "Show GPUs by model: all, free, busy.": "按型号显示 GPU：总数、空闲、占用。",
    "Show for each queue and pool what may be used, and what is used now.": "显示各队列在各资源池的上限和当前用量。",
    "Show one image, its requirements and its builds.": "显示一个镜像、它的依赖和构建。",
    "Show one job: state and why, where it runs, its attempts and tasks; -o wide adds what is seldom needed.": (
        "显示一个作业：状态和原因、运行位置、各次尝试和任务；-o wide 显示更多。"
    ),
    "Show one job: state, reason, attempts, tasks.": "显示一个作业：状态、原因、尝试、任务。",
    "Show one machine with all details. The word `show` may be left out.": "显示一个节点的全部细节。`show` 可以省略。",
    "Show queues; create, rename and limit them.": "查看队列；建立、改名和限制队列。",
    "Show the tree of queues.": "显示队列树。",
    "Show the version of this program.": "显示本程序的版本。",
    "Show the versions of both sides, and whether they fit.": "显示两端的版本以及是否匹配。",
    "Show the versions of both sides.": "显示两端的版本。",
    "Show this message and exit.": "显示此说明并退出。",
    "Show what a job uses; -w keeps watching.": "显示作业的资源用量；-w 持续观察。",
    "Show what happened to a job, and why.": "显示作业发生了什么以及原因。",
    "Show what happened to a job, oldest first: states, reasons, attempts.": "按时间顺序显示作业经历：状态、原因、尝试。",
    "Show what was sent to you, and what could not be.": "显示已发送和未能送达的通知。",
    "Show what your queues may use, and use.": "显示队列的上限和当前用量。",
    "Show who did what, newest first.": "显示操作记录，最新的在前。",
    "Show who did what.": "显示操作记录。",
    "Show who you are on the server, and where you belong.": "显示你在服务器上的身份和所属租户。",
    "Sign in to a server and keep the token.": "登录服务器并保存令牌。",
    "Sign in: prints an address and a code, and waits until you approve them in a browser.\n\n"
    "The token is kept in a file that only you can read. Without a browser: berth login --server URL < token-file": (
        "登录：显示地址和代码，等待你在浏览器中批准。\n\n"
        "令牌保存到只有你能读取的文件。没有浏览器时：berth login --server URL < token-file"
    ),
    "Split a queue of the tenant: jobs may wait in the new one, and it may have limits of its own.": (
        "拆分租户的队列：作业可以在新队列中排队，新队列可以有自己的上限。"
    ),
    "Stop jobs.": "停止作业。",
    "Stop jobs; each gets its signal, and is ended for good after the grace.": "停止作业：先发信号，宽限期后强制结束。",
    "Stop the job after this time, such as 2h.": "运行这段时间后停止作业，例如 2h。",
    "Submit a copy of a job under another name.": "以另一个名称提交作业的副本。",
    "Submit a copy of a job. Secrets are not copied: name the tenant's secrets again with --secret.": (
        "提交作业的副本。密钥不会复制：请用 --secret 重新指定。"
    ),
    "Submit a job from a file or a command, and follow it.": "从文件或命令提交作业，并跟随日志。",
    "Submit a job's spec again, with changes.": "修改后重新提交作业。",
    "Submit a job's spec again. With --set something is changed, and the difference is shown.": (
        "重新提交作业的规格。用 --set 修改，并显示差异。"
    ),
    "Submit a job: from a file with -f, or as a command with options before it.\n\n"
    "Shows the plan, asks on a terminal, uploads the code, and follows the log there; the exit code is then the job's: 0\n"
    "when it succeeded, 1 when not. Ctrl+C leaves the job running. Without a terminal it submits and returns.": (
        "提交作业：用 -f 指定文件，或直接写命令（选项写在命令之前）。\n\n"
        "先显示计划，在终端上询问确认，上传代码，然后跟随日志；退出码即作业结果：成功为 0，否则为 1。\n"
        "Ctrl+C 只是离开，作业继续。没有终端时提交后立即返回。"
    ),
    "Submit without asking.": "不询问，直接提交。",
    "Submitting twice with one key makes one job.": "同一个键提交两次只产生一个作业。",
    "Take a user out of the tenant; the jobs stay.": "将用户移出租户；作业保留。",
    "Tenant that it is part of.": "所属的上级租户。",
    "Submitted (with --sort finished: ended) before this time: 7d, or 2027-01-31.": (
        "在此时间之前提交（配合 --sort finished 时为结束）：7d，或 2027-01-31。"
    ),
    "Submitted (with --sort finished: ended) from this time on.": "自此时间起提交（配合 --sort finished 时为结束）。",
    "Tenant that may mount it.": "可以挂载的租户。",
    "Tenant to work in: name or slug.": "所用的租户：名称或标识。",
    "Tenants and people": "租户与人员",
    "The new name.": "新名称。",
    "The same as -o json.": "等同于 -o json。",
    "The same as submit.": "等同于 submit。",
    "The same commands under one noun.": "同样的命令，归在一个名词之下。",
    "This computer": "本机",
    "Time between the signal and the kill, such as 30s.": "发信号到强制结束之间的时间，例如 30s。",
    "Token; better a dash, which asks for it without showing it.": "令牌；最好写 -，随后输入时不显示。",
    "Up to this time.": "截至此时。",
    "User name of the new account; asked for when left out.": "新账户的用户名；省略时会询问。",
    "Variable; may be repeated.": "环境变量；可重复。",
    "Wait until a job has ended.": "等待作业结束。",
    "Wait until jobs have ended. The exit code is 0 when all succeeded, 1 when not, 124 when the time was over.": (
        "等待作业结束。全部成功退出码为 0，否则为 1，超时为 124。"
    ),
    "What it is for.": "用途。",
    "What it may do; all that you may when left out.": "允许的操作；省略则与你相同。",
    "What to run, when there is no file.": "没有文件时要运行的命令。",
    "When a job becomes so: succeeded, failed, stopped.": "作业变为此状态时：succeeded、failed、stopped。",
    "Why: told to all who see the job.": "原因：能看到该作业的人都会看到。",
    "Why; shown to everybody who waits for the machine.": "原因；所有等待该节点的人都能看到。",
    "Work with jobs.": "管理作业。",
    "bash, zsh or fish.": "bash、zsh 或 fish。",
    "viewer, member or manager.": "viewer、member 或 manager。",
}
