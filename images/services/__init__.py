"""What other apps ask of this one: images found, builds asked for, planned and reported."""

from images.builder import BuildPlan
from images.services.accounts import rotate_accounts
from images.services.builds import (
    PendingBuild,
    build_again,
    build_finished,
    build_plan,
    build_started,
    pending_builds,
    request_build,
)
from images.services.catalogue import (
    HOST_IMAGE,
    NewImage,
    ResolvedImage,
    create_image,
    delete_image,
    ensure_host_image,
    remove_unused_images,
    resolve_image,
    resolved_images,
)

__all__ = [
    "HOST_IMAGE",
    "BuildPlan",
    "NewImage",
    "PendingBuild",
    "ResolvedImage",
    "build_again",
    "build_finished",
    "build_plan",
    "build_started",
    "create_image",
    "delete_image",
    "ensure_host_image",
    "pending_builds",
    "remove_unused_images",
    "request_build",
    "resolve_image",
    "resolved_images",
    "rotate_accounts",
]
