"""Data-parallel training on the handwritten digits that ship with scikit-learn, with JAX on the CPU.

Every process holds its own share of the training set. Each step, all processes compute the gradient on a slice of their share
and average it over the network (gloo), so that they keep the same parameters without ever sending an image.
"""

import argparse
import os
import pathlib
import time

# One process, one device; the collectives between processes run over gloo.
os.environ.setdefault("JAX_PLATFORMS", "cpu")

import jax
import jax.flatten_util
import jax.numpy as jnp
import numpy as np
from jax.experimental.multihost_utils import process_allgather
from sklearn.datasets import load_digits

HIDDEN = 64
CLASSES = 10


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--steps", type=int, default=300)
    arguments.add_argument("--batch", type=int, default=128, help="images per process and step")
    arguments.add_argument("--rate", type=float, default=0.2, help="learning rate")
    options = arguments.parse_args()

    jax.config.update("jax_cpu_collectives_implementation", "gloo")
    jax.distributed.initialize(
        coordinator_address=os.environ["JAX_COORDINATOR_ADDRESS"],
        num_processes=int(os.environ["JAX_NUM_PROCESSES"]),
        process_id=int(os.environ["JAX_PROCESS_ID"]),
    )
    rank, world = jax.process_index(), jax.process_count()
    print(f"worker {rank} of {world} on {jax.devices()[0].platform}, {jax.device_count()} devices in all", flush=True)

    seed = int(os.environ.get("SEED", "0"))
    (train_x, train_y), (test_x, test_y) = load_data(seed)
    mine_x, mine_y = train_x[rank::world], train_y[rank::world]
    parameters = new_parameters(seed)
    chooser = np.random.default_rng(seed + rank)

    began = time.perf_counter()
    for step in range(1, options.steps + 1):
        chosen = chooser.integers(0, len(mine_x), options.batch)
        loss, gradients = loss_and_gradients(parameters, mine_x[chosen], mine_y[chosen])
        gradients = average_over_processes(gradients)
        parameters = jax.tree.map(lambda old, change: old - options.rate * change, parameters, gradients)
        if rank == 0 and (step % 50 == 0 or step == 1):
            print(f"step {step:4d}/{options.steps}  loss {float(loss):.4f}  {time.perf_counter() - began:5.1f} s", flush=True)

    accuracy = float(jnp.mean(jnp.argmax(forward(parameters, test_x), axis=1) == test_y))
    if rank == 0:
        folder = pathlib.Path("model")
        folder.mkdir(exist_ok=True)
        np.savez(folder / "digits.npz", **{name: np.asarray(value) for name, value in parameters.items()})
        print(f"accuracy {accuracy:.4f} on {len(test_y)} digits never trained on", flush=True)
    jax.distributed.shutdown()


def load_data(seed: int) -> tuple[tuple[np.ndarray, np.ndarray], tuple[np.ndarray, np.ndarray]]:
    """All 1,797 digits, 8 x 8 pixels scaled to 0..1; one fifth is kept for the test."""
    digits = load_digits()
    order = np.random.default_rng(seed).permutation(len(digits.target))
    images = (digits.data[order] / 16.0).astype(np.float32)
    labels = digits.target[order].astype(np.int32)
    split = len(labels) * 4 // 5
    return (images[:split], labels[:split]), (images[split:], labels[split:])


def new_parameters(seed: int) -> dict[str, jax.Array]:
    first, second = jax.random.split(jax.random.key(seed))
    return {
        "w1": jax.random.normal(first, (64, HIDDEN)) * 0.1,
        "b1": jnp.zeros(HIDDEN),
        "w2": jax.random.normal(second, (HIDDEN, CLASSES)) * 0.1,
        "b2": jnp.zeros(CLASSES),
    }


def forward(parameters: dict[str, jax.Array], images: np.ndarray) -> jax.Array:
    hidden = jax.nn.relu(images @ parameters["w1"] + parameters["b1"])
    return hidden @ parameters["w2"] + parameters["b2"]


@jax.jit
@jax.value_and_grad
def loss_and_gradients(parameters: dict[str, jax.Array], images: np.ndarray, labels: np.ndarray) -> jax.Array:
    scores = jax.nn.log_softmax(forward(parameters, images))
    return -jnp.mean(jnp.take_along_axis(scores, labels[:, None], axis=1))


def average_over_processes(gradients: dict[str, jax.Array]) -> dict[str, jax.Array]:
    """One collective a step: the gradients travel as one vector."""
    flat, restore = jax.flatten_util.ravel_pytree(gradients)
    return restore(jnp.mean(process_allgather(flat), axis=0))


if __name__ == "__main__":
    main()
