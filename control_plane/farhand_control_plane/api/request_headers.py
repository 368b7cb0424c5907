"""A request's headers as every layer of the API reads them: one value per name."""

from collections.abc import Iterable, Mapping


def headers_of(raw: Iterable[tuple[bytes, bytes]]) -> Mapping[str, str]:
    """Return ASGI headers by lower-case name.

    Of a name that comes twice the first counts, so that no two layers can believe two different
    callers; cookies may come in several lines and are joined.
    """
    headers: dict[str, str] = {}
    for raw_name, raw_value in raw:
        name, value = raw_name.decode("latin-1"), raw_value.decode("latin-1")
        if name not in headers:
            headers[name] = value
        elif name == "cookie":
            headers[name] += f"; {value}"
    return headers


def cookies_of(headers: Mapping[str, str], name: str) -> list[str]:
    """Return the values of all cookies of that name, in their order.

    Several come when something else on this host, on whatever port, has set one for a longer path:
    nothing tells whose is whose.
    """
    values: list[str] = []
    for part in headers.get("cookie", "").split(";"):
        found, _, value = part.strip().partition("=")
        if found == name and value:
            values.append(value)
    return values
