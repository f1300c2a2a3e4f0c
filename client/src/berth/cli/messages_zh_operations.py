"""The command line's words about holds, announcements, maintenance windows and features, in Chinese."""

from __future__ import annotations

OPERATIONS = {
    "BOOKINGS": "预订",
    "Delete a disabled tenant without live jobs, as an operator. Roles, secrets, volumes and images go, the ledger stays.": (
        "（运维人员）删除已停用且没有未结束作业的租户。角色、密钥、存储卷和镜像将被删除；账目保留。"
    ),
    "The deletion needs the tenant's name.": "删除需要输入租户名称。",
    "Disable {tenant}? Nothing can be submitted or started there.": "停用 {tenant}？其中将不能提交或启动任何作业。",
    "IMAGES": "镜像",
    "JOBS KEPT": "保留的作业",
    "Disable a tenant and its child tenants, as an operator. Data can still be read; queued jobs stay queued.": (
        "（运维人员）停用租户及其下级租户。数据仍可读取；排队中的作业继续排队。"
    ),
    "Enable a disabled tenant, as an operator; its queued jobs start by themselves.": (
        "（运维人员）重新启用租户；等待中的作业会自动启动。"
    ),
    "MEMBERS": "成员",
    "Name or slug.": "名称或短名。",
    "PEOPLE": "人数",
    "RUNNING": "运行中",
    "SECRETS": "密钥",
    "Dry run: show what would be deleted.": "试运行：只显示会删除什么。",
    "Dry run: show the affected tenants and jobs.": "试运行：只显示受影响的租户和作业。",
    "Stop running jobs, too; otherwise they run to their end.": "停止运行中的作业；否则它们运行到结束。",
    "TENANTS": "租户数",
    "Name of the tenant; skips the confirmation.": "租户名称；给出后跳过确认。",
    "This cannot be undone. Type the tenant's name": "此操作无法撤销。请输入租户名称",
    "VOLUMES": "存储卷",
    "WAITING": "等待中",
    "Reason, shown to the tenant's members.": "原因；会告知其成员。",
    "{tenant} is deleted; ledger, statements and audit stay.": "{tenant} 已删除；账目、账单和审计保留。",
    "{tenant} is disabled; {count} running jobs were asked to stop.": "{tenant} 已停用；已要求 {count} 个运行中的作业停止。",
    "{tenant} is disabled; {count} running job was asked to stop.": "{tenant} 已停用；已要求 {count} 个运行中的作业停止。",
    "{tenant} is enabled.": "{tenant} 已启用。",
    "Pool, instead of nodes: all its nodes.": "改为该资源池的所有节点。",
    "Include dismissed, planned and past announcements that you may edit.": "也列出您可修改的、已关闭的、计划中的和过去的公告。",
    "Include past windows.": "也列出已结束的维护窗口。",
    "Publish an announcement to all users, or with --tenant to a tenant and its child tenants.": (
        "向所有用户发布公告；使用 --tenant 时面向该租户及其下级。"
    ),
    "Announced: {words}": "已发布公告：{words}",
    "Cancel a planned window, or end an active one now; its nodes accept jobs again.": (
        "取消计划中的维护窗口，或立即结束进行中的窗口；其节点恢复接收作业。"
    ),
    "DRAIN": "排空",
    "FEATURE": "功能",
    "Feature {name} is inherited.": "功能 {name} 沿用上级设置。",
    "Feature {name} is off.": "功能 {name} 已关闭。",
    "Feature {name} is on.": "功能 {name} 已开启。",
    "Id of the announcement.": "公告的 ID。",
    "Id of the window.": "维护窗口的 ID。",
    "Job {name} is held; it is {state}.": "作业 {name} 已挂起，当前状态为 {state}。",
    "Job {name} is released; it is {state}.": "作业 {name} 已释放，当前状态为 {state}。",
    "Job {name} is {state}; only a queued job can be released.": "作业 {name} 的状态为 {state}；只能释放排队中的作业。",
    "Hold queued jobs: they do not start until they are released. Running jobs continue.": (
        "挂起排队中的作业：释放之前不会启动。运行中的作业继续。"
    ),
    "Hold queued jobs.": "挂起排队中的作业。",
    "LEVEL": "级别",
    "Release held jobs: they start as soon as there is room.": "释放挂起的作业，有资源时即启动。",
    "Release held jobs.": "释放挂起的作业。",
    "Start the next attempt without its wait.": "不再等待，启动下一次尝试。",
    "Start the next attempt as soon as there is room, without the wait after the last one.": (
        "有空位时立即启动下一次尝试，不再等待上次之后的间隔。"
    ),
    "Maintenance of {count} node(s) from {start} to {end}.": "{count} 个节点的维护时间为 {start} 至 {end}。",
    "Give nodes, or a pool with --pool.": "请指定节点，或用 --pool 指定资源池。",
    "Names or ids of nodes.": "节点的名称或 ID。",
    "No features.": "没有可切换的功能。",
    "No maintenance windows.": "没有计划中的维护。",
    "No announcements.": "当前没有公告。",
    "One job's log: berth ps -a --parent {job}   ·   berth logs -f ID": (
        "查看单个作业的日志：berth ps -a --parent {job}   ·   berth logs -f ID"
    ),
    "Plan a maintenance window of nodes or of a pool: no job starts there.": "为节点或资源池计划维护窗口：期间不启动作业。",
    "Plan maintenance windows of nodes.": "计划节点的维护窗口。",
    "Remove a feature's setting, so that it inherits again.": "移除功能的设置，改为沿用上级设置。",
    "Requeue running jobs when the window begins.": "窗口开始时，将其上运行的作业重新排队。",
    "SETTING": "设置",
    "Show, publish and withdraw announcements.": "列出公告；发布和撤回公告。",
    "Show features; switch them on and off.": "列出功能；开启和关闭功能。",
    "Show maintenance windows, planned and active.": "列出计划中和进行中的维护窗口。",
    "Show maintenance windows; plan and cancel them.": "列出维护窗口；计划和取消维护。",
    "Show current announcements.": "列出当前有效的公告。",
    "Show which features are on; with --tenant for a tenant.": "列出已开启的功能；使用 --tenant 时针对该租户。",
    "Switch a feature off: its pages and operations disappear.": "关闭功能：其页面和操作不再可用。",
    "Switch a feature on, for the installation, or with --tenant for a tenant.": (
        "为整个系统开启功能，或用 --tenant 为单个租户开启。"
    ),
    "TEXT": "内容",
    "TITLE": "标题",
    "At most {days} days.": "最长为 {days} 天。",
    "Withdraw an announcement.": "撤回公告。",
    "The announcement is withdrawn.": "公告已撤回。",
    "The maintenance window is closed.": "维护窗口已关闭。",
    "Text in Chinese.": "公告的中文内容。",
    "Reason, shown to owners of affected jobs.": "原因，告知作业受影响的人。",
    "active": "进行中",
    "berth rerun {job} submits it again.": "berth rerun {job} 可重新提交。",
    "berth release {job}": "berth release {job}",
    "critical": "严重",
    "info": "信息",
    "info, warning or critical.": "info、warning 或 critical。",
    "over": "已结束",
    "planned": "计划中",
    "warning": "警告",
    "{given} is outside the years {first} to {last}.": "{given} 不在 {first} 年至 {last} 年之间。",
    "{given} is too long.": "{given} 的时长过长。",
}
