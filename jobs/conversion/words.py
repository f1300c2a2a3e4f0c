"""The words of notes, by code, in English and Chinese: what happened, and what to do about it.

`@name@` stands for an amount of the note. It is replaced in these sentences, never in what a user wrote."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from kernel.words import Text

NO_ADVICE = Text("", "")
_PLACE = re.compile(r"@([a-z]+)@")


@dataclass(frozen=True, slots=True)
class Words:
    """One code's sentences; the advice is empty where nothing is to be done."""

    sentence: Text[str]
    advice: Text[str] = NO_ADVICE

    def text(self, values: Mapping[str, str], language: str) -> str:
        return _filled(self.sentence.in_language(language), values)

    def hint(self, values: Mapping[str, str], language: str) -> str:
        return _filled(self.advice.in_language(language), values)


def _filled(sentence: str, values: Mapping[str, str]) -> str:
    return _PLACE.sub(lambda match: values.get(match[1], ""), sentence)


WORDS: dict[str, Words] = {
    "carried": Words(Text("It is now @target@.", "现在是 @target@。")),
    # --- Both ---
    "name_changed": Words(
        Text("The name became @name@: names here begin with a letter or digit.", "名称改为 @name@：这里的名称以字母或数字开头。")
    ),
    "value_lowered": Words(
        Text("@value@ became @most@, the most that is allowed here.", "@value@ 改为 @most@，这里允许的最大值。")
    ),
    "unknown_variable": Words(
        Text("Nothing here sets @name@, which the command reads.", "命令读取的 @name@ 在这里没有人设置。"),
        Text("Set it under env:, or use one of Berth's variables.", "在 env: 下设置它，或改用 Berth 的变量。"),
    ),
    "unknown_key": Words(Text("@name@ is not known and was left out.", "不认识 @name@，已略去。")),
    # --- OpenPAI ---
    "role_renamed": Words(
        Text(
            "Role @before@ is called @after@: roles have lower-case letters, digits and dashes.",
            "角色 @before@ 改名为 @after@：角色名由小写字母、数字和短横线组成。",
        )
    ),
    "port_renamed": Words(
        Text(
            "Port @before@ is called @after@: ports have lower-case letters, digits and dashes.",
            "端口 @before@ 改名为 @after@：端口名由小写字母、数字和短横线组成。",
        )
    ),
    "several_ports": Words(
        Text(
            "@count@ ports of one name became @names@, each with a name of its own.",
            "同名的 @count@ 个端口改为 @names@，各有自己的名称。",
        )
    ),
    "commands_joined": Words(
        Text(
            "The commands became one script that ends at the first command that fails.",
            "各条命令合成一个脚本，遇到第一条失败的命令即结束。",
        )
    ),
    "deployment_joined": Words(
        Text(
            "The commands of deployment @name@ stand in the script, before and after the others.",
            "部署 @name@ 的命令写进了脚本，在其他命令之前和之后。",
        )
    ),
    "deployment_unused": Words(
        Text("Deployment @name@ is not the chosen one and was left out.", "部署 @name@ 未被选用，已略去。")
    ),
    "parameters_filled": Words(
        Text("The parameters were filled in; the job has their values.", "参数已代入，作业中是它们的值。"),
        Text("A template keeps them apart: docs/user-guide.md.", "模板可以保留参数：docs/user-guide.md。"),
    ),
    "unknown_expression": Words(
        Text("@expression@ names nothing in this file and became empty.", "@expression@ 在本文件中没有对应内容，已置空。"),
        Text("Write the value in its place.", "请在此处写上实际的值。"),
    ),
    "secret_named": Words(
        Text(
            "The value of secret @name@ was not carried over; the command reads the variable @variable@.",
            "机密 @name@ 的值没有带过来；命令读取变量 @variable@。",
        ),
        Text("Store it once: berth secrets set @variable@.", "请存入一次：berth secrets set @variable@。"),
    ),
    "secret_in_command": Words(
        Text(
            "The command sets @name@ in clear: all who see the job can read its value.",
            "命令中以明文设置了 @name@：能看到该任务的人都能读到它的值。",
        ),
        Text(
            "Delete that line, store the value once with berth secrets set @name@, and name it under secrets.",
            "请删除该行，用 berth secrets set @name@ 存入一次，并在 secrets 中写上它的名称。",
        ),
    ),
    "secrets_unused": Words(Text("The secrets are not used in a command and were left out.", "机密没有在命令中使用，已略去。")),
    "several_images": Words(
        Text(
            "Role @role@ has another image, @image@; a job has one image here.",
            "角色 @role@ 使用另一个镜像 @image@；这里一个作业只有一个镜像。",
        ),
        Text("Build one image that holds both, or submit two jobs.", "请构建一个包含两者的镜像，或提交两个作业。"),
    ),
    "image_credentials": Words(
        Text("The user and password of the registry were not carried over.", "镜像仓库的用户名和密码没有带过来。"),
        Text("Ask an operator to let the cluster pull from it.", "请管理员让集群能够从该仓库拉取。"),
    ),
    "data_fetched": Words(
        Text("Data @name@ is not fetched before the job starts.", "作业开始前不会下载数据 @name@。"),
        Text(
            "Put it on a volume and mount it: mounts: [{volume: NAME, path: /data}].",
            "请放到存储卷上并挂载：mounts: [{volume: NAME, path: /data}]。",
        ),
    ),
    "output_place": Words(
        Text("Output @name@ is not copied to @uri@.", "输出 @name@ 不会复制到 @uri@。"),
        Text("Write to a mounted volume, or name the folder under outputs:.", "请写到挂载的存储卷，或在 outputs: 中写上目录。"),
    ),
    "script_git": Words(
        Text(
            "Script @name@ is fetched with Git into the working directory, not into script_@name@.",
            "脚本 @name@ 用 Git 取到工作目录，而不是 script_@name@。",
        ),
        Text("Change paths that begin with script_@name@.", "请修改以 script_@name@ 开头的路径。"),
    ),
    "script_lost": Words(
        Text("Script @name@ is not fetched from @uri@.", "脚本 @name@ 不会从 @uri@ 取得。"),
        Text("Send the folder along, or name a Git repository under code:.", "请随作业上传目录，或在 code: 中写 Git 仓库。"),
    ),
    "role_prerequisite": Words(Text("The role's prerequisite @name@ was left out.", "角色的前置条件 @name@ 已略去。")),
    "task_retry": Words(
        Text(
            "A failed task is not repeated alone; the whole job is, up to @count@ times.",
            "失败的任务不会单独重试；整个作业最多重试 @count@ 次。",
        )
    ),
    "task_retry_lost": Words(
        Text(
            "A failed task is not repeated alone; jobRetryCount alone counts.", "失败的任务不会单独重试；只按 jobRetryCount 计。"
        )
    ),
    "retry_policy": Words(
        Text("Negative numbers have a meaning there that is not known here.", "负数在原系统中另有含义，这里没有。"),
        Text("Write retry: {limit: 3}.", "请写 retry: {limit: 3}。"),
    ),
    "virtual_cluster": Words(
        Text("Virtual cluster @name@ says nothing about the queues here.", "虚拟集群 @name@ 与这里的队列无关。"),
        Text("Choose a queue: queue: NAME.", "请选择队列：queue: NAME。"),
    ),
    "gpu_model": Words(
        Text("GPU type @name@ became the model of the GPUs that are asked for.", "GPU 类型 @name@ 成为所申请 GPU 的型号。"),
        Text("Compare it with the models of your pools.", "请与资源池中的型号核对。"),
    ),
    "hived_priority": Words(
        Text("Priority class @name@ became priority: @priority@.", "优先级 @name@ 改为 priority: @priority@。")
    ),
    "hived": Words(
        Text("@name@ of the HiveD scheduler has no meaning here.", "HiveD 调度器的 @name@ 在这里没有意义。"),
        Text("Say what machines are wanted under placement:.", "请在 placement: 中说明需要怎样的机器。"),
    ),
    "no_gang": Words(
        Text("All tasks start together here, always.", "这里所有任务总是一起开始。"),
        Text(
            "Write replicas: {min: 1, max: N} where fewer tasks are enough.",
            "如果较少任务也够用，请写 replicas: {min: 1, max: N}。",
        ),
    ),
    "ssh": Words(
        Text("There is no SSH into tasks.", "不能用 SSH 进入任务。"),
        Text("Open a terminal: berth exec JOB, or from the job's page.", "请打开终端：berth exec JOB，或在作业页面打开。"),
    ),
    "storage": Words(
        Text("Storage @name@ is not known here.", "这里不认识存储 @name@。"),
        Text(
            "Mount a volume: mounts: [{volume: NAME, path: /mnt/NAME}].",
            "请挂载存储卷：mounts: [{volume: NAME, path: /mnt/NAME}]。",
        ),
    ),
    "tensorboard": Words(
        Text("TensorBoard is not started beside the job.", "不会随作业启动 TensorBoard。"),
        Text("Write its logs to a volume and start it in a job of its own.", "请把日志写到存储卷，并用单独的作业启动它。"),
    ),
    "plugin": Words(Text("Plugin @name@ does not exist here.", "这里没有插件 @name@。")),
    "extra_option": Words(Text("Option @name@ of the container has no counterpart.", "容器选项 @name@ 没有对应。")),
    "described": Words(
        Text("@name@ is not kept with a job.", "作业不保存 @name@。"),
        Text("Use labels: or tags: for finding it.", "查找可用 labels: 或 tags:。"),
    ),
    # --- Slurm ---
    "partition": Words(
        Text("Partition @name@ says nothing about the pools here.", "分区 @name@ 与这里的资源池无关。"),
        Text("Leave it to the scheduler, or write pool: NAME.", "可由调度器决定，或写 pool: NAME。"),
    ),
    "account": Words(
        Text("Account @name@: a job counts for the tenant that it is submitted in.", "账户 @name@：作业计入提交时所选的租户。"),
        Text("Choose the tenant when submitting: --tenant NAME.", "提交时选择租户：--tenant NAME。"),
    ),
    "qos": Words(
        Text("Quality of service @name@ has no counterpart.", "服务质量 @name@ 没有对应。"),
        Text("Write priority: low, normal or high.", "请写 priority: low、normal 或 high。"),
    ),
    "machines": Words(
        Text("@option@ @name@: labels and names of machines differ here.", "@option@ @name@：这里机器的标签和名称不同。"),
        Text("Ask for what is needed: placement: {labels: {NAME: VALUE}}.", "请写明所需：placement: {labels: {NAME: VALUE}}。"),
    ),
    "exclusive": Words(
        Text("The machine is not kept free of other jobs.", "机器不会为此作业独占。"),
        Text(
            "Ask for all of its GPUs, or write resources: {cpu_exclusive: true}.",
            "请申请其全部 GPU，或写 resources: {cpu_exclusive: true}。",
        ),
    ),
    "mail": Words(
        Text("Mails are not ordered by a job.", "邮件通知不写在作业里。"),
        Text("Choose them once in your account, under notifications.", "请在账户的通知设置中选择一次。"),
    ),
    "output": Words(
        Text("Output is not written to @name@; it is kept with the job.", "输出不会写到 @name@，而是随作业保存。"),
        Text("Read it: berth logs JOB, or on the job's page.", "查看：berth logs JOB，或在作业页面。"),
    ),
    "input": Words(
        Text("The task reads nothing from @name@.", "任务不会从 @name@ 读入。"),
        Text("Write < FILE behind the command.", "请在命令后写 < FILE。"),
    ),
    "export": Words(
        Text("Variables of your shell do not come along: @name@.", "您终端中的变量不会带过来：@name@。"),
        Text("Name what is needed under env.", "请在 env 中写上需要的变量。"),
    ),
    "chdir": Words(
        Text("Directory @name@ does not exist here.", "这里没有目录 @name@。"),
        Text("Send the folder along as code:, or mount a volume.", "请用 code: 上传目录，或挂载存储卷。"),
    ),
    "requeue": Words(
        Text("After a failure of a machine a job is repeated anyway.", "机器故障后，作业本来就会重试。"),
        Text("For other failures write retry: {limit: 3}.", "其他失败请写 retry: {limit: 3}。"),
    ),
    "dependency": Words(
        Text("Dependency @name@ names jobs of Slurm.", "依赖 @name@ 指的是 Slurm 的作业。"),
        Text("Name jobs of Berth: @key@: [NAME].", "请写 Berth 的作业：@key@: [NAME]。"),
    ),
    "begin": Words(
        Text("The job does not wait until @name@.", "作业不会等到 @name@。"),
        Text("Write start_after: 2027-01-31T18:00:00Z.", "请写 start_after: 2027-01-31T18:00:00Z。"),
    ),
    "signal": Words(
        Text("Signal @name@ is not sent before the end.", "结束前不会发送信号 @name@。"),
        Text(
            "Write checkpoint: {path: ckpt, signal: USR1, before_deadline: 2m, grace: 60s}.",
            "请写 checkpoint: {path: ckpt, signal: USR1, before_deadline: 2m, grace: 60s}。",
        ),
    ),
    "whole_memory": Words(
        Text("All memory of a machine cannot be asked for.", "不能申请机器的全部内存。"),
        Text("Write resources: {memory: 64Gi}.", "请写 resources: {memory: 64Gi}。"),
    ),
    "no_time_limit": Words(Text("There is no time limit.", "没有时间限制。")),
    "gres": Words(Text("Resource @name@ is not counted here.", "这里不计资源 @name@。")),
    "gpus_uneven": Words(
        Text(
            "@count@ GPUs do not divide among @tasks@ tasks; each got @each@, @total@ in all.",
            "@count@ 个 GPU 不能平均分给 @tasks@ 个任务；每个得到 @each@ 个，共 @total@ 个。",
        )
    ),
    "node_range": Words(
        Text("@name@ machines became exactly @count@ tasks.", "@name@ 台机器改为正好 @count@ 个任务。"),
        Text("Write replicas: {min: M, max: N}.", "请写 replicas: {min: M, max: N}。"),
    ),
    "tasks_anywhere": Words(
        Text(
            "Tasks may share a machine; there they were spread over @count@.", "任务可能在同一台机器上；原来分布在 @count@ 台。"
        ),
        Text("Write placement: {together: spread} to keep them apart.", "如需分开，请写 placement: {together: spread}。"),
    ),
    "late_directive": Words(
        Text("It stands behind the first command, where Slurm does not read it either.", "它在第一条命令之后，Slurm 也不会读取。")
    ),
    "unsupported": Words(Text("@option@ has no counterpart here.", "@option@ 在这里没有对应。")),
    "shell_unread": Words(
        Text(
            "The shell text from here on could not be read: what it asks of Slurm is not judged, but it runs as it is.",
            "无法读懂从这里开始的 shell 文本：没有检查它对 Slurm 的要求，但会原样运行。",
        ),
        Text("Check it: bash -n FILE.", "请检查：bash -n FILE。"),
    ),
    "srun": Words(
        Text(
            "The script runs in the first task; srun starts processes in all tasks of the job. The image needs python3.",
            "脚本在第一个任务中运行；srun 在作业的各任务中启动进程。镜像需含 python3。",
        ),
        Text(
            "Programs of MPI are started with mpirun in place of srun: Slurm's PMI is not here.",
            "MPI 程序请用 mpirun 代替 srun 启动：这里没有 Slurm 的 PMI。",
        ),
    ),
    "srun_later": Words(
        Text(
            "Options of this srun are known only when the script runs: it ends with a sentence where one means nothing here.",
            "此处 srun 的选项在脚本运行时才能确定：若有选项在这里没有意义，它会说明并结束。",
        )
    ),
    "srun_idle": Words(Text("@names@ of srun has no counterpart and is passed over.", "srun 的 @names@ 没有对应，已忽略。")),
    "mpirun": Words(
        Text(
            "@name@ starts ranks in the tasks of the job; the image needs Open MPI and python3.",
            "@name@ 在作业的各任务中启动进程；镜像需含 Open MPI 和 python3。",
        )
    ),
    "idle_nodes": Words(
        Text(
            "The script runs in the first of @count@ tasks, and nothing in it starts anything in the others with srun or mpirun.",
            "脚本在 @count@ 个任务的第一个中运行，其中没有用 srun 或 mpirun 在其他任务中启动任何内容。",
        ),
        Text(
            "Ask for one node, or start what runs in all of them with srun.",
            "请只申请一个节点，或用 srun 启动要在各节点运行的内容。",
        ),
    ),
    "first_task": Words(
        Text(
            "The script runs in the first of @count@ tasks, as with Slurm.",
            "与 Slurm 相同，脚本在 @count@ 个任务的第一个中运行。",
        )
    ),
    "task_nodes": Words(
        Text(
            "Each of the @count@ tasks is a node of its own here, because the script says nothing of nodes.",
            "脚本没有说明节点数，因此 @count@ 个任务在这里各为一个节点。",
        ),
        Text("Write #SBATCH --nodes=1 to keep them on one machine.", "如需在一台机器上，请写 #SBATCH --nodes=1。"),
    ),
    "modules": Words(
        Text("Modules are not loaded: software comes with the image.", "不会加载模块：软件由镜像提供。"),
        Text("Choose an image that holds it: image: NAME.", "请选择包含所需软件的镜像：image: NAME。"),
    ),
    "slurm_program": Words(
        Text(
            "@name@ asks Slurm, which is not here: it prints nothing but a sentence to standard error.",
            "@name@ 查询 Slurm，而这里没有 Slurm：它只在标准错误中输出一句话。",
        ),
        Text("Use berth outside of the job, or leave it out.", "请在作业之外使用 berth，或删去。"),
    ),
    "array_steps": Words(
        Text(
            "Array @name@ became indexes 0 to @last@; SLURM_ARRAY_TASK_ID has Slurm's.",
            "数组 @name@ 改为 0 到 @last@ 的下标，SLURM_ARRAY_TASK_ID 仍为 Slurm 的下标。",
        )
    ),
    "no_ssh": Words(
        Text("@name@ cannot reach other tasks: there is no SSH between them.", "@name@ 无法连到其他任务：任务之间没有 SSH。"),
        Text(
            "Let each task do its own part by PAI_CURRENT_TASK_ROLE_CURRENT_TASK_INDEX, or write framework: mpi for mpirun.",
            "请让各任务按 PAI_CURRENT_TASK_ROLE_CURRENT_TASK_INDEX 完成自己的部分，或为 mpirun 写 framework: mpi。",
        ),
    ),
}
