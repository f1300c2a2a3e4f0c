"""Fit a line in steps; save every few of them and when the job is told to stop, and go on from what was saved.

A file is written under a name that ends in .tmp and renamed: a program that dies meanwhile leaves the last whole one."""

import json
import os
import signal
import sys

STEPS = int(os.environ.get("STEPS", "20000"))
SAVED_EVERY = 1000
PLACE = os.path.join(os.environ["BERTH_CHECKPOINT_DIR"], "line.json")
stopping = False


def stop(number: int, frame: object) -> None:
    global stopping
    stopping = True


def load() -> tuple[int, float, float]:
    if not os.path.exists(PLACE):
        return 0, 0.0, 0.0
    with open(PLACE) as file:
        state = json.load(file)
    return state["step"], state["slope"], state["offset"]


def save(step: int, slope: float, offset: float) -> None:
    with open(f"{PLACE}.tmp", "w") as file:
        json.dump({"step": step, "slope": slope, "offset": offset}, file)
        file.flush()
        os.fsync(file.fileno())
    os.rename(f"{PLACE}.tmp", PLACE)


def main() -> int:
    signal.signal(signal.SIGUSR1, stop)
    step, slope, offset = load()
    print(f"goes on after step {step}", flush=True)
    while step < STEPS and not stopping:
        x = step % 100 / 100
        error = slope * x + offset - (3.0 * x + 1.0)
        slope -= 0.1 * error * x
        offset -= 0.1 * error
        step += 1
        if step % SAVED_EVERY == 0:
            save(step, slope, offset)
            print(f"saved at step {step}", flush=True)
    save(step, slope, offset)
    print(f"step {step}: y = {slope:.3f} x + {offset:.3f}", flush=True)
    return 1 if step < STEPS else 0


if __name__ == "__main__":
    sys.exit(main())
