"""What the catalogue says of registries: each kind of failure as an error of the API, with words for people."""

from __future__ import annotations

from clusters.registries.errors import RegistryError
from kernel.errors import BerthError, Conflict
from kernel.words import Text


class BuilderMissing(Conflict):
    """The machine lacks a program that builds container images."""

    code = "builder_missing"
    title = Text("Container images cannot be built here", "此处无法构建容器镜像")


class RegistryFailure(BerthError):
    """A registry did not give what was asked for."""

    code = "registry_failure"
    status = 422
    title = Text("The registry did not give the image", "镜像仓库未提供该镜像")
    next_step = Text(
        "Look at the reference and the tenant's account for this registry.", "请检查引用，以及该租户在此镜像仓库的账户。"
    )
    exit_code = ""  # Of an attempt that needs the image (`jobs/lifecycle/exit_table.py`): that of the cause.


class ImageAbsent(RegistryFailure):
    """The registry has no such image, as far as the tenant's account may know."""

    code = "image_absent"
    title = Text("The registry has no such image", "镜像仓库中没有该镜像")
    next_step = Text("Check the spelling of repository and tag.", "请检查仓库名与标签的拼写。")


class ImageDenied(RegistryFailure):
    """The registry wants an account, or does not let this one have the image."""

    code = "image_denied"
    title = Text("The registry refuses the image", "镜像仓库拒绝提供该镜像")
    next_step = Text(
        "Ask a manager of the tenant for an account that may pull it: `berth registries add HOST -u NAME`.",
        "请租户管理员添加可拉取该镜像的账户：`berth registries add HOST -u NAME`。",
    )


class ImageUnusable(RegistryFailure):
    """What the registry gives is damaged, too large, or made for other machines than linux/amd64."""

    code = "image_unusable"
    title = Text("The image cannot be used", "该镜像无法使用")
    next_step = Text(
        "Build it for linux/amd64 with a current tool, and push it again.", "请用当前的工具为 linux/amd64 构建，再重新推送。"
    )


class RateLimited(RegistryFailure):
    """The registry limits the rate of requests."""

    code = "registry_rate_limited"
    status = 503
    title = Text("The registry limits the rate of requests", "镜像仓库限制了请求频率")
    retryable = True
    next_step = Text(
        "Wait, or add an account for this registry: `berth registries add HOST -u NAME`.",
        "请等待，或为此镜像仓库添加账户：`berth registries add HOST -u NAME`。",
    )


class RegistryTimeout(RegistryFailure):
    """The registry gave no complete answer within `BERTH_REGISTRY_SECONDS`."""

    code = "registry_timeout"
    status = 503
    title = Text("The registry did not answer in time", "镜像仓库响应超时")
    retryable = True
    next_step = Text(
        "Try again later. A job is accepted meanwhile, and waits for its image.", "请稍后重试。其间作业可以提交，并等待其镜像。"
    )


class RegistryTls(RegistryFailure):
    """The registry's certificate is not valid for its name, or it speaks no TLS."""

    code = "registry_tls"
    title = Text("The registry's certificate is not trusted", "镜像仓库的证书不受信任")
    next_step = Text(
        "Ask an operator to set `BERTH_REGISTRY_CA_FILE`, or to renew the registry's certificate.",
        "请运维人员设置 `BERTH_REGISTRY_CA_FILE`，或更新镜像仓库的证书。",
    )


class RegistryUnreachable(RegistryFailure):
    """The registry's name does not resolve, nothing listens there, or it answers with an error of its own."""

    code = "registry_unreachable"
    status = 503
    title = Text("The registry cannot be reached", "无法连接镜像仓库")
    retryable = True
    next_step = Text(
        "Check the host's name. A job is accepted meanwhile, and waits for its image.",
        "请检查主机名。其间作业可以提交，并等待其镜像。",
    )


class RegistryRefused(RegistryFailure):
    """The operators do not allow this registry, or its name leads into the platform's own network."""

    code = "registry_refused"
    title = Text("This registry is not allowed", "不允许使用该镜像仓库")
    next_step = Text(
        "Use another registry, or ask an operator to name it in `BERTH_REGISTRY_HOSTS` or `BERTH_REGISTRY_PRIVATE_HOSTS`.",
        "请使用其他镜像仓库，或请运维人员将其加入 `BERTH_REGISTRY_HOSTS` 或 `BERTH_REGISTRY_PRIVATE_HOSTS`。",
    )


FAILURES: tuple[type[RegistryFailure], ...] = (
    RegistryFailure,
    ImageAbsent,
    ImageDenied,
    ImageUnusable,
    RateLimited,
    RegistryTimeout,
    RegistryTls,
    RegistryUnreachable,
    RegistryRefused,
)
_KINDS = {kind.code: kind for kind in FAILURES}


def failure_of(error: RegistryError) -> RegistryFailure:
    """The same failure as an error of the API."""
    kind = _KINDS[error.code]
    seconds = None if error.after_seconds is None else int(error.after_seconds)
    failure = kind(error.detail_text, hint=kind.next_step, retry_after_seconds=seconds)
    failure.exit_code = error.exit_code
    return failure
