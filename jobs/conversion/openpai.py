"""OpenPAI's protocol v2 (github.com/microsoft/openpai-protocol, schemas/v2) as a job of Berth.

Expressions such as `<% $parameters.rate %>` are replaced as OpenPAI does it, once and without looking into what was put in.
Secrets are the exception, and so are parameters that are called like secrets: their values go nowhere, and the command reads a
variable instead."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from jobs import bounds
from jobs.conversion.names import env_name, job_name, port_name, role_name, unique
from jobs.conversion.notes import Findings
from jobs.conversion.openpai_commands import judge_commands
from jobs.conversion.openpai_fields import FieldReader
from jobs.frameworks.openpai import PORT_NAMES, ROLE_NAME
from jobs.spec.advice import is_secret_name
from jobs.spec.documents import Format, read_text
from jobs.spec.values import GIT_REF, GIT_URL
from kernel import limits
from kernel.words import NO_HINT, Text

EXPRESSION = re.compile(r"<%([^%<>]{0,200})%>")
GIT_HOST = re.compile(r"(?:https://|ssh://|git@)?[\w.-]*(?:github|gitlab|gitee|bitbucket)[\w.-]*[:/]")
URI_LENGTH = 1_024
KNOWN = (
    *("protocolVersion", "name", "type", "version", "contributor", "description", "prerequisites", "parameters", "secrets"),
    *("jobRetryCount", "taskRoles", "deployments", "defaults", "extras", "tags"),
)
ROLE_KEYS = (
    *("instances", "completion", "taskRetryCount", "dockerImage", "data", "output", "script", "extraContainerOptions"),
    *("resourcePerInstance", "commands", "prerequisites"),
)
PRIORITY_CLASSES = {"prod": "high", "test": "normal", "oppo": "low"}
V1_MESSAGE = Text(
    "This is a job of OpenPAI's protocol v1; only protocol v2 is converted.",
    "这是 OpenPAI 协议 v1 的作业；只转换协议 v2。",
)
V1_HINT = Text(
    "Write it as v2: protocolVersion: 2; name for jobName; image as a prerequisite of type dockerimage; taskRoles as a "
    "mapping of names to instances, dockerImage, resourcePerInstance and commands. Or write a job of Berth (docs/user-guide.md).",
    "请改写为 v2：protocolVersion: 2；jobName 改为 name；镜像写成 dockerimage 类型的前置项；taskRoles 写成从名称到 instances、"
    "dockerImage、resourcePerInstance 与 commands 的映射。或直接写 Berth 的作业（docs/user-guide.md）。",
)
TYPES = ("dockerimage", "script", "output", "data")


def convert_openpai(text: str, findings: Findings) -> dict[str, Any]:
    """The document that a file becomes. Raises InvalidInput where it is no YAML; other mistakes are among the findings."""
    document = read_text(text, Format.YAML)
    reader = FieldReader(document, findings)
    if not isinstance(document.value, dict):
        findings.wrong("", "mapping", Text("A job is a mapping of keys to values.", "作业是从键到值的映射。"), line=1)
        return {}
    if _is_v1(document.value):
        key = next(key for key in ("protocolVersion", "jobName", "taskRoles") if key in document.value)
        findings.wrong(f"/{key}", "protocol_v1", V1_MESSAGE, V1_HINT, line=reader.line(key))
        return {}
    return _Conversion(document.value, reader, findings).made()


def _is_v1(job: Mapping[str, Any]) -> bool:
    """Whether a file has the shape of protocol v1 (OpenPAI's manual before 1.0): a list of roles, or a `jobName`."""
    return str(job.get("protocolVersion", "1")) in {"1", "1.0"} and ("jobName" in job or isinstance(job.get("taskRoles"), list))


class _Conversion:
    """One file on its way."""

    def __init__(self, job: dict[str, Any], reader: FieldReader, findings: Findings) -> None:
        self._job, self._read, self._findings = job, reader, findings
        self._places: dict[int, int] = {}  # Of each prerequisite in their list.
        self._items = self._prerequisites()
        roles = reader.mapping(job, "taskRoles", ())
        if len(roles) > bounds.ROLES:
            reader.wrong(
                ("taskRoles",),
                "too_many",
                Text(
                    f"There are {len(roles)} roles; at most {bounds.ROLES} are allowed.",
                    f"有 {len(roles)} 个角色；最多 {bounds.ROLES} 个。",
                ),
            )
        first = list(roles.items())[: bounds.ROLES]
        self._roles = {name: role for name, role in first if reader.is_mapping(role, ("taskRoles", name))}
        self._names = self._role_names()
        self._secrets: dict[str, None] = {}
        self._filled = False

    def made(self) -> dict[str, Any]:
        job, read = self._job, self._read
        if str(job.get("protocolVersion", "2")) not in {"2", "2.0"}:
            is_v1 = str(job["protocolVersion"]) in {"1", "1.0"}
            message = V1_MESSAGE if is_v1 else Text("protocolVersion must be 2.", "protocolVersion 须为 2。")
            hint = V1_HINT if is_v1 else NO_HINT
            read.wrong(("protocolVersion",), "choice", message, hint)
        if str(job.get("type", "job")) != "job":
            read.wrong(
                ("type",), "choice", Text("type must be job: other components are no jobs.", "type 须为 job：其他组件不是作业。")
            )
        if not job.get("taskRoles"):
            read.wrong(
                ("taskRoles",),
                "required",
                Text("taskRoles is missing: the file says nothing to run.", "缺少 taskRoles：文件没有说明要运行什么。"),
            )
        for key in job:
            if key not in KNOWN:
                self._findings.lost("unknown_key", key, read.line(key), name=key)
            elif key in ("version", "contributor", "description") and job[key]:
                self._findings.lost("described", key, read.line(key), name=key)
        spec: dict[str, Any] = {"name": self._name(), "framework": "openpai"}
        hived = self._hived(spec)
        self._image(spec)
        self._code(spec)
        spec["roles"] = {self._names[name]: self._role(name, role, hived) for name, role in self._roles.items()}
        self._retry(spec)
        self._completion(spec)
        self._defaults()
        self._extras()
        self._tags(spec)
        self._end(spec)
        return spec

    # --- The job -----------------------------------------------------------------------------------------------------

    def _name(self) -> str:
        before = self._read.text(self._job, "name", (), required=True)
        after = job_name(before)
        if before and after != before:
            self._findings.changed("name_changed", "name", self._read.line("name"), name=after)
        elif before:
            self._findings.carried("name", "name", self._read.line("name"))
        return after

    def _prerequisites(self) -> dict[str, dict[str, dict[str, Any]]]:
        """Prerequisites by type and name."""
        found: dict[str, dict[str, dict[str, Any]]] = {kind: {} for kind in TYPES}
        for index, item in enumerate(self._read.sequence(self._job, "prerequisites", ())):
            place = ("prerequisites", index)
            if not self._read.is_mapping(item, place):
                continue
            kind, name = self._read.text(item, "type", place, required=True), self._read.text(item, "name", place)
            if kind and kind not in found:
                self._read.wrong(
                    (*place, "type"),
                    "choice",
                    Text(f"type must be one of {', '.join(TYPES)}.", f"type 可选：{', '.join(TYPES)}。"),
                )
            elif kind and name in found[kind]:
                self._read.wrong(
                    (*place, "name"),
                    "duplicate",
                    Text(f"Two prerequisites of type {kind} have one name.", f"有两个 {kind} 类型的前置项同名。"),
                )
            elif kind:
                found[kind][name] = item
                self._places[id(item)] = index
        return found

    def _role_names(self) -> dict[str, str]:
        names: dict[str, str] = {}
        for before in self._roles:
            after = unique(role_name(before), names.values(), 40)
            names[before] = after
            if after != before:
                line = self._read.line("taskRoles", before)
                self._findings.changed("role_renamed", f"taskRoles.{before}", line, before=before, after=after)
        return names

    def _image(self, spec: dict[str, Any]) -> None:
        for name, role in self._roles.items():
            place = ("taskRoles", name)
            wanted = self._read.text(role, "dockerImage", place)
            item = self._items["dockerimage"].get(wanted)
            if item is None:
                if wanted:
                    self._read.wrong(
                        (*place, "dockerImage"),
                        "unknown",
                        Text("No prerequisite of type dockerimage has this name.", "没有此名称的 dockerimage 前置项。"),
                    )
                continue
            index = self._places[id(item)]
            uri = self._read.text(item, "uri", ("prerequisites", index), required=True)
            line = self._read.line("prerequisites", index, "uri")
            if uri and "image" not in spec:
                spec["image"] = uri
                self._findings.carried(f"prerequisites.{wanted}", "image", line)
            elif uri and spec["image"] != uri:
                self._findings.lost("several_images", f"taskRoles.{name}.dockerImage", line, role=name, image=uri)
            if item.get("auth"):
                line = self._read.line("prerequisites", index, "auth")
                self._findings.lost("image_credentials", f"prerequisites.{wanted}.auth", line)

    def _code(self, spec: dict[str, Any]) -> None:
        used = {kind: {str(role.get(kind)) for role in self._roles.values() if role.get(kind)} for kind in TYPES[1:]}
        for kind in TYPES[1:]:
            for name in sorted(used[kind] - set(self._items[kind])):
                for role, entry in self._roles.items():
                    if str(entry.get(kind)) == name:
                        message = Text(f"No prerequisite of type {kind} has this name.", f"没有此名称的 {kind} 前置项。")
                        self._read.wrong(("taskRoles", role, kind), "unknown", message)
        for name, item in self._items["data"].items():
            self._findings.lost("data_fetched", f"prerequisites.{name}", self._item_line(item), name=name)
        for name, item in self._items["output"].items():
            uri = item.get("uri", "")
            self._findings.lost("output_place", f"prerequisites.{name}", self._item_line(item), name=name, uri=uri)
        for name, item in self._items["script"].items():
            uri, ref = str(item.get("uri", ""))[:URI_LENGTH], str(item.get("version") or "")
            address = uri if re.fullmatch(GIT_URL, uri) else f"https://{uri}"
            is_git = GIT_HOST.match(uri) is not None
            if "code" in spec or not is_git or not re.fullmatch(GIT_URL, address):
                self._findings.lost("script_lost", f"prerequisites.{name}", self._item_line(item), name=name, uri=uri)
                continue
            spec["code"] = {"git": address}
            if ref not in {"", "latest"} and re.fullmatch(GIT_REF, ref):
                spec["code"]["ref"] = ref
            self._findings.changed("script_git", f"prerequisites.{name}", self._item_line(item), name=name)

    def _item_line(self, item: dict[str, Any]) -> int | None:
        return self._read.line("prerequisites", self._places[id(item)])

    def _retry(self, spec: dict[str, Any]) -> None:
        asked = self._read.whole(self._job, "jobRetryCount", (), least=-(2**31))
        tasks = {
            name: self._read.whole(role, "taskRetryCount", ("taskRoles", name), least=-(2**31)) or 0
            for name, role in self._roles.items()
        }
        most = bounds.ATTEMPTS_PER_JOB - 1
        if asked is not None and asked < 0:
            self._findings.lost("retry_policy", "jobRetryCount", self._read.line("jobRetryCount"))
        count = asked if asked and asked > 0 else 0
        if count:
            self._findings.carried("jobRetryCount", "retry.limit", self._read.line("jobRetryCount"))
        for name, own in tasks.items():
            if own == 0:
                continue
            line = self._read.line("taskRoles", name, "taskRetryCount")
            if own < 0 or asked:
                self._findings.lost("task_retry_lost" if own > 0 else "retry_policy", f"taskRoles.{name}.taskRetryCount", line)
            else:
                count = max(count, own)
                self._findings.changed("task_retry", f"taskRoles.{name}.taskRetryCount", line, count=min(own, most))
        if count > most:
            self._findings.changed("value_lowered", "jobRetryCount", self._read.line("jobRetryCount"), value=count, most=most)
        if count:
            spec["retry"] = {"limit": min(count, most)}

    def _completion(self, spec: dict[str, Any]) -> None:
        rules: dict[str, dict[str, Any]] = {}
        for name, role in self._roles.items():
            place = ("taskRoles", name, "completion")
            given = self._read.mapping(role, "completion", place[:-1])
            rule: dict[str, Any] = {}
            for before, after in (("minFailedInstances", "min_failed"), ("minSucceededInstances", "min_succeeded")):
                count = self._read.whole(given, before, place, least=-1)
                if count == 0:
                    self._read.wrong(
                        (*place, before), "range", Text(f"{before} must be -1, or at least 1.", f"{before} 须为 -1，或至少为 1。")
                    )
                elif count is not None and not (count == -1 and after == "min_succeeded"):  # As without it.
                    rule[after] = "never" if count == -1 else count
                    target = f"completion.roles.{self._names[name]}.{after}"
                    self._findings.carried(f"taskRoles.{name}.completion.{before}", target, self._read.line(*place, before))
            for key in given:
                if key not in ("minFailedInstances", "minSucceededInstances"):
                    self._findings.lost(
                        "unknown_key", f"taskRoles.{name}.completion.{key}", self._read.line(*place, key), name=key
                    )
            if rule:
                rules[self._names[name]] = rule
        if rules:
            spec["completion"] = {"roles": rules}

    def _defaults(self) -> None:
        defaults = self._read.mapping(self._job, "defaults", ())
        name = self._read.text(defaults, "virtualCluster", ("defaults",))
        if name and name != "default":
            self._findings.lost(
                "virtual_cluster", "defaults.virtualCluster", self._read.line("defaults", "virtualCluster"), name=name
            )
        chosen = self._read.text(defaults, "deployment", ("defaults",))
        known = [str(item.get("name")) for item in self._deployments()]
        if chosen and chosen not in known:
            self._read.wrong(("defaults", "deployment"), "unknown", Text("No deployment has this name.", "没有此名称的部署。"))
        for index, item in enumerate(self._deployments()):
            if str(item.get("name")) != chosen:
                self._findings.lost(
                    "deployment_unused", "deployments", self._read.line("deployments", index), name=item.get("name", "")
                )
        for key in defaults:
            if key not in ("virtualCluster", "deployment"):
                self._findings.lost("unknown_key", f"defaults.{key}", self._read.line("defaults", key), name=key)

    def _deployments(self) -> list[dict[str, Any]]:
        found = self._job.get("deployments")
        return [item for item in found if isinstance(item, dict)] if isinstance(found, list) else []

    def _tags(self, spec: dict[str, Any]) -> None:
        tags = [str(tag) for tag in self._read.sequence(self._job, "tags", ()) if isinstance(tag, (str, int))]
        if tags:
            spec["tags"] = list(dict.fromkeys(tags))
            self._findings.carried("tags", "tags", self._read.line("tags"))

    def _end(self, spec: dict[str, Any]) -> None:
        if self._secrets:
            spec["secrets"] = dict(self._secrets)
        elif self._job.get("secrets"):
            self._findings.lost("secrets_unused", "secrets", self._read.line("secrets"))
        if self._filled:
            self._findings.changed("parameters_filled", "parameters", self._read.line("parameters"))

    # --- Extras ------------------------------------------------------------------------------------------------------

    def _hived(self, spec: dict[str, Any]) -> dict[str, Any]:
        """Options of the HiveD scheduler by role; the priority class goes into the spec."""
        extras = self._read.mapping(self._job, "extras", ())
        hived = self._read.mapping(extras, "hivedScheduler", ("extras",))
        place = "extras.hivedScheduler"
        line = self._read.line("extras", "hivedScheduler")
        name = self._read.text(hived, "jobPriorityClass", ("extras", "hivedScheduler"))
        if name in PRIORITY_CLASSES:
            spec["priority"] = PRIORITY_CLASSES[name]
            line = self._read.line("extras", "hivedScheduler", "jobPriorityClass")
            self._findings.changed("hived_priority", f"{place}.jobPriorityClass", line, name=name, priority=spec["priority"])
        elif name:
            self._findings.lost("hived", f"{place}.jobPriorityClass", line, name=name)
        roles = self._read.mapping(hived, "taskRoles", ("extras", "hivedScheduler"))
        for role, options in roles.items():
            for key in options if isinstance(options, dict) else ():
                if key not in ("gpuType", "skuType") and options[key] is not None:
                    self._findings.lost("hived", f"{place}.taskRoles.{role}.{key}", line, name=key)
        return roles

    def _extras(self) -> None:
        extras = self._read.mapping(self._job, "extras", ())
        for key, value in extras.items():
            line = self._read.line("extras", key)
            if key == "com.microsoft.pai.runtimeplugin":
                for plugin in value if isinstance(value, list) else ():
                    self._plugin(plugin if isinstance(plugin, dict) else {}, line)
            elif key == "tensorBoard":
                self._findings.lost("tensorboard", f"extras.{key}", line)
            elif key == "gangAllocation":
                if value in (False, "false"):
                    self._findings.changed("no_gang", f"extras.{key}", line)
            elif key not in ("hivedScheduler", "submitFrom"):  # The latter only says which page sent it.
                self._findings.lost("unknown_key", f"extras.{key}", line, name=key)

    def _plugin(self, plugin: dict[str, Any], line: int | None) -> None:
        name, given = str(plugin.get("plugin", "")), plugin.get("parameters")
        options = given if isinstance(given, dict) else {}
        place = f"extras.runtimeplugin.{name}"
        if name == "ssh":
            self._findings.lost("ssh", place, line)
        elif name == "tensorboard":
            self._findings.lost("tensorboard", place, line)
        elif name == "teamwise_storage":
            configured = options.get("storageConfigNames")
            for storage in configured if isinstance(configured, list) and configured else ["default"]:
                self._findings.lost("storage", place, line, name=storage)
        else:
            self._findings.lost("plugin", place, line, name=name)

    # --- A role ------------------------------------------------------------------------------------------------------

    def _role(self, name: str, role: dict[str, Any], hived: dict[str, Any]) -> dict[str, Any]:
        place = ("taskRoles", name)
        for key in role:
            if key not in ROLE_KEYS:
                self._findings.lost("unknown_key", f"taskRoles.{name}.{key}", self._read.line(*place, key), name=key)
        for item in self._read.sequence(role, "prerequisites", place):
            self._findings.lost(
                "role_prerequisite", f"taskRoles.{name}.prerequisites", self._read.line(*place, "prerequisites"), name=item
            )
        made: dict[str, Any] = {}
        count = self._read.whole(role, "instances", place, least=1)
        if count is not None:
            made["replicas"] = count
            self._findings.carried(
                f"taskRoles.{name}.instances", f"roles.{self._names[name]}.replicas", self._read.line(*place, "instances")
            )
        self._resources(name, role, hived, made)
        made["command"] = ["/bin/bash", "-c", self._command(name, role)]
        if self._names[name].replace("-", "_") != name:
            made.setdefault("env", {})[ROLE_NAME] = name
        return made

    def _resources(self, name: str, role: dict[str, Any], hived: dict[str, Any], made: dict[str, Any]) -> None:
        place = ("taskRoles", name, "resourcePerInstance")
        given = self._read.mapping(role, "resourcePerInstance", place[:-1])
        options = self._read.mapping(role, "extraContainerOptions", place[:-1])
        found: dict[str, Any] = {}
        cpu, memory = self._read.whole(given, "cpu", place, least=1), self._read.whole(given, "memoryMB", place, least=1)
        gpu = self._read.whole(given, "gpu", place, least=0)
        shm = self._read.whole(options, "shmMB", ("taskRoles", name, "extraContainerOptions"), least=0)
        target = f"roles.{self._names[name]}"
        for key, value, after in (
            ("cpu", cpu, "cpu"), ("memoryMB", memory and f"{memory}Mi", "memory"), ("gpu", gpu or None, "gpu"),
        ):  # fmt: skip
            if value is not None:
                found[after] = value
                self._findings.carried(f"taskRoles.{name}.{key}", f"{target}.resources.{after}", self._read.line(*place, key))
        wish = hived.get(name)
        model = next((str(wish[key]) for key in ("gpuType", "skuType") if wish.get(key)), "") if isinstance(wish, dict) else ""
        if model and gpu:
            cleaned = re.sub(r"[^a-z0-9._-]+", "-", model.lower()).strip("-._")
            found["gpu"] = f"{cleaned}:{gpu}"
            self._findings.changed(
                "gpu_model", f"extras.hivedScheduler.taskRoles.{name}", self._read.line("extras", "hivedScheduler"), name=model
            )
        if shm:
            found["shm"] = f"{shm}Mi"
            self._findings.carried(
                f"taskRoles.{name}.shmMB",
                f"{target}.resources.shm",
                self._read.line("taskRoles", name, "extraContainerOptions", "shmMB"),
            )
        if options.get("infiniband") is True:
            found["rdma"] = True
            self._findings.carried(
                f"taskRoles.{name}.infiniband",
                f"{target}.resources.rdma",
                self._read.line("taskRoles", name, "extraContainerOptions"),
            )
        for key in options:
            if key not in ("shmMB", "infiniband"):
                self._findings.lost(
                    "extra_option",
                    f"taskRoles.{name}.extraContainerOptions",
                    self._read.line("taskRoles", name, "extraContainerOptions", key),
                    name=key,
                )
        for key in given:
            if key not in ("cpu", "memoryMB", "gpu", "ports"):
                self._findings.lost(
                    "unknown_key", f"taskRoles.{name}.resourcePerInstance", self._read.line(*place, key), name=key
                )
        if found:
            made["resources"] = found
        self._ports(name, given, made)

    def _ports(self, name: str, given: dict[str, Any], made: dict[str, Any]) -> None:
        place = ("taskRoles", name, "resourcePerInstance", "ports")
        ports: list[str] = []
        labels: dict[str, list[str]] = {}
        for label in self._read.mapping(given, "ports", place[:-1]):
            count = self._read.whole(given["ports"], label, place, least=1) or 1
            own: list[str] = []
            for index in range(min(count, bounds.PORTS_PER_ROLE + 1)):
                own.append(unique(port_name(label if index == 0 else f"{label}-{index}"), [*ports, *own], 15))
            ports += own
            labels[str(label)] = own
            if len(ports) > bounds.PORTS_PER_ROLE:
                self._read.wrong(
                    place,
                    "too_many",
                    Text(
                        f"A role has at most {bounds.PORTS_PER_ROLE} ports.", f"一个角色最多有 {bounds.PORTS_PER_ROLE} 个端口。"
                    ),
                )
                return
            line = self._read.line(*place, label)
            if count > 1:
                self._findings.changed(
                    "several_ports", f"taskRoles.{name}.ports.{label}", line, count=count, names=", ".join(own)
                )
            elif own != [label]:
                self._findings.changed("port_renamed", f"taskRoles.{name}.ports.{label}", line, before=label, after=own[0])
            else:
                self._findings.carried(f"taskRoles.{name}.ports.{label}", f"roles.{self._names[name]}.ports", line)
        if ports:
            made["ports"] = ports
        if any([label] != [port.replace("-", "_") for port in own] for label, own in labels.items()):
            made["env"] = {PORT_NAMES: ";".join(f"{label}:{','.join(own)}" for label, own in labels.items())}

    def _command(self, name: str, role: dict[str, Any]) -> str:
        place = ("taskRoles", name)
        commands = self._commands(role, place)
        if not commands and not self._read.failed(*place, "commands"):
            self._read.wrong(
                (*place, "commands"),
                "required",
                Text("commands is empty: the role runs nothing.", "commands 为空：该角色没有要运行的内容。"),
            )
        defaults = self._job.get("defaults")
        chosen = str(defaults.get("deployment", "")) if isinstance(defaults, dict) else ""
        for index, item in enumerate(self._deployments()):
            roles = item.get("taskRoles")
            own = roles.get(name) if isinstance(roles, dict) else None
            if chosen and str(item.get("name")) == chosen and isinstance(own, dict):
                at = ("deployments", index, "taskRoles", name)
                commands = [*self._texts(own, "preCommands", at), *commands, *self._texts(own, "postCommands", at)]
                self._findings.changed(
                    "deployment_joined", f"taskRoles.{name}.commands", self._read.line("deployments", index), name=chosen
                )
        if len(commands) > 1:
            self._findings.changed("commands_joined", f"taskRoles.{name}.commands", self._read.line(*place, "commands"))
        # Judged before anything is put in: values of parameters are no text of the command's author.
        judged = [EXPRESSION.sub("$_", command) for command in commands]  # A word that only the shell will know.
        judge_commands(
            self._lined(commands, judged, place), self._findings, f"taskRoles.{name}.commands", tasks=self._task_count()
        )
        text = self._fill("\n".join(commands), name, role)
        line = self._read.line(*place, "commands")
        self._findings.carried(f"taskRoles.{name}.commands", f"roles.{self._names[name]}.command", line)
        return "\n".join([*(["set -e"] if len(commands) > 1 else []), text])

    def _task_count(self) -> int:
        return sum(count for role in self._roles.values() if isinstance(count := role.get("instances", 1), int))

    def _lined(self, commands: list[str], judged: list[str], place: tuple[str | int, ...]) -> list[tuple[str, int | None]]:
        """What is judged of commands, with their lines in the file as far as they stand where the role has them."""
        every = self._read.line(*place, "commands")
        own = iter(
            (text.strip(), self._read.line(*place, "commands", index))
            for index, entry in enumerate(self._roles[str(place[1])].get("commands") or [])
            if (text := str(entry))
        )
        lines = dict(own)
        return [(text, lines.get(command, every)) for command, text in zip(commands, judged, strict=True)]

    def _commands(self, role: dict[str, Any], place: tuple[str | int, ...]) -> list[str]:
        return [text for text in self._texts(role, "commands", place) if text]

    def _texts(self, holder: dict[str, Any], key: str, place: tuple[str | int, ...]) -> list[str]:
        found = []
        for index, entry in enumerate(self._read.sequence(holder, key, place)):
            if isinstance(entry, (dict, list)) or entry is None:
                self._read.wrong(
                    (*place, key, index),
                    "text",
                    Text("A command must be text.", "命令须为文本。"),
                    Text("Put it into quotes.", "请加引号。"),
                )
            else:
                found.append(_scalar(entry).strip())
        return found

    # --- Expressions -------------------------------------------------------------------------------------------------

    def _fill(self, text: str, name: str, role: dict[str, Any]) -> str:
        """The text with its expressions replaced; a result beyond what a command may be is refused before it is built."""
        parts: list[str] = []
        size, end = 0, 0
        for match in EXPRESSION.finditer(text):
            value = self._value(match[1], match[0], name, role)
            parts += [text[end : match.start()], value]
            size += len(parts[-1]) + len(parts[-2])
            end = match.end()
            if size > limits.TEXT_BYTES:
                message = Text(
                    f"With its parameters the command has more than {limits.TEXT_BYTES} bytes.",
                    f"代入参数后，命令超过 {limits.TEXT_BYTES} 字节。",
                )
                self._read.wrong(
                    ("taskRoles", name, "commands"),
                    "too_long",
                    message,
                    Text("Put long texts into files.", "请将长文本放入文件。"),
                )
                return ""
        return "".join([*parts, text[end:]])

    def _value(self, expression: str, written: str, name: str, role: dict[str, Any]) -> str:
        scope, _, path = expression.strip().partition(".")
        if scope == "$secrets" and path:
            return self._secret(path, name)
        holder: Any = None
        if scope == "$parameters":
            holder = self._job.get("parameters")
            if is_secret_name(path.rpartition(".")[2]) and _look_up(holder, path):
                return self._named("parameters", path)
        elif scope in ("$script", "$output", "$data"):
            holder = self._items[scope[1:]].get(str(role.get(scope[1:])))
        value = _look_up(holder, path)
        if value is None:
            self._findings.lost(
                "unknown_expression",
                f"taskRoles.{name}.commands",
                self._read.line("taskRoles", name, "commands"),
                expression=written,
            )
            return ""
        self._filled = self._filled or scope == "$parameters"
        return value

    def _secret(self, path: str, name: str) -> str:
        declared = self._job.get("secrets")
        if not isinstance(declared, dict) or path not in declared:
            line = self._read.line("taskRoles", name, "commands")
            self._findings.lost("unknown_expression", f"taskRoles.{name}.commands", line, expression=f"$secrets.{path}")
            return ""
        return self._named("secrets", path)

    def _named(self, key: str, path: str) -> str:
        """What a command reads in place of the value of a secret; parameters that are called like secrets are such."""
        variable = env_name(path)
        self._secrets[variable] = None
        line = self._read.line(key, *path.split(".")) if key == "parameters" else self._read.line(key, path)
        self._findings.changed("secret_named", f"{key}.{path}", line, name=path, variable=variable)
        return f"${{{variable}}}"


def _look_up(holder: Any, path: str) -> str | None:
    """The scalar at a path such as `uri[0]` or `model.name`."""
    for step in re.sub(r"\[([0-9]{1,6})\]", r".\1", path).split("."):
        if isinstance(holder, Mapping):
            holder = holder.get(step)
        elif isinstance(holder, list) and step.isascii() and step.isdigit() and len(step) <= 6 and int(step) < len(holder):
            holder = holder[int(step)]
        else:
            return None
    return None if holder is None or isinstance(holder, (Mapping, list)) else _scalar(holder)


def _scalar(value: object) -> str:
    return ("true" if value else "false") if isinstance(value, bool) else str(value)
