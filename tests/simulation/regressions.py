"""Seeds that once found something: (seed, steps, favourite crash point). A program that draws otherwise draws them otherwise, so
what each found is also tested where it was mended."""

SEEDS: list[tuple[int, int, str]] = [(1, 8, "")]
