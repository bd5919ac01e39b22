/** Failures that reach every daemon: a database that freezes, and a turn that kills each daemon that works on it. */
import assert from 'node:assert/strict'
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'node:test'
import { types } from '../../packages/daemon/test/support/api.ts'
import { inOrder } from '../../packages/engine/test/support/scripted-model.ts'
import { eventually, LIMIT } from '../../test/kit/wait.ts'
import { shared } from '../shared.ts'
import { sameEverywhere } from './agreement.ts'
import { type FleetDaemon, FleetRig } from './rig.ts'

let poisoned = 0

/** `poison` gets no answer; `talk` needs no tool; every other prompt is a name, and its command waits for a file with that name. */
const rig = await shared(
  FleetRig.start((asked, request) => {
    const name = String(asked.messages.findLast((message) => message.role === 'user')?.content ?? '')
    if (name === 'talk') return { text: 'here' }
    if (name === 'poison') {
      poisoned += 1
      return { until: new Promise(() => undefined) }
    }
    const command = `echo ${name} >> effects; until [ -e ${name} ]; do sleep 0.05; done`
    return inOrder({ calls: [{ id: 'c1', tool: 'bash', arguments: { command } }] }, { text: 'done' })(asked, request)
  }),
)
const LEASE = ['--lease-ms', '8000'] // longer than a busy machine delays a renewal
const [a, b] = await Promise.all(['a', 'b'].map((name) => rig.proxied(name, LEASE)))
assert.ok(a !== undefined && b !== undefined)

async function running(name: string, { api }: FleetDaemon): Promise<{ id: string; turnId: string }> {
  const { id } = await api.session({ box: { workspace: rig.workspace } })
  const turnId = await api.prompt(id, name)
  await eventually(`the command of ${name} runs`, () => rig.effects().includes(name))
  return { id, turnId }
}

const finish = (name: string): void => writeFileSync(join(rig.workspace, name), '')

test(
  'the database stands still until every lease has run out: every turn keeps its owner, and nothing is lost',
  LIMIT,
  async () => {
    const turns = await Promise.all([running('stalled-a', a), running('stalled-b', b)])
    for (const { toStore } of [a, b]) {
      toStore.up = 'hold'
      toStore.down = 'hold'
    }
    try {
      finish('stalled-a') // its result has to wait
      await eventually('every lease has run out', async () => {
        const [row] = await rig.database.query(
          "SELECT count(*) AS live FROM daemons WHERE state = 'live' AND lease_until > clock_timestamp()",
        )
        return Number(row?.['live']) === 0
      })
      for (const { api } of [a, b]) assert.equal((await api.call('GET', '/v1/ready')).status, 503)
    } finally {
      for (const { toStore } of [a, b]) toStore.release()
    }
    finish('stalled-b')
    for (const { id, turnId } of turns) {
      const events = await sameEverywhere([a, b], id, turnId)
      assert.equal(events.at(-1)?.type, 'turn-end')
      assert.ok(!types(events).includes('taken-over'), types(events).join(' '))
    }
    const rows = await rig.database.query("SELECT boot_id FROM daemons WHERE state = 'dead'")
    assert.deepEqual(rows, [], 'no daemon was declared dead')
    assert.deepEqual(rig.effects().toSorted(), ['stalled-a', 'stalled-b'])
  },
)

test(
  'a turn that kills its daemon each time is given up after five, and a turn beside it is unharmed',
  LIMIT,
  async () => {
    const daemons = new Map<string, FleetDaemon>([a, b].map((daemon) => [daemon.name, daemon]))
    const beside = await running('beside', a)
    const { id } = await a.api.session()
    const turnId = await a.api.prompt(id, 'poison')
    let kills = 0
    const isOver = async (): Promise<boolean> => {
      const [row] = await rig.database.query('SELECT state FROM heads WHERE session_id = $1', [id])
      return row?.['state'] === 'idle'
    }
    for (;;) {
      const hasEnded = await eventually('the model is asked, or the turn has ended', async () =>
        poisoned > kills ? 'asked' : (await isOver()) ? 'ended' : undefined,
      )
      if (hasEnded === 'ended') break
      kills += 1
      const [owner] = await rig.database.query(
        'SELECT d.name FROM heads h JOIN daemons d ON d.boot_id = h.owner WHERE h.session_id = $1',
        [id],
      )
      const killed = daemons.get(String(owner?.['name']))
      assert.ok(killed !== undefined, 'a turn that is worked on has an owner')
      await killed.program.kill('SIGKILL')
      daemons.set(killed.name, await rig.daemon(killed.name, LEASE)) // in its folder, as a service manager does
    }
    assert.equal(kills, 5)
    const [first, second] = [...daemons.values()]
    assert.ok(first !== undefined && second !== undefined)
    const end = (await sameEverywhere([first, second], id, turnId)).at(-1)
    assert.equal(end?.type === 'turn-error' && end.category, 'crash_loop')
    await second.api.ended(id, await first.api.prompt(id, 'talk'))

    finish('beside')
    const events = await sameEverywhere([first, second], beside.id, beside.turnId)
    assert.equal(events.at(-1)?.type, 'turn-end')
    assert.equal(rig.effects().filter((line) => line === 'beside').length, 1)
  },
)
