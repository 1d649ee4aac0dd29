
=pod

=head1 NAME

WorkqHistory - does the log of a database tell a possible story?

=head1 SYNOPSIS

  use WorkqHistory;

  history_ok($node, 'after the crash');          # database postgres
  history_ok($node, 'after the crash', 'mydb');
  all_done_ok($node, 'at the end', 'q');         # every job of queue q, once

  # what is left is claimed and acknowledged, each with a row in "work"
  drain($node, 'q');

=cut

package WorkqHistory;

use strict;
use warnings;

use Exporter 'import';
use File::Basename;
use PostgreSQL::Test::Utils;
use Test::More;
use WorkqTest;

our @EXPORT = qw(all_done_ok drain history_ok history_sees_ok);

my $query = slurp_file(dirname(__FILE__) . '/history.sql');

=pod

=head1 FUNCTIONS

=over

=item history_ok(NODE, NAME, [DBNAME])

A test: every claim has exactly one end or a lease, attempts are consecutive,
every job is in one place, memory says what the tables say (see history.sql).
Waits for open transactions that have used workq.

=cut

sub history_ok
{
	my ($node, $name, $dbname) = @_;

	local $Test::Builder::Level = $Test::Builder::Level + 1;
	my $found = $node->safe_psql($dbname || 'postgres',
		"ANALYZE; SELECT violation, count(*), (array_agg(concat_ws(': ', job_id, detail)))[1:5] FROM ($query) v GROUP BY 1 ORDER BY 1");
	return is($found, '', "$name: the log is consistent");
}

=pod

=item history_sees_ok(NODE, SQL, LIKE, [DBNAME])

A test of the checker: after this damage to the log, undone again, it finds a
violation like that.

=cut

sub history_sees_ok
{
	my ($node, $damage, $like, $dbname) = @_;

	local $Test::Builder::Level = $Test::Builder::Level + 1;
	return cmp_ok(
		$node->safe_psql($dbname || 'postgres',
			"BEGIN; $damage; SELECT count(*) FROM ($query) v WHERE violation LIKE '$like'; ROLLBACK"),
		'>', 0, "the checker sees: $like");
}

=pod

=item all_done_ok(NODE, NAME, QUEUE, [DBNAME])

A test: every job of the queue was acknowledged exactly once.

=cut

sub all_done_ok
{
	my ($node, $name, $queue, $dbname) = @_;

	local $Test::Builder::Level = $Test::Builder::Level + 1;
	return is(
		$node->safe_psql($dbname || 'postgres', qq{
			SELECT count(*) FILTER (WHERE acks <> 1) FROM (
				SELECT j.job_id, count(c.job_id) AS acks
				  FROM workq.jobs j JOIN workq.queues q USING (queue_id)
				  LEFT JOIN workq.claims c ON c.job_id = j.job_id AND c.event = 'acked'
				 WHERE q.name = '$queue' GROUP BY j.job_id) t}),
		'0', "$name: every job of $queue was done once");
}

=pod

=item drain(NODE, QUEUE, [WORK TABLE, [DBNAME]])

Do what is left in a queue: claim and acknowledge, noting (job_id, claim_id) in the
table, until no job is ready, scheduled or leased.

=cut

sub drain
{
	my ($node, $queue, $table, $dbname) = @_;
	my $work = $table
	  ? "INSERT INTO $table SELECT job_id, claim_id FROM c"
	  : 'SELECT FROM c';

	wait_until(
		sub {
			return $node->safe_psql($dbname || 'postgres', qq{
				CREATE TEMP TABLE c AS SELECT job_id, claim_id FROM workq_claim('$queue', 'drain', '1 h', max_jobs => 10000);
				BEGIN;
				SELECT count(*) FROM workq_ack_batch((SELECT coalesce(array_agg(claim_id), '{}') FROM c), on_lost => 'error') \\g /dev/null
				$work;
				COMMIT;
				SELECT count(*) = 0 FROM workq.queues q, LATERAL (
					SELECT FROM workq.ready l WHERE l.queue_id = q.queue_id
					UNION ALL SELECT FROM workq.leases l WHERE l.queue_id = q.queue_id
					UNION ALL SELECT FROM workq.scheduled l WHERE l.queue_id = q.queue_id) l WHERE name = '$queue'}) =~ /t$/;
		},
		"queue $queue is done");
	return;
}

=pod

=back

=cut

1;
