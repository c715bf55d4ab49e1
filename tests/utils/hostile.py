# SPDX-License-Identifier: BSD-2-Clause
"""hostile.py SLOT PID: asks the process with that slot in ways that must not be answered."""
import errno
import os
import re
import socket
import struct
import sys

MAGIC = 0x3162637365646276
HEADER = os.path.join(os.path.dirname(os.path.abspath(__file__)),
                      "../../src/engine/attach/describe.h")
with open(HEADER, encoding="utf-8") as file:
    VERSION = int(re.search(r"VB_DESCRIBE_VERSION = (\d+)", file.read()).group(1))
ANSWER = struct.Struct("=QIIIIII10I7Q")
name = "\0verbena." + sys.argv[1]


def ask(message, fds=()):
    """What comes back: bytes, b'' for a hang-up."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as s:
        s.settimeout(5)
        s.connect(name)
        if fds:
            socket.send_fds(s, [message], fds)
        else:
            s.send(message)
        try:
            data, passed, _, _ = socket.recv_fds(s, 4096, 4)
        except ConnectionResetError:
            return b""
        for fd in passed:
            os.close(fd)
        return data


def refused():
    """The process says EAGAIN while a control call of its own is under way."""
    for _ in range(1000):
        answer = ANSWER.unpack(ask(struct.pack("=QII", MAGIC, VERSION, 0)))
        if answer[2] != errno.EAGAIN:
            break
    assert answer[0] == MAGIC and answer[2] == 0, answer
    return answer[6]


before = refused()
bad = [
    struct.pack("=QII", MAGIC, VERSION + 1, 0),  # a version that is none
    struct.pack("=Q", MAGIC),  # too short
    struct.pack("=QII", MAGIC, VERSION, 0) + b"x",  # too long
    struct.pack("=QII", MAGIC, VERSION, 0) * 1000,
]
for message in bad:
    assert ask(message) == b"", message[:32]
with open("/dev/null") as null:
    assert ask(bad[0], [null.fileno()] * 8) == b""
assert refused() == before + len(bad) + 1, (before, refused())
# No request at all, and those who leave before the answer.
for message in [b"\0" * 8, b"x", os.urandom(64)]:
    assert ask(message) == b""
for _ in range(200):
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as s:
        s.connect(name)
        s.send(struct.pack("=QII", MAGIC, VERSION, 0))
assert refused() == before + len(bad) + 1


def descriptors():
    return len(os.listdir(f"/proc/{sys.argv[2]}/fd"))


# Descriptors that nobody asked for are closed again, those of a hello that is none as well.
refused()
before = descriptors()
with open("/dev/null") as null:
    for count in [1, 2, 3] * 20:
        assert ask(b"\0" * 56, [null.fileno()] * count) == b""
refused()
assert descriptors() <= before + 2, (before, descriptors())
print("answers as it should")
