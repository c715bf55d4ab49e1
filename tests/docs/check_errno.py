#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""Does the contract's table of failures have every call of libibverbs that can fail?

usage: check_errno.py ROOT
"""
import re
import sys

# Fail in no way, for want of memory alone, or not in a way that a test can bring about.
CANNOT_FAIL = r"""
    ibv_copy_\w+ ibv_rate_to_\w+ \w+_to_ibv_rate ibv_ack_\w+ ibv_\w+_str ibv_dofork_range
    ibv_dontfork_range ibv_fork_init ibv_is_fork_initialized ibv_free_device_list
    ibv_get_device_\w+ ibv_open_device ibv_get_sysfs_path ibv_query_device ibv_unimport_\w+
    ibv_query_qp_data_in_order __\w+ ibv_read_ibdev_sysfs_file verbs_\w+ verbena_engine
    read_\w+ end_poll next_poll wr_(?!complete)\w+ (ibv_)?free_buf ibv_dmabuf_heap_\w+
""".split()


def calls_of(text):
    """The names of the .api file that do something."""
    for line in text.splitlines():
        match = re.match(r"(\w+)\s+(\S+)", line)
        if match and match[2] != "EOPNOTSUPP":
            yield match[1]


def main():
    root = sys.argv[1].rstrip("/")
    with open(root + "/src/verbs/libibverbs.api", encoding="utf-8") as file:
        calls = set(calls_of(file.read()))
    with open(root + "/tests/contract/ct_errno.c", encoding="utf-8") as file:
        table = file.read()
    tried = set(re.findall(r"(?:FAILS\(\w+, |CT_\w+\(!?)(?:verbs->)?(\w+)\(", table))
    missing = [name for name in sorted(calls)
               if not re.fullmatch("|".join(CANNOT_FAIL), name) and
               not tried & {name, "ibv_" + name, f"ibv_{name}_ex"}]
    for name in missing:
        print(f"tests/contract/ct_errno.c does not have {name}")
    print(f"{len(calls)} calls, {len(tried)} tried, {len(missing)} missing")
    return 1 if missing or not tried else 0


sys.exit(main())
