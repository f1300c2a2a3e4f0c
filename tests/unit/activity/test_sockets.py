"""What a socket tells of a refusal."""

from __future__ import annotations

from typing import Any

import pytest

from activity.sockets import Socket, error_text, parse_text
from kernel.errors import InvalidInput

ENGLISH = "This is no JSON text that Berth reads. The name 'a' occurs twice in one object."
CHINESE = "这不是 Berth 可读取的 JSON 文本。名称 'a' 在同一对象中出现两次。"


@pytest.mark.parametrize(
    ("header", "query", "said"),
    [
        (b"zh-CN,zh;q=0.9", b"", CHINESE),
        (b"de", b"", ENGLISH),
        (b"en-US", b"job=1&language=zh-CN", CHINESE),
        (b"zh-CN", b"language=en", ENGLISH),
    ],
)
def test_a_socket_refuses_in_the_language_of_the_request_that_opened_it(header: bytes, query: bytes, said: str) -> None:
    socket: Any = Socket()
    socket.scope = {"headers": [(b"accept-language", header)], "query_string": query}
    with pytest.raises(InvalidInput) as refused:
        parse_text('{"a": 1, "a": 2}')
    assert error_text(refused.value, socket.language, id="1")["detail"] == said
