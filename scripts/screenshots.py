#!/usr/bin/env python3
"""Pictures of every view of the page, narrow and wide, light and dark, to be looked at.

    .venv/bin/python scripts/screenshots.py FOLDER [--home FOLDER]

Brings up a system of its own in a fresh home, gives it something to show (a finished job, a running
one, a question, a machine that is offline with work waiting, one that waits for its six words) and
takes the pictures in Chromium. Needs the developer tools (scripts/test installs them) and a
Chromium on PATH.
"""

import argparse
import contextlib
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from chromium import FLAGS, PROGRAM
from playwright.sync_api import Browser, Page, sync_playwright

FARHAND = [sys.executable, "-m", "farhand_control_plane"]
FARHANDD = [sys.executable, "-m", "farhand_daemon"]
SIZES = {"360": (360, 740), "1440": (1440, 900)}
PATIENCE_S = 120.0
COLOURS = (
    "run printf '\\033[1mcollecting\\033[0m 214 tests\\n"
    "\\033[32mtest_domain.py ......... ok\\033[0m\\n"
    "\\033[33mwarning: one test is slow\\033[0m\\n"
    "\\033[31mtest_link.py ..F.\\033[0m\\n'; seq 1 40 | sed 's/^/line /'"
)


def until(what: str, found: Callable[[], Any]) -> Any:
    """Return the first true answer."""
    deadline = time.monotonic() + PATIENCE_S
    while not (answer := found()):
        if time.monotonic() > deadline:
            raise SystemExit(f"screenshots: not within {PATIENCE_S:.0f} s: {what}")
        time.sleep(0.1)  # between two looks
    return answer


class Scene:
    """A system with something to see in it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.env = {k: v for k, v in os.environ.items() if not k.startswith("FARHAND")}
        self.env["FARHAND_HOME"] = str(folder / "home")
        self.log = folder / "up.log"
        with self.log.open("w") as log:
            self.up = subprocess.Popen([*FARHAND, "up"], env=self.env, stdout=log, stderr=log)
        until("farhand up", lambda: self.up.poll() or "Ctrl-C" in self.log.read_text())
        if self.up.poll() is not None:
            raise SystemExit(f"screenshots: farhand up has ended: {self.log.read_text()}")
        until("the page", lambda: any(folder.glob("home/local.json")))
        local = json.loads((folder / "home" / "local.json").read_text())
        self.url, self.own = str(local["url"]), str(local["machine_name"])

    def farhand(self, *arguments: str) -> str:
        done = subprocess.run([*FARHAND, *arguments], env=self.env, capture_output=True, text=True)
        return done.stdout

    def items(self, *arguments: str) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = json.loads(self.farhand(*arguments, "--json"))["items"]
        return found

    def link(self) -> str:
        found = re.search(r"http\S+/sign-in#\S+", self.farhand("sign-in"))
        assert found is not None
        return found.group()

    @contextlib.contextmanager
    def enrolling(self, name: str) -> Iterator[subprocess.Popen[str]]:
        """A machine that shows its six words and waits for them to be confirmed."""
        code = json.loads(self.farhand("machines", "add", "--name", name, "--json"))["code"]
        process = subprocess.Popen(
            [*FARHANDD, "enroll", self.url, "--home", str(self.folder / name)],
            env=self.env,
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            text=True,
        )
        assert process.stdin is not None
        process.stdin.write(f"{code}\nyes\n")
        process.stdin.close()
        until(name, lambda: any(m["name"] == name for m in self.items("machines", "list")))
        try:
            yield process
        finally:
            process.terminate()
            process.wait()

    def add_offline(self, name: str) -> None:
        """Add a machine that was here, and is not any more."""
        with self.enrolling(name) as process:
            subprocess.run(
                [*FARHAND, "machines", "confirm", name],
                env=self.env,
                input="yes\n",
                capture_output=True,
                text=True,
                check=True,
            )
            process.wait(PATIENCE_S)
        daemon = subprocess.Popen(
            [*FARHANDD, "run", "--home", str(self.folder / name)],
            env=self.env,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        until(f"{name} online", lambda: self._presence(name) == "online")
        daemon.send_signal(signal.SIGTERM)
        daemon.wait()
        until(f"{name} offline", lambda: self._presence(name) == "offline")

    def _presence(self, name: str) -> str:
        return next(str(m["presence"]) for m in self.items("machines", "list") if m["name"] == name)

    def close(self) -> None:
        self.up.send_signal(signal.SIGINT)
        self.up.wait()
        home_id = self.folder / "home" / "home_id"
        if os.getuid() == 0 and home_id.exists():
            shutil.rmtree(Path("/var/lib/farhand") / home_id.read_text().strip())


def shoot(page: Page, folder: Path, name: str) -> None:
    page.wait_for_timeout(400)  # what slides in has arrived, fonts are drawn
    page.screenshot(path=folder / f"{name}.png")
    print(folder / f"{name}.png", flush=True)


def pictures(browser: Browser, scene: Scene, folder: Path, size: str, scheme: str) -> None:
    width, height = SIZES[size]
    context = browser.new_context(
        viewport={"width": width, "height": height},
        color_scheme="dark" if scheme == "dark" else "light",
        device_scale_factor=2 if size == "360" else 1,
    )
    page = context.new_page()

    def picture(name: str) -> None:
        shoot(page, folder, f"{name}-{size}-{scheme}")

    link = scene.link()
    page.goto(f"{scene.url}/chat")
    page.get_by_text("sign", exact=False).first.wait_for()
    picture("signed-out")
    page.goto(link)
    page.get_by_role("textbox", name="Message").wait_for()
    page.get_by_role("log").last.wait_for()
    picture("chat")
    page.goto(f"{scene.url}/machines")
    page.get_by_role("article").first.wait_for()
    picture("machines")
    page.get_by_role("button", name="Add a machine").first.click()
    dialog = page.get_by_role("dialog", name="Add a machine")
    dialog.get_by_label("Six words").wait_for()
    picture("add-a-machine-words")
    dialog.get_by_role("button", name="add another computer").click()
    dialog.get_by_label("Code", exact=True).wait_for()
    picture("add-a-machine")
    page.goto(f"{scene.url}/tickets")
    page.get_by_role("link", name=re.compile("collecting|uname")).first.wait_for()
    picture("tickets")
    for ticket in scene.items("tickets", "list"):
        page.goto(f"{scene.url}/tickets/{ticket['id']}")
        page.get_by_role("heading", level=1).wait_for()
        standing = ticket["needs"] or ticket["outcome"] or ticket["stage"]
        picture(f"ticket-{'failed' if ticket['failed_commands'] else standing}")
    page.goto(f"{scene.url}/tickets/00000000-0000-7000-8000-000000000000")
    picture("ticket-absent")
    context.close()


def set_the_scene(scene: Scene) -> None:
    scene.farhand("chat", "which machines do I have?")
    scene.farhand("chat", f"{COLOURS} on {scene.own}")
    scene.farhand("chat", f"run cat /no/such/file on {scene.own}")
    scene.farhand("chat", "run make test")  # names no machine: a question
    scene.add_offline("laptop")
    for text in (
        "run git pull --rebase on laptop",
        f"run i=0; while [ $i -lt 999 ]; do i=$((i+1)); echo step $i; sleep 1; done on {scene.own}",
    ):
        subprocess.Popen(
            [*FARHAND, "chat", text],
            env=scene.env,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
    until("it runs", lambda: any(t["stage"] == "working" for t in scene.items("tickets", "list")))


def main() -> None:
    options = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    options.add_argument("folder", type=Path)
    options.add_argument("--only", help="such as 1440-dark")
    asked = options.parse_args()
    if PROGRAM is None:
        raise SystemExit("screenshots: no Chromium on PATH; install Debian's package chromium")
    asked.folder.mkdir(parents=True, exist_ok=True)
    scratch = Path(tempfile.mkdtemp(prefix="farhand-screenshots-"))
    scene = Scene(scratch)
    try:
        set_the_scene(scene)
        with scene.enrolling("build-box"), sync_playwright() as playwright:
            browser = playwright.chromium.launch(executable_path=PROGRAM, args=FLAGS)
            for size in SIZES:
                for scheme in ("light", "dark"):
                    if asked.only in (None, f"{size}-{scheme}"):
                        pictures(browser, scene, asked.folder, size, scheme)
            browser.close()
    finally:
        scene.close()
        shutil.rmtree(scratch, ignore_errors=True)


if __name__ == "__main__":
    main()
