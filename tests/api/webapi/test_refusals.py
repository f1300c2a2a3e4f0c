"""What serializers refuse, in both languages: words of REST framework by their English form, and our own."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from string import Formatter
from typing import Any

import pytest
from django.urls import get_resolver
from rest_framework import exceptions, serializers

from kernel.errors import InvalidInput
from kernel.words import Text
from webapi.pointers import flatten
from webapi.problems import as_failure, problem_body
from webapi.refusals import detail, refusal, translated
from webapi.serializers import StrictSerializer

CHINESE = re.compile(r"[\u4e00-\u9fff]")


def _all_serializers(kind: type[StrictSerializer] = StrictSerializer) -> Iterator[type[StrictSerializer]]:
    for below in kind.__subclasses__():
        yield below
        yield from _all_serializers(below)


def _all_fields() -> Iterator[tuple[str, Any]]:
    assert get_resolver().url_patterns, "every view is loaded, and with it its serializers"
    for serializer in _all_serializers():
        if not serializer.__module__.startswith("tests."):
            todo = list(serializer().fields.values())
            while todo:
                field = todo.pop()
                yield f"{serializer.__name__}.{field.field_name}", field
                todo += [field.child] if getattr(field, "child", None) is not None else []


def test_every_message_of_every_field_of_the_api_is_known_in_chinese() -> None:
    unknown = {
        message
        for _, field in _all_fields()
        for message in map(str, field.error_messages.values())
        if not CHINESE.search(translated(_filled(message)).zh)
    }
    assert unknown == set()


def _filled(message: str) -> str:
    return message.format(**{name: "7" for _, name, _, _ in Formatter().parse(message) if name})


@pytest.mark.parametrize(
    ("body", "said"),
    [
        ({}, "缺少此字段。"),
        ({"name": None}, "此字段不能为 null。"),
        ({"name": "a" * 9}, "此字段最多 5 个字符。"),
        ({"name": "a\0"}, "不能含有 NUL 字符。"),
        ({"name": "\ud800"}, "不能含有代理字符：U+D800。"),
        ({"name": "a", "role": 'king" is'}, "“king\" is”不可用；可选：viewer, member。"),
        ({"name": "a", "counts": "b"}, "须为列表，而非 str。"),
        ({"name": "a", "counts": [3]}, "此值不能大于 2。"),
        ({"name": "a", "counts": [0, 0, 0]}, "此字段最多 2 项。"),
        ({"name": "a", "nmae": 1}, "此处没有字段 'nmae'。可用：counts, name, role。"),
        ([], "须为对象，而非 list。"),
    ],
)  # fmt: skip
def test_a_refused_body_is_told_in_chinese(body: object, said: str) -> None:
    class Body(StrictSerializer):
        name = serializers.CharField(max_length=5)
        role = serializers.ChoiceField(["viewer", "member"], required=False)
        counts = serializers.ListField(child=serializers.IntegerField(max_value=2), max_length=2, required=False)

    with pytest.raises(InvalidInput) as refused:
        Body.validated(body)

    answer = problem_body(refused.value, request_id="", language="zh")  # type: ignore[arg-type]
    assert said in [field["message"] for field in answer["fields"]]
    assert said in answer["detail"]
    assert not CHINESE.search(json.dumps(problem_body(refused.value, request_id=""), ensure_ascii=False))


def test_our_own_words_pass_through_nested_serializers() -> None:
    class Inner(StrictSerializer):
        port = serializers.IntegerField()

        def validate_port(self, value: int) -> int:
            raise refusal(Text("This port is taken.", "此端口已被占用。"), code="taken")

    class Outer(StrictSerializer):
        inner = Inner(many=True)

        def validate(self, attrs: dict[str, Any]) -> dict[str, Any]:
            raise serializers.ValidationError({"other": [detail(Text("Needed.", "必须给出。"), code="required")]})

    with pytest.raises(InvalidInput) as refused:
        Outer.validated({"inner": [{"port": 5}]})
    (field,) = refused.value.fields
    assert (field.path, field.code, field.message) == ("/inner/0/port", "taken", Text("This port is taken.", "此端口已被占用。"))

    with pytest.raises(InvalidInput) as refused:
        Outer.validated({"inner": []})
    (field,) = refused.value.fields
    assert (field.path, field.code, field.message) == ("/other", "required", Text("Needed.", "必须给出。"))
    assert type(field.code) is str


def test_a_message_that_is_not_known_stays_as_it_is() -> None:
    assert translated("Something of a new release.") == Text("Something of a new release.", "Something of a new release.")
    assert [field.message for field in flatten(["As it is."])] == [Text("As it is.", "As it is.")]


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (exceptions.MethodNotAllowed("PUT"), "不支持方法“PUT”。"),
        (exceptions.UnsupportedMediaType("text/x"), "不支持请求的内容类型“text/x”。"),
        (exceptions.NotAcceptable(), "无法满足请求的 Accept 头。"),
        (exceptions.ParseError(), "请求格式错误。"),
        (exceptions.NotFound(), "没有找到。"),
        (exceptions.PermissionDenied(), "您无权执行此操作。"),
        (exceptions.AuthenticationFailed(), "凭据不正确。"),
    ],
)
def test_what_the_framework_refuses_is_told_in_chinese(error: exceptions.APIException, said: str) -> None:
    assert as_failure(error).detail_text.zh == said
