# SPDX-License-Identifier: BSD-2-Clause
"""connected.py FILE PID PEER: three QPs of PID in RTS, each with a QP of PEER."""
import json
import sys

processes = json.load(open(sys.argv[1]))
pid, peer = int(sys.argv[2]), int(sys.argv[3])
if [p["pid"] for p in processes] != [pid]:
    sys.exit(print("processes:", [p["pid"] for p in processes]) or 1)
qps = processes[0]["objects"]
good = [q for q in qps if q["object"] == "qp" and q["state"] == "RTS" and q["type"] == "RC"
        and q.get("peer", {}).get("pid") == peer and q["peer"]["qpn"]]
if len(qps) != 3 or len(good) != 3 or processes[0]["counts"]["qp"] != 3:
    sys.exit(print("QPs:", qps) or 1)
