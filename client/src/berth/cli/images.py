"""`berth images`: software that jobs run in."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from berth.cli import formats
from berth.cli.command import Session, UsageMistake, command, confirmed, make_group
from berth.cli.messages import _
from berth.cli.output import Column, heading, hint, print_data, print_facts, table_text
from berth.cli.volumes import YesOption
from berth.limits import POLL_SECONDS
from berth.sanitize import plain, plain_block

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
    reference: Annotated[str | None, typer.Option("--reference", help="Registry reference to list under this name.")] = None,
    follow_: Annotated[bool, typer.Option("--follow", "-f", help="Follow the build's log.")] = False,
) -> None:
    """Make an image: a Python environment from a requirements file, or a registry reference under a name."""
    if bool(requirements) == bool(reference):
        raise UsageMistake(_("Say what is in it: --requirements FILE, or --reference IMAGE."))
    try:
        text = requirements.read_text(encoding="utf-8") if requirements else None
    except (OSError, UnicodeDecodeError) as error:
        raise UsageMistake(_("{path} cannot be read: {reason}", path=requirements, reason=error)) from error
    image = session.client.images.create(
        name, kind="python" if text is not None else "registry", requirements=text, reference=reference
    )
    session.show_done(image, _("Image {name}: {state}.", name=plain(name), state=formats.state_word(image["state"])), key="name")
    job_id = _build_job(session, image, wait=follow_)
    if follow_ and job_id:
        from berth.cli.follow import follow

        raise typer.Exit(follow(session.client, session.client.jobs.get(job_id)))
    hint(_("berth images get {name}", name=plain(name)) + (f"   ·   berth logs -f {job_id}" if job_id else ""))


@command()
def get(session: Session, image: ImageArgument) -> None:
    """Show one image, its requirements and its builds."""
    found = session.client.images.get(image)
    if session.is_for_programs:
        print_data(found, session.form)
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
            ("Error", (plain(found.get("error") or ""), "red")),
            ("Requirements", plain_block(found.get("requirements") or "").strip()),
        ]
    )
    builds = session.client.images.builds(found["id"])
    if builds:
        heading(_("Builds"))
        print(table_text(builds, BUILD_COLUMNS), end="")


@command()
def delete(session: Session, image: ImageArgument, yes: YesOption = False) -> None:
    """Delete an image from the catalogue; jobs that run in it go on."""
    if confirmed(_("Delete image {image}?", image=plain(image)), yes=yes):
        session.client.images.delete(image)
        session.show_done({"name": image}, _("Image {image} is deleted.", image=plain(image)), key="name")


def _build_job(session: Session, image: dict[str, Any], *, wait: bool) -> str:
    """The job that builds the image; with `wait`, the platform gets a moment to make it. Empty when none is needed."""
    images_ = session.client.images
    while wait and image["state"] == "queued" and not image.get("build_job_id"):
        session.client.transport.sleep(POLL_SECONDS)
        image = images_.get(image["id"])
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
    "images", list_images, "List, make and inspect images.", {"list": list_images, "build": build, "get": get, "delete": delete}
)
