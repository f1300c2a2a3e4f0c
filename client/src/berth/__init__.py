"""Berth from Python: submit jobs, follow their logs, fetch their results.

    import berth

    client = berth.Client()                     # server and token from `berth login` or the environment
    job = client.jobs.submit("job.yaml")
    job.wait()
    for line in job.logs():
        print(line.text)

In a program that runs as a job, `berth.progress(done, total)` says how far it is.

Names are loaded on first use, so that `import berth` costs nothing and the command line starts at once.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

__version__ = "0.2.0"

if TYPE_CHECKING:
    from berth.async_client import AsyncClient as AsyncClient
    from berth.client import Client as Client
    from berth.errors import ApiError as ApiError
    from berth.errors import BerthError as BerthError
    from berth.errors import ChecksumMismatch as ChecksumMismatch
    from berth.errors import ConfigurationInvalid as ConfigurationInvalid
    from berth.errors import Conflict as Conflict
    from berth.errors import ExtraMissing as ExtraMissing
    from berth.errors import Forbidden as Forbidden
    from berth.errors import InvalidInput as InvalidInput
    from berth.errors import NotAuthenticated as NotAuthenticated
    from berth.errors import NotFound as NotFound
    from berth.errors import PreconditionFailed as PreconditionFailed
    from berth.errors import QuotaExceeded as QuotaExceeded
    from berth.errors import ServerUnreachable as ServerUnreachable
    from berth.errors import SpecInvalid as SpecInvalid
    from berth.errors import TooManyRequests as TooManyRequests
    from berth.errors import Unavailable as Unavailable
    from berth.errors import WaitTimeout as WaitTimeout
    from berth.job_progress import progress as progress
    from berth.jobs import Job as Job
    from berth.logs import LogLine as LogLine

_EXPORTS = {
    "ApiError": "berth.errors",
    "AsyncClient": "berth.async_client",
    "BerthError": "berth.errors",
    "ChecksumMismatch": "berth.errors",
    "Client": "berth.client",
    "ConfigurationInvalid": "berth.errors",
    "Conflict": "berth.errors",
    "ExtraMissing": "berth.errors",
    "Forbidden": "berth.errors",
    "InvalidInput": "berth.errors",
    "Job": "berth.jobs",
    "LogLine": "berth.logs",
    "NotAuthenticated": "berth.errors",
    "NotFound": "berth.errors",
    "PreconditionFailed": "berth.errors",
    "QuotaExceeded": "berth.errors",
    "ServerUnreachable": "berth.errors",
    "SpecInvalid": "berth.errors",
    "TooManyRequests": "berth.errors",
    "Unavailable": "berth.errors",
    "WaitTimeout": "berth.errors",
    "progress": "berth.job_progress",
}

__all__ = ["__version__", *_EXPORTS]


def __getattr__(name: str) -> object:
    module = _EXPORTS.get(name)
    if module is None:
        raise AttributeError(f"module 'berth' has no attribute {name!r}")
    return getattr(import_module(module), name)


def __dir__() -> list[str]:
    return sorted(__all__)
