"""Plain Python that every layer shares: ids, time, quantities, errors, limits, actors, lifecycle tables."""
