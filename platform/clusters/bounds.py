"""Bounds of clusters, each with its reason."""

from __future__ import annotations

from kernel.limits import KIB

LOG_CHUNK_BYTES = 256 * KIB  # One piece of an engine's answer about a log: held whole in memory by engine and pump.
