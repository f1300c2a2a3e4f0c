"""Every bound in one place, with its reason. A bound that operators may move is a setting instead."""

KIB, MIB, GIB = 1024, 1024**2, 1024**3

BODY_BYTES_BEFORE_AUTH = MIB  # Design 6: nobody unknown makes us read more.
BODY_BYTES = 32 * MIB  # Design 6: a batch of 10,000 items with overrides fits.
INPUT_DEPTH = 32  # Security T18: deeper nesting than any real spec has.
INPUT_NODES = 10_000  # Security T18, for one spec; a batch counts per item.
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
TAG_LENGTH = 64
DEPENDENCIES = 1_000
PORTS_PER_ROLE = 32
PAGE_SIZE = 50
PAGE_SIZE_MAX = 500
ATTEMPTS_PER_JOB = 20  # Design 4: the hard ceiling whatever the retry policy says.
LOG_CHUNK_BYTES = 256 * KIB
LOG_READ_BYTES = 4 * MIB  # One answer of the log endpoint.
NOTE_LENGTH = 4_000  # Reasons, error texts and hints kept on a row.
USER_AGENT_LENGTH = 200
SECRET_BYTES = 64 * KIB
CODE_SNAPSHOT_BYTES = 512 * MIB
UPLOAD_CHUNK_BYTES = 8 * MIB
TENANT_DEPTH = 8
ENVELOPE_SECONDS = 60  # No Celery task lasts longer.
