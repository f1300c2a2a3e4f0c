from jobs.frameworks.plain import Plain


class Mpi(Plain):
    name = "mpi"
