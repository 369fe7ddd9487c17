package Bench::Edition;

# The scripts of one edition of dsem, and how to call them: KEYS and ARGV of
# each script as one command in RESP. First is the edition of commit cc0e0ba,
# its scripts come from git; Second is the working tree. Before is called as that,
# with scripts from git: those of before new keys shared turns and slow requests
# were charged. The arguments that all have in common are here, the layout of keys
# is in the classes.
#
# A session is a hash of name, epoch and lease. The generation is always 1,
# and every command has the number 1, because nothing is lost or reordered here.
#
# Called by: Bench::World, Bench::FairSync, Bench::Servers, scale.pl.

use strict;
use warnings;

use Carp qw(croak);
use File::Path qw(make_path);

use Bench::Wire;

use constant {
    FIRST_COMMIT => 'cc0e0ba', BEFORE_COMMIT => '167c65d6',
    PREFIX => 'dsem:{0}', GEN => 1, NUMBER => 1,
    SCRIPTS => [qw(hello declare declared beat sync bye configure)],
};

# $kind: first, second or before; $stage: for its directory and its Redis.
sub new {
    my ($class, $stage, $kind) = @_;
    my $is = $kind eq 'first' ? 'Bench::Edition::First'
        : $kind eq 'second' ? 'Bench::Edition::Second'
        : $kind eq 'before' ? 'Bench::Edition::Before'
        : croak "EDITION=$kind: first or second";
    my $lua = $is->folder($stage);
    my %sha = map {
        $_ => $stage->redis->cmd(qw(SCRIPT LOAD), assemble($lua, $_))
    } grep { -e "$lua/$_.lua" } @{ SCRIPTS() };
    return bless { kind => $kind, sha => \%sha }, $is;
}

sub kind { $_[0]{kind} }

# The scripts of a commit, in a directory of the stage.
sub archive {
    my ($stage, $name, $commit) = @_;
    my $dir = $stage->dir . "/$name";
    make_path($dir);
    system("git -C '$Dsem::Test::ROOT' archive $commit lua 2>/dev/null"
        . " | tar -x -C '$dir' 2>/dev/null") == 0 && -e "$dir/lua/sync.lua"
        or croak "commit $commit is not in the git repository; the scripts"
            . " of the $name edition are needed (a clone with its history)";
    return "$dir/lua";
}

# The text of a script, as "make" would embed it from this folder.
sub assemble {
    my ($lua, $script) = @_;
    open my $awk, '-|', 'awk', '-v', "dir=$lua", '-v', 'text=1', '-f',
        "$lua/embed.awk", $script or croak "awk: $!";
    local $/;
    my $text = <$awk>;
    close $awk or croak "$lua: script $script cannot be assembled";
    return $text;
}

sub key { my ($self, @part) = @_; return join ':', PREFIX, @part }

sub channel { my ($self, $name) = @_; return $self->key('c', $name) }

sub semaphore_keys {
    my ($self, $name) = @_;
    return $self->key('s', $name), $self->key('q', $name);
}

sub evalsha {
    my ($self, $script, $keys, @argv) = @_;
    return Bench::Wire::command('EVALSHA', $self->{sha}{$script},
        scalar @$keys, @$keys, @argv);
}

# A script that begins with session, epoch and number.
sub by_session {
    my ($self, $script, $session, @argv) = @_;
    return $self->evalsha($script, [ $self->registry_keys($script) ],
        @$session{qw(name epoch)}, NUMBER, @argv);
}

###########################################################################
# the calls that have the same ARGV in both editions

# told: sessions in the last answer, 0 for a session that is new
sub hello {
    my ($self, $session, $told) = @_;
    return $self->by_session('hello', $session, $told ? GEN : 0, GEN,
        $session->{lease}, $self->run_id, $told, 0,
        $session->{config} // '-', $self->seal);
}

sub declared {
    my ($self, $session) = @_;
    return $self->by_session('declared', $session);
}

sub beat {
    my ($self, $session) = @_;
    return $self->by_session('beat', $session, GEN, $session->{lease},
        $self->idle);
}

# lease: of the bar, in ms
sub bye {
    my ($self, $session, $leaving, $lease) = @_;
    return $self->by_session('bye', $session, $leaving->{name}, $lease);
}

# One part of a configuration; limits: name, limit, ...
sub configure {
    my ($self, $session, $part, $parts, @limits) = @_;
    return $self->by_session('configure', $session, $session->{config},
        $part, $parts, @limits / 2, @limits);
}

# tickets: [ticket, weight, place, epoch of the acquire] ...
sub declare {
    my ($self, $session, $name, %arg) = @_;
    my @tickets = @{ $arg{tickets} // [] };
    return $self->evalsha('declare', [ $self->declare_keys($name) ],
        @$session{qw(name epoch)}, NUMBER, $arg{limit}, $arg{held} // 0, 0,
        scalar @tickets, map { @$_ } @tickets);
}

# limit, flags, release; cancel, check: [ticket, weight] ...;
# acquire: [ticket, weight, class, queue limit] ..., where fair is true with
# cost and key; of a pool also the list and what is released, see lua/sync.lua
sub sync {
    my ($self, $session, $name, %arg) = @_;
    my @lists = map { $arg{$_} // [] } qw(cancel acquire check);
    my @fair = $arg{fair} ? map { $self->key($_, $name) } qw(f n) : ();
    return $self->evalsha('sync', [ $self->sync_keys($name), @fair ],
        $self->sync_argv($session, $name,
            [ @arg{qw(limit flags)}, $arg{release} // 0 ], @lists,
            @{ $arg{pool} // [] }));
}

# "<limit or -> <pause>", as the operator sets it
sub order {
    my ($self, $name, $text) = @_;
    return Bench::Wire::command('HSET', $self->order_field($name), $text);
}

# The reply of a sync in words; both editions begin alike.
sub decode {
    my ($self, $reply) = @_;
    my %of;
    @of{qw(in_use limit waiting recovery held own_waiting may_keep)} =
        @$reply[ 4 .. 10 ];
    $of{more} = $self->more($reply);
    return \%of;
}

###########################################################################

package Bench::Edition::First;

# Registry, epochs and orders have keys of their own; each number of sync is
# an argument.

use strict;
use warnings;

use parent -norequire, 'Bench::Edition';

sub folder {
    my ($class, $stage) = @_;
    return Bench::Edition::archive($stage, 'first',
        Bench::Edition::FIRST_COMMIT);
}

sub registry_keys {
    my ($self, $script) = @_;
    return $self->key, $self->key('sessions'), $self->key('epochs'),
        $script eq 'configure' ? () : $self->key('census');
}

sub declare_keys {
    my ($self, $name) = @_;
    return $self->registry_keys('configure'), $self->semaphore_keys($name);
}

sub sync_keys {
    my ($self, $name) = @_;
    return $self->registry_keys('configure'), $self->key('orders'),
        $self->semaphore_keys($name);
}

# keys that grow with the sessions
sub session_keys { my ($self) = @_;
    return $self->key('sessions'), $self->key('epochs') }

sub sync_argv {
    my ($self, $session, $name, $numbers, $cancel, $acquire, $check) = @_;
    return @$session{qw(name epoch)}, Bench::Edition::NUMBER,
        Bench::Edition::GEN, $name, @$numbers,
        map({ scalar @$_ } $cancel, $acquire, $check),
        map({ @$_ } @$cancel, @$acquire, @$check);
}

sub order_field { my ($self, $name) = @_; return $self->key('orders'), $name }

# an argument of hello
sub run_id { 'f00' }

# the same, with the number of shards
sub seal { () }

# an argument of beat
sub idle { () }

# work that a call has left is done at the next check
sub more { 0 }

###########################################################################

package Bench::Edition::Second;

# One hash for registry, limits and orders; the numbers of sync are packed.

use strict;
use warnings;

use parent -norequire, 'Bench::Edition';

sub folder { "$Dsem::Test::ROOT/lua" }

sub registry_keys {
    my ($self, $script) = @_;
    return $self->key if $script eq 'configure';
    return $self->key, $self->key('sessions'), $self->key('census'),
        $script eq 'beat' ? $self->key('idle') : ();
}

sub sync_keys {
    my ($self, $name) = @_;
    return $self->key, $self->semaphore_keys($name);
}

sub declare_keys { my ($self, $name) = @_; return $self->sync_keys($name) }

sub session_keys { my ($self) = @_;
    return $self->key, $self->key('sessions') }

sub sync_argv {
    my ($self, $session, $name, $numbers, $cancel, $acquire, $check, @pool)
        = @_;
    my $fixed = join ' ', $session->{epoch}, Bench::Edition::NUMBER,
        Bench::Edition::GEN, @$numbers,
        map { scalar @$_ } $cancel, $acquire, $check;
    return $session->{name}, $fixed, $name, @pool,
        map { "@$_" } @$cancel, @$acquire, @$check;
}

sub order_field { my ($self, $name) = @_; return $self->key, "order:$name" }

# the script asks for it
sub run_id { () }

sub seal { 'f' x 16, 1, 0, 0, 0 }

sub idle { '' }

sub more { my ($self, $reply) = @_; return $reply->[11] }

###########################################################################

package Bench::Edition::Before;

# The layout and the arguments are those of Second.

use strict;
use warnings;

use parent -norequire, 'Bench::Edition::Second';

sub folder {
    my ($class, $stage) = @_;
    return Bench::Edition::archive($stage, 'before',
        Bench::Edition::BEFORE_COMMIT);
}

1;
