"""What a run prepares once: also for programs that start platforms without pytest."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from tests.builders import prepared

PROGRAM = """
from tests.builders.prepared import made_once
with made_once("tables") as first: pass
with made_once("tables") as again: print(again) if again == first and again.is_dir() else None
"""


def test_a_program_of_its_own_makes_the_folder_once_and_takes_it_away() -> None:
    environment = {name: value for name, value in os.environ.items() if name != prepared.FOLDER}
    root = Path(__file__).parents[3]
    done = subprocess.run([sys.executable, "-c", PROGRAM], env=environment, cwd=root, capture_output=True, text=True, check=True)

    made = Path(done.stdout.strip())
    assert made.name == "tables"
    assert not made.parents[1].exists()
