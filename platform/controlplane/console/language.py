"""The console in the reader's language: English, or Chinese where the browser prefers it, as the portal begins.

Django brings the words of its own pages in both. Ours, and those of the console's look, are in `words_zh` and are added to
Django's catalogue when the first reader asks for Chinese. Names of tables and columns are looked up when they are shown: they
are set here and not in the models, so that a word never makes a migration.
"""

from __future__ import annotations

import gettext
import io
import struct
from collections.abc import Mapping
from contextlib import AbstractContextManager
from functools import cache

from django.apps import apps
from django.contrib import admin
from django.http import HttpRequest
from django.utils import translation
from django.utils.translation import gettext_lazy

from controlplane.console.words_zh import CHINESE
from kernel.words import Language
from upstream.django import add_words, registered
from webapi.wording import reader_language

DJANGO_CODES = {Language.ENGLISH: "en", Language.CHINESE: "zh-hans"}
_MAGIC, _HEAD_BYTES = 0x950412DE, 28  # The format of compiled catalogues, GNU gettext manual, section 10.3.


def spoken_to(request: HttpRequest) -> AbstractContextManager[None]:
    """Everything said inside is said in the language of this request's reader."""
    language = Language(reader_language(request))
    if language is Language.CHINESE:
        _add_our_words()
    return translation.override(DJANGO_CODES[language])


def name_in_both_languages() -> None:
    """Let applications, tables and columns of the console be named in the reader's language."""
    for label in {model._meta.app_label for model in registered(admin.site)}:
        config = apps.get_app_config(label)
        config.verbose_name = gettext_lazy(str(config.verbose_name))
    for model in registered(admin.site):
        about = model._meta
        about.verbose_name, about.verbose_name_plural = (
            gettext_lazy(str(about.verbose_name)),
            gettext_lazy(str(about.verbose_name_plural)),
        )
        for field in about.concrete_fields:
            field.verbose_name = gettext_lazy(str(field.verbose_name))


@cache
def _add_our_words() -> None:
    ours = gettext.GNUTranslations(io.BytesIO(_compiled(CHINESE)))
    add_words("zh-hans", ours)


def _compiled(words: Mapping[str, str]) -> bytes:
    """The words as a compiled catalogue, which Python's own gettext reads."""
    head = "Content-Type: text/plain; charset=UTF-8\n"
    pairs = sorted((english.encode(), said.encode()) for english, said in {"": head, **words}.items())
    keys_at = _HEAD_BYTES + 16 * len(pairs)
    table: list[tuple[int, int]] = []
    body = b""
    for texts in zip(*pairs, strict=True):
        for text in texts:
            table.append((len(text), keys_at + len(body)))
            body += text + b"\0"
    numbers = struct.pack("<7I", _MAGIC, 0, len(pairs), _HEAD_BYTES, _HEAD_BYTES + 8 * len(pairs), 0, 0)
    return numbers + b"".join(struct.pack("<2I", *place) for place in table) + body
