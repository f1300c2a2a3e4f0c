"""The command line's words about job templates, in Chinese."""

from __future__ import annotations

TEMPLATES = {
    "DEFAULT": "默认值",
    "Description": "说明",
    "List job templates, and run one with parameters.": "列出作业模板，并以参数运行。",
    "List templates that you may use.": "列出可用的模板。",
    "Name or id of the template.": "模板的名称或 ID。",
    "No templates.": "没有模板。",
    "Only templates with this tag.": "只列出带此标签的模板。",
    "Parameters": "参数",
    "Print the job of a template, for `berth submit -f -`; submit nothing.": (
        "输出模板生成的作业，可交给 `berth submit -f -`；不提交。"
    ),
    "RANGE": "范围",
    "Show a template and its parameters.": "显示模板及其参数。",
    "Submit the job of a template.": "提交模板生成的作业。",
    "Run a template once with its defaults; the gallery shows the result. For users who may edit the template.": (
        "以默认值运行模板一次，结果显示给所有使用者；需有权修改模板。"
    ),
    "TAGS": "标签",
    "TEST": "试运行",
    "TYPE": "类型",
    "Template {name} is being tested by job {job}.": "模板 {name} 正由作业 {job} 试运行。",
    "Test run": "试运行",
    "The resulting job cannot be submitted:": "由此生成的作业无法提交：",
    "Title": "标题",
    "USES": "使用次数",
    "Value of a parameter; may be repeated.": "参数的值，可重复。",
    "Search text for name, title or tags.": "名称、标题或标签中的词。",
    "being tested": "试运行中",
    "berth templates use {name} -p NAME=VALUE": "berth templates use {name} -p 名称=值",
    "berth wait {job}   ·   berth logs -f {job}": "berth wait {job}   ·   berth logs -f {job}",
    "never tested": "未试运行",
    "outdated": "已过时",
    "passed": "通过",
    "{entry} is not NAME=VALUE.": "{entry} 不是 NAME=VALUE 的形式。",
}
