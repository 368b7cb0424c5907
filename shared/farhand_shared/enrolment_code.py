"""The enrolment code: a one-time secret and a pin of the server's root, in one typed line."""

from dataclasses import dataclass

from farhand_shared.redact import Secret


@dataclass(frozen=True, slots=True, kw_only=True)
class EnrolmentCode:
    """``secret`` opens the door once, ``root_pin`` says whose door it is."""

    secret: Secret  # 16 bytes
    root_pin: bytes  # first 10 bytes of SHA-256 over the root's SubjectPublicKeyInfo


def new_code(root_spki_sha256: bytes) -> EnrolmentCode:
    """Return a code with a fresh random secret for the server under this root."""
    raise NotImplementedError


def format_code(code: EnrolmentCode) -> str:
    """Return the text a person copies: ``FH1-XXXXX-XXXXX-…``."""
    raise NotImplementedError


def parse_code(text: str) -> EnrolmentCode:
    """Return the code typed as ``text``, forgiving case, spaces, dashes and O/0, I/L/1.

    Raises InvalidInput for a mistype; the message never echoes the code.
    """
    raise NotImplementedError
