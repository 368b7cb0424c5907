"""The page in a real browser: sign in, add a machine, ask, watch, stop."""

import json
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


def more(sitting: Sitting, name: str, choice: str) -> None:
    """Choose from a machine's menu."""
    machine(sitting, name).get_by_role("button", name=f"More for {name}").click()
    sitting.page.get_by_role("menuitem", name=choice).click()


def output(sitting: Sitting) -> Locator:
    """The newest command's output on the page."""
    return sitting.page.get_by_role("log", name=re.compile("^Output of")).last


def whole_output(sitting: Sitting) -> str:
    """What a person gets who copies the newest command's output."""
    sitting.page.get_by_role("button", name="Copy output").last.click()
    expect(sitting.page.get_by_role("button", name="Copied").last).to_be_visible()
    return str(sitting.page.evaluate("navigator.clipboard.readText()"))


def blank_above(log: Locator) -> float:
    """How many pixels of the box lie empty above the first row that is drawn."""
    return float(
        log.evaluate(
            """element => {
              const rows = [...element.querySelectorAll('*')].filter(
                each => each.children.length === 0 && each.textContent !== '');
              const top = Math.min(...rows.map(row => row.getBoundingClientRect().top));
              return Math.max(0, top - element.getBoundingClientRect().top);
            }"""
        )
    )


def card(sitting: Sitting, title: str) -> Locator:
    """The newest ticket of this title in the chat."""
    return sitting.page.get_by_role("article", name=re.compile(re.escape(title))).last


def enrolling(system: System, sitting: Sitting, code: str, name: str) -> Callable[[], None]:
    """Enrol a machine of this name as far as its six words; return how to give up."""
    running = system.start(
        "farhandd",
        "enroll",
        sitting.url,
        *("--name", name, "--home", str(system.folder / name)),
        stdin=subprocess.PIPE,
    )
    assert running.process.stdin is not None
    running.process.stdin.write(f"{code}\nyes\n".encode())
    running.process.stdin.close()
    running.wait_for("Six words")

    def end() -> None:
        if running.process.poll() is None:
            running.process.send_signal(signal.SIGTERM)
        running.ended()

    return end


def test_an_empty_conversation_says_how_to_add_another_machine_and_its_code_is_kept(
    sitting: Sitting,
) -> None:
    sitting.page.get_by_role("link", name="Add a machine").click()
    dialog = sitting.page.get_by_role("dialog", name="Add a machine")
    expect(dialog).to_contain_text("plain http is not encrypted")
    code = dialog.get_by_label("Code", exact=True)
    first = code.input_value()
    sitting.page.reload()
    expect(code).to_have_value(first)
    sitting.page.keyboard.press("Escape")
    expect(dialog).to_have_count(0)
    sitting.page.get_by_role("button", name="Add a machine").first.click()
    expect(code).to_have_value(first)
    sitting.page.keyboard.press("Escape")


def test_a_machine_is_added_by_what_the_page_shows_and_runs_its_first_command(
    sitting: Sitting, second: System
) -> None:
    expect(machine(sitting, SECOND)).to_contain_text("Online")
    machine(sitting, SECOND).get_by_role("link", name=re.compile("Ask it to do")).click()
    box = sitting.page.get_by_role("textbox", name="Message")
    expect(box).to_have_value(f"on {SECOND}: ")
    expect(box).to_be_focused()
    expect(sitting.page).to_have_url(f"{sitting.url}/chat")
    sitting.page.keyboard.type("echo at-the-end-$((2 + 3))")
    expect(box).to_have_value(f"on {SECOND}: echo at-the-end-$((2 + 3))")
    sitting.page.keyboard.press("Enter")
    expect(output(sitting)).to_contain_text("at-the-end-5")
    sitting.page.reload()
    expect(card(sitting, "echo at-the-end")).to_contain_text("Done")
    expect(box).to_have_value("")
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


def test_an_answer_in_ones_own_words_is_a_step_and_other_messages_name_no_ticket_that_asks(
    sitting: Sitting, second: System
) -> None:
    sitting.go("Chat")
    sitting.say("run echo worded-$((1 + 2))")
    question = sitting.page.get_by_role("region", name=re.compile("echo worded-")).last
    expect(question).to_be_visible()
    sitting.page.evaluate(
        """() => {
          window.named = [];
          const look = () => window.named.push(
            ...[...document.querySelectorAll('li > span > a[href^="/tickets/"]')]
              .map((link) => link.textContent));
          new MutationObserver(look).observe(document.body, {childList: true, subtree: true});
        }"""
    )
    sitting.say(f"run echo aside-$((3 + 4)) on {SECOND}")
    expect(card(sitting, "echo aside-")).to_contain_text("Done")
    assert sitting.page.evaluate("window.named") == []

    question.get_by_role("textbox", name="Another answer").fill(SECOND)
    question.get_by_role("button", name="Answer", exact=True).click()
    expect(card(sitting, "echo worded-")).to_contain_text("Done")
    card(sitting, "echo worded-").get_by_role("link", name=re.compile("echo worded-")).click()
    steps = sitting.page.get_by_role("region", name="Steps")
    answer = steps.get_by_role("listitem").filter(has_text="Answered")
    expect(answer).to_contain_text(SECOND)


def test_a_command_that_failed_is_no_success_in_card_list_and_detail(
    sitting: Sitting, second: System
) -> None:
    sitting.go("Chat")
    long = "broken-" * 15
    sitting.say(f"run echo {long}; exit 2 on {SECOND}")
    one = card(sitting, "echo broken-")
    expect(one.get_by_role("status").first).to_have_text("Exit 2")
    expect(one.get_by_role("link").first).to_have_text(re.compile(r"^echo broken-.*…$"))
    one.get_by_role("button", name="Fold the ticket").click()
    expect(one.get_by_role("status")).to_have_text("Exit 2")
    sitting.go("Tickets")
    closed = sitting.page.get_by_role("region", name=re.compile("^Closed"))
    row = closed.get_by_role("listitem").filter(has_text="echo broken-")
    expect(row).to_contain_text("Failed")
    expect(row).not_to_contain_text("Done")
    row.get_by_role("link").click()
    expect(sitting.page.get_by_role("region", name="Result")).to_contain_text("Result: Exit 2")
    expect(sitting.page.get_by_text("Closed: Exit 2")).to_be_visible()
    expect(sitting.page.get_by_text("Done", exact=True)).to_have_count(0)


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
    # Opened when it is over: many rows come at once, into a box that had none.
    card(sitting, "for i in").get_by_role("link").first.click()
    expect(sitting.page.get_by_role("complementary", name="Why it exists")).to_be_visible()
    expect(output(sitting)).to_contain_text("line 80")
    assert blank_above(output(sitting)) < 20
    sitting.go("Chat")
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


def test_a_machine_that_waits_is_shown_after_a_reload_and_turned_away_visibly(
    sitting: Sitting, second: System, system: System
) -> None:
    sitting.go("Machines")
    sitting.page.get_by_role("button", name="Add a machine").first.click()
    dialog = sitting.page.get_by_role("dialog", name="Add a machine")
    words = dialog.get_by_label("Six words").get_by_role("listitem")
    code = dialog.get_by_label("Code", exact=True).input_value()
    sitting.page.goto("about:blank")
    end = enrolling(second, sitting, code, "third")
    try:
        sitting.page.goto(f"{sitting.url}/machines?add=true")
        expect(words).to_have_count(6)
        expect(dialog).to_contain_text("third")
        sitting.page.keyboard.press("Escape")
        sitting.page.get_by_role("button", name="Add a machine").first.click()
        expect(words).to_have_count(6)
        dialog.get_by_role("button", name="add another computer").click()
        expect(dialog.get_by_label("Code", exact=True)).not_to_have_value(code)
        sitting.page.reload()
        dialog.get_by_role("button", name="They differ").click()
        expect(dialog).to_contain_text("third was turned away")
        dialog.get_by_role("button", name="Close", exact=True).last.click()
    finally:
        end()

    made = json.loads(system.farhand("machines", "add", "--json").out)
    end = enrolling(second, sitting, str(made["code"]), "fourth")
    try:
        machine(sitting, "fourth").get_by_role("button", name="They differ").click()
        expect(sitting.page.get_by_text("fourth was turned away")).to_be_visible()
        expect(machine(sitting, "fourth")).to_have_count(0)
        sitting.page.get_by_role("button", name="Close this message").click()
    finally:
        end()


def test_what_a_command_writes_cannot_reach_the_page(sitting: Sitting, second: System) -> None:
    hostile = second.folder / "hostile"
    hostile.write_bytes(
        b"\x1b]0;owned\x07\x1b]8;;http://example.org/\x07a link\x1b]8;;\x07 "
        b"<img src=http://example.org/x onerror=alert(1)> \x1bP1$r0m\x1b\\"
        b"\x1b[31mred\x1b[0m \xff\xfe \x9b31m\x00 end\n"
    )
    sitting.go("Chat")
    expect(sitting.page).to_have_title("Chat · Farhand")
    sitting.say(f"run cat {hostile.name} on {SECOND}")
    expect(output(sitting)).to_contain_text("end")
    shown = output(sitting).inner_text()
    assert "<img src=http://example.org/x onerror=alert(1)>" in shown
    assert "\ufffd" in shown
    assert "owned" not in shown
    assert output(sitting).get_by_role("link").count() == 0
    expect(sitting.page).to_have_title("Chat · Farhand")
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
        box = one.page.get_by_role("textbox", name="Message")
        # Looked at in one go: a card may be drawn anew between two questions.
        column, below = box.evaluate(
            """element => [
                [...document.querySelectorAll('article')].pop(),
                element.closest('form').firstElementChild,
            ].map(one => one.getBoundingClientRect().x)"""
        )
        assert column == below, "the box stands below its column"
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
        for stage in one.page.get_by_label("Filter by stage").get_by_role("link").all():
            place = stage.bounding_box()
            assert place is not None
            assert place["x"] + place["width"] <= width, "a filter is out of sight"
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


def test_a_machine_is_paused_named_and_labelled_in_its_card(
    sitting: Sitting, second: System
) -> None:
    sitting.go("Machines")
    machine(sitting, SECOND).get_by_role("button", name=f"Pause {SECOND}").click()
    expect(machine(sitting, SECOND)).to_contain_text("Paused")
    sitting.go("Chat")
    sitting.say(f"run echo resumed-$((1 + 1)) on {SECOND}")
    expect(card(sitting, "echo resumed-")).to_contain_text(f"Waiting for {SECOND}")
    sitting.go("Machines")
    expect(machine(sitting, SECOND)).to_contain_text(f"waiting for {SECOND} to be resumed, until")
    machine(sitting, SECOND).get_by_role("button", name=f"Resume {SECOND}").click()
    expect(machine(sitting, SECOND)).to_contain_text("Online")

    more(sitting, SECOND, "Labels")
    labels = sitting.page.get_by_role("textbox", name="Labels")
    labels.fill("quiet\nteam=page")
    sitting.page.get_by_role("button", name="Save").click()
    expect(machine(sitting, SECOND)).to_contain_text("quiet, team=page")
    more(sitting, SECOND, "Labels")
    labels.fill("-nonsense")
    sitting.page.get_by_role("button", name="Save").click()
    dialog = sitting.page.get_by_role("dialog")
    expect(dialog).to_contain_text("Cannot use label '-nonsense'")
    assert all("400" in fault for fault in sitting.faults)  # that one request was refused
    sitting.faults.clear()
    labels.fill("team=page")
    sitting.page.get_by_role("button", name="Save").click()
    expect(machine(sitting, SECOND)).not_to_contain_text("quiet")

    for before, after in ((SECOND, "renamed"), ("renamed", SECOND)):
        more(sitting, before, "Rename")
        sitting.page.get_by_role("textbox", name="Name").fill(after)
        sitting.page.get_by_role("button", name="Save").click()
        expect(machine(sitting, after)).to_be_visible()
    sitting.go("Chat")
    expect(output(sitting)).to_contain_text("resumed-2")


def test_a_machine_that_is_revoked_leaves_the_page(sitting: Sitting, second: System) -> None:
    """The last test: nothing can run on that machine any more."""
    sitting.go("Machines")
    more(sitting, SECOND, "Revoke")
    sitting.page.get_by_role("dialog").get_by_role("button", name=f"Revoke {SECOND}").click()
    expect(machine(sitting, SECOND)).to_have_count(0)
    until(
        "its daemon has ended",
        lambda: not any("farhand_daemon run" in line for line in second.processes().values()),
    )
