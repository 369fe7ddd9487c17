package Model::Walk;

# A random walk: a few workers, two semaphores, a Redis that runs the real
# scripts, and faults of all kinds between them. One seed is one walk, the same
# in every run.
#
# The walk has its own time: in the scripts wall_now() is replaced by one that
# reads a key, because a walk in real time could not be repeated; so is the run
# id. The rest of the scripts is unchanged.
#
# With "fair" nearly all tickets have a key, with fair => 2 every fourth worker
# has a configuration without fair=. With "charges" keys are charged now and then.
#
# Checked after every step:
#   S1  the sum of weights of running requests never exceeds the limit, except
#       requests of a session whose lease expired while they were running, that
#       had not declared when a recovery ended after its lease, or that was
#       registered so short before a loss that another one did not know
#       (and those that are served by their permits)
#   S1a no permit is granted above the limit in force at that moment (with
#       limit=auto, which moves)
#   F1  no ticket is granted before one ahead of it in the queue (in walks
#       without faults)
#   K1  with fair: FIFO inside a key; K2: a charge moves the tickets of its key;
#       D1: only the last ticket in the order is dropped, and the queue has its
#       bounds (in walks without faults)
#   K3  FIFO inside a key, in the queue (where all have keys, and no state is
#       lost)
#   C1  after each command on a semaphore: the sums of its head are those of its
#       accounts; a queue exists while tickets wait, and only then, and contains
#       the tickets of each account, parked or not, none behind the tail
#   C2  the counts of a worker are those of Redis, unless keys were lost
#   C3  configurations have the number of their sessions, names the limits of
#       all configurations, and the lowest one is in force
#   C4  the shard has the leases of its sessions, and no session is removed
#       before three quarters of its own have passed
#   L2  while the world stands still, at the end, and with "wake" now and then:
#       no ticket waits beside permits that are free, or idle at any worker: at
#       once where no message is lost, otherwise after the poll
# and after a quiet time at the end:
#   L2  no ticket waits
#   L1  no permit is held and no key of a semaphore is left

use warnings;
use strict;

use List::Util qw/max min sum0 shuffle/;
use POSIX qw/floor/;

use Dsem::State;
use Model::Client;
use Model::Worker;

# faults: messages lost, connections broken (with commands executed or not, some
# of them late), workers killed, workers stopped beyond their lease, beats late,
# workers added and leaving, all state lost, a failover to a replica that missed
# the last writes, a queue lost, any one key lost but that of a semaphore, the
# clock of Redis's host stepped by an hour, orders of the operator, reloads with another
# limit, workers that drain; lease: workers with two leases; auto: limit=auto for the first name; again: one loss soon after another, workers that
# are slow to connect, and long requests; wake: the world stands still now and then, when a connection was broken;
# raise: when a worker begins to exit, whose limit may have been the lowest
our %FAULTS = (
    none => [],
    msg => [qw/msg/],
    break => [qw/msg break/],
    wake => [qw/break beat wake/],
    raise => [qw/conf wake/],
    kill => [qw/msg break kill/],
    stop => [qw/msg stop/],
    beat => [qw/msg stop beat/],
    loss => [qw/msg break loss/],
    queue => [qw/msg break kill queue/],
    key => [qw/msg break kill key/],
    clock => [qw/msg break kill beat clock/],
    lease => [qw/msg break kill stop clock fleet lease/],
    order => [qw/msg break kill order/],
    conf => [qw/msg break kill stop conf/],
    away => [qw/msg stop beat loss/],
    failstop => [qw/msg break fail stop/],
    fleet => [qw/msg break kill fail loss fleet/],
    again => [qw/msg break fail loss fleet again/],
    auto => [qw/msg break kill stop order conf auto/],
    all => [qw/msg break kill stop beat loss fail queue order conf key clock/],
);

# HSCAN where hashes are small: by the numbers of sessions, at least some fields.
my $SCAN = <<'EOF_SCAN';
local function model_scan(key, cursor, _, count)
    local all, rows, page, last = redis.call('HGETALL', key), {}, {}, 0
    for i = 1, #all, 2 do
        local n = tonumber(string.match(all[i], '^w(%d+):') or 0)
        if n > tonumber(cursor) or cursor == '0' then
            rows[#rows + 1] = { n, all[i], all[i + 1] }
        end
    end
    table.sort(rows, function(a, b)
        return a[1] < b[1] or a[1] == b[1] and a[2] < b[2]
    end)
    for i, row in ipairs(rows) do
        if i > count and last > 0 and row[1] ~= last then
            return { tostring(last), page }
        end
        page[#page + 1], page[#page + 2], last = row[2], row[3], row[1]
    end
    return { '0', page }
end
EOF_SCAN

my $STEP = 100;             # ms
my $BEAT = 6 * $STEP;       # ms, less than a fifth of the lease
my $LOOK = 10 * $STEP;
my $CLASS = 10_000_000_000_000;
my $PARKED = 100 * $CLASS;
my @STATUS = qw/ok resync stale gone broken/;

sub new {
    my ($class, $redis, $scripts, %arg) = @_;
    my $self = bless {
        redis => $redis, scripts => $scripts, faults => 'none', seed => 1,
        now => 1000 * $STEP, lease => 40 * $STEP, limit => 3, queue => 5,
        names => [qw/a b/], workers => [], messages => [], late => [],
        trace => 0, still => 0, sessions => 0, excepted => {}, differed => 0, count => {},
        line => {}, run => 1, copies => [], entered => {}, unknown => {},
        stepped => 0, step_at => 0, missing => {}, uncounted => {}, served => 0, recovering => 0,
        recoveries => 0, by_census => 0, broken => '', fair => 0,
        charges => 0, nqueued => 0, %arg,
    }, $class;
    $self->{can} = { map { $_ => 1 } @{ $FAULTS{ $self->{faults} } } };
    $self->{limit} = 6 if $self->{can}{auto};
    srand $self->{seed};
    $self->{redis}->forget;
    # the order of a hash table follows from random bits of the process
    $self->{redis}->cmd('CONFIG', 'SET', 'hash-max-listpack-entries', 10_000,
        'hash-max-listpack-value', 10_000);
    $self->{redis}->cmd('FLUSHALL');
    $self->clock;
    $self->{redis}->pushed;
    $self->{loses} = grep { $self->{can}{$_} } qw/loss fail queue key/;
    push @{ $self->{workers} }, $self->worker for 1 .. 4;
    return $self;
}

# Loads the scripts with the walk's clock and process; returns name -> SHA-1.
# $text: a function from name to text; $small: a call leaves nearly all work to
# the next one.
sub load {
    my ($class, $redis, $text, $small) = @_;
    my %value = (wall_now => "tonumber(redis.call('GET', 'model:now'))",
        info_read => "'run_id:' .. redis.call('GET', 'model:run')");
    my (%sha, %replaced);
    for my $script (qw/hello declare declared beat sync bye configure
        order adjust/)
    {
        my $body = $text->($script);
        for (sort keys %value) {
            my $lines = "    return $value{$_}\n";
            my $found = $body
                =~ s/(?<=^local function $_\(\)\n).*?(?=^end\n)/$lines/ms;
            die "$script: $_() is not what it was\n"
                if !$found && $body =~ /\b$_\b/;
            $replaced{$_} ||= $found;
        }
        # the quiet path has a clock of its own
        $body =~ s/local t = redis\.call\('TIME'\)\n(.*?)t\[1\].*?1000\)/$1$value{wall_now}/s;
        die "$script: reads the time\n" if $body =~ /'TIME'/;
        # keys expire in real time, of which a walk has none
        $body =~ s/'PEXPIRE', [^\s,]+, \K/1000 * /g;
        if ($small) {
            my $bounds = $body =~ s/(STEPS = )\d+/${1}4/
                + $body =~ s/(LIST_LENGTH = )\d+/${1}2/
                + $body =~ s/(LOGGED = )\d+/${1}8/
                + $body =~ s/(RECALL_ACCOUNTS = )\d+/${1}1/
                + $body =~ s/(REMOVED_AT_ONCE = )\d+/${1}1/
                + $body =~ s/(PRUNED_AT_ONCE = )\d+/${1}1/;
            die "sync: $bounds bounds\n" if $script eq 'sync' && $bounds != 4;
        }
        if ($small) {
            # pages of a hash of some fields
            $body =~ s/redis\.call\('HSCAN', /model_scan(/g;
            $body = $SCAN . $body if $body =~ /model_scan/;
            $body =~ s/(MOST_UNTOLD = )\d+/${1}1/;
            $body =~ s/(FAIR_KEYS, FAIR_EXCESS, FAIR_TRIMMED = )\d+, \d+, \d+/${1}2, 1, 2/;
        }
        $sha{$script} = $redis->cmd('SCRIPT', 'LOAD', $body);
    }
    $replaced{$_} or die "no script has $_()\n" for keys %value;
    return { %sha, small => $small };
}

sub worker {
    my ($self, %arg) = @_;
    my $name = sprintf 'w%d:0:1', ++$self->{sessions};
    my $fair = $self->{fair} == 1 || $self->{fair} && $self->{sessions} % 4;
    # a quarter of the longer one is more than the shorter one
    my $times = $self->{can}{lease} && $self->{sessions} % 2 ? 4.5 : 1;
    return Model::Worker->new($self, name => $name, fair => $fair,
        lease => $times * $self->{lease}, %arg);
}

sub clock {
    my ($self) = @_;
    $self->{redis}->later('MSET', 'model:now', $self->wall,
        'model:run', sprintf '%040x', $self->{run});
}

# Unix time of the host of Redis, in ms
sub wall { return 1_700_000_000_000 + $_[0]{now} + $_[0]{stepped} }

sub note {
    my ($self, @text) = @_;
    print "# $self->{now} @text\n" if $self->{trace};
}

sub bad {
    my ($self, $text) = @_;
    $self->note("BAD $text");
    die "$text\n";
}

# Counts of a worker differ from those of Redis: only lost keys may be the
# cause.
sub differed {
    my ($self, $text) = @_;
    $self->{differed}++;
    $self->bad("C2 $text: counts differ")
        unless grep { $self->{can}{$_} } qw/queue loss key/;
}

sub happens { return rand() < $_[1] }

# True with this probability if the walk has this fault.
sub goes_wrong {
    my ($self, $what, $probability) = @_;
    return 0 if $self->{quiet} || $self->{still} || !$self->{can}{$what};
    return rand() < $probability;
}

sub pick { return $_[ int rand @_ ] }

sub state { $_[0]{state_in_redis} //= Dsem::State->new($_[0]{redis}) }
sub semaphore_keys { $_[0]->state->semaphore_keys($_[1]) }

###########################################################################
# Redis

# Executes a command of a worker, and collects the messages it publishes.
sub execute {
    my ($self, $worker, $command) = @_;
    my ($script, $name) = @$command{qw/script name/};
    $self->recovery_over if $self->{recovering};
    # orders have ended: one that is on its way must not set a new one
    @{ $command->{argv} }[4, 5] = ('=', '=')
        if $script eq 'order' && $self->{quiet};
    my @changed = $name // ();
    my @keys = $self->state->keys_of($script, @changed);
    my %held = $self->auto_held;
    # without tags, a charge is void
    $command->{charged} = $script eq 'sync'
        && grep({ !$_->[0] } @{ $command->{payload}{ask} })
        && defined $self->state->cmd('ZSCORE', $self->state->fair_key($name),
            '.');
    push @keys, $self->state->fair_keys($name)
        if $worker->{fair} && $script =~ /^(sync|declare)$/;
    $self->{redis}->also(map { $self->looks($_) } @changed);
    $command->{order} = ++$self->{commands};
    my $reply = $self->{redis}->cmd('EVALSHA', $self->{scripts}{$script},
        scalar @keys, @keys, @{ $command->{argv} });
    $self->acquired($worker, $command, $reply)
        if $self->{fair} && $script eq 'sync' && !$reply->[3];
    $self->consistent($_) for @changed;
    $self->auto_granted($script, %held);
    $self->note(" $script @{ $command->{argv} } =>",
        $STATUS[ $reply->[3] ], @$reply[4 .. $#$reply]) if $self->{trace};

    my @published = $self->{redis}->pushed;
    for (@published) {
        my ($channel, $text) = @$_;
        $self->published_grant($channel =~ s/^.*?:c://r, $text);
        $self->note("  $channel $text");
        push @{ $self->{messages} }, [ $channel =~ s/^.*?:c://r, $text ];
    }
    $self->{count}{$script}++;
    $self->{last_beat}{ $worker->{name} } = $self->{now}
        if $script =~ /^(hello|beat)$/ && !$reply->[3];
    $self->recovery($worker, $command, $reply, @published)
        if $self->{loses} && !$reply->[3];
    $self->except_removed if $script eq 'beat' && !$reply->[3] && $reply->[5];
    return $reply if $reply->[3];
    $self->synced($worker, $command, $reply, @published)
        if $script eq 'sync';
    return $reply;
}

# In walks with limit=auto: name => permits held.
sub auto_held {
    my ($self) = @_;
    return if !$self->{can}{auto};
    return map { $_ => $self->state->held($_) } @{ $self->{names} };
}

# S1a. A declaration may exceed the limit.
sub auto_granted {
    my ($self, $script, %before) = @_;
    return if $script !~ /^(sync|order|adjust)$/;
    for my $name (sort keys %before) {
        my $held = $self->state->held($name);
        next if $held <= $before{$name};
        my ($limit) = ($self->state->ordered($name) // '') =~ /^(\d+) [01]$/;
        # 0: the limits were withdrawn
        $limit //= $self->state->lowest_limit($name) || $held;
        $self->bad("S1a $name: $script grants, $held of $limit")
            if $held > $limit;
    }
}

# The number found is the highest again.
sub auto_raise {
    my ($self) = @_;
    my ($name) = @{ $self->{names} };
    my @groups = split /;/, $self->state->shard("limit:$name") // '';
    s/^\d+=/$self->{limit}=/ for @groups;
    @groups = map { $_->[1] } sort { $a->[0] <=> $b->[0] }
        map { [ /^(\d+)/, $_ ] } @groups;
    $self->state->set_shard("limit:$name" => join '',
        map { "$_;" } @groups);
    $self->state->cmd('DEL', $self->state->auto_key($name));
}

sub synced {
    my ($self, $worker, $command, $reply, @published) = @_;
    $self->in_force($command->{name}, $reply->[5]);
    $self->in_line($worker, $command, $reply, @published)
        if !%{ $self->{can} };
}

# The exception from S1: requests that run while their session is removed.
sub except_removed {
    my ($self) = @_;
    for my $worker (@{ $self->{workers} }) {
        my $name = $worker->{name};
        next if defined $self->state->lease_end($name);
        $self->bad("C4 $name: removed too early") if !$self->{loses}
            && ($self->{last_beat}{$name} // -1e9) + 0.75 * $worker->{lease}
                > $self->{now};
        $self->except($worker);
        delete $self->{entered}{ $worker->{name} };
        # its tickets come back at the places that they had
        delete @{ $self->{queued_as} }{ grep { /^\Q$name\E / }
            keys %{ $self->{queued_as} } };
    }
}

sub except {
    my ($self, $worker) = @_;
    for my $name (@{ $self->{names} }) {
        $self->{excepted}{"$worker->{name} $name $_"} = 1
            for keys %{ $worker->{used}{$name} };
    }
}

# The clock of the next command, the end of the recovery, and what tells one
# state from another.
sub clock_now {
    my ($self) = @_;
    my ($clock, $wall, $until, $gen, $lease) = map { $_ // 0 }
        $self->state->shard(qw/clock wall recover_until gen lease/);
    # R4: step of the clock
    my $passed = min(max($self->wall - $wall, 0),
        ($lease || $self->{lease}) / 4);
    return ($clock + $passed, $until, "$gen $self->{run}");
}

# A recovery that ends after its lease: sessions that have not declared are an
# exception from S1.
sub recovery_over {
    my ($self) = @_;
    my ($clock, $until) = $self->clock_now;
    return if $clock < $until;
    $self->{recovering} = 0;
    $self->note('recovery ends after its lease');
    $self->{missing}{ $_->{name} } && $self->except($_)
        for @{ $self->{workers} };
}

# Notes which sessions have declared, and the end of a recovery by a census:
# only a session that others did not know is an exception.
sub recovery {
    my ($self, $worker, $command, $reply, @published) = @_;
    my ($script, $name) = ($command->{script}, $worker->{name});
    $self->{entered}{$name} //= $command->{order} if $script eq 'hello';

    my ($clock, $until, $state) = $self->clock_now;
    if ($state ne ($self->{state} // '')) {
        $self->{state} = $state;
        $self->{missing} = { map { $_->{name} => 1 } @{ $self->{workers} } };
    }
    if ($script eq 'declared') {
        delete $self->{$_}{$name} for qw/missing unknown uncounted/;
    }

    $self->{recoveries}++ if $until > $clock && !$self->{recovering};
    if ($self->{recovering} && $until <= $clock) {
        $self->note('recovery ends by census');
        $self->{by_census}++;
        for (@{ $self->{workers} }) {
            next unless $self->{missing}{ $_->{name} }
                && $self->{unknown}{ $_->{name} };
            $self->except($_);
            $self->{uncounted}{ $_->{name} } = 1;
        }
    }
    $self->{recovering} = $until > $clock;
}

# A request is served without Redis, by a permit that another one has left: an
# exception like that one.
sub served {
    my ($self, $worker, $name, $ticket) = @_;
    $self->{served}++;
    $self->note("$worker->{name} $name serves $ticket");
    $self->{excepted}{"$worker->{name} $name $ticket"} = 1
        if $self->{uncounted}{ $worker->{name} };
}

# A worker has received the reply of its hello or beat.
sub told {
    my ($self, $worker, $command) = @_;
    $worker->{told_order} = $command->{order};
}

# State is lost. Sessions are unknown that entered after the last reply to
# another one.
sub lost {
    my ($self) = @_;
    my @workers = grep { $_->{told_order} } @{ $self->{workers} };
    my ($first, $second) = sort { $a->{told_order} <=> $b->{told_order} }
        @workers;
    for my $worker (@workers) {
        my $other = $worker == $first ? $second : $first;
        $self->{unknown}{ $worker->{name} } = 1 if !$other
            || ($self->{entered}{ $worker->{name} } // 0)
            > $other->{told_order};
    }
}

# F1: the expected order, kept beside the queue. A granted ticket must leave no
# earlier one of its class or a better class behind; weights do not matter.
sub in_line {
    my ($self, $worker, $command, $reply, @published) = @_;
    my $name = $worker->{name};
    my $payload = $command->{payload};
    my $line = $self->{line}{ $command->{name} } //= {};
    my (undef, undef, undef, undef, @rest) = @$reply;
    splice @rest, 0, 8;

    for (@{ $payload->{cancel} }) {
        delete $line->{"$name $_->[0]"} if shift @rest;
    }
    $self->charged($command, $line, $reply->[5]) if $command->{charged};
    my @asked = splice @rest, 0, 3 * @{ $payload->{ask} };
    splice @rest, 0, scalar @{ $payload->{check} };
    my @served = map { "$name $_" } grep { $_ > 0 } @rest;
    for (@published) {
        my ($session) = $_->[0] =~ /:c:(.*)/;
        my (undef, $verb, undef, undef, undef, undef, @tickets) =
            split / /, $_->[1];
        next if $verb ne 'grant';
        push @served, map { "$session $_" } @tickets;
    }

    my (@granted, %queued);
    my %waits = %$line;
    delete @waits{@served};
    for (@{ $payload->{ask} }) {
        my ($ticket, undef, $class, undef, undef, $key) = @$_;
        my ($verdict, $place) = splice @asked, 0, 3;
        if ($verdict == 2) {
            $self->one_key("$name $ticket", $place, "$class $key",
                { %waits, %queued }) if defined $key;
            $queued{"$name $ticket"} = $place;
        }
        next if $verdict != 1;
        # with a key it may pass a heavy one of its class
        # R7: queue order
        my $last = ($class + !defined $key) * $CLASS - 1;
        push @granted, [ "$name $ticket", $last ];
        for (values %queued) {
            $self->bad("F1 $name $ticket overtakes in one command")
                if $_ <= $last;
        }
    }
    push @granted, map {
        [ $_, delete $line->{$_} // $self->bad("F1 $_ was not in line") ]
    } @served;
    $self->dropped($command->{name}, $line, \%queued) if $self->{fair};

    for my $ticket (sort keys %$line) {
        # tickets of a silent session may be overtaken
        my ($session) = split / /, $ticket;
        # R5: heartbeat; R6: silent session
        next if $self->{last_beat}{$session} + 2 * $self->{lease} / 5
            < $self->{now};
        for (@granted) {
            $self->bad("F1 $_->[0] overtakes $ticket")
                if $line->{$ticket} < $_->[1];
        }
    }
    %$line = (%$line, %queued);
}

# K1: a new ticket goes behind those of its key.
sub one_key {
    my ($self, $ticket, $place, $key, $line) = @_;
    $self->{key_of}{$ticket} = $key;
    for (sort keys %$line) {
        $self->bad("K1 $ticket before $_")
            if ($self->{key_of}{$_} // '') eq $key && $line->{$_} >= $place;
    }
}

# Notes the order in which tickets with keys are queued.
sub acquired {
    my ($self, $worker, $command, $reply) = @_;
    my $payload = $command->{payload};
    my @rest = @$reply[12 + @{ $payload->{cancel} } .. $#$reply];
    for my $ask (@{ $payload->{ask} }) {
        my ($verdict) = splice @rest, 0, 3;
        $self->{queued_as}{"$worker->{name} $ask->[0]"} = ++$self->{nqueued}
            if $verdict == 2;
    }
    # granted or dropped: if this reply is lost it comes back, at the place that
    # it had
    my @gone = map { $_->[0] } grep { shift(@rest) == 2 }
        @{ $payload->{check} };
    delete $self->{queued_as}{"$worker->{name} $_"}
        for @gone, map { abs } @rest;
}

# So does a ticket whose message is lost.
sub published_grant {
    my ($self, $session, $text) = @_;
    my (undef, $what, undef, undef, undef, undef, @tickets) = split / /, $text;
    return if $what ne 'grant';
    delete @{ $self->{queued_as} }{ map { "$session $_" } @tickets };
}

# K3
sub fifo_in_keys {
    my ($self, $name, $places, $of) = @_;
    my %last;
    my %order = map { $_ => $self->{queued_as}{ join ' ', (split)[0, 2] } // 0 }
        keys %$places;
    for (sort { $order{$a} <=> $order{$b} } grep { $order{$_} } keys %$places) {
        # R12: member of the queue
        my ($session, $epoch, $ticket, undef, $key) = split;
        my $place = $places->{$_};
        $place -= $PARKED if $place > $PARKED / 2;
        # void, or not declared again
        next if !defined $key || !$of->{$session}
            || $of->{$session}{epoch} != $epoch;
        my $of_key = floor($place / $CLASS) . " $key";
        $self->bad("K3 $name: $session $ticket before $last{$of_key}[1]")
            if $last{$of_key} && $last{$of_key}[0] >= $place;
        $last{$of_key} = [ $place, "$session $ticket" ];
    }
}

# K2: the tickets of a charged key go behind by that.
sub charged {
    my ($self, $command, $line, $limit) = @_;
    my ($name, %by) = $command->{name};
    for (grep { !$_->[0] } @{ $command->{payload}{ask} }) {
        my (undef, undef, $class, undef, $cost, $key) = @$_;
        $by{"$class $key"} += max(1, int($cost * 8 / max($limit, 1)));
    }
    for (sort keys %$line) {
        $line->{$_} += $by{ $self->{key_of}{$_} // '' } // 0;
    }
    my $places = $self->state->places($name);
    for (sort keys %$places) {
        my $ticket = join ' ', (split)[0, 2];
        my $place = $line->{$ticket} // next;
        $self->bad("K2 $name: $ticket at $places->{$_}, not at $place")
            if $place != $places->{$_} && $places->{$_} < $PARKED / 2;
    }
}

# D1: tickets that have left the queue otherwise were dropped from its end.
sub dropped {
    my ($self, $name, $line, $queued) = @_;
    # R12: member of the queue
    my %there = map { join(' ', (split)[0, 2]) => 1 } $self->state->queue($name);
    my %all = (%$line, %$queued);
    my $last = max(-1e15, map { $all{$_} } grep { $there{$_} } keys %all);
    for my $ticket (grep { !$there{$_} } sort keys %all) {
        # R9: drop from a full queue
        $self->bad("D1 $ticket dropped") if $all{$ticket} < $last;
        delete $line->{$ticket};
        delete $queued->{$ticket};
    }
    my $most = $self->{queue} + $self->{limit};
    $self->bad("D1 $name: queue above its length")
        if $self->state->waiting($name) > $most;
}

# What is read of a semaphore, after each command on it.
sub looks {
    my ($self, $name) = @_;
    my ($semaphore, $queue) = $self->state->semaphore_keys($name);
    return [ 'HGETALL', $semaphore ],
        [ 'ZRANGE', $queue, 0, -1, 'WITHSCORES' ];
}

# C1
sub consistent {
    my ($self, $name) = @_;
    my $text = join ' ', map { $self->{redis}->text_of(@$_) }
        $self->looks($name);
    return if $text eq ($self->{consistent}{$name} // '');
    $self->{consistent}{$name} = $text;
    my ($state, $of) = $self->state->semaphore($name);
    my $places = $self->state->places($name);
    my $lost = $self->{can}{queue} || $self->{can}{key};
    my $untold = $self->state->untold($name);
    my $bad = sub { $self->bad("C1 $name: @_") };
    if (!%$state) {
        $bad->('a queue of no semaphore') if %$places && !$lost;
        return;
    }
    my $told_not = grep { $_->{untold} } values %$of;
    $bad->("untold $untold, accounts $told_not") if $untold != $told_not;
    $bad->('empty')
        if !$state->{held} && !$state->{waiting} && !$untold;
    for my $what (qw/held waiting parked/) {
        my $sum = sum0 map { $_->{$what} // 0 } values %$of;
        $bad->("$what $state->{$what}, accounts $sum")
            if $sum != $state->{$what};
    }
    for my $n (1, 2) {
        my $what = (undef, qw/active recalled/)[$n];
        my $sum = grep { ($_->{reuse} // 0) == $n } values %$of;
        $bad->("$what $state->{$what}, accounts $sum")
            if $sum != $state->{$what};
    }
    return if $lost;

    $self->fifo_in_keys($name, $places, $of)
        if $self->{fair} == 1 && !$self->{loses};
    $bad->('no queue') if $state->{waiting} && !%$places;
    $bad->('a queue, nothing waits') if !$state->{waiting} && %$places;
    my (%tickets, %parked);
    for (sort keys %$places) {
        my ($session, $epoch) = split;
        my $parked = $places->{$_} > $PARKED / 2;
        # where it will be, if it is parked
        $bad->("$_ is behind the tail $state->{tail}")
            if $places->{$_} - $parked * $PARKED > $state->{tail};
        next if !$of->{$session} || $of->{$session}{epoch} != $epoch;
        $tickets{$session}++;
        $parked{$session}++ if $parked;
    }
    for (sort keys %$of) {
        my $account = $of->{$_};
        my ($there, $waiting) = ($tickets{$_} // 0, $account->{waiting});
        # void, but for parked tickets that are left for the next call
        next if $account->{chunks} && !$waiting && !$account->{held};
        $bad->("$_ waits for $waiting, $there in the queue")
            if $there != $waiting;
        my ($in_queue, $parked) = ($parked{$_} // 0, $account->{parked} // 0);
        $bad->("$_ has $parked parked, $in_queue in the queue")
            if $parked != $in_queue;
    }
}

# name => the configurations that have stated its limit, lowest first
sub stated {
    my ($self, $name) = @_;
    return map {
        my ($limit, @ids) = @$_;
        map {
            /^c$limit$/ || $self->auto($name, $_, $limit)
                || $self->bad("C3 $name: $_ has $limit");
            $_;
        } @ids;
    } $self->state->limits($name);
}

# Whether the configuration has limit=auto for this name, and the limit is within
# its bounds.
sub auto {
    my ($self, $name, $id, $limit) = @_;
    return $self->{can}{auto} && $name eq $self->{names}[0]
        && $id eq "c$self->{limit}" && $limit >= 1
        && $limit <= $self->{limit};
}

# C3: the limit that a sync has reported
sub in_force {
    my ($self, $name, $limit) = @_;
    # R16: limit in force
    my ($lowest) = $self->stated($name) or return;
    $lowest = 'c' . $self->state->lowest_limit($name) if $self->{can}{auto};
    return if defined $self->state->ordered($name);
    $self->bad("C3 $name: limit $limit, lowest is $lowest")
        if $lowest ne "c$limit";
}

# C3: each name has the live configurations, and those that are withdrawn or
# stated in parts.
sub configurations {
    my ($self) = @_;
    my %config_of = %{ $self->state->configurations };
    my $configs = $self->state->configs;
    my $leaving = $self->state->shard('leaving') // '';
    my (%sessions, %stated);
    $sessions{$_}++ for values %config_of;
    if (!$self->{can}{key}) {
        my %lease = map { $_ => 1 } $self->state->sessions;
        $self->bad("C3 $_ left") for grep { !$lease{$_} } keys %config_of;
        $self->leases;
    }
    for (sort keys %$configs) {
        my ($sessions, $stated) = @{ $configs->{$_} }{qw/sessions stated/};
        $stated{$_} = $stated;
        $self->bad("C3 $_: $sessions sessions")
            if $sessions != ($sessions{$_} // 0);
        $self->bad("C3 $_ stays") if !$sessions && index($leaving, $_) < 0;
    }
    my @names = @{ $self->{names} };
    for my $n (0 .. $#names) {
        my $want = join ' ', sort grep { $stated{$_} > $n } keys %stated;
        my @have = $self->stated($names[$n]);
        # a limit that moves is not that of its id
        my $have = join ' ', $self->{can}{auto} ? sort @have : @have;
        $self->bad("C3 $names[$n]: $have, not $want") if $have ne $want;
    }
}

# C4: the shortest lease, and the number of sessions with each.
sub leases {
    my ($self) = @_;
    my %sessions;
    $sessions{$_}++ for grep { $_ } map { $_->{lease} }
        values %{ $self->state->entries };
    my @leases = sort { $a <=> $b } keys %sessions;
    my $want = join ' ', $leases[0] // 0, map { ($_, $sessions{$_}) } @leases;
    my $have = join ' ', map { $_ // 0 } $self->state->shard(qw/lease leases/);
    # a state without sessions may have none yet
    $self->bad("C4 $have, not $want") if $have ne $want && @leases;
}

###########################################################################
# One step

sub step {
    my ($self) = @_;
    $self->{now} += $STEP;
    $self->clock;
    my @awake = grep { $_->{stopped} <= $self->{now} } @{ $self->{workers} };
    $self->timers($_) for @awake;
    $self->requests($_) for @awake;
    $self->network($_) for shuffle @{ $self->{workers} };
    $self->late_commands;
    $self->deliver;
    $self->faults unless $self->{quiet};
    # a lease that expired while the registry was lost
    ($self->{can}{loss} || $self->{can}{key}) && $_->{stopped} > $self->{now}
        && $_->{fence} + $_->{lease} / 4 <= $self->{now}
        && $self->except($_) for @{ $self->{workers} };

    my @look = map { $self->happens(0.3) } @{ $self->{names} }, '';
    for my $name (@{ $self->{names} }) {
        my $used = 0;
        for my $worker (@{ $self->{workers} }) {
            my $of = $worker->{used}{$name};
            $used += $of->{$_} for
                grep { !$self->{excepted}{"$worker->{name} $name $_"} }
                keys %$of;
        }
        $self->bad("S1 $name: $used of $self->{limit}")
            if $used > $self->{limit};
    }
    return if !$look[-1];
    my %shard = $self->state->shard_keys;
    $self->{redis}->read_together([ 'HGETALL', $shard{shard} ],
        [ 'ZRANGE', $shard{sessions}, 0, -1 ]);
    $self->configurations;
}

sub timers {
    my ($self, $worker) = @_;
    if (!$worker->{conn}) {
        $worker->hello if $self->{quiet}
            || $self->happens($self->{can}{again} ? 0.06 : 0.3);
        return;
    }
    $worker->beat if $worker->{ready}
        && $worker->{beaten} + $BEAT <= $self->{now}
        && !$self->goes_wrong('beat', 0.6);
    $worker->adjust($self->{names}[0]) if $self->{can}{auto}
        && !$self->{quiet} && !$self->{still} && $self->happens(0.3);
    return if $worker->{looked} + $LOOK > $self->{now};
    $worker->{looked} = $self->{now};
    for my $name (@{ $self->{names} }) {
        $worker->{look}{$name} = 1
            if %{ $worker->{wait}{$name} }
            || %{ $worker->{used}{$name} } && !$self->{still};
        next if $self->{still};
        # idle permits are released, used ones reported, after a while
        $worker->give_back($name);
        $worker->{refresh}{$name} = 1;
    }
}

sub requests {
    my ($self, $worker) = @_;
    for my $name (@{ $self->{names} }) {
        my @used = sort { $a <=> $b } keys %{ $worker->{used}{$name} };
        my @waiting = $worker->waiting($name);
        if ($self->{quiet}) {
            $worker->finish($name, $_) for @used;
        } elsif ($self->happens(0.12) && @waiting < 4) {
            $worker->come($name, pick(1, 1, 1, 2), pick(0, 0, 0, -1, 1));
        } elsif ($self->happens($self->{can}{again} ? 0.04 : 0.15) && @used) {
            $worker->finish($name, pick(@used));
        } elsif ($self->happens(0.03) && @waiting) {
            $worker->leave($name, pick(@waiting));
        }
        $worker->flush($name) if $self->{quiet} || $self->happens(0.6);
    }
}

# Executes some commands, and delivers some replies.
sub network {
    my ($self, $worker) = @_;
    my $conn = $worker->{conn} or return;
    my $count = $self->{quiet} ? @{ $conn->{commands} } : pick(0, 0, 1, 2, 4);
    while ($count-- > 0 && @{ $conn->{commands} }) {
        if ($self->goes_wrong('break', 0.01)) {
            $self->execute($worker, shift @{ $conn->{commands} })
                if $self->happens(0.5);
            return $self->cut($worker);
        }
        my $command = shift @{ $conn->{commands} };
        my $reply = $self->execute($worker, $command);
        push @{ $conn->{replies} }, [ $command, $reply ];
    }

    return if $worker->{stopped} > $self->{now};
    $count = @{ $conn->{replies} };
    $count = int rand $count + 1 if !$self->{quiet} && $self->happens(0.5);
    while ($count-- > 0) {
        $worker->receive(@{ shift @{ $conn->{replies} } });
    }
}

# Breaks the connection; sent commands may still be executed, later.
sub cut {
    my ($self, $worker) = @_;
    my $conn = $worker->{conn} or return;
    $self->note("cut $worker->{name}");
    push @{ $self->{late} }, [ $worker, $conn->{commands} ]
        if @{ $conn->{commands} };
    $worker->{conn} = undef;
    $worker->forget;
}

sub late_commands {
    my ($self) = @_;
    for my $late (@{ $self->{late} }) {
        my ($worker, $commands) = @$late;
        next unless $self->happens(0.15);
        $self->note("late $worker->{name}");
        $self->execute($worker, shift @$commands);
    }
    $self->{late} = [ grep { @{ $_->[1] } } @{ $self->{late} } ];
}

sub deliver {
    my ($self) = @_;
    my @later;
    for my $message (splice @{ $self->{messages} }) {
        my ($session, $text) = @$message;
        my ($worker) = grep { $_->{name} eq $session } @{ $self->{workers} };
        next if !$worker || $self->{still} eq 'deaf';
        if ($worker->{stopped} > $self->{now}
            || !$self->{quiet} && !$self->{still} && !$self->happens(0.4))
        {
            push @later, $message;
        } elsif ($self->goes_wrong('msg', 0.2)) {
            $self->note("lost $session $text");
        } elsif ($worker->{conn}) {
            $worker->message($text);
        }
    }
    unshift @{ $self->{messages} }, @later;
}

sub faults {
    my ($self) = @_;
    my ($redis, $workers) = @$self{qw/redis workers/};
    if ($self->goes_wrong('kill', 0.01)) {
        my $which = int rand @$workers;
        my $old = $workers->[$which];
        $self->note("kill $old->{name}");
        $self->cut($old);
        $workers->[$which] = $self->worker(gen => $old->{gen},
            term => $old->{term}, clock => $old->{clock},
            told_at => $old->{told_at},
            byes => [ $old->{name}, @{ $old->{byes} } ],
            config => $old->{config}, limit => $old->{limit});
    }
    $self->worker_joins if $self->goes_wrong('fleet', 0.03);
    $self->worker_leaves if $self->goes_wrong('fleet', 0.03);
    if ($self->goes_wrong('stop', 0.01)) {
        my $worker = pick(@$workers);
        $worker->{stopped} = $self->{now} + $STEP * (5 + int rand 86);
        $self->note("stop $worker->{name} until $worker->{stopped}");
    }
    if ($self->goes_wrong('loss', $self->loss_probability)
        && !grep { !$_->{gen} } @$workers)
    {
        $self->note('all is lost');
        $self->{lost_at} = $self->{now};
        $self->lost;
        $redis->cmd('FLUSHALL');
        $self->clock;
        $_->{conn} && $self->happens(0.5) && $self->cut($_) for @$workers;
    }
    $self->failover if $self->{can}{fail};
    if ($self->goes_wrong('queue', 0.008)) {
        my (undef, $queue) = $self->semaphore_keys(pick(@{ $self->{names} }));
        $self->note("$queue is lost");
        $redis->cmd('DEL', $queue);
    }
    $self->key_lost if $self->goes_wrong('key', 0.01);
    if ($self->goes_wrong('clock', 0.02)
        && $self->{step_at} + 2 * $self->{lease} <= $self->{now})
    {
        $self->{step_at} = $self->{now};
        $self->{stepped} += pick(-3_600_000, 3_600_000);
        $self->note("clock stepped, $self->{stepped} in all");
        $self->clock;
    }
    if ($self->goes_wrong('conf', 0.03)) {
        my $worker = pick(@$workers);
        my $config = pick(1, 2, 3, 3, '-');
        $config = 'c' . $self->at_most($config) if $config ne '-';
        $self->note("reload $worker->{name} $config");
        $worker->reload($config);
    }
    if ($self->goes_wrong('order', 0.03)) {
        my $order = pick('1 0', '2 0', '0 0', '- 1', '2 1', '3 0', '- 0')
            =~ s/^(\d)/$self->at_most($1)/er;
        $self->order(pick(@{ $self->{names} }), $order);
    }
}

# A limit that S1 permits.
sub at_most { return min($_[1], $_[0]{limit}) }

# By hand, where it may be malformed, or by the script, limit and pause alone or
# together.
sub order {
    my ($self, $name, $order) = @_;
    my ($worker) = grep { $_->{ready} } @{ $self->{workers} };
    if ($worker && $self->happens(0.6)) {
        my ($limit, $pause) = split / /, $order;
        $limit = '=' if $self->happens(0.2);
        $pause = '=' if $self->happens(0.2);
        return $worker->send('order', $name, [ $name, $limit, $pause ]);
    }
    $order = pick('', '5', '1 2', 'x 0') if $self->happens(0.1);
    $self->note("order $name $order");
    $self->state->order($name, $order);
}

# One key is lost: the shard or the index of its sessions, which is a loss of
# state; a queue, or the census.
sub key_lost {
    my ($self) = @_;
    my %shard = $self->state->shard_keys;
    my $name = pick(@{ $self->{names} });
    my $key = pick(values_of(%shard), $self->state->queue_key($name),
        $self->state->census_key,
        $self->{fair} ? $self->state->fair_keys($name) : ());
    my $state = grep { $_ eq $key } values %shard;
    return if $state && grep { !$_->{gen} } @{ $self->{workers} };
    $self->note("$key is lost");
    $self->{lost_at} = $self->{now} if $state;
    $self->lost if $state;
    $self->{redis}->cmd('DEL', $key);
}

sub values_of {
    my (%of) = @_;
    return @of{ sort keys %of };
}

# A worker more, whose node knows the generation.
sub worker_joins {
    my ($self) = @_;
    my $workers = $self->{workers};
    my ($other) = grep { $_->{gen} } @$workers;
    return if !$other || @$workers >= 7;
    push @$workers, $self->worker(gen => $other->{gen},
        term => $other->{term}, clock => $other->{clock},
        told_at => $other->{told_at},
        config => $other->{config}, limit => $other->{limit});
    $self->note("join $workers->[-1]{name}");
}

# A worker without requests exits; without a connection it says no bye.
sub worker_leaves {
    my ($self) = @_;
    my $workers = $self->{workers};
    my @idle = grep {
        my $worker = $_;
        !grep { %{ $worker->{used}{$_} } || %{ $worker->{wait}{$_} } }
            @{ $self->{names} };
    } grep { $_->{stopped} <= $self->{now} } @$workers;
    return if @$workers <= 3 || !@idle;
    my $worker = pick(@idle);
    $self->note("leave $worker->{name}");
    if ($worker->{conn}) {
        $self->cut($worker);
        $worker->{conn} = { commands => [], replies => [] };
        $worker->send('bye', undef, [ $worker->{name}, $worker->{lease} ]);
        $self->execute($worker, shift @{ $worker->{conn}{commands} });
    }
    @$workers = grep { $_ != $worker } @$workers;
}

sub loss_probability {
    my ($self) = @_;
    return $self->{can}{again}
        && $self->{now} < ($self->{lost_at} // -1e9) + 15 * $STEP
        ? 0.08 : 0.008;
}

# A replica takes over, which lags by one or two copies of the state.
sub failover {
    my ($self) = @_;
    my ($redis, $workers, $copies) = @$self{qw/redis workers copies/};
    if ($self->{now} % (7 * $STEP) == 0) {
        my %copy = map { $_ => $redis->cmd('DUMP', $_) }
            @{ $redis->cmd('KEYS', 'dsem:*') };
        @$copies = (\%copy, grep { $_ } $copies->[0]);
    }
    return if !$self->goes_wrong('fail', $self->loss_probability) || !@$copies
        || grep { !$_->{gen} } @$workers;

    my $copy = pick(@$copies);
    $self->note('failover');
    $self->{lost_at} = $self->{now};
    $self->lost;
    $self->{run}++;
    $redis->cmd('FLUSHALL');
    $self->clock;
    $redis->cmd('RESTORE', $_, 0, $copy->{$_}) for sort keys %$copy;
    $_->{conn} && $self->cut($_) for @$workers;
    $self->{late} = [];
    @$copies = ();
}

###########################################################################

# Runs the walk; returns the first violation, or undef.
sub run {
    my ($self, $steps, $quiet) = @_;
    # the leases of killed workers end meanwhile
    $quiet //= $self->{can}{lease} ? 250 : 150;
    return eval { $self->walk($steps, $quiet); 1 } ? undef
        : $@ =~ s/\n\z//r;
}

# The world stands still: no fault, no request that comes or ends, and all that is
# on its way arrives; then the poll.
sub still {
    my ($self) = @_;
    my @workers = @{ $self->{workers} };
    return if grep { $_->{stopped} > $self->{now} } @workers;
    $self->note('still');
    if ($self->{can}{wake}) {
        my $worker = pick(@workers);
        $self->{can}{conf} ? $worker->reload('-') : $self->cut($worker);
    }
    # where messages may be lost all are, until the poll
    local $self->{still} = $self->{can}{msg} ? 'deaf' : 1;
    $_->{conn} || $_->hello for @workers;
    $_->{ready} && $_->beat for @workers;
    $self->arrive;
    $self->unused('at once', 0) if !$self->{can}{msg};
    $self->{still} = 1;
    # in small steps a check sends a lost recall to one account again
    my $polls = !$self->{scripts}{small} ? 1 : 1 + max(map {
        scalar keys %{ $self->state->accounts($_) } } @{ $self->{names} });
    for my $poll (1 .. $polls) {
        for (0 .. $LOOK / $STEP) {
            $self->{now} += $STEP;
            $self->clock;
            $self->timers($_) for @workers;
            $self->arrive;
        }
        return if !$self->unused('after the poll', $LOOK, $poll < $polls);
    }
}

sub arrive {
    my ($self) = @_;
    for (1 .. 200) {
        my $arrived = 0;
        for my $worker (@{ $self->{workers} }) {
            $worker->flush($_) for @{ $self->{names} };
            my $conn = $worker->{conn};
            while (@{ $conn->{replies} } || @{ $conn->{commands} }) {
                my ($command, $reply) = @{ shift @{ $conn->{replies} } // [] };
                $command //= shift @{ $conn->{commands} };
                $worker->receive($command,
                    $reply // $self->execute($worker, $command));
                $arrived++;
            }
        }
        return if !$arrived && !@{ $self->{messages} };
        $self->deliver;
    }
}

# L2. within: after the end of a recovery, all have asked. Returns true if a
# ticket waits beside a permit, and another poll may end that.
sub unused {
    my ($self, $when, $within, $polls) = @_;
    my @workers = @{ $self->{workers} };
    my ($clock, $until) = $self->clock_now;
    return if $clock < $until + $within || grep { !$_->{ready} } @workers;
    my $entries = $self->state->entries;
    for my $name (@{ $self->{names} }) {
        my ($ordered, $paused) = ($self->state->ordered($name) // '')
            =~ /^(\d+|-) ([01])$/;
        next if $paused;
        my $limit = defined $ordered && $ordered ne '-' ? $ordered
            : $self->state->lowest_limit($name) || $self->state->limit($name);
        # of equal places either may be the first; those of charged keys are
        # not those that workers know
        my $places = $self->state->places($name);
        my %place = map {
            my $parked = $places->{$_} > $PARKED / 2;
            join(' ', (split)[0, 2]) => $places->{$_} - $parked * $PARKED
        } keys %$places;
        my ($first) = sort { $a->[0] <=> $b->[0] || $b->[1] <=> $a->[1] }
            grep { $_->[1] <= $limit } map {
                my ($worker, $wait) = ($_->{name}, $_->{wait}{$name});
                map { [ $place{"$worker $_"} // $wait->{$_}{place},
                    $wait->{$_}{weight} ] } keys %$wait;
            } @workers or next;
        my $accounts = $self->state->accounts($name);
        # of an epoch that has ended: free; of a session that has: not yet
        my $used = sum0 map { $accounts->{$_}{held} } grep {
            $accounts->{$_}{epoch} >= ($entries->{$_}{declared} // 0)
        } keys %$accounts;
        my $idle = sum0 map { $_->{idle}{$name} } @workers;
        next if $used - $idle + $first->[1] > $limit;
        return 1 if $polls;
        $self->bad("L2 $name: waits beside $used of $limit, $idle idle, $when");
    }
    return 0;
}

# Nothing but heartbeats goes on: all workers are ready and have neither
# requests nor unsent changes, all commands and messages have arrived, and no
# other session is registered.
sub settled {
    my ($self) = @_;
    my @workers = @{ $self->{workers} };
    return 0 if @{ $self->{messages} } || @{ $self->{late} };
    return 0 if grep { !$_->settled } @workers;
    my $live = join ' ', sort map { $_->{name} } @workers;
    return $live eq join ' ', sort $self->state->sessions;
}

sub walk {
    my ($self, $steps, $quiet) = @_;
    for my $n (1 .. $steps) {
        $self->step;
        $self->still if $self->{can}{wake} && $n % 30 == 0;
    }
    $self->still;

    $self->note('quiet');
    $self->{quiet} = 1;
    $self->state->drop_orders;
    $_->reload("c$self->{limit}")
        for grep { $_->{config} ne "c$self->{limit}" } @{ $self->{workers} };
    for my $n (1 .. $quiet) {
        $self->auto_raise if $self->{can}{auto} && $n == 20;
        $self->step;
        last if $n > 20 && $self->settled;
    }
    for my $worker (@{ $self->{workers} }) {
        for my $name (@{ $self->{names} }) {
            my @waiting = $worker->waiting($name);
            $self->bad("L2 $worker->{name} $name: waiting @waiting")
                if @waiting;
        }
    }

    # permits of a dead session are released when another one wants them
    for my $name (@{ $self->{names} }) {
        my ($worker) = @{ $self->{workers} };
        my $ticket = $worker->come($name, $self->{limit}, 0);
        $self->step for 1 .. 15;
        $self->bad("L1 $name: not all permits are back")
            if $worker->{wait}{$name}{$ticket};
        for ($self->semaphore_keys($name), $self->{fair} != 1
            || $self->{can}{order} || $self->{can}{queue} ? () : $self->state->fair_key($name))
        {
            $self->bad("L1 $_ is left") if $self->{redis}->cmd('EXISTS', $_);
        }
    }
}

1;
