#!/usr/bin/perl

# More workers than the zone has room for: one warning, which names the
# directive. The limit holds all the same. A larger zone has room for all, one of
# 160k for 120.

use lib 't/lib';
use Dsem::Test;

my $t = Dsem::Test->new;
$t->redis;
my $up = $t->upstream;

my $conf = <<'EOF_CONF';
worker_processes 56;
worker_connections 64;
dsem_zone_size %%SIZE%%;
location /limited {
    dsem api limit=2 queue=100 timeout=20s;
    proxy_pass http://%%UPSTREAM%%;
}
EOF_CONF

sub warnings { return $_[0]->grep_log(qr/\[warn\].*dsem: zone full/) }

my $small = $t->node('small', $conf, SIZE => '64k');
eventually { warnings($small) } 'warned';
eventually { $t->state->session_count == 56 } 'every worker has a session';

my $load = $t->load(urls => [$small->url('/limited?t=2')], clients => 20,
    requests => 200);
is_deeply $load->{statuses}, { 200 => 200 }, 'requests served';
is $up->peak, 2, 'limit reached, not exceeded';
is scalar(warnings($small)), 1, 'warned once';
like +(warnings($small))[0], qr/"dsem_zone_size"/, 'directive named';
$small->quit;

my $large = $t->node('large', $conf =~ s/56/110/r, SIZE => '160k');
eventually { $t->state->session_count == 110 }
    'a session for each worker of the larger one';
is $large->get('/limited?t=1')->status, 200, 'request served';
is scalar(warnings($large)), 0, 'no warning';

$t->done;
