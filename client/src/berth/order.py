"""The order of queued jobs: priority limits, requests for more, and decisions on requests."""

from __future__ import annotations

from collections.abc import Iterator

from berth.paging import iterate
from berth.resources import Row, _Resource, _segment


class Priorities(_Resource):
    """Priorities: a whole number from 0 to 1000, or a class by name. Each method is one request."""

    def grants(self, tenant: str) -> Row:
        """The priority limit of each role in a tenant, and yours."""
        return self._get(f"/tenants/{_segment(tenant)}/priority-grants")

    def set_grants(self, tenant: str, **roles: int | str | None) -> Row:
        """`member` and `manager`: the highest that the role may use; None is what the tenant above has."""
        return dict(self._put(f"/tenants/{_segment(tenant)}/priority-grants", roles))

    def set(self, job: str, priority: int | str) -> Row:
        """Change a job's priority, up to what you may use yourself."""
        return self._patch(f"/jobs/{_segment(job)}", {"priority": priority})

    def requests(self, *, state: str | None = None) -> Iterator[Row]:
        return iterate(self._transport, "/priority-requests", {"tenant": self._tenant or None, "state": state})

    def get_request(self, request_id: str) -> Row:
        return self._get(f"/priority-requests/{_segment(request_id)}")

    def request(self, job: str, priority: int | str, *, reason: str = "") -> Row:
        """Ask for a higher priority of one job."""
        return self._post("/priority-requests", {"job": job, "priority": priority, "reason": reason})

    def request_window(
        self,
        priority: int | str,
        *,
        ends_at: str,
        starts_at: str | None = None,
        user: str | None = None,
        tenant: str | None = None,
        reason: str = "",
    ) -> Row:
        """Request a higher priority until `ends_at`, for yourself or for a user whom you manage."""
        body: dict[str, object] = {"priority": priority, "ends_at": ends_at, "starts_at": starts_at, "user": user}
        return self._post("/priority-requests", body | {"reason": reason, "tenant": tenant or self._tenant or None})

    def approve(self, request_id: str, *, answer: str = "") -> Row:
        return self._post(f"/priority-requests/{_segment(request_id)}/approve", {"answer": answer})

    def deny(self, request_id: str, *, answer: str = "") -> Row:
        return self._post(f"/priority-requests/{_segment(request_id)}/deny", {"answer": answer})

    def withdraw(self, request_id: str) -> Row:
        """Withdraw a request, or end an approved window."""
        return self._take_back(f"/priority-requests/{_segment(request_id)}")
