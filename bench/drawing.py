"""Bars and curves as SVG, readable on light and dark ground.

`python -m bench.drawing FILE OUT` draws the bars of P2 from its JSON file; other benchmarks draw what they found themselves.
"""

from __future__ import annotations

import html
import json
import math
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

WIDTH, LABEL, BAR, GAP, TOP = 720, 190, 22, 10, 44
COLOURS = ("#2b6cb0", "#718096")  # Ours, and others'.


def bars(title: str, unit: str, values: Mapping[str, Sequence[float]], *, ours: str = "berth") -> str:
    """One bar for the median of each, with a line from the least to the greatest."""
    rows = {name: sorted(samples) for name, samples in values.items() if samples}
    scale = (WIDTH - LABEL - 110) / max((samples[-1] for samples in rows.values()), default=1.0)
    height = TOP + len(rows) * (BAR + GAP) + 8
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" role="img" aria-label="{html.escape(title)}" '
        'font-family="system-ui, sans-serif" font-size="13">',
        "<style>text { fill: #1a202c } @media (prefers-color-scheme: dark) { text { fill: #e2e8f0 } }</style>",
        f'<text x="8" y="24" font-size="15" font-weight="600">{html.escape(title)}</text>',
    ]
    for position, (name, samples) in enumerate(rows.items()):
        y = TOP + position * (BAR + GAP)
        median = samples[len(samples) // 2] if len(samples) % 2 else sum(samples[len(samples) // 2 - 1 :][:2]) / 2
        colour = COLOURS[0] if name.startswith(ours) else COLOURS[1]
        low, high = (LABEL + value * scale for value in (samples[0], samples[-1]))
        lines += [
            f'<text x="{LABEL - 8}" y="{y + 16}" text-anchor="end">{html.escape(name)}</text>',
            f'<rect x="{LABEL}" y="{y}" width="{median * scale:.1f}" height="{BAR}" rx="2" fill="{colour}"/>',
            f'<line x1="{low:.1f}" x2="{high:.1f}" y1="{y + BAR / 2}" y2="{y + BAR / 2}" stroke="#e53e3e" stroke-width="2"/>',
            f'<text x="{max(median * scale + LABEL, high) + 8:.1f}" y="{y + 16}">{median:.3g} {html.escape(unit)}</text>',
        ]
    return "\n".join([*lines, "</svg>", ""])


LINES = ("#2b6cb0", "#dd6b20", "#718096", "#38a169", "#805ad5", "#d53f8c")
LEFT, RIGHT, PLOT = 60, 120, 300  # Room for the scale, for the names, and the height of the curves.


def curves(title: str, across: str, up: str, series: Mapping[str, Sequence[float]], *, low: float = 0.0, start: int = 1) -> str:
    """One line per name through its values at 1, 2, 3 ... across, drawn from `start`; the scale upwards begins at `low`."""
    longest = max(map(len, series.values()))
    high = max(max(values) for values in series.values())
    width, height = WIDTH - LEFT - RIGHT, TOP + PLOT + 48

    def x(position: float) -> float:
        return LEFT + (position - start) / max(1, longest - start) * width

    def y(value: float) -> float:
        return TOP + PLOT - (max(value, low) - low) / ((high - low) or 1.0) * PLOT

    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" role="img" aria-label="{html.escape(title)}" '
        'font-family="system-ui, sans-serif" font-size="13">',
        "<style>text { fill: #1a202c } @media (prefers-color-scheme: dark) { text { fill: #e2e8f0 } }</style>",
        f'<text x="8" y="24" font-size="15" font-weight="600">{html.escape(title)}</text>',
        f'<text x="{LEFT + width / 2:.0f}" y="{height - 8}" text-anchor="middle">{html.escape(across)}</text>',
        f'<text transform="translate(14 {TOP + PLOT / 2:.0f}) rotate(-90)" text-anchor="middle">{html.escape(up)}</text>',
    ]
    for value in _ticks(low, high):
        lines += [
            f'<path d="M{LEFT} {y(value):.1f} h{width}" stroke="#a0aec0" stroke-width="0.5"/>',
            f'<text x="{LEFT - 6}" y="{y(value) + 4:.1f}" text-anchor="end">{value:g}</text>',
        ]
    lines += [
        f'<text x="{x(value):.1f}" y="{TOP + PLOT + 18}" text-anchor="middle">{value:g}</text>'
        for value in _ticks(start, longest)
    ]
    below = 0.0
    for (name, values), colour in zip(sorted(series.items(), key=lambda entry: -entry[1][-1]), LINES, strict=False):
        points = " ".join(f"{x(position):.1f},{y(value):.1f}" for position, value in enumerate(values, 1) if position >= start)
        below = max(below + 18, y(values[-1]) + 4)  # Names do not lie on one another.
        lines += [
            f'<polyline points="{points}" fill="none" stroke="{colour}" stroke-width="2"/>',
            f'<text x="{LEFT + width + 6}" y="{below:.1f}">{html.escape(name)} {values[-1]:.4g}</text>',
            f'<rect x="{LEFT + width + 6}" y="{below + 3:.1f}" width="24" height="2" fill="{colour}"/>',
        ]
    return "\n".join([*lines, "</svg>", ""])


def points(title: str, across: str, up: str, series: Mapping[str, Mapping[int, float]]) -> str:
    """A line per name through its points, both scales by powers of ten."""
    xs = [math.log10(size) for values in series.values() for size in values]
    ys = [math.log10(value) for values in series.values() for value in values.values()]
    left, right, low, high = math.floor(min(xs)), math.ceil(max(xs)), math.floor(min(ys)), math.ceil(max(ys))
    width, height = WIDTH - LEFT - RIGHT, TOP + PLOT + 48

    def x(size: float) -> float:
        return LEFT + (math.log10(size) - left) / max(1, right - left) * width

    def y(value: float) -> float:
        return TOP + PLOT - (math.log10(value) - low) / max(1, high - low) * PLOT

    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" role="img" aria-label="{html.escape(title)}" '
        'font-family="system-ui, sans-serif" font-size="13">',
        "<style>text { fill: #1a202c } @media (prefers-color-scheme: dark) { text { fill: #e2e8f0 } }</style>",
        f'<text x="8" y="24" font-size="15" font-weight="600">{html.escape(title)}</text>',
        f'<text x="{LEFT + width / 2:.0f}" y="{height - 8}" text-anchor="middle">{html.escape(across)}</text>',
        f'<text transform="translate(14 {TOP + PLOT / 2:.0f}) rotate(-90)" text-anchor="middle">{html.escape(up)}</text>',
    ]
    for power in range(low, high + 1):
        lines += [
            f'<path d="M{LEFT} {y(10.0**power):.1f} h{width}" stroke="#a0aec0" stroke-width="0.5"/>',
            f'<text x="{LEFT - 6}" y="{y(10.0**power) + 4:.1f}" text-anchor="end">{10.0**power:g}</text>',
        ]
    lines += [
        f'<text x="{x(10.0**power):.1f}" y="{TOP + PLOT + 18}" text-anchor="middle">{10**power:g}</text>'
        for power in range(left, right + 1)
    ]
    for number, (name, values) in enumerate(series.items()):
        colour = LINES[number % len(LINES)]
        path = " ".join(f"{x(size):.1f},{y(value):.1f}" for size, value in sorted(values.items()))
        lines += [
            f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="2"/>',
            f'<rect x="{LEFT + 10}" y="{TOP + 12 + 18 * number}" width="24" height="2" fill="{colour}"/>',
            f'<text x="{LEFT + 40}" y="{TOP + 17 + 18 * number}">{html.escape(name)}</text>',
        ]
    return "\n".join([*lines, "</svg>", ""])


def _ticks(low: float, high: float) -> list[float]:
    """Round numbers between two, about five of them."""
    rough = (high - low) / 5 or 1.0
    power = 10.0 ** math.floor(math.log10(rough))
    step = next(power * factor for factor in (1, 2, 5, 10) if power * factor >= rough)
    first = math.ceil(low / step)
    return [step * number for number in range(first, math.floor(high / step) + 1)]


def main(arguments: Sequence[str]) -> int:
    source, target = arguments
    document = json.loads(Path(source).read_text())
    rates: Mapping[str, Sequence[float]] = document["records"]["jobs_per_second"]
    Path(target).write_text(bars("No-op jobs from submission to stored end", "jobs/s", rates))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
