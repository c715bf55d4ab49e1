#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""Does every exported function, and every function in a context's tables, have a guard against
cancellation (src/base/cancel.h), or a reason to do without?

usage: check_cancel.py ROOT
"""
import pathlib
import re
import sys

FOLDERS = ("src/verbs", "src/rdmacm", "src/rsocket", "src/preload-sockets")
GUARD = re.compile(r"\bVB_(?:NO_CANCEL|CANCEL_POINT)\b")

# Fast calls. They reach no cancellation point: tests/chaos/chaos_cancel.c.
FAST = """vb_ops_poll_cq vb_ops_req_notify_cq vb_ops_post_send vb_ops_post_recv vb_ops_post_srq_recv
    vb_ops_bind_mw vb_ops_post_srq_ops"""
# They hold nothing: they read a table, convert, refuse, or free memory.
BARE = """ibv_copy_ah_attr_from_kern ibv_copy_qp_attr_from_kern ibv_copy_path_rec_from_kern
    ibv_copy_path_rec_to_kern ibv_get_device_name ibv_get_device_guid ibv_get_device_index
    ibv_node_type_str ibv_port_state_str ibv_event_type_str ibv_wc_status_str ibv_wr_opcode_str
    ibv_qp_to_qp_ex ibv_rate_to_mult mult_to_ibv_rate ibv_rate_to_mbps mbps_to_ibv_rate ibv_set_ece
    ibv_query_ece ibv_query_qp_data_in_order
    ibv_dontfork_range ibv_dofork_range ibv_cmd_poll_cq __ioctl_final_num_attrs
    ibv_free_device_list rdma_event_str rdma_get_src_port rdma_get_dst_port rdma_freeaddrinfo
    rdma_free_devices"""
# They only call functions that have a guard.
CALLERS = """rrecv rread rsend rwrite accept epoll_wait sendmmsg recvmmsg splice sendfile64 fcntl
    __read_chk __recv_chk __recvfrom_chk __poll_chk __ppoll_chk"""

HEAD = re.compile(r"^(?!static\b|#|\s)([^;{}=]*?)\b(\w+)\(([^;{}]*)\)\n\{\n(.*?)^\}", re.M | re.S)


def entries(text):
    public = set(re.findall(r"VB_PUBLIC [^;{}()]*?\b(\w+)\([^;{}]*\);", text))
    for match in HEAD.finditer(text):
        before, name, _, body = match.groups()
        if "__attribute__" in before or name == "__attribute__":
            name = re.search(r"(\w+)\((?!\()[^()]*\)\n\{", match.group(0)).group(1)
        if "VB_PUBLIC" in match.group(0) or name in public or name.startswith("vb_ops_"):
            yield name, body


def main(root):
    excused = set(" ".join((FAST, BARE, CALLERS)).split())
    seen, bad = set(), []
    for folder in FOLDERS:
        for path in sorted(pathlib.Path(root, folder).glob("*.c")):
            for name, body in entries(re.sub(r"/\*.*?\*/", "", path.read_text(), flags=re.S)):
                seen.add(name)
                guarded = bool(GUARD.search(body))
                if not guarded and name not in excused:
                    bad.append(f"{path}: {name} has no guard against cancellation")
                if guarded and name in excused:
                    bad.append(f"{path}: {name} has a guard, and needs no excuse")
    bad += [f"{name}: no such function" for name in sorted(excused - seen)]
    if len(seen) < 150:
        bad.append(f"only {len(seen)} functions found")
    print("\n".join(bad) or f"{len(seen)} functions")
    return bool(bad)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
