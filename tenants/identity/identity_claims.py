"""What somewhere else says of a person, once it is checked: an identity provider, or a directory."""

from __future__ import annotations

from dataclasses import dataclass


class SignInFailed(Exception):
    """The sign-in did not come to its end; `code` is all that the user who tried is told."""

    def __init__(self, code: str, why: str) -> None:
        super().__init__(why)
        self.code = code


@dataclass(frozen=True, slots=True)
class Claims:
    """A person, as `issuer` knows them."""

    issuer: str
    subject: str
    email: str
    email_verified: bool
    name: str
    groups: tuple[str, ...] | None  # None: nothing was said of groups.
