"""Six words that two people compare: both screens show the same ones, or nobody confirms."""


def six_words(spki_der: bytes, root_spki_sha256: bytes, code_secret: bytes) -> tuple[str, ...]:
    """Return six words over the machine's public key, the server's root and the code."""
    raise NotImplementedError
