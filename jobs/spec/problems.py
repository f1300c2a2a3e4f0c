"""What a check between fields says of a job."""

from __future__ import annotations

from typing import NamedTuple

from jobs.spec.translation import Location
from kernel.words import Saying


class Problem(NamedTuple):
    """A place, and the rest of a FieldError."""

    location: Location
    code: str
    message: Saying
    hint: Saying = ""
