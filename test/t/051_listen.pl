# Listeners: the background worker tells them, once when a queue goes from empty
# to ready, and not for each job.

use strict;
use warnings;
use WorkqTest;
use Test::More;

my $node = workq_node('main');
my $s = session($node);

sub sql { return $node->safe_psql('postgres', @_); }

# What the session has been told since the last time; waits for the first.
sub told
{
	my @told;

	wait_until(
		sub {
			push @told, $s->query(q{SELECT 1}) =~ /notification "workq" with payload "([^"]*)"/g;
			return scalar @told;
		},
		'a notification');
	return join ' ', @told;
}

$s->query_safe('LISTEN workq');
sql(q{SELECT workq_create_queue('told'), workq_create_queue('quiet');
	SELECT workq_configure('told', notify_every => '1 hour')});
sql(q{SELECT count(workq_enqueue('quiet', '1'))});
sql(q{SELECT count(workq_enqueue('told', to_jsonb(i))) FROM generate_series(1, 100) i});
is(told(), 'told', 'one for a hundred jobs, none for a queue that does not want it');
sql(q{SELECT workq_enqueue('told', '1')});
sql(q{SELECT workq_configure('told', notify_every => '100 ms')});
sql(q{SELECT workq_create_queue('last'); SELECT workq_configure('last', notify_every => '1 ms')});
sql(q{SELECT workq_enqueue('last', '1', delay => '200 ms')});
my $all = '';
wait_until(sub { $all .= told() . ' '; return $all =~ /last/; }, 'a job that becomes due');
pass('a job that becomes due');
sql(q{SELECT workq_purge('told', true), workq_purge('last', true), pg_sleep(0.3)});
$s->query('SELECT 1');
sql(q{SELECT pg_sleep(0.5)});
is($s->query('SELECT 1'), '1', 'nothing while nothing is ready');
$s->quit;
done_testing();
