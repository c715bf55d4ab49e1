# SPDX-License-Identifier: BSD-2-Clause
# shellcheck shell=bash
# The common part of bench/local, bench/wire, bench/connect and bench/scale: options, samples, the
# table, the plot. A benchmark sets $bench_name and sources this file.

# shellcheck source-path=SCRIPTDIR source=../scripts/lib.sh
source "$(dirname "${BASH_SOURCE[0]}")/../scripts/lib.sh"

rounds=5
quick=0
out_dir=$build_dir/bench
failures=0
round=0
start_load=
samples=

# Sets OPTIND: the caller handles the arguments behind the options.
parse_options() {
	local option
	while getopts 'r:qo:h' option; do
		case $option in
		r) rounds=$OPTARG ;;
		q) rounds=1 quick=1 ;;
		o) out_dir=$OPTARG ;;
		h) usage && exit 0 ;;
		*) usage >&2 && exit 2 ;;
		esac
	done
	[[ $rounds =~ ^[1-9][0-9]*$ ]] || die "-r wants a number above 0, not \"$rounds\""
}

# --- one measurement -------------------------------------------------------------------------

progress() {
	if [ -t 2 ]; then
		printf '\r\e[K%s' "$*" >&2
	else
		printf '%s\n' "$*" >&2
	fi
}

record() {
	printf '%d %s %s\n' "$round" "$1" "$2" >>"$samples"
}

failed() {
	failures=$((failures + 1))
	show_failure "$@" >&2
}

# The host of a virtual machine may move its cores: for a while they share no cache, or are one
# core, and copies between them take several times as long. A measurement from such a time is
# repeated: steady COMMAND…
bounces=()
repeated=0
steady() {
	local tries
	for tries in 1 2 3; do
		if cores_are_usual; then
			"$@" || return
			! cores_are_usual || return 0
		fi
		repeated=$((repeated + 1))
	done
	"$@" # they stay where they are
}

# The cores are as far apart as in most of this run: bounce.c measures a word from one to the other.
cores_are_usual() {
	local now
	now=$("$build_dir/bench/bounce" | awk '$1 == "bounce_lat" { print $2 }')
	bounces+=("$now")
	printf '%s\n' "${bounces[@]}" | sort -n | awk -v now="$now" '
		{ value[NR] = $1 }
		END {
			usual = value[int((NR + 1) / 2)]
			exit !(now <= 2.5 * usual && usual <= 2.5 * now)
		}'
}

# A program of bench/ prints "key value" lines itself.
own() {
	local key figure
	progress "round $round/$rounds: $1"
	[ -x "$build_dir/bench/$1" ] || die "$build_dir/bench/$1 is missing; try: make"
	if steady run_alone "$build_dir/bench/$1"; then
		while read -r key figure; do
			record "$key" "$figure"
		done <"$client_out"
	else
		failed "bench/$1"
	fi
}

# on_verbena KEY latency|bandwidth|rate PROGRAM OPTION…
on_verbena() {
	local key=$1 kind=$2
	shift 2
	progress "round $round/$rounds: $*"
	if steady "perftest_$kind" "$@"; then
		record "$key" "$value"
	else
		failed "$@"
	fi
}

# --- the results -----------------------------------------------------------------------------

# Other programs on the same cores make every figure of a pair meaningless.
warn_if_busy() {
	start_load=$(cut -d ' ' -f 1 /proc/loadavg)
	if awk -v busy="$start_load" 'BEGIN { exit !(busy >= 0.7) }'; then
		echo "warning: load average $start_load: a busy machine gives wrong figures" >&2
	fi
}

# print_table TITLE [ROWS]
print_table() {
	local cpu
	cpu=$(awk -F': ' '/^model name/ { print $2; exit }' /proc/cpuinfo)
	echo "## $1: medians of $rounds round(s)"
	echo
	echo "${cpu:-$(uname -m)}, $(nproc) CPUs, Linux $(uname -r)," \
		"load average at start $start_load"
	[ "$repeated" -eq 0 ] || echo "(the host moved the cores: repeated $repeated times)"
	echo
	awk -v csv="$out_dir/$bench_name.csv" -f "$project_root/bench/report.awk" \
		"$samples" "${2:-$project_root/bench/$bench_name.rows}"
}

# One named data block for gnuplot: the given keys, in order. Colours: 1 bare, 2 UCX, 3 Verbena.
plot_block() {
	local name=$1
	shift
	echo "\$$name << END"
	awk -F, -v keys="$*" '
		{
			split($0, part, "\"")
			what[$1] = part[2]
			split(part[3], rest, ",")
			figure[$1] = rest[3]
		}
		END {
			n = split(keys, key, " ")
			for (i = 1; i <= n; i++) {
				if (!(key[i] in figure))
					continue
				colour = what[key[i]] ~ /^UCX/ ? 2 : what[key[i]] ~ /ib_/ ? 3 : 1
				printf "%d \"%s\" %s %d\n", ++row, what[key[i]], figure[key[i]],
					colour
			}
		}' "$out_dir/$bench_name.csv"
	echo END
}

# Each benchmark has a write_plot of its own.
draw() {
	write_plot >"$out_dir/$bench_name.gp"
	if ! command -v gnuplot >/dev/null; then
		echo "gnuplot is missing: no plot" >&2
		return
	fi
	(cd "$out_dir" && gnuplot "$bench_name.gp")
}
