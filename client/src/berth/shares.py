"""What share of the pools tenants deserved and got, and the signed statements of weeks."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping, Sequence
from typing import Any

from berth.costs import digest_of
from berth.resources import Row, Rows, _Resource, _segment
from berth.signatures import is_signed
from berth.transport import Call


class Shares(_Resource):
    """Deserved against delivered."""

    def list(self, **filters: object) -> Rows:
        """Queues that you see, each among its siblings, the largest deficit first; filters: tenant, since, until, pool."""
        filters.setdefault("tenant", self._tenant or None)
        return list(self._get("/shares", **filters)["items"])

    def export(self, **filters: object) -> bytes:
        """The same as CSV."""
        filters.setdefault("tenant", self._tenant or None)
        return self._transport.send(Call("GET", "/shares", {**filters, "format": "csv"})).body

    def weeks(self, tenant: str) -> Rows:
        """A tenant's closed weeks, the latest first."""
        return list(self._get(f"/tenants/{_segment(tenant)}/shares")["items"])

    def week(self, tenant: str, week: str) -> Row:
        """A tenant's week, `2026-W47`: document, digest, signature, names."""
        return self._get(f"/tenants/{_segment(tenant)}/shares/{_segment(week)}")

    def keys(self) -> Sequence[str]:
        """The public keys of the installation, the present one first."""
        found = self._get("/signing-keys")
        return [found["public_key"], *found["former"]]


def problem_of(statement: Mapping[str, Any], keys: Collection[str]) -> str:
    """What is wrong with a week's statement, checked here: `digest`, `signature`, `key`; "" for nothing.

    `keys` are the trusted ones. The check needs no server; it needs the extra `verify`, else it raises ExtraMissing.
    """
    document = statement["document"]
    if digest_of(document) != statement["sha256"]:
        return "digest"
    data = json.dumps(document, sort_keys=True, separators=(",", ":"), ensure_ascii=False).encode()
    if not is_signed(data, statement["signature"], statement["public_key"]):
        return "signature"
    return "" if statement["public_key"] in keys else "key"
