"""Bounds of tenants, each with its reason. Bounds that other apps share are in `kernel/limits.py`."""

from kernel.limits import KIB

SECRET_BYTES = 64 * KIB
TENANT_DEPTH = 8
