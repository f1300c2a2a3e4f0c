"""What a name may look like: in a URL, and among the words that people read."""

from __future__ import annotations

import re
import unicodedata

SLUG = re.compile(r"[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?")
_REFUSED = frozenset({"Cc", "Cs", "Cn", "Zl", "Zp"})
_TURNING = frozenset("\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069")


def is_plain_text(text: str) -> bool:
    """Whether a text is of one line and stays within itself: no controls, no lone surrogates, nothing that turns the text around
    it. Joiners of emoji and scripts, wide and unbreakable spaces and marks of one direction are ordinary text."""
    return not any(character in _TURNING or unicodedata.category(character) in _REFUSED for character in text)
