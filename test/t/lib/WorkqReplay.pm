
=pod

=head1 NAME

WorkqReplay - recompute every selection of a drr queue from its log

=head1 SYNOPSIS

  use WorkqReplay;

  my $result = workq_replay($node, 'queue', tolerance => 1.0);
  is($result->{difference}, undef);
  cmp_ok($result->{selections}, '>', 1000);

=head1 DESCRIPTION

A second, slow and obvious implementation of the rules of deficit round robin
(design, section 6, rules 1 to 9), which shares no code with the first.  It
reads what happened to a queue from workq.jobs, workq.claims and
workq.policies, in the order of its time, and at each claim works out which job
it must have been, with which decision, round, credit and weight; it stops at
the first that differs.

The log must be that of a queue with one claimer, with nothing lost and each
event in a transaction of its own, since the policy was loaded; the strategy
drr, the mode bounded.  What the log does not tell:

=over

=item *

A call that got fewer jobs than it asked for has looked into lanes and found
them empty, which changes their place in the round.  Give for each such call a
time after it, in microseconds since 1970, and how many jobs it got, as
short => [[time, got], ...].

=item *

A lane's clock starts when the transaction commits that made it ready, a moment
after the time in the log.  Decisions about starvation that are closer than the
tolerance, in seconds, are taken as the log has them.

=item *

Weights and caps of keys are followed from the next claim on.  If a change
concerns several keys that move by it, in which order is not known: change one
at a time, and claim.

=item *

A job that was due, or whose lease has expired, and which the background worker
moved: when it did.  Run without the worker, and let no lease expire.

=back

=cut

package WorkqReplay;

use strict;
use warnings;

use Exporter 'import';
use JSON::PP;
use List::Util qw(first max min sum0);

our @EXPORT = qw(workq_replay workq_replay_events);

my $SEPARATOR = "\x1f";

# ---------------------------------------------------------------------------
# The log
# ---------------------------------------------------------------------------

=pod

=head1 FUNCTIONS

=over

=item workq_replay_events(NODE, QUEUE, [DBNAME])

What happened to the queue, in order: a list of hashes.

=cut

sub workq_replay_events
{
	my ($node, $queue, $dbname) = @_;
	my $us = sub { "(extract(epoch FROM $_[0]) * 1000000)::bigint" };
	my $at = $us->('at');
	my $id = "(SELECT queue_id FROM workq.queues WHERE name = '$queue')";

	my $lines = $node->safe_psql($dbname || 'postgres', <<"SQL");
SELECT row_to_json(p) FROM (SELECT 'policy' AS kind, $at AS at, event, settings, version
	FROM workq.policies WHERE queue_id = $id) p;
SELECT row_to_json(j) FROM (SELECT 'job' AS kind, @{[ $us->('enqueued_at') ]} AS at, job_id, priority,
	coalesce(lane, '') AS lane, @{[ $us->('run_at') ]} AS run_at FROM workq.jobs WHERE queue_id = $id) j;
SELECT row_to_json(c) FROM (SELECT CASE WHEN event = 'claimed' THEN 'claim' ELSE 'end' END AS kind, $at AS at,
	event, job_id, number, priority, coalesce(lane, '') AS lane, @{[ $us->('ready_since') ]} AS ready_since,
	@{[ $us->('due') ]} AS due, @{[ $us->('promotion_deadline') ]} AS promotion_deadline, decision, round, credit, weight, policy_version
	FROM workq.claims WHERE queue_id = $id) c;
SQL
	my %order = (policy => 0, end => 1, job => 2, claim => 3);
	my $json = JSON::PP->new;

	return sort {
		$a->{at} <=> $b->{at}
		  || $order{ $a->{kind} } <=> $order{ $b->{kind} }
		  || ($a->{version} || 0) <=> ($b->{version} || 0)
		  || ($a->{job_id} || 0) <=> ($b->{job_id} || 0)
	} map { $json->decode($_) } split /\n/, $lines;
}

=pod

=item workq_replay(NODE, QUEUE, [tolerance => SECONDS], [short => \@CALLS])

Returns a hash: selections (how many agree), difference (the first that does
not; undef if all agree), promotions, direct (claims of jobs that were due).

=back

=cut

sub workq_replay
{
	my ($node, $queue, %opt) = @_;
	my @events = workq_replay_events($node, $queue, $opt{dbname});
	my $m = {
		params => undef,
		list_weights => {},
		keys => {},
		keys_changed => 0,
		lanes => {},
		groups => {},
		jobs => {},
		scheduled => {},
		resumed_at => -1e18,
		tolerance => ($opt{tolerance} // 1) * 1_000_000,
		sequence => 0,
		result => { selections => 0, promotions => 0, direct => 0 },
	};

	$m->{outer} = new_ring();
	push @events, map { { kind => 'short', at => $_->[0], got => $_->[1] } }
	  @{ $opt{short} || [] };
	# a short call comes after the claims it got
	@events = sort { $a->{at} <=> $b->{at} } @events;
	while (my $e = shift @events)
	{
		my $problem;

		if ($e->{kind} eq 'claim')
		{
			my @call = ($e);

			push @call, shift @events
			  while @events && $events[0]{kind} eq 'claim' && $events[0]{at} == $e->{at};
			$problem = replay_call($m, @call);
			$problem //= replay_short($m, shift @events)
			  if @events && $events[0]{kind} eq 'short' && $events[0]{got};
			commit($m, $e->{at}, map { $_->{lane} } @call);
		}
		elsif ($e->{kind} eq 'short') { $problem = replay_short($m, $e); }
		elsif ($e->{kind} eq 'job')   { replay_job($m, $e); }
		elsif ($e->{kind} eq 'end')   { $problem = replay_end($m, $e); }
		else                          { replay_policy($m, $e); }
		if (defined $problem)
		{
			$m->{result}{difference} = "selection "
			  . ($m->{result}{selections} + 1)
			  . " at $e->{at}: $problem\n" . dump_ring($m, $m->{outer}, $e->{at});
			last;
		}
	}
	return $m->{result};
}

# ---------------------------------------------------------------------------
# Lanes, groups and rings
# ---------------------------------------------------------------------------

sub new_ring
{
	return {
		round => 0, budget => 0, granted => 0, ring_was_last => 0,
		members => [],
		ring => [], returning => [], spent => [], debtors => [],
	};
}

my @LISTS = qw(ring returning spent debtors);

# Own weight and cap of a key; undef: inherited.
sub own_weight
{
	my ($m, $key) = @_;
	return $m->{keys}{$key}{weight} // $m->{list_weights}{$key};
}

sub weight_in_force
{
	my ($m, $l) = @_;
	return $l->{own_weight} // ($l->{group} ? 1 : $m->{params}{default_weight});
}

sub add_lane
{
	my ($m, $ring, $key, $group) = @_;
	my $l = {
		key => $key, parent => $ring, group => $group,
		ready => 0, in_flight => 0, eligible => 0, untouched => 0,
		credit => 0, round => $ring->{round} - 1, clock => 0, sequence => 0,
		list => '', jobs => {},
		own_weight => own_weight($m, $key),
		cap => $m->{keys}{$key}{max_concurrent},
	};
	my $weight = weight_in_force($m, $l);

	$l->{paused} = $weight == 0;
	$l->{weight} = $weight || 1;
	push @{ $ring->{members} }, $l;
	return $l;
}

# A key's lane, and its tenant's group.
sub lane_of
{
	my ($m, $key) = @_;

	return $m->{lanes}{$key} ||= do
	{
		my ($ring, $group) = ($m->{outer}, undef);

		if ($key =~ /^(.*)$SEPARATOR/s)
		{
			$group = $m->{groups}{$1} ||= do
			{
				my $g = add_lane($m, $m->{outer}, $1, undef);
				$g->{inner} = new_ring();
				$g->{inner}{round} = $m->{outer}{round};
				$g;
			};
			$ring = $group->{inner};
		}
		add_lane($m, $ring, $key, $group);
	};
}

sub full { my ($m, $l) = @_; return $l->{weight} * $m->{params}{quantum}; }
sub idle { my ($l) = @_; return !$l->{ready} && $l->{in_flight} == 0; }

sub unlist
{
	my ($l) = @_;
	my $ring = $l->{parent};

	return unless $l->{list};
	$ring->{ $l->{list} } = [ grep { $_ != $l } @{ $ring->{ $l->{list} } } ];
	$l->{list} = '';
	return;
}

sub enlist
{
	my ($l, $list) = @_;

	push @{ $l->{parent}{$list} }, $l;
	$l->{list} = $list;
	return;
}

# Rule 1.
sub should_be_eligible
{
	my ($m, $l) = @_;
	my $cap = $l->{cap} // $m->{params}{max_concurrent_per_key};

	return 0 if !$l->{ready} || $l->{paused};
	return (grep { $_->{eligible} } @{ $l->{inner}{members} }) ? 1 : 0
	  if $l->{inner};
	return $cap == 0 || $l->{in_flight} < $cap ? 1 : 0;
}

# After a change: see that a lane is in the list in which it belongs.
sub update
{
	my ($m, $l, $from_cap, $now) = @_;
	my $was = $l->{eligible};
	my $list = '';

	$l->{eligible} = should_be_eligible($m, $l);
	if ($l->{eligible} && !$was)
	{
		$l->{clock} = $now;
		$l->{sequence} = ++$m->{sequence};
	}
	if ($l->{eligible})
	{
		if ($l->{credit} > 0)
		{
			$list =
			  (!$was && $from_cap) || $l->{list} eq 'returning'
			  ? 'returning'
			  : 'ring';
		}
		else
		{
			$list = $l->{credit} > -full($m, $l) ? 'spent' : 'debtors';
		}
	}
	if ($list ne $l->{list})
	{
		# it may have stopped owing a full round
		if ($l->{list} eq 'debtors' && $list)
		{
			$l->{clock} = $now;
			$l->{sequence} = ++$m->{sequence};
		}
		unlist($l);
		enlist($l, $list) if $list;
	}
	return;
}

# ---------------------------------------------------------------------------
# Rounds
# ---------------------------------------------------------------------------

# The credit after n rounds have started.
sub credit_after
{
	my ($m, $l, $n) = @_;
	my $full = full($m, $l);

	return $l->{credit} if $n == 0;
	return $full if $n > 1 || $l->{credit} >= 0;
	return $l->{credit} <= -$full ? 0 : $full + $l->{credit};
}

# Rule 3: n rounds start.
sub next_rounds
{
	my ($m, $ring, $n, $now) = @_;

	foreach my $l (@{ $ring->{debtors} })
	{
		$l->{clock} = $now;
		$l->{sequence} = ++$m->{sequence};
	}
	$ring->{round} += $n;
	$ring->{granted} = 0;
	foreach my $l (grep { !idle($_) } @{ $ring->{members} })
	{
		$l->{credit} = credit_after($m, $l, $n);
		$l->{round} = $ring->{round};
		$l->{untouched} = $l->{ready};
	}
	return;
}

sub start_round
{
	my ($m, $ring, $now) = @_;
	my @ready = grep { $_->{ready} && !$_->{paused} } @{ $ring->{members} };

	$ring->{budget} = sum0(map { full($m, $_) + min($_->{credit}, 0) } @ready);
	next_rounds($m, $ring, 1, $now);
	$ring->{ring} = $ring->{spent};
	$ring->{spent} = $ring->{debtors};
	$ring->{debtors} = [];
	$_->{list} = 'ring' foreach @{ $ring->{ring} };
	$_->{list} = 'spent' foreach @{ $ring->{spent} };
	return;
}

# Nothing is ready: the round ends, and so does the next.
sub settle
{
	my ($m, $ring, $now) = @_;

	return if grep { $_->{ready} } @{ $ring->{members} };
	next_rounds($m, $ring, 2, $now);
	$ring->{budget} = 0;
	return;
}

# Rules 4 and 5: a lane is about to have ready or leased jobs.
sub join_round
{
	my ($m, $l) = @_;
	my $ring = $l->{parent};
	my $n = $ring->{round} - $l->{round};

	return if !idle($l) || $n == 0;
	$l->{credit} = credit_after($m, $l, $n);
	$l->{round} = $ring->{round};
	$l->{untouched} = 0;
	return if $l->{paused};
	if ($l->{credit} <= $ring->{budget} - $ring->{granted})
	{
		$ring->{granted} += $l->{credit};
	}
	else
	{
		$l->{credit} = 0;
	}
	return;
}

# Rules 2 and 5: the next in turn.
sub pick
{
	my ($m, $ring, $now) = @_;

	while (1)
	{
		my $regular = $ring->{ring}[0];
		my $returning = $ring->{returning}[0];

		return $returning
		  if $returning && (!$regular || $ring->{ring_was_last});
		return $regular if $regular;
		return undef if !@{ $ring->{spent} } && !@{ $ring->{debtors} };
		start_round($m, $ring, $now);
	}
}

# ---------------------------------------------------------------------------
# Turns
# ---------------------------------------------------------------------------

sub serve
{
	my ($m, $l, $in_turn, $now) = @_;
	my $ring = $l->{parent};
	my %undo;

	join_round($m, $l);
	%undo = (
		lane => $l,
		credit => $l->{credit},
		untouched => $l->{untouched},
		list => $l->{list},
		clock => $l->{clock},
		sequence => $l->{sequence},
		ring_was_last => $ring->{ring_was_last});
	$ring->{ring_was_last} = $l->{list} eq 'ring' if $in_turn;
	$l->{credit}-- if $l->{credit} > -full($m, $l);
	$l->{in_flight}++;
	$l->{untouched} = 0;
	$l->{clock} = $now;
	$l->{sequence} = ++$m->{sequence};
	if ($l->{credit} > 0 && $l->{list} =~ /^(ring|returning)$/)
	{
		my $list = $l->{list};

		unlist($l);
		enlist($l, $list);
	}
	update($m, $l, 0, $now);
	return \%undo;
}

# A lane's turn, and its group's.
sub take_turn
{
	my ($m, $l, $group_in_turn, $lane_in_turn, $now) = @_;
	my $top = $l->{group} || $l;
	my %s = (
		lane => $l,
		weight => $top->{paused} ? 0 : $top->{weight},
		clock => $top->{eligible} ? max($top->{clock}, $m->{resumed_at}) : $now,
		was_listed => $top->{eligible} && $top->{list} ne 'debtors');

	push @{ $s{undo} }, serve($m, $l, $lane_in_turn, $now);
	push @{ $s{undo} }, serve($m, $top, $group_in_turn, $now) if $top != $l;
	$s{round} = $top->{parent}{round};
	$s{credit} = $top->{credit};
	return \%s;
}

# Rules 2 and 7.  receipts: what the log says, for what is too close to tell.
sub choose
{
	my ($m, $now, @receipts) = @_;
	my $age = $m->{params}{starvation_age} * 1000;
	my $in_turn = pick($m, $m->{outer}, $now);
	my ($top, $lane, $decision) = ($in_turn, $in_turn, 'fair-share');
	my $s;

	return undef unless $in_turn;
	if ($age > 0)
	{
		my ($oldest) = sort {
			$a->{clock} <=> $b->{clock} || $a->{sequence} <=> $b->{sequence}
		} grep { $_->{eligible} && $_->{list} ne 'debtors' }
		  @{ $m->{outer}{members} };

		if ($oldest && $oldest != $in_turn)
		{
			my $over = $now - max($oldest->{clock}, $m->{resumed_at}) - $age;
			my $starves = $over >= 0;

			# whoever was promoted waited no longer than the oldest
			$starves = grep { $_->{decision} eq 'starvation-deadline' } @receipts
			  if abs($over) < $m->{tolerance};
			($top, $lane, $decision) = ($oldest, $oldest, 'starvation-deadline')
			  if $starves;
		}
	}
	$lane = pick($m, $top->{inner}, $now) if $top->{inner};
	$s = take_turn($m, $lane, $top == $in_turn,
		$lane != $top || $top == $in_turn, $now);
	$s->{decision} = $decision;
	$s->{promotion_deadline} = $age > 0 ? $s->{clock} + $age : undef;
	return $s;
}

# A look found nothing: the turn is given back, the lane is out of the turns.
sub give_back
{
	my ($m, $s, $now) = @_;

	foreach my $u (@{ $s->{undo} })
	{
		my $l = $u->{lane};

		$l->{credit} = $u->{credit};
		$l->{in_flight}--;
		$l->{untouched} = $u->{untouched};
		$l->{parent}{ring_was_last} = $u->{ring_was_last};
		update($m, $l, 0, $now);

		# in front of those that it stood among, as before
		next unless $l->{list};
		unlist($l);
		$l->{list} = $u->{list};
		unshift @{ $l->{parent}{ $l->{list} } }, $l;
		($l->{clock}, $l->{sequence}) = ($u->{clock}, $u->{sequence});
	}
	become_empty($m, $s->{lane}, $now);
	return;
}

sub become_empty
{
	my ($m, $l, $now) = @_;

	foreach my $x ($l, $l->{group} || ())
	{
		next if $x->{inner} && grep { $_->{ready} } @{ $x->{inner}{members} };
		$x->{parent}{budget} -= $x->{credit}
		  if $x->{untouched} && !$x->{paused} && $x->{credit} > 0;
		$x->{ready} = $x->{untouched} = 0;
	}
	update($m, $l, 0, $now);
	if ($l->{group})
	{
		update($m, $l->{group}, 0, $now);
		settle($m, $l->{group}{inner}, $now);
	}
	settle($m, $m->{outer}, $now);
	return;
}

# The best job of a lane, or undef.
sub best_job
{
	my ($m, $l, $now) = @_;
	my @after = (0, $m->{params}{promote_normal_after}, $m->{params}{promote_low_after});
	my $rank = sub {
		my $after = $after[ $_[0]{priority} ] * 1000;
		return $after > 0 && $now - $_[0]{since} >= $after ? 0 : $_[0]{priority};
	};
	my ($best) = sort {
		     $rank->($a) <=> $rank->($b)
		  || $a->{since} <=> $b->{since}
		  || $a->{job_id} <=> $b->{job_id}
	} values %{ $l->{jobs} };

	return $best;
}

# How things stand after the selection that was expected, for the message.
sub dump_ring
{
	my ($m, $ring, $now) = @_;

	return "round $ring->{round}, budget $ring->{budget}, granted $ring->{granted}, "
	  . "ring was last $ring->{ring_was_last}\n"
	  . join '', map {
		my $l = $_;
		"lane \"$l->{key}\": "
		  . join(', ', map { "$_ " . ($l->{$_} // 'null') } qw(list ready in_flight credit weight paused cap round))
		  . sprintf(", clock %.3f s ago, %d jobs\n", ($now - $l->{clock}) / 1e6, scalar keys %{ $l->{jobs} });
	  } @{ $ring->{members} };
}

# ---------------------------------------------------------------------------
# Events
# ---------------------------------------------------------------------------

sub add_ready
{
	my ($m, $job, $since, $now) = @_;
	my $l = lane_of($m, $job->{lane});

	$job->{since} = $since;
	$l->{jobs}{ $job->{job_id} } = $job;
	foreach my $x ($l, $l->{group} || ())
	{
		next if $x->{ready} && !$x->{inner};
		if (!$x->{ready})
		{
			join_round($m, $x);
			$x->{ready} = 1;
		}
		update($m, $x, 0, $now);
	}
	return;
}

sub replay_job
{
	my ($m, $e) = @_;
	my $job = { map { $_ => $e->{$_} } qw(job_id lane priority) };

	$m->{jobs}{ $e->{job_id} } = $job;
	if (defined $e->{run_at} && $e->{run_at} > $e->{at})
	{
		$job->{due} = $e->{run_at};
		$m->{scheduled}{ $e->{job_id} } = $job;
	}
	else
	{
		add_ready($m, $job, $e->{at}, $e->{at});
	}
	return;
}

# When a transaction commits, a lane without rows is out of the turns.
sub commit
{
	my ($m, $now, @lanes) = @_;

	foreach my $l (map { lane_of($m, $_) } @lanes)
	{
		become_empty($m, $l, $now) if $l->{ready} && !%{ $l->{jobs} };
	}
	return;
}

# An outcome, or a purge.
sub replay_end
{
	my ($m, $e) = @_;
	my $job = $m->{jobs}{ $e->{job_id} };
	my $l = lane_of($m, $job->{lane});

	return undef if $e->{event} =~ /^(renewed|requested)$/;
	return "event \"$e->{event}\" cannot be replayed"
	  unless $e->{event} =~ /^(acked|failed|released)$/;
	foreach my $x ($l, $l->{group} || ())
	{
		$x->{in_flight}--;
		update($m, $x, 1, $e->{at});
		settle($m, $x->{parent}, $e->{at}) if idle($x);
	}
	if (defined $e->{due})
	{
		$job->{due} = $e->{due};
		$m->{scheduled}{ $e->{job_id} } = $job;
	}
	elsif (defined $e->{ready_since})
	{
		add_ready($m, $job, $e->{ready_since}, $e->{at});
	}
	commit($m, $e->{at}, $job->{lane});
	return undef;
}

sub describe
{
	my ($h) = @_;
	return join ', ', map { "$_ " . ($h->{$_} // 'null') }
	  qw(job_id lane decision round credit weight);
}

# Is it what the log says?
sub compare
{
	my ($m, $s, $job, $remaining) = @_;
	my %expected = (
		%$s,
		job_id => $job->{job_id},
		lane => $job->{lane});
	my $receipt = first { $_->{job_id} == $job->{job_id} } @$remaining;
	my $deadline = $s->{promotion_deadline};

	# the log begins in the middle of the rounds
	if (!$m->{result}{selections} && $receipt)
	{
		my $shift = $receipt->{round} - $s->{round};

		foreach my $ring ($m->{outer}, map { $_->{inner} } values %{ $m->{groups} })
		{
			$ring->{round} += $shift;
			$_->{round} += $shift foreach @{ $ring->{members} };
		}
		$expected{round} += $shift;
	}
	return "expected " . describe(\%expected) . "; the log has " . join ' or ',
	  map { describe($_) } @$remaining
	  unless $receipt && describe($receipt) eq describe(\%expected);
	return "expected promotion_deadline " . ($deadline // 'null') . " for job $job->{job_id}; the log has "
	  . ($receipt->{promotion_deadline} // 'null')
	  if defined $deadline != defined $receipt->{promotion_deadline}
	  || (defined $deadline
		&& abs($deadline - $receipt->{promotion_deadline}) > $m->{tolerance});
	@$remaining = grep { $_ != $receipt } @$remaining;
	$m->{result}{selections}++;
	$m->{result}{promotions}++ if $s->{decision} eq 'starvation-deadline';
	return undef;
}

# Nothing is offered: a job that is due, in the order of the due times.
sub choose_due
{
	my ($m, $now) = @_;

	foreach my $job (sort { $a->{due} <=> $b->{due} || $a->{job_id} <=> $b->{job_id} }
		grep { $_->{due} <= $now } values %{ $m->{scheduled} })
	{
		my $l = lane_of($m, $job->{lane});
		my $cap = $l->{cap} // $m->{params}{max_concurrent_per_key};
		my $age = $m->{params}{starvation_age} * 1000;
		my $s;

		next if $l->{paused} || ($l->{group} && $l->{group}{paused});
		next if $cap > 0 && $l->{in_flight} >= $cap;
		$s = take_turn($m, $l, 0, 0, $now);
		$s->{decision} = 'fair-share';
		$s->{promotion_deadline} = $s->{was_listed} && $age > 0 ? $s->{clock} + $age : undef;
		delete $m->{scheduled}{ $job->{job_id} };
		return ($s, $job);
	}
	return;
}

# One call that got these.
sub replay_call
{
	my ($m, @remaining) = @_;
	my $now = $remaining[0]{at};

	apply_keys($m, $now);
	while (@remaining)
	{
		my $s = choose($m, $now, @remaining);
		my $job = $s ? best_job($m, $s->{lane}, $now) : undef;
		my $problem;

		if ($s && !$job)
		{
			give_back($m, $s, $now);
			next;
		}
		if ($s)
		{
			delete $s->{lane}{jobs}{ $job->{job_id} };
		}
		else
		{
			($s, $job) = choose_due($m, $now);
			return "expected nothing; the log has " . join ' and ',
			  map { describe($_) } @remaining
			  unless $s;
			$m->{result}{direct}++;
		}
		$problem = compare($m, $s, $job, \@remaining);
		return $problem if defined $problem;
	}
	return undef;
}

# A call that got no more.
sub replay_short
{
	my ($m, $e) = @_;

	apply_keys($m, $e->{at});
	while (my $s = choose($m, $e->{at}))
	{
		my $job = best_job($m, $s->{lane}, $e->{at});

		return "the call got nothing; expected " . describe({ %$s, job_id => $job->{job_id}, lane => $job->{lane} })
		  if $job;
		give_back($m, $s, $e->{at});
	}
	return undef;
}

# ---------------------------------------------------------------------------
# Settings
# ---------------------------------------------------------------------------

# Rule 9.
sub set_weight
{
	my ($m, $l, $now) = @_;
	my $weight;

	$l->{own_weight} = own_weight($m, $l->{key});
	$weight = weight_in_force($m, $l);
	$l->{paused} = $weight == 0;
	if ($weight > 0)
	{
		if ($l->{round} == $l->{parent}{round})
		{
			my $full = $weight * $m->{params}{quantum};
			my $credit = $l->{credit} + $full - full($m, $l);

			$credit = max($credit, min($l->{credit}, 0), -$full);
			$l->{credit} = min($credit, $full);
		}
		$l->{weight} = $weight;
	}
	update($m, $l, 0, $now);
	update($m, $l->{group}, 0, $now) if $l->{group};
	return;
}

# Keys' weights and caps have changed: they are followed from this claim on.
sub apply_keys
{
	my ($m, $now) = @_;

	return unless $m->{keys_changed};
	$m->{keys_changed} = 0;
	foreach my $l (values %{ $m->{lanes} })
	{
		set_weight($m, $l, $now);
		$l->{cap} = $m->{keys}{ $l->{key} }{max_concurrent};
		update($m, $l, 1, $now);
		if ($l->{group})
		{
			update($m, $l->{group}, 1, $now);
			set_weight($m, $l->{group}, $now);
		}
	}
	return;
}

# Another quantum or default weight: a new round for all.
sub force_round
{
	my ($m, $ring, $now) = @_;
	my @chain = map { @{ $ring->{$_} } } qw(spent debtors ring returning);

	foreach my $l (@{ $ring->{debtors} })
	{
		$l->{clock} = $now;
		$l->{sequence} = ++$m->{sequence};
	}
	foreach my $l (@{ $ring->{members} })
	{
		my $weight = weight_in_force($m, $l);

		$l->{paused} = $weight == 0;
		$l->{weight} = $weight if $weight;
	}
	$ring->{$_} = [] foreach @LISTS;
	$_->{list} = '' foreach @chain;
	next_rounds($m, $ring, 1, $now);
	$ring->{budget} = sum0(map { $_->{credit} }
		  grep { $_->{ready} && !$_->{paused} } @{ $ring->{members} });
	return @chain;
}

sub replay_policy
{
	my ($m, $e) = @_;
	my $new = $e->{settings};
	my $old = $m->{params};
	my $now = $e->{at};
	my $fresh;

	$m->{params} = $new;
	$m->{list_weights} = {};
	foreach (split /,/, $new->{weights} // '')
	{
		/^\s*(.*?)\s*:\s*(\d+)\s*$/s and $m->{list_weights}{$1} = $2;
	}
	if ($e->{event} eq 'key_set')
	{
		$m->{keys}{ $new->{detail}{key} } =
		  { map { $_ => $new->{detail}{$_} } qw(weight max_concurrent) };
	}
	$m->{resumed_at} = $now if $old && $old->{paused} && !$new->{paused};
	$m->{keys_changed} = 1;
	return if !$old || !@{ $m->{outer}{members} };
	$fresh = grep { $old->{$_} ne $new->{$_} }
	  qw(strategy fairness_key quantum default_weight);
	my @chain = $fresh ? force_round($m, $m->{outer}, $now) : ();
	foreach my $g (values %{ $m->{groups} })
	{
		my @inner = $fresh ? force_round($m, $g->{inner}, $now) : ();
		update($m, $_, !$fresh, $now) foreach @inner, @{ $g->{inner}{members} };
	}
	update($m, $_, !$fresh, $now) foreach @chain, @{ $m->{outer}{members} };
	return;
}

1;
