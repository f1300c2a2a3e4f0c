"""Files as people have them: each becomes a job, and each of its lines is carried over or explained."""

import json
import re
from pathlib import Path

import pytest

from jobs.conversion import NoteKind, Source, convert, detect
from jobs.spec import parse_spec, read_text
from jobs.spec.documents import Format

CORPUS = Path(__file__).with_name("corpus")
FILES = sorted(path for path in CORPUS.iterdir() if path.name != "specs.json")
SPECS = json.loads((CORPUS / "specs.json").read_text())
# Lines that only say where something stands, or what is so anyway.
MEANINGLESS = re.compile(
    r"^/parameters/|^/extras/tensorBoard/|/(protocolVersion|type|prerequisites|taskRoles|deployments|defaults|extras|parameters|secrets|completion|submitFrom)$"
    r"|/(name|uri|protocolVersion|type|taskRetryCount|gpu|data|output|script|dockerImage|deployment|plugin|skuType|version)$"
    r"|/(resourcePerInstance|extraContainerOptions|ports|virtualCluster|minSucceededInstances|affinityGroupName|jobRetryCount)$"
)


@pytest.mark.capability("6.23", "Each file of a corpus becomes a job, and each of its lines is carried over or explained")
@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_a_file_becomes_this_job(path):
    made = convert(path.read_text(), file_name=path.name)

    assert made.spec == SPECS[path.name]
    assert made.problems == ()
    assert parse_spec(made.spec)
    assert made.source == detect(path.read_text()) == (Source.SBATCH if path.suffix == ".sh" else Source.OPENPAI)


@pytest.mark.capability("6.23", "Each file of a corpus becomes a job, and each of its lines is carried over or explained")
@pytest.mark.parametrize("path", [path for path in FILES if path.suffix == ".sh"], ids=lambda path: path.name)
def test_every_line_of_slurm_has_a_note(path):
    told = {note.line for note in convert(path.read_text()).notes}
    lines = [number for number, line in enumerate(path.read_text().splitlines(), 1) if line.startswith("#SBATCH")]

    assert [number for number in lines if number not in told] == []


@pytest.mark.capability("68", "Each key of an OpenPAI job is carried over or explained")
@pytest.mark.capability("6.23", "Each file of a corpus becomes a job, and each of its lines is carried over or explained")
@pytest.mark.parametrize("path", [path for path in FILES if path.suffix == ".yaml"], ids=lambda path: path.name)
def test_every_key_of_openpai_has_a_note(path):
    document = read_text(path.read_text(), Format.YAML)
    told = {note.line for note in convert(path.read_text()).notes}
    keys = [
        key for key in document.lines if key.count("/") in (1, 3) and not re.search(r"/\d+$", key) and not MEANINGLESS.search(key)
    ]

    assert keys
    assert [key for key in keys if document.lines[key] not in told and document.lines[key] + 1 not in told] == []


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_notes_speak_both_languages(path):
    for note in convert(path.read_text()).notes:
        english, chinese = note.text("en"), note.text("zh")
        assert english.endswith(".")
        assert re.search("[\u4e00-\u9fff]", chinese), note.code
        assert "@" not in english.replace("USR1@120", "")
        assert bool(note.hint("en")) == bool(note.hint("zh"))


@pytest.mark.capability("6.23", "No value of a secret is carried over")
def test_no_secret_is_carried_over():
    made = convert((CORPUS / "openpai_parameter_server.yaml").read_text())

    told = json.dumps(made.spec) + "".join(note.text("en") + note.hint("en") for note in made.notes)
    assert "not-a-real-password" not in told
    assert "also-not-real" not in told
    assert made.spec["secrets"] == {"upload_key": None}


def test_what_was_lost_comes_first():
    kinds = [note.kind for note in convert((CORPUS / "sbatch_train.sh").read_text()).notes]

    assert kinds == sorted(kinds, key=[NoteKind.LOST, NoteKind.CHANGED, NoteKind.CARRIED].index)
