"""Reading one job by whatever it may be called."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, cast
from urllib.parse import quote

from berth.errors import AnswerInvalid
from berth.naming import is_id
from berth.transport import Call, Transport

if TYPE_CHECKING:
    from berth.types import JobData


class JobReads:
    def __init__(self, transport: Transport, *, tenant: str = "") -> None:
        self._transport = transport
        self._tenant = tenant

    def read(self, job: str, *, patient: bool = False) -> JobData:
        return as_job(self._transport.json(Call("GET", job_path(job.strip()), patient=patient)))

    def resolve(self, job: str) -> str:
        """The full id of what the user named, so that later requests mean the same job."""
        return job if is_id(job) else self.read(job)["id"]


def as_job(data: Mapping[str, Any]) -> JobData:
    """The answer as a job; AnswerInvalid where it lacks what every job has."""
    if not {"id", "name", "state"} <= set(data):
        raise AnswerInvalid("The server's answer is not a job of Berth's.", hint="Check the address: berth whoami")
    return cast("JobData", data)


def job_path(job: str) -> str:
    return f"/jobs/{quote(job, safe='')}"
