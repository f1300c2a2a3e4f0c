"""What the error reference says beside each code: the Chinese title and the next step.

`docs/errors.md` is made from this table and the error classes of all apps; a test refuses a code without an entry here.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Entry:
    """One error code, as a person meets it."""

    title_zh: str
    next_step: str


REFERENCE: dict[str, Entry] = {
    "error": Entry("请求无法完成", "Read `detail` and `hint`."),
    "invalid_input": Entry("输入无效", "Correct every place that `fields` lists, and send the request again."),
    "not_authenticated": Entry(
        "请先登录", "Run `berth login`, or send `Authorization: Bearer <token>`. Tokens expire and can be revoked."
    ),
    "bad_credentials": Entry("用户名或密码错误", "Check both, or ask an operator to let you in again."),
    "locked": Entry("尝试次数过多", "Wait as long as `Retry-After` says; nothing has to be unlocked."),
    "directory_unavailable": Entry("目录服务没有响应", "Try again in a minute; accounts with a password here come in by it."),
    "directory_refused": Entry("目录中的用户不能登录", "Connect the account once, signed in to it, or ask an operator."),
    "password_elsewhere": Entry("密码不在此处保存", "Change it where your organisation keeps it."),
    "second_factor_required": Entry("需要验证器的验证码", "Send the same request again with `code`, from your authenticator."),
    "bad_code": Entry("验证码错误", "Type the digits that are shown now, or a recovery code; no code works twice."),
    "authorization_pending": Entry("尚未有人批准", "Wait `interval` seconds and ask again, until the code is over."),
    "slow_down": Entry("请求过于频繁", "Wait as long as `Retry-After` says before you ask again."),
    "expired_code": Entry("代码已失效", "Run `berth login` again; a code lasts ten minutes and works once."),
    "access_denied": Entry("登录请求被拒绝", "Run `berth login` again if you wanted it, and approve it in the browser."),
    "csrf_failed": Entry(
        "请求并非来自本门户",
        "Send the `csrf` of GET /api/v1/session as `X-Berth-CSRF`, from a page under the portal's own address.",
    ),
    "forbidden": Entry(
        "您的角色无权执行此操作", "Ask a manager of the tenant for the role, or use a token with the needed scope."
    ),
    "not_found": Entry(
        "没有这个对象", "List what you can see. Objects of tenants that you do not belong to do not exist for you."
    ),
    "conflict": Entry("对象处于另一状态", "Read the object again; it may have ended, or somebody else changed it."),
    "precondition_failed": Entry(
        "对象已被他人修改", "Read the object again, apply your change to it, and send the new `If-Match`."
    ),
    "plan_changed": Entry(
        "计划已过期", "Look at `plan` in the answer, which is what would be done now; send its `plan`, or none, to have it done."
    ),
    "too_large": Entry("请求过大", "Send less at once; files go through uploads, many jobs through several batches."),
    "quota_exceeded": Entry("超出限额", "Lower the request, or ask a manager to raise the limit that `detail` names."),
    "too_many_requests": Entry(
        "请求过于频繁", "Wait as long as `Retry-After` says. Lists and batches need fewer requests than single objects."
    ),
    "unavailable": Entry(
        "暂时不可用", "Send the same request again after `Retry-After`; with an `Idempotency-Key` nothing happens twice."
    ),
    "storage_full": Entry("存储空间不足", "Delete what is no longer needed, or ask an operator for more room."),
    "target_refused": Entry(
        "不允许使用该地址", "Give the address of a web server on the internet; an operator may allow private ones."
    ),
    "malformed_body": Entry(
        "请求体无法读取", "Check the syntax at the line and column that `detail` names, and the `Content-Type`."
    ),
    "bad_request": Entry("无法理解该请求", "Check headers, host name and encoding of the request."),
    "invalid_cursor": Entry("游标无效", "Start again without `cursor`, and pass on `next` unchanged."),
    "feature_off": Entry("此功能已关闭", "Ask an operator whether it can be switched on; GET `/api/v1/features` lists what is."),
    "route_not_found": Entry("没有这个路径", "Compare the path with the API description at `/api/v1/docs`."),
    "method_not_allowed": Entry("该路径不支持此方法", "Use a method that the `Allow` header lists."),
    "not_acceptable": Entry("没有所需的表示形式", "Ask for `application/json`."),
    "request_timeout": Entry("请求传输超时", "Send the request again over a faster connection, or in smaller parts."),
    "unsupported_media_type": Entry("不支持该内容类型", "Use a content type that the API description lists for the operation."),
    "shown_once": Entry(
        "该答复只显示一次",
        "The first request has had its effect. Where its answer was lost, delete what it made, and make it again with a new key.",
    ),
    "idempotency_key_reused": Entry(
        "幂等键已用于另一请求", "Make a new key for a new request; reuse one only to repeat the same request."
    ),
    "bad_archive": Entry(
        "归档文件无法使用", "Let `berth submit` pack the files, or send a plain tar without links and absolute paths."
    ),
    "digest_mismatch": Entry("内容校验不一致", "Send the file again from the start; what arrived is not what was announced."),
    "offset_mismatch": Entry("上传偏移不一致", "Ask for the upload's offset with HEAD or GET, and go on from there."),
    "upload_busy": Entry("上传正忙", "Ask for the upload's offset, and go on from there after a moment."),
    "no_checkpoint": Entry(
        "作业没有检查点", "Write `checkpoint: {path: ckpt}` in the job file; the directory is there from the first attempt on."
    ),
    "volume_exists": Entry("同名存储卷已存在", "Choose another name, or use the volume that exists."),
    "volume_read_only": Entry("存储卷为只读", "Ask the volume's owner for a grant that may write."),
    "not_adoptable": Entry(
        "该尝试无法归还其作业", "Read `detail`. Let the attempt end, or stop it; its job is then free to start again."
    ),
    "image_exists": Entry("同名镜像已存在", "Choose another name, or delete the image that has it."),
    "code_absent": Entry("代码快照不存在", "Upload the code again, then rerun the job."),
    "not_built": Entry("此镜像无需构建", "Only Python environments are built; a container image is pulled as it is."),
    "tenant_disabled": Entry("租户已停用", "Ask an operator to enable the tenant; its waiting jobs start by themselves then."),
    "exec_disabled": Entry("终端功能已关闭", "Ask an operator to set `BERTH_EXEC_ENABLED`; logs and metrics work without it."),
    "exec_unsupported": Entry(
        "该集群不支持终端", "Read the log with `berth logs`, or run the job in a pool of a local cluster to get a terminal."
    ),
    "exec_not_running": Entry("任务未在运行", "Wait until the task runs; a terminal ends with its task."),
    "exec_refused": Entry("暂时无法打开终端", "Read `detail`. Close a terminal that is open, or try again in a moment."),
    "range_not_satisfiable": Entry("请求范围超出文件", "Read the length from `Content-Range`, and ask again from there."),
    "internal_error": Entry("Berth 内部错误", "Give the `request_id` to an operator: the log holds the details under it."),
}
