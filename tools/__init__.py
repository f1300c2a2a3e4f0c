"""The commands behind the Makefile. A package of its own, so that no installed package called `tools` takes its place."""
