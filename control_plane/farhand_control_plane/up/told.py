"""What `up` says once everything runs: where, for whom, and what to type next."""

import ipaddress
from collections.abc import Sequence

from farhand_control_plane.config import Settings
from farhand_control_plane.ports import bracketed, reachable_host


def where_lines(
    settings: Settings, *, url: str, http_port: int, machine: str, user: str
) -> Sequence[str]:
    """Return where it runs, who else reaches it, and what its commands may do."""
    lines = [f"Farhand runs at {url} (home: {settings.home})"]
    lines += _others(settings, url, http_port)
    lines.append(
        f"This machine is {machine}; the agent runs commands here as {user}, without a sandbox. "
        f"To narrow that, edit {settings.daemon_home / 'machine.toml'}"
    )
    if not settings.model_base_url:
        lines.append(
            "No language model is set: the built-in planner understands 'run CMD on MACHINE' "
            "and little else. Set FARHAND_MODEL_BASE_URL and FARHAND_MODEL to have one."
        )
    return lines


def _others(settings: Settings, url: str, http_port: int) -> list[str]:
    """Return at which address other computers reach it, and what is the matter with that."""
    if _is_loopback(settings.bind) or settings.public_url.startswith("https://"):
        return []
    address = settings.public_url
    if not address:
        host = reachable_host(settings.bind, settings.public_host)
        address = f"http://{bracketed(host)}:{http_port}"
    also = "" if address == url else f"Other computers reach it at {address}\n"
    return [
        f"{also}Warning: other computers reach it by HTTP that is not encrypted, so whoever sees "
        "that traffic can do what you can. On a network that is not yours alone put a TLS proxy "
        "before it and set FARHAND_PUBLIC_URL to the proxy's address."
    ]


def _is_loopback(bind: str) -> bool:
    try:
        return ipaddress.ip_address(bind.strip("[]")).is_loopback
    except ValueError:
        return bind == "localhost"
