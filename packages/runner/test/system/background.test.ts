/** Background processes: ready when they say so, reachable in their box only, and gone with it. */
import { tempFolder } from '../../../../test/kit/folder.ts'
import { WAIT_MS } from '../../../../test/kit/wait.ts'
import assert from 'node:assert/strict'
import { chmodSync, readdirSync, readFileSync, statSync, symlinkSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, test, type TestContext } from 'node:test'
import { TextSearch } from '../../src/exec/background.ts'
import { findProgram } from '../../src/isolation/find-program.ts'
import { asProgram, inProcess, keepersOf, peakMb, until, withoutBwrap, withoutRoot } from '../kit.ts'
import { leavesBehind } from '../../src/exec/end.ts'

const perl = findProgram('perl', '/usr/bin:/bin') ?? ''
const skip = withoutBwrap || (perl === '' && 'the test server is written in perl, which is not installed')

/** Answers every connection with one line; forks a child that leaves its session, as servers do. */
const SERVER = `use IO::Socket::INET; $| = 1; if (fork() == 0) { setpgrp; sleep 300; exit }
my $s = IO::Socket::INET->new(Listen => 5, LocalAddr => '127.0.0.1', LocalPort => 3000, ReuseAddr => 1) or die $!; print "Local: up\\n";
my $n = 0; while (my $c = $s->accept) { print $c "hello\\n"; close $c; $n++; print "served $n\\n" }`
const CLIENT = `use IO::Socket::INET; my $c = IO::Socket::INET->new(PeerAddr => '127.0.0.1', PeerPort => 3000, Timeout => 5) or do { print "refused\\n"; exit 1 }; print <$c>`

/** The case is a gigabyte; this much shows the same, and takes a quarter of the time. */
const LOG_MB = Number(process.env['BREAKFALL_LOG_MB'] ?? 250)

const server = { command: [perl, '-e', SERVER], background: { name: 'web', ready: { port: 3000 } } }
const client = { command: [perl, '-e', CLIENT] }

describe('a background process', { skip }, async () => {
  for (const [who, uid, signal] of [
    ['root', 0, 'SIGTERM'],
    ['a plain user', 65_534, 'SIGKILL'],
  ] as const)
    test(
      `answers other commands of its box when the call returns, and no other box (runner of ${who}, ended by ${signal})`,
      { skip: uid !== 0 && withoutRoot },
      async (t) => {
        const folder = tempFolder(t)
        chmodSync(folder, 0o755)
        const runner = await asProgram(t, join(folder, 'state'), [], uid === 0 ? {} : { uid, gid: uid })
        const mark = `mark-${runner.runnerId}`
        assert.equal((await runner.box({ id: 'b1' })).isolation.sharedNetwork, true)
        await runner.box({ id: 'b2' })
        const started = await runner.call('POST', 'boxes/b1/exec', {
          execId: 'web',
          ...server,
          command: [...server.command, mark],
        })
        assert.equal(started.status, 201, started.text)
        const { name, ready, ports } = started.json['background'] as { name: string; ready: boolean; ports: number[] }
        assert.deepEqual([name, ready, ports], ['web', true, [3000]])
        assert.equal((await runner.run('b1', client)).stdout, 'hello\n')
        assert.equal((await runner.run('b2', client)).stdout, 'refused\n')
        assert.deepEqual((await runner.call('GET', 'boxes/b1/processes')).json['processes'], [
          { execId: 'web', name: 'web', state: 'running', ports: [3000] },
        ])
        // It survives its runner, and its log goes on without a lost byte.
        const { stateDir } = runner
        await runner.kill(signal)
        const next = await asProgram(t, stateDir, [], uid === 0 ? {} : { uid, gid: uid })
        assert.equal((await next.run('b1', { ...client, execId: 'again' })).stdout, 'hello\n')
        await until(
          async () => (await next.client.execOutput('b1', 'web', 'stdout')).toString(),
          (text) => text === 'Local: up\nserved 1\nserved 2\n',
        )
        await next.call('POST', 'boxes/b1/stop')
        const { exit } = await next.client.waitExec('b1', 'web')
        assert.equal(exit?.cause, 'box_stopped')
        assert.ok(!everyCommand().some((line) => line.includes(mark)), 'something outlived the box')
      },
    )

  test('is answered as not ready when the time is up, with its end if it dies, and is ready by text', async (t) => {
    const runner = await inProcess(t)
    await runner.box({ id: 'b1', limits: { processesMax: 2 } })
    const slow = await runner.call('POST', 'boxes/b1/exec', {
      execId: 'slow',
      shell: 'while [ ! -e go ]; do sleep 0.02; done; echo almost; echo now: there; sleep 300',
      background: { ready: { text: 'now: there' }, timeoutMs: 50 },
    })
    const notReady = { name: 'slow', ready: false, readyMs: null, ports: [], restarts: 0 }
    assert.deepEqual(slow.json['background'], notReady)
    assert.ok(['starting', 'running'].includes(String(slow.json['state'])), 'a busy machine may still be starting it')
    await runner.run('b1', 'touch go')
    for await (const event of runner.client.execEvents('b1', 'slow')) if (event.type === 'ready') break
    const ready = (await runner.call('GET', 'boxes/b1/execs/slow')).json['background'] as { ready: boolean }
    assert.equal(ready.ready, true)
    const dead = await runner.call('POST', 'boxes/b1/exec', {
      shell: 'echo no >&2; exit 3',
      background: { ready: { port: 9 } },
    })
    const exit = dead.json['exit'] as { code: number }
    assert.equal(exit.code, 3)
    await runner.call('POST', 'boxes/b1/exec', { shell: 'sleep 300', background: { timeoutMs: 0 } })
    const third = await runner.call('POST', 'boxes/b1/exec', { shell: 'sleep 300', background: true })
    assert.deepEqual([third.status, third.json.category], [429, 'quota_exceeded'])
    assert.equal((await runner.run('b1', 'echo fine')).stdout, 'fine\n')
    await runner.call('DELETE', 'boxes/b1')
    assert.deepEqual(keepersOf(runner.runnerId), [])
  })

  test(`keeps the newest 16 MiB of ${LOG_MB} MB that it prints, in flat memory, and tells readers what is gone`, async (t) => {
    const runner = await inProcess(t)
    await runner.box({ id: 'b1' })
    await runner.run('b1', 'true')
    const pumpBefore = peakMb(runner.stateDir)
    const before = process.memoryUsage().rss
    const shell = `head -c ${LOG_MB}000000 /dev/zero | tr "\\0" a; echo; echo end; sleep 300`
    const background = { ready: { text: 'end' }, timeoutMs: WAIT_MS }
    const started = await runner.call('POST', 'boxes/b1/exec', { execId: 'log', shell, background })
    assert.deepEqual([started.status, (started.json['background'] as { ready: boolean }).ready], [201, true])
    const grew = [(process.memoryUsage().rss - before) / MEBIBYTE, peakMb(runner.stateDir) - pumpBefore]
    assert.ok(Math.max(...grew) < 128, `runner and pump grew by ${grew.join(' and ')} MB`)
    const log = join(runner.stateDir, 'boxes/default/b1/execs/log')
    const onDisk = readdirSync(log).reduce((sum, name) => sum + statSync(join(log, name)).blocks * 512, 0)
    assert.ok(onDisk < 64 * MEBIBYTE, `${onDisk} bytes on disk`)
    const reading = new AbortController()
    const [BYTES, BLOCK] = [LOG_MB * 1_000_000 + 5, 64 * 1024] // readers skip whole blocks
    let [kept, gone] = [0, 0]
    for await (const event of runner.client.execEvents('b1', 'log', { signal: reading.signal })) {
      if (event.type === 'gap') gone += event.to - event.from
      if (event.type === 'stdout') kept += event.data?.length ?? 0
      if (kept + gone >= BYTES) break
    }
    reading.abort()
    const url = `${runner.url}/v1/default/boxes/b1/execs/log/output/stdout`
    const authorization = `Bearer ${runner.token}`
    const stored = await fetch(url, { headers: { authorization } })
    const range = /^bytes (\d+)-(\d+)\/(\d+)$/.exec(stored.headers.get('content-range') ?? '') ?? []
    const body = Buffer.from(await stored.arrayBuffer())
    assert.deepEqual([stored.status, Number(range[3]), body.includes(0)], [206, BYTES, false])
    assert.deepEqual([body.length, Number(range[2])], [BYTES - Number(range[1]), BYTES - 1])
    const lost = await fetch(url, { headers: { authorization, range: 'bytes=0-99' } })
    assert.deepEqual([lost.status, (await lost.text()).includes('past their retention')], [416, true])
    assert.equal(kept + gone, BYTES)
    assert.ok(kept < 64 * MEBIBYTE && kept >= 16 * MEBIBYTE - BLOCK, `${kept} kept, ${gone} gone`)
  })

  test('without nsenter on the PATH is refused with 501, and commands still run', async (t) => {
    const runner = await inProcess(t, { environment: { ...process.env, PATH: withoutNsenter(t) } })
    assert.equal((await runner.box({ id: 'b1' })).isolation.sharedNetwork, false)
    const refused = await runner.call('POST', 'boxes/b1/exec', { shell: 'sleep 300', background: true })
    assert.deepEqual([refused.status, refused.json.category], [501, 'isolation_unavailable'])
    assert.equal((await runner.run('b1', 'echo fine')).stdout, 'fine\n')
    const names = await runner.call('POST', 'boxes', { id: 'b2', network: { allow: ['a.example'] } })
    assert.deepEqual([names.status, names.json.category], [501, 'isolation_unavailable'])
  })

  test('that fails is started again as a new exec, as often as its request says; and by a call of its owner', async (t) => {
    const runner = await inProcess(t)
    await runner.box({ id: 'b1' })
    const shell = 'echo run >> runs; [ $(wc -l < runs) -gt 2 ] && exec sleep 300; exit 5'
    const background = { name: 'web', restart: { max: 2 } }
    await runner.call('POST', 'boxes/b1/exec', { execId: 'web', shell, background })
    const of = async (id: string): Promise<Record<string, unknown>> =>
      (await runner.call('GET', `boxes/b1/execs/${id}`)).json
    const third = await until(
      () => of('web.3'),
      (record) => record['state'] === 'running',
    )
    const { name, restarts } = third['background'] as { name: string; restarts: number }
    assert.deepEqual([name, restarts], ['web', 2])
    assert.deepEqual([(await of('web.2'))['state'], (await of('web'))['state']], ['exited', 'exited'])
    const old = await runner.call('POST', 'boxes/b1/execs/web/restart', undefined, { 'x-breakfall-epoch': '3' })
    assert.deepEqual([old.status, old.json['execId'], (await of('web.3'))['state']], [200, 'web.4', 'exited'], old.text)
    const replaced = await runner.call('POST', 'boxes/b1/execs/web/restart', undefined, { 'x-breakfall-epoch': '2' })
    assert.deepEqual([replaced.status, replaced.json.category], [409, 'lease_lost'])
    await runner.run('b1', { execId: 'plain', shell: 'true' })
    assert.equal((await runner.call('POST', 'boxes/b1/execs/plain/restart')).status, 400)
    assert.equal((await runner.run('b1', 'wc -l < runs')).stdout.trim(), '4')
    await runner.call('POST', 'boxes/b1/stop')
    await runner.call('POST', 'boxes/b1/start')
    assert.deepEqual((await runner.call('GET', 'boxes/b1/processes')).json['processes'], [])
  })

  test('that a plain command leaves behind is ended with it, and the record says so', async (t) => {
    const runner = await inProcess(t)
    await runner.box({ id: 'b1' })
    const { exec } = await runner.run('b1', 'sleep 300 & echo started')
    assert.deepEqual([exec.exit?.code, exec.exit?.diagnostics.map(({ id }) => id)], [0, ['background_ended']])
    assert.deepEqual((await runner.run('b1', 'true && echo "a & b" 2>&1')).exec.exit?.diagnostics, [])
  })
})

const MEBIBYTE = 1024 * 1024

/** A PATH with links to everything but that. */
function withoutNsenter(t: TestContext): string {
  const folder = tempFolder(t)
  for (const name of readdirSync('/usr/bin'))
    if (name !== 'nsenter') symlinkSync(join('/usr/bin', name), join(folder, name))
  return folder
}

function everyCommand(): readonly string[] {
  return readdirSync('/proc').flatMap((pid) => {
    try {
      return /^\d+$/.test(pid) ? [readFileSync(`/proc/${pid}/cmdline`, 'latin1')] : []
    } catch {
      return [] // it ended
    }
  })
}

test('the words of a command say whether it leaves something running', () => {
  const sh = (text: string): readonly string[] => ['sh', '-c', text]
  for (const text of [
    'sleep 5 &',
    'npm start & echo x',
    '(server &)',
    'nohup x',
    'a & b &\n',
    'x >log 2>&1 &',
    'setsid -f x',
  ])
    assert.equal(leavesBehind(sh(text)), true, text)
  for (const text of [
    'a && b',
    'a 2>&1',
    'a &>log',
    'echo "x &"',
    "echo 'nohup'",
    'a & wait',
    'a |& b',
    'echo a # &',
    'ls',
  ])
    assert.equal(leavesBehind(sh(text)), false, text)
})

test('a text is found across blocks', (t) => {
  const search = new TextSearch(join(tempFolder(t), 'missing'), 'x')
  assert.equal(search.isFound(5), false)
  const file = join(tempFolder(t), 'spool')
  writeFileSync(file, 'one two three')
  const two = new TextSearch(file, 'two')
  assert.deepEqual([two.isFound(6), two.isFound(7)], [false, true]) // not before readers of the log have it
})
