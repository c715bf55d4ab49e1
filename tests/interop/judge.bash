# SPDX-License-Identifier: BSD-2-Clause
# What the output of a case must say. Sourced by `run`. Each prints what is wrong, or nothing.
# shellcheck shell=bash

judge() { # program, options, server
	case $1 in
	goldgen) judge_goldgen "${2%% -p*}" "$3" ;;
	ibv_*_pingpong) judge_pingpong ;;
	*_bw | *_lat) judge_table ;;
	rping) judge_rping "$2" ;;
	ucmatose | udaddy) judge_both 'data transfers complete' 'return status 0' ;;
	mckey) judge_both 'joined dgid: ::ffff:239.1.1.1' 'data transfers complete' \
		'return status 0' ;;
	rdma_*) judge_both 'end 0' ;;
	rstream) judge_rstream ;;
	esac
}

# statuses LOG: of all completions, in order, separated by commas
statuses() { sed -nE 's/.*wc opcode -?[0-9]+ status ([0-9]+).*/\1/p' "$1" | paste -sd,; }

# all_succeed LOG COUNT: at least this many completions, all with status 0
all_succeed() {
	local got
	got=$(statuses "$1")
	[[ $got =~ ^0(,0)*$ ]] || { echo "${1##*/}: statuses $got"; return; }
	[ "$(tr -cd , <<<"$got" | wc -c)" -ge $(($2 - 1)) ] || echo "${1##*/}: too few: $got"
}

is() { # log, wanted
	[ "$(statuses "$1")" = "$2" ] || echo "${1##*/}: statuses $(statuses "$1"), wanted $2"
}

# Status numbers are those of enum ibv_wc_status. An rxe that gets a SEND which is too long answers
# "remote operational error" and sees LOC_QP_OP_ERR; we do as NICs do.
judge_goldgen() { # options, server
	local mode=${1##* }
	case $mode in
	rc) all_succeed "$work/client" 21; all_succeed "$work/server" 12; judge_atomics ;;
	loss) all_succeed "$work/client" 45; all_succeed "$work/server" 18; judge_atomics ;;
	uc) all_succeed "$work/client" 14; all_succeed "$work/server" 11 ;;
	ud) all_succeed "$work/client" 5; all_succeed "$work/server" 5 ;;
	burst) is "$work/client" 0,0 ;;
	rnr) is "$work/client" 0; is "$work/server" 0 ;;
	errkey | errread) is "$work/client" 10 ;;
	errlen)
		if [ "$2" = ours ] && [ "$peer" = verbena ]; then
			is "$work/client" 9
			is "$work/server" 1
		else
			is "$work/client" 11
			is "$work/server" 2
		fi
		;;
	esac
	grep -q 'server .* done' "$work/server" || echo "the server is not done"
	grep -q 'client .* done' "$work/client" || echo "the client is not done"
}

# CMP_AND_SWAP finds what the server put there, FETCH_AND_ADD what the swap left.
judge_atomics() {
	local old
	old=$(sed -n 's/.*old value //p' "$work/client" | head -n 2 | paste -sd' ')
	[ "$old" = '0102030405060708 1112131415161718' ] || echo "atomics found $old"
}

judge_pingpong() {
	awk '/Mbit\/sec/ { rate = $(NF - 1) } END { if (!(rate > 0)) print "no rate > 0" }' \
		"$work/client"
}

# The message rate, which has six decimals, or the typical latency. perftest measures the clock for
# both; where that fails on a busy machine, it says so, and prints 0.
judge_table() {
	awk '
		/#bytes/ { table = 1; next }
		/Correlation coefficient/ { no_clock = 1 }
		table && $1 ~ /^[0-9]+$/ && $2 ~ /^[0-9]+$/ && ($5 > 0 || no_clock) { good = 1 }
		END { if (!good) print "no row with a figure > 0" }' "$work/client"
}

judge_both() { # lines that both sides must say
	local log line
	for log in "$work/server" "$work/client"; do
		for line in "$@"; do
			grep -qF -- "$line" "$log" || echo "${log##*/} does not say: $line"
		done
	done
}

# Both have seen every message, and compared it (-V).
judge_rping() { # options
	local log count wanted
	wanted=$(sed -nE 's/.* -C ([0-9]+) .*/\1/p' <<<"$1")
	for log in "$work/server" "$work/client"; do
		count=$(grep -c 'ping data: rdma-ping-' "$log")
		[ "$count" -eq "$wanted" ] || echo "${log##*/}: $count of $wanted messages"
		grep -m 1 -E 'mismatch|failed' "$log"
	done
}

# A row in the table; the bytes are compared by the program (-T v), which fails if they are wrong.
judge_rstream() {
	local log
	for log in "$work/server" "$work/client"; do
		awk '$1 == "custom" && $8 > 0 { good = 1 } END { exit !good }' "$log" ||
			echo "${log##*/}: no row with a figure > 0"
	done
}
