"""What the shipped templates are made of: their parameters, and what all of them have."""

from __future__ import annotations

from typing import Any

from jobs.spec.documents import parse_text


def number(name: str, title: str, title_zh: str, default: float, low: float, high: float, **more: Any) -> dict[str, Any]:
    kind = "integer" if isinstance(default, int) else "number"
    return {"name": name, "title": title, "title_zh": title_zh, "type": kind, "default": default, "minimum": low,
            "maximum": high, "required": True, **more}  # fmt: skip


def text(name: str, title: str, title_zh: str, default: str, **more: Any) -> dict[str, Any]:
    return {"name": name, "title": title, "title_zh": title_zh, "type": "string", "default": default, **more}


_MEMORY = text("memory", "Memory of a task", "每个任务的内存", "2Gi", description="Such as 512Mi or 16Gi.", required=True,
               description_zh="例如 512Mi 或 16Gi。", minimum=1, maximum=20)  # fmt: skip
_CPU = {**number("cpu", "Cores of a task", "每个任务的 CPU 核数", 1, 0.1, 512), "type": "number"}
_IMAGE = {"name": "image", "title": "Image", "title_zh": "镜像", "type": "string",
          "description": "Empty: the cluster's own programs.", "description_zh": "留空则使用集群自带程序。"}  # fmt: skip


def _runtime(default: str) -> dict[str, Any]:
    return text("max_runtime", "Longest run", "最长运行时间", default, description="Such as 30m or 2d.",
                description_zh="例如 30m 或 2d。", required=True)  # fmt: skip


_RESOURCES = 'cpu: "${{ parameters.cpu }}", memory: "${{ parameters.memory }}"'
_WITH_GPU = f'{_RESOURCES}, gpu: "${{{{ parameters.gpus }}}}"'


def template(name: str, title: str, title_zh: str, icon: str, tags: list[str], about: str, about_zh: str,
             parameters: list[dict[str, Any]], spec: str, *, runtime: str = "1h") -> dict[str, Any]:  # fmt: skip
    """A template by what is its own: each has its name, resources, an image and a longest run beside that. In `spec`, {resources}
    and {with_gpu} are what the parameters say of a task."""
    own = parse_text(spec.replace("{resources}", f"{{{_RESOURCES}}}").replace("{with_gpu}", f"{{{_WITH_GPU}}}"))
    run = {
        "image": "${{ parameters.image }}",
        "max_runtime": "${{ parameters.max_runtime }}",
        "tags": [f"template-{name.partition('-')[0]}"],
    }
    whole = [*parameters, _CPU, _MEMORY, _IMAGE, _runtime(runtime)]
    return {"name": name, "title": title, "title_zh": title_zh, "icon": icon, "tags": tags, "description": about,
            "description_zh": about_zh, "parameters": whole, "spec": {"name": name, **own, **run}}  # fmt: skip
