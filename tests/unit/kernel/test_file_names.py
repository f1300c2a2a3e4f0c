"""Names of files as text: it prints, and it gives the same bytes back. The command line has a copy of the rule."""

from __future__ import annotations

import os
from types import ModuleType

import pytest
from hypothesis import given
from hypothesis import strategies as st

from berth import file_names as of_the_client
from kernel import file_names as of_the_server

SIDES = pytest.mark.parametrize("side", [of_the_server, of_the_client], ids=["server", "client"])
_PIECES = [b"\\", b"x", b"0", b"a", b"\xff", b"\xc3", b"\xe6\xb7\xb1", b"\n", b"\xc2\x85", b"\x7f", b"/"]


@SIDES
@given(st.lists(st.sampled_from(_PIECES) | st.binary(min_size=1, max_size=3).filter(lambda some: b"\0" not in some), max_size=12))
def test_every_name_comes_back_from_its_text(side: ModuleType, pieces: list[bytes]) -> None:
    path = os.fsdecode(b"".join(pieces))
    text = side.text_of(path)
    assert side.path_of(text) == path
    assert of_the_server.is_text(text)
    assert of_the_server.text_of(path) == of_the_client.text_of(path)


@SIDES
def test_an_ordinary_name_is_its_own_text(side: ModuleType) -> None:
    for name in ("a b%20.txt", "深/数据.bin", "c'est l'été"):
        assert (side.text_of(name), side.path_of(name)) == (name, name)
    assert side.text_of(os.fsdecode(b"a\nb\xff\\")) == r"a\x0ab\xff" + "\\\\"
    assert side.path_of(r"dos\name") == r"dos\name"  # As people type it.


@SIDES
@pytest.mark.parametrize("text", [r"a\x00b", r"a\x2fetc", r"\x2Fetc"])
def test_no_text_hides_a_slash_or_the_end_of_a_name(side: ModuleType, text: str) -> None:
    with pytest.raises(ValueError, match="slash"):
        side.path_of(text)
