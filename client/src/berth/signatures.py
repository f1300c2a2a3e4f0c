"""Checks Ed25519 signatures (RFC 8032) in plain Python, so that a statement can be checked offline with nothing installed.

Only checks: nothing secret is handled here, so it does not matter how long a step takes. One check takes a few milliseconds.
"""

from __future__ import annotations

import base64
import binascii
import hashlib

_P = 2**255 - 19
_ORDER = 2**252 + 27742317777372353535851937790883648493
_D = -121665 * pow(121666, _P - 2, _P) % _P
_ROOT = pow(2, (_P - 1) // 4, _P)  # Of -1.
_Point = tuple[int, int, int, int]  # Extended coordinates.


def is_signed(data: bytes, signature: str, public_key: str) -> bool:
    """Whether the owner of the key (both in Base64) signed just these bytes."""
    try:
        signed, key = base64.b64decode(signature, validate=True), base64.b64decode(public_key, validate=True)
    except (binascii.Error, ValueError):
        return False
    if len(signed) != 64 or len(key) != 32:
        return False
    point, given = _point(key), _point(signed[:32])
    scalar = int.from_bytes(signed[32:], "little")
    if point is None or given is None or scalar >= _ORDER:
        return False
    challenge = int.from_bytes(hashlib.sha512(signed[:32] + key + data).digest(), "little") % _ORDER
    return _equal(_times(scalar, _BASE), _plus(given, _times(challenge, point)))


def _x_of(y: int, sign: int) -> int | None:
    """The coordinate that goes with y on the curve."""
    if y >= _P:
        return None
    square = (y * y - 1) * pow(_D * y * y + 1, _P - 2, _P) % _P
    if not square:
        return None if sign else 0
    x = pow(square, (_P + 3) // 8, _P)
    if (x * x - square) % _P:
        x = x * _ROOT % _P
    if (x * x - square) % _P:
        return None
    return _P - x if x & 1 != sign else x


def _point(text: bytes) -> _Point | None:
    number = int.from_bytes(text, "little")
    y, sign = number & ((1 << 255) - 1), number >> 255
    x = _x_of(y, sign)
    return None if x is None else (x, y, 1, x * y % _P)


def _plus(one: _Point, other: _Point) -> _Point:
    a = (one[1] - one[0]) * (other[1] - other[0]) % _P
    b = (one[1] + one[0]) * (other[1] + other[0]) % _P
    c, d = 2 * one[3] * other[3] * _D % _P, 2 * one[2] * other[2] % _P
    e, f, g, h = b - a, d - c, d + c, b + a
    return e * f % _P, g * h % _P, f * g % _P, e * h % _P


def _times(scalar: int, point: _Point) -> _Point:
    found: _Point = (0, 1, 1, 0)
    while scalar:
        if scalar & 1:
            found = _plus(found, point)
        point, scalar = _plus(point, point), scalar >> 1
    return found


def _equal(one: _Point, other: _Point) -> bool:
    return not (one[0] * other[2] - other[0] * one[2]) % _P and not (one[1] * other[2] - other[1] * one[2]) % _P


_BASE_Y = 4 * pow(5, _P - 2, _P) % _P
_BASE_X = _x_of(_BASE_Y, 0) or 0
_BASE: _Point = (_BASE_X, _BASE_Y, 1, _BASE_X * _BASE_Y % _P)
