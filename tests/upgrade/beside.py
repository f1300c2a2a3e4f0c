"""`python beside.py RELEASE`: the embedded server of a release, on a data directory whose lock another process holds.

What two releases beside each other are in a rolling upgrade: two servers of one installation on one database, one local cluster
and one launcher, which belongs to the other. The release before has no production profile to do that with.
"""

import os
import sys

release = sys.argv[1]
sys.path[:0] = [release, f"{release}/platform"]
os.environ["DJANGO_SETTINGS_MODULE"] = "controlplane.settings"

from controlplane import instance  # noqa: E402 - the path comes first.

instance.lock_data_directory = lambda config: -1

from django.core.management import execute_from_command_line  # noqa: E402

execute_from_command_line(["manage.py", "serve"])
