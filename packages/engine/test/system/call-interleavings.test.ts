/** A call runs at most once in every short order of events around it, and the journal never denies a call that ran. `sim/` has long ones. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { CallWorld, everyOrder } from '../support/call-world.ts'

for (const workspace of ['host', 'private'] as const) {
  test(`no order of starts, losses, takeovers and cancels runs a call twice (${workspace} workspace)`, async () => {
    let tried = 0
    for (const order of everyOrder(2)) {
      tried += 1
      await check(new CallWorld(order, workspace))
    }
    assert.ok(tried > 1_000, `only ${tried} orders`)
  })
}

async function check(world: CallWorld): Promise<void> {
  await world.play()
  const say = (what: string): string => `${what}, after ${world.story.join('; ')}`
  for (const [command, times] of world.effects) assert.equal(times, 1, say(`${command} ran ${times} times`))
  for (const event of world.events) {
    if (event.type !== 'tool-result') continue
    const times = world.effects.get(event.callId) ?? 0
    if (event.outcome === 'ok') assert.equal(times, 1, say(`${event.callId} counts as done and did not run`))
    if (NOT_RUN.test(event.text)) assert.equal(times, 0, say(`${event.callId} counts as not run and ran`))
  }
}

const NOT_RUN = /^This was not run|^Cancelled before it ran/
