#!/usr/bin/perl

# A limit is not that of a backend only: files, directory indexes, stub_status,
# empty_gif, and what a try_files finds are limited, too. "return" comes before,
# and "dsem off" exempts a location.

use lib 't/lib';
use Dsem::Test;

my $t = Dsem::Test->new;
my $redis = $t->redis;
my $dir = $t->dir . '/files';
mkdir $dir or die $!;
mkdir "$dir/exempt" or die $!;
for my $name ('page.html', 'index.html', 'exempt/page.html') {
    open my $file, '>', "$dir/$name" or die $!;
    print $file "$name\n";
    close $file;
}

my $node = $t->node('n1', <<'EOF_CONF', FILES => $dir);
add_header X-Dsem $dsem_status always;
dsem all limit=$arg_limit;
root %%FILES%%;
location / { }
location /status { stub_status; }
location /gif { empty_gif; }
location /tries { try_files $uri /page.html =404; }
location /return { return 200 text; }
location /exempt/ { dsem off; }
EOF_CONF

for my $path (qw(/ /page.html /status /gif /tries)) {
    my $passed = $node->get("$path?limit=1");
    is $passed->status, 200, "$path: passed";
    is $passed->header('X-Dsem'), 'PASSED', "$path: by a permit";
    my $rejected = $node->get("$path?limit=0");
    is $rejected->status, 503, "$path: rejected";
    is $rejected->header('X-Dsem'), 'REJECTED', "$path: by the limit";
}
is $node->get("$_?limit=0")->status, 200, "$_: not limited"
    for '/return', '/exempt/page.html';

$t->done;
