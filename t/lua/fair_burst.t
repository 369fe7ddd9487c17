#!/usr/bin/perl

# A key whose requests took 2 ms sends 60 at once that take 900. It pays for what
# they take beyond that while they run, so the other keys keep their shares.

use FindBin;
use lib "$FindBin::Bin/../lib", "$FindBin::Bin/../model";
use Dsem::Scripts;
use Model::FairPlay;

my $scripts = Dsem::Scripts->new;
my $play = Model::FairPlay->new($scripts);

# 2 of the 10 permits each
$play->open(key => "tenant$_", ms => 50, rate => 40, to => 4500) for 1 .. 3;
$play->open(key => 'slow', ms => 2, rate => 40, to => 1500);
$play->burst(key => 'slow', ms => 900, requests => 60, from => 1500);
$play->run(4500);

cmp_ok $play->share("tenant$_", 1500, 4500), '>=', 0.8 * 0.2,
    "tenant $_ has its share" for 1 .. 3;
cmp_ok $play->share('slow', 1500, 4500), '<=', 0.5, 'the slow one its own';
cmp_ok $play->share('slow', 1500, 4500), '>=', 0.15, 'which is not less';
