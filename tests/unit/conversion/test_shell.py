"""Which commands a script runs: found wherever a shell would run them, and nowhere else."""

import time

import pytest

from jobs.conversion.shell import PARSE_SECONDS, read_script
from jobs.frameworks.srun_options import UNKNOWN


def steps(text: str) -> list[tuple[tuple[str, ...], int]]:
    return [(command.words, command.line) for command in read_script(text).called("srun")]


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("x=$(srun run)", 1),
        ("x=`srun run`", 1),
        ("cd /data; srun run", 1),
        ("cd /data &&\n  srun run || exit 1", 2),
        ("f() {\n  srun run\n}\nf", 2),
        ("function f { srun run; }", 1),
        ("for i in 1 2; do srun run & done; wait", 1),
        ("srun run | tee log", 1),
        ("if ! srun run; then exit 1; fi", 1),
        ("while read -r x; do srun run; done < list", 1),
        ("case $x in a) srun run ;; esac", 1),
        ("( srun run )", 1),
        ("LEVEL=1 srun run", 1),
        ("srun run > out 2>&1", 1),
        ("srun run &> out &", 1),
        ("diff <(srun run) b", 1),
        ("cat <<END\n$(srun run)\nEND", 2),
        ('echo "now $(srun run)"', 1),
        ("exec srun run", 1),
        ("time -p srun run", 1),
        ("nohup nice -n 5 srun run &", 1),
        ("timeout -s INT 5m srun run", 1),
        ("env -u A B=1 /usr/bin/srun run", 1),
        ("eval 'srun run'", 1),
        ("bash -lc 'srun run'", 1),
        ("bash -c \"bash -c 'srun run'\"", 1),
        ("STEP='srun run'\n$STEP", 1),
        ("srun \\\n  run", 1),
        ("'srun' run", 1),
        ("s\\run run", 1),
    ],
)
def test_a_step_is_found_wherever_a_shell_would_run_it(text, line):
    assert steps(text) == [(("run",), line)]


@pytest.mark.parametrize(
    "text",
    [
        "# srun run",
        "true # srun run",
        "echo 'srun run'",
        'echo "srun run"',
        "echo srun run",
        "cat <<'END'\n$(srun run)\nEND",
        "cat <<END\nsrun run\nEND",
        "command -v srun",
        "x='srun'run",
        "mysrun run",
        "echo $srun",
        "ls /usr/bin/srun",
    ],
)
def test_what_no_shell_would_run_is_no_step(text):
    assert steps(text) == []


@pytest.mark.parametrize(
    ("word", "read"),
    [
        ("a", "a"), ("'a b'", "a b"), ('"a b"', "a b"), ("a\\ b", "a b"), ("-N=2", "-N=2"), ("2", "2"),
        ("--a='b c'd", "--a=b cd"), ("$A", UNKNOWN), ('"$A"', UNKNOWN), ("--n=$A", f"--n={UNKNOWN}"),
        ('"a $A b"', f"a {UNKNOWN} b"), ("$(a)b", f"{UNKNOWN}b"),
        ("${A:-2}x", f"{UNKNOWN}x"), ('"a\\"b"', 'a"b'), ("$((1 + 2))", UNKNOWN), ("*.py", f"{UNKNOWN}*.py"),
    ],
)  # fmt: skip
def test_words_are_read_as_the_shell_reads_them(word, read):
    assert steps(f"srun {word} run") == [((read, "run"), 1)]


def test_a_variable_has_the_command_where_only_the_shell_will_know_it():
    assert [command.name for command in read_script('$RUN a\n"$@"').commands] == [UNKNOWN, UNKNOWN]


def test_variables_that_are_read_and_set_are_told_apart():
    script = read_script('A=1\nexport B=$C\necho "${D:-1}" $((E + 1)) ${!F} $1\n')

    assert [(entry.name, entry.value, entry.line) for entry in script.assignments] == [("A", "1", 1), ("B", UNKNOWN, 2)]
    assert {"C", "D", "F"} <= set(script.variables)
    assert "A" not in script.variables


def test_the_line_is_told_where_the_parser_loses_its_way():
    assert read_script("echo a\necho b\n").unread_line is None
    assert read_script("echo a\nif then (\n").unread_line is not None


@pytest.mark.parametrize("unit", ["a|", "x=(", "<<E\n", "$(", "((", '"', "eval 'a|a|a|a|a|a'\n", "${", "{ ", "\\"])
def test_no_text_costs_more_than_its_bound(unit):
    began = time.monotonic()
    read_script(unit * (200_000 // len(unit)))

    assert time.monotonic() - began < 5 * PARSE_SECONDS  # Walking what was read comes on top, on a busy machine.
