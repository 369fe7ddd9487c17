#!/usr/bin/perl

# The site: what nginx is shown on its first page is valid, each link of its pages
# leads to a page and a heading there. Where mkdocs is installed, the HTML is
# built too: no link or asset is missing or of another server, and the search
# knows the directives.

use lib 't/lib';
use Dsem::Test;

use Cpanel::JSON::XS qw(decode_json);
use File::Find qw(find);

use Dsem::Pages;

my $t = Dsem::Test->new;
my $dir = $t->dir . '/site';

# the first page

my $first = page('docs/site/index.md');
$t->redis;
my @shown = $first =~ /^```nginx\n(.*?)^```$/msg;
is(scalar @shown, 4, 'four use cases');
for my $location (@shown) {
    my $conf = $location =~ s{proxy_pass \S+;}{proxy_pass http://127.0.0.1:1;}r;
    my ($status, $said) = $t->test_conf(<<"EOF_CONF");
map \$arg_a \$model { default small; }
map \$arg_a \$tokens { default 1; }
map \$arg_a \$tenant { default acme; }
map \$arg_a \$priority { default 0; }
server {
    listen 127.0.0.1:%%PORT%%;
    $conf
}
EOF_CONF
    is($status, 0, 'valid: ' . ($location =~ /location (\S+)/)[0]) or diag $said;
}

# its pages

is(system('docs/site/build', '--pages', $dir), 0, 'pages made');
my %page = map { s{^\Q$dir/pages/\E}{}r => slurp($_) } found("$dir/pages", 'md');
cmp_ok(scalar keys %page, '>=', 20, 'pages found');
like($page{'index.md'}, qr/^    sudo apt install nginx/m, 'with the quick start');
is_deeply([astray(sub {
    my ($target, $anchor) = @_;
    return defined $page{$target} && ($anchor eq ''
        || $page{$target} =~ /^#+ .* \{: #\Q$anchor\E\}$/m);
}, %page)], [], 'links lead to pages');
my $nav = slurp("$dir/mkdocs.yml");
is_deeply([grep { $nav !~ /: \Q$_\E$/m } sort keys %page], [],
    'all pages are in the navigation');

# its HTML

SKIP: {
    skip 'mkdocs is not installed, "make site" does it', 1
        if !grep { -x "$_/mkdocs" } split /:/, $ENV{PATH};
    is(system('docs/site/build', $dir), 0, 'HTML made');
    my %html = map { s{^\Q$dir/html/\E}{}r => slurp($_) }
        found("$dir/html", 'html');
    cmp_ok(scalar keys %html, '>=', scalar keys %page, 'a file for each page');
    my (@missing, @foreign);
    for my $path (grep { $_ ne '404.html' } sort keys %html) {
        my %id = map { $_ => 1 } $html{$path} =~ /\bid="([^"]+)"/g;
        for my $tag ($html{$path} =~ /<(?!!)([^>]+)>/g) {
            my ($kind) = $tag =~ /^(\w+)/;
            for ($tag =~ /\b(?:src|href)="([^"]*)"/g) {
                my ($file, $anchor) = /^([^#?]*)[^#]*#?(.*)/;
                if (/^(?:https?:)?\/\//) {
                    # the credits of the theme are links
                    push @foreign, "$path: $_" if $kind ne 'a';
                    next;
                }
                next if /^(?:data|mailto):/;
                my ($folder) = $path =~ m{^(.*/)};
                my $target = $file eq '' ? $path
                    : straight(($folder // '') . $file);
                $target =~ s{(?:^|(?<=/))\.?$}{index.html};
                my $there = -e "$dir/html/$target";
                $there &&= $html{$target} =~ /\bid="\Q$anchor\E"/
                    if $anchor ne '' && defined $html{$target};
                push @missing, "$path: $_" if !$there;
            }
        }
    }
    is_deeply(\@missing, [], 'links and assets are there');
    is_deeply(\@foreign, [], 'none is of another server');
    my @css = grep { /url\(["']?(?:https?:)?\/\// }
        map { slurp($_) } found("$dir/html", 'css');
    is(scalar @css, 0, 'nor in the style sheets');
    my $index = decode_json(slurp("$dir/html/search/search_index.json"));
    my @hits = grep { $_->{title} eq 'dsem_lease' } @{ $index->{docs} };
    is(scalar @hits, 1, 'the search knows dsem_lease');
}

$t->done;

###############################################################################

sub found {
    my ($from, $suffix) = @_;
    my @found;
    find({ no_chdir => 1, wanted => sub {
        push @found, $_ if /\.\Q$suffix\E$/ } }, $from);
    return sort @found;
}
