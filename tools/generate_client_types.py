"""Write the client's types from the published description of the API.

    python manage.py openapi --file client/openapi.json
    python tools/generate_client_types.py

`client/openapi.json` is committed, so that the client is built and checked without the server; a test compares both steps.
"""

from __future__ import annotations

import argparse
import re
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
DESCRIPTION = ROOT / "client" / "openapi.json"
TARGET = ROOT / "client" / "src" / "berth" / "_api" / "models.py"
HEADER = '"""Shapes of the API, made by tools/generate_client_types.py from client/openapi.json. Do not edit."""\n\n'


def generate(description: Path) -> str:
    """Give the text of the module for a description."""
    with tempfile.TemporaryDirectory() as folder:
        made = Path(folder) / "models.py"
        command = [
            *(sys.executable, "-m", "datamodel_code_generator"),
            *("--input", str(description), "--input-file-type", "openapi", "--output", str(made)),
            *("--output-model-type", "typing.TypedDict", "--target-python-version", "3.11", "--formatters", "ruff-format"),
            *("--use-standard-collections", "--use-union-operator", "--disable-timestamp", "--enum-field-as-literal", "all"),
        ]
        subprocess.run(command, check=True, capture_output=True, text=True)
        text = made.read_text(encoding="utf-8")
    body = re.sub(r"\A(?:#.*\n|\s)*", "", text)
    return HEADER + body


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true", help="only say whether the committed file is up to date")
    options = parser.parse_args()
    text = generate(DESCRIPTION)
    if options.check:
        if TARGET.read_text(encoding="utf-8") != text:
            print(f"{TARGET.relative_to(ROOT)} does not fit {DESCRIPTION.relative_to(ROOT)}; run tools/generate_client_types.py")
            return 1
        return 0
    TARGET.write_text(text, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
