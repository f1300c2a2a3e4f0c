"""Makes a picture of a terminal from what commands really print: `python tools/terminal_picture.py OUT.svg COMMAND...`

Each command is one argument; it runs in a terminal of its own (a pty), so that colours and widths are those a person sees. The
picture holds no address and no third-party font. Needs `rich`, which the command line needs too.
"""

from __future__ import annotations

import argparse
import fcntl
import io
import os
import pty
import re
import shlex
import struct
import subprocess
import sys
import termios
from pathlib import Path

from rich.console import Console
from rich.terminal_theme import TerminalTheme
from rich.text import Text

COLUMNS = 110
SECONDS_MAX = 300
_DARK = ["#3c4250", "#e86c6c", "#7ec678", "#deb860", "#68a4ec", "#be86dc", "#62c2c8", "#d6dbe4"]
_BRIGHT = ["#808898", "#f08484", "#96d68e", "#eccc7e", "#86baf6", "#d2a0ec", "#7ed6da", "#ffffff"]


def _rgb(text: str) -> tuple[int, int, int]:
    red, green, blue = bytes.fromhex(text[1:])
    return red, green, blue


THEME = TerminalTheme(_rgb("#181b22"), _rgb("#d6dbe4"), [_rgb(colour) for colour in _DARK], [_rgb(colour) for colour in _BRIGHT])
FORMAT = """<svg class="rich-terminal" viewBox="0 0 {width} {height}" xmlns="http://www.w3.org/2000/svg" role="img">
<title>TITLE</title>
<style>
.{unique_id}-matrix {{ font-family: ui-monospace, Menlo, Consolas, "DejaVu Sans Mono", "Noto Sans Mono CJK SC", monospace;
  font-size: {char_height}px; line-height: {line_height}px; font-variant-east-asian: full-width; }}
.{unique_id}-title {{ font-size: 18px; font-weight: bold; font-family: system-ui, sans-serif; }}
{styles}
</style>
<defs>
<clipPath id="{unique_id}-clip-terminal"><rect x="0" y="0" width="{terminal_width}" height="{terminal_height}" /></clipPath>
{lines}
</defs>
{chrome}
<g transform="translate({terminal_x}, {terminal_y})" clip-path="url(#{unique_id}-clip-terminal)">
{backgrounds}
<g class="{unique_id}-matrix">
{matrix}
</g>
</g>
</svg>
"""


def main() -> int:
    parser = argparse.ArgumentParser(description="Make a picture of a terminal from what commands print.")
    parser.add_argument("picture", type=Path)
    parser.add_argument("commands", nargs="+", help="each is one command line, run as it stands and shown behind a prompt")
    parser.add_argument("--title", default="berth")
    parser.add_argument(
        "--replace", action="append", default=[], metavar="OLD=NEW", help="shown differently, such as a directory"
    )
    options = parser.parse_args()
    console = Console(record=True, width=COLUMNS, file=io.StringIO(), force_terminal=True, color_system="truecolor")
    for command in options.commands:
        printed = run(shlex.split(command))
        for replacement in options.replace:
            old, _, new = replacement.partition("=")
            printed, command = printed.replace(old, new), command.replace(old, new)
        console.print(Text("$ ", style="bold green") + Text(command, style="bold"))
        console.print(Text.from_ansi(printed.rstrip()))
        console.print()
    options.picture.parent.mkdir(parents=True, exist_ok=True)
    svg = console.export_svg(
        title=options.title, theme=THEME, code_format=FORMAT.replace("TITLE", options.title), unique_id=options.picture.stem
    )
    options.picture.write_text("\n".join(line.rstrip() for line in svg.splitlines()) + "\n", encoding="utf-8")
    return 0


def run(command: list[str]) -> str:
    """What the command prints on a terminal, progress lines as they stood in the end."""
    outer, inner = pty.openpty()
    fcntl.ioctl(inner, termios.TIOCSWINSZ, struct.pack("HHHH", 50, COLUMNS, 0, 0))
    environment = {**os.environ, "TERM": "xterm-256color", "COLUMNS": str(COLUMNS)}
    process = subprocess.Popen(command, stdin=inner, stdout=inner, stderr=inner, env=environment, close_fds=True)
    os.close(inner)
    pieces = []
    while True:
        try:
            piece = os.read(outer, 65536)
        except OSError:  # Linux says so when the last writer has gone.
            break
        if not piece:
            break
        pieces.append(piece)
    os.close(outer)
    if process.wait(SECONDS_MAX):
        sys.exit(f"{shlex.join(command)} ended with {process.returncode}")
    return screen(b"".join(pieces).decode(errors="replace"))


def screen(text: str) -> str:
    """The text as it stands on the screen in the end: lines that were erased or written over are gone, colours stay."""
    rows, row, restart = [""], 0, False
    for piece in re.split(r"(\x1b\[[0-9;?]*[A-Za-z]|\r|\n)", text):
        if piece == "\n":
            row, restart = row + 1, False
            rows += [""] * (row + 1 - len(rows))
        elif piece == "\r":
            restart = True
        elif piece.startswith("\x1b[") and piece[-1] in "AK":
            if piece[-1] == "A":
                row, restart = max(0, row - int(piece[2:-1] or 1)), True
            else:
                rows[row] = ""
        elif piece and not (piece.startswith("\x1b[") and piece[-1] != "m"):
            rows[row] = piece if restart and not piece.startswith("\x1b") else rows[row] + piece
            restart = restart and piece.startswith("\x1b")
    return "\n".join(rows)


if __name__ == "__main__":
    sys.exit(main())
