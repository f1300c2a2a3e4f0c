"""What storage brings to the layers below: errors, crash points, and who may see what."""

from __future__ import annotations

from kernel.crashpoints import register_crash_points
from kernel.tenant_rows import TENANT, register_tenant_rows
from storage.access import register_rules
from storage.hooks import register_hooks
from storage.models import Volume
from tenants.identity.leaving import Belonging, register_belongings
from webapi.reference import register_errors

ERRORS = {
    "bad_archive": "Let `berth submit` pack the files, or send a plain tar without links and absolute paths.",
    "digest_mismatch": "Send the file again from the start.",
    "offset_mismatch": "Ask for the upload's offset with HEAD or GET, and go on from there.",
    "upload_busy": "Ask for the upload's offset, and go on from there after a moment.",
    "volume_not_on_host": "List or copy its files in a job that mounts it.",
    "volume_of_one_tenant": "Make a volume in the other tenant, or put the data on NFS.",
    "volume_exists": "Choose another name, or use the volume that exists.",
    "volume_read_only": "Ask the volume's owner for a grant that may write.",
    "range_not_satisfiable": "Read the length from `Content-Range`, and ask again from there.",
}

CRASH_POINTS = {
    "storage.checkpoint.after_copy": "A job's directory is filled with a copy, no row says so.",
    "storage.checkpoint.after_drop": "What was half written is removed, nothing is measured.",
    "storage.checkpoint.after_remove": "A directory past its time is removed, its row does not say so.",
    "storage.logs.before_streams": "An attempt's log is opened without its streams, not committed.",
    "storage.logs.after_write": "Output is in the store's file, no row says so.",
    "storage.outputs.after_copy": "A job's output is copied, no row says so.",
    "storage.volume.before_commit": "A volume's directory and row are made, not committed.",
    "storage.upload.after_write": "A piece of an upload is in its file, the offset has not moved.",
    "storage.upload.after_put": "An uploaded file is in its place, the upload does not say so.",
}

TENANT_ROWS = {
    "storage.Volume": (TENANT,),
    "storage.VolumeGrant": (TENANT,),
    "storage.Upload": (TENANT,),
    "storage.CodeSnapshot": (TENANT,),
    "storage.GitCommit": (TENANT,),
    "storage.ArtifactCollection": (TENANT,),
    "storage.Artifact": (TENANT,),
    "storage.AttemptLog": (TENANT,),
    "storage.Checkpoint": (TENANT,),
}


BELONGINGS = {
    "volumes": Belonging(lambda user_id: Volume.objects.filter(created_by_id=user_id, is_deleted=False), owner="created_by_id"),
}


def register() -> None:
    """Called once, from `AppConfig.ready`."""
    register_errors(ERRORS)
    register_crash_points(CRASH_POINTS)
    register_tenant_rows(TENANT_ROWS)
    register_belongings(BELONGINGS)
    register_rules()
    register_hooks()
