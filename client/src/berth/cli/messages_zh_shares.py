"""The command line's words about promised and delivered shares, and about forecasts, in Chinese."""

from __future__ import annotations

SHARES = {
    "AN HOUR": "每小时",
    "ASK": "申请",
    "Show the plan, when it would start and what it would cost; submit nothing.": "显示计划、预计启动时间与费用，不提交。",
    "IN ALL": "合计",
    "It is thought to run for {time}; a smaller one may take longer.": "预计运行 {time}；缩小后可能更久。",
    "Of the last {count} such times, {rate} were kept.": "最近 {count} 次预计中，{rate} 按时兑现。",
    "START": "启动",
    "TOTAL": "总量",
    "When it would start, and what it would cost": "预计启动时间与费用",
    "a quarter": "四分之一",
    "as asked": "按申请",
    "at once": "立即",
    "half": "一半",
    "Check a statement that was kept: its digest, its signature, and whether the key is one that you trust.": (
        "核对已保存的份额账单：摘要、签名，以及签名公钥是否可信。"
    ),
    "Check digest and signature here.": "在本机核对摘要与签名。",
    "DEFICIT": "欠额",
    "FAIR": "应得",
    "GOT": "实得",
    "GOT / FAIR SHARE": "实得 / 应得份额",
    "List the weeks that are closed.": "列出已结账的周。",
    "MISSING": "缺口",
    "No week is closed yet.": "尚无已结账的周。",
    "Nothing was promised, wanted or used in this time.": "这段时间内没有承诺、需求或使用。",
    "OWED": "应付",
    "PROMISED": "承诺",
    "PUBLIC KEY": "公钥",
    "Promised and delivered": "承诺与兑现",
    "Show a tenant's week: what it was promised and got, signed. A week that is over is closed, and never changes again.": (
        "显示租户某周的承诺与实得份额（已签名）。一周结束即结账，此后不再改变。"
    ),
    "Show promised and delivered shares, and signed weeks.": "查看承诺与实得份额，以及签名的周账单。",
    "Show the public keys with which this installation signs; keep them to check statements without it.": (
        "显示本系统签名所用的公钥；保存后可离线核对账单。"
    ),
    "Show what queues were promised and what they got, in hours of GPUs and cores; what is missing comes first.\n\n"
    "PROMISED is what a queue deserved by its limits; OWED the part of it that its jobs asked for; FAIR its part of what all\n"
    "got: what is owed first, the rest by weight. DEFICIT is what it got less than that.": (
        "按 GPU 卡时与核时显示各队列的承诺与实得，欠额最大的在前。\n\n"
        "“承诺”是配额应得的量；“应付”是其中作业真正申请的部分；“应得”是在所有队列实得总量中的公平部分：\n"
        "先满足应付，其余按权重分配。“欠额”是实得低于应得的量。"
    ),
    "Signature": "签名",
    "Such as 2026-W47; this week when left out.": "例如 2026-W47；省略时为本周。",
    "Trusted public key; may be repeated. Needs no server.": "可信公钥，可重复；无需连接服务器。",
    "Nothing was held idle in this time.": "这段时间内没有闲置占用。",
    "WORTH": "折合费用",
    "What was held and not worked with: while starting, and booked but not used.": "占用而未用：启动期间，及预订未用。",
    "booked but not used": "预订未用",
    "while it ended": "结束期间",
    "while it started": "启动期间",
    "WANTED": "需求",
    "WEEK": "周",
    "Week": "周",
    "What `berth shares week --json` wrote; - is standard input.": "`berth shares week --json` 的输出；- 表示标准输入。",
    "{path} is no statement.": "{path} 不是份额账单。",
    "✓ Digest and signature are right.": "✓ 摘要与签名均正确。",
    "✗ It was not signed by this installation.": "✗ 不是由本系统签名。",
    "✗ The signature is not that of the document.": "✗ 签名与文档不符。",
}
