"""What a round tells: figures as JSON, as a page of text, and as a picture of throughput with a mark for each fault."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict
from html import escape
from typing import Any

from tests.chaos.rounds import Outcome, is_broken
from tests.chaos.watching import spread
from tests.histories.report import INVARIANTS

WIDTH, HEIGHT, LEFT, TOP, BOTTOM = 1200, 420, 60, 70, 60
BINS = 120
COLOURS = {"kill": "#c0392b", "freeze": "#2980b9", "redis": "#8e44ad", "database": "#d68910", "die": "#7b241c"}


def figures(outcome: Outcome) -> dict[str, Any]:
    """Every figure of the round."""
    tally, quota = outcome.tally, outcome.quota
    return {
        "seed": outcome.options.seed,
        "profile": outcome.options.profile,
        "holds": outcome.holds,
        "seconds": round(outcome.seconds, 1),
        "lease_seconds": outcome.options.lease_seconds,
        "jobs": outcome.facts,
        "invariants": {
            name: {"violations": len(outcome.report.of(name)), "checked": dict(outcome.report.checked[name])}
            for name in INVARIANTS
        },
        "violations": [*outcome.violations, *(f"{each.invariant}: {each.what}" for each in outcome.report.violations)][:200],
        "faults": dict(Counter(str(fault["what"]) for fault in broken(outcome)).most_common()),
        "fault_times": outcome.faults,
        "takeover_seconds": outcome.takeovers,
        "address": outcome.probe,
        "without_service": outcome.service,
        "stops_by_state": outcome.stops,
        "differences": [f"{each.invariant}: {each.what}" for each in outcome.report.findings][:200],
        "quota": None if quota is None else asdict(quota),
        "requests": dict(tally.requests.most_common()),
        "answers": dict(tally.answers.most_common()),
        "repeated": dict(tally.retries.most_common()),
        "seconds_until_promised": spread([seconds for _, seconds in tally.ack_seconds]),
        "seconds_of_an_answer": spread(tally.answer_seconds),
    }  # fmt: skip


def broken(outcome: Outcome) -> list[dict[str, Any]]:
    """The faults, without what only ended one."""
    return [fault for fault in outcome.faults if is_broken(fault)]


def text(outcome: Outcome) -> str:
    """A page to read."""
    facts = figures(outcome)
    jobs = facts["jobs"]
    lines = [
        f"Chaos round of {facts['seconds']:.0f} s, profile {facts['profile']}, seed {facts['seed']}: "
        + ("everything held" if facts["holds"] else "BROKEN"),
        "",
        f"  Jobs        {jobs.get('promised', 0)} promised to nine clients, {jobs.get('stored', 0)} stored with array children: "
        + ", ".join(f"{number} {state}" for state, number in sorted(jobs.get("states", {}).items())),
        f"  Attempts    {_checked(facts, 'I2', 'intervals')} ran, of {_checked(facts, 'I2', 'jobs')} jobs; "
        f"overlaps: {facts['invariants']['I2']['violations']}",
        f"  Faults      {sum(facts['faults'].values())}: "
        + ", ".join(f"{number} x {what}" for what, number in facts["faults"].items()),
        f"  Requests    {sum(facts['requests'].values())} sent; repeated {_times(facts['repeated']) or 'none'}; "
        f"promised within {_spread(facts['seconds_until_promised'])}",
        f"  Address     {facts['address'].get('asked', 0)} probes, {facts['address'].get('unanswered', 0)} unanswered; "
        f"gaps {_spread(facts['address'].get('gaps_seconds', {}))}",
    ]
    if facts["quota"]:
        quota = facts["quota"]
        lines.append(
            f"  Quotas      {quota['samples']} samples at commits, {quota['over']} above a ceiling, {quota['drifted']} beside "
            f"the kept sums; fullest {quota['fullest']:.0%}"
        )
    lines.append("  Stops       that met a job " + (_times(facts["stops_by_state"]) or "none"))
    lines.append(f"  Rest        {jobs.get('rest_after_healing_seconds', 0):.1f} s after everything was healed")
    lines += ["", "  Until another process held what one had held; (wide): while the database or everything was broken too"]
    lines += [f"    {name:<18} {_spread(values)}" for name, values in facts["takeover_seconds"].items()]
    for what, found in facts["without_service"].items():
        lines += ["", f"  Without service ({what}), by the fault that it began with"]
        lines += [f"    {fault:<40} {_outage(outage)}" for fault, outage in found.items()] or ["    never"]
    lines += ["", "  Invariants", outcome.report.text()]
    if outcome.violations:
        lines += ["", "  Beside the invariants", *(f"    {violation}" for violation in outcome.violations)]
    lines += ["", f"  Again: make chaos MINUTES={outcome.options.seconds / 60:g} SEED={outcome.options.seed}"]
    return "\n".join(lines) + "\n"


def _checked(facts: dict[str, Any], invariant: str, what: str) -> int:
    return int(facts["invariants"][invariant]["checked"].get(what, 0))


def _outage(outage: dict[str, Any]) -> str:
    hand = (
        f"; {outage['ended_by_hand']} ended by hand, {outage['ended_by_hand_seconds']:.1f} s" if outage["ended_by_hand"] else ""
    )
    return f"{outage['seconds']:.1f} s in {outage['gaps']} gaps, longest {outage['longest_seconds']:.1f} s{hand}"


def _times(counts: dict[str, int]) -> str:
    return ", ".join(f"{number} x {what}" for what, number in counts.items())


def _spread(values: dict[str, float]) -> str:
    if not values or not values["count"]:
        return "none"
    return f"median {values['median']:.2f} s, p95 {values['p95']:.2f} s, max {values['max']:.2f} s ({values['count']:.0f})"


def as_json(outcome: Outcome) -> str:
    return json.dumps(figures(outcome), indent=1, default=str) + "\n"


def picture(outcome: Outcome) -> str:
    """Jobs promised and jobs ended over time, and a coloured line for each fault."""
    end = max([*outcome.ended, *outcome.acked, outcome.seconds, 1.0])
    width = (WIDTH - LEFT - 20) / end
    bars = {"promised": _bins(outcome.acked, end), "ended": _bins(outcome.ended, end)}
    peak = max(max(values) for values in bars.values()) or 1.0
    height = HEIGHT - TOP - BOTTOM

    def y(value: float) -> float:
        return TOP + height * (1 - value / peak)

    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" font-family="sans-serif" font-size="12">',
        f'<rect width="{WIDTH}" height="{HEIGHT}" fill="white"/>',
        f'<text x="{LEFT}" y="22" font-size="16">Chaos round, seed {outcome.options.seed}: jobs a second, and faults</text>',
    ]
    for fault in broken(outcome):
        what = str(fault["what"])
        x = LEFT + fault["at"] * width
        parts.append(
            f'<line x1="{x:.1f}" y1="{TOP}" x2="{x:.1f}" y2="{TOP + height}" stroke="{COLOURS.get(what.split()[0], "#555")}" '
            f'stroke-opacity="0.45"><title>{fault["at"]:.1f} s: {escape(what)}</title></line>'
        )
    for name, colour in (("promised", "#7f8c8d"), ("ended", "#1e8449")):
        points = " ".join(
            f"{LEFT + (place + 0.5) * end / BINS * width:.1f},{y(value):.1f}" for place, value in enumerate(bars[name])
        )
        parts.append(f'<polyline points="{points}" fill="none" stroke="{colour}" stroke-width="2"/>')
    parts += [
        f'<text x="{LEFT - 8}" y="{TOP + 4}" text-anchor="end">{peak:.1f}/s</text>',
        f'<text x="{LEFT - 8}" y="{TOP + height}" text-anchor="end">0</text>',
        f'<text x="{LEFT}" y="{TOP + height + 18}">0 s</text>',
        f'<text x="{WIDTH - 20}" y="{TOP + height + 18}" text-anchor="end">{end:.0f} s</text>',
    ]
    legend = [("#7f8c8d", "promised"), ("#1e8449", "ended"), *((colour, name) for name, colour in COLOURS.items())]
    for place, (colour, name) in enumerate(legend):
        parts.append(f'<rect x="{LEFT + place * 110}" y="40" width="12" height="12" fill="{colour}"/>')
        parts.append(f'<text x="{LEFT + place * 110 + 18}" y="51">{name}</text>')
    return "\n".join([*parts, "</svg>"]) + "\n"


def _bins(times: Sequence[float], end: float) -> list[float]:
    """Events a second in each of the equal parts of the time."""
    counts = [0] * BINS
    for time in times:
        counts[min(BINS - 1, max(0, int(time / end * BINS)))] += 1
    return [count * BINS / end for count in counts]
