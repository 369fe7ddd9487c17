package Soak::Logs;

# The logs of one phase, read for the checker. Nothing here or in the checker
# knows the module, Redis or the driver: only these files.
#
#   conf        conf.json
#   request     nonce => [kind node sem weight start end status reused echo
#               key]
#   backend     [sign, time, nonce, sem, weight, worker, node, limit told to the
#               request, server of a pool: its port, where it came] in order;
#               for an end, the fourth is how it ended
#   verdict     nonce => [time status dsem_status wait position pid arrival],
#               doubles: nonces with more than one
#   faults      [{ kind, from, to, ... }] in order of time
#   promotions  times at which a server of Redis became a master
#   state       records of state.log
#   metronome   notes of a Dsem::Metronome; undef: there were none
#
# Called by: check.pl.

use strict;
use warnings;

use Cpanel::JSON::XS ();
use POSIX qw(mktime);

use Dsem::Metronome;

my $json = Cpanel::JSON::XS->new;

# of a request, and of a verdict
use constant { KIND => 0, NODE => 1, SEM => 2, WEIGHT => 3, START => 4,
    FINISH => 5, STATUS => 6, REUSED => 7, ECHO => 8, KEY => 9 };
use constant { V_TIME => 0, V_STATUS => 1, V_DSEM => 2, V_WAIT => 3,
    V_POSITION => 4, V_PID => 5, V_ARRIVAL => 6 };

my $n = 0;
my %MONTH = map { $_ => $n++ } qw(Jan Feb Mar Apr May Jun Jul Aug Sep Oct Nov
    Dec);

sub new {
    my ($class, $dir) = @_;
    my $self = bless { dir => $dir }, $class;
    $self->{conf} = $json->decode(join '', $self->lines('conf.json'));
    $self->{state} = [ map { $json->decode($_) } $self->lines('state.log') ];
    $self->{faults} = $self->read_faults;
    $self->{promotions} = [ map { $self->read_promotions($_) }
        glob "$dir/redis*/log" ];
    my $notes = $self->{conf}{metronome};
    $self->{metronome} = Dsem::Metronome->new($notes =~ m{^/} ? $notes
        : "$dir/$notes") if defined $notes;
    $self->read_requests;
    $self->read_backend;
    $self->read_verdicts($_) for glob "$dir/n*/verdicts.log";
    return $self;
}

sub each_line {
    my ($self, $file, $take) = @_;
    my $path = $file =~ m{^/|^\Q$self->{dir}\E} ? $file : "$self->{dir}/$file";
    open my $fh, '<', $path or die "$path: $!\n";
    while (my $line = <$fh>) {
        chomp $line;
        $take->($line);
    }
}

sub lines {
    my ($self, $file) = @_;
    my @lines;
    $self->each_line($file, sub { push @lines, $_[0] });
    return @lines;
}

# The begin and the end of a fault, as they were carried out, in one record.
sub read_faults {
    my ($self) = @_;
    my (%of, @all);
    for my $step (map { $json->decode($_) } $self->lines('faults.log')) {
        my $fault = $of{ $step->{id} };
        if (!$fault) {
            push @all, $fault = $of{ $step->{id} } = { %$step };
            $fault->{from} = $fault->{asked} = $step->{began};
            $fault->{done} = $fault->{to} = $step->{t};
        } else {
            @$fault{qw(healing to)} = @$step{qw(began t)};
            $fault->{failed} //= $step->{failed};
            $fault->{tags} = $step->{tags} if defined $step->{tags};
        }
        delete $fault->{failed} unless defined $fault->{failed};
    }
    return \@all;
}

sub read_requests {
    my ($self) = @_;
    $self->{request} = {};
    $self->each_line('clients.log', sub {
        my ($nonce, @of) = split / /, $_[0];
        $self->{request}{$nonce} = \@of;
    });
}

sub read_backend {
    my ($self) = @_;
    $self->{backend} = [];
    $self->each_line('backend.log', sub {
        my @of = split / /, $_[0];
        # "pool@8001" of a start
        @of[3, 8] = ($1, $2) if $of[3] =~ /^(.*)\@(\d+)$/;
        push @{ $self->{backend} }, \@of;
    });
}

# Times of nginx are those of the wall clock, in ms.
sub read_verdicts {
    my ($self, $file) = @_;
    my $verdict = $self->{verdict} //= {};
    my $wall = $self->{conf}{wall};
    $self->each_line($file, sub {
        my ($time, $nonce, $status, $dsem, $wait, $position, $pid, $took)
            = split / /, $_[0];
        push @{ $self->{doubles} }, $nonce if $verdict->{$nonce};
        $time -= $wall;
        $verdict->{$nonce} = [ $time, $status, $dsem, $wait, $position, $pid,
            $time - $took ];
    });
}

# Redis too logs times of the wall clock.
sub read_promotions {
    my ($self, $file) = @_;
    my @at;
    $self->each_line($file, sub {
        my ($day, $name, $year, $hour, $minute, $second) = $_[0] =~
            /^\d+:\w\ (\d+)\ (\w+)\ (\d+)\ (\d+):(\d+):([\d.]+)
            \ . \ (?:MASTER\ MODE|Failover\ election\ won)/x or return;
        push @at, mktime(int $second, $minute, $hour, $day, $MONTH{$name},
            $year - 1900, 0, 0, -1) + $second - int($second)
            - $self->{conf}{wall};
    });
    return @at;
}

# The time of an error log, in seconds of the wall clock.
sub seconds {
    my ($year, $month, $day, $hour, $minute, $second) = $_[0] =~ /(\d+)/g;
    return mktime($second, $minute, $hour, $day, $month - 1, $year - 1900,
        0, 0, -1);
}

# Lines of the error logs of nginx, with the node.
sub errors {
    my ($self, $re) = @_;
    my @found;
    for my $file (glob "$self->{dir}/n*/error.log $self->{dir}/n*/output") {
        my ($node) = $file =~ m{/(n\d+)/};
        $self->each_line($file,
            sub { push @found, "$node: $_[0]" if $_[0] =~ $re });
    }
    return @found;
}

1;
