"""The public templates that an installation is given: a set when it is new, another with each release that has more. The
defaults of each make a job."""

from __future__ import annotations

from typing import Any

from jobs.services.shipped_parts import number as _number
from jobs.services.shipped_parts import template as _template
from jobs.services.shipped_parts import text as _text
from jobs.services.shipped_sharded import SHARDED

# Both save by rename and go on from what is there: a command that replaces them can be written after their pattern.
_TORCH = """python3 - <<'PY'
import os
import torch
device = "cuda" if torch.cuda.is_available() else "cpu"
saved = os.path.join(os.environ["BERTH_CHECKPOINT_DIR"], "line.pt")
line, step = torch.zeros(2, device=device, requires_grad=True), 0
if os.path.exists(saved):
    state = torch.load(saved, map_location=device)
    line, step = state["line"], state["step"]
print("torch", torch.__version__, "on", device, "goes on after step", step)
while step < 300:
    inputs = torch.rand(1000, device=device)
    loss = ((line[0] * inputs + line[1] - (3 * inputs + 1)) ** 2).mean()
    line = (line - 0.5 * torch.autograd.grad(loss, line)[0]).detach().requires_grad_()
    step += 1
    if step % 50 == 0:
        torch.save({"line": line, "step": step}, saved + ".tmp")
        os.rename(saved + ".tmp", saved)
print("step", step, "slope %.3f offset %.3f" % tuple(line.tolist()))
PY
"""
_ALLREDUCE = """python3 - <<'PY'
import os
import torch
import torch.distributed as dist
dist.init_process_group("nccl" if torch.cuda.is_available() else "gloo")
rank, count = dist.get_rank(), dist.get_world_size()
if torch.cuda.is_available():
    torch.cuda.set_device(rank % torch.cuda.device_count())
device = "cuda" if torch.cuda.is_available() else "cpu"
saved = os.path.join(os.environ["BERTH_CHECKPOINT_DIR"], "line.pt")
line, step = torch.zeros(2, device=device, requires_grad=True), 0
if os.path.exists(saved):
    state = torch.load(saved, map_location=device)
    line, step = state["line"], state["step"]
print("rank", rank, "of", count, "goes on after step", step)
while step < 300:
    inputs = torch.rand(1000, device=device)
    loss = ((line[0] * inputs + line[1] - (3 * inputs + 1)) ** 2).mean()
    gradient = torch.autograd.grad(loss, line)[0]
    dist.all_reduce(gradient)
    line = (line - 0.5 * gradient / count).detach().requires_grad_()
    step += 1
    if rank == 0 and step % 50 == 0:
        torch.save({"line": line, "step": step}, saved + ".tmp")
        os.rename(saved + ".tmp", saved)
print("rank", rank, "step", step, "slope %.3f offset %.3f" % tuple(line.tolist()))
PY
"""

_TENSORFLOW = """python3 - <<'PY'
import json, os
os.environ["TF_USE_LEGACY_KERAS"] = "1"
import numpy as np
import tensorflow as tf
import tf_keras as keras
strategy = tf.distribute.MultiWorkerMirroredStrategy()
task = json.loads(os.environ["TF_CONFIG"])["task"]
inputs = np.linspace(0, 1, 1024, dtype="float32").reshape(-1, 1)
with strategy.scope():
    line = keras.Sequential([keras.layers.Dense(1)])
    line.compile(optimizer=keras.optimizers.SGD(0.2), loss="mse")
backup = keras.callbacks.BackupAndRestore(os.environ["BERTH_CHECKPOINT_DIR"] + "/backup")
line.fit(inputs, 3 * inputs + 1, epochs=20, batch_size=128, verbose=0, callbacks=[backup])
slope, offset = (float(weight.ravel()[0]) for weight in line.get_weights())
print("worker", task["index"], "of", strategy.num_replicas_in_sync, "slope %.1f offset %.1f" % (slope, offset))
PY
"""
_TENSORFLOW_CHIEF = """python3 - <<'PY'
import tensorflow as tf
resolver = tf.distribute.cluster_resolver.TFConfigClusterResolver()
strategy = tf.distribute.experimental.ParameterServerStrategy(resolver)
coordinator = tf.distribute.coordinator.ClusterCoordinator(strategy)
with strategy.scope():
    steps = tf.Variable(0.0)

@tf.function
def step():
    steps.assign_add(1.0)

for _ in range(100):
    coordinator.schedule(step)
coordinator.join()
print("steps", int(steps.numpy()), flush=True)
PY
"""
_RAY = """python3 - <<'PY'
import ray

ray.init()

@ray.remote
def square(number):
    return number * number

@ray.remote
class Total:
    def __init__(self):
        self.value = 0

    def add(self, number):
        self.value += number
        return self.value

total = Total.remote()
for number in ray.get([square.remote(number) for number in range(8)]):
    result = total.add.remote(number)
print("sum of squares", ray.get(result), "on", ray.cluster_resources()["CPU"], "cores")
PY
"""
_DASK = """python3 - <<'PY'
from dask.distributed import Client

client = Client()
squares = client.map(lambda number: number * number, range(8))
print("sum of squares", client.submit(sum, squares).result(), "on", len(client.nthreads()), "workers")
PY
"""
_MXNET = """python3 - <<'PY'
import mxnet as mx
store = mx.kv.create("dist_sync")
store.init(0, mx.nd.zeros((2, 2)))
store.push(0, mx.nd.ones((2, 2)) * (store.rank + 1))
total = mx.nd.zeros((2, 2))
store.pull(0, out=total)
print("worker", store.rank, "of", store.num_workers, "pulled", total.asnumpy().sum())
PY
"""
_WORDS = """python3 - <<'PY'
from pyspark.sql import SparkSession
context = SparkSession.builder.appName("words").getOrCreate().sparkContext
lines = context.parallelize(["one driver", "one or more executors"] * 1000)
pairs = lines.flatMap(str.split).map(lambda word: (word, 1)).reduceByKey(lambda left, right: left + right)
print("words:", *(f"{word} {count}" for word, count in sorted(pairs.collect())))
PY
"""


SHIPPED: tuple[dict[str, Any], ...] = (
    _template(
        "hello",
        "One process",
        "单进程",
        "terminal",
        ["first-steps", "cpu"],
        "A command in one process: the smallest job there is.",
        "在一个进程中运行命令：最小的作业。",
        [_text("command", "Command", "命令", 'echo "hello from $BERTH_HOST"', required=True)],
        """
command: ${{ parameters.command }}
resources: {resources}
""",
    ),
    _template(
        "pytorch-single",
        "PyTorch on one machine",
        "单机 PyTorch",
        "flame",
        ["pytorch", "gpu"],
        "One task with one or more GPUs of a machine. The default command fits a line, saves it every 50 steps and goes on from "
        "there; put your own in its place.",
        "一个任务使用一台机器上的一块或多块 GPU。默认命令拟合一条直线，每 50 步保存一次并可从该处继续，请换成自己的命令。",
        [
            _text("command", "Command", "命令", _TORCH, required=True),
            _number("gpus", "GPUs", "GPU 数量", 1, 0, 16),
        ],
        """
framework: pytorch
command: ${{ parameters.command }}
resources: {with_gpu}
checkpoint: {path: ckpt, grace: 60s}
""",
    ),
    _template(
        "pytorch-distributed",
        "PyTorch on several machines",
        "多机 PyTorch",
        "network",
        ["pytorch", "gpu", "distributed"],
        "Data-parallel training over several tasks, which find each other by MASTER_ADDR, RANK and WORLD_SIZE. "
        "For one process a GPU, begin the command with torchrun. The default command saves from rank 0 and goes on from there.",
        "多个任务的数据并行训练，通过 MASTER_ADDR、RANK、WORLD_SIZE 相互发现。若每块 GPU 一个进程，请用 torchrun 启动。"
        "默认命令由 rank 0 保存检查点，并可从该处继续。",
        [
            _text("command", "Command", "命令", _ALLREDUCE, required=True),
            _number("workers", "Tasks", "任务数", 2, 1, 1000),
            _number("gpus", "GPUs of a task", "每个任务的 GPU 数", 1, 0, 16),
        ],
        """
framework: pytorch
replicas: ${{ parameters.workers }}
command: ${{ parameters.command }}
resources: {with_gpu}
placement: {together: pack}
checkpoint: {path: ckpt, grace: 60s}
""",
    ),
    _template(
        "sweep",
        "Hyperparameter sweep",
        "超参数搜索",
        "grid",
        ["sweep", "array"],
        "The same job once for each learning rate of a geometric series; BERTH_ARRAY_INDEX tells them apart.",
        "为等比数列中的每个学习率各运行一次同样的作业，以 BERTH_ARRAY_INDEX 区分。",
        [
            _number("trials", "Trials", "试验次数", 4, 1, 1000),
            _number("parallelism", "At the same time", "并行数", 2, 1, 1000),
            _number("highest", "Highest learning rate", "最高学习率", 0.1, 0.0, 1000.0),
            _number("factor", "Factor from one to the next", "相邻倍率", 0.5, 0.0, 1000.0),
            _text(
                "command",
                "Command; LEARNING_RATE is set",
                "命令（可用 LEARNING_RATE）",
                'echo "learning rate $LEARNING_RATE"',
                required=True,
            ),
            _number("gpus", "GPUs of a trial", "每次试验的 GPU 数", 0, 0, 16),
        ],
        """
array: {size: "${{ parameters.trials }}", parallelism: "${{ parameters.parallelism }}"}
env:
  SWEEP_HIGHEST: ${{ parameters.highest }}
  SWEEP_FACTOR: ${{ parameters.factor }}
  SWEEP_COMMAND: ${{ parameters.command }}
command: |
  LEARNING_RATE=$(awk -v h="$SWEEP_HIGHEST" -v f="$SWEEP_FACTOR" -v i="$BERTH_ARRAY_INDEX" 'BEGIN { print h * f ^ i }')
  export LEARNING_RATE
  exec /bin/sh -c "$SWEEP_COMMAND"
resources: {with_gpu}
""",
    ),
    _template(
        "notebook",
        "Notebook server",
        "笔记本服务",
        "notebook",
        ["interactive", "notebook"],
        "JupyterLab in a job, on the task's port `web`. It ends with its time; its folder is the checkpoint's.",
        "在作业中运行 JupyterLab，监听任务端口 web。到时自动结束，请把重要内容保存在检查点目录。",
        [
            _number("gpus", "GPUs", "GPU 数量", 0, 0, 16),
        ],
        """
roles:
  worker:
    ports: [web]
    command: |
      mkdir -p "$BERTH_CHECKPOINT_DIR/notebooks" && cd "$BERTH_CHECKPOINT_DIR/notebooks" || exit 1
      exec python3 -m jupyterlab --no-browser --ip="$BERTH_HOST" --port="$BERTH_PORT_WEB"
    resources: {with_gpu}
checkpoint: {path: ckpt}
""",
        runtime="8h",
    ),
    _template(
        "horovod",
        "Horovod",
        "Horovod",
        "share",
        ["horovod", "distributed", "hpc"],
        "A program of Horovod on all slots of the tasks, by mpirun and without ssh. Needs Open MPI in the image, and Horovod "
        "built with it.",
        "在各任务的全部槽位上运行 Horovod 程序，由 mpirun 启动，无需 ssh。镜像中须有 Open MPI 及基于它构建的 Horovod。",
        [
            _text("command", "Command", "命令", 'echo "rank $OMPI_COMM_WORLD_RANK of $OMPI_COMM_WORLD_SIZE"', required=True),
            _number("workers", "Tasks", "任务数", 2, 1, 1000),
            _number("gpus", "GPUs of a task", "每个任务的 GPU 数", 0, 0, 16),
        ],
        """
framework: horovod
replicas: ${{ parameters.workers }}
command: ${{ parameters.command }}
resources: {with_gpu}
""",
    ),
    _template(
        "tensorflow-workers",
        "TensorFlow on several machines",
        "多机 TensorFlow",
        "layers",
        ["tensorflow", "distributed", "gpu"],
        "Workers that reduce together (MultiWorkerMirroredStrategy), with TF_CONFIG set in each. The default command fits a line "
        "and goes on from its backup after a failure. Needs TensorFlow and tf-keras in the image.",
        "多个 worker 同步归约（MultiWorkerMirroredStrategy），每个任务都已设置 TF_CONFIG。"
        "默认命令拟合一条直线，失败后从备份继续。镜像中须有 TensorFlow 与 tf-keras。",
        [
            _text("command", "Command; TF_CONFIG is set", "命令（可用 TF_CONFIG）", _TENSORFLOW, required=True),
            _number("workers", "Workers", "worker 数", 2, 1, 1000),
            _number("gpus", "GPUs of a worker", "每个 worker 的 GPU 数", 0, 0, 16),
        ],
        """
framework: tensorflow
roles:
  worker:
    replicas: ${{ parameters.workers }}
    command: ${{ parameters.command }}
    resources: {with_gpu}
checkpoint: {path: ckpt, grace: 60s}
retry: {limit: 2}
""",
    ),
    _template(
        "tensorflow-ps",
        "TensorFlow with parameter servers",
        "TensorFlow 参数服务器",
        "layers",
        ["tensorflow", "distributed"],
        "A chief, workers and parameter servers with TF_CONFIG set in each. The chief's end is the end of the job; the others "
        "serve it until then. Needs TensorFlow in the image.",
        "包含 chief、worker 与参数服务器，每个任务都已设置 TF_CONFIG。chief 结束则作业结束，其他任务一直为其服务。"
        "镜像中须有 TensorFlow。",
        [
            _text("command", "Command of the chief", "chief 的命令", _TENSORFLOW_CHIEF, required=True),
            _number("workers", "Workers", "worker 数", 2, 1, 1000),
            _number("servers", "Parameter servers", "参数服务器数", 1, 1, 1000),
            _number("gpus", "GPUs of a worker", "每个 worker 的 GPU 数", 0, 0, 16),
        ],
        """
framework: tensorflow
roles:
  chief:
    command: ${{ parameters.command }}
    resources: {resources}
  worker:
    replicas: ${{ parameters.workers }}
    resources: {with_gpu}
  ps:
    replicas: ${{ parameters.servers }}
    resources: {resources}
""",
    ),
    _template(
        "ray",
        "Ray cluster",
        "Ray 集群",
        "network",
        ["ray", "distributed", "reinforcement-learning", "sweep"],
        "A head and workers that last as long as the program: ray.init() without arguments finds them. A lost worker is started "
        "again, and Ray runs its work again elsewhere. Needs Ray in the image.",
        "包含一个 head 与多个 worker 的集群，与程序同生命周期：ray.init() 无需参数即可连接。worker 丢失后自动重启，"
        "其任务由 Ray 在别处重新执行。镜像中须有 Ray。",
        [
            _text("command", "Program on the head", "head 上的程序", _RAY, required=True),
            _number("workers", "Workers", "worker 数", 2, 1, 1000),
            _number("gpus", "GPUs of a worker", "每个 worker 的 GPU 数", 0, 0, 16),
            _text(
                "objects",
                "Memory for objects, of each task",
                "每个任务的对象存储内存",
                "256Mi",
                required=True,
                description="Part of the task's memory.",
                description_zh="计入任务的内存。",
            ),
        ],
        """
framework: ray
roles:
  head:
    command: ${{ parameters.command }}
    resources: {cpu: "${{ parameters.cpu }}", memory: "${{ parameters.memory }}", shm: "${{ parameters.objects }}"}
  worker:
    replicas: ${{ parameters.workers }}
    resources:
      cpu: ${{ parameters.cpu }}
      memory: ${{ parameters.memory }}
      gpu: ${{ parameters.gpus }}
      shm: ${{ parameters.objects }}
""",
    ),
    _template(
        "dask",
        "Dask cluster",
        "Dask 集群",
        "network",
        ["dask", "distributed", "cpu"],
        "A scheduler and workers that last as long as the program: Client() without arguments finds them. A lost worker is "
        "started again, and its work is done again. Needs distributed in the image.",
        "包含 scheduler 与多个 worker 的集群，与程序同生命周期：Client() 无需参数即可连接。worker 丢失后自动重启，"
        "其任务会重新执行。镜像中须有 distributed。",
        [
            _text("command", "Program beside the scheduler", "scheduler 旁的程序", _DASK, required=True),
            _number("workers", "Workers", "worker 数", 2, 1, 1000),
            _number("gpus", "GPUs of a worker", "每个 worker 的 GPU 数", 0, 0, 16),
        ],
        """
framework: dask
roles:
  scheduler:
    command: ${{ parameters.command }}
    resources: {resources}
  worker:
    replicas: ${{ parameters.workers }}
    resources: {with_gpu}
""",
    ),
    _template(
        "mxnet",
        "MXNet",
        "MXNet",
        "layers",
        ["mxnet", "distributed"],
        "A scheduler, servers and workers of MXNet's key-value store (dist_sync), with DMLC_* set in each. Needs MXNet in the "
        "image.",
        "MXNet 键值存储（dist_sync）的 scheduler、server 与 worker，每个任务都已设置 DMLC_*。镜像中须有 MXNet。",
        [
            _text("command", "Command of a worker", "worker 的命令", _MXNET, required=True),
            _number("workers", "Workers", "worker 数", 2, 1, 1000),
            _number("servers", "Servers", "server 数", 1, 1, 1000),
            _number("gpus", "GPUs of a worker", "每个 worker 的 GPU 数", 0, 0, 16),
        ],
        """
framework: mxnet
roles:
  scheduler:
    resources: {resources}
  server:
    replicas: ${{ parameters.servers }}
    resources: {resources}
  worker:
    replicas: ${{ parameters.workers }}
    command: ${{ parameters.command }}
    resources: {with_gpu}
""",
    ),
    _template(
        "spark",
        "Spark",
        "Spark",
        "data",
        ["spark", "distributed", "data"],
        "A Spark cluster for the length of the job: the driver runs the command, the executors have the cores and memory of "
        "their tasks. Programs need no settings. The end of the driver is the end of the job, and its event log is kept.",
        "随作业存在的 Spark 集群：driver 运行命令，每个 executor 使用其任务的核数与内存。程序无需任何设置。"
        "driver 结束则作业结束，其事件日志会保留。",
        [
            _text("command", "Command of the driver", "driver 的命令", _WORDS, required=True),
            _number("executors", "Executors", "executor 数", 2, 1, 1000),
        ],
        """
framework: spark
roles:
  driver:
    command: ${{ parameters.command }}
    resources: {resources}
  executor:
    replicas: ${{ parameters.executors }}
    resources: {resources}
outputs: [spark-events]
""",
    ),
    _template(
        "mpi",
        "MPI",
        "MPI",
        "share",
        ["mpi", "distributed", "hpc"],
        "Open MPI over the tasks of a job, without ssh: the launcher runs mpirun, which finds the workers by itself.",
        "作业各任务之间的 Open MPI，无需 ssh：launcher 运行 mpirun，自动找到所有 worker。",
        [
            _text(
                "command",
                "Command of each rank",
                "每个 rank 的命令",
                'echo "rank $OMPI_COMM_WORLD_RANK of $OMPI_COMM_WORLD_SIZE"',
                required=True,
            ),
            _number("workers", "Workers", "worker 数", 2, 1, 1000),
            _number("gpus", "GPUs of a worker", "每个 worker 的 GPU 数", 0, 0, 16),
        ],
        """
framework: mpi
env: {RANK_COMMAND: "${{ parameters.command }}"}
roles:
  launcher:
    resources: {cpu: 500m, memory: 256Mi}
    command: exec mpirun sh -c "$RANK_COMMAND"
  worker:
    replicas: ${{ parameters.workers }}
    resources: {with_gpu}
""",
    ),
    *SHARDED,
)

# Those that came later, by the number of their set; all others are of the first.
LATER: dict[str, int] = dict.fromkeys(
    ("horovod", "tensorflow-workers", "ray", "dask", "mxnet", "spark", "queue", "ordered", "mapreduce"), 2
)
SHIPPED_SET = max(LATER.values())
