/**
 * A daemon killed at random moments: while it starts and recovers, while a model streams, while a command runs.
 * `SEED=… node --test …` repeats the moments of a run (as far as a machine repeats itself).
 */
import { atEnd } from '../../../../test/kit/folder.ts'
import assert from 'node:assert/strict'
import { randomInt } from 'node:crypto'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'node:test'
import { setTimeout as sleep } from 'node:timers/promises'
import { isTerminal, type SessionEvent } from '@breakfall/wire'
import { assembled, assertNoGap, types } from '../support/api.ts'
import { killStarting, spawnDaemon } from '../support/daemon-process.ts'
import { diceOf } from '../../../../test/kit/dice.ts'
import type { Script } from '../../../engine/test/support/scripted-model.ts'
import { optionsFor } from '../support/setup.ts'

const ROUNDS = 2 // two kills each; `npm run sim` has many more
const STEPS = 8
const SAID = 'and that was all of it'

/** Each step says something slowly, then runs a command that leaves a mark, works for a moment, and leaves another. */
const script: Script = ({ messages }) => {
  const step = messages.filter((message) => message.role === 'tool').length
  if (step === STEPS) return { text: SAID, pauseMs: 5 }
  const command = `echo begin ${step} >> ledger; echo out ${step}; sleep 0.05; echo end ${step} >> ledger`
  return {
    text: `this is step ${step}`,
    pauseMs: 10,
    pieceChars: 3,
    calls: [{ id: `c${step}`, tool: 'bash', arguments: { command } }],
  }
}

test('killed at random moments, again and again, a turn of many steps ends once with every effect once', async (t) => {
  const seed = Number(process.env['SEED'] ?? randomInt(2 ** 32))
  t.diagnostic(`SEED=${seed}`)
  const dice = diceOf(seed)
  const { options, workspace } = await optionsFor(t, script)
  let daemon = await spawnDaemon(options)
  atEnd(t, () => daemon.kill('SIGKILL'))
  const { id } = await daemon.api.session({ box: { workspace } })
  const turnId = await daemon.api.prompt(id, 'go')
  const heard: SessionEvent[] = []
  for (let round = 0; round < ROUNDS; round += 1) {
    // Each round makes progress first: five kills in a row without progress are a crash loop, which another test covers.
    const isMark = (event: SessionEvent): boolean => event.type === 'tool-result' || isTerminal(event)
    heard.push(...(await daemon.api.events(id, isMark, heard.length)))
    await sleep(dice() * 250)
    daemon.kill('SIGKILL')
    await daemon.ended
    await killStarting(options, dice() * 900)
    daemon = await spawnDaemon(options)
  }
  const events = await daemon.api.ended(id, turnId)
  const context = `SEED=${seed}: ${types(events).join(' ')}`
  assertNoGap(events)
  assert.deepEqual(events.slice(0, heard.length), heard, 'what any reader ever heard is in the journal, as it heard it')
  assert.deepEqual(types(events.filter(isTerminal)), ['turn-end'], context)
  assert.ok(types(events).includes('taken-over'), context)
  const marks = Array.from({ length: STEPS }, (_, n) => `begin ${n}\nend ${n}\n`).join('')
  assert.equal(readFileSync(join(workspace, 'ledger'), 'utf8'), marks, context)
  const output = events.flatMap((event) => (event.type === 'tool-output' ? [event.text] : [])).join('')
  assert.equal(output, Array.from({ length: STEPS }, (_, n) => `out ${n}\n`).join(''), context)
  const texts = [...Array.from({ length: STEPS }, (_, n) => `this is step ${n}`), SAID]
  assert.deepEqual([...assembled(events).values()], texts, context)
  const end = events.at(-1)
  assert.ok(end?.type === 'turn-end' && end.text === SAID, context)
  // Nothing is left to do, and the next daemon reads the same journal.
  daemon.kill('SIGKILL')
  await daemon.ended
  daemon = await spawnDaemon(options)
  assert.equal(daemon.recovered, 0)
  assert.deepEqual(await daemon.api.ended(id, turnId), events)
})
