"""`berth images`: software that jobs run in."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from berth.cli import formats
from berth.cli.command import Session, UsageMistake, YesOption, command, confirmed, make_group
from berth.cli.messages import _
from berth.cli.output import Column, heading, hint, print_data, print_facts, table_text
from berth.cli.transfer import Progressing
from berth.errors import BerthError
from berth.limits import POLL_SECONDS
from berth.sanitize import plain, plain_block
from berth.texts import read_text

ImageArgument = Annotated[str, typer.Argument(metavar="IMAGE", help="Name or id of the image.")]


@command()
def list_images(session: Session) -> None:
    """List images that you may use."""
    session.show(
        session.client.images.list(), IMAGE_COLUMNS, empty=_("No images: berth images build NAME -r requirements.txt"), key="name"
    )


@command()
def build(
    session: Session,
    name: Annotated[str, typer.Argument(metavar="NAME", help="Name of the new image.")],
    requirements: Annotated[Path | None, typer.Option("--requirements", "-r", help="File of Python requirements.")] = None,
    reference: Annotated[
        str | None, typer.Option("--reference", help="Registry reference to list under this name, or to push a built image to.")
    ] = None,
    containerfile: Annotated[
        Path | None, typer.Option("--containerfile", "-c", help="Containerfile to build a container image from.")
    ] = None,
    context: Annotated[
        Path | None, typer.Option("--context", help="Folder that the Containerfile copies from; it is uploaded.")
    ] = None,
    base: Annotated[str | None, typer.Option("--base", help="Image into which the requirements are installed.")] = None,
    follow_: Annotated[bool, typer.Option("--follow", "-f", help="Follow the build's log.")] = False,
) -> None:
    """Create an image: a Python environment, a container image to build and push, or a name for a registry reference."""
    is_container = bool(containerfile or base)
    if is_container:
        _check_container(requirements, reference, containerfile, context, base)
    elif bool(requirements) == bool(reference) or context:
        raise UsageMistake(
            _("Give the content: --requirements FILE, --reference IMAGE, or what to build and push."),
            hint=_("--containerfile FILE with or without --context FOLDER, or --base IMAGE with --requirements FILE"),
        )
    image = session.client.images.create(
        name,
        kind="registry" if reference else "python",
        requirements=_text_of(requirements),
        reference=reference,
        containerfile=_text_of(containerfile),
        context_sha256=_upload(session, context) if context else None,
        base=base,
    )
    session.show_done(image, _("Image {name}: {state}.", name=plain(name), state=formats.state_word(image["state"])), key="name")
    job_id = _build_job(session, image, wait=follow_)
    if follow_ and job_id:
        from berth.cli.follow import follow

        raise typer.Exit(follow(session.client, session.client.jobs.get(job_id)))
    hint(_("berth images get {name}", name=plain(name)) + (f"   ·   berth logs -f {job_id}" if job_id else ""))


@command()
def rebuild(
    session: Session,
    image: ImageArgument,
    follow_: Annotated[bool, typer.Option("--follow", "-f", help="Follow the build's log.")] = False,
) -> None:
    """Build a failed image again, or any container image that was built here."""
    session.client.images.build_again(image)
    found = session.client.images.get(image)
    session.show_done(
        found, _("Image {name}: {state}.", name=plain(found["name"]), state=formats.state_word(found["state"])), key="name"
    )
    job_id = _build_job(session, found, wait=follow_)
    if follow_ and job_id:
        from berth.cli.follow import follow

        raise typer.Exit(follow(session.client, session.client.jobs.get(job_id)))
    hint(_("berth images get {name}", name=plain(found["name"])))


def _check_container(
    requirements: Path | None, reference: str | None, containerfile: Path | None, context: Path | None, base: str | None
) -> None:
    if not reference:
        raise UsageMistake(_("Name where the image is pushed: --reference HOST/REPOSITORY:TAG."))
    if bool(containerfile) == bool(base) or bool(base) != bool(requirements) or (context and not containerfile):
        raise UsageMistake(
            _("Give --containerfile FILE with or without --context FOLDER, or --base IMAGE with --requirements FILE.")
        )


def _text_of(path: Path | None) -> str | None:
    return read_text(path) if path else None


def _upload(session: Session, folder: Path) -> str:
    """Send the context as the code of a job is sent; its digest."""
    from berth.snapshots import pack_code

    snapshot = pack_code(folder)
    try:
        with Progressing(_("Uploading {path}", path=plain(str(folder))), total=snapshot.size_bytes) as progress:
            session.client.jobs.upload_code(snapshot, tenant=session.choices.tenant, progress=progress)
    finally:
        snapshot.close()
    return snapshot.sha256


@command()
def get(session: Session, image: ImageArgument) -> None:
    """Show an image, its requirements and its builds."""
    found = session.client.images.get(image)
    if session.is_for_programs:
        print_data(found, session.form, key="name")
        return
    print_facts(
        [
            ("Name", (plain(found["name"]), "bold")),
            ("Id", found["id"]),
            ("Kind", plain(found.get("kind", ""))),
            ("State", formats.state_text(found.get("state"))),
            ("Tenant", formats.name_of(found.get("tenant"))),
            ("Digest", plain(found.get("digest") or "")),
            ("Reference", plain(found.get("reference") or "")),
            ("Base", plain(found.get("base") or "")),
            ("Error", (plain_block(found.get("error") or "").strip(), "red")),
            ("Requirements", plain_block(found.get("requirements") or "").strip()),
            ("Containerfile", plain_block(found.get("containerfile") or "").strip()),
        ]
    )
    builds = session.client.images.builds(found["id"])
    if builds:
        heading(_("Builds"))
        print(table_text(builds, BUILD_COLUMNS), end="")


@command()
def delete(session: Session, image: ImageArgument, yes: YesOption = False) -> None:
    """Delete an image from the catalogue; running jobs continue."""
    if confirmed(_("Delete image {image}?", image=plain(image)), yes=yes):
        session.client.images.delete(image)
        session.show_done({"name": image}, _("Image {image} is deleted.", image=plain(image)), key="name")


def _build_job(session: Session, image: dict[str, Any], *, wait: bool) -> str:
    """The job that builds the image; with `wait`, the platform gets a moment to make it. Empty when none is needed.

    BerthError where the platform could not make one: jobs of earlier builds say nothing of this one.
    """
    images_ = session.client.images
    while wait and image["state"] == "queued" and not image.get("build_job_id"):
        session.client.transport.sleep(POLL_SECONDS)
        image = images_.get(image["id"])
    if wait and image["state"] == "failed" and not image.get("build_job_id"):
        name, reason = plain(image["name"]), plain_block(image.get("error") or "").strip()
        raise BerthError(
            _("The build of image {name} did not start: {reason}", name=name, reason=reason),
            hint=f"berth images rebuild {name}",
        )
    builds = [] if image.get("build_job_id") else images_.builds(image["id"])
    return str(image.get("build_job_id") or next((row["job_id"] for row in builds if row["job_id"]), ""))


IMAGE_COLUMNS = [
    Column("NAME", lambda image: plain(image["name"]), shrinks=True),
    Column("KIND", lambda image: plain(image.get("kind", ""))),
    Column("STATE", lambda image: formats.state_text(image.get("state"))),
    Column("TENANT", lambda image: formats.name_of(image.get("tenant"))),
    Column("AGE", lambda image: formats.age_text(image.get("created_at")), right=True),
    Column("DIGEST", lambda image: plain(image.get("digest") or formats.NOTHING), wide=True),
    Column("ID", lambda image: image["id"], wide=True),
]
BUILD_COLUMNS = [
    Column("JOB", lambda row: plain(row.get("job_id") or formats.NOTHING)),
    Column("STATE", lambda row: formats.state_text(row.get("state"))),
    Column("STARTED", lambda row: formats.time_text(row.get("started_at") or row["created_at"])),
    Column("RAN", lambda row: formats.span_text(row.get("started_at"), row.get("ended_at")), right=True),
]
images = make_group(
    "images",
    list_images,
    "List, create and inspect images.",
    {"list": list_images, "build": build, "rebuild": rebuild, "get": get, "delete": delete},
)
