"""P10: pages of 50 out of a million jobs of 200 tenants, for a member, a manager and an operator, while submissions come in.

Filters by state, queue, user and time, text in names and tags, the orders created, finished and priority; the first page, and the
page that a walk of 5,000 pages has come to. Kept counts beside it. One reader asks one page after the other, in mixed order, and
meanwhile other clients submit jobs at half of what P1 must reach. PostgreSQL, both profiles' own processes, `fsync` on.
"""

from __future__ import annotations

import argparse
import contextlib
import itertools
import json
import multiprocessing
import random
import time
from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from multiprocessing.synchronize import Event as StopSign
from urllib.parse import urlencode

from bench.frame import Bench, BenchError, number
from bench.load import Answer, drive, request
from bench.platforms import RunningPlatform, running_platform
from bench.seeding import TAGS, WORDS, Reader, Seeded, seed

SORTS = ("created", "finished", "priority")
WALK_LIMIT = 500  # The walk takes large pages: the cursor is the same.
SUBMITTERS = 8


@dataclass(frozen=True, slots=True)
class Page:
    """One kind of page for one reader. `depth`: which page of 50 it is."""

    reader: str
    name: str
    depth: int
    bytes: bytes


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--jobs", type=int, default=1_000_000, help="jobs that there are; default a million")
    parser.add_argument("--tenants", type=int, default=200, help="default 200")
    parser.add_argument("--pages", type=int, default=40, help="requests of each kind of page; default 40")
    parser.add_argument("--deep", type=int, default=5_000, help="how many pages of 50 the deep ones lie behind; default 5000")
    parser.add_argument("--submissions-per-second", type=float, default=75.0, help="beside it; half of what P1 must reach")


def run(options: argparse.Namespace, bench: Bench) -> None:
    settings = {"BERTH_LOCAL_CPU_MILLIS": "1000", "BERTH_LOCAL_ISOLATION": "none"}
    with running_platform(profile="production", **settings) as berth:
        seeded = seed(berth, bench, jobs=options.jobs, tenants=options.tenants)
        stored = berth.rows("SELECT count(*) FROM jobs_job")[0][0]
        bench.say(f"{stored} jobs after {seeded.seconds:.0f} s")
        bench.record("jobs", stored)
        pages = [*_first_pages(berth, seeded, options), *_deep_pages(berth, bench, seeded, options)]
        _check_counts(berth, bench, seeded)
        with _submitting(berth, options.submissions_per_second) as submitted:
            latencies, errors = _measure(berth, bench, pages, options.pages)
        bench.record("submitted_meanwhile", dict(submitted))
    _report(bench, latencies, errors, dict(submitted), options)


def _first_pages(berth: RunningPlatform, seeded: Seeded, options: argparse.Namespace) -> Iterator[Page]:
    since = (datetime.now(UTC) - timedelta(days=60)).strftime("%Y-%m-%dT%H:%M:%SZ")
    queries: dict[str, dict[str, str]] = {
        **{sort: {"sort": sort} for sort in SORTS},
        "state": {"state": "failed"},
        "state queue user time": {"state": "failed", "queue": seeded.queue, "user": seeded.user, "since": since},
        "queue, finished": {"queue": seeded.queue, "sort": "finished"},
        "states, priority": {"state": "failed,stopped", "sort": "priority"},
        "name, rare": {"q": f"train-w{WORDS // 3}-"},
        "name, in all": {"q": "train"},
        "name, in none": {"q": "no such name"},
        "tag, by text": {"q": f"team-{TAGS // 3}"},
        "tag, exact": {"tag": f"team-{TAGS // 3}"},
    }
    for reader in seeded.readers:
        for name, query in queries.items():
            yield _page(reader, name, 1, query)
        yield Page(reader.name, "counts", 1, request("GET", "/api/v1/jobs:counts", token=reader.token))


def _page(reader: Reader, name: str, depth: int, query: dict[str, str]) -> Page:
    return Page(reader.name, name, depth, request("GET", f"/api/v1/jobs?{urlencode(query)}", token=reader.token))


def _deep_pages(berth: RunningPlatform, bench: Bench, seeded: Seeded, options: argparse.Namespace) -> Iterator[Page]:
    """The page behind a walk, for each order; for whoever sees fewer jobs, the last one."""
    for reader in seeded.readers:
        for sort in SORTS:
            cursor, depth = "", 1
            while depth < options.deep:
                bench.progress(f"{reader.name} walks by {sort}: page {depth}")
                query = {"sort": sort, "limit": str(WALK_LIMIT), **({"cursor": cursor} if cursor else {})}
                page = _ask(berth, reader, query)
                if page["next"] is None:
                    break
                cursor, depth = page["next"], depth + WALK_LIMIT // 50
            yield _page(reader, sort, depth, {"sort": sort, **({"cursor": cursor} if cursor else {})})


def _ask(berth: RunningPlatform, reader: Reader, query: dict[str, str]) -> dict[str, str | None]:
    answers: list[Answer] = []
    pending = iter([_page(reader, "", 1, query).bytes])
    drive(
        berth.url,
        lambda client: next(pending, None),
        clients=1,
        wanted=200,
        receive=lambda client, answer: answers.append(answer),
    )
    if answers[0].status != 200:
        raise BenchError(f"{query}: {answers[0].status} {answers[0].body[:500]!r}")
    found: dict[str, str | None] = json.loads(answers[0].body)
    return found


def _check_counts(berth: RunningPlatform, bench: Bench, seeded: Seeded) -> None:
    """The kept counts are what counting gives."""
    counted = berth.rows("SELECT count(*) FROM jobs_job WHERE parent_id IS NULL")[0][0]
    kept = berth.rows("SELECT sum(number) FROM jobs_jobcount")[0][0]
    if counted != kept:
        raise BenchError(f"there are {counted} jobs, and the kept counts say {kept}")
    bench.record("counts_agree", counted)


# --- Beside it --------------------------------------------------------------------------------------------------------


@contextlib.contextmanager
def _submitting(berth: RunningPlatform, rate: float) -> Iterator[dict[str, float]]:
    """Let a process of its own submit jobs at a steady rate while the block runs; then says how that went."""
    found: dict[str, float] = {}
    if not rate:
        yield found
        return
    context = multiprocessing.get_context("fork")
    stop = context.Event()
    ours, theirs = context.Pipe()
    process = context.Process(target=_submit, args=(berth.url, berth.token, berth.tenant, rate, stop, theirs), daemon=True)
    process.start()
    try:
        time.sleep(2)
        yield found
    finally:
        stop.set()
        if ours.poll(60):
            found.update(ours.recv())
        process.join(10)


def _submit(url: str, token: str, tenant: str, rate: float, stop: StopSign, pipe: object) -> None:
    numbers = itertools.count()

    def next_request(client: int) -> bytes | None:
        if stop.is_set():
            return None
        spec = {"name": f"meanwhile-{next(numbers)}", "command": "true", "hold": True, "tags": ["meanwhile"]}
        body = json.dumps({"tenant": tenant, "spec": spec}).encode()
        return request("POST", "/api/v1/jobs", token=token, body=body)

    outcome = drive(url, next_request, clients=SUBMITTERS, wanted=201, rate=rate)
    answer = {"per_second": outcome.rate, "p99_ms": outcome.percentile(99), "errors": float(sum(outcome.errors.values()))}
    pipe.send(answer)  # type: ignore[attr-defined]  # A connection; its class differs between systems.


def _measure(
    berth: RunningPlatform, bench: Bench, pages: list[Page], repeats: int
) -> tuple[dict[tuple[str, str, int], list[float]], Counter[str]]:
    order = [page for page in pages for _ in range(repeats)]
    random.Random(1).shuffle(order)
    warm = list(pages)
    asked: list[Page] = []
    waiting = iter([*warm, *order])
    latencies: dict[tuple[str, str, int], list[float]] = defaultdict(list)
    errors: Counter[str] = Counter()

    def next_request(client: int) -> bytes | None:
        page = next(waiting, None)
        if page is None:
            return None
        asked.append(page)
        bench.progress(f"{len(asked)} of {len(warm) + len(order)} pages")
        return page.bytes

    def receive(client: int, answer: Answer) -> None:
        page = asked[-1]
        if answer.status != 200:
            errors[f"{page.name}: {answer.status}"] += 1
        elif len(asked) > len(warm):
            latencies[page.reader, page.name, page.depth].append(1000 * (answer.ended - answer.began))

    drive(berth.url, next_request, clients=1, wanted=200, receive=receive)
    return latencies, errors


def _report(
    bench: Bench,
    latencies: dict[tuple[str, str, int], list[float]],
    errors: Counter[str],
    submitted: dict[str, float],
    options: argparse.Namespace,
) -> None:
    bench.record("milliseconds", {" / ".join(map(str, key)): sorted(found) for key, found in latencies.items()})
    for (reader, name, depth), found in sorted(latencies.items()):
        text = " ".join(f"p{percent} {number(_percentile(found, percent))}" for percent in (50, 95, 99))
        bench.say(f"{reader}: {name}, page {depth}: {text} ms")
    first = [value for (_, name, depth), found in latencies.items() if depth == 1 and name != "counts" for value in found]
    deep = [value for (_, _, depth), found in latencies.items() if depth > 1 for value in found]
    note = f"{options.jobs} jobs, {options.tenants} tenants, {submitted.get('per_second', 0):.0f} submissions/s beside it"
    levels = ((first, "first-page", 150.0, 40.0), (deep, "deep-page", 300.0, 60.0))
    for values, name, accept, aim in levels:
        if values:
            for percent in (50, 95, 99):
                is_judged = percent == 95
                bench.figure(
                    f"{name}-p{percent}", _percentile(values, percent), "ms", less_is_better=True, note=note,
                    accept=accept if is_judged else None, aim=aim if is_judged else None,
                )  # fmt: skip
    slowest = max(((_percentile(found, 95), key) for key, found in latencies.items()), default=(0.0, ("", "", 0)))
    bench.figure("slowest-kind-p95", slowest[0], "ms", less_is_better=True, note=f"{slowest[1]}")
    counts = [value for (_, name, _), found in latencies.items() if name == "counts" for value in found]
    if counts:
        bench.figure("counts-p95", _percentile(counts, 95), "ms", less_is_better=True)
    wrong = float(errors.total() + submitted.get("errors", 0))
    bench.figure("errors", wrong, "", accept=0, less_is_better=True, note=str(dict(errors) or ""))


def _percentile(values: list[float], percent: float) -> float:
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(len(ordered) * percent / 100))]
