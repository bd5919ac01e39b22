/**
 * Everything at once: many turns, a model that fails one request in ten, cancels at any moment, and the daemon and the runner
 * killed again and again. `SEED=… TURNS=50 KILLS=12 node --test …` makes it as hard as wanted.
 */
import { tempFolder, atEnd } from '../../../../test/kit/folder.ts'
import assert from 'node:assert/strict'
import { randomInt } from 'node:crypto'
import { mkdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'node:test'
import { setTimeout as sleep } from 'node:timers/promises'
import { LIMITS } from '@breakfall/faults'
import { isTerminal, type Session, type SessionEvent } from '@breakfall/wire'
import { readRunnerFile } from '../../../engine/src/runner/local-runner.ts'
import { assertNoGap, types } from '../support/api.ts'
import { type DaemonProcess, spawnDaemon } from '../support/daemon-process.ts'
import { diceOf } from '../../../../test/kit/dice.ts'
import { type Script, type ScriptedAnswer, startScriptedModel } from '../../../engine/test/support/scripted-model.ts'
import { QUICK, stopRunner } from '../support/setup.ts'

const TURNS = Number(process.env['TURNS'] ?? 6)
const KILLS = Number(process.env['KILLS'] ?? 2) // from LIMITS.restartsMax on, a turn may end as a crash loop
const STEPS = 5
const SLOWER = Math.max(1, TURNS / 12)
const FAULTS: readonly ScriptedAnswer[] = [
  { status: 500 },
  { status: 429, headers: { 'retry-after': '0' } },
  { text: 'this breaks off in the middle', cutAfter: 2 },
  { cutAfter: 0 },
]

test('turns, faults, cancels and kills all at once: each effect once, one end for each turn, every session usable', async (t) => {
  const seed = Number(process.env['SEED'] ?? randomInt(2 ** 32))
  t.diagnostic(`SEED=${seed}`)
  const dice = diceOf(seed)
  const folder = tempFolder(t)
  const model = await startScriptedModel(scriptOf(dice))
  atEnd(t, () => model.close())
  const [stateDir, work] = [join(folder, 'state'), join(folder, 'work')]
  mkdirSync(work)
  atEnd(t, () => stopRunner(stateDir))
  const options = {
    stateDir,
    model: { baseUrl: model.baseUrl, name: 'scripted' },
    runner: { allowWorkspace: [work] },
    policy: { backoffMs: 1 },
    limits: QUICK,
  }
  let daemon = await spawnDaemon(options)
  atEnd(t, () => daemon.kill('SIGKILL'))
  const turns = await Promise.all(
    Array.from({ length: TURNS }, async (_, n) => {
      const workspace = join(work, String(n))
      mkdirSync(workspace)
      const { id } = await daemon.api.session({ box: { workspace } })
      return { id, workspace, turnId: await daemon.api.prompt(id, 'go'), isCancelled: false }
    }),
  )
  const cancelled = turns.filter((_, n) => n % 3 === 0)
  const cancelling = cancelled.map(async (turn, n) => {
    await sleep(dice() * 800 * KILLS * SLOWER)
    turn.isCancelled = await cancel(() => daemon, turn.turnId, `number ${n}`)
  })
  for (let kill = 0; kill < KILLS; kill += 1) {
    await sleep((300 + dice() * 700) * SLOWER)
    const runner = readRunnerFile(stateDir)
    if (dice() < 0.4 && runner !== undefined) killed(runner.pid)
    daemon.kill('SIGKILL')
    await daemon.ended
    daemon = await spawnDaemon(options)
  }
  await Promise.all(cancelling)
  for (const { id, turnId, workspace, isCancelled } of turns) {
    const events = await daemon.api.ended(id, turnId)
    const context = `SEED=${seed} ${id}: ${types(events).join(' ')}`
    assertNoGap(events)
    const ends = events.filter(isTerminal)
    assert.equal(ends.length, 1, context)
    const isEnded = ends[0]?.type === 'turn-end'
    if (ends[0]?.type === 'turn-error') assert.ok(mayEndSo(ends[0].category, isCancelled), context)
    assert.ok(!events.some((event) => event.type === 'tool-result' && event.outcome === 'unknown'), context)
    assertLedger(join(workspace, 'ledger'), events, isEnded, context)
    assert.equal((await daemon.api.call<Session>('GET', `/v1/sessions/${id}`)).json.state, 'idle', context)
    const next = await daemon.api.ended(id, await daemon.api.prompt(id, 'say hello'))
    assertNoGap(next)
    assert.deepEqual([next.at(-1)?.type, next.filter(isTerminal).length], ['turn-end', 2], context)
  }
})

// ---- details, in the order they are used above ----

const mayEndSo = (category: string, isCancelled: boolean): boolean =>
  category === 'cancelled' ? isCancelled : category === 'crash_loop' && KILLS >= LIMITS.restartsMax

/** Five commands, each of which leaves two marks; one request in ten fails in one way or another. */
const scriptOf =
  (dice: () => number): Script =>
  ({ messages }) => {
    if (dice() < 0.1) return FAULTS[Math.floor(dice() * FAULTS.length)] as ScriptedAnswer
    const from = messages.findLastIndex((message) => message.role === 'user')
    if (messages[from]?.content === 'say hello') return { text: 'hello' }
    const step = messages.slice(from).filter((message) => message.role === 'tool').length
    if (step === STEPS) return { text: 'all of it', pauseMs: 5 }
    const command = `echo begin ${step} >> ledger; sleep 0.1; echo end ${step} >> ledger`
    const calls = [{ id: `c${step}`, tool: 'bash', arguments: { command } }]
    return { text: `this is step ${step}`, pauseMs: 10, pieceChars: 3, calls }
  }

/** Retries until some daemon has accepted it. True if it may have ended the turn. */
async function cancel(daemon: () => DaemonProcess, turnId: string, reason: string): Promise<boolean> {
  for (let isLost = false; ; isLost = true) {
    try {
      const { status } = await daemon().api.call('POST', `/v1/turns/${turnId}/cancel`, { reason })
      assert.ok(status === 200 || status === 202, String(status))
      return status === 202 || isLost
    } catch (thrown) {
      if (thrown instanceof assert.AssertionError) throw thrown
      await sleep(50) // killed at this very moment, perhaps after it had written the cancel
    }
  }
}

function killed(pid: number): void {
  try {
    process.kill(pid, 'SIGKILL')
  } catch {
    // It has just ended on its own.
  }
}

/** A mark for each command that ran, in order, none twice; all of them where the turn came to its end. */
function assertLedger(file: string, events: readonly SessionEvent[], isWhole: boolean, context: string): void {
  const marks = readFileSync(file, { encoding: 'utf8', flag: 'a+' }).split('\n').filter(Boolean)
  const all = Array.from({ length: STEPS }, (_, n) => [`begin ${n}`, `end ${n}`]).flat()
  assert.deepEqual(marks, all.slice(0, isWhole ? all.length : marks.length), context)
  const oks = events.filter((event) => event.type === 'tool-result' && event.outcome === 'ok').length
  assert.ok(marks.length >= oks * 2 && marks.length <= oks * 2 + 2, `${marks.length} marks, ${oks} results; ${context}`)
}
