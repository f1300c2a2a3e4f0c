"""Bars as SVG, readable on light and dark ground, drawn from a benchmark's own JSON file: `python -m bench.drawing FILE OUT`."""

from __future__ import annotations

import html
import json
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


def main(arguments: Sequence[str]) -> int:
    source, target = arguments
    document = json.loads(Path(source).read_text())
    rates: Mapping[str, Sequence[float]] = document["records"]["jobs_per_second"]
    Path(target).write_text(bars("No-op jobs from submission to stored end", "jobs/s", rates))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
