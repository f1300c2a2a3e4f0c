"""Why a step of `srun` is refused, and what to do, by the reasons of `jobs/frameworks/srun_options.py`."""

from __future__ import annotations

from jobs.frameworks import srun_options as reasons
from kernel.words import Text

_LEFT_OUT = Text("Leave the option out.", "请去掉该选项。")
REFUSALS: dict[str, tuple[Text[str], Text[str]]] = {
    reasons.TERMINAL: (
        Text("there is no terminal in a job.", "作业中没有终端。"),
        Text("Open one into the running job: berth exec JOB.", "请在作业运行时打开：berth exec JOB。"),
    ),
    reasons.PROGRAMS: (
        Text("a step runs one program.", "一个作业步只运行一个程序。"),
        Text("Start a step for each program with &, and wait.", "请用 & 为每个程序启动一个作业步，再用 wait 等待。"),
    ),
    reasons.PARTS: (
        Text("there are no parts of heterogeneous jobs.", "没有异构作业的各部分。"),
        Text(
            "Write each part as a role with a command of its own: roles: {first: {...}, second: {...}}.",
            "请把每一部分写成一个有自己命令的角色：roles: {first: {...}, second: {...}}。",
        ),
    ),
    reasons.CONTAINER: (
        Text("a step runs in the image of its job.", "作业步在其作业的镜像中运行。"),
        Text(
            "Name it for the job: #SBATCH --container-image=NAME, or image: NAME.",
            "请为作业指定：#SBATCH --container-image=NAME，或 image: NAME。",
        ),
    ),
    reasons.COPY: (
        Text("programs are not copied to the tasks.", "不会把程序复制到各任务。"),
        Text("Send them along as code:, or mount a volume.", "请用 code: 随作业上传，或挂载存储卷。"),
    ),
    reasons.HOOK: (
        Text("nothing runs before or after a step.", "作业步之前和之后不会运行其他程序。"),
        Text("Write these commands into the script.", "请把这些命令写进脚本。"),
    ),
    reasons.IDENTITY: (
        Text("a job runs as its submitter.", "作业以提交者的身份运行。"),
        _LEFT_OUT,
    ),
    reasons.PMI: (
        Text(
            "ranks of MPI find each other through Slurm there, which is not here.",
            "MPI 进程在原系统中通过 Slurm 相互发现，而这里没有 Slurm。",
        ),
        Text("Write mpirun in place of srun; the image needs Open MPI.", "请用 mpirun 代替 srun；镜像需含 Open MPI。"),
    ),
    reasons.LAYOUT: (
        Text("this layout of tasks is not supported.", "不支持这种任务布局。"),
        Text(
            "Write --nodes, --ntasks, --ntasks-per-node and --gpus-per-task.",
            "请写 --nodes、--ntasks、--ntasks-per-node 和 --gpus-per-task。",
        ),
    ),
    reasons.OTHER_JOB: (
        Text("a step runs in its own job only.", "作业步只能在自己的作业中运行。"),
        _LEFT_OUT,
    ),
    reasons.DISPLAY: (Text("there is no display in a job.", "作业中没有图形显示。"), _LEFT_OUT),
    reasons.SIGNAL: (
        Text("no signal is sent before the end of a step.", "作业步结束前不会发送信号。"),
        Text(
            "Write checkpoint: {path: ckpt, signal: USR1, grace: 60s}.",
            "请写 checkpoint: {path: ckpt, signal: USR1, grace: 60s}。",
        ),
    ),
    reasons.TEST: (Text("it runs nothing.", "它不运行任何内容。"), Text("Take the line out.", "请去掉该行。")),
    reasons.UNKNOWN_OPTION: (
        Text("no such option is known.", "没有这样的选项。"),
        Text("Compare it with the manual of srun.", "请与 srun 的手册核对。"),
    ),
    "value": (
        Text("this value is none that the option takes.", "选项不接受这个值。"),
        Text("Compare it with the manual of srun.", "请与 srun 的手册核对。"),
    ),
}
