package Bench::FairPlays;

# Plays of make bench-fair: many keys, slow ones and clients that choose their
# keys, by the real scripts in a time of their own (Model::FairPlay), so that
# figures do not depend on the machine. 10 permits, requests of 50 ms.
#
# Called by: fair.pl.

use strict;
use warnings;

use List::Util qw(min sum0);

use Dsem::Scripts ();
use Model::FairPlay;

use constant TENANTS => 4;

# redis, script($name): of $stage; ms of each play, behind its begin
sub new {
    my ($class, $stage, $ms) = @_;
    my $begin = $ms < 5000 ? 500 : 5000;
    return bless { scripts => Dsem::Scripts->new($stage), new => 0,
        begin => $begin, to => $begin + 100 * int($ms / 100) }, $class;
}

sub play {
    my ($self, %arg) = @_;
    return Model::FairPlay->new($self->{scripts}, %arg);
}

# Four tenants with three requests each, beside 300 per second of these keys:
# 1.5 times what is served.
sub flood {
    my ($self, $keys, %arg) = @_;
    my $play = $self->play(%arg);
    $play->closed(key => "tenant$_", clients => 3, ms => 50,
        to => $self->{to}) for 1 .. TENANTS;
    $play->open(key => sub { 'flood-' . $self->{new}++ % $keys },
        group => 'flood', rate => 300, ms => 50,
        from => 0.4 * $self->{begin},
        to => $self->{to});
    return $self->figures($play->run($self->{to}), $self->{begin},
        TENANTS);
}

# One key with 200 clients, four tenants that use 0.85 of their shares.
sub noisy {
    my ($self, %arg) = @_;
    my $play = $self->play(%arg);
    $play->open(key => "tenant$_", rate => 34, ms => sub { 40 + rand 20 },
        to => $self->{to}) for 1 .. TENANTS;
    $play->closed(key => 'noisy', clients => 200, ms => 50, group => 'flood',
        to => $self->{to});
    return $self->figures($play->run($self->{to}), $self->{begin},
        TENANTS);
}

# 60 requests at once that take 3 s, of a key whose requests took 2 ms; three
# tenants with 2 permits each. The least share in any 10 s, where that is less.
sub burst {
    my ($self, %arg) = @_;
    my $play = $self->play(%arg);
    my $from = 2 * $self->{begin};
    my $to = $from + $self->{to};
    $play->open(key => "tenant$_", ms => 50, rate => 40, to => $to)
        for 1 .. 3;
    $play->open(key => 'slow', ms => 2, rate => 40, to => $from);
    $play->burst(key => 'slow', ms => 3000, requests => 60, from => $from,
        group => 'flood');
    return $self->figures($play->run($to), $from, 3);
}

# The least share of a tenant in all of the time and in any 10 s of it, the share
# of the others, and tenants' requests: refused, sent.
sub figures {
    my ($self, $play, $from, $tenants) = @_;
    my @names = map { "tenant$_" } 1 .. $tenants;
    my $to = $play->{now};
    my $window = min(10_000, $to - $from);
    my %of;
    for my $name (@names) {
        my %counts = $play->counts($name, $from, $to);
        $of{sent} += $counts{sent} // 0;
        $of{refused} += $counts{$_} // 0 for qw(rejected dropped timeout);
    }
    $of{share} = min(map { $play->share($_, $from, $to) } @names);
    $of{window} = min(map { $play->least($_, $window, $from, $to) } @names);
    $of{flood} = $play->share('flood', $from, $to);
    return \%of;
}

1;
