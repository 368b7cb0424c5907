"""Verbs with one look: plain help, the same as the verbs that are parsed by hand have."""

import re
from typing import Any

import typer
from typer.core import TyperCommand


def group(about: str, name: str | None = None) -> typer.Typer:
    """Return an empty group of verbs; make each with ``cls=Verb``."""
    return typer.Typer(
        name=name,
        help=about,
        no_args_is_help=True,
        pretty_exceptions_enable=False,
        rich_markup_mode=None,
        context_settings={"help_option_names": ["--help", "-h"], "max_content_width": 100},
    )


class Verb(TyperCommand):
    """A verb whose help names arguments in words: ``[TICKET]``, not ``{TICKET} <str>``."""

    def get_help(self, ctx: Any) -> str:  # the parser's context, whose home moves with its releases
        text = super().get_help(ctx)
        text = re.sub(r"\{([\w:\[\]]+)\}|\[\[(\w+)\]\]", _in_words, text)
        text = re.sub(r"(\d+)<=x<=(\d+)", r"\1 to \2", text)
        text = re.sub(r"x>=(\d+)", r"\1 or more", text)
        return re.sub(r"^(  \S+) <\w+>", r"\1", text, flags=re.MULTILINE)


def _in_words(found: re.Match[str]) -> str:
    required, optional = found.groups()
    return str(required) if required else f"[{optional}]"
