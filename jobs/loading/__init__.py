"""The state of the scheduler as rows have it: what is loaded, what is remembered from one leader to the next, specs, and how long
jobs are predicted to run. Below both the services and the reconcilers, which read it alike."""
