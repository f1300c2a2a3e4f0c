"""`python -m clusters.engines.local.launching`: the launcher as a process."""

import sys

from clusters.engines.local.launching.server import main

sys.exit(main())
