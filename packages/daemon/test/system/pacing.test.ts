/** A hundred turns that wait for the same thing: no storm while they wait or when they wake up, and each resumes once. */
import { LIMIT } from '../../../../test/kit/wait.ts'
import { atEnd } from '../../../../test/kit/folder.ts'
import assert from 'node:assert/strict'
import { connect, createServer, type Socket } from 'node:net'
import type { AddressInfo } from 'node:net'
import { describe, test, type TestContext } from 'node:test'
import { closedPort } from '../../../../test/kit/tcp-server.ts'
import type { LiveConfig, ModelConfig } from '@breakfall/engine'
import type { Api } from '../support/api.ts'
import { testRunner } from '../support/runner.ts'
import { inOrder, type Script, startScriptedModel } from '../../../engine/test/support/scripted-model.ts'
import { rig } from '../support/setup.ts'
import { smallDisk } from '../../../engine/test/support/small-disk.ts'

const CROWD = 100
const PROBE_MS = 100 // a single turn probes first after about that time; a probe's result is shared for half of it
const AT_ONCE = 10
const GAP_MS = 25
const limits = { probeMsFirst: PROBE_MS }

describe('a hundred turns', { concurrency: true }, () => {
  test(
    'that wait for a key, or for a quota with another key, share one read of the configuration',
    LIMIT,
    async (t) => {
      const isKey = ({ authorization }: { authorization: string | undefined }): boolean =>
        authorization === 'Bearer the-right-key'
      const script: Script = (asked, n) =>
        isKey(asked) ? { text: 'thanks' } : n % 2 === 0 ? { status: 401 } : noCredit
      const model = await startScriptedModel(script)
      atEnd(t, () => model.close())
      const config = counted({ baseUrl: model.baseUrl, name: 'm', apiKey: 'a-wrong-key-indeed' })
      const { api } = await rig(t, script, { model: config.now.model, reload: config.read, limits })
      const crowd = await parkedCrowd(api)
      assert.equal(model.asked.length, CROWD, 'no turn asked twice')
      await assertFewLooks(config)
      assert.equal(model.asked.length, CROWD, 'no turn asked while it waited')
      config.now = { ...config.now, model: { ...config.now.model, apiKey: 'the-right-key' } }
      await assertEachOnceInTurn(api, crowd)
      assert.equal(model.asked.length, 2 * CROWD)
    },
  )

  test('that wait for a model share one probe of its address', LIMIT, async (t) => {
    const port = await closedPort()
    const config = counted({ baseUrl: `http://127.0.0.1:${port}/v1`, name: 'late' })
    const policy = { attemptsMax: 2, backoffMs: 1 }
    const { api } = await rig(t, () => ({}), { model: config.now.model, reload: config.read, limits, policy })
    const crowd = await parkedCrowd(api)
    await assertFewLooks(config)
    const late = await startScriptedModel(() => ({ text: 'here I am' }), port)
    atEnd(t, () => late.close())
    await assertEachOnceInTurn(api, crowd)
    assert.equal(late.asked.length, CROWD)
  })

  test('that were all asked to retry at the same moment do so one after another', LIMIT, async (t) => {
    let aheadMs = 0
    const now = (): number => Date.now() + aheadMs
    const until = new Date(now() + 600_000).toUTCString()
    const refusal = { status: 429, headers: { 'retry-after': until } }
    const first = await rig(t, () => (now() < Date.parse(until) ? refusal : { text: 'thanks' }), { now })
    const crowd = await parkedCrowd(first.api)
    aheadMs = 600_000
    const { api } = await first.restart()
    await assertEachOnceInTurn(api, crowd)
    assert.equal(first.model.asked.length, 2 * CROWD)
  })

  test('that wait for a runner share one look-up, and do not overwhelm it', LIMIT, async (t) => {
    const runner = await testRunner(t)
    const door = await doorTo(t, runner.port)
    const script = inOrder({ calls: [{ tool: 'write', arguments: { path: 'ledger', content: 'x' } }] }, { text: 'ok' })
    const config = { url: door.url, tokenFile: runner.config.tokenFile }
    const { api } = await rig(t, script, { runner: config, limits })
    const crowd = await parkedCrowd(api)
    const from = { at: performance.now(), knocks: door.knocks() }
    await door.knockedTimes(from.knocks + 10)
    assertSpaced(10, performance.now() - from.at, PROBE_MS / 2)
    door.open()
    const events = await assertEachOnceInTurn(api, crowd)
    const writes = events.flatMap((of) => of.filter((event) => event.type === 'tool-result'))
    assert.equal(writes.filter((event) => event.outcome === 'ok').length, CROWD)
  })

  test('that wait for disk space resume one after another when there is some', LIMIT, async (t) => {
    const disk = smallDisk(t, '64m')
    if (disk === undefined) return
    const isFull = Promise.withResolvers<void>()
    const { api } = await rig(t, () => ({ text: 'z'.repeat(40_000), pieceChars: 20_000, until: isFull.promise }), {
      stateDir: disk.folder,
      limits,
    })
    const crowd = await started(api)
    const free = disk.fill(50_000)
    isFull.resolve()
    const waiting = await thoseParked(api, crowd)
    assert.ok(waiting.length > CROWD / 2, `${waiting.length} wait: the others were done before the disk was full`)
    free()
    await assertEachOnceInTurn(api, waiting)
  })
})

// ---- details, in the order they are used above ----

const noCredit = {
  status: 429,
  body: { error: { code: 'insufficient_quota', type: 'insufficient_quota', message: 'You exceeded your quota.' } },
} as const

type Waiting = { readonly id: string; readonly turnId: string }

/** A configuration that counts how often it is read: once for each probe, apart from answers. */
function counted(model: ModelConfig): { now: LiveConfig; reads: number; read: () => LiveConfig } {
  const config = {
    now: { model, runner: {} } as LiveConfig,
    reads: 0,
    read: () => {
      config.reads += 1
      return config.now
    },
  }
  return config
}

async function started(api: Api): Promise<readonly Waiting[]> {
  const sessions = await Promise.all(Array.from({ length: CROWD }, () => api.session()))
  return Promise.all(sessions.map(async ({ id }) => ({ id, turnId: await api.prompt(id, 'go') })))
}

async function parkedCrowd(api: Api): Promise<readonly Waiting[]> {
  const crowd = await started(api)
  for (const { id } of crowd) await api.events(id, (event) => event.type === 'parked')
  return crowd
}

/** Those of the crowd that wait. Where the journal is full, some have no room even for the event that says so. */
async function thoseParked(api: Api, crowd: readonly Waiting[]): Promise<readonly Waiting[]> {
  const parked: Waiting[] = []
  for (const one of crowd) {
    let turn = await api.turn(one.turnId)
    while (turn.state !== 'parked' && turn.endedAt === null) turn = await api.turn(one.turnId)
    if (turn.state === 'parked') parked.push(one)
  }
  return parked
}

async function assertFewLooks(config: { reads: number }): Promise<void> {
  const from = { at: performance.now(), reads: config.reads }
  while (config.reads - from.reads < 10) await new Promise((resolve) => setTimeout(resolve, 5))
  assertSpaced(config.reads - from.reads, performance.now() - from.at, PROBE_MS / 2)
}

/** So many in that time are at least so far apart on average: what a machine's slowness can only make better. */
function assertSpaced(times: number, ms: number, apartMs: number): void {
  assert.ok(
    ms >= (times - 2) * apartMs,
    `${times} times in ${Math.round(ms)} ms, expected one in ${apartMs} ms at most`,
  )
}

async function assertEachOnceInTurn(api: Api, crowd: readonly Waiting[]) {
  const all = await Promise.all(crowd.map(({ id, turnId }) => api.ended(id, turnId)))
  for (const events of all) {
    assert.equal(events.at(-1)?.type, 'turn-end', JSON.stringify(events.at(-1)))
    assert.equal(events.filter((event) => event.type === 'resumed').length, 1)
  }
  const at = all.flatMap((events) => events.filter((event) => event.type === 'resumed').map(({ at }) => Date.parse(at)))
  const spreadMs = Math.max(...at) - Math.min(...at)
  assertSpaced(crowd.length - AT_ONCE, spreadMs, GAP_MS)
  return all
}

/** In front of a runner: shut, it takes connections and drops them; open, it passes them on. */
async function doorTo(t: TestContext, port: number) {
  let isOpen = false
  let knocks = 0
  const inside = new Set<Socket>()
  const waiters = new Set<() => void>()
  const server = createServer((socket) => {
    knocks += 1
    for (const wake of waiters) wake()
    socket.on('error', () => socket.destroy())
    if (!isOpen) return void socket.destroy()
    inside.add(socket)
    const beyond = connect(port, '127.0.0.1')
    beyond.on('error', () => socket.destroy())
    socket.on('close', () => {
      inside.delete(socket)
      beyond.destroy()
    })
    socket.pipe(beyond).pipe(socket)
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  atEnd(t, () => {
    for (const socket of inside) socket.destroy()
    server.close()
  })
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    knocks: () => knocks,
    open: () => {
      isOpen = true
    },
    knockedTimes: async (times: number) => {
      while (knocks < times) await new Promise<void>((resolve) => waiters.add(resolve))
      waiters.clear()
    },
  }
}
