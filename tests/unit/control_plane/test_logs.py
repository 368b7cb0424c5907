"""Log lines."""

import json
import logging
import sys

import pytest

from farhand_control_plane.logs import JsonLines, TextLines, log


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
