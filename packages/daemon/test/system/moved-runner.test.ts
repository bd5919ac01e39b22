import { tempFolder, atEnd } from '../../../../test/kit/folder.ts'
import assert from 'node:assert/strict'
import { once } from 'node:events'
import { readFileSync, writeFileSync } from 'node:fs'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { join } from 'node:path'
import { test } from 'node:test'
import { closedPort, startTcpServer } from '../../../../test/kit/tcp-server.ts'
import { isTerminal, type SessionEvent } from '@breakfall/wire'
import { Fault, LIMITS, toProblem } from '@breakfall/faults'
import { createRunnerClient } from '@breakfall/runner/client'
import type { LiveConfig } from '@breakfall/engine'
import { types } from '../support/api.ts'
import { runnerProcess, testRunner } from '../support/runner.ts'
import { inOrder } from '../../../engine/test/support/scripted-model.ts'
import { rig } from '../support/setup.ts'

const HELLO = { id: 'c1', tool: 'bash', arguments: { command: 'echo HELLO' } }
const script = inOrder({ calls: [HELLO] }, { text: 'done' })
const prompt = 'Use the Bash tool to run: echo HELLO'

test('a runner that reports its shutdown is looked up again inside the call, like a runner that is gone', async (t) => {
  const runner = await testRunner(t)
  const going = JSON.stringify(toProblem(new Fault('shutting_down', { boundary: 'runner' })))
  let refused = 0
  const old = createServer((req, res) => {
    if (req.url === '/v1/health')
      return res.end(JSON.stringify({ status: 'ok', runnerId: runner.runnerId, bootId: 'b', version: '0' }))
    refused += 1
    return res.writeHead(503, { 'content-type': 'application/problem+json' }).end(going)
  }).listen(0, '127.0.0.1')
  await once(old, 'listening')
  atEnd(t, () => old.close())
  const oldUrl = `http://127.0.0.1:${(old.address() as AddressInfo).port}`
  const resolver = createServer((_, res) => res.end(refused === 0 ? oldUrl : runner.url)).listen(0, '127.0.0.1')
  await once(resolver, 'listening')
  atEnd(t, () => resolver.close())
  const resolveUrl = `http://127.0.0.1:${(resolver.address() as AddressInfo).port}`
  const { api } = await rig(t, script, { runner: { resolveUrl, tokenFile: runner.config.tokenFile } })
  const { id } = await api.session()
  const events = await api.ended(id, await api.prompt(id, prompt))
  assert.equal(events.at(-1)?.type, 'turn-end', JSON.stringify(events.at(-1)))
  assert.deepEqual(
    events.flatMap((event) => (event.type === 'retry' ? [[event.action, event.fault.category]] : [])),
    [['resolve', 'runner_unreachable']],
  )
})

test('a stale endpoint is resolved again inside the call: by command, by URL, or from the configuration', async (t) => {
  const stale = `http://127.0.0.1:${await closedPort()}`
  const runner = await testRunner(t)
  const { tokenFile } = runner.config
  const resolver = createServer((_, res) => res.end(JSON.stringify({ url: runner.url }))).listen(0, '127.0.0.1')
  await once(resolver, 'listening')
  atEnd(t, () => resolver.close())
  const file = join(tempFolder(t), 'where')
  writeFileSync(file, `${runner.url}\n`)
  let isTried = false
  const gone = await startTcpServer((socket) => {
    isTried = true
    socket.resetAndDestroy()
  })
  atEnd(t, () => gone.close())
  const ways = {
    command: { runner: { url: stale, tokenFile, resolveCommand: ['cat', file] } },
    url: {
      runner: { url: stale, tokenFile, resolveUrl: `http://127.0.0.1:${(resolver.address() as AddressInfo).port}/` },
    },
    config: {
      reload: (): LiveConfig => ({
        model: reloaded,
        runner: { tokenFile, url: isTried ? runner.url : `http://127.0.0.1:${gone.port}` },
      }),
    },
  }
  let reloaded: LiveConfig['model'] = { baseUrl: '', name: '' }
  for (const [way, options] of Object.entries(ways)) {
    const model = await rigModel(t)
    reloaded = { baseUrl: model, name: 'scripted' }
    const { api } = await rig(t, script, { ...options, model: reloaded })
    const session = await api.session()
    const turnId = await api.prompt(session.id, prompt)
    const events = await api.ended(session.id, turnId)
    assert.equal(events.at(-1)?.type, 'turn-end', `${way}: ${types(events).join(' ')}`)
    const retries = events.filter((event) => event.type === 'retry')
    assert.ok(
      retries.length >= 1 &&
        retries.every((event) => event.action === 'resolve' && event.fault.category === 'runner_unreachable'),
    )
    assert.equal(retries[0]?.delayMs, 0, 'the first look-up is at once')
  }
})

async function rigModel(t: Parameters<typeof rig>[0]): Promise<string> {
  const { startScriptedModel } = await import('../../../engine/test/support/scripted-model.ts')
  const model = await startScriptedModel(script)
  atEnd(t, () => model.close())
  return model.baseUrl
}

test('a runner that stays dead parks the turn, which resumes once, automatically, when the runner answers', async (t) => {
  const runner = await testRunner(t)
  const { api } = await rig(t, script, { runner: runner.config })
  await runner.stop()
  const session = await api.session()
  const turnId = await api.prompt(session.id, prompt)
  const parked = await api.events(session.id, (event) => event.type === 'parked')
  const at = parked.at(-1)
  assert.ok(at?.type === 'parked' && at.fault.category === 'runner_unreachable' && at.resumeAt === null)
  assert.deepEqual(types(parked).filter((type) => type === 'retry').length, LIMITS.resolvesMax)
  const view = await api.turn(turnId)
  assert.deepEqual([view.state, view.parked?.category], ['parked', 'runner_unreachable'])
  assert.equal((await api.call<{ state: string }>('GET', `/v1/sessions/${session.id}`)).json.state, 'parked')
  await runner.again(runner.port)
  const events = await api.ended(session.id, turnId)
  assert.equal(events.at(-1)?.type, 'turn-end')
  const resumed = events.filter((event) => event.type === 'resumed')
  assert.deepEqual(
    resumed.map((event) => event.because),
    ['signal'],
  )
})

test('a runner with another identity on the old port is never used, and the right runner is found elsewhere', async (t) => {
  const mine = await testRunner(t)
  const file = join(tempFolder(t), 'where')
  writeFileSync(file, mine.url)
  const twice = inOrder({ calls: [HELLO] }, { text: 'first' })
  const { api } = await rig(t, twice, { runner: { ...mine.config, resolveCommand: ['cat', file] } })
  const session = await api.session()
  await api.ended(session.id, await api.prompt(session.id, prompt))
  await mine.stop()
  const stranger = await testRunner(t, {
    port: mine.port,
    ...(mine.config.tokenFile === undefined ? {} : { tokenFile: mine.config.tokenFile }),
  })
  assert.notEqual(stranger.runnerId, mine.runnerId)
  const turnId = await api.prompt(session.id, 'again')
  const retry = (await api.events(session.id, (event) => event.type === 'retry' && event.turnId === turnId)).at(-1)
  assert.ok(retry?.type === 'retry' && retry.fault.category === 'runner_identity_mismatch')
  const moved = await mine.again()
  writeFileSync(file, moved.url)
  const events = await api.ended(session.id, turnId)
  assert.equal(events.at(-1)?.type, 'turn-end')
  const token = readFileSync(mine.config.tokenFile ?? '', 'utf8').trim()
  const client = createRunnerClient({ url: stranger.url, token })
  atEnd(t, () => client.close())
  assert.deepEqual(await client.listBoxes(), [], 'nothing was made at the stranger')
})

test('if another runner takes over the port, the turn parks and continues only with its own runner, there or elsewhere', async (t) => {
  const folder = tempFolder(t)
  const [tokenFile, where, looks] = [join(folder, 'token'), join(folder, 'where'), join(folder, 'looks')]
  const first = { folder: join(folder, 'first'), tokenFile }
  const other = { folder: join(folder, 'other'), tokenFile }
  writeFileSync(looks, '')
  let mine = await runnerProcess(t, { ...first, port: 0 })
  const place = mine.url
  const port = Number(new URL(place).port)
  writeFileSync(where, place)
  const resolveCommand = ['sh', '-c', `echo look >> ${looks}; cat ${where}`]
  const append = { tool: 'bash', arguments: { command: 'echo ran >> ledger; cat ledger' } }
  const script = inOrder({ calls: [append] }, { text: 'done' })
  const { api } = await rig(t, script, { runner: { url: place, tokenFile, resolveCommand } })
  const { id } = await api.session()
  await api.ended(id, await api.prompt(id, 'first'))

  const token = readFileSync(tokenFile, 'utf8').trim()
  const looked = (): number => readFileSync(looks, 'utf8').split('\n').length
  /** The turn has met the other runner on the old port, has parked, and lets it alone each time that it looks. */
  const assertKeptAway = async (turnId: string): Promise<void> => {
    const isSettled = (event: SessionEvent): boolean => event.type === 'parked' || isTerminal(event)
    const events = await api.events(id, (event) => event.turnId === turnId && isSettled(event))
    const last = events.at(-1)
    const said = events.filter((event) => event.turnId === turnId).map((event) => JSON.stringify(event))
    assert.ok(last?.type === 'parked' && last.fault.category === 'runner_identity_mismatch', said.join('\n'))
    for (const from = looked(); looked() < from + 3;) await new Promise((resolve) => setTimeout(resolve, 10))
    assert.equal((await api.turn(turnId)).state, 'parked')
    const client = createRunnerClient({ url: place, token })
    atEnd(t, () => client.close())
    assert.equal((await client.health()).runnerId, stranger.runnerId)
    assert.deepEqual(await client.listBoxes(), [], 'nothing was made there')
  }
  const assertWentOn = async (turnId: string, times: number): Promise<void> => {
    const events = (await api.ended(id, turnId)).filter((event) => event.turnId === turnId)
    assert.equal(events.at(-1)?.type, 'turn-end', JSON.stringify(events.at(-1)))
    const woken = events.flatMap((event) => (event.type === 'resumed' ? [event.because] : []))
    assert.deepEqual(woken, ['signal'])
    const result = events.find((event) => event.type === 'tool-result')
    assert.deepEqual([result?.outcome, result?.text.match(/ran/g)?.length], ['ok', times])
  }

  await mine.kill()
  await assert.rejects(fetch(mine.url)) // a request on a connection that just broke may have run
  const stranger = await runnerProcess(t, { ...other, port })
  assert.deepEqual([stranger.url, stranger.runnerId === mine.runnerId], [place, false])
  const second = await api.prompt(id, 'second')
  await assertKeptAway(second)
  mine = await runnerProcess(t, { ...first, port: 0 })
  writeFileSync(where, mine.url)
  await assertWentOn(second, 2)

  await mine.kill()
  await assert.rejects(fetch(mine.url)) // a request on a connection that just broke may have run
  writeFileSync(where, place)
  const third = await api.prompt(id, 'third')
  await assertKeptAway(third)
  await stranger.kill()
  mine = await runnerProcess(t, { ...first, port })
  assert.equal(mine.url, place)
  await assertWentOn(third, 3)
})

test('a failing resolver means an unreachable runner, with a message that names the resolver', async (t) => {
  const { api } = await rig(t, script, { runner: { resolveCommand: ['false'] } })
  const session = await api.session({ policy: { park: 'never', backoffMs: 1 } })
  const turnId = await api.prompt(session.id, prompt)
  const error = (await api.ended(session.id, turnId)).at(-1)
  assert.ok(error?.type === 'turn-error')
  assert.deepEqual([error.category, error.phase], ['runner_unreachable', 'resolve'])
  assert.match(error.error, /resolver command/)
})
