"""Reads of this app, for apps above. They never write."""

from __future__ import annotations

import uuid
from collections.abc import Iterable

from clusters.engines.interface import ImageRef
from images.services.catalogue import resolved_images


def image_refs(image_ids: Iterable[uuid.UUID]) -> dict[uuid.UUID, ImageRef]:
    """Many images as an engine takes them, deleted ones included: a job keeps the image that it was submitted with. One query."""
    return {image_id: image.ref for image_id, image in resolved_images(image_ids).items()}


def image_states(image_ids: Iterable[uuid.UUID]) -> dict[uuid.UUID, tuple[str, bool]]:
    """Kind of many images, and whether jobs can run in them now. One query."""
    return {image_id: (str(image.kind), image.is_ready) for image_id, image in resolved_images(image_ids).items()}
