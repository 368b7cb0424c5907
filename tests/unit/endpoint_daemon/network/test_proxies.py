"""Which proxy an address has: one rule, by variables as curl knows them."""

import pytest

from farhand_daemon.network.proxies import proxy_for, proxy_refusal
from farhand_shared.errors import InvalidInput

P = "http://127.0.0.1:3128"


@pytest.mark.parametrize(
    ("environ", "variable"),
    [
        ({}, None),
        ({"https_proxy": P}, "https_proxy"),
        ({"HTTPS_PROXY": P}, "HTTPS_PROXY"),
        ({"https_proxy": P, "HTTPS_PROXY": "http://other:1"}, "https_proxy"),
        ({"https_proxy": "", "HTTPS_PROXY": P}, None),  # an empty one switches it off
        ({"http_proxy": P, "HTTP_PROXY": P}, None),  # for addresses without TLS
        ({"all_proxy": P, "grpc_proxy": P}, None),
        ({"https_proxy": P, "no_proxy": "*"}, None),
        ({"https_proxy": P, "NO_PROXY": "*"}, None),
        ({"https_proxy": P, "no_proxy": "", "NO_PROXY": "*"}, "https_proxy"),
    ],
)
def test_of_both_spellings_the_lower_case_one_counts(
    environ: dict[str, str], variable: str | None
) -> None:
    found = proxy_for("cp.example", 443, environ)
    assert (None if found is None else found.variable) == variable
    assert found is None or (found.host, found.port) == ("127.0.0.1", 3128)


def test_without_tls_it_is_the_other_variable() -> None:
    found = proxy_for("cp.example", 80, {"https_proxy": "a:1", "HTTP_PROXY": "b:2"}, tls=False)
    assert found is not None
    assert (found.host, found.port, found.variable) == ("b", 2, "HTTP_PROXY")


@pytest.mark.parametrize(
    ("exceptions", "host", "direct"),
    [
        # https://github.com/grpc/grpc/issues/9989: no_proxy ignored, names inside go to the proxy
        (".corp.example,127.0.0.0/8", "cp.corp.example", True),
        (".corp.example,127.0.0.0/8", "corp.example", True),
        (".corp.example,127.0.0.0/8", "cp.notcorp.example", False),
        (".corp.example,127.0.0.0/8", "127.9.9.9", True),
        ("corp.example", "cp.corp.example", True),
        ("corp.example", "notcorp.example", False),
        ("*.corp.example", "cp.corp.example", True),
        ("CORP.example", "cp.corp.EXAMPLE", True),
        ("corp.example.", "corp.example", True),
        ("corp.example", "corp.example.", True),
        ("a, b  c,,corp.example", "corp.example", True),
        ("corp.example:443", "corp.example", True),
        ("corp.example:8443", "corp.example", False),
        ("*", "anything.example", True),
        ("10.0.0.0/8", "10.1.2.3", True),
        ("10.0.0.0/8", "11.1.2.3", False),
        ("10.0.0.0/8", "cp.example", False),
        ("10.1.2.3", "10.1.2.3", True),
        ("10.1.2.3:443", "10.1.2.3", True),
        ("10.1.2.3:1", "10.1.2.3", False),
        ("10.1.2.3", "10.1.2.30", False),
        ("10.0.0.0/8", "::ffff:10.1.2.3", True),
        ("fd00::/8", "fd12::1", True),
        ("fd00::/8", "fe80::1", False),
        ("[fd12::1]:443", "fd12::1", True),
        ("[fd12::1]:1", "fd12::1", False),
        ("fd12::1", "fd12:0::1", True),
        ("0.0.0.0/0", "192.0.2.1", True),
        ("10.0.0.0/99", "10.1.2.3", False),
        ("10.0.0.0/x", "10.1.2.3", False),
        ("", "cp.example", False),
        (".", "cp.example", False),
    ],
)
def test_exceptions_are_names_with_what_is_below_addresses_ranges_and_ports(
    exceptions: str, host: str, direct: bool
) -> None:
    environ = {"https_proxy": P, "no_proxy": exceptions}
    assert (proxy_for(host, 443, environ) is None) == direct


@pytest.mark.parametrize("host", ["localhost", "a.localhost", "127.0.0.1", "127.1.2.3", "::1"])
def test_this_computers_own_loopback_is_direct(host: str) -> None:
    assert proxy_for(host, 443, {"https_proxy": P}) is None


def test_the_password_is_kept_and_never_shown() -> None:
    found = proxy_for("cp.example", 443, {"https_proxy": "ann:p%40ss@proxy.example"})
    assert found is not None
    assert (found.host, found.port) == ("proxy.example", 80)
    assert found.credentials == "YW5uOnBAc3M="  # ann:p@ss
    assert str(found) == "http://proxy.example:80"
    assert "YW5u" not in repr(found)


@pytest.mark.parametrize(
    ("url", "why"),
    [
        ("socks5://ann:s3cret@proxy.example:1080", "only http:// proxies are known"),
        ("https://proxy.example", "only http:// proxies are known"),
        ("http://", "names no host"),
        ("http://proxy.example:99999", "Port out of range"),
    ],
)
def test_a_proxy_that_cannot_be_asked_is_said(url: str, why: str) -> None:
    with pytest.raises(InvalidInput, match="cannot use the proxy of https_proxy") as refused:
        proxy_for("cp.example", 443, {"https_proxy": url})
    assert why in str(refused.value)
    assert "s3cret" not in str(refused.value)
    assert proxy_for("cp.example", 443, {"https_proxy": url, "no_proxy": "cp.example"}) is None


@pytest.mark.parametrize(
    ("status", "why"),
    [(407, "name and password"), (302, "redirects"), (503, "cannot reach"), (403, "let through")],
)
def test_a_refusal_says_what_to_do(status: int, why: str) -> None:
    said, what_to_do = proxy_refusal(status)
    assert why in said
    assert str(status) in said
    assert "no_proxy" in what_to_do
