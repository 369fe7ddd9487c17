#!/usr/bin/perl

# A request whose body cannot be read has no verdict: its error page in a
# location without a limit has an empty $dsem_status.

use lib 't/lib';
use Dsem::Test;

my $t = Dsem::Test->new;
$t->redis;
my $up = $t->upstream;

my $node = $t->node('n1', <<'EOF_CONF');
client_body_buffer_size 1k;
# the rest of the body does not come
lingering_timeout 100ms;
server {
    listen 127.0.0.1:%%PORT%%;
    location /first {
        dsem first limit=1 queue=5;
        try_files /nowhere @uploads;
    }
    location @uploads {
        dsem uploads limit=1;
        error_page 500 /failed;
        proxy_pass http://%%UPSTREAM%%;
    }
    location /uploads {
        dsem uploads limit=1;
        error_page 500 /failed;
        proxy_pass http://%%UPSTREAM%%;
    }
    location /failed {
        root %%DIR%%;
    }
}
EOF_CONF

wait_for { $t->state->session_count == 1 } 15, 'a session';

# no directory for the body
$t->expect_log(qr/(?:mkdir|open)\(\) .* failed/);
my $temp = $node->dir . '/temp';
rename $temp, "$temp.away" or die "$temp: $!";
open my $fh, '>', $temp or die "$temp: $!";

for my $path (qw(/uploads /first)) {
    my $request = $node->get($path, -method => 'POST', -body => 'x' x 5000);
    my $line = $node->logged($request);
    is $line->{dsem_status} . $line->{dsem_name}, '', "$path: no verdict";
    eventually { $t->state->held('uploads') == 0 } "$path: no permit";
}
is $up->started, 0, 'none at the backend';

unlink $temp;
rename "$temp.away", $temp;

$t->done;
