# The waiting times as a picture.
#
# usage: gnuplot -e "dir='build/demo'" demo/fairness.gp
#
# It reads dir/waits.tsv (queue, tenant, enqueued, waited) and dir/tenants.tsv
# (tenant, p50, p95, max under fifo, the same under drr) and writes
# dir/fairness.svg.
if (!exists("terminal")) terminal = "svg"
set terminal @terminal size 1100,800 font "sans,13"
set output dir . "/fairness." . terminal
set datafile separator tab
set multiplot
waits = dir . "/waits.tsv"
tenants = dir . "/tenants.tsv"
set logscale y
set yrange [0.0005:20]
set ytics ("1 ms" 0.001, "10 ms" 0.01, "0.1 s" 0.1, "1 s" 1, "10 s" 10)
set grid ytics lc rgb "#dddddd"
set key top center horizontal samplen 1
set border 3
set tics nomirror

# what a row is about, or nothing
is(queue, hot) = (strcol(1) eq queue && (strcol(2) eq "hot") == hot) ? $4 : NaN
unfloored(x) = x < 0.0006 ? 0.0006 : x

set size 0.5,0.52
set xlabel "enqueued at second"
set origin 0,0.48
set title "fifo: who waits longest comes first"
set ylabel "waited"
plot waits using 3:(unfloored(is("by_age", 1))) title "hot" pt 7 ps 0.25 lc rgb "#bbbbbb", \
	waits using 3:(unfloored(is("by_age", 0))) title "the ten others" pt 7 ps 0.45 lc rgb "#c0392b"
set origin 0.5,0.48
set title "drr: everybody in turn"
set ylabel
plot waits using 3:(unfloored(is("by_share", 1))) title "hot" pt 7 ps 0.25 lc rgb "#bbbbbb", \
	waits using 3:(unfloored(is("by_share", 0))) title "the ten others" pt 7 ps 0.45 lc rgb "#2471a3"

set size 1,0.48
set origin 0,0
set title "median (bar) and 95th percentile (line) by tenant"
set xlabel
set ylabel "waited"
set boxwidth 0.35
set style fill solid 0.8 noborder
set xrange [-0.6:10.6]
plot tenants using ($0 - 0.2):(unfloored($2)):xtic(1) with boxes title "fifo" lc rgb "#c0392b", \
	tenants using ($0 + 0.2):(unfloored($5)) with boxes title "drr" lc rgb "#2471a3", \
	tenants using ($0 - 0.2):(unfloored($2)):(unfloored($2)):(unfloored($3)) with yerrorbars notitle ps 0 lw 1.5 lc rgb "#641e16", \
	tenants using ($0 + 0.2):(unfloored($5)):(unfloored($5)):(unfloored($6)) with yerrorbars notitle ps 0 lw 1.5 lc rgb "#154360"
unset multiplot
