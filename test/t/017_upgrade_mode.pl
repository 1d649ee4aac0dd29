# pg_upgrade: in binary upgrade mode no process of workq runs (pitfall C1), and
# a cluster with jobs in it is upgraded and goes on.

use strict;
use warnings;
use WorkqTest;
use Test::More;
use PostgreSQL::Test::Utils;

my $old = workq_node('old');
$old->safe_psql('postgres', q{SELECT workq_enqueue('q', jsonb_build_object('n', i)) FROM generate_series(1, 5) i;
	SELECT workq_enqueue('q', '{}', delay => '1 s');
	SELECT count(*) FROM workq_claim('q', 'w', '1 day', max_jobs => 2)});
wait_for($old, q{SELECT count(*) = 4 FROM workq.ready});
$old->stop;

# Binary upgrade mode, started as pg_upgrade does.
my $options = '-b -c listen_addresses= -c port=' . $old->port;
system_or_bail('pg_ctl', '-w', '-s', '-D', $old->data_dir, '-l', $old->logfile, '-o', $options, 'start');
is($old->safe_psql('postgres', q{SELECT count(*) FROM pg_stat_activity WHERE backend_type LIKE 'workq%'}),
	'0', 'no process of workq in binary upgrade mode');
$old->safe_psql('postgres', 'CREATE DATABASE other');
is($old->psql('postgres', 'DROP DATABASE other'), 0, 'databases can be dropped');
is($old->safe_psql('postgres', q{SELECT count(*) FROM pg_stat_activity WHERE backend_type LIKE 'workq%'}),
	'0', 'still none');
system_or_bail('pg_ctl', '-w', '-s', '-D', $old->data_dir, '-m', 'fast', 'stop');
unlike(slurp_file($old->logfile), qr/PANIC|TRAP|terminated by signal/, 'nothing crashed');

# The real thing, to the same version.
my $new = workq_node('new', { start => 0 });
my $bindir = $old->config_data('--bindir');
chomp($bindir = `dirname \$(command -v postgres)`) if !-x "$bindir/pg_upgrade";
SKIP:
{
	skip 'no pg_upgrade', 1 if !-x "$bindir/pg_upgrade";
	chdir($new->basedir) or die;
	command_ok(
		[
			"$bindir/pg_upgrade", '--no-sync',
			'-d', $old->data_dir, '-D', $new->data_dir,
			'-b', $bindir, '-B', $bindir,
			'-s', $new->host, '-p', $old->port, '-P', $new->port,
			'-U', (getpwuid($<))[0], '-j', '2'
		],
		'pg_upgrade');
	$new->start;
	wait_for($new, q{SELECT count(*) = 1 FROM pg_stat_activity WHERE backend_type = 'workq worker'});
	is($new->safe_psql('postgres', q{SELECT (SELECT count(*) FROM workq.jobs), (SELECT count(*) FROM workq.ready),
			(SELECT count(*) FROM workq.leases)}),
		'6|4|2', 'all jobs are there');
	$new->safe_psql('postgres', q{SELECT workq_enqueue('q', '{}', delay => '50 ms')});
	wait_for($new, q{SELECT count(*) = 5 FROM workq.ready});
	is($new->safe_psql('postgres', q{SELECT count(*) FROM (SELECT workq_ack(claim_id) FROM workq_claim('q', 'w', max_jobs => 10)) x}),
		'5', 'and work goes on');
	is($new->safe_psql('postgres', 'SELECT count(*) FROM workq.jobs WHERE job_id > 1000'),
		'1', 'with new job ids');
	is($new->psql('postgres', 'DROP EXTENSION workq'), 0, 'and it can be dropped');
}
done_testing();
