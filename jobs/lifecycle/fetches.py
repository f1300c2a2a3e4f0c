"""Why a fetch of code from Git failed, by the code with which `jobs/services/fetch_git.sh` ended, in words. It ends with 1 where
none of this is the cause. The codes have no meaning of their own in the exit classification."""

from __future__ import annotations

from collections.abc import Mapping

from kernel.words import Text

FETCH_ENDS: Mapping[str, Text[str]] = {
    "21": Text(
        "the address leads to another host, for which code.secret is not meant", "该地址重定向到另一主机，而 code.secret 不用于它"
    ),
    "22": Text("the host key of the server is not the one expected", "服务器的主机密钥与预期不符"),
    "23": Text("the server refused: code.secret is missing or not let in", "服务器拒绝访问：缺少 code.secret 或其无权限"),
    "24": Text("code.secret holds no private key that ssh can read", "code.secret 中没有 ssh 可读的私钥"),
    "25": Text("ssh found no user with the number of the job where it ran", "ssh 在运行处找不到该作业编号对应的用户"),
    "69": Text("Git or ssh is not installed where it ran", "运行处未安装 Git 或 ssh"),
    "75": Text("the server could not be reached three times", "三次均无法连接服务器"),
}
