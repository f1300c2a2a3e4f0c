"""Benchmarks against other systems: `make bench ONLY=P2 ARGS="--jobs 2000"`, or `python -m bench P2 --jobs 2000`."""
