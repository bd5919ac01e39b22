import assert from 'node:assert/strict'
import { test } from 'node:test'
import fc from 'fast-check'
import { Fault } from '@breakfall/faults'
import type { EventDraft, Exec, ExecExit } from '@breakfall/wire'
import { waitOf, waitsFor } from '@breakfall/wire/turn'
import { systemClock } from '../src/clock.ts'
import { killBash, commandOutcome } from '../src/tools/bash.ts'
import { Coalescer, type TextDraft } from '../src/session/coalesce.ts'
import { Pacing } from '../src/loop/pacing.ts'
import { Feed } from '../src/session/feed.ts'
import { forModel, OUTPUT_LIMITS, OutputTail } from '../src/tools/output.ts'
import { parseCall, toolSpecs } from '../src/tools/arguments.ts'
import { probeIntervalMs, waitText, resumeTime } from '../src/turn/wait.ts'

const delta = (part: string, text: string): TextDraft => ({
  type: 'text-delta',
  turnId: 't',
  step: 1,
  attempt: 1,
  part,
  text,
})
const CLOCK = systemClock({ now: Date.now })
const samePart = (part: string) => (held: TextDraft) => 'part' in held && held.part === part
const textOf = (draft: EventDraft): string => ('text' in draft ? draft.text : '')

test('small chunks become one event; chunks of different parts stay apart and in order', async () => {
  const written: EventDraft[] = []
  const out = new Coalescer(async (drafts) => void written.push(...drafts), CLOCK, { ms: 10_000, chars: 100 })
  await out.push(delta('p1', 'a'), samePart('p1'))
  await out.push(delta('p1', 'b'), samePart('p1'))
  await out.push(delta('p2', 'c'), samePart('p2'))
  assert.equal(written.length, 0)
  await out.flush({ type: 'step-start', turnId: 't', step: 2 })
  assert.deepEqual(
    written.map((entry) => [entry.type, 'part' in entry ? entry.part : undefined, textOf(entry)]),
    [
      ['text-delta', 'p1', 'ab'],
      ['text-delta', 'p2', 'c'],
      ['step-start', undefined, ''],
    ],
  )
})

const settled = () => new Promise((resolve) => setImmediate(() => setImmediate(resolve)))

test('the first chunk is written at once, the next ones by the clock, a large one at once', async (t) => {
  t.mock.timers.enable({ apis: ['setTimeout'] })
  const written: string[] = []
  const write = async (drafts: readonly EventDraft[]) => void written.push(...drafts.map(textOf))
  const out = new Coalescer(write, CLOCK, { ms: 25, chars: 4 })
  await out.push(delta('p', 'a'), samePart('p'))
  await settled()
  assert.deepEqual(written, ['a'])
  await out.push(delta('p', 'b'), samePart('p'))
  t.mock.timers.tick(24)
  await settled()
  assert.deepEqual(written, ['a'])
  await out.push(delta('p', 'c'), samePart('p'))
  t.mock.timers.tick(1)
  await settled()
  assert.deepEqual(written, ['a', 'bc'])
  await out.push(delta('p', 'long enough'), samePart('p'))
  assert.deepEqual(written, ['a', 'bc', 'long enough'])
  await out.drop()
})

test('a failed background write is reported by the next push or flush', async () => {
  const out = new Coalescer(() => Promise.reject(new Fault('journal_full')), CLOCK, { ms: 25, chars: 100 })
  await out.push(delta('p', 'x'), samePart('p'))
  await settled()
  await assert.rejects(out.push(delta('p', 'y'), samePart('p')), /no space left/)
  await assert.rejects(out.flush(), /no space left/)
})

test('no text is lost or doubled, whatever the chunks', async () => {
  await fc.assert(
    fc.asyncProperty(fc.array(fc.tuple(fc.constantFrom('p1', 'p2'), fc.string({ maxLength: 6 }))), async (pieces) => {
      let written = ''
      const out = new Coalescer(async (drafts) => void (written += drafts.map(textOf).join('')), CLOCK, {
        ms: 1,
        chars: 8,
      })
      for (const [part, text] of pieces) await out.push(delta(part, text), samePart(part))
      await out.flush()
      assert.equal(written, pieces.map(([, text]) => text).join(''))
    }),
  )
})

test('a huge output is journalled as head and tail with a count of what is between', () => {
  const tail = new OutputTail(0)
  const line = 'x'.repeat(64 * 1024)
  let head = ''
  for (let n = 0; n < 20; n += 1) head += tail.take({ stream: 'stdout', text: line })
  const rest = tail.rest()
  assert.equal(head.length, OUTPUT_LIMITS.journalBytes)
  const tailBytes = rest.slice(1).reduce((sum, piece) => sum + piece.text.length, 0)
  assert.equal(tailBytes, OUTPUT_LIMITS.journalBytes)
  assert.match(rest[0]?.text ?? '', new RegExp(`${20 * line.length - head.length - tailBytes} bytes left out`))
})

test('the tail has its promised length for any chunk size, and starts with a whole character', () => {
  const tail = new OutputTail(OUTPUT_LIMITS.journalBytes)
  const piece = 'ü'.repeat(30_001)
  for (let n = 0; n < 30; n += 1) tail.take({ stream: 'stdout', text: piece })
  const [marker, ...kept] = tail.rest()
  const text = kept.map((entry) => entry.text).join('')
  assert.ok(
    Buffer.byteLength(text) > OUTPUT_LIMITS.journalBytes - 2 && Buffer.byteLength(text) <= OUTPUT_LIMITS.journalBytes,
  )
  assert.match(text, /^ü+$/)
  assert.match(marker?.text ?? '', new RegExp(` ${30 * 60_002 - Buffer.byteLength(text)} bytes left out`))
})

test('the model learns how much it does not see, including what the journal left out', () => {
  const tail = new OutputTail(0)
  const pieces = Array.from({ length: 40 }, () => 'x'.repeat(64 * 1024))
  const head = pieces.map((text) => tail.take({ stream: 'stdout', text })).join('')
  const told = forModel(
    head +
      tail
        .rest()
        .map(({ text }) => text)
        .join(''),
  )
  const shown = told.replace(/\n\[… .* …\]\n/, '').length
  assert.match(told, new RegExp(`\\[… ${40 * 64 * 1024 - shown} bytes left out …\\]`))
})

test('a cancel ends the exec under whichever of its ids it runs, the newest first, and burns the ids that did not run', async () => {
  const asked: string[] = []
  const found = 'call.2'
  const exec = (execId: string): Exec => ({ execId, exit: { ...EXITED, started: execId === found } }) as Exec
  const client = {
    killExec: async (_boxId: string, execId: string, o: { burn?: boolean | undefined } = {}) => {
      asked.push(execId)
      assert.equal(o.burn, true)
      return exec(execId)
    },
    waitExec: async (_boxId: string, execId: string) => exec(execId),
  }
  const ended = await killBash(client, 'box', { execId: 'call' }, AbortSignal.timeout(1_000))
  assert.equal(ended?.execId, found)
  assert.deepEqual(asked, ['call.3', 'call.2'])
})

const EXITED: ExecExit = {
  cause: 'exited',
  started: true,
  code: 0,
  signal: null,
  signalGuess: null,
  durationMs: 1,
  survivors: [],
  stdoutBytes: 0,
  stderrBytes: 0,
  truncated: false,
  diagnostics: [],
}
const DIAGNOSTIC = { rank: 'cause', advice: '', retry: '', evidence: [], count: 1 } as const

test('a full disk at the runner is named, and missing output is reported as missing', () => {
  const told = (exit: Partial<ExecExit>, ...diagnostics: [id: string, message: string][]): string =>
    commandOutcome(
      '',
      {
        ...EXITED,
        ...exit,
        diagnostics: diagnostics.map(([id, message]) => ({ ...DIAGNOSTIC, id, message })),
      },
      1_000,
    ).text
  assert.equal(told({}), '(no output)')
  assert.equal(told({}, ['output_not_kept', 'no room']), '[no room]')
  assert.equal(told({ code: 3 }, ['output_lost', 'a part is lost']), '[exit code 3; a part is lost]')
  assert.match(told({ cause: 'output_limit' }), /^\[ended: it wrote more than allowed/)
  assert.equal(told({ cause: 'output_limit' }, ['output_not_kept', 'no room']), '[ended: no room]')
  assert.equal(told({ cause: 'spawn_failed', reason: 'no_space' }), '[could not be started: no_space]')
  assert.equal(told({ cause: 'spawn_failed' }, ['no_space', 'no room']), '[could not be started: no room]')
})

test('a small output is journalled completely, also if a crash interrupted it', () => {
  const tail = new OutputTail(10)
  assert.equal(tail.take({ stream: 'stderr', text: 'rest' }), 'rest')
  assert.deepEqual(tail.rest(), [])
})

test('the model gets the two ends of a long text', () => {
  const text = forModel(`HEAD${'m'.repeat(100_000)}TAIL`)
  assert.ok(text.startsWith('HEAD') && text.endsWith('TAIL') && text.length < 33_000)
  assert.equal(forModel('short'), 'short')
})

test('bad arguments and unknown tools are refused with a message that names the mistake', () => {
  const all = ['bash', 'read'] as const
  assert.deepEqual(parseCall('bash', { command: 'ls' }, all), { tool: 'bash', input: { command: 'ls' } })
  assert.throws(() => parseCall('bash', { command: 3 }, all), /command must be a shell command/)
  assert.throws(() => parseCall('bash', { command: 'ls', cwd: '/' }, all), /there is no field cwd/)
  assert.throws(
    () => parseCall('write', { path: 'a', content: '' }, all),
    /There is no tool write\. The tools are bash, read/,
  )
})

test('every tool is described by a JSON Schema with its required fields', () => {
  const required = toolSpecs(['bash', 'read', 'write', 'edit', 'process']).map((spec) => [
    spec.function.name,
    spec.function.parameters?.['required'],
  ])
  assert.deepEqual(required, [
    ['bash', ['command']],
    ['read', ['path']],
    ['write', ['path', 'content']],
    ['edit', ['path', 'old', 'new']],
    ['process', ['action']],
  ])
})

test('what a parked turn waits for follows from its fault', () => {
  const kind = (category: ConstructorParameters<typeof Fault>[0]) => waitsFor(new Fault(category).report)
  assert.deepEqual(
    (
      [
        'runner_unreachable',
        'runner_identity_mismatch',
        'network_down',
        'model_unreachable',
        'model_auth_failed',
        'runner_auth_failed',
        'journal_full',
        'model_overloaded',
        'model_quota_exhausted',
        'shutting_down',
      ] as const
    ).map((category) => [category, kind(category)]),
    [
      ['runner_unreachable', 'runner'],
      ['runner_identity_mismatch', 'runner'],
      ['network_down', 'model'],
      ['model_unreachable', 'model'],
      ['model_auth_failed', 'config'],
      ['runner_auth_failed', 'config'],
      ['journal_full', 'journal'],
      ['model_overloaded', 'time'],
      ['model_quota_exhausted', 'config'],
      ['shutting_down', 'restart'],
    ],
  )
  const elsewhere = new Fault('journal_full', { boundary: 'runner' }).report
  assert.equal(waitsFor(elsewhere), 'time', 'room on our disk says nothing about the one of a runner')
})

test('a parked turn says what it waits for and what resumes it', () => {
  const text = (category: ConstructorParameters<typeof Fault>[0], resumeAt: string | null = null): string => {
    const { report: fault } = new Fault(category)
    return waitText(waitOf({ fault, resumeAt }), fault)
  }
  const noon = '2026-11-15T12:00:00.000Z'
  assert.deepEqual(
    [
      text('model_unreachable'),
      text('runner_unreachable'),
      text('model_server_error', noon),
      text('model_quota_exhausted', noon),
      text('model_auth_failed'),
      text('journal_full'),
      text('shutting_down'),
    ],
    [
      'The turn waits until the model server accepts connections; a running daemon then resumes it.',
      'The turn waits until its runner answers; a running daemon then resumes it.',
      'The turn waits until 2026-11-15 12:00:00 UTC; a running daemon then resumes it, and "resume" does so sooner.',
      'The turn waits until 2026-11-15 12:00:00 UTC at most; a change of the key, the token or the configuration resumes it sooner.',
      'The turn waits; a change of the key, the token or the configuration resumes it.',
      "The turn waits until 8 MiB are free on the journal's disk, or a quarter of a smaller disk; a running daemon then resumes it.",
      'The turn waits for the next start of the daemon, which resumes it.',
    ],
  )
})

test('a requested time is kept; otherwise parks get longer and probes less frequent', () => {
  const overloaded = new Fault('model_overloaded').report
  assert.equal(resumeTime(overloaded, 42, 0, 0.5, 0), 42)
  assert.equal(resumeTime(overloaded, null, 0, 0, 0), 60_000)
  assert.equal(resumeTime(overloaded, null, 3, 0, 0), 480_000)
  const broken = new Fault('model_stream_interrupted', { phase: 'stream' }).report
  assert.equal(resumeTime(broken, null, 0, 0, 0), 5_000)
  assert.equal(resumeTime(broken, null, 2, 0, 0), 20_000)
  assert.equal(resumeTime(overloaded, null, 19, 1, 0), 4_320_000)
  const runnerFull = new Fault('journal_full', { boundary: 'runner' }).report
  assert.equal(resumeTime(runnerFull, null, 0, 0, 0), 5_000)
  assert.equal(resumeTime(runnerFull, null, 19, 0, 0), 3_600_000)
  assert.equal(resumeTime(new Fault('runner_unreachable').report, null, 0, 0, 0), null)
  assert.deepEqual(
    [0, 1, 2, 3, 4, 9].map((look) => probeIntervalMs('model', look, 0.5, 5_000)),
    [5_000, 10_000, 20_000, 40_000, 60_000, 60_000],
  )
  assert.equal(probeIntervalMs('journal', 9, 0.5, 5_000), 5_000, 'a look at a disk costs nothing')
  assert.ok(
    new Set(Array.from({ length: 50 }, (_, n) => probeIntervalMs('model', 0, n / 50, 5_000))).size > 40,
    'probes have jitter',
  )
})

test('all readers of an event hold the same bytes, however large it is', async () => {
  const feed = new Feed({ read: () => Promise.resolve([]) }, { id: 's', journal: 'j', lastSeq: 0 })
  const readers = Array.from({ length: 3 }, () => feed.tail(0, new AbortController().signal))
  const first = readers.map((reader) => reader.next())
  const body = JSON.stringify({ text: 'x'.repeat(3_000_000) })
  feed.publish([{ seq: 1, type: 'turn-end', turnId: 't', body }])
  const events = (await Promise.all(first)).map(({ value }) => value?.[0])
  const [one] = events
  assert.equal(one?.sse.toString(), `event: turn-end\nid: j-1\ndata: ${body}\n\n`)
  assert.equal(one?.frame.toString(), `{"event":${body}}`)
  for (const event of events) assert.ok(event?.sse === one.sse && event.frame === one.frame)
  feed.end('over')
})

test('a session without readers keeps no events in memory, and a later reader misses none', async () => {
  const type = 'step-start' as const
  const stored = Array.from({ length: 6 }, (_, n) => ({ seq: n + 1, type, turnId: 't', body: `{"n":${n}}` }))
  let committed = 0
  const reads: number[] = []
  const read = (_: string, after: number) => {
    reads.push(after)
    return Promise.resolve(stored.slice(after, committed))
  }
  const feed = new Feed({ read }, { id: 's', journal: 'j', lastSeq: 0 })
  const publish = (count: number): void => {
    const from = committed
    committed += count
    feed.publish(stored.slice(from, committed))
  }
  publish(2)
  const follow = async (after: number, count: number): Promise<number[]> => {
    const over = new AbortController()
    const seqs: number[] = []
    for await (const page of feed.tail(after, over.signal)) {
      seqs.push(...page.map(({ seq }) => seq))
      if (seqs.length >= count) over.abort()
    }
    return seqs
  }
  const first = follow(0, 4)
  publish(2)
  assert.deepEqual(await first, [1, 2, 3, 4])
  publish(2)
  const before = reads.length
  assert.deepEqual(await follow(4, 2), [5, 6])
  assert.ok(reads.length > before, 'events without a reader are only in the store')
})

test('ten turns start at once and the rest one by one; later turns use the free slots again', (t) => {
  let now = 1_000
  t.mock.method(performance, 'now', () => now)
  const pacing = new Pacing({ clock: CLOCK, probeMs: 1 })
  const places = (count: number): number[] => Array.from({ length: count }, () => pacing.startDelayMs())
  assert.deepEqual(places(13), [...Array.from({ length: 10 }, () => 0), 25, 50, 75])
  now += 150
  assert.deepEqual(places(5), [0, 0, 0, 25, 50])
  now += 60_000
  assert.deepEqual(places(11), [...Array.from({ length: 10 }, () => 0), 25])
})

test('daemons that share a store share the pace: together ten at once and forty a second', (t) => {
  t.mock.method(performance, 'now', () => 1_000)
  const delays = (daemons: number): number[] => {
    const pacing = new Pacing({ clock: CLOCK, probeMs: 1, daemons: () => daemons })
    return Array.from({ length: 6 }, () => pacing.startDelayMs())
  }
  assert.deepEqual(delays(3), [0, 0, 0, 75, 150, 225])
  assert.deepEqual(delays(100), [0, 200, 400, 600, 800, 1_000], 'each starts five a second at least')
  assert.deepEqual(delays(0), [0, 0, 0, 0, 0, 0], 'before the first renewal')
})
