"""Labels of machines: ``build`` or ``team=infra``, as the machine's file and people write them."""

import re
from collections.abc import Iterable
from typing import Final

from farhand_shared.errors import InvalidInput

LABELS_MAX: Final = 64
# What a selector can name without quotes.
_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._/+-]{0,62}")
_VALUE_MAX: Final = 128


def is_label_name(text: str) -> bool:
    """Whether a label may be called so."""
    return _NAME.fullmatch(text) is not None


def parse_label(text: str) -> tuple[str, str]:
    """Return name and value, "" where none is written; raise InvalidInput."""
    name, _, value = text.partition("=")
    if not is_label_name(name):
        raise InvalidInput(
            f"cannot use label {text[:80]!r}: its name is 1 to 63 letters, digits and . _ / + -, "
            "beginning with a letter or digit; write build or team=infra"
        )
    if len(value) > _VALUE_MAX or not value.isprintable():
        raise InvalidInput(
            f"cannot use label {name}: its value is at most {_VALUE_MAX} printable characters"
        )
    return name, value


def parse_labels(texts: Iterable[str]) -> dict[str, str]:
    """Return all labels; a later one of the same name wins. Raises InvalidInput."""
    labels = dict(map(parse_label, texts))
    if len(labels) > LABELS_MAX:
        raise InvalidInput(f"cannot use {len(labels)} labels: a machine has at most {LABELS_MAX}")
    return labels
