"""`berth.Client`: one connection to one server, as one user."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from berth import limits
from berth.capacity import Bookings, Quota
from berth.config import Settings, resolve_settings
from berth.costs import Costs
from berth.errors import AnswerInvalid
from berth.jobs import Jobs
from berth.operations import Announcements, Features, Maintenance
from berth.order import Priorities
from berth.questions import Questions
from berth.resources import (
    Activity,
    Clusters,
    DeviceCodes,
    Images,
    Queues,
    Templates,
    Tenants,
    Tokens,
    Users,
    Volumes,
)
from berth.shares import Shares
from berth.transport import Call, Transport

if TYPE_CHECKING:
    import httpx2


class Client:
    """Talks to a Berth server. What is not given comes from `BERTH_SERVER`, `BERTH_TOKEN`, `BERTH_TENANT` and
    `BERTH_PROFILE`, then from the file that `berth login` wrote.

        with berth.Client() as client:
            for job in client.jobs.list(state="running"):
                print(job)
    """

    def __init__(
        self,
        server: str | None = None,
        token: str | None = None,
        *,
        tenant: str | None = None,
        profile: str | None = None,
        config_path: Path | None = None,
        http: httpx2.BaseTransport | None = None,
        language: str = "",
        tries: int = limits.TRIES,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self.settings: Settings = resolve_settings(server=server, token=token, tenant=tenant, profile=profile, path=config_path)
        self.transport = Transport(self.settings, http=http, language=language, tries=tries, sleep=sleep)
        chosen = self.settings.tenant
        self.jobs = Jobs(self.transport, tenant=chosen)
        self.tenants = Tenants(self.transport, tenant=chosen)
        self.tokens = Tokens(self.transport, tenant=chosen)
        self.device_codes = DeviceCodes(self.transport, tenant=chosen)
        self.users = Users(self.transport, tenant=chosen)
        self.queues = Queues(self.transport, tenant=chosen)
        self.quota = Quota(self.transport, tenant=chosen)
        self.bookings = Bookings(self.transport, tenant=chosen)
        self.priorities = Priorities(self.transport, tenant=chosen)
        self.costs = Costs(self.transport, tenant=chosen)
        self.shares = Shares(self.transport, tenant=chosen)
        self.questions = Questions(self.transport, tenant=chosen)
        self.clusters = Clusters(self.transport, tenant=chosen)
        self.images = Images(self.transport, tenant=chosen)
        self.templates = Templates(self.transport, tenant=chosen)
        self.volumes = Volumes(self.transport, tenant=chosen)
        self.activity = Activity(self.transport, tenant=chosen)
        self.announcements = Announcements(self.transport, tenant=chosen)
        self.maintenance = Maintenance(self.transport, tenant=chosen)
        self.features = Features(self.transport, tenant=chosen)

    def whoami(self) -> dict[str, Any]:
        """The user, the token used, and the tenants with their roles."""
        me = dict(self.transport.json(Call("GET", "/whoami")))
        if not isinstance(me.get("user"), dict) or not isinstance(me.get("tenants"), list):
            raise AnswerInvalid("The server's answer is not an account of Berth's.", hint="Check the address: berth version")
        return me

    def info(self) -> dict[str, Any]:
        """Name, version and time of the server; needs no token."""
        return dict(self.transport.json(Call("GET", "/info")))

    def job_schema(self) -> dict[str, Any]:
        """The JSON Schema of job files."""
        return dict(self.transport.json(Call("GET", "/schemas/job-spec")))

    def usage(self, **filters: object) -> list[dict[str, Any]]:
        """Resource time used and what it cost; the filters are those of `costs.usage`."""
        return self.costs.usage(**filters)

    def request(self, method: str, path: str, *, params: dict[str, object] | None = None, json: object = None) -> Any:
        """Any operation of the API that has no method here; `path` is below /api/v1."""
        return self.transport.json(Call(method, path, params or {}, json=json, repeatable=method in ("GET", "PUT", "DELETE")))

    def close(self) -> None:
        """Give the connections back."""
        self.transport.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()
