"""The shipped templates of work in shards: a queue, numbered parts, MapReduce. Their commands need nothing but a shell."""

from __future__ import annotations

from typing import Any

from jobs.services.shipped_parts import number, template, text

_MAP = """seq 1000 |
  awk -v part="$BERTH_INDEX" -v parts="$BERTH_MAP_COUNT" 'NR % parts == part { print length($1) " digits\\t1" }'
"""
_REDUCE = """awk -F '\\t' '{ count[$1] += $2 } END { for (key in count) print key "\\t" count[key] }'"""
_SHARDS = (
    text("shards", "Command that prints a shard a line", "输出分片（每行一个）的命令", "seq 20", required=True),
    text("command", "Command for each shard; BERTH_SHARD is set", "每个分片的命令（可用 BERTH_SHARD）",
          'echo "shard $BERTH_SHARD in $BERTH_ROLE-$BERTH_INDEX"', required=True),
    number("workers", "Workers", "worker 数", 2, 1, 1000),
    number("tries", "Tries of a shard", "每个分片的尝试次数", 3, 1, 1000),
    number("tolerated", "Share of shards that may fail", "允许失败的分片比例", 0.0, 0.0, 1.0),
)  # fmt: skip
_SHARDED = """
framework: FRAMEWORK
roles:
  dispatcher:
    command: ${{ parameters.shards }}
    env: {QUEUE_TRIES: "${{ parameters.tries }}", QUEUE_TOLERATED: "${{ parameters.tolerated }}"}
    resources: {cpu: 200m, memory: 128Mi}
  worker:
    replicas: ${{ parameters.workers }}
    command: ${{ parameters.command }}
    resources: {with_gpu}
checkpoint: {path: ckpt}
"""

SHARDED: tuple[dict[str, Any], ...] = (
    template(
        "queue",
        "Queue of shards",
        "分片队列",
        "grid",
        ["queue", "sharded"],
        "Workers run a command once for each shard that a dispatcher hands out: a slow or lost worker loses none, and what is "
        "done stays done in the next attempt.",
        "dispatcher 分发分片，worker 对每个分片运行一次命令：worker 缓慢或丢失都不会丢失分片，已完成的分片在下次尝试中不再重做。",
        [*_SHARDS, number("gpus", "GPUs of a worker", "每个 worker 的 GPU 数", 0, 0, 16)],
        _SHARDED.replace("FRAMEWORK", "queue"),
    ),
    template(
        "ordered",
        "Numbered parts of a work",
        "有序分片作业",
        "grid",
        ["ordered", "sharded"],
        "For downloads, frames of a video, tracks of audio: of n workers, worker i begins with the shards i, i + n and so on. A "
        "straggler is named, and what it has left goes to workers that are done.",
        "适用于下载、视频抽帧、音频提取：共 n 个 worker，worker i 先处理分片 i、i + n 等。"
        "落后者会被指出，其剩余分片交给已完成的 worker。",
        [*_SHARDS, number("gpus", "GPUs of a worker", "每个 worker 的 GPU 数", 0, 0, 16)],
        _SHARDED.replace("FRAMEWORK", "ordered"),
    ),
    template(
        "mapreduce",
        "MapReduce",
        "MapReduce",
        "data",
        ["mapreduce", "sharded"],
        "Hadoop streaming's contract by plain commands: maps print lines with a key, a tab and a value; each reduce task reads "
        "those of its keys, sorted. A failed map runs again alone. The result is in the folder result.",
        "以普通命令实现 Hadoop streaming 约定：map 输出“键<TAB>值”的行，每个 reduce 读取属于它的键且已排序。"
        "失败的 map 单独重试。结果位于 result 目录。",
        [
            text("map", "Command of a map", "map 命令", _MAP, required=True),
            text("reduce", "Command of a reduce task", "reduce 命令", _REDUCE, required=True),
            number("maps", "Maps", "map 数", 2, 1, 10000),
            number("reduces", "Reduce tasks", "reduce 数", 1, 1, 1000),
        ],
        """
framework: mapreduce
env: {MAPREDUCE_OUTPUT: result}
roles:
  map:
    replicas: ${{ parameters.maps }}
    command: ${{ parameters.map }}
    resources: {resources}
  reduce:
    replicas: ${{ parameters.reduces }}
    command: ${{ parameters.reduce }}
    resources: {resources}
outputs: [result]
""",
    ),
)
