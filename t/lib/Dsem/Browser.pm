package Dsem::Browser;

# A headless Chromium, in a process of its own that t/page/browser.mjs steers.
# The first thing in a test file: starting it takes a second, in which the test
# goes on. The files of a run share one (Dsem::Suite::Browser), with a window for
# each. "make test" installs what it needs, below build/page.
#
#   my $browser = Dsem::Browser->new($t);
#   $browser->open($node->url('/dsem/'));      # width => 1400, height => 900,
#                                              # scheme => light
#   $browser->click('text=Pause');             # selectors of Playwright
#
# size($width, $height) scheme($scheme) fill($selector, $text) press($key),
# evaluate($js): its value, text($selector): of the first such element,
# count($selector), screenshot($name): a file in build/screenshots, with
# DSEM_SCREENSHOTS=1, problems: errors of the console since the last call,
# findings: what axe-core calls serious, one line each.
#
# Called by: tests in t/page.

use strict;
use warnings;

use Carp qw(croak);
use Cpanel::JSON::XS ();
use Exporter qw(import);
use File::Path qw(make_path);

use Dsem::Control;
use Dsem::Process;
use Dsem::Wait qw(wait_for);

our @EXPORT_OK = qw(browser_missing);

my $json = Cpanel::JSON::XS->new->allow_nonref;

sub _modules { "$Dsem::Test::ROOT/build/page" }

# Why there can be no browser; nothing where there can.
sub browser_missing {
    return 'no Chromium'
        if !-x ($ENV{DSEM_CHROMIUM} // '/usr/bin/chromium');
    return '"make test T=t/page" installs the packages of npm'
        if !-d _modules() . '/node_modules/playwright-core';
    return;
}

# What to execute; it ends with the parent, or with the first connection.
sub command {
    my ($socket, @parent) = @_;
    return '/usr/bin/env', 'node', "$Dsem::Test::ROOT/t/page/browser.mjs",
        $socket, _modules(), @parent;
}

sub new {
    my ($class, $t) = @_;
    return bless { socket => $ENV{DSEM_BROWSER} }, $class
        if $ENV{DSEM_BROWSER};
    my $socket = $t->dir . '/browser';
    my $process = Dsem::Process->spawn(name => 'browser',
        log => "$socket.log", argv => [command($socket)]);
    return bless { process => $process, socket => $socket }, $class;
}

sub _connect {
    my ($self) = @_;
    my $control;
    wait_for {
        croak "the browser's process has ended, see $self->{socket}.log"
            if $self->{process} && !$self->{process}->alive;
        $control = eval { Dsem::Control->new($self->{socket}) };
    } 20, 'the browser to start';
    return $control;
}

sub _do {
    my ($self, @request) = @_;
    $self->{control} //= $self->_connect;
    return $self->{control}->call(@request);
}

sub open {
    my ($self, $url, %opt) = @_;
    $self->_do('open', $url, 0 + ($opt{width} // 1400),
        0 + ($opt{height} // 900), $opt{scheme} // 'light');
    return $self;
}

sub size { $_[0]->_do('size', 0 + $_[1], 0 + $_[2]) }
sub scheme { $_[0]->_do('scheme', $_[1]) }
sub evaluate { $_[0]->_do('evaluate', $_[1]) }
sub click { $_[0]->_do('click', $_[1]) }
sub fill { $_[0]->_do('fill', $_[1], "$_[2]") }
sub press { $_[0]->_do('press', $_[1]) }
sub problems { @{ $_[0]->_do('problems') } }
sub findings { @{ $_[0]->_do('findings') } }

sub text {
    my ($self, $selector) = @_;
    my $quoted = $json->encode($selector);
    return $self->evaluate("document.querySelector($quoted)?.innerText")
        // '';
}

sub count {
    my ($self, $selector) = @_;
    my $quoted = $json->encode($selector);
    return $self->evaluate("document.querySelectorAll($quoted).length");
}

sub screenshot {
    my ($self, $name) = @_;
    return if !$ENV{DSEM_SCREENSHOTS};
    my $dir = "$Dsem::Test::ROOT/build/screenshots";
    make_path($dir);
    return $self->_do('screenshot', "$dir/$name.png");
}

1;
