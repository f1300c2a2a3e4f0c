"""The command line's words about accounts at container registries, in Chinese."""

from __future__ import annotations

REGISTRIES = {
    "Host of the registry, such as registry.example.org:5000.": "镜像仓库的主机，例如 registry.example.org:5000。",
    "List the tenant's accounts at registries; passwords cannot be read back.": "列出租户在镜像仓库的账户；密码无法读回。",
    "No accounts: berth registries add HOST -u NAME": "没有账户：berth registries add HOST -u NAME",
    "User name of the account.": "账户的用户名。",
    "Add an account, or replace the one at this registry. The password comes from standard input or a hidden prompt.": (
        "添加账户，或替换该镜像仓库的现有账户。密码来自标准输入或隐藏的提示。"
    ),
    "Password of {name}": "{name} 的密码",
    "The password is empty.": "密码为空。",
    "Use standard input: berth registries add HOST -u NAME < file": "请从标准输入传入：berth registries add HOST -u NAME < file",
    "The account at {host} is set in {tenant}.": "{tenant} 在 {host} 的账户已设置。",
    "berth registries check {host}": "berth registries check {host}",
    "Remove an account; jobs with private images of this registry can no longer start, and builds cannot push to it.": (
        "移除账户；之后使用该仓库私有镜像的作业无法启动，构建也无法向其推送。"
    ),
    "Remove the account at {host}?": "移除 {host} 的账户？",
    "The account at {host} is removed.": "{host} 的账户已移除。",
    "Also check that this image can be pulled.": "同时检查能否拉取此镜像。",
    "Ask a registry whether it takes the tenant's account; exits with 1 if not.": (
        "询问镜像仓库是否接受租户的账户；不接受时退出码为 1。"
    ),
    "{what} answers as it should. {digest}": "{what} 应答正常。{digest}",
    "Add, check and remove accounts at container registries.": "添加、检查和移除容器镜像仓库的账户。",
    "HOST": "主机",
    "USERNAME": "用户名",
}
