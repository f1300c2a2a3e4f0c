"""An engine in memory, for tests and simulations: what no machine can do on demand, under the same contract."""

from clusters.engines.fake.engine import FakeEngine
from clusters.engines.fake.faults import Faults
from clusters.engines.fake.script import Script, script_from_labels

__all__ = ["FakeEngine", "Faults", "Script", "script_from_labels"]
