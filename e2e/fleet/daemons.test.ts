/** Daemons that stop, freeze or lose their connection. */
import assert from 'node:assert/strict'
import { existsSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, test } from 'node:test'
import { isAppend } from '../../packages/engine/test/conformance/store-kit.ts'
import { inOrder } from '../../packages/engine/test/support/scripted-model.ts'
import type { HeldRequest } from '../../test/kit/holding-proxy.ts'
import type { TcpProxy } from '../../test/kit/tcp-proxy.ts'
import { eventually, LIMIT } from '../../test/kit/wait.ts'
import { shared } from '../shared.ts'
import { assertEpochsGrow, sameEverywhere } from './agreement.ts'
import { type FleetDaemon, FleetRig } from './rig.ts'

/** The prompt is the command of the one tool call. */
const rig = await shared(
  FleetRig.start((asked, request) => {
    const command = String(asked.messages.findLast((message) => message.role === 'user')?.content ?? '')
    return inOrder({ calls: [{ id: 'c1', tool: 'bash', arguments: { command } }] }, { text: 'done' })(asked, request)
  }),
)
const [a, b] = await Promise.all(['a', 'b'].map((name) => rig.daemon(name)))
assert.ok(a !== undefined && b !== undefined)

const inShared = { box: { workspace: rig.workspace } }
const file = (name: string): string => join(rig.workspace, name)

/** It lost its lease and is another daemon now. */
const isBornAgain = (daemon: FleetDaemon): Promise<unknown> =>
  eventually(`${daemon.name} has another boot`, async () => {
    const { json } = await a.api.call<{ daemons: { name: string; bootId: string; state: string }[] }>(
      'GET',
      '/v1/daemons',
    )
    return json.daemons.some(
      ({ name, bootId, state }) => name === daemon.name && bootId !== daemon.bootId && state === 'live',
    )
  })

const WAYS: readonly { readonly name: string; readonly how: string; readonly part: (proxy: TcpProxy) => void }[] = [
  {
    name: 'cut-off',
    how: 'both ways',
    part: (proxy) => {
      proxy.up = 'drop'
      proxy.down = 'drop'
    },
  },
  { name: 'unheard', how: 'questions are lost', part: (proxy) => (proxy.up = 'drop') },
  { name: 'deaf', how: 'answers are lost', part: (proxy) => (proxy.down = 'drop') },
]

describe('side by side', { concurrency: true }, () => {
  test(
    'a daemon that was frozen longer than its lease writes nothing and starts nothing when it wakes',
    LIMIT,
    async () => {
      const frozen = await rig.daemon('frozen')
      const { id } = await frozen.api.session(inShared)
      const turnId = await frozen.api.prompt(
        id,
        'touch begun; while [ ! -e go ]; do sleep 0.1; done; echo frozen >> effects',
      )
      await eventually('the command runs', () => existsSync(file('begun')))
      frozen.program.child.kill('SIGSTOP')
      try {
        await b.api.events(id, ({ type }) => type === 'taken-over')
      } finally {
        frozen.program.child.kill('SIGCONT')
      }
      await isBornAgain(frozen)
      writeFileSync(file('go'), '')
      const events = await sameEverywhere([a, b, frozen], id, turnId)
      assert.equal(events.at(-1)?.type, 'turn-end')
      assert.deepEqual(
        rig.effects().filter((line) => line === 'frozen'),
        ['frozen'],
      )
      await assertEpochsGrow(rig, id)
    },
  )

  test(
    'a prompt that waits for its commit when the database goes away gets 503, and with its key it is accepted once elsewhere',
    LIMIT,
    async () => {
      const lost = await rig.proxied('lost')
      const { id } = await lost.api.session(inShared)
      const key = { 'idempotency-key': 'k' }
      const send = ({ api }: FleetDaemon) =>
        api.call('POST', `/v1/sessions/${id}/turns`, { prompt: 'echo lost >> effects' }, key)
      lost.toStore.cutAnswerTo = (question) => {
        if (isAppend(question)) lost.toStore.up = 'drop' // the append itself, and everything after it
        return false
      }
      try {
        const { status, json, headers } = await send(lost)
        assert.deepEqual([status, json['category'], headers.get('retry-after')], [503, 'journal_unreachable', '1'])
      } finally {
        lost.toStore.cutAnswerTo = undefined
      }
      const receipt = await eventually('another daemon accepts it', async () => {
        const answer = await send(b)
        return answer.status === 202 ? answer.json : undefined
      })
      lost.toStore.heal()
      await isBornAgain(lost)
      await rig.ready(lost)
      assert.deepEqual((await send(lost)).json, receipt)
      const events = await sameEverywhere([lost, a, b], id, String(receipt['turnId']))
      assert.equal(events.filter(({ type }) => type === 'turn-start').length, 1)
      assert.deepEqual(
        rig.effects().filter((line) => line === 'lost'),
        ['lost'],
      )
    },
  )

  test(
    'a daemon whose session was claimed elsewhere before its commit arrives: the new owner does what was asked, and a tail follows it',
    LIMIT,
    async () => {
      const late = await rig.proxied('late')
      const { id } = await late.api.session(inShared)
      late.toStore.cutAnswerTo = (question) => {
        if (isAppend(question)) late.toStore.up = 'hold'
        return false
      }
      const renamed = late.api.call('PATCH', `/v1/sessions/${id}`, { title: 'renamed' })
      await eventually('its commit is on its way', () => late.toStore.up === 'hold')
      late.toStore.cutAnswerTo = undefined
      await rig.database.query('UPDATE heads SET owner = NULL WHERE session_id = $1', [id])
      const turnId = await b.api.prompt(id, 'while [ ! -e renamed ]; do sleep 0.1; done; echo late >> effects')
      late.toStore.release()
      const { status, json } = await renamed
      assert.deepEqual([status, json['title']], [200, 'renamed'])
      const tail = late.api.ended(id, turnId)
      writeFileSync(file('renamed'), '')
      assert.equal((await tail).at(-1)?.type, 'turn-end')
      await sameEverywhere([late, a, b], id, turnId)
    },
  )

  for (const { name, how, part } of WAYS) {
    test(
      `a daemon loses the database (${how}): another continues, and the late start of its command is refused`,
      LIMIT,
      async () => {
        const lost = await rig.proxied(name)
        const held: HeldRequest[] = []
        lost.toRunner.onHeld = (request) => held.push(request)
        lost.toRunner.holds = ({ method, path }) => method === 'POST' && path.endsWith('/exec')
        const { id } = await lost.api.session(inShared)
        const turnId = await lost.api.prompt(id, `echo ${name} >> effects`)
        const request = await eventually('its command is on its way', () => held[0])
        part(lost.toStore)
        try {
          const events = await sameEverywhere([a, b], id, turnId)
          assert.equal(events.at(-1)?.type, 'turn-end')
          assert.ok(events.some(({ type }) => type === 'taken-over'))
          assert.equal((await lost.api.call('GET', '/v1/ready')).json['status'], 'not_ready')
          assert.equal(await request.release(), 409, 'the runner refuses an epoch below the highest it has seen')
        } finally {
          lost.toStore.heal()
          lost.toRunner.holds = () => false
        }
        await isBornAgain(lost)
        await rig.ready(lost)
        await sameEverywhere([lost], id, turnId)
        assert.deepEqual(
          rig.effects().filter((line) => line === name),
          [name],
        )
        await assertEpochsGrow(rig, id)
      },
    )
  }
})
