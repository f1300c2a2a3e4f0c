"""`berth compare` in Chinese."""

from __future__ import annotations

COMPARE = {
    " ": " ",
    "A": "A",
    "B": "B",
    "Requested": "申请的资源",
    "Both job files are the same.": "两个作业文件相同。",
    "Compare two runs: results, waits, attempts, cost, usage, and differences of their job files.": (
        "比较两次运行：如何结束、等待、尝试、费用、用量，以及作业文件的差异。"
    ),
    "Compare two runs: results, cost, usage and job files.": "比较两次运行：结束方式、费用、用量与作业文件。",
    "Each attempt": "各次尝试",
    "GPU-hours": "卡时",
    "Result": "结果",
    "Job files": "作业文件",
    "Starting": "启动用时",
    "The job to compare with.": "与之比较的作业。",
    "Usage, mean and highest value": "用量（平均值 / 最高值）",
    "Waited": "等待",
}
