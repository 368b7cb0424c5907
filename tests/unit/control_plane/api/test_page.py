"""The page as it is served: any view's address, its files, and what is said while there is none."""

import gzip
import os
import re
from collections.abc import AsyncIterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast
from urllib.parse import unquote

import httpx2
import pytest

from farhand_control_plane.api.answer_headers import AnswerHeaders
from farhand_control_plane.api.built_page import BuiltPage
from farhand_control_plane.api.page import VIEWS
from farhand_control_plane.api.services import Services
from farhand_control_plane.app import create_api

SCRIPT = b"console.log('a page');" * 200
INDEX = '<meta name="csp-nonce" content="__CSP_NONCE__"><script src="/assets/index-1.js"></script>'


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "package" / "_page"


def build(folder: Path, index: str = INDEX, **assets: bytes) -> None:
    """Put a build in the folder's place, as the builder does."""
    fresh = folder.with_name("_page.fresh")
    (fresh / "assets").mkdir(parents=True)
    for name, content in assets.items():
        (fresh / "assets" / name.replace("__", ".")).write_bytes(content)
    (fresh / "index.html").write_text(index)
    if folder.exists():
        folder.rename(folder.with_name(f"_page.old.{os.urandom(4).hex()}"))
    fresh.rename(folder)


@pytest.fixture
async def client(folder: Path) -> AsyncIterator[httpx2.AsyncClient]:
    services = cast(Services, SimpleNamespace(page=BuiltPage(folder)))
    app: Any = AnswerHeaders(create_api(services))
    async with httpx2.AsyncClient(
        transport=httpx2.ASGITransport(app), base_url="http://farhand.test"
    ) as client:
        yield client


async def test_every_views_address_is_answered_with_the_page(client, folder) -> None:
    build(folder)
    for path in VIEWS:
        answer = await client.get(path.replace("{ticket_id}", "0190"))
        assert answer.status_code == 200, path
        assert answer.headers["content-type"] == "text/html; charset=utf-8"
        assert "/assets/index-1.js" in answer.text


async def test_the_page_may_load_its_own_files_only_and_be_framed_by_nobody(client, folder) -> None:
    build(folder)
    answer = await client.get("/chat")
    (nonce,) = re.findall(r'content="([^"]+)"', answer.text)
    assert len(nonce) >= 20
    policy = dict(
        (part.strip().partition(" ")[0], part.strip().partition(" ")[2])
        for part in answer.headers["content-security-policy"].split(";")
    )
    assert policy == {
        "default-src": "'none'",
        "script-src": "'self'",
        "style-src": f"'self' 'nonce-{nonce}'",
        "img-src": "'self' data:",
        "font-src": "'self'",
        "connect-src": "'self'",
        "base-uri": "'none'",
        "form-action": "'none'",
        "frame-ancestors": "'none'",
    }
    assert answer.headers["x-content-type-options"] == "nosniff"
    assert answer.headers["referrer-policy"] == "no-referrer"
    assert answer.headers["cross-origin-opener-policy"] == "same-origin"
    assert answer.headers["cache-control"] == "no-store"


async def test_a_nonce_is_used_once(client, folder) -> None:
    build(folder)
    assert (await client.get("/")).text != (await client.get("/")).text


async def test_files_are_kept_for_good_and_come_compressed_to_who_takes_that(
    client, folder
) -> None:
    build(folder, index__js=SCRIPT, logo__png=b"\x89PNG" * 100)
    packed = await client.get("/assets/index.js", headers={"Accept-Encoding": "br, gzip"})
    assert packed.headers["content-encoding"] == "gzip"
    assert packed.content == SCRIPT
    assert int(packed.headers["content-length"]) < len(SCRIPT) / 10
    assert packed.headers["content-type"] == "text/javascript; charset=utf-8"
    assert packed.headers["cache-control"] == "public, max-age=31536000, immutable"
    assert packed.headers["vary"] == "Accept-Encoding"
    assert packed.headers["x-content-type-options"] == "nosniff"
    for refused in ("identity", "", "br", "gzip;q=0", "gzip; q=0.000, br"):
        plain = await client.get("/assets/index.js", headers={"Accept-Encoding": refused})
        assert "content-encoding" not in plain.headers, refused
        assert plain.content == SCRIPT
        assert plain.headers["vary"] == "Accept-Encoding"
        assert plain.headers["etag"] == packed.headers["etag"]
    image = await client.get("/assets/logo.png", headers={"Accept-Encoding": "gzip"})
    assert image.headers["content-type"] == "image/png"
    assert "content-encoding" not in image.headers


async def test_who_has_a_file_already_is_told_so(client, folder) -> None:
    build(folder, index__js=SCRIPT)
    etag = (await client.get("/assets/index.js")).headers["etag"]
    for named in (etag, etag.removeprefix("W/"), f'"x", {etag}', "*"):
        answer = await client.get("/assets/index.js", headers={"If-None-Match": named})
        assert (answer.status_code, answer.content) == (304, b""), named
        assert answer.headers["etag"] == etag
        assert "immutable" in answer.headers["cache-control"]
    answer = await client.get("/assets/index.js", headers={"If-None-Match": '"other"'})
    assert answer.status_code == 200


async def test_head_is_answered_as_get_without_the_body(client, folder) -> None:
    build(folder, index__js=SCRIPT)
    for path in ("/", "/sign-in", "/assets/index.js"):
        answer = await client.head(path)
        assert answer.status_code == 200
        assert int(answer.headers["content-length"]) > 0


@pytest.mark.parametrize(
    "path",
    [
        "/assets/../index.html",
        "/assets/%2e%2e/index.html",
        "/assets/..%2findex.html",
        "/assets/..%2f..%2fsecret",
        "/assets/%2fetc%2fpasswd",
        "/assets//etc/passwd",
        "/assets/..",
        "/assets/.",
        "/assets/%00",
        "/assets/index.js%00.png",
        "/assets/index.js/",
        "/assets/link.js",
        "/assets/",
        "/assets",
        "/index.html",
        "/.source",
        "/chat/",
        "/tickets/a/b",
    ],
)
async def test_nothing_but_the_pages_own_files_is_served(folder, path: str) -> None:
    """Asked as the server asks, with the path as it came: clients tidy theirs up."""
    build(folder, index__js=SCRIPT)
    (folder.parent / "secret").write_text("hidden")
    (folder / "assets" / "link.js").symlink_to(folder.parent / "secret")
    api: Any = create_api(cast(Services, SimpleNamespace(page=BuiltPage(folder))))
    sent: list[Any] = []
    scope = {"type": "http", "method": "GET", "path": unquote(path), "raw_path": path.encode()}
    rest = {"scheme": "http", "query_string": b"", "headers": [(b"host", b"farhand.test")]}

    async def receive() -> Any:
        return {"type": "http.request", "body": b"", "more_body": False}

    async def send(message: Any) -> None:
        sent.append(message)

    await api({**scope, **rest}, receive, send)
    body = b"".join(message.get("body", b"") for message in sent)
    assert sent[0]["status"] in (404, 307), body  # 307: the same without the last slash
    assert b"hidden" not in body
    assert SCRIPT not in body


async def test_a_new_build_is_served_as_soon_as_it_is_in_place(client, folder) -> None:
    build(folder, index="one", old__js=b"old")
    assert (await client.get("/")).text == "one"
    build(folder, index="two", new__js=b"new")
    assert (await client.get("/assets/new.js")).content == b"new"  # before the page itself is asked
    assert (await client.get("/")).text == "two"
    assert (await client.get("/assets/old.js")).status_code == 404


async def test_while_a_build_is_put_in_place_the_one_before_is_served(client, folder) -> None:
    build(folder, index="one", a__js=b"a")
    assert (await client.get("/")).text == "one"
    folder.rename(folder.with_name("_page.old"))
    assert (await client.get("/")).text == "one"
    assert (await client.get("/assets/a.js")).content == b"a"
    assert (await client.get("/assets/b.js")).status_code == 404


async def test_while_no_page_is_built_that_is_said_and_looked_at_again(client, folder) -> None:
    for path in VIEWS:
        answer = await client.get(path)
        assert answer.status_code == 503
        assert answer.headers["content-type"] == "text/html; charset=utf-8"
        assert "The page is being built" in answer.text
        assert '<noscript><meta http-equiv="refresh" content="2"></noscript>' in answer.text
        (nonce,) = re.findall(r'<style nonce="([^"]+)"', answer.text)
        assert f"'nonce-{nonce}'" in answer.headers["content-security-policy"]
        (script,) = re.findall(r'<script src="([^"]+)" type="module"></script>', answer.text)
        assert answer.text.count("<script") == 1  # none inline
    looks = await client.get(script)
    assert looks.status_code == 200
    assert looks.headers["content-type"] == "text/javascript; charset=utf-8"
    assert looks.headers["cache-control"] == "no-store"
    assert "location.reload()" in looks.text  # which keeps the token in the fragment
    assert (await client.get("/assets/index.js")).status_code == 404
    build(folder)
    assert (await client.get("/chat")).status_code == 200


async def test_a_build_that_failed_is_told_with_its_reason_as_text(client, folder) -> None:
    folder.parent.mkdir(parents=True)
    folder.with_name("_page.failed").write_text("npm said <script>alert(1)</script> & stopped")
    answer = await client.get("/chat")
    assert answer.status_code == 503
    assert "could not be built" in answer.text
    assert "npm said &lt;script&gt;alert(1)&lt;/script&gt; &amp; stopped" in answer.text
    build(folder)  # an older page is better than none
    assert (await client.get("/chat")).status_code == 200


async def test_what_is_stored_compressed_is_what_was_built(folder) -> None:
    build(folder, index__js=SCRIPT)
    asset = await BuiltPage(folder).asset("index.js")
    assert asset is not None
    assert asset.compressed is not None
    assert gzip.decompress(asset.compressed) == SCRIPT


@pytest.mark.parametrize("program", ["farhand", ".venv/bin/farhand"])
async def test_every_document_says_how_the_program_is_called_here(
    client, folder, monkeypatch: pytest.MonkeyPatch, program: str
) -> None:
    for module in ("page", "waiting_page"):
        monkeypatch.setattr(f"farhand_control_plane.api.{module}.for_strangers", lambda: program)
    waiting = (await client.get("/")).text
    assert f"<code>{program} chat</code>" in waiting
    assert ("in the folder of Farhand's checkout" in waiting) is (program != "farhand")
    folder.parent.mkdir(parents=True, exist_ok=True)
    folder.with_name("_page.failed").write_text("no {network} <here>")
    failed = (await client.get("/")).text
    assert f"<code>{program} up</code>" in failed
    assert "no {network} &lt;here&gt;" in failed
    build(folder, '<meta name="farhand-program" content="__FARHAND_PROGRAM__">')
    assert (await client.get("/")).text == f'<meta name="farhand-program" content="{program}">'
