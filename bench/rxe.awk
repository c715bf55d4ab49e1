# SPDX-License-Identifier: BSD-2-Clause
# Reads "round who row unit figure", sorted by row, who and figure; prints a Markdown table with a
# line per row and writes the medians to the file named by the variable csv. Exits with 1 if a
# figure of either is missing: a row that failed is not a row that Verbena won.

function median(key, n, middle) {
	n = count[key]
	middle = int((n + 1) / 2)
	return n % 2 ? figure[key, middle] : (figure[key, middle] + figure[key, middle + 1]) / 2
}

{
	key = $3 SUBSEP $2
	figure[key, ++count[key]] = $5
	if (!($3 in unit))
		row[++rows] = $3
	unit[$3] = $4
}

BEGIN {
	split("send_lat_8B write_lat_8B read_lat_8B atomic_lat send_lat_4K write_lat_4K " \
		"send_bw_64B " \
		"write_bw_64B send_bw_64K write_bw_64K read_bw_64K write_bw_1M rc_pingpong " \
		"rc_pingpong_events", wanted, " ")
	print "row,unit,rxe,verbena,ahead" > csv
	print "| what | unit | rxe | Verbena | ahead | reach | met |"
	print "|---|---|--:|--:|--:|---|---|"
}

END {
	for (i = 1; i in wanted; i++) {
		name = wanted[i]
		theirs = count[name, "rxe"] ? median(name SUBSEP "rxe") : ""
		ours = count[name, "verbena"] ? median(name SUBSEP "verbena") : ""
		ahead = ""
		if (theirs == "" || ours == "")
			failed = 1
		else
			ahead = unit[name] == "us" ? theirs / ours : ours / theirs
		met = (ahead != "" && ahead > 1) ? "yes" : "no"
		printf "| %s | %s | %s | %s | %s | > 1 | %s |\n", name, unit[name],
			theirs == "" ? "failed" : sprintf("%.1f", theirs),
			ours == "" ? "failed" : sprintf("%.1f", ours),
			ahead == "" ? "" : sprintf("%.2f", ahead), met
		printf "%s,%s,%s,%s,%s\n", name, unit[name], theirs, ours, ahead > csv
	}
	if (count["udp_pingpong", "udp"])
		printf "\nA plain UDP ping-pong of the same packets in the same guest: " \
			"%.1f us half a round trip.\n",
			median("udp_pingpong" SUBSEP "udp")
	exit failed
}
