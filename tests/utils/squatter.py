# SPDX-License-Identifier: BSD-2-Clause
"""squatter.py slots|cm: binds every name of a slot that can be guessed, says so, and stays."""
import resource
import socket
import sys

limit = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
resource.setrlimit(resource.RLIMIT_NOFILE, (limit, limit))
kinds = {
    "slots": [(socket.SOCK_SEQPACKET, "verbena.{}")],
    "cm": [(socket.SOCK_DGRAM, "verbena.cm.{}"), (socket.SOCK_SEQPACKET, "verbena.cm.life.{}")],
}
held = []
for slot in range(1, 4095):
    kind, name = kinds[sys.argv[1]][slot % len(kinds[sys.argv[1]])]
    squat = socket.socket(socket.AF_UNIX, kind)
    squat.bind("\0" + name.format(slot))
    if kind == socket.SOCK_SEQPACKET:
        squat.listen(1)
    held.append(squat)
print("held", len(held), flush=True)
sys.stdin.read()
