from jobs.frameworks.plain import Plain


class Jax(Plain):
    name = "jax"
