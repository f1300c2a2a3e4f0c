"""What a pod tells of its files is untrusted: its image has the programs that list them."""

from __future__ import annotations

import pytest

from clusters.engines.kubernetes.outputs import read_listing

TWO = b"2\n5 644\n12 4755\n./a\0./b/two\nlines\0"


def test_batches_of_a_listing_are_read_one_after_the_other() -> None:
    assert list(read_listing(TWO + b"1\n0 600\n./\xff\0")) == [
        ("a", 5, 0o644),
        ("b/two\nlines", 12, 0o4755),
        ("\udcff", 0, 0o600),
    ]


@pytest.mark.parametrize(
    "rest",
    [b"", b"x\n", b"2\n5 644\n", b"1\n5 644\n./cut", b"1\n5 999\n./a\0", b"1\n-5 644\n./a\0", b"9" * 5000 + b"\n", b"1\n\0"],
)
def test_what_is_no_listing_is_passed_over(rest: bytes) -> None:
    assert len(list(read_listing(TWO + rest))) == 2
