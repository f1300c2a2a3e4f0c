"""Every bound in one place, with its reason. A bound that operators may move is a setting instead."""

YEAR_MIN, YEAR_MAX = (
    2000,
    2199,
)  # Of a time that somebody writes: no row is older, and sums with days stay in range.
KIB, MIB, GIB = 1024, 1024**2, 1024**3

BODY_BYTES_BEFORE_AUTH = MIB  # Design 6: nobody unknown makes us read more.
BODY_BYTES = 32 * MIB  # Design 6: a batch of 10,000 items with overrides fits.
INPUT_DEPTH = 32  # Security T18: deeper nesting than any real spec has.
INPUT_NODES = 10_000  # Security T18, for one spec; a batch counts per item.
HEADER_SECONDS = 20.0  # Security T18: a client sends its headers in one packet or two; the slowest line needs seconds.
CONNECTIONS_PER_ADDRESS = 500  # Per web process, of the 2,000 that it takes: an office behind one address, with room.
BATCH_ITEMS = 10_000  # One request of POST /jobs:batch.
ARRAY_SIZE = 100_000  # Children of one array job.
ROLES = 32
REPLICAS = 10_000  # Tasks of one role.
TASKS_PER_JOB = 10_000
ENV_ENTRIES = 512
TEXT_BYTES = 64 * KIB  # One command or environment value.
NAME_LENGTH = 255
LABELS = 64
TAGS = 64
NODE_LABELS = 16  # Labels that a job may ask of machines.
NODE_LABEL_VALUES = 32  # Values of one label that it may accept.
TOLERATES = 32
NODE_LABEL_VALUE_LENGTH = 255
TAINT_LENGTH = 63
TAG_LENGTH = 64
DEPENDENCIES = 1_000
PORTS_PER_ROLE = 32
PAGE_SIZE = 50
PAGE_SIZE_MAX = 500
ATTEMPTS_PER_JOB = 20  # Design 4: the hard ceiling whatever the retry policy says.
LOG_CHUNK_BYTES = 256 * KIB
LOG_READ_BYTES = 4 * MIB  # One answer of the log endpoint.
LOG_AHEAD_BYTES = 4 * MIB  # How far a reader of an engine's stream asks ahead of what it has stored; engines keep so much.
STOP_REASON_LENGTH = 200  # Kept with each child of an array and its events: a sentence, no report.
NOTE_LENGTH = 4_000  # Reasons, error texts and hints kept on a row.
USER_AGENT_LENGTH = 200
SECRET_BYTES = 64 * KIB
CODE_SNAPSHOT_BYTES = 512 * MIB
UPLOAD_CHUNK_BYTES = 8 * MIB
TENANT_DEPTH = 8
ENVELOPE_SECONDS = 60  # No Celery task lasts longer.
SPEC_BYTES = MIB  # The text of one job spec, whatever its format.
SPEC_ERRORS = 100  # Field errors listed in one answer; a count stands for the rest.
TASK_CPU_MILLIS = 4_096_000  # Most one task may ask for: beyond any machine, far from any overflow.
TASK_MEMORY_BYTES = 1024 * 1024 * GIB
TASK_GPU_MILLIS = 1_024_000
TASKS_PER_ARRAY = 1_000_000  # Array size times tasks of one child.
COMMAND_ARGUMENTS = 1_024
PATH_BYTES = 1_024  # Well below PATH_MAX (4,096), which counts the directory in front as well.
MOUNTS = 64
OUTPUTS = 64
ENV_BYTES = 512 * KIB  # All of one task's own variables; Linux gives arguments and environment together 2 MiB.
RUNTIME_SECONDS = 365 * 86_400  # max_runtime.
GRACE_SECONDS = 3_600  # checkpoint.grace: how long a stop may be held up.
HOSTS_IN_ENV = 1_000  # Longer lists stand in the hosts file only: Linux refuses one variable above 128 KiB.
TERMINAL_CELLS = 1_000  # Rows or columns of a terminal: several walls of screens.
EXEC_PER_USER = 10  # Terminals that one person has open at once, per process.
EXEC_FRAME_BYTES = 64 * KIB  # One message of a terminal, either way; the web server takes no larger ones.
EXEC_PENDING_BYTES = 256 * KIB  # What was typed and not read yet; then the sender waits.
IN_HAND_LEASES = 10  # A batch that is at work for so many leases is stuck: five minutes of thirty seconds each.
