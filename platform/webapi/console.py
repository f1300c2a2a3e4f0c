"""What every page of the operators' console shares: rows are looked at, and changed only by the services that the API uses.

The console is a back door for operators: it shows what is stored, page by page, and offers the few actions that help when
nothing else does. Each goes through a service with the operator as its actor: rules, events and audit are those of the API.

Lists are filtered by what the page offers and by nothing else: Django alone would compare any column with any text, so that a
password's hash could be guessed sign by sign. Columns in `secrets` are in no statement that a page makes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import datetime
from functools import cached_property
from typing import TYPE_CHECKING, Any

from django.contrib import admin, messages
from django.core.paginator import Paginator
from django.db.models import QuerySet
from django.http import HttpRequest
from django.utils import translation
from unfold.admin import ModelAdmin

from kernel.actor import Actor
from kernel.clock import database_now
from kernel.errors import BerthError
from kernel.words import Saying, as_text
from upstream.django import registered

if TYPE_CHECKING:  # A text, or one that is looked up in the reader's language when it is shown.
    from django.utils.functional import _StrOrPromise as StrOrPromise

FILTER_LOOKUPS = ("", "__exact", "__isnull", "__id__exact")  # What the links of Django's list filters ask for.
COUNTED_MAX = 5_000  # Rows of a list that are counted for its pages; who looks for older ones filters.


class BoundedPaginator(Paginator):  # type: ignore[type-arg]  # Not generic when it runs.
    """Pages of the first rows only: a list of a million rows costs no more than one of five thousand."""

    @cached_property
    def count(self) -> int:
        return self.object_list[: COUNTED_MAX + 1].count() if isinstance(self.object_list, QuerySet) else len(self.object_list)


class Record(ModelAdmin):
    """Rows to look at. Users of the console see all of them; no user adds, edits or deletes rows here."""

    paginator = BoundedPaginator
    show_full_result_count = False
    list_per_page = 50
    list_max_show_all = 0
    list_disable_select_all = True
    secrets: tuple[str, ...] = ()  # Columns that are neither shown nor read.

    def get_queryset(self, request: HttpRequest) -> QuerySet[Any]:
        """With what the columns show, so that a page costs the same whatever it holds."""
        rows: QuerySet[Any] = super().get_queryset(request)
        return rows.select_related(*(self.list_select_related or ())).defer(*self._secret_paths())

    def get_exclude(self, request: HttpRequest, obj: Any = None) -> tuple[str, ...]:
        return (*(super().get_exclude(request, obj) or ()), *self.secrets)

    def lookup_allowed(self, lookup: str, value: str, request: HttpRequest | None = None) -> bool:
        """Whether a list may be filtered so: by the columns in `list_filter`, for equality. All else is refused (400)."""
        return lookup in {f"{name}{ending}" for name in self.list_filter for ending in FILTER_LOOKUPS}

    def _secret_paths(self) -> Iterator[str]:
        """Secret columns of the rows, and of the rows that are read with them."""
        yield from self.secrets
        for relation in self.list_select_related or ():
            related = registered(self.admin_site).get(self.model._meta.get_field(relation).related_model)
            yield from (f"{relation}__{name}" for name in getattr(related, "secrets", ()))

    def has_view_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return True  # The site lets only operators in.

    def has_module_permission(self, request: HttpRequest) -> bool:
        return True

    def has_add_permission(self, request: HttpRequest) -> bool:
        return False

    def has_change_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False

    def has_delete_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False


def operator_of(request: HttpRequest) -> Actor:
    """The operator who asks, as the console's gate found them."""
    found = getattr(request, "actor", None)
    if not isinstance(found, Actor) or not found.is_operator:
        raise PermissionError("a page of the console was reached without its gate")
    return found


def on_each(
    description: StrOrPromise, act: Callable[[Any, Actor, datetime], object], *, done: StrOrPromise
) -> Callable[..., None]:
    """An action that does one thing to every chosen row by a service, as the operator, and says of each what came of it: one
    that is refused holds up no other."""

    @admin.action(description=description)
    def run(record: Record, request: HttpRequest, rows: QuerySet[Any]) -> None:
        actor, now, count = operator_of(request), database_now(), 0
        for row in rows:
            try:
                act(row, actor, now)
                count += 1
            except BerthError as error:
                messages.error(request, f"{row}: {words(error)}")
        if count:
            messages.success(request, f"{done}: {count}.")

    return run


def words(error: BerthError) -> str:
    """What is wrong and what to do next, in one line and in the language of the console's reader."""
    hint = spoken(error.hint_text)
    lines = [f"{spoken(found.message)} {spoken(found.hint)}".strip() for found in error.fields] or [spoken(error.detail_text)]
    return " ".join([*lines, hint] if hint and hint not in lines[0] else lines)


def spoken(text: Saying) -> str:
    """A text in the language that Django speaks at the moment: that of the console's reader."""
    return as_text(text).in_language((translation.get_language() or "")[:2])
