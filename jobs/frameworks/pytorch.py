from jobs.frameworks.plain import Plain


class PyTorch(Plain):
    name = "pytorch"
