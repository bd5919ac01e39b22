/**
 * Thousands of short runs through one daemon: what it keeps on disk, in memory and open does not grow with them. Without tools, so
 * that 5,000 runs take seconds; `npm run bench -- lasting` makes as many with a real box each, and measures the start-up.
 */
import assert from 'node:assert/strict'
import { readdirSync, readFileSync, statSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'node:test'
import { setFlagsFromString } from 'node:v8'
import { runInNewContext } from 'node:vm'
import type { AttemptRecord, TryEvent } from '@breakfall/model'
import { TcpProxy } from '../../../../test/kit/tcp-proxy.ts'
import { eventually, LIMIT } from '../../../../test/kit/wait.ts'
import type { Daemon } from '../../src/index.ts'
import { testRunner } from '../support/runner.ts'
import { inOrder } from '../../../engine/test/support/scripted-model.ts'
import { type Rig, rig } from '../support/setup.ts'

const RUNS = 5_000
const KEPT = 100
const BATCH = 250 // retention follows each, so the file is as long as that many sessions, however fast the machine is
const AT_ONCE = 50

const usage = {
  inputTokens: { value: 10, quality: 'known' },
  outputTokens: { value: 5, quality: 'known' },
} as const
const record: AttemptRecord = {
  attempt: 1,
  model: '',
  baseUrl: '',
  startedAt: '',
  durationMs: 0,
  phase: 'stream',
  bytes: 4,
  resumed: false,
  fault: null,
  action: null,
  delayMs: 0,
  usage,
}

async function* short(): AsyncGenerator<TryEvent> {
  yield await Promise.resolve({ type: 'text-delta', attempt: 1, part: 'p1', text: 'done' } as const)
  yield { type: 'done', finish: 'stop', proven: true, record }
}

test(
  '5,000 short runs leave no more on disk, in memory, open and to read at a start than the first thousand',
  LIMIT,
  async (t) => {
    const retention = { sessionsMax: KEPT }
    const options = { tryAnswer: short, retention, limits: { retentionMs: 20 } }
    const first = await rig(t, () => ({}), options)
    await runMany(first.daemon, RUNS / 5)
    const before = await measured(first)
    await runMany(before.next.daemon, (RUNS / 5) * 4)
    const after = await measured(before.next)
    const grown = JSON.stringify([before.sizes, after.sizes])
    assert.ok(after.sizes.disk <= before.sizes.disk * 1.25 + 1_000_000, grown)
    assert.ok(after.sizes.heap <= before.sizes.heap * 1.25 + 4_000_000, grown)
    assert.ok(after.sizes.open <= before.sizes.open + 8, grown)
    assert.ok(after.sizes.read <= before.sizes.read * 1.25 + 1_000_000, grown)
    assert.ok((await sessionsIn(after.next.daemon)) <= KEPT)
  },
)

async function runMany(daemon: Daemon, runs: number): Promise<void> {
  const { sessions } = daemon
  for (let done = 0; done < runs; done += BATCH) {
    let left = BATCH
    const worker = async (): Promise<void> => {
      while (left-- > 0) {
        const { id } = await sessions.create({ tools: [] })
        const { turnId } = await sessions.prompt(id, { prompt: 'go' }, 'k')
        while ((await sessions.turn(turnId)).endedAt === null) await new Promise((resolve) => setImmediate(resolve))
      }
    }
    await Promise.all(Array.from({ length: AT_ONCE }, worker))
    await eventually('retention has caught up', async () => (await sessionsIn(daemon)) <= KEPT)
  }
}

test(
  'daemons come and go over HTTP, with real boxes: no connection, no box and no descriptor of theirs stays',
  LIMIT,
  async (t) => {
    const runner = await testRunner(t)
    await using wire = await TcpProxy.start(runner.port)
    const config = { ...runner.config, url: `http://127.0.0.1:${wire.port}` }
    const script = inOrder({ calls: [{ tool: 'bash', arguments: { command: 'echo ran' } }] }, { text: 'done' })
    let current = await rig(t, script, { runner: config, policy: { boxIdleMs: 0, backoffMs: 1 } })
    const open: number[] = []
    for (let round = 0; round < 3; round += 1) {
      const { api, daemon } = current
      const run = async (): Promise<void> => {
        const { id } = await api.session()
        const events = await api.ended(id, await api.prompt(id, 'go'))
        assert.equal(events.at(-1)?.type, 'turn-end')
        await api.call('DELETE', `/v1/sessions/${id}`)
      }
      await Promise.all(Array.from({ length: 4 }, run))
      await daemon.close()
      await eventually('the runner has no connection of the daemon left', () => wire.open === 0, SOON_MS)
      open.push(readdirSync('/proc/self/fd').length)
      current = await current.restart()
    }
    assert.ok((open.at(-1) ?? 0) <= (open[0] ?? 0) + 4, open.join(' '))
    assert.deepEqual(readdirSync(join(runner.folder, 'state', 'boxes', 'default')), [])
  },
)

const SOON_MS = 30_000 // half as long as the runner keeps an idle connection

/** Stops the daemon and starts the next one, because a stopped one has written its log into the database. */
async function measured(running: Rig) {
  const { daemon, stateDir } = running
  gc()
  const [heap, open] = [process.memoryUsage().heapUsed, readdirSync('/proc/self/fd').length]
  await daemon.close()
  const files = readdirSync(join(stateDir, 'journal')).map((name) => sizeOf(join(stateDir, 'journal', name)))
  const from = bytesRead()
  const next = await running.restart()
  return { next, sizes: { disk: files.reduce((sum, bytes) => sum + bytes, 0), heap, open, read: bytesRead() - from } }
}

const bytesRead = (): number => Number(/^rchar: (\d+)/.exec(readFileSync('/proc/self/io', 'utf8'))?.[1])

async function sessionsIn({ sessions }: Daemon): Promise<number> {
  let count = 0
  for (let cursor: string | undefined; ;) {
    const page = await sessions.list({ limit: 100, cursor })
    count += page.sessions.length
    if (page.next === undefined) return count
    cursor = page.next
  }
}

const sizeOf = (file: string): number => statSync(file, { throwIfNoEntry: false })?.size ?? 0

/** Node has it, behind a flag. */
function gc(): void {
  setFlagsFromString('--expose-gc')
  const collect = runInNewContext('gc') as () => void
  collect()
}
