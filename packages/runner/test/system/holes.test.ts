/** Attacks that worked before boxes had a seccomp filter and their own keyring: each is really tried. */
import { tempFolder } from '../../../../test/kit/folder.ts'
import assert from 'node:assert/strict'
import { spawn } from 'node:child_process'
import { chownSync, mkdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, test } from 'node:test'
import { fileURLToPath } from 'node:url'
import { createInterface } from 'node:readline'
import { readFileSync } from 'node:fs'
import { findProgram } from '../../src/isolation/find-program.ts'
import { seccompProgram } from '../../src/isolation/seccomp.ts'
import { inProcess, TestRunner, until, withoutBwrap, withoutRoot } from '../kit.ts'

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

/** A user namespace by each call that can make one, ours entered, and the init of the sandbox attacked in each way. */
const ESCAPE = `
my ($unshare, $clone, $clone3, $setns, $ptrace, $writev, $getfd, $open) = \`uname -m\` =~ /x86_64/
  ? (272, 56, 435, 308, 101, 311, 438, 434) : (97, 220, 435, 268, 117, 271, 438, 434);
my $user = 0x10000000;
sub tried { my ($name, $call) = @_; $! = 0; my $r = $call->(); print "$name ", ($r >= 0 ? "done" : "errno " . ($!+0)), "\n"; }
sub child { my ($name, $call) = @_; $| = 1; my $pid = fork; if ($pid == 0) { tried($name, $call); exit } waitpid $pid, 0; }
child("unshare", sub { syscall($unshare, $user) });
child("unshare with mounts", sub { syscall($unshare, $user | 0x20000 | 0x40000000) });
child("clone", sub { my $r = syscall($clone, $user | 17, 0, 0, 0, 0); exit if $r == 0; $r });
child("clone3", sub { my $args = pack("Q11", $user, 0, 0, 0, 17, 0, 0, 0, 0, 0, 0); my $r = syscall($clone3, $args, 88); exit if $r == 0; $r });
open(my $ns, '<', "/proc/self/ns/user");
child("setns", sub { syscall($setns, fileno($ns), 0) });
child("ptrace attach", sub { syscall($ptrace, 16, 1, 0, 0) });
child("ptrace seize", sub { syscall($ptrace, 0x4206, 1, 0, 0) });
child("process_vm_writev", sub { my $v = pack("QQ", 0, 0); syscall($writev, 1, $v, 1, $v, 1, 0) });
child("pidfd_getfd", sub { my $fd = syscall($open, 1, 0); syscall($getfd, $fd, 0, 0) });
child("mem of init", sub { open(my $mem, '+<', "/proc/1/mem") ? 0 : -1 });
open(my $status, '<', "/proc/self/status"); print "capabilities ", (grep(/^CapEff:[^0-9a-f]+0+$/, <$status>) ? "none" : "some"), "\n";
my $traced = fork; if ($traced == 0) { sleep 60 while 1 }
tried("ptrace of a child", sub { my $r = syscall($ptrace, 16, $traced, 0, 0); kill 9, $traced; $r });
`

function linesOf(text: string): ReadonlyMap<string, string> {
  const found = [...text.matchAll(/^(.*) (done|errno \d+|none|some)$/gm)]
  return new Map(found.map(([, name = '', what = '']) => [name, what]))
}

describe('a command in a sandbox', { skip }, async () => {
  for (const [whose, uid] of [
    ["the runner's user", process.getuid?.() ?? 0],
    ['somebody else', 65_534],
  ] as const)
    test(`on a workspace of ${whose} makes no user namespace and cannot touch the init of its sandbox`, async (t) => {
      if (uid !== process.getuid?.() && withoutRoot !== false) return t.skip(withoutRoot)
      const parent = tempFolder(t, 'workspace')
      const project = join(parent, 'project')
      mkdirSync(project)
      chownSync(project, uid, uid)
      const runner = await inProcess(t, { allowWorkspace: [parent] })
      const box = await runner.box({ id: 'b1', workspace: project })
      assert.equal(box.isolation.seccomp, true)
      const { stdout, exec } = await runner.run('b1', { command: [perl ?? '', '-e', ESCAPE], timeoutMs: 60_000 })
      const lines = linesOf(stdout)
      for (const call of ['unshare', 'unshare with mounts', 'clone', 'setns', 'ptrace attach', 'ptrace seize'])
        assert.equal(lines.get(call), 'errno 1', `${call}: ${stdout}`)
      for (const call of ['process_vm_writev', 'pidfd_getfd']) assert.equal(lines.get(call), 'errno 1', stdout)
      assert.equal(lines.get('clone3'), 'errno 38', stdout)
      assert.notEqual(lines.get('mem of init'), 'done', stdout)
      assert.equal(lines.get('capabilities'), 'none', stdout)
      assert.equal(lines.get('ptrace of a child'), 'done', stdout) // debuggers work
      assert.deepEqual([exec.exit?.cause, exec.exit?.code], ['exited', 0])
    })

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

test('a folder that a box may write leads no other box elsewhere', { skip: withoutBwrap }, async (t) => {
  const folder = tempFolder(t)
  const [data, secret, work] = ['data', 'secret', 'work'].map((name) => join(folder, name)) as [string, string, string]
  const sub = join(data, 'a folder')
  for (const [path, text] of [
    [sub, 'mine'],
    [secret, 'SECRET'],
  ] as const) {
    mkdirSync(path, { recursive: true })
    writeFileSync(join(path, 'key'), text)
  }
  mkdirSync(work)
  const runner = await inProcess(t, { allowMount: [`${data}:rw`], allowWorkspace: [work] })
  await runner.box({ id: 'writer', mounts: [{ path: data, mode: 'rw' }] })
  await runner.box({ id: 'private', mounts: [{ path: sub, mode: 'rw' }] })
  await runner.box({ id: 'host', workspace: work, mounts: [{ path: sub }] })
  const read = async (boxId: string): Promise<string> => (await runner.run(boxId, `cat '${sub}/key'`)).stdout
  for (const boxId of ['private', 'host']) assert.equal(await read(boxId), 'mine')
  await runner.run('writer', `cd ${data} && mv 'a folder' old && ln -s ${secret} 'a folder'`)
  for (const boxId of ['private', 'host'])
    await assert.rejects(read(boxId), /a folder is gone, or its path contains a symbolic link/)
  await runner.run('writer', `cd ${data} && rm 'a folder' && mkdir 'a folder' && echo other >'a folder/key'`)
  for (const boxId of ['private', 'host']) await assert.rejects(read(boxId), /a folder is another folder now/)
  await runner.run('writer', `cd ${data} && rm -r 'a folder' && mv old 'a folder'`)
  for (const boxId of ['private', 'host']) assert.equal(await read(boxId), 'mine')
})
