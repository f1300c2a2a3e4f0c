"""What live jobs hold on to, so that the layers below remove nothing under them."""

from __future__ import annotations

import uuid

from images.services import resolved_images
from jobs.lifecycle.states import JOB_LIFECYCLE
from jobs.loading.specs import load_spec, mount_requests
from jobs.models import Job
from kernel.errors import InvalidInput
from storage.services.mounts import resolve_mounts


def images_in_use() -> frozenset[str]:
    """Locations of the environments of all jobs that may still start or run."""
    rows = Job.objects.filter(state__in=JOB_LIFECYCLE.live_states, image_id__isnull=False).order_by()
    ids = set(rows.values_list("image_id", flat=True).distinct())
    return frozenset(image.location for image in resolved_images(image_id for image_id in ids if image_id).values())


def volumes_in_use() -> frozenset[uuid.UUID]:
    """Volumes that jobs with an attempt on an engine have mounted. Jobs that wait find out when they start."""
    held: set[uuid.UUID] = set()
    rows = Job.objects.filter(state__in=[state for state in JOB_LIFECYCLE.live_states if state != "queued"])
    for spec_id, tenant_id in set(rows.values_list("spec_id", "tenant_id")):
        for mount in mount_requests(load_spec(spec_id)):
            try:
                held.update(ref.volume_id for ref in resolve_mounts(tenant_id=tenant_id, mounts=[mount]))
            except InvalidInput:
                continue
    return frozenset(held)
