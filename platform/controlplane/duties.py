"""The periodic duties of the installation: what runs without any hint, and how often. Hints only make them run sooner."""

from __future__ import annotations

from kernel.config import current
from reconciling import ticks

# Hint topic prefix -> task; `<prefix>.<cluster id>` carries the cluster.
CLUSTER_HINTS = {"launch": "jobs.launch", "stop": "jobs.stop", "finish": "jobs.finish"}
PLAIN_HINTS = {"builds": "jobs.builds", "checkpoints": "jobs.checkpoints", "deliveries": "activity.deliver"}
SELFTEST_LOOK_SECONDS = 600.0  # How often somebody looks whether the nightly self-test is due, or was interrupted.

MAINTENANCE_LOOK_SECONDS = 10.0  # Windows are hours; ten seconds late is on time.
LEARN_SECONDS = 600.0  # As often as what pools usually get is counted; a choice takes seconds of a core.
RECOUNT_SECONDS = 3_600.0  # Reads every job, a second for a million; kept numbers go wrong by mistakes alone.


def register() -> None:
    """Register every duty with its interval."""
    config = current()
    ticks.register("jobs.launch", every_seconds=config.poll_seconds * 2)
    ticks.register("jobs.poll", every_seconds=config.poll_seconds)
    ticks.register("jobs.stop", every_seconds=config.poll_seconds * 2)
    ticks.register("jobs.finish", every_seconds=config.poll_seconds * 2)
    ticks.register("jobs.checkpoints", every_seconds=config.poll_seconds * 2)
    ticks.register("jobs.builds", every_seconds=config.poll_seconds * 5)
    ticks.register("activity.deliver", every_seconds=config.poll_seconds * 5)
    ticks.register("jobs.maintenance", every_seconds=MAINTENANCE_LOOK_SECONDS)
    ticks.register("jobs.learn", every_seconds=LEARN_SECONDS)
    ticks.register("jobs.recount", every_seconds=RECOUNT_SECONDS)
    ticks.register("reconciling.sweep", every_seconds=config.sweep_seconds)
    ticks.register("controlplane.selftest", every_seconds=SELFTEST_LOOK_SECONDS)
