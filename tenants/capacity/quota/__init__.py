"""Quota arithmetic, plain Python: trees of queues, what fits, why something does not, and what was used for how long."""
