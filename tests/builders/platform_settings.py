"""The settings of platforms that tests start: the product's, but for what a password costs. And no package of the tests alone.

`tests/builders/release.py` puts this file beside the server's copy, so that a platform finds it there and nothing else of the
tests. Otherwise each sign-in, and each person made, would take a quarter of a second of a core.
"""

import sys

# Django imports it where it finds it. The server's lock does not install it, so no platform has it.
sys.modules["jinja2"] = None  # type: ignore[assignment]

from django.contrib.auth.hashers import ScryptPasswordHasher  # noqa: E402

from controlplane.settings import *  # noqa: E402, F403 - as Django takes them.

PASSWORD_WORK = 2  # Of scrypt, the least there is; `tests/security/credentials/test_password_cost.py` looks at the product's.
ScryptPasswordHasher.work_factor = PASSWORD_WORK
