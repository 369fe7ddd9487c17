#!/usr/bin/perl

# Recipe "A page for rejected requests": they get their page with the
# status and Retry-After, from a file or from another server, and more of them
# than the limit, because pages are not limited and cost the backend nothing.

use lib qw(t/lib t/run);
use Dsem::Clock;
use Dsem::Recipe;
use Dsem::Test;
use Fleet::Conf;

my $t = Dsem::Test->new;
$t->redis;
my $clock = Dsem::Clock->new($t, monotonic => 1);
my $pages = $t->upstream;
my $up = $t->upstream;

my $recipe = recipe('A page for rejected requests',
    '/var/www/pages' => '%%DIR%%', '10.0.1.20:8080' => $pages->address);
my %line = map { $_ => Fleet::Conf::semaphore($recipe, $_) }
    qw(reports shop);

my $conf = <<'EOF_CONF' =~ s/%%RECIPE%%/$recipe/r;
%%GLOBALS%%
events { }
http {
    %%HTTP%%
    dsem_redis %%REDIS%%;
    dsem_node %%NODE%%;
    dsem_lease 10m;
    upstream backend {
        server %%UPSTREAM%%;
    }
    server {
        listen 127.0.0.1:%%PORT%%;
        # the pages inherit it
        dsem site limit=1;
        %%RECIPE%%
    }
}
EOF_CONF
my $node = $clock->node('n1', $conf);

open my $page, '>', $node->dir . '/busy.html' or die "busy.html: $!";
print $page "<h1>Busy</h1>\n";
close $page;

# a file: for those without a place, and for those who have waited

my ($held, $waiting) = fill('reports');
my $refused = $node->get('/reports/');
is_page($refused, "<h1>Busy</h1>\n");
is($node->logged($refused)->{dsem_status}, 'REJECTED',
    'page for rejected request');
# their time is over
$clock->step(6);
is_page($_->wait, "<h1>Busy</h1>\n") for @$waiting;
is($node->logged($waiting->[0])->{dsem_status}, 'TIMEOUT',
    'page for timed out request');
is($up->now, @$held, 'running requests kept');
is($up->started, @$held, 'no page at backend');
is($node->get('/busy.html')->status, 404, 'page location internal');
$up->release_all;
is($_->wait->status, 200, 'request served') for @$held;

# another server, which is not limited

($held, $waiting) = fill('shop');
my @refused = map { $node->begin('/shop/?hang=1') } 1 .. @$held + 2;
eventually { $pages->now == @refused } 'more pages than limit';
is($up->now, @$held, 'no page at backend');
is($t->state->held('shop'), @$held, 'no page with permit');
$_->release_all for $up, $pages;
for my $request (@refused) {
    is_page($request->wait, $request->nonce . " /shop/?hang=1\n");
}
is($_->wait->status, 200, 'request served') for @$held;
$_->wait for @$waiting;
is($up->peak, $line{shop}{limit}, 'limit never exceeded');

# closed

$node->reload($conf =~ s/limit=10/limit=0/gr);
my $closed = $node->get('/reports/');
is($closed->status, 503, 'limit=0 page sent');
is($closed->body, "<h1>Busy</h1>\n", 'page sent');
is($closed->header('Retry-After'), undef, 'no Retry-After');

done_testing();

sub is_page {
    my ($request, $body) = @_;
    local $Test::Builder::Level = $Test::Builder::Level + 1;
    is($request->status . ' ' . $request->body, "503 $body", 'page sent');
    like($request->header('Retry-After'), qr/^\d+$/, 'Retry-After sent');
}

# (those at the backend, those who wait)
sub fill {
    my ($name) = @_;
    my $line = $line{$name};
    $up->reset;
    my @held = map { $node->begin("/$name/?hang=1") } 1 .. $line->{limit};
    eventually { $up->now == $line->{limit} } 'limit reached';
    my @waiting;
    eventually {
        # also where the first have timed out on a busy machine
        my $n = $line->{queue} - grep { !$_->done } @waiting;
        push @waiting, map { $node->begin("/$name/?t=1") } 1 .. $n;
        $t->state->waiting($name) == $line->{queue};
    } 'queue full';
    return \@held, \@waiting;
}
