"""The tenant escape self-test: on the installation that runs, not in a laboratory.

Two tenants are made with an account each. Everything that one of them can own is made through the API, by its own account. Then
every operation of the published description is tried on these things by the other account, and without any account: by path, by
body, by query. An answer that shows or changes anything is a finding, and a finding is an alarm. At the end both tenants are
removed; after a crash the next round of the duty removes them.
"""

from controlplane.selftest.address import own_url
from controlplane.selftest.parties import SelfTestBroken
from controlplane.selftest.removal import remove_leftovers
from controlplane.selftest.run import due, run_selftest

__all__ = ["SelfTestBroken", "due", "own_url", "remove_leftovers", "run_selftest"]
