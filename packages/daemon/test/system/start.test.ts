/** What a daemon does with the turns that it finds when it starts. */
import { LIMIT } from '../../../../test/kit/wait.ts'
import { tempFolder } from '../../../../test/kit/folder.ts'
import assert from 'node:assert/strict'
import { join } from 'node:path'
import { test } from 'node:test'
import { types } from '../support/api.ts'
import { journalsOf, leaveTurns, type Left } from '../support/unfinished-turns.ts'
import type { Script } from '../../../engine/test/support/scripted-model.ts'
import { rig } from '../support/setup.ts'

const CROWD = 60
const AT_ONCE = 10
const GAP_MS = 25

const crowdOf = (count: number, more: Partial<Left> = {}): readonly Left[] =>
  Array.from({ length: count }, (_, n) => ({ prompt: `turn ${n}`, ...more }))

/** A model that notes when it was asked for what. */
function listener(): { script: Script; asked: { prompt: string; at: number }[] } {
  const asked: { prompt: string; at: number }[] = []
  const script: Script = ({ messages }) => {
    asked.push({ prompt: messages.at(-1)?.content ?? '', at: performance.now() })
    return { text: 'thanks' }
  }
  return { script, asked }
}

for (const isHandedOver of [false, true]) {
  const how = isHandedOver ? 'was asked to stop' : 'was killed'
  test(`the turns of a daemon that ${how} do not all call the model when the next one starts`, LIMIT, async (t) => {
    const stateDir = join(tempFolder(t), 'state')
    const left = await leaveTurns(stateDir, crowdOf(CROWD, { isHandedOver }))
    const { script, asked } = listener()
    const from = performance.now()
    const { api, daemon } = await rig(t, script, { stateDir })
    assert.equal(daemon.recovered, CROWD)
    const word = isHandedOver ? 'resumed' : 'taken-over'
    for (const { id, turnId } of left) {
      const events = await api.ended(id, turnId)
      assert.equal(events.at(-1)?.type, 'turn-end')
      assert.deepEqual(
        types(events).filter((type) => type === 'resumed' || type === 'taken-over'),
        [word],
      )
    }
    assert.equal(asked.length, CROWD)
    for (const [n, { at }] of asked.toSorted((a, b) => a.at - b.at).entries()) {
      const earliest = (n + 1 - AT_ONCE) * GAP_MS
      assert.ok(at - from >= earliest, `request ${n + 1} came after ${at - from} ms, not before ${earliest}`)
    }
  })
}

test('a turn that was taken over before without progress continues after all others', LIMIT, async (t) => {
  const stateDir = join(tempFolder(t), 'state')
  const left = await leaveTurns(stateDir, [{ prompt: 'poison', takeovers: 2 }, ...crowdOf(AT_ONCE + 2)])
  const { api } = await rig(t, listener().script, { stateDir })
  const at: number[] = []
  for (const { id, turnId } of left) {
    const events = await api.ended(id, turnId)
    at.push(Date.parse(events.findLast(({ type }) => type === 'taken-over')?.at ?? ''))
  }
  const [poison = 0, ...others] = at
  assert.ok(poison >= Math.max(...others), `${poison}: ${others.join(' ')}`)
})

test('a turn that waits for its recovery is cancelled, resumed and ended by its deadline at once', LIMIT, async (t) => {
  const stateDir = join(tempFolder(t), 'state')
  const last = { takeovers: 1 } as const
  const all = await leaveTurns(stateDir, [
    ...crowdOf(CROWD),
    { prompt: 'cancel me', ...last },
    { prompt: 'resume me', isHandedOver: true, ...last },
    { prompt: 'too late', policy: { deadlineMs: 600 }, ...last },
  ])
  const { script, asked } = listener()
  const { api } = await rig(t, script, { stateDir })
  const [cancelled, resumed, late] = all.slice(CROWD)
  assert.ok(cancelled !== undefined && resumed !== undefined && late !== undefined)
  assert.equal((await api.call('POST', `/v1/turns/${cancelled.turnId}/cancel`, {})).status, 202)
  assert.equal((await api.call('POST', `/v1/turns/${resumed.turnId}/resume`)).status, 202)
  const ends = new Map<string, unknown>()
  for (const { id, turnId, prompt, seq } of [cancelled, resumed, late]) {
    const events = await api.ended(id, turnId, seq)
    const end = events.at(-1)
    ends.set(prompt, end?.type === 'turn-error' ? end.category : end?.type)
    if (prompt !== 'resume me') continue
    const [first, second] = events
    assert.ok(first?.type === 'resumed' && first.because === 'person', JSON.stringify(first))
    assert.notEqual(second?.type, 'taken-over')
  }
  assert.deepEqual(Object.fromEntries(ends), {
    'cancel me': 'cancelled',
    'resume me': 'turn-end',
    'too late': 'deadline_exceeded',
  })
  for (const { id, turnId } of all.slice(0, CROWD)) await api.ended(id, turnId)
  assert.deepEqual(
    asked.flatMap(({ prompt }) => (prompt.startsWith('turn') ? [] : [prompt])),
    ['resume me'],
  )
})

test("a daemon stopped before a turn's recovery leaves that turn unchanged", LIMIT, async (t) => {
  const stateDir = join(tempFolder(t), 'state')
  const left = await leaveTurns(stateDir, crowdOf(CROWD))
  const first = await rig(t, listener().script, { stateDir })
  await first.daemon.close()
  const journals = await journalsOf(stateDir, left)
  const found = types(journals[CROWD - 1] ?? [])
  assert.deepEqual(found, ['turn-start', 'step-start'])
  for (const events of journals) {
    const since = types(events).slice(found.length)
    assert.ok(since.length === 0 || since[0] === 'taken-over', since.join(' '))
  }
  const { api } = await first.restart()
  for (const { id, turnId } of left) {
    const events = await api.ended(id, turnId)
    assert.equal(events.at(-1)?.type, 'turn-end')
  }
})

test(
  'a daemon that starts on a full disk shows every unfinished turn as parked, and none as running',
  LIMIT,
  async (t) => {
    const stateDir = join(tempFolder(t), 'state')
    const left = await leaveTurns(stateDir, crowdOf(2 * AT_ONCE))
    const script: Script = () => ({ text: 'y'.repeat(50_000), pieceChars: 10_000 })
    const first = await rig(t, script, { stateDir, journalPagesMax: 1 })
    for (const { turnId } of left) {
      let turn = await first.api.turn(turnId)
      while (turn.state !== 'parked') {
        await new Promise((resolve) => setTimeout(resolve, 10))
        turn = await first.api.turn(turnId)
      }
      assert.equal(turn.parked?.category, 'journal_full')
    }
    const { api } = await first.restart({ journalPagesMax: undefined })
    for (const { id, turnId } of left) assert.equal((await api.ended(id, turnId)).at(-1)?.type, 'turn-end')
  },
)
