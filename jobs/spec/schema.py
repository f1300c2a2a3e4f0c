"""The published JSON Schema of a job, generated from the model: what editors complete and clients check before they submit.

It accepts every form that `parse_spec` accepts. What holds between fields (a chief that exists, paths that differ) and values
that cannot be told by their shape (a time zone, `..` in a path) are beyond it; the server checks them."""

from __future__ import annotations

import copy
from functools import cache
from typing import Any

from jobs.spec.model import DEFAULT_ROLE, JobSpec

SCHEMA_DIALECT = "https://json-schema.org/draft/2020-12/schema"
SCHEMA_ID = "urn:berth:job-spec:1"

EXAMPLES: tuple[dict[str, Any], ...] = (
    {"command": "python train.py"},
    {
        "name": "digits",
        "image": "jax-cpu",
        "code": {"path": "."},
        "framework": "jax",
        "roles": {
            "worker": {
                "replicas": 2,
                "resources": {"gpu": 1, "cpu": 4, "memory": "16Gi", "shm": "8Gi"},
                "command": "python train.py --epochs 3",
                "ports": ["metrics"],
            }
        },
        "priority": "normal",
        "max_runtime": "2h",
        "retry": {"limit": 3, "on": ["platform"]},
        "checkpoint": {"path": "ckpt", "signal": "USR1", "grace": "60s"},
        "outputs": ["model"],
        "env": {"SEED": "7"},
        "secrets": {"HF_TOKEN": None},
        "mounts": [{"volume": "digits", "path": "/data", "read_only": True}],
        "labels": {"project": "ocr"},
    },
    {
        "name": "sweep",
        "command": ["python", "evaluate.py"],
        "resources": {"cpu": "500m", "memory": "1Gi"},
        "array": {"size": 100, "parallelism": 10},
        "after_ok": ["digits"],
        "tags": ["nightly"],
    },
)


@cache
def _schema() -> dict[str, Any]:
    schema = JobSpec.model_json_schema(by_alias=True, mode="validation")
    definitions = schema["$defs"]
    properties = schema["properties"]
    role = definitions["Role"]["properties"]
    for key in ("command", "replicas", "resources", "ports"):
        note = f"For a job of one role: the same as in roles.{DEFAULT_ROLE}."
        properties[key] = {**role[key], "description": f"{role[key].get('description', '')} {note}".strip()}
    properties["array"] = {**properties["array"], "anyOf": [{"type": "integer", "minimum": 1}, *properties["array"]["anyOf"]]}
    for key in ("min_failed", "min_succeeded"):
        definitions["Completion"]["properties"][key] = definitions["RoleCompletion"]["properties"][key]
    definitions["Code"]["oneOf"] = [{"required": [key]} for key in ("path", "git", "snapshot")]
    named = properties["secrets"]["patternProperties"]
    properties["secrets"]["patternProperties"] = {name: {"anyOf": [form, {"type": "null"}]} for name, form in named.items()}
    _allow_null(properties)
    for name in ("Role", "ResourceAsk", "Completion", "Placement"):
        _allow_null(definitions[name]["properties"], keep=("command",))
    del definitions["Role"]["required"]  # Frameworks have commands for some roles; the server knows for which.
    _put_defaults(properties, role, definitions["ResourceAsk"]["properties"])
    _close_mappings(schema)
    schema.pop("required", None)
    for part in (schema, *definitions.values()):
        _without_titles(part)
    return {
        "$schema": SCHEMA_DIALECT,
        "$id": SCHEMA_ID,
        **schema,
        "title": "Berth job",
        "oneOf": [{"required": ["roles"]}, {"required": ["command"]}],
        "examples": list(EXAMPLES),
    }


def json_schema() -> dict[str, Any]:
    """JSON Schema 2020-12 of a job as users write it, with descriptions and examples. The caller may change its copy."""
    return copy.deepcopy(_schema())


def _put_defaults(top: dict[str, Any], role: dict[str, Any], resources: dict[str, Any]) -> None:
    """Defaults in the words of users: the generator knows only the normalised values."""
    for properties, key, default in (
        *((top, "replicas", 1), (role, "replicas", 1), (top, "priority", "normal")),
        *((resources, "cpu", 1), (resources, "memory", "2Gi"), (resources, "gpu", 0), (resources, "shm", 0)),
    ):
        properties[key] = {**properties[key], "default": default}
    for properties, key in ((top, "resources"), (role, "resources"), (top, "completion"), (top, "placement")):
        properties[key] = {name: value for name, value in properties[key].items() if name != "default"}


def _close_mappings(schema: Any) -> None:
    """Names outside the grammar are refused."""
    if isinstance(schema, dict):
        if "patternProperties" in schema:
            schema["additionalProperties"] = False
        for value in schema.values():
            _close_mappings(value)
    elif isinstance(schema, list):
        for value in schema:
            _close_mappings(value)


def _allow_null(properties: dict[str, Any], keep: tuple[str, ...] = ()) -> None:
    """A key without a value asks for the default, as an empty line in YAML does."""
    for key, schema in properties.items():
        if key in keep or {"type": "null"} in schema.get("anyOf", ()):
            continue
        described = {name: schema[name] for name in ("description", "default", "examples") if name in schema}
        rest = {name: value for name, value in schema.items() if name not in described}
        forms = rest["anyOf"] if set(rest) == {"anyOf"} else [rest]
        properties[key] = {**described, "anyOf": [*forms, {"type": "null"}]}


def _without_titles(schema: Any) -> None:
    """The generator repeats each key as a title, which helps no reader."""
    if isinstance(schema, dict):
        if isinstance(schema.get("title"), str):
            del schema["title"]
        for value in schema.values():
            _without_titles(value)
    elif isinstance(schema, list):
        for value in schema:
            _without_titles(value)
