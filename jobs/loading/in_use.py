"""What live jobs hold on to, so that the layers below remove nothing under them."""

from __future__ import annotations

import uuid

from images.services import resolved_images
from jobs.lifecycle.states import JOB_LIFECYCLE
from jobs.loading.specs import READ_AT_ONCE, load_spec, mount_requests, preload_specs
from jobs.models import Job
from storage.services.mounts import volumes_held


def images_in_use() -> frozenset[str]:
    """Locations of the environments of all jobs that may still start or run."""
    rows = Job.objects.filter(state__in=JOB_LIFECYCLE.live_states, image_id__isnull=False).order_by()
    ids = set(rows.values_list("image_id", flat=True).distinct())
    return frozenset(image.location for image in resolved_images(image_id for image_id in ids if image_id).values())


def volumes_in_use() -> frozenset[uuid.UUID]:
    """Volumes that jobs with an attempt on an engine have mounted. Jobs that wait find out when they start."""
    wanted: set[tuple[uuid.UUID, str]] = set()
    rows = Job.objects.filter(state__in=[state for state in JOB_LIFECYCLE.live_states if state != "queued"])
    mounting = rows.filter(spec__document__contains='"volume"').order_by()  # Each mount names one; few jobs have any.
    found = sorted(set(mounting.values_list("spec_id", "tenant_id")))
    for start in range(0, len(found), READ_AT_ONCE):
        part = found[start : start + READ_AT_ONCE]
        preload_specs(spec_id for spec_id, _ in part)
        wanted.update((tenant_id, mount.volume) for spec_id, tenant_id in part for mount in mount_requests(load_spec(spec_id)))
    return volumes_held(wanted)
