/**
 * Thousands of short runs through one daemon: what it keeps on disk, in memory and open does not grow with them. Without tools, so
 * that 5,000 runs take seconds; `npm run bench -- lasting` makes as many with a real box each, and measures the start-up.
 */
import assert from 'node:assert/strict'
import { readdirSync, statSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'node:test'
import { setFlagsFromString } from 'node:v8'
import { runInNewContext } from 'node:vm'
import type { AttemptRecord, TryEvent } from '@breakfall/model'
import type { SessionList } from '@breakfall/wire'
import { eventually, LIMIT } from '../../../../test/kit/wait.ts'
import type { Api } from '../support/api.ts'
import { rig } from '../support/setup.ts'

const RUNS = 5_000
const KEPT = 100
const AT_ONCE = 16

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

test('5,000 short runs leave no more on disk, in memory and open than the first thousand', LIMIT, async (t) => {
  const retention = { sessionsMax: KEPT }
  const first = await rig(t, () => ({}), { tryAnswer: short, retention, limits: { retentionMs: 20 } })
  await runMany(first.api, RUNS / 5)
  const before = await measured(first.api, first.stateDir)
  await runMany(first.api, (RUNS / 5) * 4)
  const after = await measured(first.api, first.stateDir)
  const grown = JSON.stringify({ before, after })
  assert.ok(after.journal <= before.journal * 1.5 + 1_000_000, grown)
  assert.ok(after.heap <= before.heap * 1.25 + 4_000_000, grown)
  assert.ok(after.open <= before.open + 8, grown)
  const { api } = await first.restart() // as fast as with a hundred sessions, because there are no more
  assert.ok((await sessionsIn(api)) <= KEPT)
})

async function runMany(api: Api, runs: number): Promise<void> {
  let left = runs
  const worker = async (): Promise<void> => {
    while (left-- > 0) {
      const { id } = await api.session({ tools: [] })
      const turnId = await api.prompt(id, 'go', {}, { 'idempotency-key': 'k' })
      for (let turn = await api.turn(turnId); turn.endedAt === null; turn = await api.turn(turnId));
    }
  }
  await Promise.all(Array.from({ length: AT_ONCE }, worker))
}

async function measured(api: Api, stateDir: string): Promise<{ journal: number; heap: number; open: number }> {
  await eventually('retention has caught up', async () => (await sessionsIn(api)) <= KEPT)
  gc()
  return {
    journal: readdirSync(join(stateDir, 'journal')).reduce(
      (sum, name) => sum + sizeOf(join(stateDir, 'journal', name)),
      0,
    ),
    heap: process.memoryUsage().heapUsed,
    open: readdirSync('/proc/self/fd').length,
  }
}

async function sessionsIn(api: Api): Promise<number> {
  let count = 0
  for (let cursor = ''; ;) {
    const { sessions, next } = (await api.call<SessionList>('GET', `/v1/sessions?limit=100${cursor}`)).json
    count += sessions.length
    if (next === undefined) return count
    cursor = `&cursor=${next}`
  }
}

const sizeOf = (file: string): number => statSync(file, { throwIfNoEntry: false })?.size ?? 0

/** Node has it, behind a flag. */
function gc(): void {
  setFlagsFromString('--expose-gc')
  const collect = runInNewContext('gc') as () => void
  collect()
}
