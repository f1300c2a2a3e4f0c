"""The command line's words about notifications, in Chinese."""

from __future__ import annotations

NOTIFY = {
    "Field of the channel; NAME alone prompts for it, which secret fields require.": (
        "渠道的字段；只写 NAME 则提示输入，密钥字段总是如此。"
    ),
    "The test message is queued.": "测试消息已进入发送队列。",
    "Another channel, such as slack; list: berth notify channels.": "其他渠道，例如 slack；列表：berth notify channels。",
    "CHANNEL": "渠道",
    "Edit a subscription: its events and fields, or pause it. Fields that are not named stay; NAME= removes one.": (
        "修改订阅的事件与字段，或暂停。未指明的字段保持不变；NAME= 删除该字段。"
    ),
    "See the result: berth notify log": "查看结果：berth notify log",
    "FIELDS": "字段",
    "List notification channels and their fields.": "列出可用的通知渠道及其字段。",
    "Give secret fields on standard input, a line each, and the others as --set NAME=VALUE.": (
        "密钥字段请从标准输入逐行传入；其余用 --set NAME=VALUE。"
    ),
    "Give the channel: --mail, --webhook URL, or --by CHANNEL.": "请说明方式：--mail、--webhook URL 或 --by CHANNEL。",
    "Give at least one change: --set, --on, --pause or --resume.": "请说明修改什么：--set、--on、--pause 或 --resume。",
    "Send a test message by a subscription.": "通过一条订阅发送测试消息。",
    "Pause or resume the subscription.": "暂停发送，或恢复。",
    "The operator offers no channel.": "运维人员未提供任何渠道。",
    "The subscription is changed.": "订阅已修改。",
    "There is no channel {kind!r}. There are: {kinds}.": "没有渠道 {kind!r}。可用：{kinds}。",
    "Try it: berth notify test {id}": "试一试：berth notify test {id}",
    "Write --set {name}, and give the value at the prompt or on standard "
    "input.": "请写 --set {name}，再在提示处或从标准输入给出值。",
    "You have no subscription {id}.": "您没有订阅 {id}。",
    "not sent": "未送达",
    "optional": "可选",
    "paused": "已暂停",
    "secret": "密钥",
    "{channel} has no field {name!r}. It has: {names}.": "{channel} 没有字段 {name!r}。它有：{names}。",
    "{name} is secret: others could read it from the command line.": "{name} 是密钥：他人可从命令行读到。",
    "--set goes with --by CHANNEL.": "--set 须与 --by CHANNEL 一起使用。",
}
