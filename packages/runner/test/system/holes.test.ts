/** Attacks that worked before boxes had a seccomp filter and their own keyring: each is really tried. */
import { tempFolder } from '../../../../test/kit/folder.ts'
import assert from 'node:assert/strict'
import { spawn } from 'node:child_process'
import { mkdirSync } from 'node:fs'
import { join } from 'node:path'
import { describe, test } from 'node:test'
import { fileURLToPath } from 'node:url'
import { createInterface } from 'node:readline'
import { readFileSync } from 'node:fs'
import { findProgram } from '../../src/isolation/find-program.ts'
import { seccompProgram } from '../../src/isolation/seccomp.ts'
import { inProcess, TestRunner, until, withoutBwrap } from '../kit.ts'

const perl = findProgram('perl', '/usr/bin:/bin')
const skip =
  withoutBwrap || (perl === null && 'the attacks are written in perl, which is not installed') || otherMachine()

function otherMachine(): string | false {
  return seccompProgram() === null && `there is no seccomp program for ${process.arch}`
}

/** One line per call: its name, and what the kernel said. */
const ATTACK = `
my %family = (AF_UNIX => 1, AF_INET => 2, AF_INET6 => 10, AF_NETLINK => 16, AF_PACKET => 17, AF_ALG => 38, AF_VSOCK => 40);
for my $name (sort keys %family) {
  my $type = $name eq 'AF_PACKET' || $name eq 'AF_NETLINK' ? 3 : $name eq 'AF_ALG' ? 5 : 1;
  print "$name ", (socket(my $s, $family{$name}, $type, 0) ? "open" : "errno " . ($!+0)), "\\n";
}
my %call = $^V && \`uname -m\` =~ /x86_64/
  ? (add_key => 248, request_key => 249, keyctl => 250, bpf => 321, userfaultfd => 323, io_uring_setup => 425, perf_event_open => 298)
  : (add_key => 217, request_key => 218, keyctl => 219, bpf => 280, userfaultfd => 282, io_uring_setup => 425, perf_event_open => 241);
for my $name (sort keys %call) {
  my $r = syscall($call{$name}, 0, 0, 0, 0, 0);
  print "$name ", ($r >= 0 ? "done" : "errno " . ($!+0)), "\\n";
}
my ($type, $name) = ("user", "breakfall-secret");
my $key = syscall($call{request_key}, $type, $name, 0, 0);
my $found = syscall($call{keyctl}, 10, -3, $type, $name, 0);
print "key ", ($key > 0 || $found > 0 ? "found" : "not found"), "\\n";
open(my $keys, '<', '/proc/keys'); print "listed ", (grep(/breakfall-secret/, <$keys>) ? "yes" : "no"), "\\n";
`

describe('a command in a sandbox', { skip }, async () => {
  for (const network of ['none', 'host'] as const)
    test(`with network "${network}" opens no AF_VSOCK, AF_PACKET or AF_ALG socket and uses no keys`, async (t) => {
      const runner = await inProcess(t)
      const box = await runner.box({ id: 'b1', network })
      assert.equal(box.isolation.seccomp, true)
      const { stdout } = await runner.run('b1', { command: [perl ?? '', '-e', ATTACK] })
      const lines = new Map(
        stdout
          .trim()
          .split('\n')
          .map((line) => [line.split(' ')[0], line.split(' ').slice(1).join(' ')]),
      )
      for (const family of ['AF_UNIX', 'AF_INET', 'AF_NETLINK']) assert.equal(lines.get(family), 'open', stdout)
      for (const family of ['AF_VSOCK', 'AF_PACKET', 'AF_ALG']) assert.equal(lines.get(family), 'errno 97', stdout)
      for (const call of ['add_key', 'request_key', 'keyctl', 'bpf', 'userfaultfd', 'perf_event_open'])
        assert.equal(lines.get(call), 'errno 1', stdout)
      assert.equal(lines.get('io_uring_setup'), 'errno 38', stdout)
      assert.equal(lines.get('key'), 'not found')
    })

  test('finds no key in the session keyring of whoever started the runner, at either level', async (t) => {
    const [stateDir, main] = [
      join(tempFolder(t), 'state'),
      fileURLToPath(new URL('../../src/main.ts', import.meta.url)),
    ]
    mkdirSync(stateDir)
    // A new session keyring with a key in it, then the runner.
    const start = `my ($t, $n, $p) = ("user", "breakfall-secret", "hunter2"); my ($add, $ctl) = \`uname -m\` =~ /x86_64/ ? (248, 250) : (217, 219);
      syscall($ctl, 1, 0) > 0 or die "no keyring"; syscall($add, $t, $n, $p, 7, -3) > 0 or die "no key"; exec { $ARGV[0] } @ARGV;`
    const flags = [
      '--json',
      '--state-dir',
      stateDir,
      '--token-file',
      join(stateDir, 'token'),
      '--allow-isolation',
      'process',
    ]
    const child = spawn(perl ?? '', ['-e', start, '--', process.execPath, main, ...flags], {
      stdio: ['ignore', 'pipe', 'inherit'],
    })
    t.after(() => child.kill('SIGKILL'))
    const line = await new Promise<string>((resolve) => createInterface({ input: child.stdout }).once('line', resolve))
    const { url, runnerId } = JSON.parse(line) as { url: string; runnerId: string }
    const runner = new TestRunner({
      url,
      runnerId,
      stateDir,
      token: readFileSync(join(stateDir, 'token'), 'utf8').trim(),
    })
    for (const level of ['bwrap', 'process']) {
      await runner.box({ id: level, isolation: { level } })
      const { stdout } = await runner.run(level, { command: [perl ?? '', '-e', ATTACK] })
      assert.match(stdout, /^key not found$/m, `${level}: ${stdout}`)
      if (level === 'bwrap') assert.match(stdout, /^listed no$/m, stdout) // /proc/keys shows all keys of the same user
      await runner.call('DELETE', `boxes/${level}`)
    }
    await runner.client.close()
    child.kill('SIGTERM')
    await until(
      () => child.exitCode,
      (code) => code !== null,
    )
  })
})
