"""Names for the shapes of what the server answers, for editors and type checkers; at run time they are plain dictionaries.

The shapes themselves are generated from the API's description into `berth._api.models`."""

from __future__ import annotations

from berth._api.models import ArtifactOut as ArtifactData
from berth._api.models import AttemptOut as AttemptData
from berth._api.models import ImageOut as ImageData
from berth._api.models import JobOut as JobData
from berth._api.models import NodeOut as NodeData
from berth._api.models import QueueOut as QueueData
from berth._api.models import TaskOut as TaskData
from berth._api.models import TenantOut as TenantData
from berth._api.models import TransitionOut as TransitionData
from berth._api.models import UploadOut as UploadData
from berth._api.models import UsageItem as UsageData
from berth._api.models import VolumeOut as VolumeData
from berth._api.models import WhoOut as WhoData

__all__ = [
    "ArtifactData",
    "AttemptData",
    "ImageData",
    "JobData",
    "NodeData",
    "QueueData",
    "TaskData",
    "TenantData",
    "TransitionData",
    "UploadData",
    "UsageData",
    "VolumeData",
    "WhoData",
]
