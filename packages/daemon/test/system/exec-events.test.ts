/** What becomes of a command whose events are lost on their way from the runner. */
import assert from 'node:assert/strict'
import { createServer, request, type IncomingMessage, type ServerResponse } from 'node:http'
import { once } from 'node:events'
import type { AddressInfo } from 'node:net'
import { test, type TestContext } from 'node:test'
import { atEnd } from '../../../../test/kit/folder.ts'
import { LIMIT } from '../../../../test/kit/wait.ts'
import type { RunnerConfig } from '@breakfall/engine'
import { lastOf, ofType } from '../../../engine/test/support/events.ts'
import { testRunner } from '../support/runner.ts'
import { inOrder, type Script } from '../../../engine/test/support/scripted-model.ts'
import { rig } from '../support/setup.ts'

const bash = (command: string): Script =>
  inOrder({ calls: [{ id: 'c1', tool: 'bash', arguments: { command } }] }, { text: 'done' })

test('a command whose events were skipped once is followed again from the last one, and its output is complete', async (t) => {
  const { config } = await lossy(t, (stream, seq) => stream === 1 && seq === 3)
  const { api } = await rig(t, bash('echo one; sleep 0.2; echo two; sleep 0.2; echo three'), { runner: config })
  const { id } = await api.session()
  const events = await api.ended(id, await api.prompt(id, 'go'))
  assert.equal(events.at(-1)?.type, 'turn-end')
  const [result] = ofType(events, 'tool-result')
  assert.deepEqual([result?.outcome, result?.text], ['ok', 'one\ntwo\nthree'])
  assert.deepEqual(
    ofType(events, 'retry').map(({ action, fault }) => [action, fault.category]),
    [['resolve', 'runner_protocol_error']],
  )
})

test('a command whose events are always skipped ends the turn, which says so and that the outcome is unknown', async (t) => {
  const { config, streams } = await lossy(t, (_, seq) => seq === 2)
  const { api } = await rig(t, bash('echo one; sleep 0.2; echo two'), { runner: config })
  const { id } = await api.session()
  const end = lastOf(await api.ended(id, await api.prompt(id, 'go')), 'turn-error')
  assert.deepEqual([end.category, end.sideEffects, end.stopped], ['runner_protocol_error', 'unknown', 'resolves_spent'])
  assert.match(end.error, /skipped from event 1 to 3/)
  assert.equal(streams(), 9)
})

test('a lost request during a cancel costs nothing of what the command printed at its end', LIMIT, async (t) => {
  let isLost = false
  const { config } = await lossy(t, () => false, {
    isReset: (stream) => {
      if (stream < 2 || isLost) return false
      isLost = true
      return true
    },
  })
  const command = 'trap "echo last words; exit 3" TERM; echo started; sleep 30 & wait'
  const { api } = await rig(t, bash(command), { runner: config })
  const { id } = await api.session()
  const turnId = await api.prompt(id, 'go')
  await api.events(id, ({ type }) => type === 'tool-output')
  await api.call('POST', `/v1/turns/${turnId}/cancel`)
  const events = await api.ended(id, turnId)
  assert.equal(isLost, true)
  assert.match(ofType(events, 'tool-result')[0]?.text ?? '', /^started\nlast words\n(?!.*not all of its output)/)
})

// ---- details ----

type Loss = (stream: number, seq: number) => boolean

/** A runner behind a proxy that leaves out events. Its streams of events are counted from 1. */
async function lossy(
  t: TestContext,
  isLost: Loss,
  { isReset = () => false }: { readonly isReset?: (stream: number) => boolean } = {},
): Promise<{ readonly config: RunnerConfig; readonly streams: () => number }> {
  const runner = await testRunner(t)
  let streams = 0
  const server = createServer((req, res) => {
    const isStream = req.method === 'GET' && /\/events(\?|$)/.test(req.url ?? '')
    if (!isStream) return forward(req, res, (answer) => answer.pipe(res))
    const stream = (streams += 1)
    if (isReset(stream)) return void req.socket.destroy()
    forward(req, res, (answer) => passFrames(answer, res, (seq) => !isLost(stream, seq)))
  }).listen(0, '127.0.0.1')
  await once(server, 'listening')
  atEnd(t, () => {
    server.closeAllConnections()
    server.close()
  })
  const forward = (req: IncomingMessage, res: ServerResponse, pass: (answer: IncomingMessage) => void): void => {
    const { method, url, headers } = req
    const onward = request({ host: '127.0.0.1', port: runner.port, method, path: url, headers }, (answer) => {
      res.writeHead(answer.statusCode ?? 500, answer.headers)
      pass(answer)
    })
    onward.on('error', () => res.destroy())
    res.on('close', () => onward.destroy())
    req.pipe(onward)
  }
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`
  return { config: { ...runner.config, url }, streams: () => streams }
}

function passFrames(answer: IncomingMessage, res: ServerResponse, isPassed: (seq: number) => boolean): void {
  let text = ''
  answer.on('data', (chunk: Buffer) => {
    text += chunk.toString()
    const frames = text.split('\n\n')
    text = frames.pop() ?? ''
    for (const frame of frames) if (isPassed(Number(/"seq":(\d+)/.exec(frame)?.[1]))) res.write(`${frame}\n\n`)
  })
  answer.on('end', () => res.end(text))
}
