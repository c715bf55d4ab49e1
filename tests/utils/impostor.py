# SPDX-License-Identifier: BSD-2-Clause
"""impostor.py USER SLOT OTHER: as that user it introduces itself to the process with SLOT, under a
slot of its own and under OTHER, which another process holds. The second must not be welcome, nor
may it have as many connections as it likes."""
import os
import pathlib
import re
import resource
import socket
import struct
import sys

MAGIC, HELLO, WELCOME = 0x31616e6562726576, 1, 2
LAYOUT = int(re.search(r"VB_LAYOUT_VERSION = (\d+)",
                       (pathlib.Path(__file__).parents[2] / "src/shm/layout.h").read_text())[1])
STRANGERS_MAX = max(8, min(1024, resource.getrlimit(resource.RLIMIT_NOFILE)[0] // 6))


def introduce(slot):
    """The kind of the answer to a hello, 0 for a hang-up."""
    hello = struct.pack("=QIIIiQQHHI", MAGIC, LAYOUT, HELLO, slot, os.getpid(), 0, 0, 1, 0, 0)
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as s:
        s.settimeout(5)
        s.connect("\0verbena." + sys.argv[2])
        s.send(hello)
        try:
            data, passed, _, _ = socket.recv_fds(s, 4096, 4)
        except ConnectionResetError:
            data, passed = b"", []
    assert not passed, "it was given descriptors"
    return struct.unpack_from("=QII", data)[2] if data else 0


def claim():
    for slot in range(2047, 1, -1):
        own = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        try:
            own.bind(f"\0verbena.{slot}")
        except OSError:
            own.close()
            continue
        own.listen()
        return slot, own
    sys.exit("no slot is free")


os.setgroups([])
os.setresgid(*[int(sys.argv[1])] * 3)
os.setresuid(*[int(sys.argv[1])] * 3)
other = int(sys.argv[3])
slot, own = claim()
assert introduce(slot) == WELCOME
assert introduce(other) == 0, "it was taken for somebody else"
many = []
for _ in range(STRANGERS_MAX + 20):
    many.append(socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET))
    many[-1].settimeout(5)
    many[-1].connect("\0verbena." + sys.argv[2])
for refused in many[STRANGERS_MAX:]:
    assert refused.recv(1) == b""
print("it knows who is who")
