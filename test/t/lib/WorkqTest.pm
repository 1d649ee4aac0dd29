
=pod

=head1 NAME

WorkqTest - servers, sessions and waiting for workq's TAP tests

=head1 SYNOPSIS

  use strict;
  use warnings;
  use WorkqTest;
  use Test::More;

  # a started server with workq preloaded and created in database postgres
  my $node = workq_node('main', 'workq.some_setting = 10');

  # the same, not started, a database cluster that can have standbys
  my $primary = workq_node('primary',
	  { start => 0, init => { allows_streaming => 1 } });

  sql_fails($node, 'WQ001', q{SELECT workq_ack(...)}, 'claim lost');
  wait_for($node, q{SELECT count(*) = 3 FROM workq.leases});

  my $s = session($node);
  $s->query_safe('BEGIN');
  start_query($s, q{SELECT * FROM workq_claim('q', 'w', '1 min', wait => '30 s')});
  wait_until_waiting($node, $s);
  ...
  my ($out, $err) = end_query($s);
  $s->quit;

  done_testing();

Nothing here sleeps to order events: everything waits for a condition, and dies
at a deadline.

=cut

package WorkqTest;

use strict;
use warnings;

use Carp;
use Exporter 'import';
use IPC::Run;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(time usleep);

our @EXPORT = qw(
  end_query
  kill_process
  pgbouncer
  session
  session_pid
  sql_fails
  sqlstate
  start_query
  wait_for
  wait_for_exit
  wait_until
  wait_until_blocked
  wait_until_waiting
  worker_pids
  workq_node
);

# Seconds after which something that should happen has not happened.
our $deadline = $ENV{WORKQ_TEST_DEADLINE} || 60;

=pod

=head1 FUNCTIONS

=over

=item workq_node(NAME, [{ OPTIONS }], CONF...)

A new server with workq preloaded; CONF are lines for postgresql.conf.
Options:

  start      start it (default 1)
  extension  create the extension in database postgres (default: if started)
  preload    put workq into shared_preload_libraries (default 1)
  init       a hash of further parameters for PostgreSQL::Test::Cluster's init

=cut

sub workq_node
{
	my $name = shift;
	my %opt = ref $_[0] ? %{ shift() } : ();
	my @conf = @_;
	my $node = PostgreSQL::Test::Cluster->new($name);
	my %init = %{ $opt{init} || {} };

	$init{extra} = [ '--encoding=UTF8', '--locale=C', @{ $init{extra} || [] } ];
	$node->init(%init);
	$node->append_conf('postgresql.conf', "shared_preload_libraries = 'workq'")
	  if $opt{preload} // 1;
	$node->append_conf('postgresql.conf', "max_connections = 100");
	$node->append_conf('postgresql.conf', $_) foreach @conf;
	if ($opt{start} // 1)
	{
		$node->start;
		$node->safe_psql('postgres', 'CREATE EXTENSION workq')
		  if $opt{extension} // $opt{preload} // 1;
	}
	return $node;
}

=pod

=item wait_until(SUB, WHAT, [SECONDS])

Call SUB until it returns true, and return that; die at the deadline.

=cut

sub wait_until
{
	my ($sub, $what, $seconds) = @_;
	my $end = time() + ($seconds || $deadline);

	while (1)
	{
		my $result = $sub->();
		return $result if $result;
		croak "timed out waiting for: $what" if time() > $end;
		usleep(20_000);
	}
}

=pod

=item wait_for(NODE, QUERY, [EXPECTED], [DBNAME], [SECONDS])

Run the query until it prints EXPECTED (default "t"); die at the deadline, and
say what it printed last.  Errors count as "not yet".

=cut

sub wait_for
{
	my ($node, $query, $expected, $dbname, $seconds) = @_;
	my ($out, $err);

	$expected //= 't';
	eval {
		wait_until(
			sub {
				(undef, $out, $err) = $node->psql($dbname || 'postgres', $query);
				return defined $out && $out eq $expected && $err eq '';
			},
			$query, $seconds);
	};
	croak "$@expected: $expected\nlast output: $out\nlast error: $err\n" if $@;
	return 1;
}

=pod

=item sqlstate(NODE, SQL, [DBNAME])

The SQLSTATE of the first error that the SQL raises, or "00000".

=cut

sub sqlstate
{
	my ($node, $sql, $dbname) = @_;
	my ($rc, $out, $err) = $node->psql(
		$dbname || 'postgres', $sql,
		extra_params => [ '-v', 'VERBOSITY=sqlstate' ],
		on_error_stop => 1);

	return $1 if $err =~ /(?:ERROR|FATAL):\s+([0-9A-Z]{5})/;
	return $rc == 0 ? '00000' : "psql failed: $err";
}

=pod

=item sql_fails(NODE, SQLSTATE, SQL, [NAME], [DBNAME])

A test: the SQL raises this SQLSTATE.

=cut

sub sql_fails
{
	my ($node, $state, $sql, $name, $dbname) = @_;

	local $Test::Builder::Level = $Test::Builder::Level + 1;
	return is(sqlstate($node, $sql, $dbname), $state, $name || $sql);
}

=pod

=item session(NODE, [DBNAME], [PARAMETERS...])

A psql session in the background (PostgreSQL::Test::BackgroundPsql: query,
query_safe, quit).  Errors do not end it; each query may take until the deadline.

=cut

sub session
{
	my ($node, $dbname, %params) = @_;
	my $s = $node->background_psql(
		$dbname || 'postgres',
		on_error_stop => 0,
		timeout => $deadline,
		%params);

	$s->set_query_timer_restart();
	return $s;
}

=pod

=item session_pid(SESSION)

The process id of the session's backend.

=cut

sub session_pid
{
	my ($s) = @_;

	$s->{workq_pid} ||= $s->query_safe('SELECT pg_backend_pid()');
	return $s->{workq_pid};
}

=pod

=item start_query(SESSION, SQL)

Send it and return at once.

=item end_query(SESSION)

Wait for what start_query sent; returns its output and its error output.

=cut

sub start_query
{
	my ($s, $sql) = @_;

	session_pid($s);
	$s->{stderr} = '';
	$s->{stdout} = '';
	$s->{workq_mark} = 'workq-end-' . ++$s->{workq_count};
	$s->{stdin} .= "$sql\n;\n\\echo '$s->{workq_mark}'\n\\warn '$s->{workq_mark}'\n";
	$s->{run}->pump_nb();
	return;
}

sub end_query
{
	my ($s) = @_;
	my $mark = qr/\r?\n?\Q$s->{workq_mark}\E\r?\n/;

	$s->{timeout}->start();
	$s->{run}->pump()
	  until ($s->{stdout} =~ $mark && $s->{stderr} =~ $mark)
	  || $s->{timeout}->is_expired;
	croak "timed out waiting for a query to end" if $s->{timeout}->is_expired;
	my ($out, $err) = ($s->{stdout}, $s->{stderr});
	s/$mark// foreach $out, $err;
	$s->{stdout} = $s->{stderr} = '';
	return ($out, $err);
}

=pod

=item wait_until_blocked(NODE, SESSION)

Until the session's backend waits for a lock.

=item wait_until_waiting(NODE, SESSION, [LIKE])

Until the backend waits for an event whose name is like LIKE (default: any
event of an extension).

=cut

sub wait_until_blocked
{
	my ($node, $s) = @_;
	my $pid = session_pid($s);

	$s->{run}->pump_nb();
	return wait_for($node, "SELECT cardinality(pg_blocking_pids($pid)) > 0");
}

sub wait_until_waiting
{
	my ($node, $s, $like) = @_;
	my $pid = session_pid($s);

	$s->{run}->pump_nb();
	return wait_for($node,
			"SELECT state = 'active' AND "
		  . (defined $like
			? "wait_event LIKE '$like'"
			: "wait_event_type = 'Extension'")
		  . " FROM pg_stat_activity WHERE pid = $pid");
}

=pod

=item worker_pids(NODE, [LIKE])

Process ids of the server's processes whose backend_type is like LIKE (default
"workq%"), lowest first.

=cut

sub worker_pids
{
	my ($node, $like) = @_;

	$like //= 'workq%';
	return split /\n/,
	  $node->safe_psql('postgres',
		"SELECT pid FROM pg_stat_activity WHERE backend_type LIKE '$like' ORDER BY pid");
}

=pod

=item kill_process(PID, SIGNAL)

Send a signal to a server process; wait_for_exit(PID) waits until it is gone.

=cut

sub kill_process
{
	my ($pid, $signal) = @_;

	return kill($signal, $pid) || croak "could not signal $pid: $!";
}

sub wait_for_exit
{
	my ($pid, $seconds) = @_;

	return wait_until(sub { !kill(0, $pid) }, "end of process $pid", $seconds);
}

=pod

=item pgbouncer(NODE, MODE, [SETTING => VALUE...])

Start a pgbouncer in front of the node's databases, in pool mode MODE
(transaction, session, statement).  Returns a handle with host, port, connstr(DBNAME)
and stop; it ends with the test.

=cut

sub pgbouncer
{
	my ($node, $mode, %settings) = @_;
	my $dir = PostgreSQL::Test::Utils::tempdir('pgbouncer');
	my $sockdir = PostgreSQL::Test::Utils::tempdir_short();
	my $port = PostgreSQL::Test::Cluster::get_free_port();
	my ($host, $nodeport) = ($node->host, $node->port);
	my $user = getpwuid($<);

	%settings = (
		listen_port => $port,
		unix_socket_dir => $sockdir,
		pidfile => "$dir/pid",
		logfile => "$dir/log",
		auth_type => 'any',
		pool_mode => $mode,
		default_pool_size => 4,
		max_client_conn => 200,
		ignore_startup_parameters => 'extra_float_digits',
		%settings);
	PostgreSQL::Test::Utils::append_to_file(
		"$dir/ini", join "\n",
		'[databases]',
		"* = host=$host port=$nodeport user=$user",
		'[pgbouncer]',
		(map { "$_ = $settings{$_}" } sort keys %settings),
		'');
	my ($in, $out, $err) = ('', '', '');
	my $program = (grep { -x } map { "$_/pgbouncer" }
		  split(/:/, $ENV{PATH}), '/usr/sbin')[0]
	  or croak "there is no pgbouncer";
	my $run = IPC::Run::start([ $program, "$dir/ini" ],
		\$in, \$out, \$err);
	my $self = bless {
		run => $run, host => $sockdir, port => $port,
		pidfile => "$dir/pid" }, 'WorkqTest::PgBouncer';
	wait_until(
		sub {
			$run->pump_nb();
			croak "pgbouncer ended: $err" unless $run->pumpable;
			return -S "$sockdir/.s.PGSQL.$port";
		},
		'pgbouncer');
	return $self;
}

package WorkqTest::PgBouncer;

sub host { return $_[0]->{host}; }
sub port { return $_[0]->{port}; }

sub connstr
{
	my ($self, $dbname) = @_;

	return "host=$self->{host} port=$self->{port} dbname=" . ($dbname // 'postgres');
}

sub stop
{
	my ($self) = @_;
	my $run = delete $self->{run} or return;

	$run->kill_kill(grace => 5);
	return;
}

sub DESTROY { my ($self) = @_; local $?; $self->stop; return; }

=pod

=back

=cut

1;
