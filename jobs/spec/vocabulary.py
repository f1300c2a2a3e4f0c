"""Which keys exist where, and which key a writer meant who came from another system or misspelt one."""

from __future__ import annotations

from difflib import get_close_matches
from typing import Any

from pydantic import BaseModel

from jobs.spec import model
from jobs.spec.values import SHOWN_LENGTH

Location = tuple[Any, ...]


def keys_of(kind: type[BaseModel]) -> tuple[str, ...]:
    """The keys of a model as users write them."""
    return tuple(str(info.validation_alias or name) for name, info in kind.model_fields.items())


_TOP = keys_of(model.JobSpec)
_SHORT = ("command", "replicas", "resources", "ports")
_MODELS: dict[str, type[BaseModel]] = {
    "retry": model.Retry,
    "checkpoint": model.Checkpoint,
    "code": model.Code,
    "completion": model.Completion,
    "array": model.Array,
    "mounts": model.Mount,
    "placement": model.Placement,
}
_PLACES = {
    **dict.fromkeys(_TOP, "at the top of the job"),
    **{key: "inside a role" for key in keys_of(model.Role) if key != "env"},
    **dict.fromkeys(keys_of(model.ResourceAsk), "under resources"),
    "signal": "under checkpoint",
    "grace": "under checkpoint",
    "interval": "under checkpoint",
    "per": "under checkpoint",
    "from": "under checkpoint",
    "chief": "under completion",
    "together": "under placement",
    "tolerates": "under placement",
    "parallelism": "under array",
}

# What other systems call the same thing. Keys of OpenPAI, Slurm, Kubernetes and container tools.
_SYNONYMS = {
    "args": "command",
    "cmd": "command",
    "commands": "command",
    "entrypoint": "command",
    "run": "command",
    "script": "command",
    "instances": "replicas",
    "num_workers": "replicas",
    "workers": "replicas",
    "count": "replicas",
    "ntasks": "replicas",
    "gpus": "gpu",
    "accelerators": "gpu",
    "cpus": "cpu",
    "cores": "cpu",
    "mem": "memory",
    "ram": "memory",
    "memorymb": "memory",
    "shm_size": "shm",
    "shmmb": "shm",
    "limits": "resources",
    "requests": "resources",
    "resourceperinstance": "resources",
    "taskroles": "roles",
    "tasks": "roles",
    "environment": "env",
    "envs": "env",
    "variables": "env",
    "volumes": "mounts",
    "volume": "mounts",
    "mount": "mounts",
    "timeout": "max_runtime",
    "time": "max_runtime",
    "time_limit": "max_runtime",
    "walltime": "max_runtime",
    "deadline": "max_runtime",
    "retries": "retry",
    "max_retries": "retry",
    "jobretrycount": "retry",
    "partition": "pool",
    "node_pool": "pool",
    "virtualcluster": "queue",
    "container": "image",
    "docker_image": "image",
    "dockerimage": "image",
    "cwd": "workdir",
    "working_dir": "workdir",
    "workingdir": "workdir",
    "chdir": "workdir",
    "tolerations": "tolerates",
    "toleration": "tolerates",
    "nodeselector": "placement",
    "node_selector": "placement",
    "affinity": "placement",
    "topology": "together",
    "constraint": "placement",
    "constraints": "placement",
    "dependency": "after_ok",
    "depends_on": "after_ok",
    "dependencies": "after_ok",
    "afterok": "after_ok",
    "afterany": "after_any",
    "after_success": "after_ok",
    "begin": "start_after",
    "start_at": "start_after",
    "job_name": "name",
    "jobname": "name",
    "artifacts": "outputs",
    "output": "outputs",
    "exclusive": "cpu_exclusive",
    "infiniband": "rdma",
    "roce": "rdma",
    "held": "hold",
    "repo": "git",
    "url": "git",
    "branch": "ref",
    "commit": "ref",
    "source": "volume",
    "target": "path",
    "readonly": "read_only",
    "max_parallel": "parallelism",
    "minfailedinstances": "min_failed",
    "minsucceededinstances": "min_succeeded",
}


def keys_at(location: Location, *, at_top: bool) -> tuple[str, ...]:
    """The keys allowed in the mapping that holds `location`; `at_top` adds those of the one-role form."""
    around = location[:-1]
    if not around:
        return (*_TOP, *_SHORT) if at_top else _TOP
    if around[0] == "roles":
        return _keys_in_role(around)
    if around[0] == "completion" and len(around) > 1:
        return keys_of(model.RoleCompletion)
    return keys_of(_MODELS[around[0]]) if around[0] in _MODELS else ()


def _keys_in_role(around: Location) -> tuple[str, ...]:
    if len(around) == 2:
        return keys_of(model.Role)
    return {"resources": keys_of(model.ResourceAsk), "replicas": ("min", "max")}.get(str(around[2]), ())


def suggest_key(location: Location, allowed: tuple[str, ...]) -> str:
    """What to write instead of an unknown key: the nearest known one, its right place, or what is allowed here."""
    word = str(location[-1])
    if len(word) <= SHOWN_LENGTH:
        plain = word.lower().replace("-", "_")
        if plain in allowed:
            return f"Did you mean {plain}?"
        meant = _SYNONYMS.get(plain, _SYNONYMS.get(plain.replace("_", ""), ""))
        if meant in allowed:
            return f"Did you mean {meant}?"
        for candidate in (plain, meant):
            if candidate in _PLACES:
                return f"{candidate} belongs {_PLACES[candidate]}."
        if close := get_close_matches(plain, allowed, n=1, cutoff=0.7):
            return f"Did you mean {close[0]}?"
        if close := get_close_matches(plain, list(_PLACES), n=1, cutoff=0.85):
            return f"Did you mean {close[0]}, {_PLACES[close[0]]}?"
    return f"Allowed here: {', '.join(allowed)}." if allowed else ""
