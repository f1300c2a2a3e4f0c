"""Every bound of the client in one place, with its reason."""

KIB, MIB, GIB = 1024, 1024**2, 1024**3

TIMEOUT_SECONDS = 30.0  # One request; downloads and streams have their own.
CONNECT_SECONDS = 10.0
STREAM_IDLE_SECONDS = 75.0  # The server sends a comment line more often than this; silence means a dead connection.
TRIES = 6  # The last one after about 12 s of waiting: a restart of the server passes unnoticed.
PATIENT_TRIES = 45  # Waiting and following outlive a server that is gone for about 7 minutes; the job does, too.
TRIES_UNSAID = 3  # About 3 s of silence; then a person is told what is waited for.
BACKOFF_SECONDS = 0.4
BACKOFF_SECONDS_MAX = 10.0
RETRY_AFTER_SECONDS_MAX = 120.0  # A longer wish of the server is an error for the user to see.
ANSWER_BYTES = 64 * MIB  # A page of 500 jobs is about 1 MiB; more than this is not an answer of ours.
PAGE_SIZE = 100
FILES_PAGE = 1_000  # Names of a folder, the most that a server gives at once.
POLL_SECONDS = 0.5
POLL_SECONDS_MAX = 3.0
COLLECT_SECONDS = 30.0  # From a job's end until what it left is there; large outputs may take longer.
LOG_LINE_CHARACTERS = MIB  # A longer line is handed out in pieces.
BAR_SECONDS = 10.0  # A progress bar is printed so often where lines cannot be replaced.
CODE_SNAPSHOT_BYTES = 512 * MIB  # The server's bound on a code snapshot; what is larger belongs on a volume.
CODE_FILES = 50_000
COPY_BYTES = MIB
UPLOAD_CHUNK_BYTES = 8 * MIB  # Used when the server does not say.
TRANSFER_TRIES = 8  # Interruptions in a row without one byte gained.
SPEC_BYTES = 4 * MIB
SPEC_DEPTH = 32  # As the server.
EXEC_FRAME_BYTES = 32 * KIB  # One message of a terminal; the server takes twice as much.
EXEC_MESSAGE_BYTES = MIB  # What the server sends is far smaller.
EXEC_MESSAGES = 16  # Read ahead of the reader; then the server waits.
EXEC_OUTPUT_BYTES = 64 * MIB  # What `job.exec` keeps in memory.
TERMINAL_CELLS = 1_000  # As the server.
