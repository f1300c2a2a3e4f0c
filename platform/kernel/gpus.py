"""GPU models as people and drivers write them: one model, several spellings, and names that leave out what follows."""

from __future__ import annotations

import re
from functools import lru_cache
from itertools import accumulate

_BRANDS = frozenset({"amd", "geforce", "instinct", "nvidia", "quadro", "radeon", "tesla"})  # NVML writes `NVIDIA H200`.


@lru_cache(maxsize=10_000)
def is_model(asked: str, model: str) -> bool:
    """Whether GPUs of this model are what was asked for, however either is spelled: `h200` and `nvidia-h200` mean `NVIDIA H200`.

    A name may leave out what follows it, by whole words: `a100` means `NVIDIA A100-SXM4-80GB` too, `a100-80gb` does not, as it
    leaves out a word between, and `a10` does not. Example: ``is_model("rtx6000", "NVIDIA RTX 6000 Ada Generation")``.
    """
    wanted = "".join(_words(asked))
    return bool(wanted) and wanted in accumulate(_words(model))


def _words(model: str) -> list[str]:
    """The words of a name without brands, unless it is nothing else."""
    words = re.findall(r"[^\W_]+", model.casefold())
    return [word for word in words if word not in _BRANDS] or words
