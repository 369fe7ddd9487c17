#!/usr/bin/perl

# More new keys than can be served, each with one request: tenants that are known
# are not refused, and have at least what they have without "fair". So many keys
# that take turns are tenants, too: each has its part.

use FindBin;
use lib "$FindBin::Bin/../lib", "$FindBin::Bin/../model";
use Dsem::Scripts;
use Model::FairPlay;

my $scripts = Dsem::Scripts->new;
my $n = 0;

# Four tenants with three requests each, and a flood of 1.5 times what is served.
sub play {
    my ($flood, %arg) = @_;
    my $play = Model::FairPlay->new($scripts, queue => 20, %arg);
    $play->closed(key => "tenant$_", clients => 3, ms => 50, to => 1800)
        for 1 .. 4;
    $play->open(key => $flood, group => 'flood', rate => 300, ms => 50,
        from => 200, to => 1800);
    return $play->run(1800);
}

sub least { my ($play) = @_;
    return (sort { $a <=> $b } map { $play->share("tenant$_", 800, 1800) }
        1 .. 4)[0] }

sub refused {
    my ($play) = @_;
    my $sum = 0;
    for (1 .. 4) {
        my %of = $play->counts("tenant$_", 800, 1800);
        $sum += $of{$_} // 0 for qw/rejected dropped timeout/;
    }
    return $sum;
}

my $new = sub { 'new-' . $n++ };
my $play = play($new);
# three places of 20 and 10 permits
cmp_ok least($play), '>=', 0.1, 'new keys: as much as without fair';
cmp_ok least($play), '>=', 1 / (20 + 4), 'one part of all keys that wait';
is refused($play), 0, 'none refused';
cmp_ok $play->share('flood', 800, 1800), '>', 0.3, 'new keys are served, too';

cmp_ok least(play(sub { 'pool-' . $n++ % 60 })), '>=', 0.9 / (20 + 4),
    'known keys in turn: one part of those that wait';
