"""Two or more processes fit one line together: gradients are averaged over all of them with torch.distributed.

Runs under `python3 allreduce.py` (one process a task) and under `torchrun allreduce.py` (one a GPU) alike: both set the same
variables."""

import os

import torch
import torch.distributed as dist


def main() -> None:
    on_gpu = torch.cuda.is_available()
    dist.init_process_group("nccl" if on_gpu else "gloo")
    rank, count = dist.get_rank(), dist.get_world_size()
    device = torch.device("cuda", int(os.environ["LOCAL_RANK"])) if on_gpu else torch.device("cpu")
    generator = torch.Generator().manual_seed(rank)  # Every process has data of its own.
    inputs = torch.rand(1000, generator=generator).to(device)
    targets = 3.0 * inputs + 1.0
    slope = torch.zeros(1, device=device, requires_grad=True)
    offset = torch.zeros(1, device=device, requires_grad=True)
    for step in range(1, 301):
        loss = ((slope * inputs + offset - targets) ** 2).mean()
        loss.backward()
        with torch.no_grad():
            for parameter in (slope, offset):
                dist.all_reduce(parameter.grad)
                parameter -= 0.5 * parameter.grad / count
                parameter.grad.zero_()
        if rank == 0 and step % 100 == 0:
            print(f"step {step}: loss {loss.item():.6f}", flush=True)
    print(f"process {rank} of {count}: y = {slope.item():.3f} x + {offset.item():.3f}", flush=True)
    assert abs(slope.item() - 3.0) < 0.05
    assert abs(offset.item() - 1.0) < 0.05
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
