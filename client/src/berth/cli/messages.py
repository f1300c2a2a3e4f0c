"""What the command line says, in English or Chinese. English is the key; `messages_zh` holds the other side."""

from __future__ import annotations

import os
from collections.abc import Mapping
from functools import cache

LANGUAGE_VARIABLES = ("BERTH_LANG", "LC_ALL", "LC_MESSAGES", "LANG")


def language(environ: Mapping[str, str] | None = None) -> str:
    """`zh` when the first variable that is set asks for Chinese, else `en`."""
    variables = os.environ if environ is None else environ
    wanted = next((variables[name] for name in LANGUAGE_VARIABLES if variables.get(name)), "")
    return "zh" if wanted.lower().startswith("zh") else "en"


def _(text: str, **values: object) -> str:
    """The text in the user's language, with its `{names}` filled in."""
    template = _chinese().get(text, text) if language() == "zh" else text
    return template.format(**values) if values else template


def counted(count: int, singular: str, many: str, **values: object) -> str:
    """The text for one where `count` is 1, else that for several, in the user's language; `{count}` is filled in."""
    return _(singular if count == 1 else many, count=count, **values)


@cache
def _chinese() -> Mapping[str, str]:
    from berth.cli.messages_zh import MESSAGES

    return MESSAGES
