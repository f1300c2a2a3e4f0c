"""What jobs bring to the layers below: errors, features, crash points, notices, duties, and who may see what."""

from __future__ import annotations

from functools import partial

from activity.notifications.kinds import register_notice_kinds
from jobs import notices
from jobs.access import register_rules
from jobs.hooks import register_hooks
from jobs.lifecycle.wait_page import wait_reasons_page
from jobs.services.leaving import LIVE, RUNNING, WAITING, hand_over_jobs, jobs_of, stop_jobs_of, templates_of
from kernel.crashpoints import register_crash_points
from kernel.duties import Duty, register_duties
from kernel.tenant_rows import TENANT, USER, register_tenant_rows
from kernel.words import Text
from tenants.identity.leaving import Belonging, register_belongings
from webapi.documents import register_pages
from webapi.features import Feature, register_features
from webapi.reference import register_errors

ERRORS = {
    "no_checkpoint": "Write `checkpoint: {path: ckpt}` in the job file; the directory is there from the first attempt on.",
    "not_adoptable": "Read `detail`. Let the attempt end, or stop it; its job is then free to start again.",
    "exec_disabled": "Ask an operator to set `BERTH_EXEC_ENABLED`; logs and metrics work without it.",
    "exec_unsupported": "Read the log with `berth logs`. Builds, fetches of code and other transfers have no terminals.",
    "exec_not_running": "Wait until the task runs; a terminal ends with its task.",
    "exec_refused": "Read `detail`. Close a terminal that is open, or try again in a moment.",
}

FEATURES = (
    Feature("templates", Text("Job templates", "作业模板")),
    Feature("terminal", Text("Web terminal and exec", "网页终端与 exec")),
    Feature("notebook", Text("Notebooks", "笔记本")),
)

CRASH_POINTS = {
    "jobs.submit.before_commit": "The rows are written, the transaction is not committed.",
    "jobs.submit.after_commit": "The job is stored, the client has no answer yet.",
    "jobs.priority.before_commit": "A request for a higher priority is made or decided, not committed.",
    "jobs.move.before_commit": "Jobs have their new places in the queue, not committed.",
    "jobs.admit.before_commit": "Reservations and attempts are written, not committed.",
    "jobs.admit.after_commit": "The attempt is admitted, nobody was told.",
    "jobs.evict.before_commit": "Attempts that make way are stopping, not committed.",
    "jobs.evict.after_commit": "They are stopping for another, and only the database knows for whom.",
    "jobs.launch.after_claim": "A worker holds the lease of admitted attempts and has done nothing yet.",
    "jobs.launch.before_ensure": "Workloads of claimed attempts are compiled, the engine was not asked.",
    "jobs.launch.after_ensure": "The engine has the workload, the database does not know.",
    "jobs.launch.after_record": "STARTING is stored, the message is not acknowledged.",
    "jobs.poll.after_observe": "The engine was read, nothing is recorded.",
    "jobs.poll.before_commit": "Observations are written, not committed.",
    "jobs.stop.after_claim": "A stop is due and claimed, the engine was not told.",
    "jobs.stop.after_engine": "The engine was told to stop, the database does not know.",
    "jobs.finish.after_logs": "All logs and outputs are stored, the attempt is not marked so.",
    "jobs.finish.after_forget": "The engine forgot the attempt, the database does not know.",
    "jobs.build.after_job": "The job of a build request exists, the request does not know it.",
    "jobs.checkpoint.after_claim": "Directories that jobs keep are due and claimed, nothing was looked at.",
    "jobs.checkpoint.before_commit": "A directory was looked through, its job does not know and waits.",
}

NOTICE_KINDS = (
    notices.RUNNING,
    notices.SUCCEEDED,
    notices.FAILED,
    notices.STOPPED,
    notices.RETRIED,
    notices.PRIORITY,
    notices.LIMIT,
)

MAINTENANCE_LOOK_SECONDS = 10.0  # Windows are hours; ten seconds late is on time.
LEARN_SECONDS = 600.0  # As often as what pools usually get is counted; a choice takes seconds of a core.
RECOUNT_SECONDS = 3_600.0  # Reads every job, a second for a million; kept numbers go wrong by mistakes alone.
DUTIES = (
    Duty("jobs.launch", lambda config: config.poll_seconds * 2, hint="launch", by_cluster=True),
    Duty("jobs.poll", lambda config: config.poll_seconds, by_cluster=True),
    Duty("jobs.stop", lambda config: config.poll_seconds * 2, hint="stop", by_cluster=True),
    Duty("jobs.finish", lambda config: config.poll_seconds * 2, hint="finish", by_cluster=True),
    Duty("jobs.checkpoints", lambda config: config.poll_seconds * 2, hint="checkpoints"),
    Duty("jobs.builds", lambda config: config.poll_seconds * 5, hint="builds"),
    Duty("jobs.maintenance", lambda _: MAINTENANCE_LOOK_SECONDS),
    Duty("jobs.learn", lambda _: LEARN_SECONDS),
    Duty("jobs.recount", lambda _: RECOUNT_SECONDS),
)
PAGES = {"wait-reasons.md": wait_reasons_page}

TENANT_ROWS = {
    "jobs.DecisionRecord": (TENANT,),
    "jobs.StartPrediction": (TENANT,),
    "jobs.PriorityRequest": (TENANT, USER),
    "jobs.Template": (TENANT,),
    "jobs.StoredSpec": (TENANT,),
    "jobs.Job": (TENANT, USER),
    "jobs.Attempt": (TENANT,),
    "jobs.Task": (TENANT,),
}


# What waits comes last: a job that starts or is to run again meanwhile is met by one of the two.
BELONGINGS = {
    "running": Belonging(
        partial(jobs_of, states=RUNNING),
        hand_over=partial(hand_over_jobs, states=RUNNING),
        stop=partial(stop_jobs_of, states=RUNNING),
    ),
    "waiting": Belonging(
        partial(jobs_of, states=WAITING), hand_over=partial(hand_over_jobs, states=LIVE), stop=partial(stop_jobs_of, states=LIVE)
    ),
    "templates": Belonging(templates_of, owner="owner_id"),
}


def register() -> None:
    """Called once, from `AppConfig.ready`."""
    register_errors(ERRORS)
    register_features(FEATURES)
    register_crash_points(CRASH_POINTS)
    register_notice_kinds(NOTICE_KINDS)
    register_duties(DUTIES)
    register_pages(PAGES)
    register_tenant_rows(TENANT_ROWS)
    register_belongings(BELONGINGS)
    register_rules()
    register_hooks()
