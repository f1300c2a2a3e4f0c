"""YAML in which text of several lines, such as a command, stands as a block that people can read and edit.

A module of its own, because importing yaml costs more than most commands take."""

from __future__ import annotations

from typing import Any

import yaml


class BlockDumper(yaml.SafeDumper):
    """Writes text with line breaks as a literal block wherever a block can hold it."""

    def analyze_scalar(self, scalar: str) -> Any:
        """PyYAML refuses blocks with tabs and with spaces at the end of a line, which scripts have and blocks can hold."""
        analysis = super().analyze_scalar(scalar)
        if analysis.multiline and _fits_a_block(scalar):
            analysis.allow_block = True
        return analysis


def _fits_a_block(text: str) -> bool:
    """Whether a reader gets the same text back from a literal block: nothing is escaped there, and blank ends are lost."""
    return all(sign in "\t\n" or sign.isprintable() for sign in text) and not text.isspace() and text[-1] not in " \t"


def _text(dumper: BlockDumper, text: str) -> yaml.ScalarNode:
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style="|" if "\n" in text else None)


BlockDumper.add_representer(str, _text)
