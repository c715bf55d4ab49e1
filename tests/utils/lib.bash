# SPDX-License-Identifier: BSD-2-Clause
# TAP and pairs of programs, for the tests of the utilities and the examples. Sourced.
# shellcheck shell=bash

# shellcheck source=tests/tap.bash
. "$(dirname "${BASH_SOURCE[0]}")/../tap.bash"

limit_s=60
port=$((24000 + RANDOM % 8000))
jobs_started=()

begin() { # BUILD-FOLDER
	build=$(realpath "$1")
	logs=$(mktemp -d "${TMPDIR:-/tmp}/verbena-utils.XXXXXX")
	# run_pair splits commands at spaces: a path with one gets another name.
	if [[ $build = *' '* ]]; then
		ln -s "$build" "$logs/build"
		build=$logs/build
	fi
	verbena=$build/verbena
	trap finish EXIT
}

# Only what this script started, by its id.
finish() {
	local job
	for job in "${jobs_started[@]}"; do kill "$job" 2>/dev/null; done
	rm -rf "$logs"
}

end() { tap_end; }
ok() { tap_ok "$@"; }
skip() { tap_skip "$@"; }
not_ok() { tap_not_ok "$@"; }

check() { # text, reason ('': all is well), log files
	local text=$1 reason=$2
	shift 2
	if [ -z "$reason" ]; then ok "$text"; else not_ok "$text" "$reason" "$@"; fi
}

listens() { [ -n "$(ss -ltnH "sport = :$1")" ]; }

next_port() {
	((port++))
	while listens "$port"; do ((port++)); done
}

# until_true SECONDS COMMAND...: looks again and again, not longer than that.
until_true() {
	local until=$((SECONDS + $1))
	shift
	until "$@"; do
		[ "$SECONDS" -lt "$until" ] || return 1
		sleep 0.02
	done
}

# start LOG COMMAND...: in the background; sets $job.
start() {
	local log=$1
	shift
	: >"$log" # before anybody looks for what the new program prints
	timeout -k 5 "$limit_s" "$@" >"$log" 2>&1 </dev/null &
	job=$!
	jobs_started+=("$job")
}

listens_or_ended() { listens "$port" || ! kill -0 "$job" 2>/dev/null; }

# run_pair "SERVER COMMAND" "CLIENT COMMAND": both take $port already. Sets server_status,
# client_status; output in $logs/server and $logs/client.
run_pair() {
	local -a serve connect
	read -ra serve <<<"$1"
	read -ra connect <<<"$2"
	: >"$logs/client"
	start "$logs/server" "${serve[@]}"
	until_true 20 listens_or_ended
	timeout -k 5 "$limit_s" "${connect[@]}" >"$logs/client" 2>&1 </dev/null
	client_status=$?
	# A server whose client failed may wait for ever.
	[ $client_status -eq 0 ] ||
		{ timeout 2 tail --pid="$job" -f /dev/null; kill "$job" 2>/dev/null; }
	wait "$job"
	server_status=$?
}

pair_reason() {
	[ "$server_status" -eq 0 ] && [ "$client_status" -eq 0 ] && return
	echo "server ended with $server_status, client with $client_status (124: after $limit_s s)"
}
