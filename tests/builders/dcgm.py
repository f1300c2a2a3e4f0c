"""Pages in the format of NVIDIA's dcgm-exporter (release 4.2, its default counters), as a node with these GPUs serves them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

_HELP = {
    "DCGM_FI_DEV_SM_CLOCK": "SM clock frequency (in MHz).",
    "DCGM_FI_DEV_GPU_TEMP": "GPU temperature (in C).",
    "DCGM_FI_DEV_POWER_USAGE": "Power draw (in W).",
    "DCGM_FI_DEV_GPU_UTIL": "GPU utilization (in %).",
    "DCGM_FI_DEV_MEM_COPY_UTIL": "Memory utilization (in %).",
    "DCGM_FI_DEV_XID_ERRORS": "Value of the last XID error encountered.",
    "DCGM_FI_DEV_FB_FREE": "Framebuffer memory free (in MiB).",
    "DCGM_FI_DEV_FB_USED": "Framebuffer memory used (in MiB).",
    "DCGM_FI_DEV_ECC_DBE_VOL_TOTAL": "Total number of double-bit volatile ECC errors.",
    "DCGM_FI_DEV_ROW_REMAP_FAILURE": "Whether remapping of rows has failed",
    "DCGM_FI_PROF_GR_ENGINE_ACTIVE": "Ratio of time the graphics engine is active.",
}


@dataclass(frozen=True)
class ExportedCard:
    """A GPU, or with `instance` an instance of MIG on it; `pods` have it, as NAMESPACE/NAME."""

    number: int
    values: Mapping[str, float]  # By the field's name without DCGM_FI_DEV_.
    pods: Sequence[str] = ()
    instance: str = ""


def page(*cards: ExportedCard, node: str = "node-1") -> bytes:
    lines = []
    for name, text in _HELP.items():
        told = [line for card in cards for line in _lines(name, card, node)]
        if told:
            lines += [f"# HELP {name} {text}", f"# TYPE {name} gauge", *told]
    return "\n".join([*lines, ""]).encode()


def _lines(name: str, card: ExportedCard, node: str) -> Sequence[str]:
    value = card.values.get(name.removeprefix("DCGM_FI_DEV_"), card.values.get(name.removeprefix("DCGM_FI_")))
    if value is None:
        return ()
    labels = {
        "gpu": str(card.number),
        "UUID": f"GPU-9ffc3b4e-0000-0000-0000-{card.number:012d}",
        "pci_bus_id": f"00000000:{card.number:02X}:00.0",
        "device": f"nvidia{card.number}",
        "modelName": "NVIDIA A100-SXM4-40GB",
        **({"GPU_I_PROFILE": "1g.5gb", "GPU_I_ID": card.instance} if card.instance else {}),
        "Hostname": node,
        "DCGM_FI_DRIVER_VERSION": "550.54.15",
    }
    held = [{"container": "task", **dict(zip(("namespace", "pod"), pod.split("/"), strict=True))} for pod in card.pods]
    return [f"{name}{{{_text({**labels, **pod})}}} {value}" for pod in held or [{}]]


def _text(labels: Mapping[str, str]) -> str:
    return ",".join(f'{name}="{value}"' for name, value in labels.items())
