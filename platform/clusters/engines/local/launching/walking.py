"""The process that looks through tenants' folders, for one caller: it does the verbs that it is sent until its caller closes.

A folder of a hundred thousand names keeps an interpreter busy for seconds. Here it is no one else's.
"""

from __future__ import annotations

import os
import signal
import socket
from dataclasses import asdict
from typing import Any

from clusters.engines.local.launching import beneath, wire
from clusters.engines.local.launching.rights import acting_as
from clusters.engines.local.launching.verbs import LauncherRefused

_IDLE_SECONDS = 60.0
_NICENESS = 5  # A start is more urgent than a list of names.


def main() -> None:
    """Serve the connected socket at standard input."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    os.nice(_NICENESS)
    memory = beneath.Names()
    with socket.socket(fileno=0) as connection:
        connection.settimeout(_IDLE_SECONDS)
        while True:
            try:
                message, _ = wire.receive(connection)
                wire.send(connection, _answer(message, memory))
            except (wire.Broken, OSError):
                return


def _answer(message: dict[str, Any], memory: beneath.Names) -> dict[str, Any]:
    arguments = message["arguments"]
    try:
        with acting_as(wire.find_owner(arguments.pop("owner"))):
            if message["verb"] == "measure_tree":
                return {"result": asdict(beneath.measure_tree(**arguments))}
            return {"result": wire.encode_listing(beneath.list_directory(**arguments, memory=memory))}
    except (LauncherRefused, OSError) as error:
        return wire.encode_error(error)


if __name__ == "__main__":
    main()
