"""The public name of `kernel.crashpoints` for reconcilers; apps below this one have side effects to interrupt too."""

from kernel.crashpoints import POINTS, arm, crashpoint, disarm_all

__all__ = ["POINTS", "arm", "crashpoint", "disarm_all"]
