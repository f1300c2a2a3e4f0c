"""What serializers refuse, in both languages: our own words beside the check that refuses, and those of REST framework.

REST framework holds a message as text with a code, and copies both each time an error passes a nested serializer: whatever else
hangs on the text is lost, but the code stays the same object. So the Chinese words of our own messages travel on the code.
Messages of REST framework and Django are known by their English form, which they have wherever no other language is active; one
that is not known here stays English in both (`tests/api/webapi/test_refusals.py` goes through all fields of the API).
"""

from __future__ import annotations

import re
from functools import cache
from typing import Any

from rest_framework import serializers

from kernel.words import Text


class _Code(str):
    """A code with the words that belong to it."""

    text: Text[str]


def detail(text: Text[str], *, code: str) -> serializers.ErrorDetail:
    """One message of a serializer's error, for errors by field."""
    carrying = _Code(code)
    carrying.text = text
    return serializers.ErrorDetail(str(text), code=carrying)


def refusal(text: Text[str], *, code: str) -> serializers.ValidationError:
    """The error that a field or a serializer raises for all of its input."""
    return serializers.ValidationError([detail(text, code=code)])


def words_of(message: Any) -> Text[str]:
    """The words of one message of a serializer's error."""
    code = getattr(message, "code", None)
    return code.text if isinstance(code, _Code) else translated(str(message))


def translated(message: str) -> Text[str]:
    """A message of REST framework or Django in both languages; itself where it is not known."""
    for pattern, chinese in _patterns():
        found = pattern.fullmatch(message)
        if found is not None:
            return Text(message, chinese.format(**found.groupdict()))
    return Text(message, message)


_STANDARD = (
    ("This field is required.", "缺少此字段。"),
    ("This field may not be null.", "此字段不能为 null。"),
    ("This field may not be blank.", "此字段不能为空。"),
    ("Must be a valid boolean.", "须为 true 或 false。"),
    ("Not a valid string.", "须为文本。"),
    ("Ensure this field has no more than {max_length} characters.", "此字段最多 {max_length} 个字符。"),
    ("Ensure this field has at least {min_length} characters.", "此字段至少 {min_length} 个字符。"),
    ("Enter a valid email address.", "请输入有效的邮箱地址。"),
    ("This value does not match the required pattern.", "此值不符合要求的格式。"),
    ("Enter a valid URL.", "请输入有效的 URL。"),
    ("Must be a valid UUID.", "须为有效的 UUID。"),
    ("A valid integer is required.", "须为整数。"),
    ("A valid number is required.", "须为数字。"),
    ("Ensure this value is less than or equal to {max_value}.", "此值不能大于 {max_value}。"),
    ("Ensure this value is greater than or equal to {min_value}.", "此值不能小于 {min_value}。"),
    ("String value too large.", "文本过长。"),
    ("Integer value too large to convert to float", "整数过大。"),
    ("Date has wrong format. Use one of these formats instead: {format}.", "日期格式不正确。可用的格式：{format}。"),
    ("Expected a date but got a datetime.", "须为日期，而非日期时间。"),
    ("Datetime has wrong format. Use one of these formats instead: {format}.", "日期时间格式不正确。可用的格式：{format}。"),
    ("Expected a datetime but got a date.", "须为日期时间，而非日期。"),
    ('Invalid datetime for the timezone "{timezone}".', "该时间在时区“{timezone}”中不存在。"),
    ("Datetime value out of range.", "日期时间超出范围。"),
    ('"{input}" is not a valid choice.', "“{input}”不可用。"),
    ('"{input}" is not a choice. Choose from: {known}.', "“{input}”不可用；可选：{known}。"),
    ('Expected a list of items but got type "{input_type}".', "须为列表，而非 {input_type}。"),
    ("This selection may not be empty.", "至少选择一项。"),
    ("This list may not be empty.", "列表不能为空。"),
    ("Ensure this field has at least {min_length} elements.", "此字段至少 {min_length} 项。"),
    ("Ensure this field has no more than {max_length} elements.", "此字段最多 {max_length} 项。"),
    ('Expected a dictionary of items but got type "{input_type}".', "须为对象，而非 {input_type}。"),
    ("This dictionary may not be empty.", "对象不能为空。"),
    ("Value must be valid JSON.", "须为有效的 JSON。"),
    ("Invalid data. Expected a dictionary, but got {datatype}.", "须为对象，而非 {datatype}。"),
    ("Null characters are not allowed.", "不能含有 NUL 字符。"),
    ("Surrogate characters are not allowed: U+{code_point}.", "不能含有代理字符：U+{code_point}。"),
    # Of requests as a whole.
    ("Malformed request.", "请求格式错误。"),
    ("Incorrect authentication credentials.", "凭据不正确。"),
    ("Authentication credentials were not provided.", "没有提供凭据。"),
    ("You do not have permission to perform this action.", "您无权执行此操作。"),
    ("Not found.", "没有找到。"),
    ('Method "{method}" not allowed.', "不支持方法“{method}”。"),
    ("Could not satisfy the request Accept header.", "无法满足请求的 Accept 头。"),
    ('Unsupported media type "{media_type}" in request.', "不支持请求的内容类型“{media_type}”。"),
    ("A server error occurred.", "服务器出错。"),
)
INVALID_CHOICE = '"{{input}}" is not a choice. Choose from: {known}.'
"""The message of a field with choices, as `error_messages` takes it."""


@cache
def _patterns() -> tuple[tuple[re.Pattern[str], str], ...]:
    return tuple((re.compile(_regular(english), re.DOTALL), chinese) for english, chinese in _STANDARD)


def _regular(english: str) -> str:
    """A template of a message as an expression that finds what was filled in."""
    return re.sub(r"\\\{(\w+)\\\}", r"(?P<\1>.*)", re.escape(english))
