# SPDX-License-Identifier: BSD-2-Clause
# Reads "round key value" samples, then the rows of local.rows; prints the Markdown table and writes
# the medians to the file named by the variable csv.
#
#   awk -v csv=FILE -f report.awk SAMPLES local.rows

function trim(text) {
	gsub(/^[ \t]+|[ \t]+$/, "", text)
	return text
}

# Sorts values[1..n] by insertion (there are few) and returns the median.
function median_of(values, n, i, j, held) {
	for (i = 2; i <= n; i++) {
		held = values[i]
		for (j = i - 1; j >= 1 && values[j] > held; j--)
			values[j + 1] = values[j]
		values[j + 1] = held
	}
	return n % 2 ? values[(n + 1) / 2] : (values[n / 2] + values[n / 2 + 1]) / 2
}

function summarise(key, round, n, values) {
	split("", values)
	for (round = 1; round <= rounds; round++)
		if ((round, key) in sample)
			values[++n] = sample[round, key]
	median[key] = median_of(values, n)
	low[key] = values[1]
	high[key] = values[n]
	count[key] = n
}

# The median of the ratios within a round: neighbours in time saw the same machine.
function ratio_of(key, against, round, n, values) {
	split("", values)
	for (round = 1; round <= rounds; round++)
		if ((round, key) in sample && (round, against) in sample &&
		    sample[round, against] > 0)
			values[++n] = sample[round, key] / sample[round, against]
	return n ? median_of(values, n) : ""
}

function summarise_all(key) {
	for (key in keys)
		summarise(key)
	summarised = 1
}

function format(number, unit) {
	return sprintf(unit == "us" || unit == "ms" ? "%.3f" : \
		unit == "MB" ? "%.0f" : "%.2f", number)
}

# Is the goal, such as "<= 1.5", met by the number?
function meets(number, goal, part) {
	split(goal, part, " ")
	if (part[1] == "<=") return number <= part[2] + 0
	if (part[1] == "<") return number < part[2] + 0
	if (part[1] == ">=") return number >= part[2] + 0
	if (part[1] == ">") return number > part[2] + 0
	print "report.awk: cannot read the goal \"" goal "\"" > "/dev/stderr"
	exit 2
}

function write_csv(key, what, unit) {
	if (key in written)
		return
	written[key] = 1
	gsub(/`/, "", what)
	printf "%s,\"%s\",%s,%s,%s,%s,%d\n", key, what, unit, median[key], low[key], high[key],
		count[key] > csv
}

function print_row(what, unit, key, against, goal, ratio, met) {
	if (against != "")
		ratio = ratio_of(key, against)
	if (goal != "")
		met = against == "" ? (meets(median[key], goal) ? "yes" : "no") : \
			ratio == "" ? "?" : (meets(ratio, goal) ? "yes" : "no")
	printf "| %s | %s | %s | %s | %s | %s | %s |\n", what, format(median[key], unit), unit,
		against == "" ? "" : label[against],
		ratio == "" ? "" : sprintf("%.2f", ratio), goal, met
}

BEGIN {
	print "key,what,unit,median,min,max,samples" > csv
	print "| what | figure | unit | compared with | ratio | reach | met |"
	print "|---|--:|---|---|--:|---|---|"
}

FNR == NR {
	sample[$1, $2] = $3 + 0
	keys[$2] = 1
	if ($1 > rounds)
		rounds = $1
	next
}

!summarised {
	summarise_all()
	FS = "|"
	$0 = $0
}

/^#/ || NF < 3 { next }

{
	key = trim($1)
	what = trim($2)
	unit = trim($3)
	label[key] = what
	if (!(key in median)) {
		printf "| %s | failed | %s |  |  | %s | %s |\n", what, unit, trim($5),
			trim($5) == "" ? "" : "no"
		next
	}
	print_row(what, unit, key, trim($4), trim($5))
	write_csv(key, what, unit)
}
