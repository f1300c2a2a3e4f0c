"""What users can be told of capacity."""

from __future__ import annotations

from activity.notifications.kinds import written_kind

# A GPU is out of order; and of the apps above: a booking or a planned edit came to nothing, limits were asked for.
CAPACITY = written_kind("capacity", place=80)
