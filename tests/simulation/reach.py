"""What a round of simulations must reach: every crash point that can be reached without a real disk, and every edge of a job."""

from __future__ import annotations

from jobs.lifecycle.states import ATTEMPT_LIFECYCLE, JOB_LIFECYCLE, TASK_LIFECYCLE
from kernel.crashpoints import POINTS

# Points that no simulated piece of work passes, and who kills real platforms there instead (tests/faults).
OUT_OF_REACH = {
    "storage.volume.before_commit": "Making a volume makes a directory with the rights of a real tenant.",
    "storage.upload.after_write": "Uploads write through the launcher's rights into real volumes.",
    "storage.upload.after_put": "Uploads write through the launcher's rights into real volumes.",
    "jobs.priority.before_commit": "Nobody in a simulation needs anybody's approval.",
    "tenants.quota_request.before_commit": "As for priorities.",
    "clusters.maintenance.before_commit": "As for priorities.",
    "jobs.move.before_commit": "It needs several jobs of one owner that wait for room, which no client waits for.",
    **dict.fromkeys(
        (
            "jobs.checkpoint.after_claim",
            "jobs.checkpoint.before_commit",
            "storage.checkpoint.after_drop",
            "storage.checkpoint.after_copy",
            "storage.checkpoint.after_remove",
        ),
        "A checkpoint is a directory of a real tenant on a real disk.",
    ),
    "images.build.after_seal": "A build that succeeds leaves a real environment, which is sealed on a real disk.",
    "images.build.after_push": "The same of a container image, which real programs build and push.",
}
IN_REACH = tuple(point for point in POINTS if point not in OUT_OF_REACH)

LIFECYCLES = {"job": JOB_LIFECYCLE, "attempt": ATTEMPT_LIFECYCLE, "task": TASK_LIFECYCLE}
EDGES = tuple(
    (kind, start, end)
    for kind, lifecycle in LIFECYCLES.items()
    for start, ends in lifecycle.edges.items()
    for end in sorted(ends)
)

# Edges that are declared for what cannot happen to a fake engine or needs a rarer coincidence than a short round has.
RARE_EDGES = {
    ("job", "queued", "failed"): "An image that could not be built, or an array whose children all failed between two looks.",
    ("job", "queued", "succeeded"): "An array whose children all succeeded between two looks.",
    ("job", "admitted", "running"): "The answer to the launch was overtaken by an observation; launches record it themselves.",
    ("job", "admitted", "queued"): "The engine gives up on a workload for good; the fake one knows all nodes.",
    ("job", "admitted", "succeeded"): "As above.",
    ("job", "admitted", "failed"): "As above.",
    ("job", "admitted", "stopped"): "As above.",
    ("attempt", "admitted", "running"): "As for its job.",
    ("attempt", "admitted", "ended"): "As for its job.",
    ("task", "pending", "succeeded"): "A task that succeeds is seen as running first, in the same look.",
}
COMMON_EDGES = tuple(edge for edge in EDGES if edge not in RARE_EDGES)
