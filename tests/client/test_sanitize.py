"""What jobs and other users write must not reach the terminal as commands."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from berth.cli.output import json_text
from berth.sanitize import plain, sanitize_line

ATTACKS = [
    "\x1b]0;title\x07",
    "\x1b]8;;http://evil.test\x1b\\click\x1b]8;;\x1b\\",
    "\x1b]52;c;cm0gLXJm\x07",
    "\x1b]52;c;unterminated",
    "\x9d0;title\x9c",
    "\x1b[2J\x1b[H",
    "\x1b[6n",
    "\x1b[?1049h",
    "\x9b31;1H",
    "\x1bP+q544e\x1b\\",
    "\x1b_application\x1b\\",
    "\x1b^privacy\x1b\\",
    "\x1bc",
    "\x1b(0",
    "\x1b[8mhidden\x1b[0m",
    "\x1b[31",
    "\x1b",
    "\x08\x08\x08erased",
    "\u202egnp.exe",
    "\u2066x\u2069",
    "\x1b[5mblink",
    "\x1b[38;5mbroken",
    "\x1b[38;2;1;2;999mbroken",
    "\x1b[" + "1;" * 5000 + "m",
    "\x1b[31$m",
    "\x1b[>4;2m",
    "\x07\x00\x0b\x0c\x7f\x85",
]
SAFE = re.compile(
    r"\x1b\[(?:(?:[0-47]|2[1-47]|29|3[0-79]|4[0-79]|9[0-7]|10[0-7]|[34]8;5;\d{1,3}|[34]8;2;\d{1,3};\d{1,3};\d{1,3})(?:;|(?=m)))+m"
)
DANGEROUS = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")


@pytest.mark.parametrize("attack", ATTACKS)
@pytest.mark.parametrize("colour", [True, False])
def test_an_attack_leaves_only_harmless_text(attack: str, colour: bool) -> None:
    _assert_harmless(sanitize_line(f"before {attack} after", colour=colour), colour)
    assert not DANGEROUS.search(plain(f"before {attack} after"))


@given(
    st.text(alphabet=st.sampled_from("\x1b[]0123456789;:?mKHJPX^_\\\x07\x9b\x9c\x9d\r\tab\u202e<>=$ "), max_size=60),
    st.booleans(),
)
def test_no_text_at_all_gets_through_with_a_command(text: str, colour: bool) -> None:
    _assert_harmless(sanitize_line(text, colour=colour), colour)


def test_colours_stay_and_are_closed() -> None:
    assert sanitize_line("\x1b[1;32mok\x1b[0m then", colour=True) == "\x1b[1;32mok\x1b[0m then\x1b[0m"
    assert sanitize_line("\x1b[38;5;208morange \x1b[48;2;1;2;3mx", colour=True).startswith(
        "\x1b[38;5;208morange \x1b[48;2;1;2;3mx"
    )
    assert sanitize_line("\x1b[1;32mok\x1b[0m", colour=False) == "ok"


def test_a_progress_bar_shows_its_last_state() -> None:
    assert sanitize_line("10%\r50%\r100%", colour=False) == "100%"
    assert sanitize_line("done\r", colour=False) == "done"


def test_json_that_is_printed_holds_no_command_either() -> None:
    text = json_text({"name": "a\x1b]0;x\x07\x9b2J\u202e中文"})
    assert not DANGEROUS.search(text)
    assert "中文" in text


def _assert_harmless(line: str, colour: bool) -> None:
    left = SAFE.sub("", line) if colour else line
    assert not DANGEROUS.search(left), repr(line)
