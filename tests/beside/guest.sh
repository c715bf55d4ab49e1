#!/bin/sh
# SPDX-License-Identifier: BSD-2-Clause
# shellcheck disable=SC2317,SC2086 # functions are called by their names; options are words
# One case of tests/beside/guest, inside the guest: exit status 0, or what is wrong. Its files are
# in /tmp/v (Verbena) and /tmp/py (Python, pyverbs, rdma-core's tests).

folder=/tmp/v
log=/tmp/case.$$

fail() {
	echo "$*"
	cat $log.* 2>/dev/null
	exit 1
}

ours() { # COMMAND...: with Verbena's libraries
	LD_LIBRARY_PATH=$folder/lib VERBENA_DEVICES=lo,+system "$@"
}

sent() {
	rdma statistic show link rxe0/1 | grep -o 'sent_pkts [0-9]*'
}

# The case must have gone over this device.
carried_by() { # device, what rxe0 had sent before
	case $1 in
	rxe0) [ "$(sent)" != "$2" ] || fail "rxe0 has sent nothing" ;;
	*) [ "$(sent)" = "$2" ] || fail "rxe0 has sent something" ;;
	esac
}

listens() { netstat -ltn | grep ":$1 " >/dev/null; }

# until_true COMMAND...: ten seconds at most.
until_true() {
	tries=0
	until "$@"; do
		tries=$((tries + 1))
		[ $tries -lt 200 ] || fail "it does not happen: $*"
		usleep 50000
	done
}

# --- devices --------------------------------------------------------------------------------------

devices() {
	names=$(ours ibv_devices | awk 'NR > 2 { print $1 }' | tr '\n' ' ')
	[ "$names" = 'verbena0 rxe0 ' ] || fail "the devices are $names"
}

devinfo() {
	ibv_devinfo -v -d rxe0 >$log.theirs 2>&1
	ours ibv_devinfo -v -d rxe0 >$log.ours 2>&1
	grep -q PORT_ACTIVE $log.ours || fail "no port is active"
	diff $log.theirs $log.ours || fail "the outputs differ"
}

command_line() {
	ours $folder/verbena devices >$log.out 2>&1
	grep -q "^rxe0 *system's" $log.out || fail "rxe0 is not there"
	grep -q "^verbena0 *Ethernet *lo" $log.out || fail "verbena0 is not there"
}

sysfs() {
	ours $folder/verbena run bash -c 'echo /sys/class/infiniband/*
		read guid </sys/class/infiniband/rxe0/node_guid
		read type </sys/class/infiniband/verbena0/node_type
		echo $guid $type' >$log.out 2>&1
	grep -q '^/sys/class/infiniband/rxe0 /sys/class/infiniband/verbena0$' $log.out ||
		fail "the entries are others"
	grep -q "^$(cat /sys/class/infiniband/rxe0/node_guid) 1: CA\$" $log.out ||
		fail "the files are others"
}

both() {
	before=$(sent)
	ours $folder/both verbena0 1 rxe0 1 200 >$log.out 2>&1 || fail "it fails"
	carried_by rxe0 "$before"
}

# --- pairs of programs ----------------------------------------------------------------------------

pair() { # device, command: a server, and a client of its own address
	before=$(sent) port=18515
	case $2 in *18600*) port='' ;; esac
	ours $2 >$log.server 2>&1 &
	server=$!
	case $port in
	'') until_true eval 'rdma resource show cm_id | grep "LISTEN.*:18600" >/dev/null' ;;
	*) until_true listens $port ;;
	esac
	ours $2 198.51.100.11 >$log.client 2>&1 || fail "the client fails"
	wait $server || fail "the server fails"
	carried_by "$1" "$before"
}

cm() { # device, program, options of the server, of the client, ends of the two names
	before=$(sent)
	ours $2$5 $3 >$log.server 2>&1 &
	server=$!
	# Nobody listens until the server does, and the client ends at once.
	until_true eval "ours $2$6 $4 >$log.client 2>&1 || ! kill -0 $server"
	wait $server || fail "the server fails"
	carried_by "$1" "$before"
}

client() { # device, command
	before=$(sent)
	until_true eval "ours $2 >$log.client 2>&1"
	carried_by "$1" "$before"
}

serve() { # command
	ours $1 >$log.server 2>&1 || fail "the server fails"
}

# --- rdma-core's tests ----------------------------------------------------------------------------

run_module() { # module
	PYTHONHOME=/tmp/py PYTHONPATH=/tmp/py PYTHONDONTWRITEBYTECODE=1 /tmp/py/bin/python3 \
		/tmp/py/tests/run_tests.py --dev rxe0 --gid 1 -v "tests.test_$1" 2>&1
}

results() { # log
	grep -oE '^.*\.\.\. (ok|skipped|FAIL|ERROR)' "$1"
}

suite() { # module
	cd /tmp/py || fail "there is no /tmp/py"
	before=$(sent)
	LD_LIBRARY_PATH=/tmp/py/so run_module "$1" >$log.theirs
	LD_LIBRARY_PATH=$folder/lib:/tmp/py/so VERBENA_DEVICES=lo,+system run_module "$1" >$log.ours
	results $log.theirs >$log.1
	results $log.ours >$log.2
	grep -q 'ok$\|skipped$' $log.2 || fail "no test ran"
	diff $log.1 $log.2 || fail "the results differ"
	echo "$(grep -c 'ok$' $log.2) ok, $(grep -c 'skipped$' $log.2) skipped," \
		"$(grep -c 'FAIL$\|ERROR$' $log.2) failed with both"
}

"$@"
status=$?
rm -f $log.*
exit $status
