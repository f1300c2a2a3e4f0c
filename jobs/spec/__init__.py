"""The job as users write it: read completely or refused completely, normalised, written back in one form.

Plain Python and pydantic only. A user's text is data: nothing here expands, trims or interprets it."""

from jobs.spec.canonical import canonical, spec_digest, to_document
from jobs.spec.diff import SpecChange, diff_specs
from jobs.spec.documents import Document, Format, check_document, parse_text, pointer, read_text
from jobs.spec.model import DEFAULT_NAME, DEFAULT_ROLE, FRAMEWORKS, JobKind, JobSpec, RetryClass, Role
from jobs.spec.overrides import apply_overrides
from jobs.spec.parse import parse_document, parse_spec, with_lines
from jobs.spec.schema import json_schema
from jobs.spec.values import PRIORITIES, BadValue, parse_priority, parse_tag

__all__ = [
    "DEFAULT_NAME",
    "DEFAULT_ROLE",
    "FRAMEWORKS",
    "PRIORITIES",
    "BadValue",
    "Document",
    "Format",
    "JobKind",
    "JobSpec",
    "RetryClass",
    "Role",
    "SpecChange",
    "apply_overrides",
    "canonical",
    "check_document",
    "diff_specs",
    "json_schema",
    "parse_document",
    "parse_priority",
    "parse_spec",
    "parse_tag",
    "parse_text",
    "pointer",
    "read_text",
    "spec_digest",
    "to_document",
    "with_lines",
]
