"""Commands in a printed job file: a block of lines that a person can read, and the same text when it is read again."""

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from berth.cli.output import Format, print_data


@pytest.mark.parametrize("command", ["cd /work\npython a.py\n", "if true; then\n\trun \nfi", "\n  echo 你好: #1\n\n"])
def test_a_command_of_several_lines_is_printed_as_a_block(capsys, command):
    print_data({"command": command, "args": ["/bin/sh", "-c", command]}, Format.YAML)

    text = capsys.readouterr().out
    assert yaml.safe_load(text) == {"command": command, "args": ["/bin/sh", "-c", command]}
    assert "\\n" not in text
    assert text.count("|") == 2


@given(st.text(alphabet=" \t\na#:-|\"'你\x07\u202e", max_size=12))
def test_whatever_the_text_it_is_read_again_as_it_was(text):
    from berth.cli.blocks import BlockDumper

    data = {"a": [text, {"b": text}], "c": text}
    assert yaml.safe_load(yaml.dump(data, Dumper=BlockDumper, allow_unicode=True)) == data


def test_text_that_a_terminal_would_obey_is_still_escaped(capsys):
    print_data({"command": "echo a\necho \x1b[2J\u202e"}, Format.YAML)

    text = capsys.readouterr().out
    assert "\x1b" not in text
    assert "\u202e" not in text
