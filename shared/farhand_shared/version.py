"""The product's version and the capability integer of the link protocol.

``CAPABILITY`` is raised by one whenever a daemon or a replica learns something that the other
side must know about before relying on it. Old daemons are the normal case: a replica compares the
number, it never parses ``__version__``.
"""

from typing import Final

__version__ = "0.1.0"

# History, one dated line per change; the newest line's number is CAPABILITY.
#   1  2026-11-30  first version: shell and argv commands, cancel, byte-offset output, receipts
#   2  2026-11-30  facts: labels of the machine's file; the survey (disk, tools, …)
#   3  2026-11-30  commands: file operations; stdin and terminals (input, resize);
#                 limits, notes of results, the hint of a command that waits for input;
#                 facts: which version of the daemon failed on the machine
CAPABILITY: Final = 3

# The oldest daemon this code still talks to; an older one is told to update and waits.
MIN_CAPABILITY: Final = 1
