# Bars of the medians. The data blocks above come from local.csv. Grey: bare, blue: UCX, green:
# Verbena.
set terminal pngcairo size 1500,560 font "Sans,10"
set output "local.png"
set style fill solid 0.9 noborder
set boxwidth 0.7
set grid ytics
set xtics rotate by -40 nomirror noenhanced scale 0
set yrange [0:*]
unset key
set linetype 1 lc rgb "#8c8c8c"
set linetype 2 lc rgb "#3b75af"
set linetype 3 lc rgb "#3f9b57"
set multiplot layout 1,3 title "One host, two processes (grey: bare, blue: UCX, green: Verbena)"
set title "latency at 8 B, microseconds (less is better)"
plot $latency using 1:3:4:xtic(2) with boxes lc variable, \
	"" using 1:3:(sprintf("%.2f", $3)) with labels offset 0,0.6 font ",8"
set title "bandwidth, GB/s (more is better)"
plot $bandwidth using 1:3:4:xtic(2) with boxes lc variable, \
	"" using 1:3:(sprintf("%.1f", $3)) with labels offset 0,0.6 font ",8"
set title "8 B messages, million a second (more is better)"
plot $rate using 1:3:4:xtic(2) with boxes lc variable, \
	"" using 1:3:(sprintf("%.1f", $3)) with labels offset 0,0.6 font ",8"
unset multiplot
