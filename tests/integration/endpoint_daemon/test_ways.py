"""The whole way to the control plane as environment and names have it: proxies, both families."""

import json
import os
import socket
import time
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest

from farhand_daemon.identity import load_identity
from farhand_daemon.line import Line
from farhand_daemon.paths import Home
from tests.fakes.connect_proxy import ConnectProxy
from tests.fakes.fake_control_plane import FakeControlPlane
from tests.integration.endpoint_daemon.conftest import Ended, Farhandd, eventually

NAME = "cp.corp.example"  # known to nobody but the proxy


@pytest.fixture
def proxy() -> Iterator[ConnectProxy]:
    with ConnectProxy(credentials="ann:s3cret") as there:
        yield there


def through(proxy: ConnectProxy, **more: str) -> dict[str, str]:
    url = proxy.url("ann:s3cret")
    return {**os.environ, "HTTPS_PROXY": url, "HTTP_PROXY": url, **more}


async def enrol(farhandd: Farhandd, plane: FakeControlPlane, env: dict[str, str]) -> Ended:
    plane.told_address = f"{NAME}:{plane.link_port}"
    process = await farhandd.start(
        "enroll", f"http://{NAME}:{plane.http_port}", "--code-stdin", "--trust", "trusted",
        "--chosen-by", "up", "--no-wait", "--json", "--name", "laptop", env=env,
    )  # fmt: skip
    return await farhandd.wait(process, typed=plane.make_code() + "\n")


async def test_discovery_enrolment_link_and_doctor_go_through_the_same_proxy(
    plane: FakeControlPlane, farhandd: Farhandd, proxy: ConnectProxy
) -> None:
    env = through(proxy)
    enrolled = await enrol(farhandd, plane, env)
    assert enrolled.status == 0, enrolled.stderr
    machine_id = json.loads(enrolled.stdout)["machine_id"]
    plane.machines[machine_id].status = "active"
    await farhandd.start("run", env=env)
    await plane.connected(machine_id)
    assert (await plane.run(machine_id, b"true")).result is not None
    assert proxy.asked == [
        f"GET http://{NAME}:{plane.http_port}/.well-known/farhand HTTP/1.1",
        f"CONNECT {NAME}:{plane.enrol_port} HTTP/1.1",
        f"CONNECT {NAME}:{plane.link_port} HTTP/1.1",
    ]
    doctor = await farhandd.call("doctor", "--json")  # its shell has no proxy, the daemon's has one
    checks = {item["check"]: item for item in json.loads(doctor.stdout)["items"]}
    assert not checks["proxy"]["ok"]
    assert "by HTTPS_PROXY, this shell none" in checks["proxy"]["result"]
    assert checks["route"]["ok"]
    assert f"through the proxy http://{proxy.address}" in checks["route"]["result"]
    assert checks["link"]["ok"]
    assert "s3cret" not in doctor.stdout


async def test_what_no_proxy_names_is_dialled_straight(
    plane: FakeControlPlane, farhandd: Farhandd, proxy: ConnectProxy
) -> None:
    # https://github.com/grpc/grpc/issues/9989: no_proxy ignored, names inside go to the proxy
    refused = await enrol(farhandd, plane, through(proxy, NO_PROXY=".corp.example,127.0.0.0/8"))
    assert refused.status == 1
    assert "proxy" not in refused.stderr
    assert NAME in refused.stderr
    assert proxy.asked == []


@pytest.mark.parametrize(
    ("answer", "why"),
    [("302 Found", "it redirects (302)"), ("407 Proxy Authentication Required", "password")],
)
async def test_a_proxy_that_refuses_is_named_by_every_part(
    plane: FakeControlPlane, farhandd: Farhandd, proxy: ConnectProxy, answer: str, why: str
) -> None:
    env = through(proxy)
    enrolled = await enrol(farhandd, plane, env)
    assert enrolled.status == 0, enrolled.stderr
    proxy.answer = answer
    daemon = await farhandd.start("run", env=env)
    await eventually(lambda: farhandd.status()["state"] == "offline")
    status = farhandd.status()
    daemon.terminate()
    said = (await farhandd.wait(daemon)).stderr
    for text in (status["reason"], said):
        assert f"the proxy http://{proxy.address} of HTTPS_PROXY: " in text
        assert why in text
        assert "TLS" not in text
    farhandd.home = farhandd.home / "another"
    again = await enrol(farhandd, plane, env)
    assert again.status == 1
    assert f"the proxy http://{proxy.address}" in again.stderr
    assert why in again.stderr
    assert "s3cret" not in said + again.stderr


async def test_a_name_with_a_dead_address_of_the_other_family_connects_within_three_seconds(
    plane: FakeControlPlane, farhandd: Farhandd, monkeypatch: pytest.MonkeyPatch
) -> None:
    # https://github.com/Ylianst/MeshAgent/issues/114: IPv6 is broken and IPv4 is never tried
    def both(host: str, port: int, **_: object) -> list[Any]:
        assert host == NAME
        return [
            (socket.AF_INET6, socket.SOCK_STREAM, 6, "", ("2001:db8::1", port, 0, 0)),
            (socket.AF_INET, socket.SOCK_STREAM, 6, "", ("127.0.0.1", port)),
        ]

    await farhandd.enrol(plane)
    address = f"{NAME}:{plane.link_port}"
    identity = replace(load_identity(Home(farhandd.home)), link_address=address)
    monkeypatch.setattr(socket, "getaddrinfo", both)
    begun = time.monotonic()
    line = await Line.open(identity)
    try:
        await line.ready(10)
        assert time.monotonic() - begun < 3
    finally:
        await line.close()
