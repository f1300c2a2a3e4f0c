"""Bounds of jobs, each with its reason. Bounds that other apps share are in `kernel/limits.py`."""

from kernel.limits import GIB, KIB, MIB

INPUT_NODES = 10_000  # Security T18, for one spec; a batch counts per item.
BATCH_ITEMS = 10_000  # One request of POST /jobs:batch.
ARRAY_SIZE = 100_000  # Children of one array job.
ROLES = 32
REPLICAS = 10_000  # Tasks of one role.
TASKS_PER_JOB = 10_000
ENV_ENTRIES = 512
LABELS = 64
TAGS = 64
NODE_LABELS = 16  # Labels that a job may ask of machines.
NODE_LABEL_VALUES = 32  # Values of one label that it may accept.
TOLERATES = 32
NODE_LABEL_VALUE_LENGTH = 255
TAG_LENGTH = 64
DEPENDENCIES = 1_000
PORTS_PER_ROLE = 32
TASK_RETRIES = 1_000  # Times that one task's command is started again in its place; each waits up to half a minute.
READY_SECONDS = 24 * 3600  # Until a task is ready: a model of hundreds of gigabytes loads within it.
ATTEMPTS_PER_JOB = 20  # Design 4: the hard ceiling whatever the retry policy says.
STOP_REASON_LENGTH = 200  # Kept with each child of an array and its events: a sentence, no report.
SPEC_BYTES = MIB  # The text of one job spec, whatever its format.
SPEC_ERRORS = 100  # Field errors listed in one answer; a count stands for the rest.
TASK_CPU_MILLIS = 4_096_000  # Most one task may ask for: beyond any machine, far from any overflow.
TASK_MEMORY_BYTES = 1024 * 1024 * GIB
TASK_GPU_MILLIS = 1_024_000
TASKS_PER_ARRAY = 1_000_000  # Array size times tasks of one child.
PATH_BYTES = 1_024  # Well below PATH_MAX (4,096), which counts the directory in front as well.
MOUNTS = 64
OUTPUTS = 64
RUNTIME_SECONDS = 365 * 86_400  # max_runtime.
FILE_NAME_BYTES = 255  # Of one name in a path, as Linux's file systems have it.
GRACE_SECONDS = 3_600  # checkpoint.grace: how long a stop may be held up.
HOSTS_IN_ENV = 1_000  # Longer lists stand in the hosts file only: Linux refuses one variable above 128 KiB.
POLICIES = 32  # Of one role.
POLICY_CODES = 255  # All there are.
PROCESSES_PER_GPU = 48  # As many clients as a device takes by NVIDIA's multi-process service (Volta and later).
TENSORFLOW_TASKS = 1_000  # TF_CONFIG of each task has the addresses of all.
OPENPAI_HOSTS_IN_ENV = 250  # Tasks of a role: OpenPAI has five variables for each of them, in every task.
EXEC_PER_USER = 10  # Terminals that one person has open at once, per process.
EXEC_FRAME_BYTES = 64 * KIB  # One message of a terminal, either way; the web server takes no larger ones.
EXEC_PENDING_BYTES = 256 * KIB  # What was typed and not read yet; then the sender waits.
