# SPDX-License-Identifier: BSD-2-Clause
# The Test Anything Protocol, for the scripts of all folders. Sourced.
# shellcheck shell=bash

tap_count=0 tap_failed=0 tap_skipped=0

tap_ok() { echo "ok $((++tap_count)) - $*"; }

tap_skip() { # text, reason
	((++tap_skipped))
	echo "ok $((++tap_count)) - $1 # SKIP $2"
}

tap_not_ok() { # text, reason, log files
	local text=$1 reason=$2 log
	shift 2
	((++tap_failed))
	echo "not ok $((++tap_count)) - $text"
	echo "# $reason"
	for log in "$@"; do
		echo "# --- ${log##*/}"
		tail -n 45 "$log" | sed 's/^/#   /'
	done
}

# Ends the script: well if nothing failed and something was tried or skipped.
tap_end() {
	echo "1..$tap_count"
	[ "$tap_failed" -eq 0 ] && [ "$tap_count" -gt 0 ]
	exit
}
