"""What a program beside a task is, on every engine that has them: on the host's own system, in a container image, in a pod.

`test_kubernetes_contract.py` puts a real node under the same tests.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from clusters.engines.interface import NotRunning, Stop, StopCause, Workload
from tests.contract.engines.bench import Bench, open_bench, open_container_bench, runs_on
from tests.contract.engines.test_exec import execute, shell_image  # noqa: F401 - a fixture.

pytestmark = pytest.mark.engines


@pytest.fixture(params=["local", "container"])
def bench(request: pytest.FixtureRequest, engine_dir: Path) -> Iterator[Bench]:
    if request.param == "container":
        with open_container_bench(request.param, engine_dir, request.getfixturevalue("shell_image")) as opened:
            yield opened
        return
    with open_bench(request.param, engine_dir) as opened:
        yield opened


def running(bench: Bench) -> Workload:
    workload = bench.start(replace(runs_on(), shell="echo here >file; echo ready; exec sleep 1000"), env={"WORD": ("a  'b",)})
    bench.wait_for_output(workload.attempt_id, b"ready")
    return workload


@pytest.mark.capability("40", "A program beside a task finds what its task found, on the host and in a container image")
def test_a_beside_program_finds_environment_directory_and_words_as_they_are(bench: Bench) -> None:
    workload = running(bench)
    shown = 'printf "%s|" "$WORD" "$0" "$1"; cat file; test "$PWD" = "$BERTH_WORKDIR" && echo there; id -u >ours; test -O file'
    said = execute(bench, workload.attempt_id, "/bin/sh", "-c", shown, "a b", "$HOME", terminal=None).wait()
    assert said == (b"a  'b|a b|$HOME|here\nthere\n", 0)


@pytest.mark.parametrize(("argv", "code"), [(("false",), 1), (("sh", "-c", "exit 42"), 42), (("no-such-program",), 127)])
def test_the_code_of_a_beside_program_comes_home(bench: Bench, argv: tuple[str, ...], code: int) -> None:
    assert execute(bench, running(bench).attempt_id, *argv, terminal=None).wait()[1] == code


def test_a_beside_program_that_is_killed_ends_as_a_shell_says_it(bench: Bench) -> None:
    assert execute(bench, running(bench).attempt_id, "sh", "-c", "kill -9 $$", terminal=None).wait()[1] == 137


def test_a_beside_program_reads_bytes_to_their_end(bench: Bench) -> None:
    workload = running(bench)
    typed = execute(bench, workload.attempt_id, "sh", "-c", "cat; echo over >&2", terminal=None)
    typed.type(bytes(range(256)))
    typed.execution.end_input()
    said, code = typed.wait()
    assert (said.replace(b"over\n", b""), b"over\n" in said, code) == (bytes(range(256)), True, 0)  # Either order.


def test_a_beside_shell_has_a_terminal_of_the_size_that_was_asked(bench: Bench) -> None:
    typed = execute(bench, running(bench).attempt_id)
    typed.type(b"stty size; test -t 0 && echo ter''minal; exit 5\n")
    output, code = typed.wait()
    assert b"31 97" in output
    assert b"terminal" in output
    assert code == 5


def test_a_beside_program_ends_with_its_task(bench: Bench) -> None:
    workload = running(bench)
    typed = execute(bench, workload.attempt_id, "sh", "-c", "trap '' TERM HUP; echo up; while :; do sleep 0.05; done")
    typed.read_until(b"up")
    bench.engine.stop([Stop(workload.attempt_id, 0.1, StopCause.USER)])
    bench.wait_for_end(workload.attempt_id)
    assert typed.wait()[1] != 0
    with pytest.raises(NotRunning):
        execute(bench, workload.attempt_id, "true", terminal=None)
