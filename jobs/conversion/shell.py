"""Which commands a shell script runs, by a real parser of bash: nothing is expanded, nothing run, nothing looked up.

Commands are found wherever the shell would run them: in `$(...)`, behind `;` and `&&`, in functions and loops, behind `time`
or `env`, in the text of `eval` and `bash -c`. Comments, quoted text and here-documents hold none. What only the shell will know,
such as `$N` in a word, is UNKNOWN there."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from functools import cache

import tree_sitter
import tree_sitter_bash

from jobs.conversion.notes import Findings
from jobs.frameworks.srun_options import UNKNOWN
from jobs.spec.advice import is_secret_name

NESTED_MAX = 3  # A text in the text of a `bash -c` in a `bash -c`.
PARSE_SECONDS = 2.0  # Of one script with all texts in it; a script of a thousand lines takes a hundredth of a second.
PIPES_MAX = 1_000  # In one text: ten thousand in a row cost the parser a gigabyte.
CHUNK_BYTES = 65_536
COMMANDS_MAX = 5_000  # Of one script.
NAMES_MAX = 2_000  # Variables of one script that notes could tell of.
SHELLS = frozenset({"sh", "bash", "dash", "ksh", "zsh"})
# Commands that run the command that stands behind their own options, each with its options that take a word more.
RUNNERS = {
    "time": ("-f", "-o"), "exec": ("-a",), "command": (), "builtin": (), "nohup": (), "setsid": (), "env": ("-u", "-C"),
    "nice": ("-n",), "ionice": ("-c", "-n", "-p"), "timeout": ("-k", "-s"), "stdbuf": ("-i", "-o", "-e"), "sudo": ("-u", "-g"),
    "xargs": ("-I", "-n", "-P", "-L", "-d", "-a", "-s"), "numactl": (), "taskset": (), "chrt": (), "catchsegv": (),
}  # fmt: skip
_COUNTED = {"timeout": 1, "taskset": 1, "chrt": 1}  # Words of their own before the command: a time, a mask.
LAUNCHERS = frozenset({"srun", "mpirun", "mpiexec"})
_NO_WORDS = frozenset({"variable_assignment", "comment", "file_redirect", "herestring_redirect", "heredoc_redirect"})
_LITERAL = frozenset({"word", "number", "special_variable_name", "extglob_pattern", "test_operator", "regex"})


@dataclass(frozen=True, slots=True)
class Command:
    """A command as it stands: its name without its folder, UNKNOWN where a variable has it, and the words behind it."""

    name: str
    words: tuple[str, ...]
    line: int
    folder: str = ""


@dataclass(frozen=True, slots=True)
class Assignment:
    """`NAME=value`, exported or not, or in front of a command."""

    name: str
    value: str
    line: int


@dataclass(slots=True)
class Script:
    """What is in a text. `unread_line` is where the parser lost its way; commands behind it may be missing."""

    commands: list[Command] = field(default_factory=list)
    assignments: list[Assignment] = field(default_factory=list)
    variables: dict[str, int] = field(default_factory=dict)  # Read, with the first line that does.
    unread_line: int | None = None
    deadline: float = float("inf")

    def called(self, *names: str) -> Iterator[Command]:
        return (command for command in self.commands if command.name in names)


def read_script(text: str) -> Script:
    """Read a text, within a bound of time whatever is in it."""
    script = Script(deadline=time.monotonic() + PARSE_SECONDS)
    _read(text, script, 1, 0)
    return script


def tell_secrets(script: Script, findings: Findings, place: str) -> None:
    """A note on every variable that looks like a secret and that a command sets in clear: a command is left as it was written."""
    found = {entry.name: entry.line for entry in reversed(script.assignments) if entry.value.strip(UNKNOWN)}
    for name in sorted(name for name in found if is_secret_name(name)):
        findings.changed("secret_in_command", place, None, name=name)


def tell_unknown(script: Script, prefix: str, known: Iterable[str], findings: Findings, place: str) -> None:
    """A note on every variable of the old system that a command reads and nothing sets."""
    set_here = {*known, *(assignment.name for assignment in script.assignments)}
    for name in sorted(script.variables):
        if name.startswith(prefix) and name not in set_here:
            findings.lost("unknown_variable", place, script.variables[name], name=name)


@cache
def _language() -> tree_sitter.Language:
    return tree_sitter.Language(tree_sitter_bash.language())


def _read(text: str, script: Script, first_line: int, depth: int) -> None:
    _Reader(text.encode("utf-8", "surrogatepass"), script, first_line, depth).read()


class _Reader:
    """Goes once through a text that stands on `first_line` of the script, in so many others."""

    def __init__(self, data: bytes, script: Script, first_line: int, depth: int) -> None:
        self._data, self._script, self._first_line, self._depth = data, script, first_line, depth

    def read(self) -> None:
        tree = self._parsed()
        if tree is None:
            self._script.unread_line = self._script.unread_line or self._first_line
            return
        cursor = tree.walk()
        while True:
            if cursor.node is not None:
                self._look_at(cursor.node)
            if cursor.goto_first_child():
                continue
            while not cursor.goto_next_sibling():
                if not cursor.goto_parent():
                    return

    def _parsed(self) -> tree_sitter.Tree | None:
        """The text's tree; None for one made to take long: some texts cost the parser the square of their length."""
        if self._data.count(b"|") > PIPES_MAX:
            return None
        try:
            return tree_sitter.Parser(_language()).parse(
                lambda offset, _: self._data[offset : offset + CHUNK_BYTES],
                progress_callback=lambda *_: time.monotonic() > self._script.deadline,
            )
        except ValueError:
            return None

    def _look_at(self, node: tree_sitter.Node) -> None:
        script, line = self._script, self._first_line + node.start_point.row
        if (node.is_error or node.is_missing) and script.unread_line is None:
            script.unread_line = line
        if node.type == "command" and len(script.commands) < COMMANDS_MAX:
            self._add_command(node, line)
        elif node.type == "variable_assignment" and len(script.assignments) < NAMES_MAX:
            self._add_assignment(node, line)
        elif node.type in ("simple_expansion", "expansion") and len(script.variables) < NAMES_MAX:
            names = (self._raw(child) for child in node.named_children if child.type == "variable_name")
            script.variables.setdefault(next(names, ""), line)

    def _add_command(self, node: tree_sitter.Node, line: int) -> None:
        words = [self._text(child) for child in node.named_children if child.type not in _NO_WORDS]
        while words:
            folder, _, name = words[0].rpartition("/")
            self._script.commands.append(Command(name, tuple(words[1:]), line, folder))
            for text in _texts(name, words[1:]):
                self._nested(text, line)
            words = _behind(name, words[1:])

    def _add_assignment(self, node: tree_sitter.Node, line: int) -> None:
        name, value = node.child_by_field_name("name"), node.child_by_field_name("value")
        if name is None or name.type != "variable_name":
            return
        text = self._text(value) if value is not None else ""
        self._script.assignments.append(Assignment(self._raw(name), text, line))
        if text.partition(" ")[0].rpartition("/")[2] in LAUNCHERS:
            self._nested(text, line)  # A launcher that is kept in a variable and run by it.

    def _nested(self, text: str, line: int) -> None:
        if self._depth < NESTED_MAX:
            _read(text, self._script, line, self._depth + 1)

    def _raw(self, node: tree_sitter.Node) -> str:
        return self._data[node.start_byte : node.end_byte].decode("utf-8", "replace")

    def _text(self, node: tree_sitter.Node) -> str:
        """A word's text after the shell has taken its quotes away."""
        if node.type == "command_name" and node.named_child_count == 1:
            return self._text(node.named_children[0])
        if node.type == "raw_string":
            return self._raw(node)[1:-1]
        if node.type == "string":
            return self._quoted(node)
        if node.type == "concatenation":
            return "".join(self._text(child) for child in node.children)
        if node.type in _LITERAL:
            raw = self._raw(node)
            return UNKNOWN + raw if raw[:1] in "*?" else _unescaped(raw)
        return UNKNOWN if node.is_named else self._raw(node)

    def _quoted(self, node: tree_sitter.Node) -> str:
        """Of a text in double quotes: what stands between its parts belongs to it, spaces too."""
        made, at = "", node.start_byte + 1
        for child in node.named_children:
            if child.type != "string_content":
                made += self._data[at : child.start_byte].decode("utf-8", "replace") + UNKNOWN
                at = child.end_byte
        made += self._data[at : node.end_byte - 1].decode("utf-8", "replace")
        return made.replace('\\"', '"').replace("\\\n", "").replace("\\$", "$").replace("\\\\", "\\")


def _texts(name: str, words: list[str]) -> Iterator[str]:
    """Texts among a command's words that are commands themselves."""
    if name == "eval":
        yield " ".join(words)
    if name in SHELLS:
        for place, word in enumerate(words[:-1]):
            if word.startswith("-") and not word.startswith("--") and word.endswith("c"):
                yield words[place + 1]
                return


def _behind(name: str, words: list[str]) -> list[str]:
    """The command that a command such as `time` runs; nothing for all others."""
    if name not in RUNNERS or (name == "command" and words[:1] in (["-v"], ["-V"])):
        return []
    rest = list(words)
    while rest and (rest[0].startswith("-") or (name in ("env", "sudo") and "=" in rest[0])):
        word = rest.pop(0)
        if word in RUNNERS[name] and rest:
            rest.pop(0)
    return rest[_COUNTED.get(name, 0) :]


def _unescaped(text: str) -> str:
    """Without backslashes that quote; one before a line's end joins the lines."""
    made, rest = "", text
    while rest:
        before, backslash, rest = rest.partition("\\")
        made += before
        if backslash and rest:
            made += "" if rest[0] == "\n" else rest[0]
            rest = rest[1:]
    return made
