"""Log lines."""

import asyncio
import json
import logging
import socket
import sys

import pytest

from farhand_control_plane.logs import REPEATED, JsonLines, OncePer, TextLines, configure, log


def record(level: int = logging.INFO, **fields: object) -> logging.LogRecord:
    logger = logging.getLogger("farhand.test")
    kept: list[logging.LogRecord] = []

    class Keep(logging.Handler):
        def emit(self, one: logging.LogRecord) -> None:
            kept.append(one)

    handler = Keep()
    logger.addHandler(handler)
    logger.setLevel(logging.DEBUG)
    try:
        log(logger, "task_claimed", level=level, **fields)
    finally:
        logger.removeHandler(handler)
    return kept[0]


def test_a_line_is_one_json_object_with_event_and_fields() -> None:
    line = JsonLines().format(record(machine="m\n1", count=3))
    assert "\n" not in line
    parsed = json.loads(line)
    assert parsed["event"] == "task_claimed"
    assert (parsed["machine"], parsed["count"]) == ("m\n1", 3)
    assert parsed["level"] == "info"
    assert parsed["at"].endswith("+00:00")


def test_a_line_for_people_is_short() -> None:
    assert (
        TextLines()
        .format(record(logging.WARNING, machine="m1"))
        .endswith(" warning task_claimed machine=m1")
    )


@pytest.mark.parametrize("form", [JsonLines(), TextLines()])
def test_an_error_brings_its_traceback(form: logging.Formatter) -> None:
    one = record()
    try:
        raise ValueError("boom")
    except ValueError:
        one.exc_info = sys.exc_info()
    assert "ValueError: boom" in form.format(one)


def test_a_message_that_strangers_repeat_is_one_line_in_ten_seconds_with_its_count() -> None:
    now = 0.0
    once = OncePer("socket.accept() out of", monotonic=lambda: now)
    passed = []
    for second in range(25):
        now = float(second)
        for _ in range(100):
            one = logging.LogRecord(
                "asyncio",
                logging.ERROR,
                "",
                0,
                "socket.accept() out of system resource\n",
                (),
                None,
            )
            if once.filter(one):
                passed.append(json.loads(JsonLines().format(one)))
    assert [line["times"] for line in passed] == [1, 1000, 1000]
    other = logging.LogRecord("asyncio", logging.ERROR, "", 0, "something else", (), None)
    assert all(once.filter(other) for _ in range(3))
    assert "times" not in JsonLines().format(other)


def test_what_asyncio_says_of_each_failed_accept_is_held_back_however_often_we_configure(
    capsys: pytest.CaptureFixture[str],
) -> None:
    root = logging.getLogger()
    before, level = root.handlers[:], root.level
    try:
        for _ in range(2):
            configure(json_lines=True, level="info")
        for _ in range(50):
            try:
                raise OSError(24, "Too many open files")
            except OSError:
                logging.getLogger("asyncio").exception("socket.accept() out of system resource\nx")
        (line,) = capsys.readouterr().err.splitlines()
    finally:
        root.handlers[:] = before
        root.setLevel(level)
        for name, _ in REPEATED:
            logging.getLogger(name).filters.clear()
    assert json.loads(line)["times"] == 1
    assert "traceback" not in json.loads(line)


def test_a_server_that_ends_while_it_cannot_accept_says_so_once(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Each accept that failed tries to listen again a second later, by then on closed sockets."""
    root = logging.getLogger()
    before, level = root.handlers[:], root.level
    try:
        configure(json_lines=True, level="info")
        loop = asyncio.SelectorEventLoop()
        closed = socket.socket()
        closed.close()
        for _ in range(50):
            loop.call_soon(loop._start_serving, None, closed)
        loop.call_soon(loop.stop)
        loop.run_forever()
        loop.close()
        (line,) = capsys.readouterr().err.splitlines()
    finally:
        root.handlers[:] = before
        root.setLevel(level)
        for name, _ in REPEATED:
            logging.getLogger(name).filters.clear()
    assert "_start_serving" in json.loads(line)["event"]
