# Attaches to every process that it finds, again and again until the file `stop` exists, and looks for a way out through each of
# them: $ARGV[0] is the number of the system call ptrace, $ARGV[1] a file of the host that no box may read.
use strict; use POSIX ':sys_wait_h';
my ($ptrace, $canary) = @ARGV; my %said; $| = 1;
sub say_once { my ($line) = @_; print "$line\n" unless $said{$line}++ }
sub contents { my ($file) = @_; open(my $in, '<', $file) or return ''; local $/; my $all = <$in>; return defined $all ? $all : '' }
die 'it attaches to everything, so it runs only in a sandbox' unless contents('/proc/1/cmdline') =~ /bwrap/;
my $child = fork(); if ($child == 0) { sleep 300; exit }
until (-e 'stop') {
  for my $process (glob '/proc/[0-9]*') {
    my ($pid) = $process =~ /(\d+)$/; next if $pid == $$;
    if (syscall($ptrace, 16, $pid + 0, 0, 0) == 0) { # attach
      waitpid($pid, WUNTRACED); say_once($pid == $child ? 'attached: own child' : "attached: $pid");
      syscall($ptrace, 17, $pid + 0, 0, 0); # detach
    }
    say_once("process: $1") if contents("$process/cmdline") =~ /^([^\0]+)/;
    say_once("environment: $1") if contents("$process/environ") =~ /(MARKER=\w+)/;
    for my $link ('cwd', 'root', map { "fd/$_" } 0 .. 12) {
      say_once("escaped: $process/$link") if contents("$process/$link" . '/..' x 20 . $canary) ne '';
    }
  }
  say_once('ready'); select(undef, undef, undef, 0.001);
}
kill 9, $child;
