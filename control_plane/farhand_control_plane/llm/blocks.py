"""Blocks: how an object is shown to a model, and read back by the offline planner.

A block is ``<tag key="value">text</tag>`` on lines of its own. Text from people, files and commands
is escaped, so nothing that somebody wrote can open or close a block: it stays quoted data.
"""

import html
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

_BLOCK = re.compile(
    r"<(?P<tag>[a-z_]+)(?P<attrs>(?: [a-z_0-9]+=\"[^\"<>]*\")*)"
    r"(?:/>|>\n?(?P<text>[^<]*)</(?P=tag)>)"
)
_ATTR = re.compile(r" ([a-z_0-9]+)=\"([^\"<>]*)\"")


@dataclass(frozen=True, slots=True, kw_only=True)
class Block:
    """One object as a model sees it; ``text`` is unescaped."""

    tag: str
    attrs: Mapping[str, str]
    text: str = ""


def render(tag: str, text: str | None = None, /, **attrs: object) -> str:
    """Return a block; attributes that are None are left out."""
    shown = "".join(
        f' {key}="{html.escape(str(value), quote=True)}"'
        for key, value in attrs.items()
        if value is not None
    )
    if text is None:
        return f"<{tag}{shown}/>"
    return f"<{tag}{shown}>\n{html.escape(text, quote=False)}\n</{tag}>"


def parse(text: str) -> Iterator[Block]:
    """Yield the blocks in a text, in order; what is not a block is skipped."""
    for match in _BLOCK.finditer(text):
        attrs = {key: html.unescape(value) for key, value in _ATTR.findall(match["attrs"])}
        body = html.unescape(match["text"] or "")
        yield Block(tag=match["tag"], attrs=attrs, text=body.removesuffix("\n"))
