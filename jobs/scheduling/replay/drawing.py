"""Curves over time as SVG, readable on light and dark ground."""

from __future__ import annotations

import html
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime

WIDTH, LEFT, RIGHT, TOP, PLOT, GAP = 860, 70, 170, 44, 200, 70
COLOURS = ("#2b6cb0", "#dd6b20", "#38a169", "#805ad5")
Steps = Sequence[tuple[int, float]]
"""Moments in seconds since 1970, each with the value from then on."""


def curves(title: str, panels: Mapping[str, Mapping[str, Steps]], begins_at: int, ends_at: int) -> str:
    """One panel above the other over the same time; a line in steps for each name."""
    height = TOP + len(panels) * (PLOT + GAP)
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" role="img" aria-label="{html.escape(title)}" '
        'font-family="system-ui, sans-serif" font-size="13">',
        "<style>text { fill: #1a202c } @media (prefers-color-scheme: dark) { text { fill: #e2e8f0 } }</style>",
        f'<text x="8" y="24" font-size="15" font-weight="600">{html.escape(title)}</text>',
    ]
    for number, (name, series) in enumerate(panels.items()):
        lines += _panel(name, series, TOP + number * (PLOT + GAP) + 20, begins_at, max(ends_at, begins_at + 1))
    return "\n".join([*lines, "</svg>", ""])


def _panel(name: str, series: Mapping[str, Steps], top: int, begins_at: int, ends_at: int) -> list[str]:
    high = max((value for steps in series.values() for _, value in steps), default=0) or 1.0
    width = WIDTH - LEFT - RIGHT
    lines = [f'<text x="{LEFT}" y="{top - 8}">{html.escape(name)}</text>']
    for part in range(5):
        y = top + PLOT - PLOT * part / 4
        lines += [
            f'<path d="M{LEFT} {y:.1f} h{width}" stroke="#a0aec0" stroke-width="0.5"/>',
            f'<text x="{LEFT - 6}" y="{y + 4:.1f}" text-anchor="end">{high * part / 4:.4g}</text>',
        ]
    for part in range(5):
        at = begins_at + (ends_at - begins_at) * part // 4
        moment = datetime.fromtimestamp(at, UTC).strftime("%m-%d %H:%M")
        lines.append(f'<text x="{LEFT + width * part / 4:.1f}" y="{top + PLOT + 18}" text-anchor="middle">{moment}</text>')
    for number, (label, steps) in enumerate(series.items()):
        colour = COLOURS[number % len(COLOURS)]
        points, before = [], 0.0
        for at, value in _thinned(steps):
            if begins_at <= at <= ends_at:
                x = LEFT + (at - begins_at) / (ends_at - begins_at) * width
                points += [f"{x:.1f},{_y(before, high, top):.1f}", f"{x:.1f},{_y(value, high, top):.1f}"]
            before = value
        points.append(f"{LEFT + width:.1f},{_y(before, high, top):.1f}" if points else f"{LEFT},{top + PLOT}")
        lines += [
            f'<polyline points="{" ".join(points)}" fill="none" stroke="{colour}" stroke-width="1.5"/>',
            f'<rect x="{LEFT + width + 10}" y="{top + 18 * number + 4}" width="18" height="3" fill="{colour}"/>',
            f'<text x="{LEFT + width + 34}" y="{top + 18 * number + 10}">{html.escape(label)}</text>',
        ]
    return lines


def _y(value: float, high: float, top: int) -> float:
    return top + PLOT - value / high * PLOT


def _thinned(steps: Steps) -> Steps:
    """At most as many points as can be told apart on screen: of each stretch the highest."""
    many = 2 * (WIDTH - LEFT - RIGHT)
    if len(steps) <= many:
        return steps
    size = -(-len(steps) // many)
    return [max(steps[start : start + size], key=lambda step: step[1]) for start in range(0, len(steps), size)]
