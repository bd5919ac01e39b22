/** The client against a real daemon, which is stopped and started again in the middle of an answer. */
import { LIMIT } from '../../../../test/kit/wait.ts'
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { startDaemon } from '@breakfall/daemon'
import { isFault } from '@breakfall/faults'
import { tempFolder } from '../../../../test/kit/folder.ts'
import { startModelServer } from '../../../../test/kit/model-server.ts'
import { answer, role, text } from '../../../../test/kit/openai-frames.ts'
import { head } from '../../../../test/kit/plays.ts'
import { DaemonClient, type SessionEvent } from '../../src/index.ts'

test(
  'a client follows a turn over a restart of its daemon: every event once, in order, and one end',
  LIMIT,
  async (t) => {
    const stateDir = tempFolder(t)
    const never = new Promise<void>(() => undefined)
    await using model = await startModelServer((_exchange, index) =>
      index === 0 ? [head(), role, text('half an '), () => never] : answer('the whole ', 'answer'),
    )
    const start = (port: number): ReturnType<typeof startDaemon> =>
      startDaemon({
        stateDir,
        port,
        model: { baseUrl: model.url, name: 'scripted' },
        policy: { backoffMs: 1 },
        logLevel: 'silent',
        limits: { shutdownMs: 500 },
      })
    let daemon = await start(0)
    t.after(() => daemon.close({ stopRunner: true }))
    const port = Number(new URL(daemon.url).port)
    const client = new DaemonClient({ url: daemon.url, token: daemon.token })

    assert.equal((await client.health()).status, 'ok')
    assert.equal((await client.model()).baseUrl, model.url)
    assert.equal((await client.ready()).isReady, true)
    const session = await client.createSession({ title: 'over a restart' })
    const { turnId, seq } = await client.prompt(session.id, 'go', { key: 'once' })
    assert.deepEqual(await client.prompt(session.id, 'go', { key: 'once' }), { turnId, seq }, 'the same receipt')

    const seen: SessionEvent[] = []
    let restarted: Promise<void> | undefined
    for await (const event of client.events(session.id, { after: seq - 1 })) {
      seen.push(event)
      if (event.type === 'text-delta')
        restarted ??= daemon.close({ stopRunner: false }).then(async () => {
          daemon = await start(port)
        })
      if (event.type === 'turn-end' || event.type === 'turn-error') break
    }
    await restarted
    assert.deepEqual(
      seen.map((event) => event.seq),
      seen.map((_, index) => seq + index),
      'no number is missing or repeated',
    )
    assert.ok(seen.some(({ type }) => type === 'part-discarded'))
    const last = seen.at(-1)
    assert.ok(last?.type === 'turn-end', JSON.stringify(last))
    assert.equal(last.text, 'the whole answer')
    assert.equal((await client.turn(turnId)).state, 'finished')

    assert.deepEqual(
      (await client.sessions()).map(({ id }) => id),
      [session.id],
    )
    await client.deleteSession(session.id)
    await assert.rejects(client.session(session.id), (error) => isFault(error) && error.category === 'not_found')
  },
)
