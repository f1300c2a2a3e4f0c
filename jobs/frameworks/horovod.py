"""`horovod`: a program of Horovod on as many ranks as the tasks have slots, by mpirun over the tasks of the job.

The command is the program alone, `python train.py`: mpirun and its options come before it, as `horovodrun` would write them
(Horovod's guide, "Horovod with MPI"). The rest is `mpi`: a role `launcher` or the first task of the only role runs it, its end
decides, and no ssh is needed. Horovod has to be built with MPI."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from jobs.frameworks.interface import FrameworkJob, GangPlan, RoleShape
from jobs.frameworks.mpi import LAUNCHER, Mpi, slots_of
from jobs.frameworks.roles import ring

PAGE = """## horovod

A program of Horovod that was built with MPI, on as many ranks as the tasks have slots: whole GPUs, else whole cores.

```yaml
framework: horovod
replicas: 4
resources: {cpu: 8, gpu: 2}
command: python train.py
```

runs `mpirun -np 8 -H worker-0:2,worker-1:2,worker-2:2,worker-3:2 -bind-to none -map-by slot -mca pml ob1 -mca btl ^openib python
train.py`. For other options, or fewer ranks, write mpirun yourself with `framework: mpi`. Variables are those of mpi; Horovod
sets its own for each rank.
"""


class Horovod(Mpi):
    name = "horovod"
    page = PAGE

    def placement(self, roles: Mapping[str, RoleShape]) -> Mapping[str, str]:
        return ring({name: role for name, role in roles.items() if name != LAUNCHER})

    def compile(self, job: FrameworkJob) -> GangPlan:
        hosts = sorted((role for role in job.roles if role.name != LAUNCHER), key=lambda role: role.name)
        slots = {f"{role.name}-{index}": slots_of(role) for role in hosts for index in range(role.count)}
        listed = ",".join(f"{name}:{count}" for name, count in slots.items())
        mpirun = ("mpirun", "-np", str(sum(slots.values())), "-H", listed, *_OPTIONS)
        roles = tuple(
            replace(role, argv=(*mpirun, *role.argv)) if role.name == LAUNCHER or len(job.roles) == 1 else role
            for role in job.roles
        )
        return super().compile(replace(job, roles=roles))


_OPTIONS = ("-bind-to", "none", "-map-by", "slot", "-mca", "pml", "ob1", "-mca", "btl", "^openib")
FRAMEWORK = Horovod()
