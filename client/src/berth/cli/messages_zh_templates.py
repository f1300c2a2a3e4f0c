"""The command line's words about job templates, in Chinese."""

from __future__ import annotations

TEMPLATES = {
    "DEFAULT": "默认值",
    "Description": "说明",
    "List job templates, and run one with parameters.": "列出作业模板，并以参数运行。",
    "List templates that you may use.": "列出可用的模板。",
    "Name or id of the template.": "模板的名称或 id。",
    "No templates.": "没有模板。",
    "Only those with this tag.": "仅显示带此标签的模板。",
    "Parameters": "参数",
    "Print the job that a template makes, for `berth submit -f -`; submit nothing.": (
        "输出模板生成的作业，可交给 `berth submit -f -`；不提交。"
    ),
    "RANGE": "范围",
    "Show a template and the parameters that it takes.": "显示模板及其参数。",
    "Submit the job that a template makes.": "提交模板生成的作业。",
    "Run a template's defaults once; the gallery shows its users how that ended. For whoever may change the template.": (
        "以默认值运行模板一次，结果显示给所有使用者；需有权修改模板。"
    ),
    "TAGS": "标签",
    "TEST": "试运行",
    "TITLE": "标题",
    "TYPE": "类型",
    "Template {name} is being tested by job {job}.": "模板 {name} 正由作业 {job} 试运行。",
    "Test run": "试运行",
    "The job that this makes cannot be submitted:": "由此生成的作业无法提交：",
    "Title": "标题",
    "USES": "使用次数",
    "Value of a parameter; may be repeated.": "参数的值，可重复。",
    "Words of the name, title or tags.": "名称、标题或标签中的词。",
    "being tested": "试运行中",
    "berth templates use {name} -p NAME=VALUE": "berth templates use {name} -p 名称=值",
    "berth wait {job}   ·   berth logs -f {job}": "berth wait {job}   ·   berth logs -f {job}",
    "never tested": "未试运行",
    "outdated": "已过时",
    "passed": "通过",
    "{entry} is not NAME=VALUE.": "{entry} 不是 NAME=VALUE 的形式。",
}
