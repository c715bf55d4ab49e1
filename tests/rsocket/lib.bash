# SPDX-License-Identifier: BSD-2-Clause
# TAP and waiting for servers. Sourced by the scripts of this folder.
# shellcheck shell=bash

tap_count=0 tap_failed=0
port=$((21000 + RANDOM % 10000))
logs=$(mktemp -d "${TMPDIR:-/tmp}/verbena-rsocket.XXXXXX")
servers=()

finish() {
	local pid
	for pid in "${servers[@]}"; do kill "$pid" 2>/dev/null; done
	rm -rf "$logs"
}
trap finish EXIT

tap_ok() { echo "ok $((++tap_count)) - $*"; }
tap_skip() { echo "ok $((++tap_count)) - $1 # SKIP $2"; }
tap_not_ok() { # text, reason, log files
	local text=$1 reason=$2 log
	shift 2
	((++tap_failed))
	echo "not ok $((++tap_count)) - $text"
	echo "# $reason"
	for log in "$@"; do
		echo "# --- ${log##*/}"
		tail -n 15 "$log" | sed 's/^/#   /'
	done
}
tap_end() {
	echo "1..$tap_count"
	[ "$tap_failed" -eq 0 ]
	exit
}

# Somebody of this network namespace has claimed an RDMA port (a name of an abstract socket).
claimed() { grep -aq "@verbena\.cm\.106\.$1\." /proc/net/unix; }
free_port() {
	while ((port++)); claimed "$port" || [ -n "$(ss -ltnH "sport = :$port")" ]; do :; done
}

wait_until() { # seconds, command...
	local until=$((SECONDS + $1))
	shift
	until "$@"; do
		[ "$SECONDS" -lt "$until" ] || return 1
		sleep 0.02 # between two looks, not instead of them
	done
}

# start LOG COMMAND...: a server in the background; sets $server.
start() {
	local log=$1
	shift
	timeout -k 5 100 "$@" >"$log" 2>&1 &
	server=$!
	servers+=("$server")
}
stop() {
	kill "$1" 2>/dev/null
	wait "$1" 2>/dev/null
}
