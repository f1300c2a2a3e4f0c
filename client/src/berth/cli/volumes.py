"""`berth volumes`: data that jobs mount."""

from __future__ import annotations

from typing import Annotated

import typer

from berth.cli import formats
from berth.cli.command import Session, YesOption, command, confirmed, make_group
from berth.cli.copy import FILE_COLUMNS
from berth.cli.messages import _
from berth.cli.output import Column, hint
from berth.sanitize import plain

VolumeArgument = Annotated[str, typer.Argument(metavar="VOLUME", help="Name or id of the volume.")]


@command()
def list_volumes(session: Session) -> None:
    """List volumes that you may use."""
    session.show(session.client.volumes.list(), VOLUME_COLUMNS, empty=_("No volumes: berth volumes create NAME"), key="name")


@command()
def create(
    session: Session,
    name: Annotated[str, typer.Argument(metavar="NAME", help="Name of the new volume.")],
) -> None:
    """Create an empty volume."""
    volume = session.client.volumes.create(name)
    session.show_done(volume, _("Volume {name} is created.", name=plain(name)), key="name")
    hint(_("berth cp ./data {volume}:", volume=plain(name)))


@command()
def grant(
    session: Session,
    volume: VolumeArgument,
    tenant: Annotated[str, typer.Argument(metavar="TENANT", help="Tenant that may mount it.")],
    write: Annotated[bool, typer.Option("--write", help="Also allow writing.")] = False,
) -> None:
    """Let another tenant mount a volume; read-only, unless --write."""
    granted = session.client.volumes.grant(volume, tenant, read_only=not write)
    text = _("Tenant {tenant} may write volume {volume}.") if write else _("Tenant {tenant} may read volume {volume}.")
    session.show_done(granted, text.format(tenant=plain(tenant), volume=plain(volume)))


@command()
def files(
    session: Session,
    volume: VolumeArgument,
    path: Annotated[str, typer.Argument(metavar="PATH", help="Folder on the volume.")] = "",
) -> None:
    """List a folder of a volume."""
    session.show(session.client.volumes.files(volume, path), FILE_COLUMNS, empty=_("No files."), key="path")


@command()
def remove(
    session: Session, volume: VolumeArgument, path: Annotated[str, typer.Argument(metavar="PATH")], yes: YesOption = False
) -> None:
    """Delete a file of a volume."""
    if confirmed(_("Delete {path} of volume {volume}?", path=plain(path), volume=plain(volume)), yes=yes):
        session.client.volumes.remove(volume, path)
        session.show_done({"volume": volume, "path": path}, _("{path} is deleted.", path=plain(path)), key="path")


@command()
def delete(session: Session, volume: VolumeArgument, yes: YesOption = False) -> None:
    """Delete a volume with all its files."""
    if confirmed(_("Delete volume {volume} and all its files?", volume=plain(volume)), yes=yes):
        session.client.volumes.delete(volume)
        session.show_done({"name": volume}, _("Volume {volume} is deleted.", volume=plain(volume)), key="name")


VOLUME_COLUMNS = [
    Column("NAME", lambda volume: plain(volume.get("mount_as") or volume["name"]), shrinks=True),
    Column("TENANT", lambda volume: formats.name_of(volume.get("tenant"))),
    Column("ACCESS", lambda volume: _("read only") if volume.get("read_only") else _("read, write")),
    Column("USED", lambda volume: formats.size_text(volume.get("used_bytes")), right=True),
    Column("AGE", lambda volume: formats.age_text(volume.get("created_at")), right=True),
    Column("ID", lambda volume: volume["id"], wide=True),
]
volumes = make_group(
    "volumes",
    list_volumes,
    "List, create and share volumes.",
    {"list": list_volumes, "create": create, "grant": grant, "files": files, "rm": remove, "delete": delete},
)
