"""How a process of ours ends."""

from __future__ import annotations

import logging
import os
import sys
import threading
from typing import NoReturn

from controlplane.instance import CannotStart


def leave(code: int) -> None:
    """End the process. Threads of a pool would be waited for without a bound; what they have in hand is found again."""
    if any(not thread.daemon for thread in threading.enumerate() if thread is not threading.main_thread()):
        logging.shutdown()
        os._exit(code)
    sys.exit(code)


def refuse(reason: CannotStart) -> NoReturn:
    """Say why we do not start, each reason in a line of its own, and end."""
    for line in str(reason).splitlines():
        print(f"berth: {line}", file=sys.stderr)  # noqa: T201  (`make up` looks for these lines)
    sys.exit(reason.exit_code)
