package Model::PoolWalk;

# A random walk of four workers of two nodes through the real scripts, with one
# pool: each permit has a server. Requests come, end, leave; permits stay idle;
# replies and messages are lost; workers are killed, the state is lost; servers
# are down at a node, or leave it; the limit changes, by the configuration or an
# order, also that of one server, which may be drained.
#
# Checked after each step:
#   S1  requests that run at a server, in all workers: not above the limits that
#       are in force when one begins
#   C1  the sums of Redis agree: its head, its accounts, servers and lists
#   L2  no ticket waits while a server that it can use has a free permit, or
#       while others keep idle permits; none is kept of a server that has more
#       permits out than its limit
#   F1  no request is granted past a ticket that can use its server
#   E1  in the end all requests are served, and no key is left
# The clock of the scripts stands still: no lease ends.
#
# Called by: t/model/walk, t/house/pool_walk.t.

use warnings;
use strict;

use Digest::MD5 qw(md5_hex);
use List::Util qw(max min shuffle sum0);
use POSIX qw(floor);

use Model::Client;
use Model::PoolWorker;

use constant {
    NAME => 'gpus', PREFIX => 'dsem:{0}', WORKERS => 4,
    NODES => [qw(n0 n1)], LOSSY => 0.05, PARKED => 5e14, CLASS => 1e13,
    SCRIPTS => [qw(hello declare declared bye sync order)],
};

# SHA-1 of the scripts, by name; text: code that returns the text of a script;
# small: tickets that a call looks at, it leaves the others to the next one; 2
# are too few where more have equal places. Then one list is kept, other accounts
# have their own
sub load {
    my ($class, $client, $text, $small) = @_;
    die "small: a call reads 2 tickets at least\n" if ($small // 0) == 1;
    return { map {
        my $script = $text->($_);
        $script =~ s/redis\.call\('TIME'\)/{ 1000000000, 0 }/g;
        $script =~ s/^local (?:STEPS|POOL_GRANTS) = \K\d+$/$small/mg if $small;
        $script =~ s/^local POOL_LISTS, .* = \K\d+/1/m if $small;
        $_ => $client->cmd('SCRIPT', 'LOAD', $script);
    } @{ SCRIPTS() } };
}

# trace: prints all calls, replies and messages
sub new {
    my ($class, $client, $sha, $seed, $trace) = @_;
    srand $seed;
    $client->cmd('FLUSHALL');
    $client->pushed;
    my $self = bless {
        client => $client, sha => $sha, out => {}, ticket => 0, reask => [],
        seen => {}, lossy => LOSSY, was => 0, stored => 0, fair => $seed % 2,
        limit => one_of(9, 9, 2, 1), ordered => undef, trace => $trace,
        ordered_at => {}, was_at => {},
    }, $class;
    $self->{limits} = { map { ("10.0.0.$_:80" => one_of(1, 1, 2, 3)) }
        1 .. one_of(2, 3, 4, 6) };
    $self->{workers} = [ map { $self->worker(NODES->[ $_ % 2 ]) }
        1 .. WORKERS ];
    return $self;
}

sub one_of { return $_[ rand @_ ] }
sub chance { return rand() < $_[0] }

sub worker {
    my ($self, $node) = @_;
    my $worker = Model::PoolWorker->new($self, $node);
    $worker->hello;
    return $worker;
}

# What went wrong, or undef; seen: how often what happened.
sub run {
    my ($self, $steps) = @_;
    my $step = 0;
    my $done = eval {
        for (1 .. $steps) {
            $step = $_;
            $self->step;
            $self->audit;
        }
        $step = 'at the end';
        $self->drain;
        1;
    };
    return $done ? undef : "step $step: $@" =~ s/ at \S+ line \d+\.?\n\z//r;
}

sub name { NAME }
sub seen { $_[0]{seen} }
sub saw { $_[0]{seen}{ $_[1] }++ }

sub keys_of {
    my ($self, $script) = @_;
    return map { PREFIX . $_ } '', ':sessions', ':census'
        if $script =~ /^(?:hello|declared|bye)$/;
    return map { PREFIX . $_ } '', map({ ":$_:" . NAME } 's', 'q',
        $self->{fair} && $script ne 'order' ? ('f', 'n') : ());
}

sub script {
    my ($self, $script, @argv) = @_;
    my @keys = $self->keys_of($script);
    my $reply = $self->{client}->cmd('EVALSHA', $self->{sha}{$script},
        scalar @keys, @keys, @argv);
    print "$script ", join(' | ', @argv), "\n  @$reply[ 3 .. $#$reply ]\n"
        if $self->{trace};
    $self->deliver;
    return @$reply[ 3 .. $#$reply ];
}

# Messages reach their workers later, or never.
sub deliver {
    my ($self) = @_;
    for ($self->{client}->pushed) {
        my ($channel, $text) = @$_;
        print "  > $channel $text\n" if $self->{trace};
        for my $worker (grep { $channel =~ /:c:\Q$_->{name}\E$/ }
            @{ $self->{workers} // [] })
        {
            chance($self->{lossy}) ? $self->saw('lost message')
                : push @{ $worker->{inbox} }, $text =~ s/^\S+ //r;
        }
    }
}

###########################################################################
# servers and limits

# The servers that a node can use now, in order.
sub servers {
    my ($self, $node) = @_;
    return grep { !$self->{out}{"$node $_"} } sort keys %{ $self->{limits} };
}

# Id and text of their list.
sub list {
    my ($self, $node) = @_;
    my $text = join ' ', map { "$_=$self->{limits}{$_}" }
        $self->servers($node);
    return '-', '' if $text eq '';
    return substr(md5_hex($text), 0, 8), $text;
}

sub force { $_[0]{ordered} // $_[0]{limit} }

# That of one server without its own limit.
sub order_at { $_[0]{ordered_at}{ $_[1] } // 99 }

# A request begins at a server. A limit that was lowered holds when what runs
# has come down to it, see audit.
sub started {
    my ($self, $server) = @_;
    my $running = sum0(map { $_->{run}{$server} // 0 } @{ $self->{workers} });
    my $limit = min($self->{limits}{$server}, max($self->force, $self->{was}),
        max($self->order_at($server), $self->{was_at}{$server} // 0));
    $self->saw('served');
    $self->saw('served at an order') if $self->order_at($server) < 99;
    die "S1 $server has $running of $limit" if $running > $limit;
}

###########################################################################
# checks

sub semaphore {
    my ($self) = @_;
    return @{ $self->{client}->cmd('HGETALL', PREFIX . ':s:' . NAME) };
}

sub numbers { return { $_[0] =~ /([^ ,=]+)=(\d+)/g } }

# Servers of the list of an account.
sub limits_of {
    my ($id, %of) = @_;
    return numbers($id =~ /^!\w+:(.*)/ ? $1 : $of{"list:$id"} // '');
}

# Those that are not zero, as text.
sub text {
    my ($numbers) = @_;
    return join ' ', map { "$_=$numbers->{$_}" }
        grep { $numbers->{$_} } sort keys %$numbers;
}

# Turn, cursor, lists and servers of a head.
sub pool_of { return $_[0] =~ m{ /(\d+);(\S*?);(\S*?);(.*)$} }

sub audit {
    my ($self) = @_;
    my %of = $self->semaphore or return;
    my ($held, $waiting, $limit) = split ' ', $of{'.'};
    my (undef, undef, $lists, $servers) = pool_of($of{'.'});
    my (%at, %accounts, @sums);
    for my $session (grep { /^n\d:/ } keys %of) {
        my ($plain, $id, $at) = $of{$session} =~ /^(.*?) @(\S+)(.*)$/
            or die "C1 account '$of{$session}'";
        my ($own, $tickets) = (split ' ', $plain)[1, 2];
        my $numbers = numbers($at);
        die "C1 account '$of{$session}'" if sum0(values %$numbers) != $own;
        $at{$_} += $numbers->{$_} for keys %$numbers;
        $accounts{ $id =~ /^!/ ? '*' : $id }++ if $id ne '-';
        $self->saw('own list') if $id =~ /^!/;
        $sums[0] += $own;
        $sums[1] += $tickets;
    }
    die "C1 '$of{'.'}' and accounts @sums"
        if "$held $waiting" ne join ' ', map { $_ // 0 } @sums[0, 1];
    die "C1 servers '$servers' and '@{[ text(\%at) ]}' in accounts"
        if text(numbers($servers)) ne text(\%at);
    die "C1 lists '$lists' and '@{[ text(\%accounts) ]}' in accounts"
        if text(numbers($lists)) ne text(\%accounts);
    die "C1 lists '$lists' and fields"
        if join(' ', map { "list:$_" } sort keys %accounts)
        ne join ' ', sort grep { /^list:/ } keys %of;
    $self->{stored} = $limit;
    @$self{qw(was was_at)} = (0, {}) if $limit == $self->{limit}
        && !grep { $_->{recovering} } @{ $self->{workers} }
        and !grep { $at{$_} > min($self->{limits}{$_}, $self->force,
            $self->order_at($_)) } keys %at;
}

# Whether one of these servers has more permits out than its limit in force.
sub above {
    my ($self, $head, $limits, @servers) = @_;
    my $limit = $self->{ordered} // (split ' ', $head)[2];
    my $held = numbers((pool_of($head))[3]);
    return !!grep { ($held->{$_} // 0) > min($limits->{$_} // $limit, $limit,
        $self->order_at($_)) } @servers;
}

# Sessions that may keep idle permits, and were not asked to return them.
sub keepers {
    my (%of) = @_;
    return grep { /^n\d:/ && $of{$_} =~ /^\d+ [1-9]\d* \d+ 1/ } sort keys %of;
}

# After a sync that has left no work; may_keep: idle permits may stay.
sub kept {
    my ($self, $worker, $may_keep) = @_;
    my %of = $self->semaphore or return;
    my ($waiting, $parked) = (split ' ', $of{'.'})[1, 8];
    my ($id, $at) = ($of{ $worker->{name} } // '') =~ / @(\S+)(.*)$/ or return;
    my $above = $self->above($of{'.'}, limits_of($id, %of),
        keys %{ numbers($at) });
    die "L2 $worker->{name} keeps permits, a server is above its limit"
        if $may_keep && $above;
    my ($name) = grep { $_ ne $worker->{name} } keepers(%of);
    die "L2 $name keeps idle permits, tickets wait"
        if $name && $waiting > $parked;
    die "L2 $name keeps idle permits, a server is above its limit"
        if $name && $above;
}

# After a sync: asks are [ticket, class], granted ones have a server; more: it
# has left work.
sub served {
    my ($self, $worker, $more, @asks) = @_;
    return if $more ? !grep { defined $_->[2] } @asks : !chance(0.3);
    my %of = $self->semaphore or return;
    my ($held, $waiting, $limit) = split ' ', $of{'.'};
    return if !$waiting;
    $limit = $self->{ordered} // $limit;
    my $servers = numbers((pool_of($of{'.'}))[3]);
    my %asked = map { $_->[0] => 1 } @asks;
    for (@{ $self->{client}->cmd('ZRANGE', PREFIX . ':q:' . NAME, 1, -1,
        'WITHSCORES') })
    {
        my ($member, $place) = @$_;
        my ($session, $epoch, $ticket) = split ' ', $member;
        my ($of_epoch, $id) = ($of{$session} // '') =~ /^(\d+) .* @(\S+)/;
        next if $place > PARKED || !$of_epoch || $of_epoch != $epoch
            || $session eq $worker->{name} && $asked{$ticket};
        my $can = limits_of($id, %of);
        my $class = floor($place / CLASS);
        for my $server (keys %$can) {
            die "L2 '$member' waits, $server is free"
                if !$more && ($servers->{$server} // 0)
                < min($can->{$server}, $limit, $self->order_at($server));
            die "F1 '$member' was passed at $server" if grep {
                ($_->[2] // '') eq $server && ($_->[1] > $class
                    || $_->[1] == $class && !$self->{fair})
            } @asks;
        }
    }
}

###########################################################################
# steps

sub step {
    my ($self) = @_;
    my $worker = one_of(@{ $self->{workers} });
    $worker->read if chance(0.8);
    return $worker->sync if delete $worker->{refresh};
    my $what = rand;
    $what < 0.38 ? $worker->arrive
        : $what < 0.82 ? $worker->leave
        : $what < 0.875 ? $worker->cancel
        : $what < 0.93 ? $worker->check
        : $what < 0.945 ? $worker->hello
        : $what < 0.96 ? $self->kill($worker)
        : $what < 0.965 ? $self->lose
        : $what < 0.97 ? $self->order($worker)
        : $what < 0.985 ? $self->move_server
        : $self->change_limit;
    $self->ask_again if chance(0.5);
}

sub ask_again {
    my ($self, @how) = @_;
    my $ask = shift @{ $self->{reask} } or return;
    my ($worker, @ask) = @$ask;
    $worker->sync(asks => [ [ ++$self->{ticket}, @ask, 20 ] ], @how)
        if grep { $_ == $worker } @{ $self->{workers} };
}

# kill -9, and the bye of a sibling
sub kill {
    my ($self, $worker) = @_;
    my ($i) = grep { $self->{workers}[$_] == $worker } 0 .. WORKERS - 1;
    my $other = $self->{workers}[ ($i + 1 + int rand(WORKERS - 1)) % WORKERS ];
    $self->saw('kill');
    my ($status) = $self->script('bye', @$other{qw(name epoch)}, 9,
        $worker->{name}, 60_000);
    die "C1 bye: status $status" if $status;
    $self->{workers}[$i] = Model::PoolWorker->new($self, $worker->{node});
    $self->{workers}[$i]->hello;
}

sub lose {
    my ($self) = @_;
    @$self{qw(was ordered ordered_at)}
        = (max($self->force, $self->{was}), undef, {});
    $self->saw('loss');
    $self->{client}->cmd('FLUSHALL');
    $_->{inbox} = [] for @{ $self->{workers} };
    $_->hello for shuffle @{ $self->{workers} };
    $_->read for @{ $self->{workers} };
}

sub order {
    my ($self, $worker) = @_;
    $self->{was} = max($self->force, $self->{was}, $self->{stored});
    if (chance(0.5)) {
        $self->{ordered} = one_of(undef, undef, 1, 2, 9);
        $self->saw('order');
        return $self->ordered($worker, $self->{ordered} // '-');
    }
    my $server = one_of(sort keys %{ $self->{limits} });
    $self->{was_at}{$server} = max($self->order_at($server),
        $self->{was_at}{$server} // 0);
    $self->{ordered_at}{$server} = one_of(undef, 0, 0, 1);
    $self->saw('order of a server');
    $self->ordered($worker, $self->{ordered_at}{$server} // '-', $server);
}

# Sends it, until no work is left.
sub ordered {
    my ($self, $worker, $limit, @server) = @_;
    for (1 .. 20) {
        my ($status, @of) = $self->script('order', @$worker{qw(name epoch)}, 7,
            NAME, $limit, '=', @server);
        $worker->hello if $status == 1;
        last if $status != 1 && !$of[6];
    }
    my %of = $self->semaphore or return;
    my %limits;
    for my $list (map { numbers($of{$_}) } grep { /^list:/ } keys %of) {
        $limits{$_} = max($list->{$_}, $limits{$_} // 0) for keys %$list;
    }
    my ($name) = keepers(%of);
    die "L2 $name keeps idle permits, a server is above its limit"
        if $name && $self->above($of{'.'}, \%limits, keys %limits);
}

# It goes down at a node, or is back.
sub move_server {
    my ($self) = @_;
    my $at = one_of(@{ NODES() }) . ' '
        . one_of(sort keys %{ $self->{limits} });
    $self->{out}{$at} = !$self->{out}{$at};
    $self->saw('server');
}

sub change_limit {
    my ($self) = @_;
    $self->{was} = max($self->force, $self->{was});
    $self->{limit} = one_of(9, 2, 1, 3);
}

# All requests end, and those that wait are served.
sub drain {
    my ($self) = @_;
    @$self{qw(lossy out)} = (0, {});
    $self->{was} = max($self->force, $self->{was}, $self->{stored});
    @$self{qw(ordered ordered_at)} = (undef, {});
    $self->{client}->cmd('HDEL', PREFIX, 'order:' . NAME);
    my @left;
    for (1 .. 400) {
        for my $worker (@{ $self->{workers} }) {
            $worker->read;
            $worker->end_all;
        }
        $self->ask_again(keep => 0) while @{ $self->{reask} };
        @left = @{ $self->{client}->cmd('KEYS', PREFIX . ':[sqf]:*') };
        last if !@left && !grep { $_->busy } @{ $self->{workers} };
    }
    die "E1 @left " . join ' ', $self->semaphore if @left;
    die 'E1 a request waits' if grep { $_->busy } @{ $self->{workers} };
}

1;
