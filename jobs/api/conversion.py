"""Jobs written for other systems, as job files of ours."""

from __future__ import annotations

from typing import Any

from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from jobs.api import examples
from jobs.api.templates import SpecProblemOut
from jobs.bounds import SPEC_BYTES
from jobs.conversion import FORMATS, NoteKind, Source, convert
from kernel.limits import NAME_LENGTH
from webapi.serializers import StrictSerializer
from webapi.views import ApiView, known_query
from webapi.wording import reader_language

SCRIPT = "#!/bin/sh\n#SBATCH --job-name=digits\n#SBATCH --partition=gpu\n#SBATCH --gpus=1\npython digits.py\n"
ANSWER = {
    "from": "sbatch",
    "spec": {"name": "digits", "resources": {"gpu": 1}, "command": "python digits.py"},
    "notes": [
        {
            "code": "partition",
            "kind": "lost",
            "place": "--partition",
            "line": 3,
            "text": "Partition gpu says nothing about the pools here.",
            "hint": "Leave it to the scheduler, or write pool: NAME.",
        },
        {"code": "carried", "kind": "carried", "place": "--job-name", "line": 2, "text": "It is now name.", "hint": ""},
        {"code": "carried", "kind": "carried", "place": "--gpus", "line": 4, "text": "It is now resources.gpu.", "hint": ""},
    ],
    "problems": [],
}


class ConvertIn(StrictSerializer):
    """A file of another system. Nothing in it is executed or resolved."""

    text = serializers.CharField(trim_whitespace=False, max_length=SPEC_BYTES, help_text="The whole file.")
    name = serializers.CharField(
        required=False, allow_blank=True, max_length=NAME_LENGTH, help_text="Name of the file, for a script that names no job."
    )

    def get_fields(self) -> dict[str, Any]:
        choice = serializers.ChoiceField(list(FORMATS), required=False, help_text="Source format. Default: detected.")
        return {**super().get_fields(), "from": choice}  # A word that Python keeps for itself.


class NoteOut(serializers.Serializer[Any]):
    """Result for a part of the file, in the reader's language."""

    code = serializers.CharField(help_text="Stable across releases.")
    kind = serializers.ChoiceField(
        list(NoteKind), help_text="`carried`: the same here. `changed`: similar. `lost`: not in the job."
    )
    place = serializers.CharField(help_text="Key or option of the part.")
    line = serializers.IntegerField(allow_null=True)
    text = serializers.CharField()
    hint = serializers.CharField(help_text="Action to take; empty: none.")


class ConvertOut(serializers.Serializer[Any]):
    """The job. Send `spec` to POST /jobs, with or without `dry_run`."""

    spec = serializers.DictField()
    notes = NoteOut(many=True, help_text="Lost parts first, then changed parts, then parts that were carried over.")
    problems = SpecProblemOut(many=True, help_text="Empty: the job can be submitted.")

    def get_fields(self) -> dict[str, Any]:
        return {"from": serializers.ChoiceField(list(FORMATS)), **super().get_fields()}


class JobConvertView(ApiView):
    """Files of other systems."""

    @extend_schema(
        operation_id="jobs_convert",
        request=ConvertIn,
        responses={200: ConvertOut},
        examples=[examples.request("a script", {"text": SCRIPT}), examples.answer("converted", ANSWER)],
    )
    def post(self, request: Request) -> Response:
        """Convert an OpenPAI job (protocol v2, YAML) or an sbatch script of Slurm to a job. Nothing is stored.

        All mistakes in the file are refused at once, with their lines. Problems of the resulting job are in `problems`.
        """
        known_query(request, ())
        body = ConvertIn.validated(request.data)
        made = convert(body["text"], Source(body["from"]) if "from" in body else None, file_name=body.get("name", ""))
        language = reader_language(request)
        return Response(
            {
                "from": made.source.value,
                "spec": made.spec,
                "notes": [
                    {
                        "code": note.code,
                        "kind": note.kind.value,
                        "place": note.place,
                        "line": note.line,
                        "text": note.text(language),
                        "hint": note.hint(language),
                    }
                    for note in made.notes
                ],
                "problems": [entry.as_dict(language) for entry in made.problems],
            }
        )
