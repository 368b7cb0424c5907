"""The enrolment code: a one-time secret and a pin of the server's root, in one typed line.

``FH1-`` and Crockford base32 of 16 secret bytes, 10 bytes of root pin and 2 bytes of checksum, in
groups of five. The pin is why nothing the code's reader meets on the network has to be trusted:
80 bits of a hash that only a second preimage would meet.
"""

import secrets
from dataclasses import dataclass
from hashlib import sha256
from typing import Final

from farhand_shared.errors import InvalidInput
from farhand_shared.redact import Secret

SECRET_BYTES: Final = 16
ROOT_PIN_BYTES: Final = 10
_CHECKSUM_BYTES: Final = 2
_TOTAL_BYTES: Final = SECRET_BYTES + ROOT_PIN_BYTES + _CHECKSUM_BYTES
_PREFIX: Final = "FH1"
_ALPHABET: Final = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"  # Crockford: no I, L, O, U
_CHARACTERS: Final = -(-_TOTAL_BYTES * 8 // 5)
_PADDING_BITS: Final = _CHARACTERS * 5 - _TOTAL_BYTES * 8
_GROUP: Final = 5
# What fingers and eyes confuse, and what separates groups.
_FORGIVEN: Final = str.maketrans("OIL", "011", " -\t\r\n_\N{EN DASH}\N{NON-BREAKING HYPHEN}")
_ADVICE: Final = "type it again from the screen that made it, or make a new one"


@dataclass(frozen=True, slots=True, kw_only=True)
class EnrolmentCode:
    """``secret`` opens the door once, ``root_pin`` says whose door it is."""

    secret: Secret  # 16 bytes
    root_pin: bytes  # first 10 bytes of SHA-256 over the root's SubjectPublicKeyInfo

    def pins(self, root_spki_sha256: bytes) -> bool:
        """Tell whether the code was made for the server under this root."""
        return root_spki_sha256[:ROOT_PIN_BYTES] == self.root_pin


def new_code(root_spki_sha256: bytes) -> EnrolmentCode:
    """Return a code with a fresh random secret for the server under this root."""
    return EnrolmentCode(
        secret=Secret(secrets.token_bytes(SECRET_BYTES)),
        root_pin=root_spki_sha256[:ROOT_PIN_BYTES],
    )


def format_code(code: EnrolmentCode) -> str:
    """Return the text a person copies: ``FH1-XXXXX-XXXXX-…``, 57 characters."""
    body = code.secret.reveal() + code.root_pin
    number = int.from_bytes(body + _checksum(body), "big") << _PADDING_BITS
    text = "".join(_ALPHABET[number >> 5 * place & 31] for place in range(_CHARACTERS - 1, -1, -1))
    groups = [text[start : start + _GROUP] for start in range(0, _CHARACTERS, _GROUP)]
    return "-".join([_PREFIX, *groups])


def parse_code(text: str) -> EnrolmentCode:
    """Return the code typed as ``text``, forgiving case, spaces, dashes and O/0, I/L/1.

    Raises InvalidInput for a mistype; the message never echoes the code.
    """
    typed = text.upper().translate(_FORGIVEN)
    if not typed.startswith(_PREFIX):
        raise InvalidInput(f"cannot read the enrolment code: it begins with {_PREFIX}-; {_ADVICE}")
    typed = typed.removeprefix(_PREFIX)
    if len(typed) != _CHARACTERS:
        raise InvalidInput(
            f"cannot read the enrolment code: {len(typed)} characters follow {_PREFIX} instead of"
            f" {_CHARACTERS}; {_ADVICE}"
        )
    number = 0
    for character in typed:
        value = _ALPHABET.find(character)
        if value < 0:
            raise InvalidInput(
                f"cannot read the enrolment code: it has a character that no code has; {_ADVICE}"
            )
        number = number << 5 | value
    whole = (number >> _PADDING_BITS).to_bytes(_TOTAL_BYTES, "big")
    body, checksum = whole[:-_CHECKSUM_BYTES], whole[-_CHECKSUM_BYTES:]
    if checksum != _checksum(body) or number & (1 << _PADDING_BITS) - 1:
        raise InvalidInput(
            f"cannot accept the enrolment code: it was mistyped (wrong checksum); {_ADVICE}"
        )
    return EnrolmentCode(secret=Secret(body[:SECRET_BYTES]), root_pin=body[SECRET_BYTES:])


def _checksum(body: bytes) -> bytes:
    return sha256(b"farhand/code/v1" + body).digest()[:_CHECKSUM_BYTES]
