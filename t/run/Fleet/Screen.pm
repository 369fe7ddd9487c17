package Fleet::Screen;

# The output: plain text, 80 columns. On a terminal the progress line is
# overwritten and the verdict has a colour (unless NO_COLOR is set); elsewhere
# progress is one line a second. While something blocks this process, another
# one prints a dot each second.
#
# Called by: fleet.pl. Knows nothing of the fleet's processes.

use strict;
use warnings;

use Carp qw(croak);
use IO::Handle;
use POSIX ();
use Text::Wrap ();

use Dsem::Wait qw(now);

use Fleet::Judge;

sub new {
    my ($class) = @_;
    STDOUT->autoflush(1);
    return bless { tty => -t STDOUT, shown => 0, live => 0 }, $class;
}

sub tty { $_[0]{tty} }

sub say {
    my ($self, @lines) = @_;
    $self->end_live;
    print map { "$_\n" } @lines;
}

sub live {
    my ($self, $line) = @_;
    return print "\r$line\e[K" if $self->{live} = $self->{tty};
    print "$line\n";
}

sub end_live {
    my ($self) = @_;
    print "\n" if $self->{live};
    $self->{live} = 0;
}

sub colour {
    my ($self, $code, $text) = @_;
    return $text if !$self->{tty} || exists $ENV{NO_COLOR};
    return "\e[${code}m$text\e[0m";
}

sub wrapped {
    my ($self, $code, $text) = @_;
    local $Text::Wrap::columns = 81;
    $self->say(map { $self->colour($code, $_) }
        split /\n/, Text::Wrap::wrap('', '  ', $text));
}

# Does $work after these words, with a dot each second until it is done.
sub during {
    my ($self, $words, $work) = @_;
    $self->end_live;
    print $words;
    my $parent = $$;
    my $pid = fork // croak "fork: $!";
    if (!$pid) {
        $SIG{$_} = 'DEFAULT' for qw(INT TERM HUP);
        while (1) {
            select undef, undef, undef, 1;
            getppid == $parent or POSIX::_exit(0);
            syswrite STDOUT, '.';
        }
    }
    my $done = eval { $work->(); 1 };
    my $error = $@;
    kill 'KILL', $pid;
    waitpid $pid, 0;
    print "\n";
    die $error unless $done;
}

###########################################################################

sub takes {
    my ($self, $seconds) = @_;
    $self->say(sprintf 'A demonstration of a limit over two nginx nodes. It '
        . 'takes about %d s.', $seconds);
}

sub welcome {
    my ($self, $fleet, $demo) = @_;
    my $sem = $fleet->semaphore;
    $self->page($fleet);
    $self->say('',
        'Two nginx nodes, a Redis and a backend, all on this machine:', '',
        (map { sprintf '  node %s    %s', $_, $fleet->url($_) }
            $fleet->names),
        sprintf('  backend   http://%s, responds after %d ms',
            $fleet->backend->address, 1000 * $fleet->service), '',
        'Both nodes run conf.example, where /reports/ has the line', '',
        "  dsem reports limit=$sem->{limit} queue=$sem->{queue} "
            . "timeout=$sem->{timeout};", '',
        sprintf('The limit allows %d requests/s. The load is %d/s for %g s, '
            . 'over both nodes:',
            $demo->ideal, $demo->rate, $demo->seconds), '');
}

# All figures, live, of the whole fleet at each node.
sub page {
    my ($self, $fleet) = @_;
    $self->say('Open ' . $fleet->page('a'));
}

sub progress {
    my ($self, $state, $limit) = @_;
    return if !$self->{tty} && int $state->{seconds} <= $self->{shown};
    $self->{shown} = int $state->{seconds};
    $self->live(sprintf '  %3d s  %4d/s answered   backend %s %2d, '
        . '%s %3d waiting',
        $state->{seconds}, $state->{rate}, bar($state->{now}, $limit),
        $state->{now}, $state->{limit} ? "limit now $limit"
            : "peak $state->{peak} of $limit", $state->{waiting});
}

# While permits are still held; asked more often than it is shown.
sub settling {
    my ($self, @names) = @_;
    return if now < ($self->{next} // 0);
    $self->{next} = now + ($self->{tty} ? 0.5 : 2);
    $self->live('  idle permits return to Redis: ' . join ', ', @names);
}

# The progress of the next part; without a limit it is that of the state.
sub part {
    my ($self, $limit) = @_;
    $self->{shown} = 0;
    return sub { $self->progress($_[0], $limit // $_[0]{limit} || 1) };
}

# The same of several servers: requests at each.
sub servers {
    my ($self, $running) = @_;
    $self->{shown} = 0;
    return sub {
        my ($state) = @_;
        return if !$self->{tty} && int $state->{seconds} <= $self->{shown};
        $self->{shown} = int $state->{seconds};
        $self->live(sprintf '  %3d s  %4d/s answered   servers%s   '
            . '%3d waiting', $state->{seconds}, $state->{rate},
            join('', map { sprintf ' %2d', $_ } $running->()),
            $state->{waiting});
    };
}

sub bar {
    my ($now, $limit) = @_;
    my $width = $limit < 10 ? $limit : 10;
    my $n = int $width * $now / $limit;
    return sprintf "[%-${width}s]", '#' x ($n > $width ? $width : $n);
}

###########################################################################

sub table {
    my ($self, $result) = @_;
    my @columns = (@{ $result->{node} }{qw(a b)}, $result->{fleet});
    my $row = sub {
        my ($name, $of, $format, $note) = @_;
        return sprintf("  %-22s%12s%12s%12s   %s", $name,
            map({ sprintf $format, $of->($_) } @columns), $note // '')
            =~ s/\s+$//r;
    };
    my $status = sub { my $s = shift; sub { $_[0]{status}{$s} // 0 } };
    my $wait = sub {
        my $part = shift;
        sub { at($part, @{ $_[0]{waits} }) };
    };
    $self->say('',
        sprintf('  %-22s%12s%12s%12s', '', 'node a', 'node b', 'fleet'),
        $row->('requests', sub { $_[0]{requests} }, '%d'),
        $row->('200, answered', $status->(200), '%d'),
        $row->('503, rejected', $status->(503), '%d'),
        $row->('share of the 200s', sub { share($_[0], $result) },
            '%.0f %%'),
        $row->('wait, median', $wait->(0.5), '%.3f s'),
        $row->('wait, 99th percentile', $wait->(0.99), '%.3f s'),
        $row->('wait, longest', $wait->(1), '%.3f s'),
        $self->backend_rows($result), '');
}

sub backend_rows {
    my ($self, $result) = @_;
    my ($goodput, $unlimited) = ($result->{goodput},
        $result->{machine}{baseline});
    return (
        sprintf('  %-46s%12d   of %d', 'peak at the backend',
            $result->{peak}, $result->{limit}),
        '', sprintf('  goodput %d/s, %d %% of what this machine reaches '
            . 'without a limit (%d/s)', $goodput,
            $unlimited ? 100 * $goodput / $unlimited : 0, $unlimited));
}

sub share {
    my ($column, $result) = @_;
    my $all = $result->{fleet}{status}{200} or return 0;
    return 100 * ($column->{status}{200} // 0) / $all;
}

sub at {
    my ($part, @values) = @_;
    return 0 unless @values;
    return (sort { $a <=> $b } @values)[int $part * $#values];
}

sub verdict {
    my ($self, $result) = @_;
    my ($verdict, $peak, $limit) = @$result{qw(verdict peak limit)};
    return if $self->judged('The limit', '', $verdict,
        "the limit held: $peak of $limit");
    return $self->say($self->colour('1;32', 'The limit held: '
        . "never more than $limit requests at once over both nodes."));
}

sub third {
    my ($self, $verdict) = @_;
    return $self->failed('The third act', @{ $verdict->{wrong} })
        if @{ $verdict->{wrong} };
    return $self->say($self->colour('1;32', 'With "limit=1/server" no server '
        . 'had more than one request at once.'));
}

# The failures of an act, or that they could not be judged; false when neither.
sub judged {
    my ($self, $act, $what, $verdict, $held) = @_;
    return $self->failed($act, @{ $verdict->{wrong} }) || 1
        if @{ $verdict->{wrong} };
    return unless $verdict->{busy};
    $self->wrapped('1;33', $_)
        for Fleet::Judge::too_busy($verdict, $what, $held);
    return 1;
}

sub failed {
    my ($self, $what, @wrong) = @_;
    $self->say($self->colour('1;31', "$what failed: $_.")) for @wrong;
}

###########################################################################

sub playground {
    my ($self, $fleet) = @_;
    my $root = Dsem::Test->root;
    my $dir = $fleet->dir =~ s{^\Q$root\E/}{}r;
    my ($a, $b) = map { $fleet->url($_) } $fleet->names;
    my $page = $fleet->page('a');
    my $redis = "redis-cli -s $dir/redis/redis.sock";
    my $pid = $fleet->redis->pid;
    my $key = $fleet->state->semaphore_key('reports');
    my $quietly = "curl -so /dev/null -w '%{http_code} %{time_total}\\n'";
    $self->say('', 'The fleet is up until Ctrl-C. Try in another terminal, '
            . 'in this directory,', 'with t in ms at the backend:', '',
        "  curl -i '$a/reports/?t=3000'", '',
        "  for i in \$(seq 12); do $quietly \\",
        "      '$b/reports/?t=1500' & done; wait", '',
        "  curl -i -H 'X-Api-Key: unknown' $a/api/", '',
        "  curl -s '$a/reports/?t=3000' & sleep 1",
        "  $redis hgetall '$key'", '',
        '  # Redis hangs for six seconds: an answer at once, every second',
        "  (sleep 1.5; kill -STOP $pid; sleep 6; kill -CONT $pid) &",
        "  $quietly --rate 60/m \\", "      '$a/reports/?[1-8]'", '',
        '  # another limit for both nodes, until "limit" is null again',
        "  curl -X PATCH -H 'Content-Type: application/json' \\",
        "      -d '{\"limit\": 5}' ${page}semaphores/reports", '',
        "  tail -f $dir/[ab]/*.log", '');
    $self->page($fleet);
    $self->say('');
}

sub playing {
    my ($self, $now, $waiting, $limit) = @_;
    $self->live(sprintf '  backend %s %d at once   %s', bar($now, $limit),
        $now, defined $waiting ? "$waiting waiting"
            : 'Redis does not reply');
}

1;
