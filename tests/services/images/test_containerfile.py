"""A Containerfile is data: the images that it takes are known before it runs, and it finds them under names of the build."""

from __future__ import annotations

import pytest

from clusters.registries import references
from images.containerfile import BASES_MAX, CONTAINERFILE_BYTES, local_name, of_requirements, parse

SHA = "sha256:" + "a" * 64
TAG = "sha256-" + "a" * 64

TAKEN = [
    ("FROM scratch", [], "FROM scratch"),
    ("from busybox", ["docker.io/library/busybox:latest"], "FROM docker.io/library/busybox:latest"),
    ("FROM r.example.org/a:1 AS one\nFROM one", ["r.example.org/a:1"], "FROM r.example.org/a:1 AS one\nFROM one"),
    (f"FROM r.example.org/a:1@{SHA}", [f"r.example.org/a:1@{SHA}"], f"FROM r.example.org/a:{TAG}"),
    ("ARG V=1\nFROM r.example.org/a:$V", ["r.example.org/a:1"], "ARG V=1\nFROM r.example.org/a:1"),
    ("ARG V\nFROM r.example.org/a:${V:-2}", ["r.example.org/a:2"], "ARG V\nFROM r.example.org/a:2"),
    ("FROM --platform=linux/amd64 r.example.org/a:1", ["r.example.org/a:1"], "FROM r.example.org/a:1"),
    (
        "FROM scratch AS one\nCOPY --chown=1 --from=r.example.org/b:2 /x /y\nCOPY --from=one /x /y\nCOPY --from=0 /x /y",
        ["r.example.org/b:2"],
        "FROM scratch AS one\nCOPY --chown=1 --from=r.example.org/b:2 /x /y\nCOPY --from=one /x /y\nCOPY --from=0 /x /y",
    ),
    (
        "FROM scratch\nRUN --mount=type=bind,from=tools:3,target=/t /t/run --from=not-an-image",
        ["docker.io/library/tools:3"],
        "FROM scratch\nRUN --mount=type=bind,from=docker.io/library/tools:3,target=/t /t/run --from=not-an-image",
    ),
    ("FROM scratch\nRUN echo $((1<<N)) <<<word", [], "FROM scratch\nRUN echo $((1<<N)) <<<word"),
    ("# a comment\nFROM scratch\nRUN a && \\\n  # between\n  b", [], "FROM scratch\nRUN a &&  b"),
    ("FROM a:1\nFROM a:1", ["docker.io/library/a:1"], "FROM docker.io/library/a:1\nFROM docker.io/library/a:1"),
]

REFUSED = [
    ("", "/containerfile", "required"),
    ("RUN true", "/containerfile", "required"),
    ("FROM ../etc", "/containerfile/1", "bad_reference"),
    ("\nFROM $BASE", "/containerfile/2", "bad_reference"),
    ("FROM docker-archive:/etc/shadow", "/containerfile/1", "bad_reference"),
    ("FROM a:1 b c", "/containerfile/1", "bad_from"),
    ("FROM", "/containerfile/1", "bad_from"),
    ("FROM --platform=linux/arm64 a:1", "/containerfile/1", "bad_flag"),
    ("FROM scratch\nCOPY --from=dir:/etc /x /y", "/containerfile/2", "bad_reference"),
    ("FROM scratch\nRUN <<EOF\necho\nEOF", "/containerfile/2", "here_document"),
    ("FROM scratch\nCOPY <<-'EOF' /x.py\n  print(1)\nEOF", "/containerfile/2", "here_document"),
    ("# escape=`\nFROM scratch", "/containerfile", "bad_directive"),
    ("FROM scratch\x00", "/containerfile", "bad_text"),
    ("FROM scratch\n" + "#" * CONTAINERFILE_BYTES, "/containerfile", "too_long"),
    ("".join(f"FROM a:{number}\n" for number in range(BASES_MAX + 1)), "/containerfile", "too_many"),
]


@pytest.mark.parametrize(("text", "bases", "kept"), TAKEN)
def test_images_are_found_and_named(text: str, bases: list[str], kept: str) -> None:
    found, errors = parse(text)
    assert errors == ()
    assert found is not None
    assert [str(base) for base in found.bases] == bases
    assert [line.split() for line in found.text.splitlines()] == [line.split() for line in kept.splitlines()]


@pytest.mark.parametrize(("text", "path", "code"), REFUSED)
def test_what_is_wrong_is_told_with_its_line(text: str, path: str, code: str) -> None:
    found, errors = parse(text)
    assert found is None
    assert [(error.path, error.code) for error in errors] == [(path, code)]


def test_all_errors_are_told_at_once() -> None:
    _, errors = parse("FROM $A\nFROM scratch\nCOPY --from=$B /x /y")
    assert [error.path for error in errors] == ["/containerfile/1", "/containerfile/3"]


def test_variables_of_variables_do_not_grow_without_a_bound() -> None:
    lines = ["ARG V0=aaaaaaaaaa", *(f"ARG V{number + 1}={f'$V{number}' * 10}" for number in range(30)), "FROM $V30"]
    _, errors = parse("\n".join(lines))
    assert [(error.path, error.code) for error in errors] == [("/containerfile/32", "bad_reference")]


def test_requirements_become_a_containerfile_of_their_base() -> None:
    base = references.parse("python:3.12")
    assert base is not None
    plain, _ = parse(of_requirements(base, hashed=False))
    hashed, _ = parse(of_requirements(base, hashed=True))
    assert plain is not None
    assert hashed is not None
    assert plain.bases == hashed.bases == (base,)
    assert "--require-hashes" in hashed.text
    assert "--require-hashes" not in plain.text
    assert local_name(base) == "docker.io/library/python:3.12"
