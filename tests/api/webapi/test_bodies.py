"""Bodies: read with bounds, refused with the place of the mistake."""

import io
import json
import time

import pytest
from rest_framework import serializers

from kernel.errors import InvalidInput, TooLarge
from webapi.errors import MalformedBody
from webapi.parsers import BODY_NODES, LimitedJSONParser, UploadChunk, parse_json
from webapi.serializers import StrictSerializer


@pytest.mark.parametrize(
    "text",
    ['{"a": [1, 2.5, null, true, "x"]}', '"[[[["', '{"a\\"[": "]"}', "[]", '"\\u00e9"', '"\\ud83d\\ude00"', '"\\\\u0000"', "-12"],
)
def test_valid_json_is_read_as_it_is(text):
    assert parse_json(text.encode()) == json.loads(text)


@pytest.mark.parametrize(
    ("body", "words"),
    [
        (b'{"a": 1,}', "line 1, column 9"),
        (b'{\n "a" 1}', "line 2, column 6"),
        (b'{"a": 1, "a": 2}', "'a' occurs twice"),
        (b'{"a": NaN}', "NaN is not"),
        (b"[-Infinity]", "Infinity is not"),
        (b"[1e999]", "larger than any"),
        (b"[" + b"9" * 5000 + b"]", "more than 19 digits"),
        (b"\xff\xfe{}", "not UTF-8"),
        (b'["\\ud800"]', "surrogate"),
        (b'{"a\\u0000b": 1}', "NUL"),
        (b"", "not JSON"),
    ],
)
def test_a_malformed_body_is_refused_with_the_place(body, words):
    with pytest.raises(MalformedBody, match=words.replace("(", r"\(")):
        parse_json(body)


def test_nesting_is_bounded():
    parse_json(b"[" * 32 + b"]" * 32)
    with pytest.raises(InvalidInput):
        parse_json(b"[" * 33 + b"]" * 33)
    with pytest.raises(InvalidInput):
        parse_json(b'{"a":' * 100_000 + b"1" + b"}" * 100_000)


def test_the_number_of_values_is_bounded():
    with pytest.raises(TooLarge):
        parse_json(b"[" + b"1," * BODY_NODES + b"1]")
    with pytest.raises(TooLarge):
        parse_json(b"[" + b"[]," * BODY_NODES + b"1]")


@pytest.mark.parametrize("piece", [b"[", b'{"a":', b'"\\', b'"', b'["\\\\",', b"1,", b"[],", b'"a":1,', b"\\u0000"])
def test_a_hostile_body_before_authentication_costs_little(piece):
    body = piece * (1024 * 1024 // len(piece))
    begin = time.process_time()

    with pytest.raises((MalformedBody, InvalidInput, TooLarge)):
        parse_json(body)

    assert time.process_time() - begin < 0.6  # 200 ms on an idle machine; room for a busy one.


def test_parsers_read_no_more_than_they_may():
    class Counted(io.BytesIO):
        most = 0

        def read(self, size=-1):
            self.most = max(self.most, size)
            return super().read(size)

    stream = Counted(b"x" * (UploadChunk.body_bytes_max + 10))
    with pytest.raises(TooLarge):
        UploadChunk().parse(stream)
    assert stream.most == UploadChunk.body_bytes_max + 1
    assert LimitedJSONParser().parse(io.BytesIO(b'{"a": 1}')) == {"a": 1}


@pytest.mark.parametrize(
    ("body", "paths"),
    [
        ({"name": "a", "roles": [{"replicas": 1}]}, None),
        ({}, {"/name": "required"}),
        ({"name": "a" * 21, "nmae": 1, "a/b": 2}, {"/name": "max_length", "/nmae": "unknown_field", "/a~1b": "unknown_field"}),
        (
            {"name": "a", "roles": [{"replicas": 1}, {"replicas": 0}, {"replica": 1}]},
            {"/roles/1/replicas": "min_value", "/roles/2/replica": "unknown_field", "/roles/2/replicas": "required"},
        ),
        ({"name": "a", "roles": 3}, {"/roles": "not_a_list"}),
        ([1], {"": "invalid"}),
    ],
)
def test_all_mistakes_of_a_body_come_at_once_with_their_paths(alice, body, paths):
    response = alice.post("/api/v1/strict", body, format="json")

    if paths is None:
        assert response.status_code == 200
        return
    assert response.status_code == 422
    problem = response.json()
    assert {field["path"]: field["code"] for field in problem["fields"]} == paths
    assert problem["code"] == "invalid_input"


def test_a_list_body_reports_by_index_and_is_bounded(alice):
    response = alice.put("/api/v1/strict", [{"replicas": 1}, {"replicas": -1}], format="json")
    assert [field["path"] for field in response.json()["fields"]] == ["/1/replicas"]

    response = alice.put("/api/v1/strict", [{"replicas": 1}] * 4, format="json")
    assert response.json()["fields"][0]["code"] == "max_length"


def test_a_value_that_is_no_choice_is_refused_with_the_choices():
    class Body(StrictSerializer):
        role = serializers.ChoiceField(["viewer", "member"])
        kinds = serializers.ListField(child=serializers.ChoiceField(["failed", "succeeded"]))

    with pytest.raises(InvalidInput) as refused:
        Body.validated({"role": "king", "kinds": ["lost"]})

    assert [(field.path, field.code, str(field.message)) for field in refused.value.fields] == [
        ("/role", "invalid_choice", '"king" is not a choice. Choose from: viewer, member.'),
        ("/kinds/0", "invalid_choice", '"lost" is not a choice. Choose from: failed, succeeded.'),
    ]
