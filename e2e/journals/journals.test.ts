/** Journals that an earlier version wrote: `fixtures/journals` has its store, its exports, and what API, terminal and page showed. */
import assert from 'node:assert/strict'
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'node:test'
import { fileURLToPath } from 'node:url'
import { gunzipSync } from 'node:zlib'
import { Fault } from '@breakfall/faults'
import type { SessionEvent, Turn } from '@breakfall/wire'
import { type AfterHook, tempFolder } from '../../test/kit/folder.ts'
import { assertNoGap } from '../../packages/daemon/test/support/api.ts'
import { eventsOf, type TestDraft, turnError } from '../../packages/engine/test/support/events.ts'
import { rig } from '../../packages/daemon/test/support/setup.ts'
import { type Bundle, bundlesOf, pageOf, printedOf, refolded, seenIn, survivedBy } from './observe.ts'

const FIXTURES = fileURLToPath(new URL('../../fixtures/journals/', import.meta.url))
const unpacked = (name: string): Buffer => gunzipSync(readFileSync(join(FIXTURES, `${name}.gz`)))

/** Just after the last event of the store: waits and approvals of that time are not over. */
const RECORDED = Date.parse('2026-11-19T19:00:00Z')

/** A state folder with the store as it lay on disk. */
function storeFolder(t: AfterHook): string {
  const stateDir = tempFolder(t)
  mkdirSync(join(stateDir, 'journal'))
  for (const name of ['journal.db', 'anchors'])
    writeFileSync(join(stateDir, 'journal', name), unpacked(name), { mode: 0o600 })
  return stateDir
}

type Json = Readonly<Record<string, unknown>>
type Recorded = Bundle & { readonly name: string }

function recorded(): readonly Recorded[] {
  const all: (Omit<Recorded, 'lines'> & { lines: string[] })[] = []
  for (const line of unpacked('bundles.jsonl').toString('utf8').trimEnd().split('\n')) {
    if (line.startsWith('{"event":"bundle"')) all.push({ ...(JSON.parse(line) as Recorded), lines: [] })
    else all.at(-1)?.lines.push(line)
  }
  return all
}

test("an earlier version's store opens: nothing of it is lost, and API, terminal and page show the same", async (t) => {
  const stateDir = storeFolder(t)
  const before = recorded()
  const ids = before.map(({ session }) => session.id)
  const printed = await printedOf(stateDir, ids)
  const bundles = await bundlesOf(stateDir, ids)
  for (const [n, { name, ...then }] of before.entries()) {
    const now = bundles[n]
    assert.ok(now !== undefined)
    await t.test(name, () => {
      assert.deepEqual(now.lines, then.lines)
      assert.deepEqual(now.turns, then.turns)
      assert.deepEqual(now.session, then.session)
      const events = now.lines.map((line) => JSON.parse(line) as SessionEvent)
      const views = refolded(events)
      for (const { live: _, ...view } of now.turns)
        assert.deepEqual(JSON.parse(JSON.stringify(views.get(view.id))), view)
      const shown = {
        survived: survivedBy(events, now.turns),
        seen: seenIn(events),
        ...printed[n],
        page: pageOf(events),
      }
      const { changed: _, ...expected } = JSON.parse(readFileSync(join(FIXTURES, `${name}.json`), 'utf8')) as Json
      assert.deepEqual(shown, expected)
    })
  }
})

test('a turn has survived the same number of faults in the API, the terminal and the page', () => {
  const since = (drafts: readonly TestDraft[]): [readonly SessionEvent[], readonly Turn[]] => {
    const events = eventsOf([{ type: 'turn-start', prompt: 'go' }, { type: 'step-start', step: 1 }, ...drafts])
    return [events, [...refolded(events).values()]]
  }
  const { report: away } = new Fault('runner_unreachable')
  const moved: TestDraft = { type: 'box-moved', from: 'a', to: 'b', filesKept: true, because: 'silent' }
  const lost: TestDraft = { type: 'parked', fault: away, resumeAt: null }
  const cancelled = turnError('cancelled')
  const compaction: TestDraft = {
    type: 'compacted',
    step: 1,
    results: [],
    droppedResults: 0,
    summaryBytes: 0,
    fromStep: 1,
    toStep: 1,
    requestBytesBefore: 2,
    requestBytesAfter: 1,
  }
  const moves = [
    since([lost, { type: 'resumed', because: 'signal' }, moved, { type: 'step-start', step: 2 }]),
    since([lost, { type: 'resumed', because: 'signal' }, compaction, cancelled]),
    since([lost, cancelled]),
  ]
  const journals = recorded().map(
    ({ lines, turns }) => [lines.map((line) => JSON.parse(line) as SessionEvent), turns] as const,
  )
  const counts = [...moves, ...journals].flatMap(([events, turns]) => survivedBy(events, turns))
  assert.deepEqual(
    counts.map(({ cli, page }) => [cli, page]),
    counts.map(({ api }) => [api, api]),
  )
  assert.deepEqual(
    counts.slice(0, 3).map(({ api }) => api),
    [1, 1, 0],
  )
  assert.ok(counts.some(({ api }) => api > 5))
})

test("an earlier version's turns continue: what was parked resumes, an approval can still be refused, and a session takes the next prompt", async (t) => {
  const before = new Map(recorded().map((bundle) => [bundle.name, bundle]))
  const started = Date.now()
  const now = (): number => RECORDED + Date.now() - started
  const { api } = await rig(t, () => ({ text: 'Carried on.' }), { stateDir: storeFolder(t), now })
  const turnIn = (name: string): { id: string; turnId: string; lines: readonly string[] } => {
    const { session, lines } = before.get(name) ?? assert.fail(name)
    return { id: session.id, turnId: session.turnId ?? '', lines }
  }
  const approval = turnIn('approval')
  const { approval: question } = await api.turn(approval.turnId)
  await api.call('POST', `/v1/turns/${approval.turnId}/approve`, {
    callId: question?.callId,
    decision: 'deny',
    reason: 'no',
  })
  // The address of the model has changed, so the turns that wait for a key or a quota resume by themselves.
  for (const name of ['rate-limit', 'steps'])
    assert.equal((await api.call('POST', `/v1/turns/${turnIn(name).turnId}/resume`)).status, 202, name)
  // This daemon has no such server, and the session wants no other tools: once the model has to be asked, the turn waits for them.
  const waiting = await api.events(
    approval.id,
    (event) => event.type === 'parked' && event.fault.category === 'tool_not_offered',
  )
  assertNoGap(waiting)
  assert.deepEqual(
    waiting.slice(0, approval.lines.length).map((event) => JSON.stringify(event)),
    approval.lines,
  )
  assert.ok(
    waiting.some(
      (event) => event.type === 'tool-result' && event.text.startsWith('This was not run: the user denied it'),
    ),
  )
  for (const name of ['rate-limit', 'quota', 'key', 'steps', 'shutting-down']) {
    const { id, turnId, lines } = turnIn(name)
    const events = await api.ended(id, turnId)
    assertNoGap(events)
    assert.deepEqual(
      events.slice(0, lines.length).map((event) => JSON.stringify(event)),
      lines,
    )
    assert.equal(events.at(-1)?.type, 'turn-end', name)
  }
  const { id } = turnIn('killed')
  const events = await api.ended(id, await api.prompt(id, 'go on'))
  assertNoGap(events)
  assert.equal(events.at(-1)?.type, 'turn-end')
})
