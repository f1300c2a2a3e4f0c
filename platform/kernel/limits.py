"""Bounds that several apps share, each with its reason; those of an app are in its `bounds.py`."""

YEAR_MIN, YEAR_MAX = (
    2000,
    2199,
)  # Of a time that a user writes: no row is older, and sums with days stay in range.
KIB, MIB, GIB = 1024, 1024**2, 1024**3

INPUT_DEPTH = 32  # Security T18: deeper nesting than any real spec has.
TEXT_BYTES = 64 * KIB  # One command or environment value.
NAME_LENGTH = 255
TAINT_LENGTH = 63
LOG_READ_BYTES = 4 * MIB  # One answer of the log endpoint.
LOG_AHEAD_BYTES = 4 * MIB  # How far a reader of an engine's stream asks ahead of what it has stored; engines keep so much.
NOTE_LENGTH = 4_000  # Reasons, error texts and hints kept on a row.
CODE_SNAPSHOT_BYTES = 512 * MIB
UPLOAD_CHUNK_BYTES = 8 * MIB
ENVELOPE_SECONDS = 60  # No Celery task lasts longer.
COMMAND_ARGUMENTS = 1_024
ENV_BYTES = 512 * KIB  # All of one task's own variables; Linux gives arguments and environment together 2 MiB.
TERMINAL_CELLS = 1_000  # Rows or columns of a terminal: several walls of screens.
