"""Listings and matches as people read them."""

import json
from typing import Any

from farhand_control_plane.client.file_lines import entry_line, for_people, moment

_LINK = {"path": "now", "type": "link", "mode": "0777", "size": 4, "target": "a.py"}


def _answer(*lines: dict[str, Any]) -> bytes:
    return b"".join(json.dumps(line).encode() + b"\n" for line in lines)


def test_a_listing_is_names_and_the_rest_is_said() -> None:
    odd = {"path": "caf\ufffd", "path_base64": "Y2Fm6Q==", "type": "file"}
    data = _answer({"path": "src", "type": "folder"}, odd, {"more": True, "after": "x"})
    assert for_people("list", data) == b"src/\n" + b"caf\xe9\n" + "… and more\n".encode()


def test_a_match_says_where_it_is_and_that_it_was_cut() -> None:
    found = {"path": "a", "line": 3, "column": 1, "text": "import", "cut": True}
    assert for_people("search", _answer(found, {"more": False})) == "a:3:import…\n".encode()


def test_what_is_no_listing_or_not_whole_is_itself() -> None:
    assert for_people("read", b'{"path": "\n') == b'{"path": "\n'
    assert for_people("list", b'{"path": ') == b'{"path": '
    assert for_people("list", b"") == b""


def test_a_long_entry_has_kind_mode_size_time_and_where_a_link_leads() -> None:
    line = entry_line({**_LINK, "modified_ms": 1_700_000_000_000}, long=True)
    assert line == f"l 0777               4 {moment(1_700_000_000_000)}  now -> a.py".encode()
