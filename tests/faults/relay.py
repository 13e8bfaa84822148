"""A link between two network namespaces that loses packets: a TUN device in each, and this process between them.

``python -m tests.faults.relay NAMESPACE DEVICE-HERE DEVICE-THERE SHARE``
"""

from __future__ import annotations

import ctypes
import fcntl
import os
import random
import select
import struct
import sys
from contextlib import suppress
from pathlib import Path

TUNSETIFF = 0x400454CA
IFF_TUN, IFF_NO_PI = 0x0001, 0x1000
CLONE_NEWNET = 0x40000000
LARGEST = 65_536


def device(name: str) -> int:
    number = os.open("/dev/net/tun", os.O_RDWR)
    fcntl.ioctl(number, TUNSETIFF, struct.pack("16sH22x", name.encode(), IFF_TUN | IFF_NO_PI))
    return number


def main(namespace: str, here: str, there: str, share: str) -> None:
    outer = device(here)
    with Path(f"/run/netns/{namespace}").open() as space:
        if ctypes.CDLL(None, use_errno=True).setns(space.fileno(), CLONE_NEWNET):
            raise OSError(ctypes.get_errno(), "setns")
    inner = device(there)
    chance, lost = random.Random(1), float(share)  # noqa: S311 - the same again in each run
    sys.stdout.write("ready\n")
    sys.stdout.flush()
    other = {outer: inner, inner: outer}
    while True:
        for source in select.select([outer, inner], [], [])[0]:
            packet = os.read(source, LARGEST)
            if chance.random() >= lost:
                with suppress(OSError):  # a device that is not up yet
                    os.write(other[source], packet)


if __name__ == "__main__":
    main(*sys.argv[1:])
