"""What was used and what it cost: use, prices, statements, budgets, and whether owning pays. Money is in millionths."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any
from urllib.parse import quote

from berth.paging import iterate
from berth.resources import Queues, Row, Rows, _Resource
from berth.transport import Call

PRICE_FIELDS = {"gpu": "gpu_hour_micros", "cpu": "cpu_hour_micros", "memory": "memory_gib_hour_micros"}


class Costs(_Resource):
    """Use, prices, statements, budgets."""

    def usage(self, **filters: object) -> Rows:
        """Resource time used and what it cost, each row with the currency; filters: tenant, since, until, user, queue, pool,
        fate, group_by (tenant, user, queue, pool, job, day, fate)."""
        filters.setdefault("tenant", self._tenant or None)
        rows: Rows = []
        cursor: object = None
        while True:
            page = self._get("/usage", **filters, cursor=cursor)
            rows += [{**row, "currency": page.get("currency", "")} for row in page.get("items", [])]
            cursor = page.get("next")
            if not cursor:
                return rows

    def held(self, **filters: object) -> Rows:
        """What was held and not worked with, by tenant; the filters are those of `usage`, but for fate and group_by."""
        filters.setdefault("tenant", self._tenant or None)
        page = self._get("/usage:held", **filters)
        return [{**row, "currency": page.get("currency", "")} for row in page["items"]]

    def export(self, **filters: object) -> bytes:
        """The lines behind that as CSV, safe for spreadsheets."""
        filters.setdefault("tenant", self._tenant or None)
        return self._transport.send(Call("GET", "/usage:export", filters)).body

    def of_job(self, job_id: str) -> Row:
        """What a job cost so far, by attempt, and what it costs an hour now."""
        return self._get(f"/jobs/{quote(job_id, safe='')}/cost")

    def estimate(self, **ask: object) -> Row:
        """What gpu_millis, cpu_millis and memory_bytes would cost for `seconds` in each pool, the cheapest first."""
        return self._get("/prices:estimate", **ask)

    def prices(self, *, pool: str | None = None, everything: bool = False) -> Iterator[Row]:
        """Prices that hold now and those to come; with `everything` also those that held once."""
        return iterate(self._transport, "/prices", {"pool": pool, "all": "true" if everything else None})

    def set_prices(self, pool: str, prices: Mapping[str, int], *, effective_at: str | None = None) -> Rows:
        """Set what an hour costs from a moment to come on: `gpu`, `cpu`, `memory` (of a GiB) in millionths."""
        body = {PRICE_FIELDS[name]: micros for name, micros in prices.items()}
        return list(self._post("/prices", {"pool": pool, "effective_at": effective_at, **body})["items"])

    def withdraw_price(self, price_id: str) -> None:
        """Withdraw a price that is not effective yet."""
        self._delete(f"/prices/{quote(price_id, safe='')}")

    def statements(self, tenant: str) -> Rows:
        """A tenant's closed months, the latest first."""
        return list(self._get(f"/tenants/{quote(tenant, safe='')}/statements")["items"])

    def statement(self, tenant: str, month: str) -> Row:
        """A tenant's month, `2026-11`: document, digest, names."""
        return self._get(_statement_path(tenant, month))

    def statement_csv(self, tenant: str, month: str) -> bytes:
        """Its lines as CSV."""
        return self._transport.send(Call("GET", _statement_path(tenant, month), {"format": "csv"})).body

    def budgets(self) -> Iterator[Row]:
        """Budgets of queues that you see, and what of them is spent."""
        return iterate(self._transport, "/budgets", {"tenant": self._tenant or None})

    def set_budget(self, queue: str, *, kind: str, amount: int, warn_at: Sequence[int] | None = None, stops: bool = False) -> Row:
        """Give a queue a budget for every month: kind `money` in millionths, `gpu_time` in thousandths of a GPU x seconds, or
        `node_time` in thousandths of a node x seconds."""
        body: dict[str, object] = {"kind": kind, "amount": amount, "stops": stops}
        if warn_at:
            body["warn_at"] = list(warn_at)
        return dict(self._put(f"/queues/{self._queue_id(queue)}/budget", body))

    def remove_budget(self, queue: str) -> None:
        """Remove a queue's budget."""
        self._delete(f"/queues/{self._queue_id(queue)}/budget")

    def break_even(self, **assumptions: object) -> Row:
        """Own against rented; what is not given is assumed by the server, and said in the answer."""
        return self._get("/breakeven", **assumptions)

    def _queue_id(self, queue: str) -> str:
        return str(Queues(self._transport, tenant=self._tenant).get(queue)["id"])


def digest_of(document: Mapping[str, Any]) -> str:
    """The SHA-256 of a statement's document, computed here: what `sha256` must be."""
    data = json.dumps(document, sort_keys=True, separators=(",", ":"), ensure_ascii=False).encode()
    return hashlib.sha256(data).hexdigest()


def _statement_path(tenant: str, month: str) -> str:
    return f"/tenants/{quote(tenant, safe='')}/statements/{quote(month, safe='')}"
