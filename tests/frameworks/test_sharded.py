"""Work in shards, as jobs: the queue, numbered parts and MapReduce. They need python3 in the image, and nothing else."""

from __future__ import annotations

import re

import pytest

from tests.builders.frameworks import run_template
from tests.builders.live import Json, LivePlatform, wait_until

pytestmark = pytest.mark.frameworks

SMALL: Json = {"resources": {"cpu": "200m", "memory": "128Mi"}}
SHARDS = 200
# A tenth of the first tries ends by kill -9: mostly the command's, now and then that of the program which takes the shards.
DYING = """
echo "did $BERTH_SHARD"
test $BERTH_SHARD_TRY != 1 && exit 0
draw=$(od -An -N2 -tu2 /dev/urandom)
test $((draw % 10)) != 0 || kill -9 $$
test $((draw % 25)) != 1 || test -e killed-$BERTH_ROLE-$BERTH_INDEX || { touch killed-$BERTH_ROLE-$BERTH_INDEX; kill -9 $PPID; }
exit 0
"""


def a_role(command: str, **more: object) -> Json:
    return {**SMALL, "command": command, **more}


def progress_of(text: str) -> list[tuple[int, int]]:
    return [(int(done), int(total)) for done, total in re.findall(r"^berth: progress (\d+)/(\d+)$", text, re.MULTILINE)]


def tasks_of(platform: LivePlatform, job: Json) -> dict[str, str]:
    return {f"{task['role']}-{task['index']}": task["state"] for task in platform.operator.items(f"/jobs/{job['id']}/tasks")}


@pytest.mark.capability("78", "A dispatcher hands shards out; a worker that is killed or slow loses none")
@pytest.mark.capability("80", "200 shards through workers that are killed at random: each is done, none is counted twice")
def test_workers_killed_at_random_lose_no_shard(live_platform: LivePlatform) -> None:
    """What is kept of the results has a line for each that was counted; the next job counts these lines."""
    roles = {"dispatcher": a_role(f"seq {SHARDS}"), "worker": a_role(DYING, replicas=4)}
    spec: Json = {"name": "shards", "framework": "queue", "roles": roles, "checkpoint": {"path": "kept"}}
    job = live_platform.submit(spec, wait=True)
    text = live_platform.logs(job)
    assert job["state"] == "succeeded", text
    assert {int(shard) for shard in re.findall(r"^did (\d+)$", text, re.MULTILINE)} == set(range(1, SHARDS + 1))
    assert progress_of(text)[-1] == (SHARDS, SHARDS)
    # The last line of the dispatcher is read after its end.
    wait_until(lambda: (live_platform.operator.job(job)["progress"] or {}).get("done") == SHARDS, "the progress of all shards")
    assert "was ended by signal 9" in text
    count = (
        'sort "$BERTH_CHECKPOINT_DIR/berth-queue-done" | grep -c . ; sort -u "$BERTH_CHECKPOINT_DIR/berth-queue-done" | grep -c .'
    )
    kept = live_platform.submit({**a_role(count), "checkpoint": {"path": "kept", "from": job["id"]}}, wait=True)
    assert live_platform.logs(kept).split() == [str(SHARDS)] * 2


@pytest.mark.capability("80", "Of eight tasks one is slow: it is named, and what it has left is dealt to the others")
@pytest.mark.capability("92", "A straggler is told by its distance to the median, and its shards go to those that are done")
def test_one_slow_task_of_eight_holds_nothing_up(live_platform: LivePlatform) -> None:
    """The slow one would never end its first shard. They begin when all are there, or the first would do the work of the last."""
    meet = "touch here-$BERTH_INDEX; until test $(ls -d here-* | wc -l) = 8; do sleep 0.02; done"
    work = f'cd "$BERTH_CHECKPOINT_DIR"; {meet}; test $BERTH_INDEX != 3 || exec sleep 3600; echo "did $BERTH_SHARD"; sleep 0.2'
    roles = {"dispatcher": a_role("seq 40"), "worker": a_role(work, replicas=8)}
    spec = {"name": "frames", "framework": "ordered", "roles": roles, "checkpoint": {"path": "kept"}}
    job = live_platform.submit(spec, wait=True)
    text = live_platform.logs(job)
    assert job["state"] == "succeeded", text
    assert "berth: straggler worker-3 at 0/5, median " in text
    assert {int(shard) for shard in re.findall(r"^did (\d+)$", text, re.MULTILINE)} == set(range(1, 41))
    assert tasks_of(live_platform, job)["worker-3"] in ("stopped", "succeeded")


MAP = """
for number in $(seq 10); do printf 'the\\t1\\nof\\t1\\nmap%s\\t1\\n' $BERTH_INDEX; done
test $BERTH_INDEX != 2 || test -e killed || { touch killed; kill -9 $$; }
"""
REDUCE = "awk -F '\\t' '{ count[$1] += $2 } END { for (word in count) print word \"\\t\" count[word] }'"


@pytest.mark.capability(
    "2", "Words are counted by 4 maps and 2 reduce tasks; a killed map runs again alone, and the job succeeds"
)
def test_words_are_counted_though_a_map_is_killed(live_platform: LivePlatform) -> None:
    roles = {"map": a_role(MAP, replicas=4), "reduce": a_role(REDUCE, replicas=2)}
    spec = {"name": "words", "framework": "mapreduce", "roles": roles, "outputs": ["part-00000", "part-00001"]}
    job = live_platform.submit(spec, wait=True)
    text = live_platform.logs(job)
    assert job["state"] == "succeeded", text
    assert text.count("it is started again (1 of 3)") == 1
    assert job["attempt"] == 1
    parts = {item["path"]: result_of(live_platform, job, item) for item in live_platform.operator.artifacts(job)}
    assert sorted(parts) == ["part-00000", "part-00001"]
    lines = "".join(parts.values()).splitlines()
    assert sorted(lines) == [*(f"map{index}\t10" for index in range(4)), "of\t40", "the\t40"]


def result_of(platform: LivePlatform, job: Json, item: Json) -> str:
    return platform.operator.download(f"/jobs/{job['id']}/artifacts/{item['path']}").decode()


@pytest.mark.capability("2", "Maps that fail for good are tolerated up to a share, and one more ends the job")
@pytest.mark.parametrize(("broken", "state"), [(1, "succeeded"), (2, "failed")])
def test_a_share_of_the_maps_may_fail(live_platform: LivePlatform, broken: int, state: str) -> None:
    maps = a_role(f"test $BERTH_INDEX -ge {broken} || exit 9; echo word", replicas=4, max_retry=0)
    roles = {"map": maps, "reduce": a_role("cat; sort >&2")}
    spec = {"framework": "mapreduce", "roles": roles, "completion": {"roles": {"map": {"min_failed": 2}}}}
    job = live_platform.submit(spec, wait=True)
    text = live_platform.logs(job)
    assert job["state"] == state, text
    if state == "succeeded":
        assert "berth: 1 of 4 maps failed, 1 may: map-0" in text


@pytest.mark.parametrize(
    ("name", "line"), [("queue", "shard 20 in worker-"), ("ordered", "shard 20 in worker-"), ("mapreduce", "")]
)
def test_a_template_of_sharded_work_runs(live_platform: LivePlatform, name: str, line: str) -> None:
    job = run_template(live_platform, name, "/usr/bin", memory="128Mi")
    text = live_platform.logs(job)
    assert job["state"] == "succeeded", text
    assert line in text
    if name == "mapreduce":
        [item] = live_platform.operator.artifacts(job)
        lines = result_of(live_platform, job, item).splitlines()
        assert sorted(lines) == ["1 digits\t9", "2 digits\t90", "3 digits\t900", "4 digits\t1"]
