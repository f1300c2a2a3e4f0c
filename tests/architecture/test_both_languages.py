"""What people are told is told in both languages: no sentence goes into an error, a hint or a refusal as a plain string.

A place that takes such words says so by its type: a parameter or a field that is `Saying` or `Text[str]`, and the detail and hint
of every error of the API or of a registry. This test finds these places by their types, and sentences in English alone that
go there: written in the call, or assigned to a name in the same function that goes there. It also finds words that lose
their Chinese on the way: `error.detail` of an error that has `detail_text`.

`Text(en, zh)` is right in all of these places. A single word, such as a code or the name of a field, is the same in both.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path

from tests.architecture.sources import ROOT, product_modules, tree

ERRORS = frozenset(
    {"BerthError", "RegistryError"}
)  # Their first argument and `hint` are words, and so those of their subclasses.
CARRIERS = frozenset({"Text", "as_text"})
# Errors that no user of the API gets: of starting, ending and looking after the platform's own processes, and of its commands.
FOR_LOGS = ("platform/controlplane/processes/", "platform/controlplane/management/", "platform/clusters/engines/local/launching/")
# What is still in English alone, with how many places: fewer is right, more is not.
LEFT: Mapping[str, int] = {}

Function = ast.FunctionDef | ast.AsyncFunctionDef
Place = tuple[frozenset[int], frozenset[str]]  # Of a call: positions and names of arguments that are words.
NOWHERE: Place = (frozenset(), frozenset())


def test_errors_and_hints_are_written_in_both_languages() -> None:
    found: dict[str, list[str]] = {}
    for path in product_modules():
        name = str(path.relative_to(ROOT))
        if not name.startswith(FOR_LOGS):
            for line, words in sorted(set(english_alone(tree(path), places_of(path)))):
                found.setdefault(name, []).append(f"{name}:{line}: {words}")
    more = [place for name, places in found.items() if len(places) > LEFT.get(name, 0) for place in places]
    assert more == [], "say it in both languages: Text(english, chinese) of kernel/words.py"


def test_what_is_left_in_english_shrinks() -> None:
    counts = {name: len(set(english_alone(tree(ROOT / name), places_of(ROOT / name)))) for name in LEFT}
    assert counts == dict(LEFT), "lower LEFT to what is left"


def test_the_guard_finds_a_sentence_in_each_of_its_ways() -> None:
    text = """
def refuse(path: str, message: Saying, hint: Saying = "") -> None: ...

class Refused(BerthError): ...

HINT = "Write another one."

def check(name, error):
    message = f"There is no {name} here."
    refuse("/name", message)
    refuse("/name", Text("Both.", "两者。"), "Give another name." if name else "")
    hint, code = "Say it shorter.", "too_long"
    raise Refused(Text("Both.", "两者。"), hint=hint)

def more(error):
    refuse(error.path, error.detail)
    refuse("/name", "taken", HINT)
    refuse("/name", why(error))

def why(error) -> str: ...

def rest():
    raise Refused("The name is taken.")
"""
    module = ast.parse(text)
    errors = errors_among([module])
    assert [words for _, words in sorted(english_alone(module, places_among(module, errors)))] == [
        "'Write another one.'", "'There is no {name} here.'", "'Give another name.'", "'Say it shorter.'", "error.detail",
        "why(error)", "'The name is taken.'",
    ]  # fmt: skip


# --- Places that take words ------------------------------------------------------------------------------------------


@cache
def _errors() -> frozenset[str]:
    return errors_among([tree(path) for path in product_modules()])


@cache
def _own_places(path: Path) -> Mapping[str, Place]:
    return places_among(tree(path), _errors())


@cache
def _all_places() -> Mapping[str, Place]:
    found: dict[str, Place] = {}
    for path in product_modules():
        for name, (positions, names) in _own_places(path).items():
            before = found.get(name, NOWHERE)
            found[name] = (before[0] | positions, before[1] | names)
    return found


def places_of(path: Path) -> Mapping[str, Place]:
    """As the module sees them: a name that it defines itself means its own."""
    own = {node.name: NOWHERE for node in ast.walk(tree(path)) if isinstance(node, ast.ClassDef | Function)}
    return {**_all_places(), **own, **_own_places(path)}


def errors_among(modules: list[ast.Module]) -> frozenset[str]:
    """Names of the errors and of all their subclasses."""
    bases: dict[str, set[str]] = {}
    for module in modules:
        for node in ast.walk(module):
            if isinstance(node, ast.ClassDef):
                bases.setdefault(node.name, set()).update(_called(base) for base in node.bases)
    found = set(ERRORS)
    while more := {name for name, parents in bases.items() if parents & found} - found:
        found |= more
    return frozenset(found)


def places_among(module: ast.Module, errors: frozenset[str]) -> Mapping[str, Place]:
    """The places that a module defines, by the name under which they are called."""
    found: dict[str, Place] = {name: (frozenset({0}), frozenset({"detail", "hint"})) for name in errors}
    methods: dict[Function, ast.ClassDef] = {}
    for node in ast.walk(module):
        if isinstance(node, ast.ClassDef):
            methods |= {item: node for item in node.body if isinstance(item, Function)}
            fields = [item for item in node.body if isinstance(item, ast.AnnAssign) and isinstance(item.target, ast.Name)]
            words = [(at, _called(item.target)) for at, item in enumerate(fields) if _is_words(item.annotation)]
            _add(found, node.name, {at for at, _ in words}, {name for _, name in words})
        elif isinstance(node, Function):
            owner = methods.get(node)
            name = owner.name if owner is not None and node.name == "__init__" else node.name
            _add(found, name, *_words_of(node, owner))
    return found


def _add(found: dict[str, Place], name: str, positions: set[int], names: set[str]) -> None:
    before = found.get(name, NOWHERE)
    if positions or names:
        found[name] = (before[0] | positions, before[1] | names)


def _words_of(function: Function, owner: ast.ClassDef | None) -> tuple[set[int], set[str]]:
    """Positions as its callers count them, and names, of the parameters that are words."""
    parameters = [*function.args.posonlyargs, *function.args.args]
    is_bound = owner is not None and not any(_called(item) == "staticmethod" for item in function.decorator_list)
    words = [(at - is_bound, item.arg) for at, item in enumerate(parameters) if _is_words(item.annotation)]
    alone = {item.arg for item in function.args.kwonlyargs if _is_words(item.annotation)}
    return {at for at, _ in words}, {name for _, name in words} | alone


def _is_words(annotation: ast.expr | None) -> bool:
    """Whether a type is that of words: `Saying`, `Text[str]`, or one of these or None."""
    if isinstance(annotation, ast.BinOp):
        return _is_words(annotation.left) or _is_words(annotation.right)
    if isinstance(annotation, ast.Subscript):
        return _called(annotation.value) == "Text" and _called(annotation.slice) == "str"
    return annotation is not None and _called(annotation) == "Saying"


# --- What goes there -------------------------------------------------------------------------------------------------


def english_alone(module: ast.Module, places: Mapping[str, Place]) -> Iterator[tuple[int, str]]:
    """The line and the words of every sentence that goes to such a place in English alone."""
    functions = [node for node in ast.walk(module) if isinstance(node, Function)]
    writers = {item.name for item in functions if item.returns is not None and _called(item.returns) == "str"}
    for call in ast.walk(module):
        positions, names = places.get(_called(call.func), NOWHERE) if isinstance(call, ast.Call) else NOWHERE
        if not names or not isinstance(call, ast.Call) or _called(call.func) in CARRIERS:
            continue
        given = [item for at, item in enumerate(call.args) if at in positions]
        for argument in [*given, *(item.value for item in call.keywords if item.arg in names)]:
            if isinstance(argument, ast.Attribute) and argument.attr == "detail" and _is_error(argument.value):
                yield argument.lineno, ast.unparse(argument)
            for value in _assigned(argument, call, functions, module) if isinstance(argument, ast.Name) else [argument]:
                yield from _sentences(value)
                if isinstance(value, ast.Call) and _called(value.func) in writers:
                    yield value.lineno, ast.unparse(value)


def _assigned(name: ast.Name, call: ast.Call, functions: list[Function], module: ast.Module) -> Iterator[ast.expr]:
    """What a name stands for: what the innermost function around the call assigns to it, and what the module does."""
    around = [item for item in functions if item.lineno <= call.lineno <= (item.end_lineno or 0)]
    inside = ast.walk(max(around, key=lambda item: item.lineno)) if around else ()
    for node in (*inside, *module.body):
        if isinstance(node, ast.AnnAssign) and node.value is not None and _called(node.target) == name.id:
            yield node.value
        for target in node.targets if isinstance(node, ast.Assign) else ():
            if isinstance(target, ast.Tuple) and isinstance(node.value, ast.Tuple):
                yield from (value for part, value in zip(target.elts, node.value.elts, strict=False) if _called(part) == name.id)
            elif _called(target) == name.id:
                yield node.value


def _sentences(value: ast.expr) -> Iterator[tuple[int, str]]:
    """Plain strings of more than one word among what an expression may come to."""
    if isinstance(value, ast.IfExp):
        yield from (*_sentences(value.body), *_sentences(value.orelse))
    elif isinstance(value, ast.BoolOp):
        yield from (found for part in value.values for found in _sentences(part))
    elif isinstance(value, ast.BinOp):
        yield from (*_sentences(value.left), *_sentences(value.right))
    elif isinstance(value, ast.JoinedStr | ast.Constant) and re.search(r"\S\s+\S", "".join(_parts(value, shown=False))):
        yield value.lineno, repr("".join(_parts(value, shown=True)))


def _parts(value: ast.JoinedStr | ast.Constant, *, shown: bool) -> Iterator[str]:
    """The pieces of a string; what is filled in as `{name}`, or as `{}` where only the words count."""
    for item in value.values if isinstance(value, ast.JoinedStr) else [value]:
        if isinstance(item, ast.FormattedValue):
            yield "{" + ast.unparse(item.value) + "}" if shown else "{}"
        elif isinstance(item, ast.Constant) and isinstance(item.value, str):
            yield item.value


def _is_error(value: ast.expr) -> bool:
    return _called(value) in {"error", "failure", "refused", "refusal"}


def _called(node: ast.AST) -> str:
    return node.id if isinstance(node, ast.Name) else node.attr if isinstance(node, ast.Attribute) else ""
