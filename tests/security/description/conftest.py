"""The world of the matrix is what these requests meet."""

from tests.security.matrix.conftest import quick, world

__all__ = ["quick", "world"]
