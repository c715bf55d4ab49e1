# SPDX-License-Identifier: BSD-2-Clause
# Runs one pair of programs and judges it. Sourced by `matrix`, which sets $verbena and $mode.
# shellcheck shell=bash

# shellcheck source=tests/tap.bash
. "$(dirname "${BASH_SOURCE[0]}")/../tap.bash"

limit_s=${CLIENT_LIMIT_S:-180} # against hangs; a loaded machine needs some of it
[ "${mode:-quick}" = full ] && limit_s=600
port=$((20000 + RANDOM % 10000)) # below those that the kernel gives to clients
# Where the two run: on this host, or each in a network namespace (hosts_begin).
server_in=() client_in=() server_address=127.0.0.1

pair_begin() {
	logs=$(mktemp -d "${TMPDIR:-/tmp}/verbena-clients.XXXXXX")
	chmod 755 "$logs"
	trap 'rm -rf "$logs"' EXIT
	if [ ! -x "$verbena" ]; then
		echo "Bail out! $verbena is not there: run make first"
		exit 1
	fi
	verbena=$(realpath "$verbena")
}

pair_end() {
	echo "1..$tap_count"
	echo "# $((tap_count - tap_failed - tap_skipped)) passed, $tap_failed failed," \
		"$tap_skipped skipped"
	[ "$tap_failed" -eq 0 ] && [ "$tap_count" -gt "$tap_skipped" ]
	exit
}

# Two namespaces joined by a veth pair: the server in one, the client in the other.
hosts_begin() { # MTU
	# shellcheck source=tests/net/lib.sh
	. "$here/../net/lib.sh"
	net_begin
	trap 'net_end; rm -rf "$logs"' EXIT
	net_hosts "$1"
	server_in=(ip netns exec "${net_name[B]}")
	client_in=(ip netns exec "${net_name[A]}")
	server_address=$(net_address B)
}

listens() { [ -n "$("${server_in[@]}" ss -ltnH "sport = :$1")" ]; }

next_port() { # sets $port to one that nobody listens on
	((port++))
	while listens "$port"; do ((port++)); done
}

# start_server LOG COMMAND...: in the background, until it listens on $port; sets $server.
start_server() {
	local log=$1 until=$((SECONDS + 60))
	shift
	"${server_in[@]}" timeout -k 5 "$limit_s" "$@" >"$log" 2>&1 &
	server=$!
	until listens "$port"; do
		kill -0 "$server" 2>/dev/null || return 1
		[ "$SECONDS" -lt "$until" ] || return 1
		sleep 0.02 # between two looks, not instead of them
	done
}

# judge PROGRAM OPTIONS LOG: says what is wrong with the output; nothing if all is well.
judge() {
	case $1 in
	ibv_*_pingpong) judge_pingpong "$3" ;;
	*_bw) judge_table "$3" "$2" 5 'MsgRate' ;;
	*_lat) judge_table "$3" "$2" 5 't_typical' ;;
	esac
}

judge_pingpong() {
	grep -q 'invalid data' "$1" && echo "the received bytes are wrong"
	awk '/Mbit\/sec/ { rate = $(NF - 1) } END { if (!(rate > 0)) print "no rate > 0" }' "$1"
}

# perftest prints a header that starts with #bytes, then a row per size, all numbers. Of bandwidth
# tests the message rate is read: it has six decimals, while 20 messages of 2 bytes that meet
# another program's time slice are 0.00 MB/s. And perftest measures the clock for every row; where
# that fails on a busy machine it says so and prints 0 for all that depends on it.
judge_table() { # log, options, column, its name
	local rows=1
	[[ " $2 " == *" -a "* ]] && rows=23
	[[ " $2 " == *" -a "* && " $2 " == *" UD "* ]] && rows=10
	awk -v column="$3" -v name="$4" -v wanted="$rows" '
		/#bytes/ { table = 1; next }
		/Correlation coefficient/ { no_clock++ }
		table && $1 ~ /^[0-9]+$/ && $2 ~ /^[0-9]+$/ {
			rows++
			if (!($column > 0) && !no_clock && !bad) bad = $1
		}
		END {
			if (rows < wanted) print "table of " rows + 0 " rows, expected " wanted
			if (bad) print name " is not > 0 at " bad " bytes"
		}' "$1"
}

# ibv_srq_pingpong stops sending when so many sends have completed, and has some more on their way
# by then. If its peer has got all it waits for and has left, and is known to be gone, they fail.
overshot() { # program, log, status of the peer
	[ "$1" = ibv_srq_pingpong ] && [ "$3" -eq 0 ] &&
		grep -q 'Failed status transport retry counter exceeded' "$2"
}

# run_pair LOG PREFIX PROGRAM OPTIONS: 0, or 1 with the reason in $reason. PREFIX: a command to run
# it under, or nothing. Logs are LOG.server and LOG.client.
run_pair() {
	local log=$1 program=$3 options=$4 status
	local -a prefix command
	read -ra prefix <<<"$2"
	read -ra command <<<"$program $options"
	[[ $program == ib_* ]] && command+=(-F)
	command=("${prefix[@]}" "$verbena" run "${command[@]}" -p "$port")
	reason=''
	: >"$log.client"
	if ! start_server "$log.server" "${command[@]}"; then
		kill "$server" 2>/dev/null
		wait "$server"
		reason="the server ended ($?) or does not listen: ${command[*]}"
		return 1
	fi
	"${client_in[@]}" timeout -k 5 "$limit_s" "${command[@]}" "$server_address" \
		>"$log.client" 2>&1 </dev/null
	status=$?
	# A server whose client failed may wait for ever: it gets a moment, no more.
	if [ $status -ne 0 ]; then
		timeout 2 tail --pid="$server" -f /dev/null
		kill "$server" 2>/dev/null
	fi
	wait "$server"
	local server_status=$?
	if overshot "$program" "$log.server" "$status"; then server_status=0; fi
	if overshot "$program" "$log.client" "$server_status"; then
		return 0 # and prints no rate
	fi
	if [ $status -ne 0 ] || [ $server_status -ne 0 ]; then
		reason="client ended with $status, server with $server_status"
		reason+=" (124 is a timeout after ${limit_s} s): ${command[*]} [$server_address]"
		return 1
	fi
	reason=$(judge "$program" "$options" "$log.client" | paste -sd';')
	[ -z "$reason" ]
}

report() { # status, text, log
	if [ "$1" -eq 0 ]; then
		tap_ok "$2"
	else
		tap_not_ok "$2" "$reason" "$3.server" "$3.client"
	fi
}

pair() {
	next_port
	run_pair "$logs/pair" '' "$1" "$2"
	report $? "$1 $2" "$logs/pair"
}

single() { # program, options, pattern, pattern
	local log=$logs/single text="$1${2:+ $2}" pattern status
	# shellcheck disable=SC2086 # words of the options are arguments
	timeout -k 5 20 "$verbena" run "$1" $2 >"$log" 2>&1 </dev/null
	status=$?
	if [ $status -ne 0 ]; then
		tap_not_ok "$text" "ended with $status" "$log"
		return
	fi
	for pattern in "$3" "$4"; do
		grep -qE -- "$pattern" "$log" && continue
		tap_not_ok "$text shows $pattern" "not found in its output" "$log"
		return
	done
	tap_ok "$text shows $3, $4"
}

as_user() { echo "setpriv --reuid $1 --regid $1 --clear-groups"; }

# Why other users cannot be tried here; nothing if they can.
no_users() {
	[ "$(id -u)" -eq 0 ] || { echo "only root can start programs of other users"; return; }
	# shellcheck disable=SC2046
	$(as_user "$1") test -x "$verbena" -a -r "${verbena%/*}/lib/libibverbs.so.1" ||
		echo "user $1 may not read ${verbena%/*}: the clone lies in a private directory"
}

user_pair() { # program, options, uid
	local text="$1 $2 as an ordinary user" why
	if [ "$(id -u)" -ne 0 ]; then
		text+=" (this one, $(id -u))"
		next_port
		run_pair "$logs/user" '' "$1" "$2"
		report $? "$text" "$logs/user"
		return
	fi
	why=$(no_users "$3")
	[ -z "$why" ] || { tap_skip "$text" "$why"; return; }
	next_port
	run_pair "$logs/user" "$(as_user "$3")" "$1" "$2"
	report $? "$text" "$logs/user"
}

# One user's pair in a subshell: its verdict and the time it ran go to LOG.verdict.
user_pair_background() { # log, program, options, uid
	local begin=$EPOCHREALTIME
	run_pair "$1" "$(as_user "$4")" "$2" "$3"
	echo "$? $begin $EPOCHREALTIME $reason" >"$1.verdict"
}

two_users() { # program, options, uid, uid
	local text="$1 $2: two users at the same time" why i jobs=()
	local -a status begin end reasons
	why=$(no_users "$3")
	[ -z "$why" ] || { tap_skip "$text" "$why"; return; }
	for i in 1 2; do
		next_port
		user_pair_background "$logs/user$i" "$1" "$2" "${@:2+i:1}" &
		jobs+=($!)
	done
	wait "${jobs[@]}"
	for i in 1 2; do
		read -r "status[$i]" "begin[$i]" "end[$i]" "reasons[$i]" <"$logs/user$i.verdict"
	done
	for i in 1 2; do
		[ "${status[$i]}" -eq 0 ] && continue
		tap_not_ok "$text" "user ${*:2+i:1}: ${reasons[$i]}" "$logs/user$i".{server,client}
		return
	done
	if awk "BEGIN { exit !(${begin[1]} < ${end[2]} && ${begin[2]} < ${end[1]}) }"; then
		tap_ok "$text"
	else
		tap_not_ok "$text" "they did not run at the same time: nothing is shown"
	fi
}
