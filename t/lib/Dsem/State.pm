package Dsem::State;

# The state in Redis, as tests read and change it. Only this file knows its
# keys and fields, see lua/README.md. Names of semaphores are written as in the
# keys.
#
#   $t->state->held('api')                  # in the first Redis of the test
#   Dsem::State->new($redis, 'bench:{0}')   # $redis: anything with cmd
#   Dsem::State->new($cluster->at('api'))   # the shard of that name
#   Dsem::State::shard_of('api')            # its number
#
# It is one shard; the only one, unless the Redis is a Cluster.
#
# Keys: semaphore_key, queue_key, semaphore_keys($name) (both), fair_key,
#   named_key, fair_keys($name) (both), auto_key, shard_keys (name => key), census_key, idle_key,
#   keys_of($script, @names) (KEYS of a script), channel($session),
#   names: semaphores that have a key.
# Semaphore: held waiting limit figure($name, $field) counts ('held waiting')
#   figures (a hash; active and recalled: sessions with idle permits), accounts
#   ({session => {epoch held waiting reuse}}), semaphore (both at one time),
#   account($name, $session), exists, queue (its tickets in order), marked,
#   places ({ticket => place}), snapshot (figures, accounts, queue, entries at
#   one time), set_figure, set_account, delete_semaphore, delete_queue.
# Sessions: sessions (by end of lease), session_count, subscribed (number),
#   lease_end, lease_ends, entry ({epoch declared lease}, or {bar => end}), entries, epochs, declared
#   (epochs), enter, forget, lapse, census_declared (number).
# Shard: shard(@fields: gen clock wall recover_until ended created ...),
#   set_shard, advance (clock), advance_and_look, step_wall, recovering,
#   drop_generation, delete_shard.
# Orders and limits: order($name, '<limit> <pause>'), ordered, drop_order,
#   drop_orders, limits ([limit, ids ...] lowest first), lowest_limit,
#   configurations ({session => id}), configs ({id => {sessions stated
#   parts}}), limit_fields. Of limit=auto: rule (a hash, see
#   lua/include/auto_state.lua), set_rule($name, field => value ...),
#   set_found($name, $number).
#
# Called by: the harness and tests.

use strict;
use warnings;

use List::Util qw(sum0);

use Dsem::Wait qw(wait_for);

use constant HEAD => qw(layout gen clock wall recover_until ended sessions
    first_bar last_bar lease);
# R10: head of a semaphore
use constant FIGURES => qw(held waiting limit seq seen touched active recalled
    parked tail);
# R11: text of an account
use constant ACCOUNT => qw(epoch held waiting reuse parked chunks);
use constant ENTRY => qw(epoch declared lease ends seal configuration);
use constant RULE => qw(found reason floor latency min max changes noted normal
    mode base before changed ceiling blamed again count sum logs squares errors
    waited span peak paced paced_span sessions mean opened tried gain gains pairs
    half rise level error trial trial_error spread step up lost higher rest
    known);
use constant MARKER => 'queue';
use constant SHARDS => 4;

my %IN_HEAD = map { $_ => 1 } HEAD;

# a field gets another text if it has this one
my $EXCHANGE = <<'EOF_LUA';
if (redis.call('HGET', KEYS[1], ARGV[1]) or '') ~= ARGV[2] then
    return 0
end
redis.call('HSET', KEYS[1], ARGV[1], ARGV[3])
return 1
EOF_LUA

my $SESSION = qr/^[^:]+:\d+:[0-9a-f]+$/;

sub new {
    my ($class, $redis, $prefix) = @_;
    $prefix //= 'dsem:{' . ($redis->can('shard') ? $redis->shard : 0) . '}';
    return bless { redis => $redis, prefix => $prefix }, $class;
}

# The number of the shard that a name has in a Cluster.
sub shard_of {
    my ($name) = @_;
    my $crc = 0;
    for my $byte (unpack 'C*', $name) {
        $crc ^= $byte << 8;
        $crc = ($crc & 0x8000 ? $crc << 1 ^ 0x1021 : $crc << 1) & 0xffff
            for 1 .. 8;
    }
    return $crc % SHARDS;
}

# One for each prefix that has semaphores.
sub all {
    my ($class, $redis) = @_;
    my %prefix = map { /^(.*?\}):s:/ ? ($1 => 1) : () }
        @{ $redis->cmd('KEYS', '*') };
    return map { $class->new($redis, $_) } sort keys %prefix;
}

sub cmd {
    my ($self, @args) = @_;
    return $self->{redis}->cmd(@args);
}

sub hash {
    my ($self, $key) = @_;
    return @{ $self->cmd('HGETALL', $key) };
}

###########################################################################
# keys

sub key {
    my ($self, @part) = @_;
    return join ':', $self->{prefix}, @part;
}

# R13: keys and channels
sub semaphore_key { "$_[0]{prefix}:s:$_[1]" }
sub queue_key { "$_[0]{prefix}:q:$_[1]" }
sub fair_key { "$_[0]{prefix}:f:$_[1]" }
sub named_key { "$_[0]{prefix}:n:$_[1]" }
sub auto_key { "$_[0]{prefix}:a:$_[1]" }
sub semaphore_keys { ($_[0]->semaphore_key($_[1]), $_[0]->queue_key($_[1])) }
sub fair_keys { ($_[0]->fair_key($_[1]), $_[0]->named_key($_[1])) }
sub census_key { $_[0]->key('census') }
sub idle_key { $_[0]->key('idle') }
sub channel { $_[0]->key('c', $_[1]) }

sub shard_keys {
    my ($self) = @_;
    return (shard => $self->key, sessions => $self->key('sessions'));
}

sub keys_of {
    my ($self, $script, @names) = @_;
    @names = grep { defined } @names;
    return $self->key if $script eq 'names';
    return $self->key, $self->key('sessions') if $script eq 'configure';
    return $self->key, map { $self->semaphore_keys($_) } @names
        if $script =~ /^(sync|declare|order)$/;
    return $self->key, $self->semaphore_keys(@names), $self->auto_key(@names)
        if $script eq 'adjust';
    return $self->key, $self->key('sessions'), $self->idle_key,
        map { ($self->semaphore_key($_), $self->auto_key($_)) } @names
        if $script eq 'inspect';
    return $self->key, $self->key('sessions'), $self->census_key,
        $script eq 'beat' ? $self->idle_key : ();
}

sub names {
    my ($self) = @_;
    my $begin = $self->semaphore_key('');
    return map { /^\Q$begin\E(.*)/s ? $1 : () } @{ $self->cmd('KEYS', '*') };
}

###########################################################################
# a semaphore

# active and recalled: sessions that may hold idle permits, and those asked to
# release them
sub figures_in {
    my (%of) = @_;
    return $of{'.'} ? words($of{'.'}, FIGURES) : {};
}

sub accounts_in {
    my (%of) = @_;
    my %account = map { $_ => words($of{$_}, ACCOUNT) }
        grep { /$SESSION/ } keys %of;
    # dropped tickets that it has not been told
    $of{$_} =~ / !/ and $account{$_}{untold} = 1 for keys %account;
    return \%account;
}

# Words beyond the names are left out: tags of a head, dropped tickets.
sub words {
    my ($text, @names) = @_;
    my @words = split ' ', $text;
    $#words = $#names if @words > @names;
    my %of;
    @of{ @names[ 0 .. $#words ] } = @words;
    return \%of;
}

sub entry_in {
    my ($text) = @_;
    return $text =~ /^bye (\d+)/ ? { bar => $1 } : words($text, ENTRY);
}

sub entries_in {
    my (%of) = @_;
    return { map { $_ => entry_in($of{$_}) } grep { /$SESSION/ } keys %of };
}

# Figures and accounts, read at one time.
sub semaphore {
    my ($self, $name) = @_;
    my %of = $self->hash($self->semaphore_key($name));
    return (figures_in(%of), accounts_in(%of));
}

sub figures { ($_[0]->semaphore($_[1]))[0] }
sub accounts { ($_[0]->semaphore($_[1]))[1] }
sub account { $_[0]->accounts($_[1])->{ $_[2] } }

# 0 where there is none
sub _figures {
    my ($self, $name, @figure) = @_;
    my $head = $self->cmd('HGET', $self->semaphore_key($name), '.') // '';
    my $of = words($head, FIGURES);
    return map { $of->{$_} // 0 } @figure;
}

# Sessions with dropped tickets that they have not been told.
sub untold {
    my ($self, $name) = @_;
    my $head = $self->cmd('HGET', $self->semaphore_key($name), '.') // '';
    return $head =~ / !(\d+)$/ ? $1 : 0;
}

sub figure { ($_[0]->_figures($_[1], $_[2]))[0] }
sub held { $_[0]->figure($_[1], 'held') }
sub waiting { $_[0]->figure($_[1], 'waiting') }
sub limit { $_[0]->figure($_[1], 'limit') }
sub counts { join ' ', $_[0]->_figures($_[1], qw(held waiting)) }

# For a client that does not wait for the reply: the words of a command, and
# the number in its reply.
sub waiting_asked { ('HGET', $_[0]->semaphore_key($_[1]), '.') }
sub waiting_replied { (split ' ', $_[1] // '0 0')[1] }

# Number of its keys.
sub exists { $_[0]->cmd('EXISTS', $_[0]->semaphore_keys($_[1])) }

sub queue {
    my ($self, $name) = @_;
    return grep { $_ ne MARKER }
        @{ $self->cmd('ZRANGE', $self->queue_key($name), 0, -1) };
}

# Its marker is there, before all places.
sub marked {
    my ($self, $name) = @_;
    my $score = $self->cmd('ZSCORE', $self->queue_key($name), MARKER);
    return ($score // '') eq '-inf';
}

sub places {
    my ($self, $name) = @_;
    # RESP3 has pairs
    my %of = map { ref $_ ? @$_ : $_ } @{ $self->cmd('ZRANGE',
        $self->queue_key($name), 0, -1, 'WITHSCORES') };
    delete $of{ +MARKER };
    return \%of;
}

sub snapshot {
    my ($self, $name) = @_;
    my %key = $self->shard_keys;
    $self->cmd('MULTI');
    $self->cmd('HGETALL', $self->semaphore_key($name));
    $self->cmd('ZRANGE', $self->queue_key($name), 0, -1);
    $self->cmd('HGETALL', $key{shard});
    my ($of, $queue, $shard) = @{ $self->cmd('EXEC') };
    return {
        figures => figures_in(@$of), accounts => accounts_in(@$of),
        queue => [ grep { $_ ne MARKER } @$queue ],
        entries => entries_in(@$shard),
    };
}

# A field becomes what a function makes of it; again where a command of a worker
# has changed it meanwhile.
sub _change {
    my ($self, $key, $field, $change) = @_;
    return wait_for {
        my $old = $self->cmd('HGET', $key, $field) // '';
        $self->cmd('EVAL', $EXCHANGE, 1, $key, $field, $old, $change->($old));
    } 15, "$field of $key to be changed";
}

# Changes one of the words in a field.
sub _set_word {
    my ($self, $key, $field, $names, $name, $change) = @_;
    my ($n) = grep { $names->[$_] eq $name } 0 .. $#$names;
    return $self->_change($key, $field, sub {
        my @words = split ' ', $_[0];
        $words[$n] = $change->($words[$n]);
        return "@words";
    });
}

sub set_figure {
    my ($self, $name, $figure, $value) = @_;
    return $self->_set_word($self->semaphore_key($name), '.', [FIGURES],
        $figure, sub { $value });
}

# The account of a session: epoch, held, waiting.
sub set_account {
    my ($self, $name, $session, @account) = @_;
    return $self->cmd('HSET', $self->semaphore_key($name), $session,
        "@account");
}

# F of the keys of one class, and V of the class; nothing: there are none. That
# of all new keys, "*", is left out.
sub tags {
    my ($self, $name, $class) = @_;
    $class //= 0;
    my %of = @{ $self->cmd('ZRANGE', $self->fair_key($name), 0, -1,
        'WITHSCORES') };
    my $head = $self->cmd('HGET', $self->semaphore_key($name), '.') // '';
    my ($virtual) = $head =~ / \Q$class\E:(\d+)/;
    return { map({ /^\Q$class\E ([^*].*)/ ? ($1 => int $of{$_} - $class * 1e13) : () }
        keys %of) }, $virtual;
}

sub delete_tags { $_[0]->cmd('DEL', $_[0]->fair_key($_[1])) }
sub delete_semaphore { $_[0]->cmd('DEL', $_[0]->semaphore_key($_[1])) }
sub delete_queue { $_[0]->cmd('DEL', $_[0]->queue_key($_[1])) }

###########################################################################
# sessions

sub sessions { @{ $_[0]->cmd('ZRANGE', $_[0]->key('sessions'), 0, -1) } }
sub session_count { $_[0]->cmd('ZCARD', $_[0]->key('sessions')) }
sub subscribed { scalar @{ $_[0]->cmd(qw(PUBSUB CHANNELS), $_[0]->channel('*')) } }
sub lease_end { $_[0]->cmd('ZSCORE', $_[0]->key('sessions'), $_[1]) }

sub lease_ends {
    my ($self) = @_;
    return { @{ $self->cmd('ZRANGE', $self->key('sessions'), 0, -1,
        'WITHSCORES') } };
}

sub entries {
    my ($self) = @_;
    return entries_in($self->hash($self->key));
}

sub entry { $_[0]->entries->{ $_[1] } }

# session => epoch
sub epochs {
    my ($self) = @_;
    my $of = $self->entries;
    return { map { $_ => $of->{$_}{epoch} } keys %$of };
}

# The epochs under which sessions have declared all that they have, the lowest
# first.
sub declared {
    my ($self) = @_;
    return sort { $a <=> $b } map { $_->{declared} // () }
        values %{ $self->entries };
}

# Registers a session that has declared, as if its scripts had run.
sub enter {
    my ($self, $session, %arg) = @_;
    $self->cmd('ZADD', $self->key('sessions'), $arg{lease_end}, $session);
    $self->cmd('HSET', $self->key, $session,
        "$arg{epoch} $arg{epoch} $arg{lease} $arg{lease_end} "
        . "0123456789abcdef -");
    return $self->_head('sessions', sub { $_[0] + 1 });
}

# As if it had never been registered.
sub forget {
    my ($self, $session) = @_;
    $self->cmd('ZREM', $self->key('sessions'), $session);
    $self->cmd('HDEL', $self->key, $session);
    return $self->_head('sessions', sub { $_[0] - 1 });
}

# The leases of these sessions, which are dead, expire now: no test has to wait
# for them. The others keep theirs.
sub lapse {
    my ($self, @session) = @_;
    my $end = $self->shard('clock') - 1;
    for my $session (@session) {
        $self->_set_word($self->key, $session, [ENTRY], 'ends', sub { $end });
        $self->cmd('ZADD', $self->key('sessions'), $end, $session);
    }
}

# Sessions that have declared since a loss of state.
sub census_declared {
    my ($self) = @_;
    return $self->cmd('ZCOUNT', $self->census_key, '-1e15', '+inf');
}

###########################################################################
# the shard

# The value of a field, or a list of several, read at one time.
sub shard {
    my ($self, @field) = @_;
    my @other = grep { !$IN_HEAD{$_} } @field;
    my ($head, @value) = @{ $self->cmd('HMGET', $self->key, '.', @other) };
    my $of = words($head // '', HEAD);
    @$of{@other} = @value;
    return wantarray ? @$of{@field} : $of->{ $field[0] };
}

sub _head {
    my ($self, $field, $change) = @_;
    return $self->_set_word($self->key, '.', [HEAD], $field, $change);
}

sub set_shard {
    my ($self, $field, $value) = @_;
    return $self->_head($field, sub { $value }) if grep { $_ eq $field } HEAD;
    return $self->cmd('HSET', $self->key, $field, $value);
}

# Moves the logical clock, as if so many ms had passed. The stored wall clock
# is unchanged, so the next command does not add that time again.
sub advance {
    my ($self, $ms) = @_;
    return $self->_head('clock', sub { $_[0] + $ms });
}

# Moves the stored wall clock: the clock of the host is stepped the other way.
sub step_wall {
    my ($self, $ms) = @_;
    return $self->_head('wall', sub { $_[0] + $ms });
}

# Nothing is granted yet, because a lost state is being declared again.
sub recovering {
    my ($self) = @_;
    my ($clock, $until) = $self->shard(qw(clock recover_until));
    return ($until // 0) > ($clock // 0);
}

sub drop_generation { $_[0]->cmd('HDEL', $_[0]->key, '.') }
sub delete_shard { $_[0]->cmd('DEL', $_[0]->key) }

###########################################################################
# orders and limits

sub order { $_[0]->cmd('HSET', $_[0]->key, "order:$_[1]", $_[2]) }
sub ordered { $_[0]->cmd('HGET', $_[0]->key, "order:$_[1]") }
sub drop_order { $_[0]->cmd('HDEL', $_[0]->key, "order:$_[1]") }

sub drop_orders {
    my ($self) = @_;
    my @orders = grep { /^order:/ } @{ $self->cmd('HKEYS', $self->key) };
    return @orders ? $self->cmd('HDEL', $self->key, @orders) : 0;
}

sub limits {
    my ($self, $name) = @_;
    return limits_in($self->shard("limit:$name"));
}

sub limits_in {
    my ($text) = @_;
    # of limit=auto "limit=min-max"
    return map { [ split ' ', s/=\S+//r ] } split /;/, $text // '';
}

# Of all live configurations; 0: none has a literal limit of this name.
sub lowest_limit {
    my ($self, $name) = @_;
    my ($lowest) = $self->limits($name);
    return $lowest ? $lowest->[0] : 0;
}

# advance, and lowest_limit, which that does not change: for those who do this
# thousands of times, with the next command half of the round trips.
sub advance_and_look {
    my ($self, $ms, $name) = @_;
    my ($head, $limits) = @{ $self->cmd('HMGET', $self->key, '.',
        "limit:$name") };
    my $of = words($head, HEAD);
    $of->{clock} += $ms;
    $self->{redis}->later('HSET', $self->key, '.', join ' ', @$of{ +HEAD });
    my ($lowest) = limits_in($limits);
    return $lowest ? $lowest->[0] : 0;
}

# Empty: nothing was judged yet.
sub rule {
    my ($self, $name) = @_;
    return words($self->cmd('HGET', $self->auto_key($name), '.') // '', RULE);
}

# Another text after each sample of a session; empty: there was none.
sub sample {
    my ($self, $name) = @_;
    my $rule = $self->rule($name);
    return join ' ', grep { defined } @$rule{qw/paced paced_span/};
}

sub set_rule {
    my ($self, $name, %value) = @_;
    return $self->_change($self->auto_key($name), '.', sub {
        my %rule = (%{ words($_[0], RULE) }, %value);
        return join ' ', @rule{ (RULE) };
    });
}

# As if limit=auto had found this number; the rule, too, unless its first sample
# is still to come.
sub set_found {
    my ($self, $name, $found) = @_;
    $self->_change($self->key, "limit:$name", sub {
        my @groups = map {
            /^\d+=((\d+)-(\d+) .*)/
                ? [ $found < $2 ? $2 : $found > $3 ? $3 : $found, "=$1" ]
                : /^(\d+)(.*)/ && [ $1, $2 ];
        } split /;/, $_[0];
        return join '', map { join '', @$_, ';' }
            sort { $a->[0] <=> $b->[0] } @groups;
    });
    return $self->set_rule($name, found => $found)
        if $self->cmd('EXISTS', $self->auto_key($name));
}

sub configurations {
    my ($self) = @_;
    my $entries = $self->entries;
    return { map { ($_ => $entries->{$_}{configuration}) }
        grep { ($entries->{$_}{configuration} // '-') ne '-' }
        keys %$entries };
}

# id => {sessions stated parts node}
sub configs {
    my ($self) = @_;
    my %of = $self->hash($self->key);
    return { map { /^config:(.*)/
        ? ($1 => words($of{$_}, qw(sessions stated parts node digest))) : () }
        keys %of };
}

# Fields that literal limits need.
sub limit_fields {
    my ($self) = @_;
    return sort grep { /^(limit|bounds|config|names):|^leaving$/ }
        @{ $self->cmd('HKEYS', $self->key) };
}

1;
