"""Container registries: references, and a client of the distribution API. For the catalogue above and the engines beside it.

No account is kept here and no setting read: callers bring both. Nothing but this package speaks to a registry.
"""
