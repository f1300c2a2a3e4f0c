"""Where the self-test finds the web server of its own installation: by what that wrote down of itself.

Never an address that is guessed, from a default or from the settings of a shell: whatever listens there would get a token.
"""

from __future__ import annotations

from controlplane.instance import running_url
from controlplane.processes.heartbeat import url_of_this_host
from controlplane.selftest.parties import SelfTestBroken
from kernel.clock import database_now
from kernel.config import current


def own_url() -> str:
    """The setting, else what holds the data directory's lock, else a web process of this host that lives. SelfTestBroken if none
    does."""
    config = current()
    url = config.selftest_url or running_url(config) or url_of_this_host(database_now())
    if not url:
        raise SelfTestBroken(
            f"No web server of this installation runs on this machine: nothing holds {config.data_dir}/platform.lock. Start it "
            "with `make up`, set BERTH_DATA_DIR to the directory of the installation that is meant, or, where its web servers "
            "are on other machines, set BERTH_SELFTEST_URL."
        )
    return url
