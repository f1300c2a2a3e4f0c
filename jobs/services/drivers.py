"""Whether any machine's GPU driver is new enough for the image of a job. One for which none is, is refused when it is submitted.

The container tools on a machine would refuse the image there, or the program would find a driver that is too old for it. A
machine of which the driver is not known, with simulated GPUs say, is no reason to refuse.
"""

from __future__ import annotations

from collections.abc import Sequence

from clusters.placement import GPU_CUDA, GPU_DRIVER
from clusters.selectors import PoolFacts
from images import cuda
from images.services import ResolvedImage
from jobs.scheduling.core.place.machines import Machine
from jobs.services.fitting import whole_machines
from jobs.spec.model import JobSpec
from kernel.errors import FieldError
from kernel.words import Text

SHOWN_MAX = 3


def no_driver_fits(spec: JobSpec, image: ResolvedImage, pools: Sequence[PoolFacts]) -> FieldError | None:
    """The refusal of a job with GPUs whose image needs a newer driver than any machine has that could run it; else None.

    No query where the machines that were read before have one, or the image needs none; as `starts_nowhere` else.
    """
    with_gpus = [role for role in spec.roles.values() if role.resources.amounts.gpu_millis]
    if not image.cuda or all(cuda.is_disabled({**spec.env, **role.env}) for role in with_gpus):
        return None
    found: list[cuda.Driver] = []
    for fresh in (False, True):
        found = [_driver(machine) for machine in whole_machines(spec, str(image.kind), pools, fresh=fresh)]
        if not found or any(cuda.holds(image.cuda, driver) is not False for driver in set(found)):
            return None
    return _refused(spec, image, found)


def _driver(machine: Machine) -> cuda.Driver:
    return cuda.Driver(machine.labels.get(GPU_CUDA, ""), machine.labels.get(GPU_DRIVER, ""))


def _refused(spec: JobSpec, image: ResolvedImage, found: Sequence[cuda.Driver]) -> FieldError:
    needs = cuda.least(image.cuda)
    there = sorted(set(found), key=cuda.age, reverse=True)
    shown = ", ".join(_shown(driver) for driver in there[:SHOWN_MAX])
    if needs.cuda:
        need = Text(f"a driver for CUDA {needs.cuda} or newer", f"支持 CUDA {needs.cuda} 或更新版本的驱动")
    elif needs.version:
        need = Text(f"driver {needs.version} or newer", f"驱动 {needs.version} 或更新版本")
    else:
        need = Text("another driver", "其他版本的驱动")
    count = len(found)
    message = Text(
        f"Image {spec.image} needs {need.en}; the {count} {'machine' if count == 1 else 'machines'} with GPUs that could run job "
        f"{spec.name} {'has' if count == 1 else 'have'}: {shown}.",
        f"镜像 {spec.image} 需要{need.zh}；可运行作业 {spec.name} 的 {count} 个 GPU 节点的驱动为：{shown}。",
    )
    newest = there[0].cuda
    older = (
        Text(f"made with CUDA {newest} or older", f"以 CUDA {newest} 或更早版本构建的")
        if newest
        else Text("that is older", "较旧的")
    )
    hint = Text(
        f"Use an image {older.en}, or ask an operator for a newer driver. If the image brings what an older driver lacks "
        f'(cuda-compat), set `{cuda.DISABLE}: "true"` in `env`.',
        f"请使用{older.zh}镜像，或请运维人员升级驱动。若镜像自带旧驱动所缺的库（cuda-compat），请在 `env` 中设置 "
        f'`{cuda.DISABLE}: "true"`。',
    )
    return FieldError("/image", "cuda_driver_mismatch", message, hint)


def _shown(driver: cuda.Driver) -> str:
    if driver.cuda and driver.version:
        return f"{driver.version} (CUDA {driver.cuda})"
    return driver.version or f"CUDA {driver.cuda}"
