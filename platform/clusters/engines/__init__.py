"""Adapters to the kinds of clusters. `interface` is the whole contract; every other module belongs to one engine."""
