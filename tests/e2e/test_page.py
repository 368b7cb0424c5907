"""The page in a real browser: sign in, add a machine, ask, watch, stop."""

import os
import re
import signal
import subprocess
from collections.abc import Callable, Iterator

import pytest
from playwright.sync_api import Browser, Locator, expect

from tests.e2e import browser as browsers
from tests.e2e.browser import Sitting
from tests.e2e.system import Running, System, User, until

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(400)]

SECOND = "second"


@pytest.fixture(scope="module")
def user() -> User:
    """One account is enough: what a page does is the same for every account of the server."""
    return User.current()


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    expect.set_options(timeout=30_000)
    with browsers.chromium() as running:
        yield running


@pytest.fixture(scope="module")
def up(system: System) -> Iterator[Running]:
    with system.up() as running:
        yield running


@pytest.fixture(scope="module")
def first_link(up: Running) -> str:
    return browsers.link_of(up)


@pytest.fixture(scope="module")
def sitting(browser: Browser, first_link: str) -> Iterator[Sitting]:
    """The person who ran `farhand up` and followed the link that it printed."""
    with browsers.sitting(browser, first_link) as one:
        yield one


@pytest.fixture(autouse=True)
def _no_fault(sitting: Sitting) -> Iterator[None]:
    """Whatever a test does: the page reaches nothing else, breaks no policy, throws nothing."""
    sitting.faults.clear()
    yield
    assert sitting.faults == []


@pytest.fixture(scope="module")
def second(new_system: Callable[..., System], sitting: Sitting) -> Iterator[System]:
    """A second machine, added by what the page shows, with the daemon's wheel and nothing else."""
    other = new_system(distribution="farhand-daemon")
    other.environ["FARHAND_DAEMON_HOME"] = str(other.folder / "daemon home")
    sitting.go("Machines")
    sitting.page.get_by_role("button", name="Add a machine").first.click()
    dialog = sitting.page.get_by_role("dialog", name="Add a machine")
    line = dialog.get_by_label("Command to run there", exact=True)
    expect(line).to_have_value(f"curl -fsSL {sitting.url}/install.sh | sh")
    code = dialog.get_by_label("Code", exact=True).input_value()

    enrolling = other.start(
        "farhandd", "enroll", sitting.url, "--name", SECOND, stdin=subprocess.PIPE
    )
    assert enrolling.process.stdin is not None
    enrolling.process.stdin.write(f"{code}\nyes\n".encode())
    enrolling.process.stdin.close()
    there = enrolling.wait_for("Six words").partition(": ")[2].split()
    shown = dialog.get_by_label("Six words").get_by_role("listitem")
    expect(shown).to_have_count(6)
    assert [re.sub(r"[^a-z]", "", one.lower()) for one in shown.all_inner_texts()] == there
    dialog.get_by_role("button", name="Words match").click()
    assert enrolling.ended() == 0, enrolling.text

    running = other.start("farhandd", "run")
    expect(dialog).to_contain_text("Online")
    sitting.page.keyboard.press("Escape")
    expect(dialog).to_have_count(0)
    yield other
    if running.process.poll() is None:
        running.process.send_signal(signal.SIGTERM)
    running.ended()


def machine(sitting: Sitting, name: str) -> Locator:
    return sitting.page.get_by_role("article", name=name, exact=True)


def output(sitting: Sitting) -> Locator:
    """The newest command's output on the page."""
    return sitting.page.get_by_role("log", name=re.compile("^Output of")).last


def whole_output(sitting: Sitting) -> str:
    """What a person gets who copies the newest command's output."""
    sitting.page.get_by_role("button", name="Copy output").last.click()
    expect(sitting.page.get_by_role("button", name="Copied").last).to_be_visible()
    return str(sitting.page.evaluate("navigator.clipboard.readText()"))


def card(sitting: Sitting, title: str) -> Locator:
    """The newest ticket of this title in the chat."""
    return sitting.page.get_by_role("article", name=re.compile(re.escape(title))).last


def test_a_machine_is_added_by_what_the_page_shows_and_runs_its_first_command(
    sitting: Sitting, second: System
) -> None:
    expect(machine(sitting, SECOND)).to_contain_text("Online")
    machine(sitting, SECOND).get_by_role("link", name=re.compile("Ask it to do")).click()
    box = sitting.page.get_by_role("textbox", name="Message")
    expect(box).to_have_value(f"on {SECOND}: ")
    sitting.say(f"run echo forty-$((40 + 2)) && pwd on {SECOND}")
    expect(output(sitting)).to_contain_text("forty-42")
    expect(output(sitting)).to_contain_text(str(second.folder))


def test_a_request_that_names_no_machine_is_a_question_answered_in_place(
    sitting: Sitting, second: System
) -> None:
    sitting.go("Chat")
    sitting.say("run echo asked-$((1 + 1))")
    question = sitting.page.get_by_role("region", name=re.compile("You named no machine")).last
    question.get_by_role("button", name=SECOND, exact=True).click()
    expect(output(sitting)).to_contain_text("asked-2")
    expect(card(sitting, "echo asked-")).to_contain_text("Done")


def test_a_replica_killed_during_live_output_loses_and_doubles_nothing(
    sitting: Sitting, second: System, system: System
) -> None:
    sitting.go("Chat")
    sitting.say(f"run for i in $(seq 1 80); do echo line $i; sleep 0.1; done on {SECOND}")
    expect(output(sitting)).to_contain_text("line 10")
    sitting.away = True
    os.kill(system.pid_of("server"), signal.SIGKILL)
    expect(output(sitting)).to_contain_text("line 80")
    expect(card(sitting, "for i in")).to_contain_text("Done")
    copied = whole_output(sitting).rstrip("\n").split("\n")
    assert copied == [f"line {number}" for number in range(1, 81)]
    sitting.away = False
    # The page goes on as before: nothing was loaded again, and what is said now arrives once.
    sitting.say(f"run echo after-$((3 * 3)) on {SECOND}")
    expect(output(sitting)).to_contain_text("after-9")
    messages = sitting.page.get_by_text(f"run echo after-$((3 * 3)) on {SECOND}", exact=True)
    expect(messages).to_have_count(1)


def test_a_ticket_is_stopped_and_its_command_with_it(sitting: Sitting, second: System) -> None:
    sitting.go("Chat")
    sitting.say(f"run echo begun; sleep 7777 on {SECOND}")
    expect(output(sitting)).to_contain_text("begun")
    assert any("sleep 7777" in line for line in second.processes().values())
    sitting.go("Tickets")
    sitting.page.get_by_role("link", name=re.compile("echo begun; sleep 7777")).click()
    why = sitting.page.get_by_role("complementary", name="Why it exists")
    for part in ("Asked", "Judged", "Policy", "Mandate"):
        expect(why).to_contain_text(part)
    sitting.page.get_by_role("button", name="Stop", exact=True).click()
    sitting.page.get_by_role("dialog").get_by_role("button", name="Stop ticket").click()
    expect(sitting.page.get_by_text("Stopped").first).to_be_visible()
    until(
        "the command has ended",
        lambda: not any("sleep 7777" in line for line in second.processes().values()),
    )


def test_what_a_command_writes_cannot_reach_the_page(sitting: Sitting, second: System) -> None:
    hostile = second.folder / "hostile"
    hostile.write_bytes(
        b"\x1b]0;owned\x07\x1b]8;;http://example.org/\x07a link\x1b]8;;\x07 "
        b"<img src=http://example.org/x onerror=alert(1)> \x1bP1$r0m\x1b\\"
        b"\x1b[31mred\x1b[0m \xff\xfe \x9b31m\x00 end\n"
    )
    sitting.go("Chat")
    title = sitting.page.title()
    sitting.say(f"run cat {hostile.name} on {SECOND}")
    expect(output(sitting)).to_contain_text("end")
    shown = output(sitting).inner_text()
    assert "<img src=http://example.org/x onerror=alert(1)>" in shown
    assert "\ufffd" in shown
    assert "owned" not in shown
    assert output(sitting).get_by_role("link").count() == 0
    assert sitting.page.title() == title
    expect(output(sitting).get_by_text("red", exact=True)).to_be_visible()


def test_ten_megabytes_are_there_whole_and_only_a_screenful_is_drawn(
    sitting: Sitting, second: System
) -> None:
    sitting.go("Chat")
    sitting.say(f"run seq 1 1500000 on {SECOND}")
    expect(output(sitting)).to_contain_text("1500000")
    drawn = output(sitting).evaluate("element => element.querySelectorAll('*').length")
    assert drawn < 500
    output(sitting).press("Home")
    expect(output(sitting)).to_contain_text(re.compile(r"^1\n2\n3\n"), use_inner_text=True)
    copied = whole_output(sitting)
    assert copied.rstrip("\n") == "\n".join(map(str, range(1, 1_500_001)))


def test_ten_tabs_are_all_answered_though_a_browser_has_six_connections(
    sitting: Sitting, second: System
) -> None:
    sitting.go("Chat")
    tabs = [sitting]
    try:
        for _ in range(9):
            page = sitting.context.new_page()
            tabs.append(Sitting(context=sitting.context, page=page, url=sitting.url))
            tabs[-1].watch()
            page.goto(f"{sitting.url}/chat")
            output(tabs[-1]).wait_for()
        tabs[-1].say(f"run echo tenth-$((5 + 5)) on {SECOND}")
        for tab in reversed(tabs):  # those without a stream of their own ask now and then
            tab.page.get_by_text("echo tenth-").first.wait_for()
        assert [tab.faults for tab in tabs] == [[]] * 10
    finally:
        for tab in tabs[1:]:
            tab.page.close()


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [360, 1440])
def test_every_view_is_accessible_and_fits(
    browser: Browser, system: System, second: System, width: int, scheme: str
) -> None:
    found: dict[str, list[str]] = {}
    link = browsers.new_link(system)
    with browsers.sitting(browser, link, width=width, scheme=scheme) as one:

        def look(name: str) -> None:
            found[name] = one.accessibility_faults()
            wider = "document.documentElement.scrollWidth - document.documentElement.clientWidth"
            assert one.page.evaluate(wider) <= 0, f"{name} scrolls sideways"

        output(one).wait_for()
        look("chat")
        one.go("Machines")
        machine(one, SECOND).wait_for()
        look("machines")
        one.page.get_by_role("button", name="Add a machine").first.click()
        one.page.get_by_label("Code", exact=True).wait_for()
        look("add a machine")
        one.page.keyboard.press("Escape")
        one.go("Tickets")
        one.page.get_by_role("link", name=re.compile("echo asked-")).first.click()
        one.page.get_by_role("complementary", name="Why it exists").wait_for()
        look("ticket")
        one.go("Tickets")
        one.page.get_by_role("link", name=re.compile("echo asked-")).first.wait_for()
        look("tickets")
        assert one.faults == []
    assert {name: faults for name, faults in found.items() if faults} == {}


def test_everything_is_reached_by_the_keyboard(
    browser: Browser, system: System, second: System
) -> None:
    with browsers.sitting(browser, browsers.new_link(system)) as one:
        box = one.page.get_by_role("textbox", name="Message")
        box.focus()
        one.page.keyboard.type(f"run echo typed-$((5 + 5)) on {SECOND}")
        one.page.keyboard.press("Enter")
        expect(output(one)).to_contain_text("typed-10")
        one.page.get_by_role("link", name="Machines", exact=True).first.press("Enter")
        adding = one.page.get_by_role("button", name="Add a machine").first
        adding.press("Enter")
        dialog = one.page.get_by_role("dialog", name="Add a machine")
        dialog.wait_for()
        for _ in range(12):  # Tab stays inside
            one.page.keyboard.press("Tab")
            assert dialog.evaluate("element => element.contains(document.activeElement)")
        one.page.keyboard.press("Escape")
        expect(adding).to_be_focused()


def test_a_link_signs_in_once_and_then_says_what_to_do(
    browser: Browser, first_link: str, sitting: Sitting
) -> None:
    context = browser.new_context()
    try:
        page = context.new_page()
        page.goto(first_link)
        expect(page.get_by_text("farhand sign-in").first).to_be_visible()
        expect(page.get_by_text(re.compile("used"))).to_be_visible()
        assert "#" not in page.url
        page.goto(f"{sitting.url}/machines")
        expect(page.get_by_text("farhand sign-in").first).to_be_visible()
        expect(page.get_by_role("article")).to_have_count(0)
    finally:
        context.close()


def test_a_machine_that_is_revoked_leaves_the_page(sitting: Sitting, second: System) -> None:
    """The last test: nothing can run on that machine any more."""
    sitting.go("Machines")
    machine(sitting, SECOND).get_by_role("button", name="Revoke").click()
    sitting.page.get_by_role("dialog").get_by_role("button", name=f"Revoke {SECOND}").click()
    expect(machine(sitting, SECOND)).to_have_count(0)
    until(
        "its daemon has ended",
        lambda: not any("farhand_daemon run" in line for line in second.processes().values()),
    )
