#!/usr/bin/perl

# "gzip" takes several times the memory of a hold, and no line is compressed.

use lib 't/lib';
use Dsem::Test;

my $t = Dsem::Test->new;
$t->redis;

my $node = $t->node('a', <<'EOF_CONF');
gzip on;
gzip_types text/plain;
location /jobs {
    dsem jobs limit=2;
    dsem_hold;
}
location /text {
    default_type text/plain;
    return 200 "a text that is longer than the twenty bytes of gzip_min_length";
}
EOF_CONF

my $text = $node->ask('/text', 'Accept-Encoding' => 'gzip');
like $text->read_until(qr/\r\n\r\n/), qr/^Content-Encoding: gzip\r/m,
    'others are';
my $hold = $node->ask('/jobs', 'Accept-Encoding' => 'gzip');
my $answer = $hold->read_until(qr/granted\n/);
unlike $answer, qr/^Content-Encoding:/m, 'a hold is not';
like $answer, qr/granted\n/, 'granted';
$_->close for $hold, $text;

$t->done;
