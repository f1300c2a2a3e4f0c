"""Ray Tune looks for the lowest point of a parabola; each trial runs on a worker of the cluster."""

import os

from ray import tune


def distance(config):
    print("trial of x", config["x"], "on role", os.environ["BERTH_ROLE"])
    return {"distance": (config["x"] - 3) ** 2}


results = tune.Tuner(distance, param_space={"x": tune.grid_search([1, 2, 3, 4])}).fit()
best = results.get_best_result(metric="distance", mode="min")
print("best x", best.config["x"], "of", len(results), "trials")
