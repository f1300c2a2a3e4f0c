"""`berth submit`: check, show the plan, upload, submit, follow."""

from __future__ import annotations

import math
import shlex
import sys
import uuid
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from berth.cli import formats
from berth.cli.command import Session, UsageMistake, YesOption, command, confirmed_submission
from berth.cli.messages import _
from berth.cli.output import Format, hint, note, print_data
from berth.cli.paint import is_terminal, paint
from berth.cli.plan import print_plan
from berth.cli.transfer import Progressing
from berth.errors import SpecInvalid
from berth.jobs import Job, code_path, with_snapshot
from berth.sanitize import plain
from berth.specs import SpecSource, apply_changes, load_spec, parse_spec

if TYPE_CHECKING:
    from berth.snapshots import Snapshot

NAME_LENGTH = 60
SCRIPTS_TOLD = 5


WordsArgument = Annotated[list[str] | None, typer.Argument(metavar="[COMMAND]...", help="Command to run, without a job file.")]
FileOption = Annotated[
    str | None, typer.Option("--file", "-f", metavar="FILE", help="Job file (YAML or JSON); - is standard input.")
]
NameOption = Annotated[str | None, typer.Option("--name", help="Name of the job.")]
ImageOption = Annotated[str | None, typer.Option("--image", "-i", help="Image to run in.")]
GpuOption = Annotated[
    str | None, typer.Option("--gpu", "--gpus", "-g", metavar="N", help="GPUs of each task: 1, 0.5, or a100:2.")
]
CpuOption = Annotated[str | None, typer.Option("--cpu", "-c", metavar="N", help="CPU cores of each task.")]
MemoryOption = Annotated[str | None, typer.Option("--memory", "-m", metavar="SIZE", help="Memory of each task, such as 16Gi.")]
ReplicasOption = Annotated[int | None, typer.Option("--replicas", "-r", "-n", metavar="N", min=1, help="Number of tasks.")]
FrameworkOption = Annotated[
    str | None,
    typer.Option("--framework", metavar="NAME", help="Framework by which the tasks find each other, such as pytorch."),
]
EnvOption = Annotated[
    list[str] | None, typer.Option("--env", "-e", metavar="NAME=VALUE", help="Environment variable; may be repeated.")
]
QueueOption = Annotated[str | None, typer.Option("--queue", "-q", help="Queue of the job.")]
PoolOption = Annotated[str | None, typer.Option("--pool", help="Pool to run in.")]
MaxRuntimeOption = Annotated[str | None, typer.Option("--max-runtime", metavar="TIME", help="Run time limit, such as 2h.")]
CodeOption = Annotated[str | None, typer.Option("--code", metavar="FOLDER", help="Folder to upload and run in.")]
KeepOption = Annotated[list[str] | None, typer.Option("--keep", metavar="PATH", help="File or folder to keep as artifact.")]
SetOption = Annotated[
    list[str] | None, typer.Option("--set", metavar="PATH=VALUE", help="Change the spec: roles.worker.replicas=4.")
]
PriorityOption = Annotated[
    str | None, typer.Option("--priority", metavar="CLASS", help="low, normal, high, urgent, or a number up to 1000.")
]
PriorityReasonOption = Annotated[
    str | None,
    typer.Option(
        "--priority-reason",
        metavar="TEXT",
        help="Request a priority above your limit; the job keeps its present priority until approval.",
    ),
]
DetachOption = Annotated[bool, typer.Option("--detach", "-d", help="Do not follow the log.")]
FollowOption = Annotated[bool, typer.Option("--follow", help="Follow the log also when there is no terminal.")]
DryRunOption = Annotated[
    bool, typer.Option("--dry-run", help="Dry run: show the plan, its predicted start and its cost; submit nothing.")
]
KeyOption = Annotated[
    str | None,
    typer.Option("--idempotency-key", metavar="KEY", help="Idempotency key: submissions with the same key create one job."),
]


@command()
def submit(
    session: Session,
    words: WordsArgument = None,
    file: FileOption = None,
    name: NameOption = None,
    image: ImageOption = None,
    gpu: GpuOption = None,
    cpu: CpuOption = None,
    memory: MemoryOption = None,
    replicas: ReplicasOption = None,
    framework: FrameworkOption = None,
    env: EnvOption = None,
    queue: QueueOption = None,
    pool: PoolOption = None,
    max_runtime: MaxRuntimeOption = None,
    code: CodeOption = None,
    output: KeepOption = None,
    changes: SetOption = None,
    priority: PriorityOption = None,
    priority_reason: PriorityReasonOption = None,
    yes: YesOption = False,
    detach: DetachOption = False,
    follow_: FollowOption = False,
    dry_run: DryRunOption = False,
    key: KeyOption = None,
) -> None:
    """Submit a job: from a file with -f, or as a command with options before it.

    On a terminal: shows the plan, asks for confirmation, uploads the code and follows the log; the exit code is 0 if the job
    succeeded, 1 if not. Ctrl+C leaves the job running. Without a terminal: submits and returns.
    """
    values = {
        "name": name,
        "image": image,
        "queue": queue,
        "pool": pool,
        "framework": framework,
        "max_runtime": max_runtime,
        "priority": _number(priority),
        "replicas": replicas,
        "outputs": output or None,
        "code": {"path": code} if code else None,
    }
    resources = {"gpu": _number(gpu), "cpu": _number(cpu), "memory": memory}
    source = read_source(file, words or [], _given(values), _given(resources), env or [])
    source = replace(source, spec=apply_changes(source.spec, changes or []))
    if code:
        source = replace(source, folder=Path.cwd())
    job = _submitted(
        session, source, key or uuid.uuid4().hex, priority_reason, yes=yes, dry_run=dry_run, is_input_taken=file == "-"
    )
    if job is not None:
        _finish(session, job, detach=detach, follow_=follow_)


def _submitted(
    session: Session,
    source: SpecSource,
    key: str,
    priority_reason: str | None,
    *,
    yes: bool,
    dry_run: bool,
    is_input_taken: bool,
) -> Job | None:
    """The job, once its plan was shown and confirmed; None where nothing was submitted. `is_input_taken`: the job file came from
    standard input, which has no answer to a question then."""
    tenant = session.choices.tenant
    plan = session.client.jobs.plan(source, tenant=tenant, priority_reason=priority_reason, forecast=dry_run)
    snapshot = _packed(source)
    try:
        if dry_run:
            _show_dry_run(session, plan, snapshot)
            return None
        if session.form in (Format.TABLE, Format.WIDE):
            print_plan(plan, snapshot, stream=sys.stderr)
        if not is_input_taken and not confirmed_submission(session, yes=yes):
            return None
        return _send(session, source, snapshot, key, priority_reason)
    finally:
        if snapshot:
            snapshot.close()


submit.context_settings = {"allow_interspersed_args": False}  # type: ignore[attr-defined]


def read_source(
    file: str | None, words: list[str], values: dict[str, Any], resources: dict[str, Any], env: list[str]
) -> SpecSource:
    """The spec from a file or from a command, with what the options say laid over it."""
    if file and words:
        raise UsageMistake(_("Give a file or a command, not both."), hint=_("A command in a file is its `command:`."))
    if file == "-":
        source = parse_spec(sys.stdin.read(), name="<stdin>", folder=Path.cwd())
    elif file:
        source = load_spec(Path(file))
    elif words:
        source = _source_of_command(words)
    else:
        raise UsageMistake(
            _("No job: give a file or a command."), hint="berth submit -f job.yaml   ·   berth submit python train.py"
        )
    spec = dict(source.spec)
    role = _only_role(spec)
    for key, value in values.items():
        (role if key == "replicas" else spec)[key] = value
    if resources:
        role["resources"] = {**(role.get("resources") or {}), **resources}
    if env:
        spec["env"] = {**(spec.get("env") or {}), **dict(_pair(entry) for entry in env)}
    return replace(source, spec=spec)


def _source_of_command(words: list[str]) -> SpecSource:
    """A command line as a spec; a folder goes along when the command names a file in it."""
    text = words[0] if len(words) == 1 else shlex.join(words)
    base = next((word for word in words if word.endswith(".py")), words[0])
    name = "".join(letter if letter.isalnum() and letter.isascii() else "-" for letter in Path(base.split()[0]).stem).strip("-")
    spec: dict[str, Any] = {"name": name[:NAME_LENGTH] or "job", "command": text}
    if any(_is_file_here(word) for word in (words if len(words) > 1 else text.split())):
        spec["code"] = {"path": "."}
    return SpecSource(spec, name="", folder=Path.cwd())


def _is_file_here(word: str) -> bool:
    try:
        return not Path(word).is_absolute() and ".." not in Path(word).parts and Path(word).is_file()
    except OSError:
        return False


def _only_role(spec: dict[str, Any]) -> dict[str, Any]:
    """Where `resources` and `replicas` belong: the top of a short spec, or the single role."""
    roles = spec.get("roles")
    if not isinstance(roles, dict):
        return spec
    if len(roles) == 1:
        name, found = next(iter(roles.items()))
        role: dict[str, Any] = dict(found) if isinstance(found, dict) else {}
        spec["roles"] = {name: role}
        return role
    return _SeveralRoles()


class _SeveralRoles(dict[str, Any]):
    """Stands where one role cannot be named; refuses to be written."""

    def __setitem__(self, key: str, value: Any) -> None:
        raise UsageMistake(_("The job has several roles; the option is ambiguous."), hint="--set roles.NAME.resources.gpu=1")


def _packed(source: SpecSource) -> Snapshot | None:
    path = code_path(source)
    if path is None:
        return None
    from berth.snapshots import pack_code

    with Progressing(_("Packing {folder}", folder=path.name or path), total=None) as progress:
        snapshot = pack_code(path, progress=progress)
    for script in snapshot.windows_scripts[:SCRIPTS_TOLD]:
        note(_("! {path} has line ends of Windows, with which it does not start: sed -i 's/\\r$//' {path}", path=plain(script)))
    return snapshot


def _send(session: Session, source: SpecSource, snapshot: Snapshot | None, key: str, priority_reason: str | None) -> Job:
    jobs, tenant = session.client.jobs, session.choices.tenant
    spec = source.spec
    if snapshot:
        with Progressing(_("Uploading code"), total=snapshot.size_bytes) as progress:
            jobs.upload_code(snapshot, tenant=tenant, progress=progress)
        spec = with_snapshot(spec, snapshot.sha256)
    return jobs.submit_prepared(source, spec, tenant=tenant, idempotency_key=key, priority_reason=priority_reason)


def _finish(session: Session, job: Job, *, detach: bool, follow_: bool) -> None:
    session.show_done(
        job.data, _("Job {name} submitted: {id}", name=plain(job.name), id=paint(job.id, "bold", stream=sys.stderr))
    )
    watched = is_terminal(sys.stdout) and not session.is_for_programs
    if not session.is_for_programs and (time := formats.planned_text(job.data)):
        hint(
            _(
                "planned for {time} until similar jobs have ended; not ended then; --max-runtime 2h may start it sooner",
                time=time,
            )
        )
    if detach or not (follow_ or watched):
        if not session.is_for_programs:
            hint(_("berth logs -f {job}   ·   berth get {job}", job=job.id))
            if not is_terminal(sys.stdout):
                print(job.id)
        return
    from berth.cli.follow import follow

    raise typer.Exit(follow(session.client, job))


def _show_dry_run(session: Session, plan: dict[str, Any], snapshot: Snapshot | None) -> None:
    if session.is_for_programs:
        print_data(plan, session.form)
        return
    print_plan(plan, snapshot, stream=sys.stdout)
    note(f"{paint('✓', 'green', stream=sys.stderr)} {_('The job can be submitted as it is; nothing was done.')}")


def _pair(entry: str) -> tuple[str, str]:
    name, equals, value = entry.partition("=")
    if not equals or not name:
        raise SpecInvalid(f"{entry!r} is not NAME=VALUE.")
    return name, value


def _number(text: str | None) -> Any:
    """Numbers as numbers, so that the stored spec is the one that a file would give."""
    if text is None:
        return None
    for kind in (int, float):
        try:
            number = kind(text)
        except ValueError:
            continue
        # JSON has no such number; the server says what is wrong with the text.
        return number if kind is int or math.isfinite(number) else text
    return text


def _given(values: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in values.items() if value is not None}
