"""Throw points at a square, and say each second what pi is by those that fell into the circle."""

import os
import random
import time

STEPS = int(os.environ.get("STEPS", "30"))
POINTS = 20_000  # Of each step.
inside = 0

for step in range(1, STEPS + 1):
    began = time.monotonic()
    inside += sum(random.random() ** 2 + random.random() ** 2 < 1 for _ in range(POINTS))
    print(f"step {step}/{STEPS}  pi is about {4 * inside / (step * POINTS):.4f}", flush=True)
    time.sleep(max(0.0, began + 1 - time.monotonic()))
