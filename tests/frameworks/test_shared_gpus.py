"""Several processes on each card: real ranks over gloo, on simulated cards."""

from __future__ import annotations

import pytest

from tests.builders.live import LivePlatform

pytestmark = pytest.mark.frameworks

SUM = """
import os
import torch, torch.distributed as dist
dist.init_process_group("gloo")
total = torch.ones(1)
dist.all_reduce(total)
rank, count, card = dist.get_rank(), dist.get_world_size(), os.environ["CUDA_VISIBLE_DEVICES"]
print("rank", rank, "of", count, "on", card, "sum", int(total), flush=True)
"""


@pytest.mark.capability("96", "Twelve real ranks meet over gloo, three on each of four cards")
@pytest.mark.simulated_gpus
def test_three_processes_on_each_of_four_cards_are_twelve_ranks(live_platform: LivePlatform) -> None:
    resources = {"cpu": 2, "memory": "8Gi", "gpu": 4, "processes_per_gpu": 3}
    spec = {"name": "shared-cards", "framework": "pytorch", "command": ["python3", "-c", SUM], "resources": resources}
    job = live_platform.submit(spec, wait=True)
    text = live_platform.logs(job)
    assert job["state"] == "succeeded", text
    lines = sorted(line.split() for line in text.splitlines() if line.startswith("rank "))
    assert sorted(int(words[1]) for words in lines) == list(range(12))
    assert {(words[3], words[7]) for words in lines} == {("12", "12")}
    cards = [words[5] for words in lines]
    assert sorted(cards.count(card) for card in set(cards)) == [3, 3, 3, 3]
