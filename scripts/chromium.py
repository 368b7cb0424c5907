"""The system's Chromium, for what drives it: where it is and how it is started."""

import shutil

PROGRAM = shutil.which("chromium") or shutil.which("chromium-browser")  # None: not installed
# No sandbox: root runs it too, also in containers. The rest keeps it from calls of its own to the
# outside.
FLAGS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]
