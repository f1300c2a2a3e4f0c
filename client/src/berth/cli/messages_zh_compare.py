"""`berth compare` in Chinese."""

from __future__ import annotations

COMPARE = {
    " ": " ",
    "A": "A",
    "B": "B",
    "Asked for": "申请的资源",
    "Both job files are the same.": "两个作业文件相同。",
    "Compare two runs: how each ended, waits, attempts, cost, use, and where their job files differ.": (
        "比较两次运行：如何结束、等待、尝试、费用、用量，以及作业文件的差异。"
    ),
    "Compare two runs: how they ended, cost, use, and job files.": "比较两次运行：结束方式、费用、用量与作业文件。",
    "Each attempt": "各次尝试",
    "GPU-hours": "卡时",
    "How it ended": "如何结束",
    "Job files": "作业文件",
    "Starting": "启动用时",
    "The job to compare it with.": "与之比较的作业。",
    "Use, as mean and highest value": "用量（平均值 / 最高值）",
    "Waited": "等待",
}
