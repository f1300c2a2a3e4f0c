"""Which state of an image may follow which. Few states, many reasons.

An image that needs no build is made READY at once. A failed image may be built again: its request row says why it failed.
"""

from __future__ import annotations

from enum import StrEnum

from kernel.lifecycle import lifecycle


class ImageState(StrEnum):
    """What can be done with an image."""

    QUEUED = "queued"  # A build is asked for and no job exists for it yet.
    BUILDING = "building"  # The build's job exists.
    READY = "ready"  # Jobs can run in it.
    FAILED = "failed"  # The build ended without an image; `error` says why.


class BuildState(StrEnum):
    """How far one build is."""

    QUEUED = "queued"
    BUILDING = "building"
    SUCCEEDED = "succeeded"
    FAILED = "failed"


IMAGE = lifecycle(
    "image",
    ImageState,
    {
        ImageState.QUEUED: {ImageState.BUILDING, ImageState.READY, ImageState.FAILED},
        ImageState.BUILDING: {ImageState.QUEUED, ImageState.READY, ImageState.FAILED},
        ImageState.READY: {ImageState.QUEUED},
        ImageState.FAILED: {ImageState.QUEUED},
    },
)

BUILD = lifecycle(
    "build",
    BuildState,
    {
        BuildState.QUEUED: {BuildState.BUILDING, BuildState.FAILED},
        BuildState.BUILDING: {BuildState.SUCCEEDED, BuildState.FAILED},
        BuildState.SUCCEEDED: set(),
        BuildState.FAILED: set(),
    },
)
