"""Which keys exist where, and which key a writer meant who came from another system or misspelt one."""

from __future__ import annotations

from difflib import get_close_matches
from typing import Any

from pydantic import BaseModel

from jobs.spec import model
from jobs.spec.values import SHOWN_LENGTH
from kernel.words import Saying, Text

Location = tuple[Any, ...]


def keys_of(kind: type[BaseModel]) -> tuple[str, ...]:
    """The keys of a model as users write them."""
    return tuple(str(info.validation_alias or name) for name, info in kind.model_fields.items())


_TOP = keys_of(model.JobSpec)
_SHORT = ("command", "shell", "replicas", "resources", "ports")
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
    **dict.fromkeys(_TOP, Text("at the top of the job", "作业的最外层")),
    **{key: Text("inside a role", "角色内") for key in keys_of(model.Role) if key != "env"},
    **dict.fromkeys(keys_of(model.ResourceAsk), Text("under resources", " resources 下")),
    "signal": Text("under checkpoint", " checkpoint 下"),
    "grace": Text("under checkpoint", " checkpoint 下"),
    "before_deadline": Text("under checkpoint", " checkpoint 下"),
    "interval": Text("under checkpoint", " checkpoint 下"),
    "per": Text("under checkpoint", " checkpoint 下"),
    "from": Text("under checkpoint", " checkpoint 下"),
    "chief": Text("under completion", " completion 下"),
    "together": Text("under placement", " placement 下"),
    "tolerates": Text("under placement", " placement 下"),
    "parallelism": Text("under array", " array 下"),
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


def suggest_key(location: Location, allowed: tuple[str, ...]) -> Saying:
    """What to write instead of an unknown key: the nearest known one, its right place, or what is allowed here."""
    word = str(location[-1])
    if len(word) <= SHOWN_LENGTH:
        plain = word.lower().replace("-", "_")
        if plain in allowed:
            return _meant(plain)
        meant = _SYNONYMS.get(plain, _SYNONYMS.get(plain.replace("_", ""), ""))
        if meant in allowed:
            return _meant(meant)
        for candidate in (plain, meant):
            if candidate in _PLACES:
                place = _PLACES[candidate]
                return Text(f"{candidate} belongs {place.en}.", f"{candidate} 应写在{place.zh}。")
        if close := get_close_matches(plain, allowed, n=1, cutoff=0.7):
            return _meant(close[0])
        if close := get_close_matches(plain, list(_PLACES), n=1, cutoff=0.85):
            place = _PLACES[close[0]]
            return Text(f"Did you mean {close[0]}, {place.en}?", f"是否想写{place.zh}的 {close[0]}？")
    known = ", ".join(allowed)
    return Text(f"Allowed here: {known}.", f"此处可用：{known}。") if allowed else ""


def _meant(key: str) -> Text[str]:
    return Text(f"Did you mean {key}?", f"是否想写 {key}？")
