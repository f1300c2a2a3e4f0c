"""The door of this app: images and builds change state here and nowhere else."""

from __future__ import annotations

from images.lifecycle import BUILD, IMAGE
from images.models import BuildRequest, Image
from reconciling.transition import Binding

IMAGES = Binding(kind="image", model=Image, lifecycle=IMAGE)
BUILDS = Binding(kind="build", model=BuildRequest, lifecycle=BUILD, job_column="job_id")
