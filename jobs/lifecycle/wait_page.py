"""`docs/wait-reasons.md`, made from the catalogue of wait reasons."""

from __future__ import annotations

from jobs.lifecycle.wait_reasons import WAITS
from jobs.lifecycle.wait_record import WaitRecord, WaitSource
from kernel.wait_codes import WaitCode

_HEAD = """# Wait reasons

Why a job waits, by code: `reason.code` of the API, whose words the portal and the command line show, and the conditions that
`berth explain` lists. Words and hints are given with example amounts, in English and Chinese;
[why a job waits](explaining.md) tells how to read them.

The stage is how far a job came that is refused so: of several pools, the reason of the one with the largest stage is shown.

This page is made from the code by `manage.py reference`.
"""
_SECTIONS = {
    WaitSource.JOB: (
        "The job itself",
        "What withholds a job before the scheduler looks for room.",
    ),
    WaitSource.POOL: (
        "No pool takes it",
        "What a pool, its cluster or its nodes cannot do, however much is free. `shm` and `ports` refuse a submission.",
    ),
    WaitSource.CORE: (
        "The scheduler's answers",
        "What a pass of the scheduler found. Where another code is shown, `berth explain` still gives this one with its numbers.",
    ),
    WaitSource.SHOWN: (
        "Shown for an answer of the scheduler",
        "What a job shows in place of a code above.",
    ),
    WaitSource.HISTORY: (
        "What came before",
        "A job that was not looked at yet, continues from an earlier attempt, or has children.",
    ),
}


def wait_reasons_page() -> str:
    """The reference of all codes."""
    return _HEAD + "".join(_section(source) for source in _SECTIONS)


def _section(source: WaitSource) -> str:
    title, about = _SECTIONS[source]
    records = sorted(
        (record for record in WAITS.values() if record.source is source), key=lambda record: (record.stage, record.code)
    )
    places = _places()
    head = "\n| code | stage | words | hint |\n|---|---|---|---|\n"
    return f"\n## {title}\n\n{about}\n{head}{''.join(_row(record, places.get(record.code, '')) for record in records)}"


def _places() -> dict[WaitCode, str]:
    """The stages as places, from 1: only their order means anything."""
    staged = [record for record in WAITS.values() if record.stage or record.is_unfit]
    return {record.code: str(place) for place, record in enumerate(sorted(staged, key=lambda record: record.stage), start=1)}


def _row(record: WaitRecord[WaitCode], place: str) -> str:
    words, hint = f"shown as `{record.shown_as}`", ""
    if record.words is not None:
        words = f"{record.words.en(record.amounts)}<br>{record.words.zh(record.amounts)}"
        hint = "<br>".join(filter(None, (record.hint.en, record.hint.zh)))
    return f"| `{record.code}` | {place} | {_cell(words)} | {_cell(hint)} |\n"


def _cell(text: str) -> str:
    return text.replace("|", "\\|")
