"""The command line's words about files of other systems, in Chinese."""

from __future__ import annotations

CONVERT = {
    "Carried over": "已保留",
    "Changed": "有变化",
    "Lost": "未保留",
    "Convert an OpenPAI job or an sbatch script to a job file.": "把 OpenPAI 作业或 sbatch 脚本转换为作业文件。",
    "OpenPAI job (YAML) or sbatch script; - is standard input.": "OpenPAI 作业（YAML）或 sbatch 脚本；- 为标准输入。",
    "Print an OpenPAI job or an sbatch script as a job file for `berth submit -f`; submit nothing.\n\nThe parts "
    "that were carried over, changed and lost are listed on standard error. --json prints the job and the parts together.": (
        "把 OpenPAI 作业或 sbatch 脚本输出为 `berth submit -f` 可用的作业文件；不提交。\n\n"
        "保留、变化和未保留的内容输出到标准错误。--json 将作业与这些内容一并输出。"
    ),
    "Source format: openpai, sbatch, or auto.": "文件所属系统：openpai、sbatch 或 auto。",
    "berth convert FILE > job.yaml   ·   berth submit -f job.yaml": (
        "berth convert 文件 > job.yaml   ·   berth submit -f job.yaml"
    ),
    "line {line}": "第 {line} 行",
}
