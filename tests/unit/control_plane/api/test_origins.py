"""Which page sent a request, and at which address people reach us."""

import pytest

from farhand_control_plane.api.origins import WrongOrigin, base_url, check_same_origin, is_https
from farhand_control_plane.api.request_headers import cookies_of, headers_of


@pytest.mark.parametrize(
    ("headers", "public_url"),
    [
        ({"sec-fetch-site": "same-origin"}, ""),
        # A proxy that gives its own name for the host.
        (
            {
                "sec-fetch-site": "same-origin",
                "origin": "https://far.hand",
                "host": "127.0.0.1:8420",
            },
            "",
        ),
        ({"origin": "https://far.hand", "host": "127.0.0.1:8420"}, "https://far.hand"),
        ({"origin": "https://far.hand", "host": "127.0.0.1:8420"}, "https://FAR.hand:443"),
        ({"origin": "http://10.0.0.7:8420", "host": "10.0.0.7:8420"}, ""),
        ({"origin": "http://Box.local:8420", "host": "box.LOCAL:8420"}, ""),
        ({"origin": "http://box", "host": "box:80"}, ""),
        ({"origin": "https://box", "host": "box:443"}, ""),
        ({"origin": "https://box", "host": "box"}, ""),  # TLS ended before us, and nobody told us
        ({"origin": "http://[::1]:8420", "host": "[::1]:8420"}, ""),
    ],
)
def test_our_own_page_is_known(headers: dict[str, str], public_url: str) -> None:
    check_same_origin(headers, public_url)


@pytest.mark.parametrize(
    ("headers", "public_url"),
    [
        ({}, ""),
        ({"host": ""}, ""),
        ({"origin": "", "host": ""}, ""),
        ({"origin": "null", "host": "null"}, ""),
        ({"origin": "http://", "host": ""}, ""),
        ({"origin": "http://evil", "host": "box"}, "http://far.hand"),
        ({"origin": "http://box:81", "host": "box"}, ""),
        ({"origin": "http://box:443", "host": "box"}, ""),
        ({"origin": "http://box.evil", "host": "box"}, ""),
        ({"origin": "http://box@evil", "host": "box"}, ""),
        ({"origin": "http://[::1", "host": "[::1"}, ""),
        ({"sec-fetch-site": "same-site", "origin": "http://box", "host": "box"}, ""),
        ({"sec-fetch-site": "cross-site", "origin": "http://box", "host": "box"}, ""),
        ({"sec-fetch-site": "none", "origin": "http://box", "host": "box"}, ""),
    ],
)
def test_another_page_is_not_ours(headers: dict[str, str], public_url: str) -> None:
    with pytest.raises(WrongOrigin, match="comes from another page"):
        check_same_origin(headers, public_url)


@pytest.mark.parametrize(
    ("headers", "scheme", "public_url", "https"),
    [
        ({}, "http", "", False),
        ({}, "https", "", True),
        ({}, "http", "https://far.hand", True),
        ({"x-forwarded-proto": "https"}, "http", "", True),
        ({"x-forwarded-proto": "http"}, "http", "https://far.hand", False),
        ({"origin": "https://far.hand"}, "http", "", True),
        ({"origin": "http://127.0.0.1:8420"}, "http", "https://far.hand", False),
        ({"origin": "null", "x-forwarded-proto": "https"}, "http", "", True),
    ],
)
def test_https_is_what_the_page_itself_or_else_the_last_proxy_says(
    headers: dict[str, str], scheme: str, public_url: str, https: bool
) -> None:
    assert is_https(headers, scheme, public_url) is https


def test_the_address_is_the_operators_or_else_the_one_that_was_asked() -> None:
    assert base_url({"host": "box:8420"}, "http", "") == "http://box:8420"
    assert base_url({"host": "box:8420"}, "http", "https://far.hand") == "https://far.hand"
    forwarded = {"host": "far.hand", "x-forwarded-proto": "https"}
    assert base_url(forwarded, "http", "") == "https://far.hand"


def test_of_a_header_that_comes_twice_the_first_counts_and_cookies_are_joined() -> None:
    headers = headers_of(
        [
            (b"authorization", b"Bearer one"),
            (b"cookie", b"a=1; b=2"),
            (b"authorization", b"Bearer two"),
            (b"cookie", b"c=3"),
        ]
    )
    assert headers["authorization"] == "Bearer one"
    assert [cookies_of(headers, name) for name in "abcd"] == [["1"], ["2"], ["3"], []]


@pytest.mark.parametrize(
    ("line", "values"),
    [
        ("farhand=x", ["x"]),
        ("xfarhand=1;farhand=x", ["x"]),
        ("farhand2=1; farhand=x=y", ["x=y"]),
        ("farhand=another's; farhand=ours", ["another's", "ours"]),
        ("a; farhand; farhand=; b", []),
        (";;", []),
        ("", []),
    ],
)
def test_a_cookie_is_found_by_its_whole_name(line: str, values: list[str]) -> None:
    assert cookies_of({"cookie": line}, "farhand") == values
