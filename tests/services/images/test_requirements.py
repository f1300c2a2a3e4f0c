"""Requirements are data: what must not reach pip is refused line by line, the rest has one identity."""

from __future__ import annotations

import pytest

from images.requirements import REQUIREMENTS_BYTES, parse

SHA = "a" * 64

FINE = [
    "numpy",
    "numpy==2.4.6",
    "numpy>=2,<3",
    "numpy >= 2 , < 3",
    "numpy (>=2)",
    "jax[cpu]==0.4.38",
    "jax[cpu, cuda12] ~= 0.4",
    "zope.interface",
    "A-b_c.d",
    "torch==2.9.0+cpu",
    "numpy==2.*",
    "numpy===2.0.0.dev1",
    'numpy; python_version >= "3.11"',
    "numpy>=2; sys_platform == 'linux' and (os_name != 'nt')",
    f"numpy==2.4.6 --hash=sha256:{SHA}",
    f"numpy==2.4.6 --hash=sha256:{SHA} --hash=sha256:{'b' * 64}",
    f"numpy==2.4.6 \\\n    --hash=sha256:{SHA}",
    "torch @ https://download.example.org/torch-2.9-cp311.whl",
    "torch[opt]@https://download.example.org/torch.whl#sha256=abc",
    "torch @ https://download.example.org/torch.whl ; python_version > '3'",
    "numpy  # fast arrays",
    "# only a comment\n\nnumpy\r\n",
    "--pre\nnumpy",
    "--only-binary :all:\nnumpy",
    "--only-binary=numpy,scipy\nnumpy",
    "--prefer-binary\n--require-hashes\nnumpy",
    "\ufeffnumpy",
]

REFUSED = [
    "-e .",
    "--editable git+https://example.org/x",
    "-r other.txt",
    "--requirement=/etc/passwd",
    "-c constraints.txt",
    "--index-url https://evil.example.org",
    "-i https://evil.example.org",
    "--extra-index-url=https://evil.example.org",
    "--find-links /srv",
    "-f .",
    "--trusted-host evil",
    "--no-index",
    "--no-binary",
    "--only-binary /x",
    "--use-feature x",
    "--config-settings x=y",
    "--pre yes",
    "numpy --config-settings=x=y",
    "numpy --global-option=--x",
    "numpy --hash=md5:abc",
    "numpy --hash=sha256:short",
    "numpy -e .",
    ".",
    "./package",
    "../package",
    "/etc/passwd",
    "~/package",
    "package.whl/../x",
    "file:///etc/passwd",
    "x @ file:///etc/passwd",
    "x @ /srv/x.whl",
    "x @ ./x.whl",
    "git+https://example.org/x.git",
    "x @ git+https://example.org/x.git",
    "x @ git+ssh://git@example.org/x.git",
    "x @ http://example.org/x.whl",
    "x @ https://user:secret@example.org/x.whl",
    "x @ https://token@example.org/x.whl",
    "x @ https://",
    "x @ https://[bad/x.whl",
    "https://example.org/x.whl",
    "${SECRET}",
    "numpy==${VERSION}",
    "x @ https://example.org/${PIP_INDEX_URL}",
    "numpy; import os",
    "numpy; python_version > `id`",
    "numpy scipy",
    "num py",
    "-numpy",
    "numpy==",
    "numpy=2",
    "nümpy",
    "numpy\x00",
    "numpy\x1b[31m",
    "numpy[",
    "numpy[cpu",
    "*",
]


@pytest.mark.parametrize("text", FINE)
def test_what_people_write_passes(text):
    found, errors = parse(text)
    assert errors == ()
    assert found is not None


@pytest.mark.parametrize("text", REFUSED)
def test_what_must_not_reach_pip_is_refused(text):
    found, errors = parse("numpy\n" + text)
    assert found is None
    (error,) = errors
    assert error.path == "/requirements/2"
    assert str(error.message).startswith("Line 2:")
    assert error.hint


def test_a_list_of_conda_names_the_way_to_make_another():
    _, errors = parse("numpy @ file:///croot/numpy_1708638618654/work")
    assert "pip list --format=freeze" in str(errors[0].hint)


def test_all_lines_are_told_at_once():
    _, errors = parse("-e .\nnumpy\n\n# fine\n/etc/passwd\nscipy==1 --hash=md5:x\n")
    assert [error.path for error in errors] == ["/requirements/1", "/requirements/5", "/requirements/6"]


def test_a_continued_line_is_named_by_its_beginning():
    _, errors = parse("numpy\nscipy \\\n  --hash=md5:x\n-e .")
    assert [error.path for error in errors] == ["/requirements/2", "/requirements/4"]


@pytest.mark.parametrize("text", ["", "\n\n", "# nothing", "--pre\n"])
def test_nothing_is_no_environment(text):
    _, errors = parse(text)
    assert [error.code for error in errors] == ["required"]


def test_too_much_is_refused_before_it_is_read():
    assert [error.code for error in parse("n" * (REQUIREMENTS_BYTES + 1))[1]] == ["too_long"]
    assert [error.code for error in parse("\n" * 6_000)[1]] == ["too_long"]


def test_a_hostile_line_costs_no_time():
    for text in (
        "a" * 60_000,
        "a[" + "b," * 20_000,
        "a" + " ," * 20_000,
        "a==" + "1," * 20_000,
        "a; " + "(" * 20_000,
        "-" * 60_000,
    ):
        parse(text)


def test_the_same_environment_has_the_same_digest():
    first, _ = parse("scipy\nnumpy>=2  # why\n\nnumpy>=2\n")
    two, _ = parse("numpy>=2\r\nscipy\r\n")
    assert first is not None
    assert two is not None
    assert first.text == two.text == "numpy>=2\nscipy\n"
    assert first.digest(python="3.11.2", platform="linux-x86_64") == two.digest(python="3.11.2", platform="linux-x86_64")
    assert first.digest(python="3.12.0", platform="linux-x86_64") != two.digest(python="3.11.2", platform="linux-x86_64")
    assert first.digest(python="3.11.2", platform="linux-aarch64") != two.digest(python="3.11.2", platform="linux-x86_64")


def test_hashes_are_noticed():
    hashed, _ = parse(f"numpy==1 --hash=sha256:{SHA}")
    plain, _ = parse("numpy==1")
    assert (hashed.hashed, plain.hashed) == (True, False)
