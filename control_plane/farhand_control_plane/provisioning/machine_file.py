"""Render the `machine.toml` of a machine that nobody sits at: its level is preset, nobody is asked.

Pure. The daemon's own writer is no part of the control plane; what both say is compared by a test.
"""

import json
from collections.abc import Sequence


def render_machine_file(
    roots: Sequence[str],
    *,
    why: str,
    allow_inferred: bool = False,
    concurrency: int | None = None,
    labels: Sequence[str] = (),
) -> str:
    """Return the file of a trusted machine whose commands work beneath ``roots``.

    ``why``: one line for whoever opens it.
    """
    lines = [
        f"# {why}",
        "# Only this file decides what may run; the control plane cannot widen it.",
        'trust_level = "trusted"',
        'chosen_by = "preset"',
        f"roots = {_list(roots)}",
        f"allow_inferred = {'true' if allow_inferred else 'false'}",
        *([] if concurrency is None else [f"concurrency = {concurrency}"]),
        *([f"labels = {_list(labels)}"] if labels else []),
    ]
    return "\n".join([*lines, ""])


def _list(texts: Sequence[str]) -> str:
    """Quote as TOML does: JSON's escapes are a subset of TOML's, except for DEL."""
    quoted = (json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f") for text in texts)
    return f"[{', '.join(quoted)}]"
