"""Who waits is told for what, since when and until when, in the same words everywhere."""

from datetime import datetime, timedelta

from farhand_control_plane.client.waiting import queued_words, silent_words, waiting

_HERE = datetime.now().astimezone().replace(tzinfo=None, hour=14, minute=2)
NOW, TOMORROW = (_HERE.astimezone(), (_HERE + timedelta(days=1)).astimezone())


def test_a_listed_command_says_for_what_since_when_and_until_when() -> None:
    command = {
        "machine": "laptop",
        "waiting": True,
        "waiting_because": "offline",
        "queued_at": NOW.isoformat(),
        "start_expires_at": TOMORROW.isoformat(),
    }
    assert waiting(command, NOW) == (
        "waiting for laptop, which is offline, since 14:02, until tomorrow 14:02"
    )
    assert waiting(command | {"waiting": False}, NOW) == ""


def test_a_queued_command_says_whether_its_machine_is_away_or_paused() -> None:
    queued = {"state": "queued", "waiting_for": "laptop", "until": "2031-12-01T12:00:00+00:00"}
    assert queued_words(queued | {"online": True}) == ""
    away = queued_words(queued | {"online": False, "since": "2030-11-30T12:00:00+00:00"})
    assert away.startswith("laptop is offline, last seen 2030-")
    assert "; waiting for it until 2031-" in away
    assert away.endswith(" (Ctrl-C gives up)")
    assert queued_words(queued | {"online": False}).startswith("laptop is offline; waiting for it")
    paused = queued_words(queued | {"online": True, "paused": True})
    assert paused.startswith("laptop is paused; waiting for it to be resumed, until 2031-")


def test_a_machine_that_went_silent_is_named_with_what_comes_of_it() -> None:
    state = {"machine": "laptop", "online": False}
    assert silent_words(state, "it goes on") == "laptop is unreachable; it goes on"
    seen = silent_words(state | {"since": "2030-11-30T12:00:00+00:00"}, "it goes on")
    assert seen.startswith("laptop is unreachable, last heard 2030-")
