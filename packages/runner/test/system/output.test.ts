/** Output is exact and in order (all output before exit, exit before wait), by stream, range and replay. */
import { tempFolder } from '../../../../test/kit/folder.ts'
import assert from 'node:assert/strict'
import { execFileSync } from 'node:child_process'
import { createHash } from 'node:crypto'
import { readFileSync, writeFileSync } from 'node:fs'
import { request } from 'node:http'
import { join } from 'node:path'
import { describe, test } from 'node:test'
import { type ExecEvent, execSchema } from '@breakfall/wire'
import { asProgram, bytesOf, inProcess, peakMb, pumpOf, until, withoutBwrap } from '../kit.ts'

const sha = (bytes: Uint8Array): string => createHash('sha256').update(bytes).digest('hex')

/** Must hold for every finished event stream. */
function assertOrder(events: readonly ExecEvent[]): void {
  assert.deepEqual(
    events.map(({ seq }) => seq),
    events.map((_, i) => i + 1),
    'seq has no holes',
  )
  assert.equal(events[0]?.type, 'start')
  assert.equal(events.at(-1)?.type, 'exit')
  assert.equal(events.filter(({ type }) => type === 'exit').length, 1)
  const at = { stdout: 0, stderr: 0 }
  for (const event of events) {
    if (event.type !== 'stdout' && event.type !== 'stderr') continue
    assert.equal(event.offset, at[event.type])
    at[event.type] +=
      event.data === undefined ? Buffer.from(event.dataBase64 ?? '', 'base64').length : Buffer.byteLength(event.data)
  }
}

describe('the output of an exec', { skip: withoutBwrap }, async () => {
  for (const [level, execs] of [
    ['bwrap', 100],
    ['process', 200],
  ] as const) {
    // bench/runner.ts runs 4,000 of them.
    test(`${execs} short execs, 20 at a time at level ${level}, lose nothing`, async (t) => {
      const runner = await inProcess(t, { allowIsolation: ['process'], isolation: level })
      const boxes = ['a', 'b']
      for (const id of boxes) assert.equal((await runner.box({ id })).isolation.level, level)
      let next = 0
      const worker = async (): Promise<void> => {
        while (next < execs) {
          const i = (next += 1)
          const box = boxes[i % 2] as string
          const { events, stdout } = await runner.stream(box, { execId: `e${i}`, command: ['echo', `line ${i}`] })
          assert.equal(stdout, `line ${i}\n`)
          assertOrder(events)
        }
      }
      await Promise.all(Array.from({ length: 20 }, worker))
      for (const i of [1, execs - 1, execs]) {
        const events = await runner.events(boxes[i % 2] as string, `e${i}`)
        assertOrder(events)
        assert.equal(bytesOf(events, 'stdout').toString(), `line ${i}\n`)
      }
    })
  }

  test('output arrives at once, even if the command writes nothing more', async (t) => {
    const runner = await inProcess(t, { allowIsolation: ['process'], isolation: 'process' })
    await runner.box({ id: 'b1' })
    for (let i = 0; i < 40; i += 1) {
      await runner.client.startExec('b1', { execId: `e${i}`, shell: 'echo one; echo two >&2; exec sleep 1000' })
      let seen = ''
      for await (const event of runner.client.execEvents('b1', `e${i}`)) {
        if (event.type === 'stdout' || event.type === 'stderr') seen += event.data ?? ''
        if (seen.includes('one') && seen.includes('two')) break
      }
      await runner.client.killExec('b1', `e${i}`)
    }
  })

  test('the duration of a command is the time between its start and its end', async (t) => {
    const runner = await inProcess(t)
    await runner.box({ id: 'b1' })
    const apart: number[] = []
    for (const [n, seconds] of ['0', '0', '0', '0.1', '0.1', '0.1'].entries()) {
      await runner.client.startExec('b1', { execId: `e${n}`, command: ['sleep', seconds] })
      const { startedAt, endedAt, exit } = await runner.client.waitExec('b1', `e${n}`)
      apart.push(Math.abs(Date.parse(endedAt ?? '') - Date.parse(startedAt ?? '') - (exit?.durationMs ?? 0)))
    }
    // Two clocks are read one after the other; a busy machine may delay the second, but not every time.
    assert.ok(Math.min(...apart.slice(0, 3)) <= 5 && Math.min(...apart.slice(3)) <= 5, apart.join(', '))
  })

  test('50 waiters, early and late, get the same record, after all output', async (t) => {
    const runner = await inProcess(t)
    await runner.box({ id: 'b1' })
    await runner.call('POST', 'boxes/b1/exec', { execId: 'e1', shell: 'sleep 0.2; head -c 300000 /dev/zero; exit 3' })
    const early = Array.from({ length: 25 }, () => runner.call('GET', 'boxes/b1/execs/e1/wait'))
    const first = await Promise.all(early)
    const late = await Promise.all(Array.from({ length: 25 }, () => runner.call('GET', 'boxes/b1/execs/e1/wait')))
    const texts = new Set([...first, ...late].map(({ text }) => text))
    assert.equal(texts.size, 1)
    const record = execSchema.parse(first[0]?.json)
    assert.deepEqual([record.exit?.code, record.exit?.stdoutBytes, record.stdoutBytes], [3, 300_000, 300_000])
  })

  test('40 MB of random bytes are the same by stream, by range and by replay', async (t) => {
    const runner = await inProcess(t)
    await runner.box({ id: 'b1' })
    const live = createHash('sha256')
    const kept = createHash('sha256')
    await runner.call('POST', 'boxes/b1/exec', {
      execId: 'e1',
      shell: 'head -c 40000000 /dev/urandom | tee copy',
      outputBytesMax: 80_000_000,
    })
    for await (const event of runner.client.execEvents('b1', 'e1')) {
      if (event.type === 'fault') throw event.fault
      if (event.type === 'stdout') live.update(bytesOf([event], 'stdout'))
    }
    let at = 0
    while (at < 40_000_000) {
      const to = Math.min(at + 13_333_333, 40_000_000)
      kept.update(await runner.client.execOutput('b1', 'e1', 'stdout', { from: at, to }))
      at = to
    }
    const replay = createHash('sha256')
    for await (const event of runner.client.execEvents('b1', 'e1'))
      if (event.type === 'stdout') replay.update(bytesOf([event], 'stdout'))
    const wanted = (await runner.run('b1', 'sha256sum copy | cut -c 1-64')).stdout.trim()
    assert.deepEqual([live.digest('hex'), kept.digest('hex'), replay.digest('hex')], [wanted, wanted, wanted])
  })

  test('a stream that is cut at random places and resumed by seq is byte-exact, without duplicates', async (t) => {
    const runner = await inProcess(t)
    await runner.box({ id: 'b1' })
    await runner.call('POST', 'boxes/b1/exec', {
      execId: 'e1',
      shell: 'for i in $(seq 60); do head -c 9973 /dev/urandom; sleep 0.01; done | tee copy',
    })
    const events: ExecEvent[] = []
    for (let cut = 0; events.at(-1)?.type !== 'exit'; cut += 1) {
      const abort = new AbortController()
      let seen = 0
      for await (const event of runner.client.execEvents('b1', 'e1', {
        after: events.at(-1)?.seq ?? 0,
        signal: abort.signal,
      })) {
        if (event.type === 'fault') break
        events.push(event)
        if ((seen += 1) > (cut * 7) % 5) abort.abort()
      }
    }
    assertOrder(events)
    const wanted = (await runner.run('b1', 'sha256sum copy | cut -c 1-64')).stdout.trim()
    assert.equal(sha(bytesOf(events, 'stdout')), wanted)
    assert.deepEqual(
      await runner.events('b1', 'e1'),
      JSON.parse(JSON.stringify(events)),
      'a replay has the same chunks',
    )
  })

  test('echo to /dev/stderr and tee /dev/stderr work and overwrite nothing', async (t) => {
    const runner = await inProcess(t)
    await runner.box({ id: 'b1' })
    const { stdout, stderr } = await runner.run(
      'b1',
      'echo one >&2; echo two >/dev/stderr; echo three | tee /dev/stderr; echo four >&2; echo five >/dev/stdout',
    )
    assert.equal(stderr, 'one\ntwo\nthree\nfour\n')
    assert.equal(stdout, 'three\nfive\n')
  })

  test('merged streams keep the exact order of 1,000 alternating writes', async (t) => {
    const runner = await inProcess(t)
    await runner.box({ id: 'b1' })
    const { events, stdout, stderr } = await runner.run('b1', {
      shell: 'i=0; while [ $i -lt 500 ]; do echo o$i; echo e$i >&2; i=$((i+1)); done',
      merge: true,
    })
    assertOrder(events)
    assert.equal(stderr, '')
    assert.equal(stdout, Array.from({ length: 500 }, (_, i) => `o${i}\ne${i}\n`).join(''))
  })

  test('invalid UTF-8 and NUL arrive intact, and text is never split inside a character', async (t) => {
    const runner = await inProcess(t)
    await runner.box({ id: 'b1' })
    const { events, stdout } = await runner.run(
      'b1',
      'for i in $(seq 30); do printf "\\342"; sleep 0.01; printf "\\202"; sleep 0.01; printf "\\254"; done; printf "\\377\\000x" >&2; printf "\\303" >&2',
    )
    assertOrder(events)
    assert.equal(stdout, '€'.repeat(30))
    assert.ok(events.every((event) => event.type !== 'stdout' || event.dataBase64 === undefined))
    assert.deepEqual([...bytesOf(events, 'stderr')], [0xff, 0, 0x78, 0xc3])
  })

  test('an exec that exceeds outputBytesMax is ended, keeps exactly that many bytes, and reports it', async (t) => {
    const runner = await inProcess(t)
    await runner.box({ id: 'b1' })
    const { exec, events } = await runner.run('b1', {
      shell: 'echo first >&2; sleep 0.1; yes',
      outputBytesMax: 100_000,
    })
    assertOrder(events)
    assert.equal(exec.exit?.cause, 'output_limit')
    assert.equal(exec.exit?.truncated, true)
    assert.equal((exec.exit?.stdoutBytes ?? 0) + (exec.exit?.stderrBytes ?? 0), 100_000)
    assert.equal(bytesOf(events, 'stdout').length, exec.exit?.stdoutBytes)
  })

  test('a reader that stops reading affects no one, and a gigabyte of output grows the runner by less than 64 MB', async (t) => {
    const runner = await inProcess(t)
    await runner.box({ id: 'b1' })
    await runner.run('b1', 'true')
    globalThis.gc?.()
    const before = process.memoryUsage().rss
    const pumpBefore = peakMb(runner.stateDir)
    await runner.call('POST', 'boxes/b1/exec', {
      execId: 'big',
      shell: 'head -c 1000000000 /dev/zero',
      outputBytesMax: 1_000_000_000,
    })
    const stuck = request(`${runner.url}/v1/default/boxes/b1/execs/big/events`, {
      headers: { authorization: `Bearer ${runner.token}` },
    })
    stuck.on('response', (response) => response.pause())
    stuck.end()
    let most = 0
    while ((await runner.call('GET', 'boxes/b1/execs/big/wait?timeoutMs=50')).status === 202) {
      most = Math.max(most, process.memoryUsage().rss)
      assert.equal((await runner.run('b1', 'echo alive')).stdout, 'alive\n')
    }
    stuck.destroy()
    const { exit } = await runner.client.getExec('b1', 'big')
    assert.deepEqual([exit?.code, exit?.stdoutBytes], [0, 1_000_000_000])
    assert.ok(most - before < 64 * 1024 * 1024, `grew by ${Math.round((most - before) / 1024 / 1024)} MB`)
    const pumpGrew = peakMb(runner.stateDir) - pumpBefore
    assert.ok(pumpGrew < 64, `the process that copies grew by ${pumpGrew} MB`)
    t.diagnostic(`runner ${Math.round((most - before) / 1024 / 1024)} MB, what copies for it ${pumpGrew} MB`)
  })

  test('a runner that has run out of descriptors keeps reading the output of running execs', async (t) => {
    const stateDir = join(tempFolder(t), 'state')
    const runner = await asProgram(t, stateDir)
    await runner.box({ id: 'b1' })
    await runner.call('POST', 'boxes/b1/exec', {
      execId: 'e1',
      shell: 'echo up; while [ ! -e go ]; do sleep 0.02; done; seq 50000',
    })
    for await (const event of runner.client.execEvents('b1', 'e1')) if (event.type === 'stdout') break
    const allow = (files: number): void => {
      for (const pid of [runner.child.pid, pumpOf(stateDir)])
        execFileSync('prlimit', [`--pid=${pid}`, `--nofile=${files}:`], { stdio: 'pipe' })
    }
    allow(3)
    writeFileSync(join(stateDir, 'boxes/default/b1/workspace/go'), '')
    await until(
      () => readFileSync(join(stateDir, 'boxes/default/b1/execs/e1/stdout'), 'utf8'),
      (text) => text.endsWith('\n50000\n'),
    )
    allow(1_024)
    assert.equal((await runner.client.waitExec('b1', 'e1')).exit?.code, 0)
    assert.equal((await runner.client.execOutput('b1', 'e1', 'stdout')).length, 288_897)
  })
})
