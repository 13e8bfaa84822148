"""Network namespaces around this machine's own, each with one link to it: what passes between two may be cut or lost."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

FORWARDING = Path("/proc/sys/net/ipv4/ip_forward")
NAME = "ocmf-{}"
FLOATING = "10.231.250.1"  # an address that one of several places has


class NotPermitted(RuntimeError):
    """Nobody may make network namespaces on this machine."""


@dataclass(frozen=True)
class Place:
    """Where a part of the hub runs."""

    name: str
    number: int

    @property
    def address(self) -> str:
        return f"10.231.{self.number}.2"

    @property
    def router(self) -> str:
        return f"10.231.{self.number}.1"

    @property
    def link(self) -> str:
        return f"ocf{self.number}"

    @property
    def inside(self) -> tuple[str, ...]:
        """What a command begins with that is run there; it keeps its process id."""
        return ("nsenter", f"--net=/run/netns/{NAME.format(self.name)}", "--")


def run(*command: str, check: bool = True) -> None:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if check and done.returncode:
        raise NotPermitted(f"{' '.join(command)}: {done.stderr.strip()}")


@contextmanager
def places(*names: str) -> Iterator[dict[str, Place]]:
    """Raises NotPermitted."""
    if os.geteuid() != 0:
        raise NotPermitted("network namespaces are made by root")
    before = FORWARDING.read_text()
    found = {name: Place(name, number) for number, name in enumerate(names, 1)}
    with ExitStack() as stack:
        FORWARDING.write_text("1")
        stack.callback(FORWARDING.write_text, before)
        for place in found.values():
            space, link = NAME.format(place.name), place.link
            run("ip", "netns", "add", space)
            stack.callback(run, "ip", "netns", "delete", space, check=False)
            run("ip", "link", "add", link, "type", "veth", "peer", "name", f"{link}n")
            run("ip", "link", "set", f"{link}n", "netns", space)
            run("ip", "address", "add", f"{place.router}/30", "dev", link)
            run("ip", "link", "set", link, "up")
            _within(place, "address", "add", f"{place.address}/30", "dev", f"{link}n")
            _within(place, "link", "set", f"{link}n", "up")
            _within(place, "link", "set", "lo", "up")
            _within(place, "route", "add", "default", "via", place.router)
        yield found


def _within(place: Place, *arguments: str) -> None:
    run(*place.inside, "ip", *arguments)


def give_floating(place: Place) -> None:
    """The floating address leads there from now on."""
    run(*place.inside, "ip", "address", "replace", f"{FLOATING}/32", "dev", f"{place.link}n")
    run("ip", "route", "replace", FLOATING, "via", place.address)


@contextmanager
def cut(*pairs: tuple[str, str]) -> Iterator[None]:
    """Nothing passes between two addresses, and nobody is told."""
    with ExitStack() as stack:
        for one, other in pairs:
            for source, target in ((one, other), (other, one)):
                rule = "from", source, "to", target, "blackhole"
                run("ip", "rule", "add", *rule)
                stack.callback(run, "ip", "rule", "delete", *rule)
        yield


@contextmanager
def unplugged(place: Place) -> Iterator[None]:
    """Nothing passes to or from it."""
    run(*place.inside, "ip", "link", "set", f"{place.link}n", "down")
    try:
        yield
    finally:
        run(*place.inside, "ip", "link", "set", f"{place.link}n", "up")
        run(*place.inside, "ip", "route", "replace", "default", "via", place.router)


@contextmanager
def lossy(place: Place, share: float) -> Iterator[None]:
    """Of all packets to and from a place a share is lost; they go through a relay of our own, as netem is not everywhere."""
    outer, inner = f"{place.link}t", f"{place.link}u"
    command = [sys.executable, "-m", "tests.faults.relay", NAME.format(place.name), outer, inner, str(share)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as relay:
        try:
            assert relay.stdout is not None
            assert relay.stdout.readline() == "ready\n"
            here, there = f"10.231.{place.number}.5", f"10.231.{place.number}.6"
            run("ip", "address", "add", f"{here}/30", "dev", outer)
            run("ip", "link", "set", outer, "up")
            _within(place, "address", "add", f"{there}/30", "dev", inner)
            _within(place, "link", "set", inner, "up")
            # By its own address: a connection that is made meanwhile would end with the address of the device.
            _within(place, "route", "replace", "default", "via", here, "src", place.address)
            run("ip", "route", "replace", place.address, "via", there)
            yield
        finally:
            run("ip", "route", "delete", place.address, check=False)
            run(*place.inside, "ip", "route", "replace", "default", "via", place.router)
            relay.kill()
