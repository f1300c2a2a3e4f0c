"""The framework mapreduce: what it lays out, sorting in bounded memory, and its programs as real processes without a platform."""

from __future__ import annotations

import json
import os
import random
import urllib.error
import urllib.request
from pathlib import Path

import pytest

from jobs.frameworks import GangPlan, RoleShape, get_framework
from jobs.frameworks.reduce_task import MapParts
from jobs.frameworks.sorted_lines import OPEN_MAX, Partitions, merged, part_of
from tests.builders.live import wait_until
from tests.unit.frameworks.gangs import Gang, running
from tests.unit.frameworks.resolving import a_job, a_role, environment_of, text_of

COUNT = """exec python3 -c '
import itertools, sys
lines = (line.rstrip().split("\\t") for line in sys.stdin)
for key, group in itertools.groupby(lines, lambda pair: pair[0]):
    print(key, sum(int(value) for _, value in group), sep="\\t")
'"""


def a_plan(
    maps: int, reduces: int, map_command: str, reduce_command: str = COUNT, *, reduce_tries: int | None = None, **more: object
) -> GangPlan:
    job = a_job(
        a_role("reduce", reduces, "/bin/sh", "-c", reduce_command, max_retry=reduce_tries),
        a_role("map", maps, "/bin/sh", "-c", map_command, **more),
    )
    return get_framework("mapreduce").compile(job)


# --- What is laid out ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("roles", "codes"),
    [
        (("map", "reduce"), []),
        (("map",), ["role_missing"]),
        (("reduce",), ["role_missing"]),
        (("map", "reduce", "combine"), ["role_unknown"]),
    ],
)
def test_the_roles_of_mapreduce(roles, codes):
    shapes = {name: RoleShape(2, 2, 0, ()) for name in roles}
    assert [error.code for error in get_framework("mapreduce").validate(shapes)] == codes


def agent_plan(task) -> dict:
    return json.loads(environment_of(task)["BERTH_TASK_PLAN"])


@pytest.mark.parametrize(("min_failed", "tolerated"), [(1, "0"), (3, "2"), (None, "4")])
def test_reduce_tasks_know_how_many_maps_may_fail(min_failed, tolerated):
    plan = a_plan(4, 2, "true", min_failed=min_failed)
    first, second = (agent_plan(task) for task in plan.tasks if task.name.role == "reduce")
    numbers = [["".join(map(str, argument)) for argument in agent["argv"][2:6]] for agent in (first, second)]
    assert numbers == [["4", tolerated, "0", "<berth-reduce>"], ["4", tolerated, "1", "<berth-reduce>"]]


def test_maps_are_tried_again_alone_and_have_a_last_word():
    plan = a_plan(2, 1, "true")
    agent = agent_plan(plan.tasks[0])
    assert str(plan.tasks[0].name) == "map-0"
    assert agent["max_retry"] == 3
    assert ["".join(argument) for argument in agent["after_failure"]] == ["python3", "/files/map_task.py", "give-up"]
    assert agent_plan(a_plan(2, 1, "true", max_retry=7).tasks[0])["max_retry"] == 7
    assert text_of(plan.files["berth-reducers"]) == "0 reduce-0.test <berth-reduce>\n"
    assert all(task.secret_env == {"BERTH_ATTEMPT_KEY": "k" * 32} for task in plan.tasks)


# --- Sorting ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("bytes_max", [1, 1_000, 1 << 20])
def test_lines_come_out_sorted_with_equal_keys_together_whatever_fits_in_memory(tmp_path, bytes_max):
    rng = random.Random(bytes_max)
    keys = [b"", b"a", b"a b", b"a\x01", b"\xc3\xa9", b"b", b"\xff"]
    lines = [rng.choice(keys) + rng.choice([b"", b"\t", b"\t1", b"\tx\ty"]) + b"\n" for _ in range(500)]
    parts = Partitions(str(tmp_path), 3, bytes_max)
    for line in lines:
        parts.add(line)
    read = [Path(path).read_bytes().splitlines(keepends=True) for path in parts.files()]
    assert sorted(line for part in read for line in part) == sorted(
        line if b"\t" in line else line[:-1] + b"\t\n" for line in lines
    )
    for number, part in enumerate(read):
        order = [line.partition(b"\t")[0] for line in part]
        assert all(part_of(key, 3) == number for key in order)
        assert len([key for key, before in zip(order, [None, *order], strict=False) if key != before]) == len(set(order))


def test_the_part_of_a_key_is_the_same_everywhere():
    assert [part_of(key, 7) for key in (b"", b"the", "naïve".encode())] == [0, 3, 0]


def test_more_files_than_may_be_open_are_merged_in_rounds(tmp_path):
    paths = []
    for number in range(2 * OPEN_MAX + 30):
        path = tmp_path / f"part-{number}"
        path.write_bytes(b"%04d\t\n" % number)
        paths.append(str(path))
    assert list(merged(paths)) == [b"%04d\t\n" % number for number in range(len(paths))]


# --- MapParts -----------------------------------------------------------------------------------------------------------


def test_a_part_counts_once_and_whole(tmp_path):
    parts = MapParts(str(tmp_path), 3)

    def send(index: int, content: bytes, length: int | None = None) -> None:
        source = tmp_path / "source"
        source.write_bytes(content)
        with source.open("rb") as file:
            parts.take(index, file, len(content) if length is None else length)
        source.unlink()

    with pytest.raises(ConnectionError):
        send(0, b"half", 8)
    assert (parts.there, os.listdir(tmp_path)) == (set(), ["source"])
    (tmp_path / "source").unlink()
    send(0, b"first\t\n")
    send(0, b"second\t\n")
    parts.note_failed(0)
    parts.note_failed(2)
    assert (parts.there, parts.failed) == ({0}, {2})
    send(1, b"")
    again = MapParts(str(tmp_path), 3)
    assert (again.there, again.failed) == ({0, 1}, {2}), "a next try of the task finds what has come"
    assert [Path(path).read_bytes() for path in again.close()] == [b"second\t\n", b""]
    parts = again
    send(2, b"late\t\n")
    assert again.there == {0, 1}
    with pytest.raises(ValueError, match="no map 3"):
        parts.note_failed(3)


# --- Real processes --------------------------------------------------------------------------------------------------


def counts_of(folder: Path) -> dict[str, int]:
    lines = [line for path in sorted(folder.glob("reduce-*/part-*")) for line in path.read_text().splitlines()]
    pairs = [line.split("\t") for line in lines]
    assert len({key for key, _ in pairs}) == len(pairs), "each key is in one part"
    return {key: int(value) for key, value in pairs}


WORDS = """
for number in 1 2 3 4 5 6 7 8 9 10; do
  for word in the of map$BERTH_INDEX; do printf '%s\\t1\\n' $word; done
done
"""


@pytest.mark.engines
def test_words_are_counted_though_a_map_is_killed_in_the_middle(tmp_path):
    """First its command, then the program around it: neither leaves a word twice."""
    killed = "test $BERTH_INDEX != 1 || test -e once || { touch once; kill -9 $$; }"
    killed_program = "test $BERTH_INDEX != 2 || test -e once || { touch once; kill -9 $PPID; }"
    with running(a_plan(4, 2, f"{WORDS}{killed}\n{killed_program}"), tmp_path) as gang:
        assert [gang.end_of(name) for name in gang.processes] == [0] * 6, gang.log("map-1")
    assert counts_of(tmp_path) == {"the": 40, "of": 40, **{f"map{index}": 10 for index in range(4)}}
    assert "berth: waits for 4 maps" in gang.log("reduce-0")
    for name in ("map-1", "map-2"):
        assert gang.log(name).count("it is started again (1 of 3)") == 1


@pytest.mark.engines
@pytest.mark.parametrize(("min_failed", "code"), [(2, 0), (1, 1)])
def test_reduce_tasks_go_on_with_fewer_maps_where_that_is_tolerated(tmp_path, min_failed, code):
    plan = a_plan(3, 1, f"test $BERTH_INDEX != 1 || kill -9 $PPID; {WORDS}", max_retry=0, min_failed=min_failed, reduce_tries=0)
    with running(plan, tmp_path) as gang:
        assert gang.end_of("reduce-0") == code, gang.log("reduce-0")
        assert gang.end_of("map-1") == -9
    assert f"berth: 1 of 3 maps failed, {min_failed - 1} may: map-1" in gang.log("reduce-0")
    assert counts_of(tmp_path) == ({"the": 20, "of": 20, "map0": 10, "map2": 10} if code == 0 else {})


@pytest.mark.engines
def test_a_reduce_task_that_failed_is_tried_again_with_the_same_lines(tmp_path):
    command = f"test -e once || {{ touch once; head -n 1 >/dev/null; exit 4; }}; {COUNT}"
    with running(a_plan(2, 1, WORDS, command), tmp_path) as gang:
        assert gang.end_of("reduce-0") == 0, gang.log("reduce-0")
    assert counts_of(tmp_path)["the"] == 20
    assert not list(tmp_path.glob("reduce-0/*.tmp"))


@pytest.mark.engines
def test_a_stranger_sends_no_part(tmp_path):
    with running(a_plan(1, 1, "sleep 600"), tmp_path) as gang:
        wait_until(lambda: put(gang, "/part/0", "") == 401, "the reduce task")
        assert put(gang, "/part/0", "wrong") == 401
        assert put(gang, "/failed/0", "wrong") == 401
        assert put(gang, "/part/1", "k" * 32) == 400
        assert put(gang, "/elsewhere", "k" * 32) == 404
        assert gang.processes["reduce-0"].poll() is None


def put(gang: Gang, path: str, key: str) -> int:
    url = f"http://127.0.0.1:{gang.ports['reduce', 0, 'berth-reduce']}{path}"
    request = urllib.request.Request(url, b"the\t1\n", {"Authorization": f"Bearer {key}"}, method="PUT")
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    try:
        with opener.open(request, timeout=10) as reply:
            return int(reply.status)
    except urllib.error.HTTPError as error:
        with error:
            return error.code
    except OSError:
        return 0
