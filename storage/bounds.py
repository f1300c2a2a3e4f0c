"""Bounds of what is stored, each with its reason. Bounds that other apps share are in `kernel/limits.py`."""

from __future__ import annotations

from datetime import timedelta

from kernel.limits import GIB, KIB, LOG_AHEAD_BYTES, MIB

DISK_RESERVE_BYTES = 512 * MIB  # What uploads, logs and outputs leave free, so that the database can always write.

# Uploads and code.
UPLOAD_BYTES_MAX = 256 * GIB  # A data set in one file; more comes in several.
UPLOADS_OPEN_MAX = 200  # Unfinished uploads of one tenant: a script in a loop must not fill the disk with beginnings.
UPLOAD_KEPT = timedelta(hours=24)  # An upload that was not continued for so long is given up.
CODE_FILES_MAX = 100_000  # Members of one archive; unpacking more inodes is an attack or a mistake.
CODE_UNPACKED_BYTES_MAX = 4 * GIB  # Eight times the largest archive.
CODE_RATIO_MAX = 200  # Unpacked to packed; gzip of source code stays below 20, a bomb is near 1,000.
CODE_RATIO_FREE_BYTES = 16 * MIB  # Below this size the ratio says nothing: an empty log file packs without end.
CODE_PATH_LENGTH = 1_024
CODE_PATH_DEPTH = 64

# Volumes.
FILES_PAGE = 1_000  # Names of a folder in one answer, at most and where the caller does not say how many.
GRANTS_MAX = 1_000
VOLUMES_MAX = 1_000  # Per tenant; each is a group of the operating system.
MOUNTS_MAX = 32  # Per job: supplementary groups of one process are limited to some 64 by NFS.

# Checkpoints.
CHECKPOINT_FILES_MAX = 100_000  # Of one directory that are looked at; a model in shards has thousands.
CHECKPOINT_OPENED_MAX = 200  # Files of the newest one that are opened before an attempt goes on from it.
CHECKPOINT_COPY_SECONDS = 10.0  # Copied in one go; then other jobs have their turn.
CHECKPOINT_ARCHIVE_FILES_MAX = 20_000  # In one archive; more is fetched file by file.

# Logs.
LOG_ROW_BYTES = 256 * KIB  # One index row stands for at most this much.
LOG_PASS_BYTES = LOG_AHEAD_BYTES  # What one pass of the pump takes from one stream before the next one has its turn.
LOG_BATCH_BYTES = 8 * MIB  # What the pump holds in memory before it writes: bounds its size whatever tasks print.
LOG_ATTEMPT_BYTES = 8 * GIB  # All streams of one attempt together.
LOG_WRITERS = 8  # Streams that are synced at once: 300 small ones took 0.13 s instead of 1.04 s with one after the other.
LOG_GROW_SECONDS = 2.0  # The newest row takes more bytes for so long; its time is that exact.
LOG_TAIL_LINES_MAX = 10_000
LOG_KEPT = timedelta(days=90)

# Outputs.
ARTIFACT_FILES_MAX = 20_000  # Per attempt.
ARTIFACT_KEPT = timedelta(days=365)
COPY_BYTES = MIB  # Read and written at a time.
