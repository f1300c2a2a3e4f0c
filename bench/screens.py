"""The portal in Chromium with a million jobs behind it: how long until something is there to read, and what live updates cost.

A platform of the production profile serves the built portal; an operator, who sees every job of 200 tenants, opens pages that
were opened before (scripts are in the browser's cache, answers are not). Told is the time from the navigation to the first row
drawn, as the page's own clock has it; then the script time of each change while held jobs come in at a steady rate, the longest
task of the main thread meanwhile, and how the heap of a page grows that follows 10,000 lines a second.
"""

from __future__ import annotations

import argparse
import json
import time
from typing import Any

from bench.frame import Bench, BenchError
from bench.lists import _submitting
from bench.platforms import RunningPlatform, running_platform
from bench.seeding import seed
from tools import portal

CHROMIUM = "/usr/bin/chromium"
PATIENCE_MS = 60_000
TASKS = 1_000
WAITING = 10_000
LINES_PER_SECOND = 10_000
LOG_SECONDS = (10, 40)  # The heap is read at both times.
# Run in the page before its own scripts: when the first row with content was there, and every long task.
WATCH = """
window.__rows = null; window.__long = [];
new PerformanceObserver((list) => { for (const entry of list.getEntries()) window.__long.push(entry.duration); })
  .observe({ type: 'longtask', buffered: true });
const look = () => {
  if (window.__rows !== null || !document.querySelector(window.__wanted)) return;
  requestAnimationFrame(() => { window.__rows ??= performance.now(); });
};
new MutationObserver(look).observe(document, { childList: true, subtree: true });
"""
ROW = "[role=table] [role=row][aria-rowindex='2'], main table tbody tr"
BOUNDS = {"jobs": (1_000.0, 400.0), "tasks": (1_000.0, 1_000.0), "board": (1_000.0, 1_000.0)}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--jobs", type=int, default=1_000_000, help="jobs that there are; default a million")
    parser.add_argument("--tenants", type=int, default=200, help="default 200")
    parser.add_argument("--visits", type=int, default=10, help="of each page; default 10")
    parser.add_argument("--changes-per-second", type=float, default=100.0, help="while a list is looked at; default 100")


def run(options: argparse.Namespace, bench: Bench) -> None:
    try:
        from playwright.sync_api import sync_playwright
    except ImportError:
        raise BenchError("playwright is missing: run it as `make bench ONLY=SCREENS`") from None
    built = portal.build(portal.cache_folder())
    settings = {"BERTH_LOCAL_CPU_MILLIS": "1000", "BERTH_LOCAL_ISOLATION": "none", "BERTH_PORTAL_DIR": str(built)}
    with running_platform(profile="production", **settings) as berth, sync_playwright() as playwright:
        seeded = seed(berth, bench, jobs=options.jobs, tenants=options.tenants)
        bench.record("jobs", berth.rows("SELECT count(*) FROM jobs_job")[0][0])
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        context = _signed_in(browser, berth)
        note = f"{options.jobs} jobs, {options.tenants} tenants"
        _time(bench, context, "jobs", "/jobs", ROW, options.visits, note)
        _time(bench, context, "jobs-of-a-state", "/jobs?state=failed&sort=finished", ROW, options.visits, note, "jobs")
        _time(bench, context, "jobs-by-text", "/jobs?q=train", ROW, options.visits, note, "jobs")
        job = _with_tasks(berth, TASKS)
        _time(bench, context, "tasks", f"/jobs/{job}/tasks", ROW, options.visits, f"{TASKS} tasks")
        queue = _with_waiting(berth, bench, WAITING)
        _time(bench, context, "board", f"/queues/{queue}", ROW, options.visits, f"{WAITING} waiting jobs")
        _live(bench, context, berth, options.changes_per_second)
        _log(bench, context, berth)
        browser.close()
        bench.record("seed_seconds", seeded.seconds)


def _signed_in(browser: Any, berth: RunningPlatform) -> Any:
    credentials = json.loads((berth.data_dir / "first-credentials.json").read_text())
    context = browser.new_context(base_url=berth.url, viewport={"width": 1360, "height": 900})
    context.set_default_timeout(PATIENCE_MS)
    answer = context.request.post("/api/v1/session", data={"name": credentials["user"], "password": credentials["password"]})
    if not answer.ok:
        raise BenchError(f"signing in: {answer.status} {answer.text()[:500]}")
    return context


def _time(bench: Bench, context: Any, name: str, path: str, wanted: str, visits: int, note: str, bound: str = "") -> None:
    """How long until the first row is drawn; the first visit warms up and is not counted."""
    found = []
    for visit in range(visits + 1):
        bench.progress(f"{name}: visit {visit}")
        page = context.new_page()
        page.add_init_script(f"window.__wanted = {json.dumps(wanted)};{WATCH}")
        page.goto(path)
        page.locator(wanted).first.wait_for()
        page.wait_for_timeout(100)
        if visit:
            found.append(page.evaluate("window.__rows"))
        page.close()
    accept, aim = BOUNDS[bound or name]
    ordered = sorted(found)
    bench.record(f"{name}_ms", ordered)
    p95 = ordered[min(len(ordered) - 1, int(len(ordered) * 0.95))]
    bench.figure(f"{name}-to-rows-p50", ordered[len(ordered) // 2], "ms", less_is_better=True, note=note)
    bench.figure(f"{name}-to-rows-p95", p95, "ms", less_is_better=True, accept=accept, aim=aim, note=note)


def _with_tasks(berth: RunningPlatform, count: int) -> str:
    """A job that ran with so many tasks: one really ran, its task's row is copied."""
    spec = {"name": "wide", "command": "true", "resources": {"cpu": "10m", "memory": "16Mi"}}
    job = berth.api("POST", "/jobs", {"tenant": berth.tenant, "spec": spec})["id"]
    deadline = time.monotonic() + 60
    while berth.api("GET", f"/jobs/{job}")["state"] != "succeeded":
        if time.monotonic() > deadline:
            raise BenchError("the job that is to be widened did not end")
        time.sleep(0.2)
    import psycopg

    assert berth.stores is not None
    columns = [name for name in berth.columns("jobs_task") if name not in {"id", "index"}]
    names = ", ".join(f'"{name}"' for name in columns)
    with psycopg.connect(berth.stores.database_url, autocommit=True) as connection:
        connection.execute(
            f'INSERT INTO jobs_task (id, "index", {names}) SELECT gen_random_uuid(), n, {names} FROM jobs_task, '  # type: ignore[arg-type]
            f"generate_series(1, {count - 1}) AS n WHERE attempt_id IN (SELECT id FROM jobs_attempt WHERE job_id = '{job}')"
        )
    return str(job)


def _with_waiting(berth: RunningPlatform, bench: Bench, count: int) -> str:
    """A queue with so many jobs that wait; its id."""
    spec = {"name": "patient", "command": "sleep 3600", "resources": {"cpu": "1", "memory": "16Mi"}, "max_runtime": "2h"}
    for start in range(0, count, 1_000):
        bench.progress(f"{start} waiting jobs")
        berth.api(
            "POST", "/jobs:batch", {"tenant": berth.tenant, "spec": spec, "items": [{} for _ in range(min(1_000, count - start))]}
        )
    job = berth.api("GET", "/jobs?name=patient&limit=1")["items"][0]
    return str(job["queue"]["id"])


def _live(bench: Bench, context: Any, berth: RunningPlatform, rate: float) -> None:
    """What changes cost a page that shows the list: script time each, and the longest task."""
    page = context.new_page()
    page.add_init_script(f"window.__wanted = {json.dumps(ROW)};{WATCH}")
    page.goto("/jobs")
    page.locator(ROW).first.wait_for()
    page.wait_for_timeout(3_000)
    devtools = context.new_cdp_session(page)
    devtools.send("Performance.enable")
    with _submitting(berth, rate) as submitted:
        before, began = _script_seconds(devtools), time.monotonic()
        page.evaluate("window.__long.length = 0")
        page.wait_for_timeout(15_000)
        script, seconds = _script_seconds(devtools) - before, time.monotonic() - began
        long = page.evaluate("window.__long")
    reached = submitted.get("per_second", 0.0)
    changes = max(1.0, reached * seconds)
    note = f"{reached:.0f} changes/s over {seconds:.0f} s"
    bench.figure("script-per-change", 1_000 * script / changes, "ms", less_is_better=True, accept=8, note=note)
    bench.figure("longest-task", max(long, default=0.0), "ms", less_is_better=True, accept=50, note=f"{len(long)} over 50 ms")
    page.close()


def _log(bench: Bench, context: Any, berth: RunningPlatform) -> None:
    """The heap of a page that follows a job which prints so many lines a second."""
    part = LINES_PER_SECOND // 10
    program = (
        "import sys,time\nn=0\nwhile True:\n begin=time.time()\n"
        f" sys.stdout.write(''.join(f'line {{n+i}} of what a job prints while it works\\n' for i in range({part})))\n"
        f" sys.stdout.flush()\n n+={part}\n time.sleep(max(0,0.1-(time.time()-begin)))\n"
    )
    small = {"cpu": "10m", "memory": "64Mi"}
    spec = {"name": "prints", "command": ["python3", "-c", program], "resources": small, "max_runtime": "5m", "priority": "high"}
    job = berth.api("POST", "/jobs", {"tenant": berth.tenant, "spec": spec})["id"]
    # Only now that it is there, and above the others, is it next: one of those that wait would take the whole node.
    for patient in berth.api("GET", "/jobs?name=patient&state=running&limit=10")["items"]:
        berth.api("POST", f"/jobs/{patient['id']}/stop", {"grace_seconds": 0})
    page = context.new_page()
    page.goto(f"/jobs/{job}/logs")
    page.get_by_role("log").get_by_text("line ").first.wait_for()
    devtools = context.new_cdp_session(page)
    began, heaps = time.monotonic(), []
    for moment in LOG_SECONDS:
        page.wait_for_timeout(max(0, 1_000 * (moment - (time.monotonic() - began))))
        devtools.send("HeapProfiler.collectGarbage")
        heaps.append(page.evaluate("performance.memory.usedJSHeapSize") / 2**20)
    shown = page.get_by_role("log").inner_text().strip().splitlines()[-1][:40]
    berth.api("POST", f"/jobs/{job}/stop", {"grace_seconds": 0})
    bench.record("heap_mib", heaps)
    note = f"{heaps[0]:.0f} MiB after {LOG_SECONDS[0]} s, {heaps[1]:.0f} after {LOG_SECONDS[1]} s; last shown: {shown}"
    bench.figure("log-heap-growth", heaps[1] / heaps[0], "x", less_is_better=True, accept=1.5, note=note)
    page.close()


def _script_seconds(devtools: Any) -> float:
    metrics = {entry["name"]: entry["value"] for entry in devtools.send("Performance.getMetrics")["metrics"]}
    return float(metrics["ScriptDuration"])
