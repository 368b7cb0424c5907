"""What a machine says of itself, to its message and back."""

from farhand_proto.v1 import link_pb2 as pb
from farhand_shared.codec_fields import offset_of, required, text
from farhand_shared.link_events import Facts, Repository, Survey


def facts_message(facts: Facts) -> pb.Facts:
    """Return the message."""
    return pb.Facts(
        hostname=text(facts.hostname),
        os=text(facts.os),
        os_version=text(facts.os_version),
        arch=text(facts.arch),
        user=text(facts.user),
        home=facts.home,
        cpus=facts.cpus,
        memory_bytes=facts.memory_bytes,
        time_zone=text(facts.time_zone),
        labels=[pb.Label(name=text(name), value=text(value)) for name, value in facts.labels],
        survey=None if facts.survey is None else _survey_message(facts.survey),
        update_problem=text(facts.update_problem),
    )


def _survey_message(survey: Survey) -> pb.Survey:
    return pb.Survey(
        disk_bytes=survey.disk_bytes,
        disk_free_bytes=survey.disk_free_bytes,
        gpus=[text(gpu) for gpu in survey.gpus],
        has_battery=survey.has_battery,
        on_battery=survey.on_battery,
        battery_percent=survey.battery_percent,
        tools=[pb.Tool(name=text(name), version=text(version)) for name, version in survey.tools],
        repositories=[
            pb.Repository(remote=text(one.remote), path=one.path) for one in survey.repositories
        ],
    )


def facts_of(message: pb.Facts) -> Facts:
    """Return the value; raise ProtocolError naming the field."""
    return Facts(
        hostname=text(message.hostname),
        os=text(required(message.os, "hello.facts.os")),
        os_version=text(message.os_version),
        arch=text(message.arch),
        user=text(message.user),
        home=message.home,
        cpus=message.cpus,
        memory_bytes=offset_of(message.memory_bytes, "hello.facts.memory_bytes"),
        time_zone=text(message.time_zone),
        labels=tuple((text(one.name), text(one.value)) for one in message.labels),
        survey=_survey(message.survey) if message.HasField("survey") else None,
        update_problem=text(message.update_problem),
    )


def _survey(message: pb.Survey) -> Survey:
    return Survey(
        disk_bytes=offset_of(message.disk_bytes, "hello.facts.survey.disk_bytes"),
        disk_free_bytes=offset_of(message.disk_free_bytes, "hello.facts.survey.disk_free_bytes"),
        gpus=tuple(text(gpu) for gpu in message.gpus),
        has_battery=message.has_battery,
        on_battery=message.on_battery,
        battery_percent=message.battery_percent,
        tools=tuple((text(one.name), text(one.version)) for one in message.tools),
        repositories=tuple(
            Repository(remote=text(one.remote), path=one.path) for one in message.repositories
        ),
    )
