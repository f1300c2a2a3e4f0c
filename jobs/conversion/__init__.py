"""Jobs written for other systems, as jobs of Berth: OpenPAI's protocol v2 and scripts for Slurm's `sbatch`.

Plain Python. A text goes in; a document for `jobs.spec` comes out, with a note for everything that means something else here or
cannot be carried over. Nothing of the text is run, and nothing in it is looked up: names of queues, pools and volumes there say
nothing about those here."""

from jobs.conversion.convert import FORMATS, Converted, Source, convert, detect
from jobs.conversion.notes import Note, NoteKind

__all__ = ["FORMATS", "Converted", "Note", "NoteKind", "Source", "convert", "detect"]
