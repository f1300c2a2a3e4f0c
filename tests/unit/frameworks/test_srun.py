"""Reading srun's options as Slurm does, and sharing a job's tasks out among its steps."""

from __future__ import annotations

import pytest

from jobs.conversion.slurm_refusals import REFUSALS
from jobs.frameworks.slurm_steps import Impossible, Node, StepAsk, allot, ask_of, compressed, hold, names_of
from jobs.frameworks.srun_client import REASONS, seconds_of
from jobs.frameworks.srun_options import (
    IDLE,
    LETTERS,
    MAYBE,
    NONE,
    OPTIONS,
    REFUSED,
    STEP,
    UNKNOWN,
    VALUE,
    Refused,
    read,
)

# Every option of srun's manual (Slurm 22.05): `=` has a value, `?` may have one, ` ` has none.
MANUAL = """
accel-bind= account/A= acctg-freq= bb= bbf= bcast? bcast-exclude= begin/b= chdir/D= cluster-constraint= clusters/M= comment=
compress? constraint/C= container= contiguous core-spec/S= cores-per-socket= cpu-bind= cpu-freq= cpus-per-gpu=
cpus-per-task/c= deadline= delay-boot= dependency/d= disable-status/X distribution/m= epilog= error/e= exact exclude/x=
exclusive? export= extra-node-info/B= gid= gpu-bind= gpu-freq= gpus/G= gpus-per-node= gpus-per-socket= gpus-per-task= gres=
gres-flags= help/h het-group= hint= hold/H immediate/I? input/i= job-name/J= jobid= kill-on-bad-exit/K? label/l licenses/L=
mail-type= mail-user= mcs-label= mem= mem-bind= mem-per-cpu= mem-per-gpu= mincpus= mpi= msg-timeout= multi-prog network= nice?
no-allocate/Z no-kill/k? nodefile/F= nodelist/w= nodes/N= ntasks/n= ntasks-per-core= ntasks-per-gpu= ntasks-per-node=
ntasks-per-socket= open-mode= output/o= overcommit/O overlap oversubscribe/s partition/p= power= prefer= preserve-env/E
priority= profile= prolog= propagate? pty qos/q= quiet/Q quit-on-interrupt reboot relative/r= reservation= resv-ports?
send-libs? signal= slurmd-debug= sockets-per-node= spread-job switches= task-epilog= task-prolog= test-only thread-spec=
threads/T= threads-per-core= time/t= time-min= tmp= uid= unbuffered/u usage use-min-nodes verbose/v version/V wait/W= wckey=
x11?
"""
FORMS = {"=": VALUE, "?": MAYBE}
VALUES = {"nodes": "2-4", "distribution": "cyclic:block", "gpu-bind": "single:2", "mpi": "none", "jobid": "7"}


@pytest.mark.parametrize("entry", MANUAL.split())
def test_the_table_is_the_manuals(entry):
    name, _, letter = entry.rstrip("=?").partition("/")
    option = OPTIONS[name]

    assert (option.form, option.letter) == (FORMS.get(entry[-1], NONE), letter)
    value = VALUES.get(name, "3")
    if option.kind in (STEP, IDLE):
        for words in (
            [[f"--{name}={value}"], [f"--{name}", value]] if option.form == VALUE else [[f"--{name}"]],
            [[f"-{letter}{value}"], [f"-{letter}", value]] if letter and option.form == VALUE else [],
            [[f"-{letter}"]] if letter and option.form != VALUE else [],
            [[f"--{name}={value}"]] if option.form == MAYBE else [],
        ):
            for given in words:
                reading = read([*given, "run", "-n", "--pty"], job="7")
                assert (reading.command, reading.is_known) == (("run", "-n", "--pty"), True)
                assert name in {**reading.options, **dict.fromkeys(reading.idle)}
    else:
        with pytest.raises(Refused) as caught:
            read([f"--{name}={value}" if option.form == VALUE else f"--{name}", "run"])
        assert caught.value.reason == option.kind


@pytest.mark.parametrize(
    ("words", "options", "command"),
    [
        ("-lN2 -n 4 run", {"label": "", "nodes": "2", "ntasks": "4"}, ("run",)),
        ("-ul -c2 -- -run", {"unbuffered": "", "label": "", "cpus-per-task": "2"}, ("-run",)),
        ("--ntask 2 --lab run", None, None),
        ("--labe --cpus-per-t=3 run", {"label": "", "cpus-per-task": "3"}, ("run",)),
        ("--tasks-per-node 2 run", {"ntasks-per-node": "2"}, ("run",)),
        ("-K run", {"kill-on-bad-exit": ""}, ("run",)),
        ("-K0 --exclusive run", {"kill-on-bad-exit": "0", "exclusive": ""}, ("run",)),
        ("--export ALL,A=1 run a : b", {"export": "ALL,A=1"}, ("run", "a", ":", "b")),
    ],
)
def test_options_are_read_as_getopt_reads_them(words, options, command):
    if options is None:
        with pytest.raises(Refused):
            read(words.split())
        return
    reading = read(words.split())
    assert (reading.options, reading.command) == (options, command)


@pytest.mark.parametrize(
    ("words", "is_known", "command"),
    [
        (["-n", UNKNOWN, "run"], True, ("run",)),
        ([f"--ntasks={UNKNOWN}", "run"], True, ("run",)),
        ([f"--{UNKNOWN}=2", "run"], False, ("run",)),
        ([UNKNOWN, "run"], False, (UNKNOWN, "run")),
        (["-N2", UNKNOWN], False, (UNKNOWN,)),
        (["run", UNKNOWN], True, ("run", UNKNOWN)),
        ([f"-n{UNKNOWN}", "run"], True, ("run",)),
        ([f"-{UNKNOWN}", "run"], False, ("run",)),
    ],
)
def test_what_only_the_shell_will_know_is_left_open(words, is_known, command):
    reading = read(words)
    assert (reading.is_known, reading.command) == (is_known, command)


def test_each_reason_has_its_words():
    assert set(REASONS) == set(REFUSALS) == {*REFUSED, "value"}
    assert set(LETTERS.values()) <= set(OPTIONS)


# --- Sharing out -----------------------------------------------------------------------------------------------------


def nodes(*cpus: int, gpus: int = 0, tasks: int = 1, name: str = "") -> list[Node]:
    return [Node(place, name or f"n{place}", count, gpus, tasks) for place, count in enumerate(cpus)]


def asked(line: str, count: int, **environment: str) -> StepAsk:
    return ask_of(read([*line.split(), "run"]).options, environment, count)


def shares(line: str, on: list[Node], **environment: str) -> list[tuple[int, tuple[int, ...]]] | None:
    ask = asked(line, len(on), **environment)
    found = allot(ask, on, int(environment.get("SLURM_CPUS_PER_TASK", "1")))
    if found is None:
        return None
    hold(found, on, ask)
    return [(share.place, share.ranks) for share in found]


JOB = {"SLURM_NTASKS": "4", "SLURM_NTASKS_PER_NODE": "2"}


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("", [(0, (0, 1)), (1, (2, 3))]),
        ("-n 1", [(0, (0,))]),
        ("-N 1", [(0, (0, 1))]),
        ("-n 2", [(0, (0,)), (1, (1,))]),
        ("-N 2 -n 3", [(0, (0, 1)), (1, (2,))]),
        ("--ntasks-per-node=1", [(0, (0,)), (1, (1,))]),
        ("-m cyclic", [(0, (0, 2)), (1, (1, 3))]),
        ("-N1 -n1 -w n1", [(1, (0,))]),
        ("-N1 -n1 -r 1", [(1, (0,))]),
        ("-N1 -n2 -x n0", [(1, (0, 1))]),
        ("-n 2 -c 2", [(0, (0,)), (1, (1,))]),
    ],
)
def test_tasks_lie_on_the_nodes_that_are_asked_for(line, expected):
    assert shares(line, nodes(2, 2, tasks=2), **JOB) == expected


@pytest.mark.parametrize("line", ["-n 5", "-N 3 -n 3", "-n 2 -c 3", "-w elsewhere", "-n 1 --gpus=1"])
def test_what_the_job_never_has_is_impossible(line):
    with pytest.raises(Impossible):
        shares(line, nodes(2, 2, tasks=2), **JOB)


def test_steps_at_the_same_time_take_free_nodes_then_free_cores_then_wait():
    on = nodes(2, 2)
    assert [shares("-N1 -n1", on) for _ in range(3)] == [[(0, (0,))], [(1, (0,))], [(0, (0,))]]
    assert shares("-N1 -n1 -c2", on) is None
    assert shares("-N1 -n1 -c2 --overlap", on) == [(0, (0,))]
    assert shares("-N1 -n1", on, SLURM_STEP_ID="0") is not None  # From inside a step, which holds these cores.


def test_what_a_step_held_is_free_when_it_ends():
    on = nodes(1)
    ask = asked("-n1", 1)
    found = allot(ask, on, 1)
    assert found is not None
    hold(found, on, ask)
    assert allot(ask, on, 1) is None
    hold(found, on, ask, -1)
    assert allot(ask, on, 1) == found


def test_a_step_that_ended_while_the_next_one_was_starting_ran_beside_it():
    on = nodes(1, 1)
    ask = asked("-N1 -n1 -c1", 2)
    found = allot(ask, on, 1)
    assert found is not None
    hold(found, on, ask)
    hold(found, on, ask, -1, now=100.0)
    beside, behind = (allot(ask._replace(began_at=moment), on, 1) for moment in (99.0, 101.0))
    assert [[share.place for share in shares or ()] for shares in (beside, behind)] == [[1], [0]]


def test_gpus_are_shared_out_like_cores():
    on = nodes(4, gpus=4)
    ask = asked("-n2 --gpus-per-task=1", 1)
    first = allot(ask, on, 1)
    assert first is not None
    assert first[0].gpus == (0, 1)
    hold(first, on, ask)
    second = allot(asked("-n1 --gres=gpu:2", 1), on, 1)
    assert second is not None
    assert second[0].gpus == (2, 3)
    assert asked("-n1", 1, SLURM_GPUS_PER_TASK="2").gpus_per_task == 2
    assert asked("-n4 --gpus=a100:8", 2).gpus_per_node == 4


def test_nodes_of_one_address_are_told_apart_by_what_is_free():
    on = nodes(1, 1, name="127.0.0.1")
    assert shares("-N1 -n1 -w 127.0.0.1", on) == [(0, (0,))]
    assert shares("-N1 -n1 -w 127.0.0.1", on) == [(1, (0,))]


def test_lists_of_names_and_counts():
    assert names_of("a1,b[01-03,7]x,c") == ["a1", "b01x", "b02x", "b03x", "b7x", "c"]
    assert compressed([2, 2, 2, 1]) == "2(x3),1"


@pytest.mark.parametrize(
    ("text", "seconds"), [("", None), ("0", None), ("2", 120), ("1:30", 90), ("1:0:0", 3600), ("1-2", 93_600)]
)
def test_limits_of_a_step(text, seconds):
    assert seconds_of(text) == seconds
