#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""Is a capture right? Reads pcapng, Ethernet, IP, UDP and InfiniBand headers by itself, from the
specifications, and shares no code with Verbena. Prints what it found, one word=number per line.

  - the ICRC of every packet that is whole
  - PSNs of each connected QP go up without a hole; repetitions are counted
  - messages are cut rightly: FIRST, MIDDLE, LAST or ONLY
  - each packet has a comment that names a process

usage: check.py [--failing] FILE
"""
import collections
import ipaddress
import struct
import sys
import zlib

ACK, ATOMIC_ACK = 0x11, 0x12
RESPONSES = range(0x0d, 0x11)
FIRST, MIDDLE, LAST, ONLY = "first", "middle", "last", "only"
PLACES = {0: FIRST, 1: MIDDLE, 2: LAST, 3: LAST, 4: ONLY, 5: ONLY, 6: FIRST, 7: MIDDLE, 8: LAST,
          9: LAST, 10: ONLY, 11: ONLY, 22: LAST, 23: ONLY}
RC, UC, UD, XRC = 0x00, 0x20, 0x60, 0xa0

Packet = collections.namedtuple("Packet", "interface time flags comment whole src dst opcode dest "
                                "psn asks ip udp ib length")


def options_of(data):
    found, at = collections.defaultdict(list), 0
    while at + 4 <= len(data):
        code, size = struct.unpack_from("<HH", data, at)
        if not code:
            break
        found[code].append(data[at + 4:at + 4 + size])
        at += 4 + (size + 3 & ~3)
    return found


def blocks_of(data):
    at = 0
    while at < len(data):
        kind, size = struct.unpack_from("<II", data, at)
        (again,) = struct.unpack_from("<I", data, at + size - 4)
        assert size == again and size % 4 == 0, f"block at {at}: lengths {size} and {again}"
        yield kind, data[at + 8:at + size - 4]
        at += size


def packet_of(body):
    interface, high, low, kept, length = struct.unpack_from("<IIIII", body)
    frame, options = body[20:20 + kept], options_of(body[20 + (kept + 3 & ~3):])
    (kind,) = struct.unpack_from(">H", frame, 12)
    ip_size = {0x0800: 20, 0x86dd: 40}[kind]
    ip, udp, ib = frame[14:14 + ip_size], frame[14 + ip_size:22 + ip_size], frame[22 + ip_size:]
    at = 12 if kind == 0x0800 else 8
    half = 4 if kind == 0x0800 else 16
    src, dst = (ipaddress.ip_address(ip[at + i * half:at + (i + 1) * half]) for i in (0, 1))
    assert struct.unpack_from(">H", udp, 2)[0] == 4791, "another UDP port"
    # A packet that is cut has a shorter payload, and is right in itself.
    assert struct.unpack_from(">H", udp, 4)[0] == kept - 14 - ip_size, "UDP length"
    assert kept <= length, "more bytes than there were"
    if kind == 0x0800:
        words = struct.unpack(">10H", ip)
        total = sum(words)
        assert (total & 0xffff) + (total >> 16) in (0xffff, 0x1fffe), "IPv4 checksum"
    return Packet(interface, high << 32 | low, struct.unpack("<I", options[2][0])[0],
                  options[1][0].decode() if options[1] else "", kept == length, src, dst, ib[0],
                  int.from_bytes(ib[5:8], "big"), int.from_bytes(ib[9:12], "big"), ib[8] >> 7, ip,
                  udp, ib, length)


def icrc_of(packet):
    """IBA annex A17.3.3: fields that routers change are ones."""
    ip, udp, ib = bytearray(packet.ip), bytearray(packet.udp), bytearray(packet.ib[:-4])
    if len(ip) == 20:
        ip[1] = 0xff                   # traffic class
        ip[8] = 0xff                   # hops
        ip[10:12] = b"\xff\xff"        # checksum
    else:
        ip[0:4] = bytes([ip[0] | 0x0f, 0xff, 0xff, 0xff])
        ip[7] = 0xff
    udp[6:8] = b"\xff\xff"
    ib[4] = 0xff
    return zlib.crc32(b"\xff" * 8 + ip + udp + ib).to_bytes(4, "little")


class Checker:
    def __init__(self, failing):
        self.failing = failing
        self.counts = collections.Counter(repeated=0)
        self.next_psn = {}        # of the requester, by where its packets go
        self.message = {}         # a message that has begun
        self.wrong = []

    def take(self, number, packet):
        counts = self.counts
        counts["packets"] += 1
        counts["whole"] += packet.whole
        counts["out" if packet.flags & 3 == 2 else "in"] += 1
        if "pid " not in packet.comment:
            self.wrong.append(f"{number}: no comment that names a process")
        if icrc_of(packet) != packet.ib[-4:]:
            self.wrong.append(f"{number}: ICRC")
        transport, operation = packet.opcode & 0xe0, packet.opcode & 0x1f
        if transport in (RC, XRC) and operation == ACK:
            self.take_ack(packet)
        elif transport in (RC, XRC) and (operation in RESPONSES or operation == ATOMIC_ACK):
            counts["responses"] += 1
        elif transport in (RC, UC, XRC):
            self.take_request(number, packet, operation)
        else:
            counts["datagrams"] += 1

    def take_ack(self, packet):
        syndrome = packet.ib[12]
        self.counts["naks" if syndrome >> 5 == 3 else "rnr" if syndrome >> 5 == 1 else "acks"] += 1

    def take_request(self, number, packet, operation):
        where = (packet.interface, packet.dest, packet.opcode & 0xe0, packet.flags & 3)
        expected = self.next_psn.get(where)
        self.counts["requests"] += 1
        ahead = 0 if expected is None else packet.psn - expected & 0xffffff
        if ahead >= 1 << 23:  # sent again, as on every wire
            self.counts["repeated"] += 1
            return
        if ahead and not self.failing:
            self.wrong.append(f"{number}: PSN {packet.psn}, {expected} was next")
        self.next_psn[where] = packet.psn + self.psns_of(packet, operation) & 0xffffff
        place = PLACES.get(operation, ONLY)
        inside = self.message.get(where, False)
        if inside != (place in (MIDDLE, LAST)) and not self.failing:
            self.wrong.append(f"{number}: a {place} packet, inside of a message: {inside}")
        self.message[where] = place in (FIRST, MIDDLE)
        self.counts["messages"] += place in (LAST, ONLY)

    def psns_of(self, packet, operation):
        if operation != 0x0c:
            return 1
        at = 12 + (4 if packet.opcode & 0xe0 == XRC else 0)
        length = int.from_bytes(packet.ib[at + 12:at + 16], "big")
        return max(1, -(-length // self.mtu))

    mtu = 1024


def main():
    failing = "--failing" in sys.argv
    checker = Checker(failing)
    for argument in sys.argv[1:-1]:
        if argument.startswith("--mtu="):
            checker.mtu = int(argument[6:])
    with open(sys.argv[-1], "rb") as file:
        data = file.read()
    number, last = 0, 0
    for kind, body in blocks_of(data):
        checker.counts["interfaces"] += kind == 1
        if kind == 5:
            options = options_of(body[12:])
            checker.counts["dropped"] += struct.unpack("<Q", options[5][0])[0]
        if kind != 6:
            continue
        number += 1
        packet = packet_of(body)
        checker.take(number, packet)
        checker.counts["disordered"] += packet.time < last
        last = packet.time
    for name in sorted(checker.counts):
        print(f"{name}={checker.counts[name]}")
    for line in checker.wrong[:20]:
        print("wrong:", line)
    return 1 if checker.wrong or not number else 0


sys.exit(main())
