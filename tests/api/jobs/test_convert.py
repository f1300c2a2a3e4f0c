"""Files of other systems over HTTP and on the command line: converted, explained, and then submitted like any other."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from jobs.models import Job
from tests.builders.program import Run, program
from tests.builders.quay import Quay

pytestmark = pytest.mark.database
CORPUS = Path(__file__).parents[2] / "unit" / "conversion" / "corpus"
SCRIPT = "#!/bin/sh\n#SBATCH --partition=gpu\n#SBATCH --time=10\necho hello\n"


@pytest.fixture
def berth(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    return program(tmp_path, monkeypatch)


@pytest.fixture
def convert(api: Any, quay: Quay) -> Any:
    return lambda body, **headers: api(quay.cast.bob).post("/api/v1/jobs:convert", body, format="json", headers=headers)


def test_a_script_becomes_a_job_that_is_accepted(api: Any, convert: Any, quay: Quay) -> None:
    made = convert({"text": SCRIPT, "name": "night.sh"}).json()

    assert made["from"] == "sbatch"
    assert made["spec"] == {
        "name": "night",
        "framework": "slurm",
        "max_runtime": 600,
        "command": ["/bin/sh", "-c", "echo hello"],
    }
    assert [(entry["kind"], entry["code"], entry["line"]) for entry in made["notes"]] == [
        ("lost", "partition", 2),
        ("carried", "carried", 3),
    ]
    assert made["problems"] == []
    stored = api(quay.cast.bob).post("/api/v1/jobs", {"spec": made["spec"]}, format="json")
    assert stored.status_code == 201
    assert not Job.objects.exclude(name="night").exists()


def test_notes_come_in_the_readers_language(convert: Any) -> None:
    note = convert({"text": SCRIPT}, **{"Accept-Language": "zh-CN"}).json()["notes"][0]

    assert note["text"] == "分区 gpu 与这里的资源池无关。"
    assert note["hint"]


def test_all_mistakes_are_refused_at_once(convert: Any) -> None:
    refused = convert({"text": "#!/bin/sh\n#SBATCH --time=soon\n#SBATCH --nodes=few\n", "from": "sbatch"})

    assert refused.status_code == 422
    assert {(entry["path"], entry["line"]) for entry in refused.json()["fields"]} == {("/time", 2), ("/nodes", 3), ("/script", 1)}


@pytest.mark.parametrize("body", [{}, {"text": "x", "from": "pbs"}, {"text": SCRIPT, "run": True}, {"text": "command: echo\n"}])
def test_what_cannot_be_converted_is_said(convert: Any, body: dict[str, Any]) -> None:
    refused = convert(body)

    assert refused.status_code == 422
    assert refused.json()["fields"]


def test_what_the_job_lacks_is_told(convert: Any) -> None:
    made = convert({"text": "#!/bin/sh\n#SBATCH --cpus-per-task=90000\ntrue\n"}).json()

    assert [entry["path"] for entry in made["problems"]] == ["/resources/cpu"]


@pytest.mark.capability("37", "Job files of OpenPAI are imported, with what is lost")
def test_the_command_prints_a_job_file_and_what_was_lost(berth: Run, quay: Quay, tmp_path: Path) -> None:
    bob = quay.cast.bob
    done = berth(bob, "convert", str(CORPUS / "sbatch_train.sh"))
    assert "Partition gpu says nothing about the pools here." in done.stderr
    assert "Lost (" in done.stderr
    assert "Partition" not in done.stdout

    file = tmp_path / "job.yaml"
    file.write_text(berth(bob, "convert", str(CORPUS / "sbatch_minimal.sh")).stdout)
    assert "name: sbatch_minimal" in file.read_text()
    berth(bob, "submit", "-f", str(file), "--detach")
    assert Job.objects.get(name="sbatch_minimal")


def test_the_command_prints_everything_for_programs(berth: Run, quay: Quay) -> None:
    made = json.loads(berth(quay.cast.bob, "convert", str(CORPUS / "openpai_hello.yaml"), "--from", "openpai", "--json").stdout)

    assert made["from"] == "openpai"
    assert {entry["kind"] for entry in made["notes"]} == {"lost", "changed", "carried"}


def test_the_command_names_the_lines_of_all_mistakes(berth: Run, quay: Quay, tmp_path: Path) -> None:
    file = tmp_path / "night.sh"
    file.write_text("#!/bin/sh\n#SBATCH --time=soon\n#SBATCH --nodes=few\ntrue\n")

    refused = berth(quay.cast.bob, "convert", str(file), code=2).output

    assert "night.sh:2" in refused
    assert "night.sh:3" in refused


@pytest.mark.parametrize("name", ["openpai_hello.yaml", "openpai_two_images.json", "sbatch_train.sh"])
def test_submitting_such_a_file_names_the_command(berth: Run, quay: Quay, name: str) -> None:
    refused = berth(quay.cast.bob, "submit", "-f", str(CORPUS / name), code=2)

    assert "berth convert" in refused.output
    assert not Job.objects.exists()
