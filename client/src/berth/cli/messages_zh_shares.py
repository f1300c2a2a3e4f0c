"""The command line's words about deserved and delivered shares, and about forecasts, in Chinese."""

from __future__ import annotations

SHARES = {
    "PER HOUR": "每小时",
    "Dry run: show the plan, its predicted start and its cost; submit nothing.": "显示计划、预计启动时间与费用，不提交。",
    "TOTAL COST": "总费用",
    "Predicted run time: {time}; a smaller job may run longer.": "预计运行 {time}；缩小后可能更久。",
    "{rate} of the last {count} predictions were kept.": "最近 {count} 次预计中，{rate} 按时兑现。",
    "START": "启动",
    "TOTAL": "总量",
    "Predicted start and cost": "预计启动时间与费用",
    "a quarter": "四分之一",
    "as requested": "按申请",
    "at once": "立即",
    "half": "一半",
    "Verify a saved statement: its digest, its signature, and whether its key is trusted.": (
        "核对已保存的份额账单：摘要、签名，以及签名公钥是否可信。"
    ),
    "Verify digest and signature on this computer.": "在本机核对摘要与签名。",
    "DEFICIT": "欠额",
    "FAIR": "公平份额",
    "DELIVERED": "实得",
    "DELIVERED %": "实得 %",
    "FAIR %": "公平 %",
    "List closed weeks.": "列出已结账的周。",
    "SHORTFALL": "缺口",
    "No week is closed yet.": "尚无已结账的周。",
    "No capacity was deserved, requested or used in this time.": "这段时间内没有应得、申请或使用的资源。",
    "DUE": "应付",
    "PUBLIC KEY": "公钥",
    "Deserved and delivered": "应得与实得",
    "Show a tenant's signed week of deserved and delivered shares. A past week is closed and never changes.": (
        "显示租户某周的应得与实得份额（已签名）。一周结束即结账，此后不再改变。"
    ),
    "Show deserved and delivered shares, and signed weeks.": "查看应得与实得份额，以及签名的周账单。",
    "Show the public keys of the installation; save them to verify statements offline.": (
        "显示本系统签名所用的公钥；保存后可离线核对账单。"
    ),
    "Show deserved and delivered GPU hours and core hours of queues, largest deficit first.\n\n"
    "DESERVED is the amount by the limits of a queue, DUE the part of it that its jobs requested, SHORTFALL the part of "
    "DUE that\n"
    "was not delivered. FAIR is the fair part of all that was delivered: due amounts first, the rest by weight. DEFICIT "
    "is FAIR\n"
    "less DELIVERED. DELIVERED % and FAIR % are parts of all that the queue and its siblings got.": (
        "按 GPU 卡时与核时显示各队列的应得与实得，欠额最大的在前。\n\n"
        "“应得”是按配额应得的量；“应付”是其中作业真正申请的部分；“缺口”是应付而未得的部分。\n"
        "“公平份额”是在所有队列实得总量中应占的部分：先满足应付，其余按权重分配。“欠额”为公平份额减实得。\n"
        "“实得 %”与“公平 %”为占该队列及其同级队列实得总量的百分比。"
    ),
    "Signature": "签名",
    "The signature was not checked: that needs the Python package cryptography, which is not installed beside berth.": (
        "未核对签名：核对需要 Python 包 cryptography，而 berth 所在环境没有安装它。"
    ),
    "Install it into the environment of berth: pip install cryptography": "请安装到 berth 所在的环境：pip install cryptography",
    "Such as 2026-W47; default: this week.": "例如 2026-W47；省略时为本周。",
    "Trusted public key; may be repeated. Needs no server.": "可信公钥，可重复；无需连接服务器。",
    "No idle capacity was held in this time.": "这段时间内没有闲置占用。",
    "WORTH": "折合费用",
    "Show held but idle capacity: during starts, and booked but not used.": "占用而未用：启动期间，及预订未用。",
    "booked but not used": "预订未用",
    "while it ended": "结束期间",
    "while it started": "启动期间",
    "REQUESTED": "申请",
    "WEEK": "周",
    "Week": "周",
    "Output of `berth shares week --json`; - is standard input.": "`berth shares week --json` 的输出；- 表示标准输入。",
    "{path} is not a statement.": "{path} 不是份额账单。",
    "✓ Digest and signature are valid.": "✓ 摘要与签名均有效。",
    "✗ The statement was not signed by this installation.": "✗ 不是由本系统签名。",
    "✗ The signature does not match the document.": "✗ 签名与文档不符。",
}
