"""Points thrown at a square on the workers of a cluster; how many of them fall into the circle says what pi is."""

import random

from dask.distributed import Client

BATCHES, POINTS = 16, 50_000


def hits(seed):
    throws = random.Random(seed)  # noqa: S311 - no secret.
    return sum(throws.random() ** 2 + throws.random() ** 2 < 1 for _ in range(POINTS))


client = Client()
inside = sum(client.gather(client.map(hits, range(BATCHES))))
print("pi is about %.2f" % (4 * inside / BATCHES / POINTS))
