"""The part of the local engine that may need root: a closed list of verbs, served in-process or by a small child process."""

from clusters.engines.local.launching.client import LauncherClient
from clusters.engines.local.launching.direct import DirectLauncher
from clusters.engines.local.launching.policy import Policy
from clusters.engines.local.launching.server import keep_serving, serve, start_child
from clusters.engines.local.launching.verbs import Launcher, LauncherBusy, LauncherRefused, LauncherUnavailable

__all__ = [
    "DirectLauncher",
    "Launcher",
    "LauncherBusy",
    "LauncherClient",
    "LauncherRefused",
    "LauncherUnavailable",
    "Policy",
    "keep_serving",
    "serve",
    "start_child",
]
