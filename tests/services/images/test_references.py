"""Registry references: the grammar of the distribution specification, and nothing that a shell or manifest could misread."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as some

from clusters.registries.references import looks_like_reference, parse

DIGEST = "sha256:" + "0123456789abcdef" * 4


@pytest.mark.parametrize(
    ("text", "full"),
    [
        ("ubuntu", "docker.io/library/ubuntu:latest"),
        ("team/train:1.2", "docker.io/team/train:1.2"),
        ("registry.example.org/team/train", "registry.example.org/team/train:latest"),
        ("registry.example.org:5000/train:v1", "registry.example.org:5000/train:v1"),
        ("localhost/train", "localhost/train:latest"),
        ("localhost:5000/a/b/c:x", "localhost:5000/a/b/c:x"),
        (f"team/train@{DIGEST}", f"docker.io/team/train@{DIGEST}"),
        (f"registry.example.org/team/train:1.2@{DIGEST}", f"registry.example.org/team/train:1.2@{DIGEST}"),
        ("[::1]:5000/train", "[::1]:5000/train:latest"),
        ("a/b__c/d---e/f.g_h", "docker.io/a/b__c/d---e/f.g_h:latest"),
    ],
)
def test_a_reference_has_one_full_form(text, full):
    found = parse(text)
    assert str(found) == full
    assert str(parse(full)) == full
    assert found.is_pinned == ("@" in text)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "UPPER/case",
        "a//b",
        "/a",
        "a/",
        "a:",
        "a:tag:tag",
        "a b",
        "a;rm -rf",
        "a$(id)",
        "a`id`",
        "a\nb",
        "a\x00",
        "../a",
        "a/../b",
        "-a",
        "a/-b",
        "http://registry/a",
        "registry.example.org:port/a",
        "registry.example.org:123456/a",
        "a@sha256:short",
        f"a@{DIGEST}0",
        f"a@{DIGEST.upper()}",
        f"a@md5:{'a' * 32}",
        f"a@{DIGEST}@{DIGEST}",
        "a" * 600,
        "registry.example.org/" + "a" * 300,
        "ü/a",
        "a:" + "t" * 129,
        "-registry.org/a",
        "exa_mple.org/a",
        "@" + DIGEST,
        ":tag",
    ],
)
def test_what_is_no_reference_is_none(text):
    assert parse(text) is None


@given(some.text(max_size=80))
def test_whatever_passes_is_harmless_text(text):
    found = parse(text)
    if found is not None:
        assert not set(str(found)) - set("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-/:@[]")
        assert str(parse(str(found))) == str(found)


def test_catalogue_names_are_told_apart():
    assert not looks_like_reference("jax-cpu")
    assert looks_like_reference("team/train")
    assert looks_like_reference("train:1")
    assert looks_like_reference(f"train@{DIGEST}")
