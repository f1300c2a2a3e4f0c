"""Lines by which a task says how far it is, out of whatever it prints."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from clusters.engines.interface import LogChunk
from jobs.lifecycle.progress import AMOUNT_MAX, LINE_BYTES, OpenLine, Progress, last_progress, read_progress, sum_of

NAME = "a stream"


def told(*pieces: bytes) -> Progress | None:
    """What a stream says last that comes in these pieces, one read each."""
    open_lines: dict[str, OpenLine] = {}
    found = [read_progress(open_lines, NAME, [chunk]) for chunk in chunks_of(pieces)]
    return next((progress for progress in reversed(found) if progress is not None), None)


def chunks_of(pieces: Sequence[bytes]) -> list[LogChunk]:
    offsets = [sum(len(piece) for piece in pieces[:number]) for number in range(len(pieces))]
    return [LogChunk(offset, piece) for offset, piece in zip(offsets, pieces, strict=True)]


@pytest.mark.parametrize(
    ("text", "progress"),
    [
        (b"berth: progress 3/10\n", Progress(3, 10)),
        (b"loss 0.3\nberth: progress 3/10\nloss 0.2\n", Progress(3, 10)),
        (b"berth: progress 3/10\nberth: progress 4/10\n", Progress(4, 10)),
        (b"berth: progress 3/10\r\n", Progress(3, 10)),
        (b"berth: progress 0/0\n", Progress(0, 0)),
        (b"berth: progress %d/%d\n" % (AMOUNT_MAX, AMOUNT_MAX), Progress(AMOUNT_MAX, AMOUNT_MAX)),
        (b"berth: progress 3/10\nberth: progress 11/10\nberth: progress 4/10", Progress(3, 10)),
        (b"", None),
        (b"berth: progress 3/10", None),
        (b" berth: progress 3/10\n", None),
        (b"step\rberth: progress 3/10\n", None),
        (b"berth: progress 3/10 steps\n", None),
        (b"berth: progress 3 / 10\n", None),
        (b"berth: progress  3/10\n", None),
        (b"berth: progress +3/10\n", None),
        (b"berth: progress -3/10\n", None),
        (b"berth: progress 3.0/10\n", None),
        (b"berth: progress 1_0/20\n", None),
        (b"berth: progress 3/\n", None),
        (b"berth: progress /10\n", None),
        (b"berth: progress 11/10\n", None),
        (b"berth: progress 1/%d\n" % (AMOUNT_MAX + 1), None),
        (b"berth: progress 1/99999999999999999\n", None),
        ("berth: progress ٣/١٠\n".encode(), None),
        (b"berth: progress 3/10\0\n", None),
        (b"BERTH: PROGRESS 3/10\n", None),
        (b"\xff\xfe\nberth: progress 3/10\n\xff", Progress(3, 10)),
    ],
)
def test_only_a_whole_line_of_this_kind_counts(text: bytes, progress: Progress | None) -> None:
    assert told(text) == progress
    assert last_progress(text) == progress


@pytest.mark.parametrize(
    "text",
    [
        b"begin\nberth: progress 3/10\nloss 1\nberth: progress 4/10\n",
        b"xberth: progress 3/10\nberth: progress 4/10\n",
        b"berth: progress 4/10\nno berth: progress 5/10\n",
        b"x" * 200 + b"berth: progress 3/10\n" + b"berth: progress 4/10\n",
    ],
)
def test_wherever_the_reads_are_cut_the_same_is_said(text: bytes) -> None:
    assert told(text) == Progress(4, 10)
    for cut in range(len(text)):
        assert told(text[:cut], text[cut:]) == Progress(4, 10), cut
    assert told(*(text[place : place + 1] for place in range(len(text)))) == Progress(4, 10)


def test_a_line_that_others_have_begun_never_counts_wherever_it_is_cut() -> None:
    text = b"epoch 1, berth: progress 3/10\n"
    for cut in range(len(text)):
        assert told(text[:cut], text[cut:]) is None, cut


def test_bytes_that_come_twice_count_once() -> None:
    open_lines: dict[str, OpenLine] = {}
    assert read_progress(open_lines, NAME, [LogChunk(0, b"berth: progress 1")]) is None
    assert read_progress(open_lines, NAME, [LogChunk(14, b"s 12/90\n")]) == Progress(12, 90)
    assert open_lines == {}


@pytest.mark.parametrize("gap", [LogChunk(17, b"", "lost", 5), LogChunk(22, b"0/90\n")])
def test_a_line_with_a_gap_in_it_does_not_count(gap: LogChunk) -> None:
    open_lines: dict[str, OpenLine] = {}
    assert read_progress(open_lines, NAME, [LogChunk(0, b"berth: progress 1"), gap]) is None
    assert read_progress(open_lines, NAME, [LogChunk(27, b"0/90\n")]) is None


def test_little_is_kept_of_a_stream_that_never_ends_its_line() -> None:
    open_lines: dict[str, OpenLine] = {}
    for number, piece in enumerate([b"berth: progress 1", *[b"1" * 10_000] * 50]):
        assert read_progress(open_lines, NAME, [LogChunk(number * 10_000, piece)]) is None
        assert len(open_lines[NAME].data) <= LINE_BYTES
    assert read_progress(open_lines, NAME, [LogChunk(600_000, b"\nberth: progress 2/3\n")]) == Progress(2, 3)


@pytest.mark.parametrize("piece", [b"berth: progress ", b"berth: progress x\n", b"\nberth: progress 9/1\n", b"\n", b"1"])
def test_hostile_output_is_read_once(piece: bytes) -> None:
    """As many looks as there are places that begin like it: none of them reads further than a line of this kind is long."""
    text = piece * 20_000
    assert told(text, text) is None
    assert told(text, b"\nberth: progress 2/3\n", text) == Progress(2, 3)


def test_progress_of_several_tasks_is_added_up_and_stays_exact_for_every_reader() -> None:
    assert sum_of([]) is None
    parts = [{"done": 3, "total": 10, "at": "2026-01-01T10:00:00Z"}, {"done": 1, "total": 20, "at": "2026-01-01T09:00:00Z"}]
    assert sum_of(parts) == {"done": 4, "total": 30, "at": "2026-01-01T10:00:00Z"}
    most = sum_of([{"done": AMOUNT_MAX // 2, "total": AMOUNT_MAX, "at": "2026-01-01T09:00:00Z"}] * 10_000)
    assert most is not None
    assert most["total"] <= AMOUNT_MAX
    assert most["done"] / most["total"] == pytest.approx(0.5)
