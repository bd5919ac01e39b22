/** A cancel that meets its command on the way to the runner. A proxy holds the request, so each order really happens. */
import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'node:test'
import { atEnd, tempFolder } from '../../../../test/kit/folder.ts'
import { type HeldRequest, holdingProxy } from '../../../../test/kit/holding-proxy.ts'
import { execListSchema } from '@breakfall/wire'
import type { Api } from '../support/api.ts'
import { runnerProcess } from '../support/runner.ts'
import { inOrder } from '../../../engine/test/support/scripted-model.ts'
import { rig } from '../support/setup.ts'

const NEVER_RAN = 'Cancelled before it ran.'
const TIMES = 40

/** When the start that the proxy holds reaches the runner. */
const ORDERS = ['before the kill', 'with the kill', 'after the kill', 'after the end'] as const

test('a command that was cancelled while it started is never reported as not run if it ran, forty times', async (t) => {
  const folder = tempFolder(t)
  const runner = await runnerProcess(t, { folder: join(folder, 'runner'), port: 0, tokenFile: join(folder, 'token') })
  const proxy = await holdingProxy(runner.url)
  atEnd(t, () => proxy.close())
  const onHeld = new Map<string, (held: HeldRequest) => void>()
  proxy.holds = ({ method, path }) => method === 'POST' && /\/exec$|\/kill/.test(path)
  proxy.onHeld = (held) => onHeld.get(held.path.split('/')[4] ?? '')?.(held)
  const command = 'sleep 30'
  const { api } = await rig(t, inOrder({ calls: [{ id: 'c1', tool: 'bash', arguments: { command } }] }), {
    runner: { url: proxy.url, tokenFile: join(folder, 'token') },
  })
  const reports: string[] = []
  const cancelOne = async (order: Order): Promise<void> => {
    const { id } = await api.session()
    const result = await cancelDuringStart(api, id, order, (handle) => onHeld.set(id, handle))
    const hasRun = await hasStarted(runner.url, join(folder, 'token'), id)
    assert.ok(!(hasRun && result === NEVER_RAN), `${order}: it ran, and the journal says: ${result}`)
    if (order === 'after the kill' || order === 'after the end') assert.deepEqual([result, hasRun], [NEVER_RAN, false])
    reports.push(`${order}: ${result}`)
  }
  for (let i = 0; i < TIMES; i += ORDERS.length) await Promise.all(ORDERS.map(cancelOne))
  assert.equal(reports.length, TIMES)
})

// ---- details ----

/** Whether the runner has a command of this box that ran, or runs. */
async function hasStarted(url: string, tokenFile: string, boxId: string): Promise<boolean> {
  const authorization = `Bearer ${readFileSync(tokenFile, 'utf8').trim()}`
  const answer = await fetch(`${url}/v1/default/boxes/${boxId}/execs`, { headers: { authorization } })
  const { execs } = execListSchema.parse(await answer.json())
  return execs.some(({ exit }) => exit?.started !== false)
}

type Order = (typeof ORDERS)[number]

/** The text of the command's result in the journal. */
async function cancelDuringStart(
  api: Api,
  sessionId: string,
  order: Order,
  handleHeld: (handle: (held: HeldRequest) => void) => void,
): Promise<string> {
  const held = Promise.withResolvers<HeldRequest>()
  const killed = Promise.withResolvers<void>()
  handleHeld((request) => {
    if (!request.path.includes('/kill')) return held.resolve(request)
    // A cancel sends one kill for each id that the command can have. The last is the id that the proxy holds.
    const isLast = !/\.\d\/kill/.test(request.path)
    if (isLast && order === 'with the kill') void held.promise.then((start) => start.release())
    void request.release().then(() => isLast && killed.resolve())
  })
  const turnId = await api.prompt(sessionId, 'go')
  const start = await held.promise
  const starting = order === 'before the kill' ? start.release() : undefined
  await api.call('POST', `/v1/turns/${turnId}/cancel`)
  if (order === 'after the kill') {
    await killed.promise
    await start.release()
  }
  const events = await api.ended(sessionId, turnId)
  if (order === 'after the end') await start.release()
  await starting
  const [result] = events.flatMap((event) => (event.type === 'tool-result' ? [event.text] : []))
  return result ?? ''
}
