"""A person at a page: Debian's Chromium, signed in by the link that `farhand up` prints.

Whatever a page must never do is noted while it is open (`Sitting.faults`): reach beyond this
machine, break its own content policy, throw, or be answered with an error of ours.
"""

import contextlib
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from chromium import FLAGS, PROGRAM
from playwright.sync_api import Browser, BrowserContext, Page, Request, Response, sync_playwright

from tests.e2e.system import PATIENCE_S, Running, System

ROOT = Path(__file__).resolve().parents[2]
AXE = ROOT / "control_plane" / "dashboard" / "node_modules" / "axe-core" / "axe.min.js"
LINK = re.compile(r"http://\S+/sign-in#\S+")


@contextlib.contextmanager
def chromium() -> Iterator[Browser]:
    """Start the browser; skip where there is none."""
    if PROGRAM is None:
        pytest.skip("no Chromium on PATH: install Debian's package chromium to test the page")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=PROGRAM, args=FLAGS)
        try:
            yield browser
        finally:
            browser.close()


@dataclass(kw_only=True)  # no slots: Playwright notes wrappers on the object
class Sitting:
    """One browser profile with one page open on it."""

    context: BrowserContext
    page: Page
    url: str  # of the server, without a path
    faults: list[str] = field(default_factory=list)
    away: bool = False  # while the server is killed on purpose, failed requests are no fault

    def watch(self) -> None:
        self.page.on("request", self._request)
        self.page.on("response", self._response)
        self.page.on("console", self._said)
        self.page.on("pageerror", lambda error: self.faults.append(f"threw: {error}"))

    def _request(self, request: Request) -> None:
        parts = urlsplit(request.url)
        ours = urlsplit(self.url)
        if parts.scheme in ("http", "https", "ws") and parts.netloc != ours.netloc:
            self.faults.append(f"reached out: {request.url}")

    def _response(self, response: Response) -> None:
        if response.status >= 400 and not self.away:
            self.faults.append(f"{response.status}: {response.request.method} {response.url}")

    def _said(self, message: object) -> None:
        kind, text = getattr(message, "type", ""), getattr(message, "text", "")
        if kind in ("error", "warning") and not (self.away and "Failed to load" in text):
            self.faults.append(f"{kind}: {text}")

    def go(self, view: str) -> None:
        """Choose a view as a person does."""
        self.page.get_by_role("link", name=view, exact=True).first.click()

    def say(self, text: str) -> None:
        """Send a message in the chat."""
        box = self.page.get_by_role("textbox", name="Message")
        box.fill(text)
        self.page.get_by_role("button", name="Send", exact=True).click()

    def accessibility_faults(self) -> list[str]:
        """Return what axe finds serious or critical on the page as it stands."""
        if not AXE.exists():
            pytest.skip(f"axe-core is not installed: {AXE.parent} is made by scripts/check")
        # Not as a script element, which the page's own policy rightly refuses.
        self.page.evaluate(AXE.read_text(encoding="utf-8") + "; 0")
        found = self.page.evaluate("axe.run(document, {resultTypes: ['violations']})")
        return [
            f"{one['id']}: {node['html']}"
            for one in found["violations"]
            if one["impact"] in ("serious", "critical")
            for node in one["nodes"]
        ]


def link_of(up: Running) -> str:
    """Return the one-time link that `farhand up` printed."""
    found = LINK.search(up.wait_for("/sign-in#"))
    assert found is not None, up.text
    return found.group()


def new_link(system: System) -> str:
    """Return another one-time link."""
    made = system.farhand("sign-in")
    found = LINK.search(made.out)
    assert found is not None, made.out + made.err
    return found.group()


@contextlib.contextmanager
def sitting(
    browser: Browser,
    link: str,
    *,
    width: int = 1280,
    height: int = 900,
    scheme: str = "light",
) -> Iterator[Sitting]:
    """Open a fresh profile and sign in with a link."""
    url = link.partition("/sign-in#")[0]
    context = browser.new_context(
        viewport={"width": width, "height": height},
        color_scheme="dark" if scheme == "dark" else "light",
        permissions=["clipboard-read", "clipboard-write"],
        reduced_motion="reduce",
    )
    context.set_default_timeout(PATIENCE_S * 1000)
    try:
        one = Sitting(context=context, page=context.new_page(), url=url)
        one.watch()
        one.page.goto(link)
        one.page.get_by_role("textbox", name="Message").wait_for()
        yield one
    finally:
        context.close()
