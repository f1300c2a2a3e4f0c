"""What is allowed in a job and yet seldom meant: told with its plan and when it is submitted, never refused."""

from __future__ import annotations

import re

from jobs.spec.checks import REFERENCE, environments
from jobs.spec.documents import pointer
from jobs.spec.model import JobSpec
from kernel.words import Text

ADVICE_MAX = 20  # More of one job would not be read.
# Words of names under which people keep what opens something. TOKEN and KEY count as whole words: TOKENIZER is none.
_SECRET_NAME = re.compile(
    r"PASSWORD|PASSWD|PASSPHRASE|SECRET|CREDENTIAL|APIKEY|ACCESSKEY"
    r"|(?:^|_)(?:TOKEN|KEY|PAT|PWD|AUTH|DSN)(?:$|_(?!FILE|PATH|DIR|COUNT|LENGTH|MAX))"
)
# How issuers begin their tokens, by their own documents: GitHub, GitLab, Hugging Face, OpenAI, Slack, AWS, Google, npm, PyPI, and
# the frame of a private key.
_SECRET_VALUE = re.compile(
    r"gh[pousr]_[A-Za-z0-9]{20}|github_pat_|glpat-|hf_[A-Za-z0-9]{20}|sk-[A-Za-z0-9_-]{20}|xox[abprs]-|A(?:KIA|SIA)[A-Z0-9]{16}"
    r"|AIza[A-Za-z0-9_-]{30}|npm_[A-Za-z0-9]{30}|pypi-[A-Za-z0-9_-]{20}|-----BEGIN [A-Z ]{0,30}PRIVATE KEY-----"
)


def is_secret_name(name: str) -> bool:
    """Whether the value of such a variable opens something, as far as names tell: `WANDB_API_KEY`, `HF_TOKEN`, `PGPASSWORD`."""
    return _SECRET_NAME.search(name.upper()) is not None


def advise(spec: JobSpec) -> list[Text[str]]:
    """Secrets that are written into the job, and variables that a shell would have to replace."""
    advice = []
    for place, variables in environments(spec):
        for name, value in variables.items():
            found = REFERENCE.search(value)
            if value and (is_secret_name(name) or _SECRET_VALUE.search(value)):
                advice.append(_secret(pointer((*place, name)), name))
            elif found is not None:
                advice.append(_reference(name, found[0]))
    return advice[:ADVICE_MAX]


def _secret(path: str, name: str) -> Text[str]:
    return Text(
        f"{path} looks like a secret; all who may see the job can read it. Keep it as one: `berth secrets set {name}`, and "
        f"`secrets: {{{name}: null}}` in its place.",
        f"{path} 看起来是密钥；所有能查看作业的人都能读取。请存为密钥：`berth secrets set {name}`，"
        f"并改写为 `secrets: {{{name}: null}}`。",
    )


def _reference(name: str, found: str) -> Text[str]:
    return Text(
        f"{name} holds {found}, which reaches the program as it is written: variables are not replaced in each other. Set it in "
        "the command if the value is meant.",
        f"{name} 含有 {found}，将按原样传给程序：变量之间不会相互替换。若需要其值，请在命令中设置。",
    )
