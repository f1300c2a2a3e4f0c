"""What the tasks of a job of framework slurm say to each other: requests signed as those of `mpi_agent.py`, then frames.

Sent along with a job, so it imports the standard library only and runs on Python 3.7."""

from __future__ import annotations

import os
import socket
import struct
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING or __package__:
    from jobs.frameworks import mpi_agent, slurm_steps
else:  # Beside this file in a task.
    import mpi_agent
    import slurm_steps

FRAME = struct.Struct("!cII")  # Kind, rank, length. To srun: Output, Error, eXit. To a task: Input, Close, Signal.
EVERY = 0xFFFFFFFF  # All ranks that a task runs.
GRACE_SECONDS = 10.0  # Between TERM and KILL of a step that is ended.


def read_nodes() -> list[slurm_steps.Node]:
    """The tasks of the job in order of rank, from the file that the engine filled in."""
    with open(os.environ["BERTH_MPI_HOSTS"], encoding="utf-8") as lines:
        entries = [line.split() for line in lines if line.strip()]
    return [slurm_steps.Node(place, entry[2], *map(int, entry[4:7])) for place, entry in enumerate(entries)]


def hosts() -> list[mpi_agent.Host]:
    return list(mpi_agent.read_hosts().values())


def own_host() -> mpi_agent.Host:
    return hosts()[int(os.environ["BERTH_RANK"])]


def answer(host: mpi_agent.Host, body: dict[str, Any]) -> bytes:
    with mpi_agent.ask(host, body) as connection:
        return mpi_agent.read_line(connection)


def read_frame(connection: socket.socket) -> tuple[bytes, int, bytes]:
    """One frame; OSError where the other side has ended."""
    kind, rank, length = FRAME.unpack(mpi_agent.read_exactly(connection, FRAME.size))
    return kind, rank, mpi_agent.read_exactly(connection, length)
