"""`platform/` is a folder on the import path and must never hide the standard library's module of that name."""

import os
import platform
import subprocess
import sys

from tests.architecture.sources import ROOT, tracked_files


def test_the_standard_library_answers_under_pytest():
    assert platform.python_version() == ".".join(map(str, sys.version_info[:3]))


def test_the_standard_library_answers_in_a_process_of_ours():
    program = "import platform; print(platform.__file__); print(platform.python_version())"
    command = [sys.executable, str(ROOT / "manage.py"), "shell", "--no-imports", "-c", program]

    done = subprocess.run(command, cwd=ROOT, env=os.environ.copy(), capture_output=True, text=True, timeout=60)

    assert done.returncode == 0, done.stderr
    file, version = done.stdout.split()[-2:]
    assert not file.startswith(str(ROOT))
    assert version == platform.python_version()


def test_the_folder_is_no_package_and_holds_no_tests():
    names = [path.relative_to(ROOT / "platform") for path in tracked_files() if (ROOT / "platform") in path.parents]

    assert not [name for name in names if len(name.parts) == 1 and name.suffix == ".py"]
    assert not [name for name in names if name.name.startswith(("test_", "conftest")) or "tests" in name.parts]
