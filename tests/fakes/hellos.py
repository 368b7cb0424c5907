"""The Hello of a machine about which a test says only what matters to it."""

from dataclasses import replace
from typing import Any

from farhand_shared.link_events import Facts, Hello, LiveAttempt

NOW_MS = 1_800_000_000_000


def a_hello(*live: LiveAttempt, **changes: Any) -> Hello:
    """Return a Hello; ``changes`` are fields of it."""
    hello = Hello(
        daemon_instance_id="i",
        boot_id="b",
        journal_id="j",
        journal_counter=5,
        local_time_ms=NOW_MS,
        capability=1,
        daemon_version="0",
        trust_level="trusted",
        chosen_by="typed",
        allow_inferred=False,
        concurrency=0,
        facts=Facts(
            hostname="h",
            os="linux",
            os_version="",
            arch="",
            user="",
            home=b"",
            cpus=1,
            memory_bytes=1,
            time_zone="UTC",
        ),
        live=live,
    )
    return replace(hello, **changes)
