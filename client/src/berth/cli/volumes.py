"""`berth volumes`: data that jobs mount."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from berth.cli import formats
from berth.cli.command import Session, UsageMistake, YesOption, command, confirmed, make_group
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
    size: Annotated[str | None, typer.Option("--size", metavar="SIZE", help="Quota, or size of a new claim: 100Gi.")] = None,
    cluster: Annotated[
        str | None, typer.Option("--cluster", "-c", metavar="CLUSTER", help="On a PersistentVolumeClaim in this cluster.")
    ] = None,
    claim: Annotated[
        str | None, typer.Option("--claim", metavar="CLAIM", help="Existing claim in the tenant's namespace; for operators.")
    ] = None,
    nfs: Annotated[str | None, typer.Option("--nfs", metavar="SERVER:/PATH", help="On an NFS server; for operators.")] = None,
    read_only: Annotated[bool, typer.Option("--read-only", help="Jobs may only read it.")] = False,
) -> None:
    """Create a volume: on the platform's host, on a claim of a Kubernetes cluster, or on NFS."""
    options: dict[str, object] = {"read_only": True} if read_only else {}
    if size is not None:
        options["size_quota_bytes"] = formats.parse_size(size)
    if cluster is not None or claim is not None:
        options |= {"kind": "claim", "cluster": cluster or "", "claim": claim or ""}
    if nfs is not None:
        server, colon, folder = nfs.partition(":/")
        if not colon or cluster is not None or claim is not None:
            raise UsageMistake(
                _("--nfs takes a server and its directory, and no claim."), hint="--nfs nas.example.org:/exports/data"
            )
        options |= {"kind": "nfs", "server": server, "export": f"/{folder}"}
    volume = session.client.volumes.create(name, **options)
    session.show_done(volume, _("Volume {name} is created.", name=plain(name)), key="name")
    if "kind" in options:
        hint(_("In a job file: mounts: [{{volume: {volume}, path: /data}}]", volume=plain(name)))
    else:
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


def _place(volume: dict[str, Any]) -> str:
    """Where its data is, as far as a user is told."""
    if volume.get("kind") == "nfs":
        return f"{volume['server']}:{volume['export']}"
    return f"{formats.name_of(volume.get('cluster'))}/{volume['claim']}" if volume.get("kind") == "claim" else ""


VOLUME_COLUMNS = [
    Column("NAME", lambda volume: plain(volume.get("mount_as") or volume["name"]), shrinks=True),
    Column("TENANT", lambda volume: formats.name_of(volume.get("tenant"))),
    Column("KIND", lambda volume: plain(volume.get("kind") or "local")),
    Column("LOCATION", lambda volume: plain(_place(volume)), wide=True),
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
