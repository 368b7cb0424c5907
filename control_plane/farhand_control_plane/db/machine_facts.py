"""What a machine said of itself, as the column ``machines.facts`` holds it."""

from typing import Any

from farhand_shared.link_events import Facts


def facts_json(facts: Facts) -> dict[str, Any]:
    """Return the facts as stored: paths are bytes on the wire, text with escapes here.

    What a survey tells is absent until there is one.
    """
    told = {
        "hostname": facts.hostname,
        "os": facts.os,
        "os_version": facts.os_version,
        "arch": facts.arch,
        "user": facts.user,
        "home": facts.home.decode("utf-8", "surrogateescape"),
        "cpus": facts.cpus,
        "memory_bytes": facts.memory_bytes,
        "time_zone": facts.time_zone,
        "labels": dict(facts.labels),
        "update_problem": facts.update_problem,
    }
    survey = facts.survey
    if survey is None:
        return told
    return told | {
        "disk_bytes": survey.disk_bytes,
        "disk_free_bytes": survey.disk_free_bytes,
        "gpus": list(survey.gpus),
        "has_battery": survey.has_battery,
        "on_battery": survey.on_battery,
        "battery_percent": survey.battery_percent,
        "tools": dict(survey.tools),
        "repositories": [
            {"remote": one.remote, "path": one.path.decode("utf-8", "surrogateescape")}
            for one in survey.repositories
        ],
    }
