"""The command line's words about terminals in tasks, in Chinese."""

from __future__ import annotations

EXEC = {
    "Open a terminal in a running task, or run a command there.": "在运行中的任务里打开终端或执行命令。",
    (
        "Open a terminal in a running task, or run one command there: berth exec JOB -- nvidia-smi\n\n"
        "It has the task's user, sandbox, environment and limits, and ends with the task. At a terminal it is interactive;\n"
        "in a pipe, bytes pass unchanged. The exit code is the command's."
    ): (
        "在运行中的任务里打开终端，或执行一条命令：berth exec JOB -- nvidia-smi\n\n"
        "使用任务的用户、沙箱、环境与限额，并随任务结束。在终端中为交互式；\n"
        "在管道中按原样传递输入与输出。退出码即命令的退出码。"
    ),
    "Command to run; default: a shell.": "要运行的命令；留空则打开 shell。",
    "Role of the task; default: the first.": "任务的角色；默认第一个。",
    "Index of the task; default: the first.": "任务的序号；默认第一个。",
    "Pass bytes unchanged, even at a terminal.": "即使在终端中也按原样传递字节。",
    "The terminal ended: it was idle for too long.": "终端已结束：闲置时间过长。",
    "The terminal ended: your token is no longer valid.": "终端已结束：令牌已失效。",
    "The terminal ended: terminals were switched off.": "终端已结束：终端功能已关闭。",
    "The terminal ended: your role no longer allows it.": "终端已结束：您的角色不再允许。",
    "The terminal ended: its output was not read.": "终端已结束：输出未被读取。",
    "Run it again.": "请重新运行。",
    "Sign in again: berth login": "请重新登录：berth login",
    "Write the output to a file or a volume.": "请让命令写入文件或存储卷。",
}
