"""Add up Leibniz's series, and say each second what pi is by it."""

import os
import time

STEPS = int(os.environ.get("STEPS", "30"))
TERMS = 1000  # Of each step.
total = 0.0

for step in range(1, STEPS + 1):
    began = time.monotonic()
    total += sum((-1) ** term / (2 * term + 1) for term in range((step - 1) * TERMS, step * TERMS))
    print(f"step {step}/{STEPS}  pi is about {4 * total:.6f}", flush=True)
    time.sleep(max(0.0, began + 1 - time.monotonic()))
