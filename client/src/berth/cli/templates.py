"""`berth templates`: jobs to fill in."""

from __future__ import annotations

import json
import sys
from typing import Annotated, Any

import typer

from berth.cli import formats
from berth.cli.command import Session, UsageMistake, YesOption, command, confirmed_submission, make_group
from berth.cli.messages import _, language
from berth.cli.output import Column, heading, hint, print_data, print_facts, table_text
from berth.cli.paint import paint
from berth.errors import SpecInvalid
from berth.sanitize import plain, plain_block

TemplateArgument = Annotated[str, typer.Argument(metavar="TEMPLATE", help="Name or id of the template.")]
ParameterOption = Annotated[
    list[str] | None, typer.Option("--param", "-p", metavar="NAME=VALUE", help="Value of a parameter; may be repeated.")
]
NameOption = Annotated[str | None, typer.Option("--name", help="Name of the job.")]
QueueOption = Annotated[str | None, typer.Option("--queue", "-q", help="Queue of the job.")]


@command()
def list_templates(
    session: Session,
    words: Annotated[
        str | None, typer.Option("--search", "-s", metavar="WORDS", help="Search text for name, title or tags.")
    ] = None,
    tag: Annotated[str | None, typer.Option("--tag", help="Only templates with this tag.")] = None,
) -> None:
    """List templates that you may use."""
    session.show(session.client.templates.list(q=words, tag=tag), COLUMNS, empty=_("No templates."), key="name")


@command()
def show(session: Session, template: TemplateArgument) -> None:
    """Show a template and its parameters."""
    found = session.client.templates.get(template)
    if session.is_for_programs:
        print_data(found, session.form, key="name")
        return
    print_facts(
        [
            ("Name", (plain(found["name"]), "bold")),
            ("Id", found["id"]),
            ("Title", plain(_words(found, "title"))),
            ("Tenant", formats.name_of(found.get("tenant"))),
            ("Test run", _test_fact(found)),
            ("Description", plain_block(_words(found, "description")).strip()),
        ]
    )
    heading(_("Parameters"))
    print(table_text(found["parameters"], PARAMETERS), end="")
    hint(_("berth templates use {name} -p NAME=VALUE", name=plain(found["name"])))


@command()
def render(
    session: Session,
    template: TemplateArgument,
    param: ParameterOption = None,
    name: NameOption = None,
    queue: QueueOption = None,
) -> None:
    """Print the job of a template, for `berth submit -f -`; submit nothing."""
    made = _made(session, template, param, name, queue, preview=True)
    print(json.dumps(made, indent=2, ensure_ascii=False))


@command()
def use(
    session: Session,
    template: TemplateArgument,
    param: ParameterOption = None,
    name: NameOption = None,
    queue: QueueOption = None,
    yes: YesOption = False,
) -> None:
    """Submit the job of a template."""
    if not confirmed_submission(session, yes=yes):
        return
    made = _made(session, template, param, name, queue, preview=False)
    job = session.client.jobs.submit(made, tenant=session.choices.tenant)
    session.show_done(
        job.data, _("Job {name} submitted: {id}", name=plain(job.name), id=paint(job.id, "bold", stream=sys.stderr))
    )
    if not session.is_for_programs:
        hint(_("berth logs -f {job}   ·   berth get {job}", job=job.id))


@command()
def try_once(session: Session, template: TemplateArgument, queue: QueueOption = None) -> None:
    """Run a template once with its defaults; the gallery shows the result. For users who may edit the template."""
    made = session.client.templates.test(template, tenant=session.choices.tenant, queue=queue)
    job = made["test"]["job"]["id"]
    session.show_done(made, _("Template {name} is being tested by job {job}.", name=plain(made["name"]), job=job))
    if not session.is_for_programs:
        hint(_("berth wait {job}   ·   berth logs -f {job}", job=job))


def _test_text(row: dict[str, Any]) -> str:
    """The last test run in a word; a server that knows of none says nothing."""
    result = str((row.get("test") or {}).get("result", ""))
    return _(TEST_WORDS[result]) if result in TEST_WORDS else plain(result)


def _made(
    session: Session, template: str, param: list[str] | None, name: str | None, queue: str | None, *, preview: bool
) -> dict[str, Any]:
    found = session.client.templates.get(template)
    kinds = {str(parameter["name"]): str(parameter["type"]) for parameter in found["parameters"]}
    values = {}
    for entry in param or []:
        key, equals, text = entry.partition("=")
        if not equals or not key:
            raise UsageMistake(_("{entry} is not NAME=VALUE.", entry=plain(entry)))
        values[key] = _value(text, kinds.get(key, ""))
    answer = session.client.templates.render(found["id"], values, name=name, queue=queue, preview=preview)
    problems = [f"{plain(problem['path'])}: {plain(problem['message'])}" for problem in answer["problems"]]
    if problems:
        raise SpecInvalid("\n".join([_("The resulting job cannot be submitted:"), *problems]))
    return dict(answer["spec"])


def _value(text: str, kind: str) -> Any:
    """A word of the command line as the parameter's type has it; the server refuses what is none."""
    if kind == "string":
        return text
    try:
        return json.loads(text)
    except ValueError:
        return text


def _words(template: dict[str, Any], key: str) -> str:
    return str((template.get(f"{key}_zh") if language() == "zh" else "") or template.get(key) or "")


def _test_fact(row: dict[str, Any]) -> str:
    run = row.get("test") or {}
    job = (run.get("job") or {}).get("id", "")
    return "  ".join(part for part in (_test_text(row), formats.time_text(run["at"]) if run.get("at") else "", job) if part)


def _range(parameter: dict[str, Any]) -> str:
    if parameter["choices"]:
        return ", ".join(str(choice) for choice in parameter["choices"])
    low, high = parameter.get("minimum"), parameter.get("maximum")
    return "" if low is None and high is None else f"{'' if low is None else f'{low:g}'} - {'' if high is None else f'{high:g}'}"


TEST_WORDS = {"never": "never tested", "running": "being tested", "passed": "passed", "failed": "failed", "outdated": "outdated"}
COLUMNS = [
    Column("NAME", lambda row: plain(row["name"]), shrinks=True),
    Column("TITLE", lambda row: plain(_words(row, "title")), shrinks=True),
    Column("TENANT", lambda row: formats.name_of(row.get("tenant"))),
    Column("TAGS", lambda row: plain(", ".join(row["tags"])), shrinks=True),
    Column("TEST", _test_text),
    Column("USES", lambda row: str(row["uses"]), right=True),
    Column("ID", lambda row: row["id"], wide=True),
]
PARAMETERS = [
    Column("NAME", lambda parameter: plain(parameter["name"])),
    Column("TYPE", lambda parameter: parameter["type"]),
    Column(
        "DEFAULT",
        lambda parameter: plain(formats.NOTHING if parameter["default"] is None else str(parameter["default"])),
        shrinks=True,
    ),
    Column("RANGE", lambda parameter: plain(_range(parameter)), shrinks=True),
    Column("TITLE", lambda parameter: plain(_words(parameter, "title")), shrinks=True),
]
templates = make_group(
    "templates",
    list_templates,
    "List job templates, and run one with parameters.",
    {"list": list_templates, "show": show, "render": render, "use": use, "test": try_once},
)
