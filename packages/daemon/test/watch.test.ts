/** The watch over WebSocket and SSE, and the system around the sessions. */
import assert from 'node:assert/strict'
import { once } from 'node:events'
import { test, type TestContext } from 'node:test'
import {
  type Session,
  type System,
  systemSchema,
  type WatchChange,
  watchChangeSchema,
  type WatchSnapshot,
  watchSnapshotSchema,
} from '@breakfall/wire'
import { WebSocket } from 'ws'
import { atEnd } from '../../../test/kit/folder.ts'
import { framesOf } from '../../../test/kit/sse.ts'
import { systemClock } from '../../engine/src/clock.ts'
import { WatchHub } from '../../engine/src/service/watch-hub.ts'
import { rig } from './support/setup.ts'

class Watching {
  readonly socket: WebSocket
  snapshot: WatchSnapshot | undefined
  readonly changes: WatchChange[] = []
  #wake: () => void = () => undefined

  constructor(t: TestContext, { url, token }: { readonly url: string; readonly token: string }) {
    this.socket = new WebSocket(`${url.replace('http', 'ws')}/v1/ws`, ['breakfall.v1', `breakfall.token.${token}`])
    this.socket.on('message', (data) => {
      const frame = JSON.parse((data as Buffer).toString('utf8')) as { result?: unknown; watch?: unknown }
      if (frame.result !== undefined) this.snapshot = watchSnapshotSchema.parse(frame.result)
      if (frame.watch !== undefined) this.changes.push(watchChangeSchema.parse(frame.watch))
      this.#wake()
    })
    this.socket.on('open', () => this.socket.send(JSON.stringify({ id: 1, method: 'watch', params: {} })))
    atEnd(t, () => this.socket.terminate())
  }

  async until<T>(find: (watching: this) => T | undefined): Promise<T> {
    for (;;) {
      const found = find(this)
      if (found !== undefined) return found
      await new Promise<void>((resolve) => {
        this.#wake = resolve
      })
    }
  }

  /** The newest view of a session. */
  session(id: string): Session | undefined {
    return (
      this.changes.findLast(({ session }) => session?.id === id)?.session ??
      this.snapshot?.sessions.find((session) => session.id === id)
    )
  }
}

test('a watch starts with everything that has work and what ended last, then shows each change with its counts', async (t) => {
  const hold = Promise.withResolvers<void>()
  const { api, daemon } = await rig(t, (asked) =>
    asked.messages.at(-1)?.content === 'wait' ? { text: 'done', until: hold.promise } : { text: 'hi' },
  )
  const ended = await api.session({ title: 'ended' })
  await api.ended(ended.id, await api.prompt(ended.id, 'go'))
  const busy = await api.session({ title: 'busy' })
  await api.prompt(busy.id, 'wait')
  const watching = new Watching(t, daemon)
  const snapshot = await watching.until(({ snapshot: given }) => given)
  assert.deepEqual(
    snapshot.sessions.map(({ title, turn }) => [title, turn?.state]),
    [
      ['busy', 'running'],
      ['ended', 'finished'],
    ],
  )
  assert.deepEqual([snapshot.counts.running, snapshot.counts.finished], [1, 1])
  assert.equal(snapshot.bootId, snapshot.system.bootId)
  hold.resolve()
  await watching.until((given) => (given.session(busy.id)?.turn?.state === 'finished' ? true : undefined))
  await watching.until(({ changes }) => changes.find(({ counts }) => counts?.finished === 2))
  const created = await api.session({ title: 'new' })
  await watching.until((given) => given.session(created.id))
  await api.call('PATCH', `/v1/sessions/${created.id}`, { title: 'renamed' })
  await watching.until((given) => (given.session(created.id)?.title === 'renamed' ? true : undefined))
  await api.call('DELETE', `/v1/sessions/${created.id}`)
  await watching.until(({ changes }) => changes.find(({ deleted }) => deleted === created.id))
  await watching.until(({ changes }) => changes.find(({ at }) => at !== undefined)) // the beat
  watching.socket.close()
  await once(watching.socket, 'close')
})

test('the same watch over SSE, and with a token that may only read', async (t) => {
  const { api, daemon } = await rig(t, () => ({ text: 'hi' }))
  const over = new AbortController()
  const response = await fetch(`${daemon.url}/v1/watch`, {
    headers: { authorization: `Bearer ${daemon.token}` },
    signal: over.signal,
  })
  const frames = framesOf(response.body ?? [])
  const first = await frames.next()
  assert.equal(first.value?.event, 'snapshot')
  watchSnapshotSchema.parse(JSON.parse(first.value?.data ?? ''))
  const { id } = await api.session()
  for await (const { event, data } of frames) {
    assert.equal(event, 'watch')
    const { session } = watchChangeSchema.parse(JSON.parse(data))
    if (session?.id === id) break
  }
  over.abort()
})

test('the system is described without its secrets', async (t) => {
  const { api, stateDir } = await rig(t, () => ({ text: 'hi' }), {
    model: {
      baseUrl: 'http://user:sesame-open-wide@127.0.0.1:1/v1',
      name: 'm',
      apiKey: 'sk-not-to-be-seen-anywhere-123',
      fallback: [{ name: 'spare', baseUrl: 'http://127.0.0.1:2/v1' }],
    },
    runner: { allowWorkspace: ['/srv/work'] },
  })
  const { json } = await api.call<System>('GET', '/v1/system')
  systemSchema.parse(json)
  assert.ok(!JSON.stringify(json).includes('sesame') && !JSON.stringify(json).includes('sk-not'))
  assert.deepEqual(
    [json.stateDir, json.workspaces, json.runner.state, json.journal.quarantined, json.gateway, json.chaos],
    [stateDir, ['/srv/work'], 'none', 0, false, false],
  )
  assert.deepEqual(json.model, {
    name: 'm',
    baseUrl: 'http://127.0.0.1:1/v1',
    profile: null,
    fallbacks: [{ name: 'spare', baseUrl: 'http://127.0.0.1:2/v1' }],
    serve: null,
  })
})

test('without a demo there is nothing to break', async (t) => {
  const { api } = await rig(t, () => ({ text: 'hi' }))
  for (const [method, path] of [
    ['GET', '/v1/chaos'],
    ['PUT', '/v1/chaos/plan'],
    ['POST', '/v1/chaos/next'],
    ['POST', '/v1/chaos/kill'],
  ] as const)
    assert.equal((await api.call(method, path)).status, 404, path)
})

test('a session that changes often is sent at most four times a second, and a slow watcher gets the last state', async (t) => {
  t.mock.timers.enable({ apis: ['setTimeout', 'setInterval'] })
  let title = 0
  let reads = 0
  const hub = new WatchHub({
    clock: systemClock({ now: () => 0 }),
    bootId: 'b',
    overview: () => Promise.resolve({ counts: {}, sessions: [] }),
    session: (id) => {
      reads += 1
      return Promise.resolve({ id, title: String(title) } as Session)
    },
    counts: () => Promise.resolve({}),
    system: () => Promise.resolve({} as System),
    changedSince: undefined,
    gateway: undefined,
    onError: (error) => assert.fail(String(error)),
  })
  hub.changed('before')
  const sent: string[] = []
  const slow = Promise.withResolvers<void>()
  const { start, end } = await hub.watch({
    send: (changes) => {
      sent.push(...changes.flatMap(({ session }) => (session === undefined ? [] : [session.title ?? ''])))
      return sent.length === 1 ? slow.promise : Promise.resolve()
    },
  })
  start()
  const settle = async (): Promise<void> => {
    for (let turn = 0; turn < 20; turn += 1) await Promise.resolve()
  }
  for (title = 1; title <= 1_000; title += 1) {
    hub.changed('s')
    if (title % 100 === 0) {
      t.mock.timers.tick(250)
      await settle()
    }
  }
  assert.equal(reads, 10, 'without a watcher nothing was read')
  assert.deepEqual(sent, ['100'])
  slow.resolve()
  await settle()
  assert.deepEqual(sent, ['100', '1000'])
  end()
  assert.equal(hub.watchers, 0)
})
