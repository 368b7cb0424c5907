"""What stands in the page's place until it is built; it makes room by itself."""

import html
from typing import Final

from farhand_control_plane.own_program import for_strangers

LOOK_AGAIN_S: Final = 2

# Not a built one: those have a hash in their names.
WAITING_SCRIPT_NAME: Final = "waiting.js"

# Without scripts the page is refreshed. That alone would not do: where the address has a fragment,
# as a sign-in link has, browsers take a refresh for a jump within the page. And a server that is
# started again meanwhile must not leave the browser's own error in our place.
WAITING_SCRIPT: Final = """\
const shown = document.querySelector("h1").outerHTML;
async function look() {
  try {
    const answer = await fetch(location.pathname, { cache: "no-store" });
    if (answer.ok || !(await answer.text()).includes(shown)) return location.reload();
  } catch {
    // The server is away; it may come back.
  }
  setTimeout(look, 1000);
}
setTimeout(look, 1000);
"""

_DOCUMENT: Final = """\
<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<noscript><meta http-equiv="refresh" content="{look_again_s}"></noscript>
<title>Farhand</title>
<link rel="icon" href="data:,">
<style nonce="{nonce}">
body {{ font: 16px/1.5 system-ui, sans-serif; max-width: 40rem }}
body {{ margin: 15vh auto; padding: 0 1rem }}
h1 {{ font-size: 1.5rem; font-weight: 600 }}
code, pre {{ font: 13px/1.5 ui-monospace, monospace }}
pre {{ white-space: pre-wrap; overflow-wrap: anywhere }}
</style>
<script src="/assets/{script}" type="module"></script>
</head>
<body>
<main>
<h1>{title}</h1>
{body}
</main>
</body>
</html>
"""

_BEING_BUILT: Final = """\
<p>Farhand itself is running. This page appears by itself as soon as it is ready; the first build
takes a minute or so.</p>
<p>Meanwhile, in a terminal: <code>{program} chat</code></p>"""

_FAILED: Final = """\
<p>Farhand itself is running; in a terminal, <code>{program} chat</code> talks to it. Once the cause
below is gone, start <code>{program} up</code> again; this page appears by itself.</p>
<pre>{reason}</pre>"""

_IN_CHECKOUT: Final = """\
<p>Commands are as they are typed in the folder of Farhand's checkout.</p>"""


def waiting_page(nonce: str, reason: str) -> str:
    """Return a document that says what is waited for; ``reason``: why it failed, empty if not."""
    program = for_strangers()
    body = (_FAILED if reason else _BEING_BUILT).format(
        program=html.escape(program), reason=html.escape(reason)
    )
    if program != "farhand":
        body = f"{body}\n{_IN_CHECKOUT}"
    return _DOCUMENT.format(
        nonce=nonce,
        look_again_s=LOOK_AGAIN_S,
        script=WAITING_SCRIPT_NAME,
        title="The page could not be built" if reason else "The page is being built",
        body=body,
    )
