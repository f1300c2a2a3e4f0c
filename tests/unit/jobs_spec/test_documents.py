from __future__ import annotations

import time
import tracemalloc

import pytest

from jobs import bounds
from jobs.spec import Format, check_document, parse_document, parse_text, read_text
from kernel import limits
from kernel.errors import InvalidInput, TooLarge

MEBIBYTE = limits.MIB - 64


def code_of(text: str, form: Format = Format.YAML) -> str:
    with pytest.raises(InvalidInput) as refused:
        parse_text(text, form)
    return refused.value.fields[0].code


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("a: on", "on"),
        ("a: no", "no"),
        ("a: yes", "yes"),
        ("a: 1:30", "1:30"),
        ("a: 012", "012"),
        ("a: 0x1F", "0x1F"),
        ("a: 1_000", "1_000"),
        ("a: +1", "+1"),
        ("a: 2027-01-31", "2027-01-31"),
        ("a: true", True),
        ("a: False", False),
        ("a: null", None),
        ("a: ~", None),
        ("a:", None),
        ("a: -3", -3),
        ("a: 1.50", 1.5),
        ("a: 1e3", 1000.0),
        ('a: "1"', "1"),
        ("a: 'true'", "true"),
        ("a: |\n  x\n  y\n", "x\ny\n"),
    ],
)
def test_plain_words_keep_their_meaning(text, value):
    found = parse_text(text)["a"]
    assert found == value
    assert type(found) is type(value)


def test_keys_are_always_text():
    assert parse_text("on: 1\n1: 2\ntrue: 3\n") == {"on": 1, "1": 2, "true": 3}


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("a: &x 1", "alias"),
        ("a: *x", "alias"),
        ("a: !!python/object:os.system x", "tag"),
        ("a: !x 1", "tag"),
        ("a: 1\na: 2", "duplicate_key"),
        ("a: 1\n---\nb: 2", "documents"),
        ("", "empty"),
        ("# only a comment", "empty"),
        ("a: [", "syntax"),
        ("a: b: c", "syntax"),
        ("\ta: 1", "syntax"),
        ("a: \x07", "characters"),
        ("? [a]\n: 1", "key"),
        ("a: .inf", "not_finite"),
        ("a: .nan", "not_finite"),
        ("a: " + "9" * 30, "integer_range"),
        ("[" * 40, "too_deep"),
        ("\n".join(f"k{n}: v" for n in range(bounds.INPUT_NODES)), "too_many_nodes"),
    ],
)
def test_what_yaml_may_not_hold(text, code):
    assert code_of(text) == code


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ('{"a": 1, "a": 2}', "duplicate_key"),
        ('{"a": NaN}', "not_finite"),
        ('{"a": -Infinity}', "not_finite"),
        ("{'a': 1}", "syntax"),
        ("", "syntax"),
        ('{"a": ' + "9" * 5000 + "}", "integer_range"),
        ("[" * 100_000, "too_deep"),
        ('{"a":' * 100_000, "too_deep"),
    ],
)
def test_what_json_may_not_hold(text, code):
    assert code_of(text, Format.JSON) == code


def test_the_place_of_a_mistake_is_named():
    with pytest.raises(InvalidInput) as refused:
        parse_text("a: 1\nb: [1\nc: 2\n")
    assert refused.value.detail.startswith("Line 3, column 2:")
    with pytest.raises(InvalidInput) as refused:
        parse_text('{"a": 1,\n "b": }', Format.JSON)
    assert refused.value.detail.startswith("Line 2, column 7:")


def test_lines_are_known_by_pointer():
    document = read_text("a:\n  b/c: 1\n  d:\n    - x\n    - y\n", Format.YAML)
    assert document.line_of("/a/b~1c") == 2
    assert document.line_of("/a/d/1") == 5
    assert document.line_of("/a/missing") == 1


def test_text_that_is_not_utf8_is_refused():
    with pytest.raises(InvalidInput) as refused:
        parse_text(b"a: \xff")
    assert refused.value.fields[0].code == "encoding"


def test_a_text_above_the_limit_is_not_read():
    with pytest.raises(TooLarge):
        parse_text(b"#" * (bounds.SPEC_BYTES + 1))


@pytest.mark.parametrize(
    ("document", "code"),
    [
        ({"a": float("nan")}, "not_finite"),
        ({"a": float("inf")}, "not_finite"),
        ({"a": 2**63}, "integer_range"),
        ({"a": {1}}, "type"),
        ({"a": b"x"}, "type"),
        ({1: "a"}, "key"),
        ({"a\0": 1}, "key"),
        ({"a": "\ud800"}, "encoding"),
        ([0] * (bounds.INPUT_NODES + 1), "too_many_nodes"),
    ],
)
def test_what_no_document_may_hold(document, code):
    with pytest.raises(InvalidInput) as refused:
        check_document(document)
    assert refused.value.fields[0].code == code


def test_a_value_that_holds_itself_ends():
    loop: list[object] = []
    loop.append(loop)
    with pytest.raises(InvalidInput) as refused:
        check_document(loop)
    assert refused.value.fields[0].code == "too_deep"


def filled(piece: str) -> str:
    return (piece * (MEBIBYTE // len(piece) + 1))[:MEBIBYTE]


HOSTILE = {
    "deep lists": filled("["),
    "deep mappings": filled("{a: "),
    "deep JSON": filled('{"a":'),
    "deep blocks": filled("- "),
    "deep keys": filled("? "),
    "many items": "[" + filled("0,")[:-1] + "]",
    "many empty lists": "[" + filled("[],")[:-3] + "[]]",
    "many keys": "".join(f"k{n}: v\n" for n in range(90_000)),
    "many unknown keys": "".join(f"replica{n}: v\n" for n in range(4_900)),
    "long unknown keys": "".join(f"{'replica' * 100}{n}: 1\n" for n in range(1_300)),
    "one key a million times": filled("a: b\n"),
    "long text": 'command: "' + filled("x")[:-20] + '"',
    "long plain text": "command: " + filled("x")[:-20],
    "many lines": "command: " + filled("x\n  ")[:-20],
    "spaces": filled(" "),
    "lines": filled("\n"),
    "comments": filled("#\n"),
    "colons": filled("a:"),
    "anchors": filled("&a "),
    "tags": filled("!!str "),
    "directives": filled("%YAML 1.1\n"),
    "quotes": filled('"'),
    "digits": "command: " + filled("9")[:-20],
    "fraction": "a: 1." + filled("1")[:-20],
    "documents": filled("---\n"),
    "escapes": '"' + filled("\\x41")[:-4] + '"',
    "bad names": "env:\n" + "".join(f"  {n}x: x\n" for n in range(4_900)),
    "bad roles": "roles: {" + ",".join(f"r{n}: {{command: x, x: 1}}" for n in range(3_000)) + "}",
    "many tags": "command: x\ntags: [" + ",".join(f'"{n}"' for n in range(9_000)) + "]",
    "alias bomb": "a: &a [x,x]\nb: &b [*a,*a]\nc: &c [*b,*b]\n",
}


@pytest.mark.parametrize("form", list(Format))
@pytest.mark.parametrize("name", HOSTILE)
def test_a_hostile_mebibyte_costs_little_time_and_memory(name, form):
    text = HOSTILE[name].encode()
    fastest = 10.0
    for _ in range(3):  # The fastest of three: other work on the machine is not what is measured.
        began = time.process_time()
        with pytest.raises((InvalidInput, TooLarge)):
            parse_document(text, form)
        fastest = min(fastest, time.process_time() - began)
    tracemalloc.start()
    with pytest.raises((InvalidInput, TooLarge)):
        parse_document(text, form)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert fastest < 0.2
    assert peak < 50 * limits.MIB
