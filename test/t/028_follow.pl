# A follower's position holds wherever the database goes: another cluster, whose
# transaction ids are lower or higher, by dump and restore; a copy; an older state
# of itself; a promoted standby.  What comes after that is neither skipped nor
# hidden.  And a late commit is never skipped.

use strict;
use warnings;
use WorkqTest;
use Test::More;
use PostgreSQL::Test::Utils;

my $dir = PostgreSQL::Test::Utils::tempdir();
my $far = '(2::numeric ^ 55)::bigint';    # in places: more than a year

# One response, each in a transaction of its own, for every name.
sub respond
{
	my ($node, $db, @names) = @_;

	$node->safe_psql($db, "SELECT workq_cancel(workq_enqueue('q', '1', correlation => '$_'))") foreach @names;
	return;
}

# A test: behind the position come exactly these, in this order.  Returns the
# position of the last one.
sub follows
{
	my ($node, $db, $position, $expected, $what) = @_;
	my @seen;

	local $Test::Builder::Level = $Test::Builder::Level + 1;
	eval {
		wait_until(
			sub {
				my $after = $position eq '' ? 'NULL' : "'$position'";
				my @rows = split /\n/, $node->safe_psql($db, "SELECT position, correlation FROM workq_responses($after, max_rows => 2)");
				foreach (@rows)
				{
					($position, my $name) = split /\|/;
					push @seen, $name;
				}
				return !@rows && @seen >= (my @n = split / /, $expected);
			},
			"responses $expected",
			$what =~ /^nothing/ ? 1 : undef);
	};
	is("@seen", $expected, $what);
	return $position;
}

sub next_xid { my ($node) = @_; return $node->safe_psql('postgres', 'SELECT pg_snapshot_xmax(pg_current_snapshot())'); }
sub fresh { my ($node, $db) = @_; $node->safe_psql('postgres', "CREATE DATABASE $db TEMPLATE template0"); return; }
sub dump_to { my ($node, $db, $file) = @_; $node->command_ok([ 'pg_dump', '-Fc', '-d', $node->connstr($db), '-f', "$dir/$file" ], "pg_dump $file"); return; }

sub restore
{
	my ($node, $db, $file, @options) = @_;

	fresh($node, $db);
	$node->command_ok([ 'pg_restore', '--exit-on-error', @options, '-d', $node->connstr($db), "$dir/$file" ], "pg_restore $file @options");
	return;
}

# ---- late commits

my $old = workq_node('old', { start => 0, extension => 0, init => { allows_streaming => 1 } }, 'workq.segment_size = 1000');
command_ok([ 'pg_resetwal', '-e', '7', $old->data_dir ], 'a cluster that has counted far');
$old->start;
$old->safe_psql('postgres', q{CREATE EXTENSION workq; SELECT workq_create_queue('q')});
my $late = session($old);
$late->query_safe(q{BEGIN; SELECT workq_cancel(workq_enqueue('q', '1', correlation => 'a'))});
respond($old, 'postgres', 'b', 'c');
follows($old, 'postgres', '', '', 'nothing as long as the first is open');
$late->query_safe('COMMIT');
my $start = follows($old, 'postgres', '', 'a b c', 'then in the order of the transactions');

# ---- another cluster, which has counted less

respond($old, 'postgres', 'd', 'e');
dump_to($old, 'postgres', 'old');
my $newer = follows($old, 'postgres', $start, 'd e', 'the old cluster');
respond($old, 'postgres', 'f', 'g');
$newer = follows($old, 'postgres', $newer, 'f g', 'after the dump');

my $new = workq_node('new');
cmp_ok(next_xid($new), '<', 1_000_000, 'transaction ids are low in the new cluster');
cmp_ok(next_xid($old), '>', 30_000_000_000, 'and high in the old one');
foreach (['restored', ''], ['parallel', '-j2'])
{
	my ($db, @options) = grep { $_ ne '' } @$_;

	restore($new, $db, 'old', @options);
	follows($new, $db, $start, 'd e', "$db: what the dump has is not hidden");
	respond($new, $db, 'h', 'i');
	follows($new, $db, '', 'a b c d e h i', "$db: from the beginning");
	follows($new, $db, $start, 'd e h i', "$db: from a position before the dump");
	follows($new, $db, $newer, 'h i', "$db: from one after the dump");
}

# ---- and back

dump_to($new, 'restored', 'new');
my $last = follows($new, 'restored', $start, 'd e h i', 'the new cluster');
restore($old, 'back', 'new');
respond($old, 'back', 'j');
follows($old, 'back', $start, 'd e h i j', 'back in the old cluster');
follows($old, 'back', $last, 'j', 'from a position of the new one');

# ---- a clock that was far ahead: the stored rows count, whatever the clock says

$new->safe_psql('restored', "UPDATE workq.responses SET writer = writer + $far");
$last = $new->safe_psql('restored', q{SELECT max(writer) || '/999999/0' FROM workq.responses});
dump_to($new, 'restored', 'ahead');
restore($new, 'ahead', 'ahead');
respond($new, 'ahead', 'k');
follows($new, 'ahead', $last, 'k', 'restored from a cluster whose clock was ahead');
follows($new, 'ahead', '', 'a b c d e h i k', 'and nothing is hidden');
$new->safe_psql('postgres', 'CREATE DATABASE copy TEMPLATE restored');
respond($new, 'copy', 'l');
follows($new, 'copy', $last, 'l', 'a copy of such a database');

# while somebody writes: whoever comes then waits for him
respond($new, 'parallel', 'm');
$late = session($new, 'parallel');
$late->query_safe(q{BEGIN; SELECT workq_cancel(workq_enqueue('q', '1', correlation => 'n'))});
$new->safe_psql('parallel', "UPDATE workq.responses SET writer = writer + $far WHERE correlation = 'm'; UPDATE workq.queues SET name = name");
my $next = session($new, 'parallel');
start_query($next, q{SELECT workq_cancel(workq_enqueue('q', '1', correlation => 'o'))});
wait_until_blocked($new, $next);
$late->query_safe('COMMIT');
end_query($next);
respond($new, 'parallel', 'p');
follows($new, 'parallel', $newer, 'h i n m o p', 'a foreign hand, while somebody writes');
$_->quit foreach $late, $next;

# ---- a restart; the clock was ahead, and a crash has lost what was given out

$new->safe_psql('restored', "SELECT setval('workq.response_base', last_value + 2 * $far) FROM workq.response_base");
$last = $new->safe_psql('restored', q{SELECT last_value + txid_current() || '/999999/0' FROM workq.response_base});
$new->append_conf('postgresql.conf', 'max_worker_processes = 1');    # only the launcher
$new->restart;

# whoever comes first sets the base, even if he only looks
$new->safe_psql('restored', q{CREATE ROLE somebody; GRANT EXECUTE ON FUNCTION workq.lane_memory() TO somebody; SET ROLE somebody; BEGIN READ ONLY; SELECT * FROM workq.lane_memory(); COMMIT});
is($new->safe_psql('restored', qq{SELECT last_value > split_part('$last', '/', 1)::bigint FROM workq.response_base}), 't', 'a new base is behind the old one');
respond($new, 'restored', 'q');
follows($new, 'restored', $last, 'q', 'after a restart');
follows($new, 'restored', '', 'a b c d e h i q', 'and nothing is hidden');
$new->stop;

# ---- an older state of the same cluster

$old->backup('backup');
$old->safe_psql('postgres', 'SELECT pg_current_xact_id();' x 200);
respond($old, 'postgres', 'r', 's', 't');
$newer = follows($old, 'postgres', $newer, 'r s t', 'after the backup');
my $again = PostgreSQL::Test::Cluster->new('again');
$again->init_from_backup($old, 'backup');
$again->start;
cmp_ok(next_xid($again), '<', next_xid($old), 'the ids of transactions come again');
follows($again, 'postgres', '', 'a b c d e f g', 'an older state');
respond($again, 'postgres', 'u');
follows($again, 'postgres', $newer, 'u', 'from a position of a newer one');
$again->stop;

# ---- a standby, also one that has not got everything

my $standby = PostgreSQL::Test::Cluster->new('standby');
$standby->init_from_backup($old, 'backup', has_streaming => 1);
$standby->start;
$old->wait_for_catchup($standby);
follows($standby, 'postgres', $start, 'd e f g r s t', 'on a standby');
$old->restart;
respond($old, 'postgres', 'v');
$old->wait_for_catchup($standby);
$newer = follows($standby, 'postgres', $newer, 'v', 'on a standby whose primary was restarted');
$standby->append_conf('postgresql.conf', q{primary_conninfo = ''});
$standby->reload;
wait_for($old, 'SELECT count(*) = 0 FROM pg_stat_replication');
$old->safe_psql('postgres', 'SELECT pg_current_xact_id();' x 200);
respond($old, 'postgres', 'w', 'x', 'y');
$newer = follows($old, 'postgres', $newer, 'w x y', 'what the standby does not get');
$old->stop('immediate');
$standby->promote;
respond($standby, 'postgres', 'z');
follows($standby, 'postgres', $newer, 'z', 'a promoted standby that lacks commits');
follows($standby, 'postgres', $start, 'd e f g r s t v z', 'from an older position');

done_testing();
