"""Bounds of requests and answers, each with its reason. Bounds that no request has are in `kernel/limits.py`."""

from kernel.limits import MIB

BODY_BYTES_BEFORE_AUTH = MIB  # Design 6: no unknown caller makes us read more.
BODY_BYTES = 32 * MIB  # Design 6: a batch of 10,000 items with overrides fits.
HEADER_SECONDS = 20.0  # Security T18: a client sends its headers in one packet or two; the slowest line needs seconds.
CONNECTIONS_PER_ADDRESS = 500  # Per web process, of the 2,000 that it takes: an office behind one address, with room.
PAGE_SIZE = 50
PAGE_SIZE_MAX = 500
USER_AGENT_LENGTH = 200
