import { tempFolder, atEnd } from '../../../../test/kit/folder.ts'
import assert from 'node:assert/strict'
import { mkdirSync, readdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { test, type TestContext } from 'node:test'
import { Fault } from '@breakfall/faults'
import type { AttemptRecord, TryEvent, TryOptions } from '@breakfall/model'
import type { SessionEvent } from '@breakfall/wire'
import type { DaemonOptions } from '../../src/index.ts'
import { runnerTokenFile } from '../../../engine/src/runner/local-runner.ts'
import { assembled, assertNoGap } from '../support/api.ts'
import { type DaemonProcess, spawnDaemon } from '../support/daemon-process.ts'
import { testRunner } from '../support/runner.ts'
import { inOrder, type ScriptedModel } from '../../../engine/test/support/scripted-model.ts'
import { optionsFor, rig } from '../support/setup.ts'

const KEY = 'an-unusual-key-without-a-known-shape'
const [HALF, REST] = [KEY.slice(0, 18), KEY.slice(18)]

/** Half a key on one stream, a word on the other, and when somebody says so the rest. */
const HALF_BY_HALF = `printf 'key=${HALF}'; printf warned >&2; until [ -e go ]; do sleep 0.02; done; printf -- '${REST}\\n'`

const printed = (events: readonly SessionEvent[], stream: string): string =>
  events.flatMap((event) => (event.type === 'tool-output' && event.stream === stream ? [event.text] : [])).join('')

const resultOf = (events: readonly SessionEvent[]): string =>
  events.flatMap((event) => (event.type === 'tool-result' ? [event.text] : [])).join('\n')

/** By then the daemon has read the first half, which came before this. */
const isWarning = (event: SessionEvent): boolean => event.type === 'tool-output' && event.stream === 'stderr'

function assertNotIn(stateDir: string, text: string): void {
  const folder = join(stateDir, 'journal')
  for (const name of readdirSync(folder)) assert.ok(!readFileSync(join(folder, name)).includes(text), name)
}

const keyed = (model: ScriptedModel): DaemonOptions['model'] => ({
  baseUrl: model.baseUrl,
  name: 'scripted',
  apiKey: KEY,
})

test('a key that a command prints in two halves is in no event, journal or model request, and nothing else is lost', async (t) => {
  const { options, workspace, model, stateDir } = await optionsFor(
    t,
    inOrder({ calls: [{ tool: 'bash', arguments: { command: HALF_BY_HALF } }] }, { text: 'done' }),
  )
  const { api } = await rig(t, () => ({}), { ...options, stateDir, model: keyed(model) })
  const { id } = await api.session({ box: { workspace } })
  const turnId = await api.prompt(id, 'go')
  const first = await api.events(id, isWarning)
  writeFileSync(join(workspace, 'go'), '')
  const events = [...first, ...(await api.ended(id, turnId, first.length))]
  assertNoGap(events)
  assert.equal(printed(first, 'stdout'), 'key=', 'what is no part of it does not wait')
  assert.equal(printed(events, 'stdout'), 'key=[redacted]\n')
  assert.equal(printed(events, 'stderr'), 'warned')
  assert.match(resultOf(events), /key=(?:warned)?\[redacted\]/)
  assert.equal(events.at(-1)?.type, 'turn-end')
  const said = JSON.stringify(events.filter((event) => event.type !== 'tool-call'))
  assert.ok(!said.includes(HALF) && !said.includes(REST), said)
  const told = model.asked.flatMap(({ messages }) => messages.filter(({ role }) => role === 'tool'))
  assert.ok(told.length > 0 && !JSON.stringify(told).includes(REST), 'sent to the model')
})

test('killed while half a key is held back, the next daemon continues: nothing is lost or shown twice', async (t) => {
  const { options, workspace, model } = await optionsFor(
    t,
    inOrder({ calls: [{ tool: 'bash', arguments: { command: HALF_BY_HALF } }] }, { text: 'done' }),
  )
  const again = (): Promise<DaemonProcess> => spawnDaemon({ ...options, model: keyed(model) })
  let daemon = await again()
  atEnd(t, () => daemon.kill('SIGKILL'))
  const { id } = await daemon.api.session({ box: { workspace } })
  const turnId = await daemon.api.prompt(id, 'go')
  // Twice: what the first has told is in the journal when the second reads it again, or does not get to it.
  for (let kill = 1; kill <= 2; kill += 1) {
    await daemon.api.events(id, isWarning)
    daemon.kill('SIGKILL')
    await daemon.ended
    daemon = await again()
  }
  writeFileSync(join(workspace, 'go'), '')
  const events = await daemon.api.ended(id, turnId)
  assertNoGap(events)
  assert.equal(printed(events, 'stdout'), 'key=[redacted]\n')
  assert.equal(printed(events, 'stderr'), 'warned')
  assert.equal(events.at(-1)?.type, 'turn-end')
})

test('killed between the end of a long output and its result, the next daemon finds the exit and shows nothing twice', async (t) => {
  const command = "head -c 700000 /dev/zero | tr '\\0' x; echo; echo last"
  const { options, workspace } = await optionsFor(
    t,
    inOrder({ calls: [{ tool: 'bash', arguments: { command } }] }, { text: 'done' }),
  )
  let daemon = await spawnDaemon(options)
  atEnd(t, () => daemon.kill('SIGKILL'))
  const { id } = await daemon.api.session({ box: { workspace } })
  await daemon.arm('before:tool-result')
  const turnId = await daemon.api.prompt(id, 'go')
  assert.equal(await daemon.ended, 'SIGKILL')
  daemon = await spawnDaemon(options)
  const events = await daemon.api.events(id, ({ type }) => type === 'turn-end' || type === 'retry')
  assert.equal(events.at(-1)?.type, 'turn-end', `${turnId}: ${JSON.stringify(events.at(-1))}`)
  assert.equal(printed(events, 'stdout').split('last').length, 2)
})

test('of a long output or file the two ends are shown, and no part of a key at the cut', async (t) => {
  const said = (chars: number): string => `head -c ${chars} /dev/zero | tr '\\0' x`
  const quoted = `printf '%s%s' ${HALF} ${REST}`
  const { options, workspace, model, stateDir } = await optionsFor(
    t,
    inOrder(
      // The tail of 256 KiB begins within the key.
      { calls: [{ tool: 'bash', arguments: { command: `${said(400_000)}; ${quoted}; ${said(262_144 - 20)}` } }] },
      // The head of 16 Ki characters that the model reads ends within it, and so does that of a file.
      { calls: [{ tool: 'bash', arguments: { command: `(${said(16_364)}; ${quoted}; ${said(40_000)}) | tee big` } }] },
      { calls: [{ tool: 'read', arguments: { path: 'big' } }] },
      { text: 'done' },
    ),
  )
  const { api } = await rig(t, () => ({}), { ...options, stateDir, model: keyed(model) })
  const { id } = await api.session({ box: { workspace } })
  const events = await api.ended(id, await api.prompt(id, 'go'))
  assert.equal(events.at(-1)?.type, 'turn-end')
  const told = printed(events, 'stdout') + resultOf(events)
  assert.match(told, /x\[redacted\]x/)
  for (const piece of [KEY.slice(0, 10), KEY.slice(-10)]) assert.ok(!told.includes(piece), piece)
})

test('the tokens of the daemon and its runner are secrets, whatever the configuration says', async (t) => {
  const stateDir = tempFolder(t)
  const tokenFile = join(stateDir, 'tokens')
  const tokens = ['daemons-first-token-0', 'daemons-second-token-1']
  const runnerToken = 'runners-own-token-2'
  writeFileSync(tokenFile, tokens.join('\n'), { mode: 0o600 })
  writeFileSync(runnerTokenFile(stateDir), runnerToken, { mode: 0o600 })
  const command = `printf '%s%s' ${runnerToken.slice(0, 9)} ${runnerToken.slice(9)}`
  const script = inOrder({ calls: [{ tool: 'bash', arguments: { command } }] }, { text: tokens.join(' ') })
  const { api } = await rig(t, script, { stateDir, tokenFile })
  const { id } = await api.session()
  const events = await api.ended(id, await api.prompt(id, 'go'))
  assert.equal(printed(events, 'stdout'), '[redacted]')
  const end = events.at(-1)
  assert.ok(end?.type === 'turn-end')
  assert.equal(end.text, '[redacted] [redacted]')
})

test('a key that a model streams in chunks is in no event, and the rest of its answer is complete', async (t) => {
  const answer = `The key is ${KEY}, an odd one; keep it, as I do.\nThat is an`
  const { options, model, stateDir } = await optionsFor(t, () => ({ text: answer, pieceChars: 5, pauseMs: 30 }))
  const { api } = await rig(t, () => ({}), { ...options, stateDir, model: keyed(model) })
  const { id } = await api.session()
  const events = await api.ended(id, await api.prompt(id, 'go'))
  const whole = answer.replace(KEY, '[redacted]')
  const end = events.at(-1)
  assert.ok(end?.type === 'turn-end')
  assert.equal(end.text, whole)
  assert.equal(assembled(events).get(1), whole)
  assert.ok(events.filter((event) => event.type === 'text-delta').length > 1, 'it came as it was said')
  assertNotIn(stateDir, 'unusua')
})

type Said = (options: TryOptions) => AsyncIterable<TryEvent>

/** A daemon whose model says what a test hands it, one event at a time. */
async function saying(t: TestContext, said: Said) {
  const { api, stateDir } = await rig(t, () => ({}), {
    model: { baseUrl: 'http://127.0.0.1:1/v1', name: 'm', apiKey: KEY, profile: 'llama-cpp' },
    tryAnswer: (_, options) => said(options),
  })
  const { id } = await api.session()
  return { api, id, turnId: await api.prompt(id, 'go'), stateDir }
}

const none = { value: 0, quality: 'known' } as const
const record: AttemptRecord = {
  attempt: 1,
  model: '',
  baseUrl: '',
  startedAt: '',
  durationMs: 0,
  phase: 'stream',
  bytes: 4,
  resumed: false,
  fault: null,
  action: null,
  delayMs: 0,
  usage: { inputTokens: none, outputTokens: none },
}
const done = { type: 'done', finish: 'stop', proven: true, record } as const

function delta(type: 'text-delta' | 'reasoning-delta', part: string, text: string): TryEvent {
  return { type, attempt: 1, part, text }
}

function broken(): TryEvent {
  const { report: fault } = new Fault('model_stream_interrupted')
  return { type: 'failed', fault, diverged: false, contentStarted: true, record }
}

test('an answer that breaks off within a key continues before it, and the key appears nowhere', async (t) => {
  const kept: string[] = []
  const { api, id, turnId } = await saying(t, async function* (options) {
    kept.push(options.kept ?? '')
    yield delta('text-delta', 'p1', kept.length === 1 ? `The key that I was given is ${HALF}` : `${KEY}. So it is.`)
    yield kept.length === 1 ? broken() : done
  })
  const events = await api.ended(id, turnId)
  assert.deepEqual(kept, ['', 'The key that I was given is '])
  const end = events.at(-1)
  assert.ok(end?.type === 'turn-end')
  assert.deepEqual(
    [end.text, assembled(events).get(1)],
    Array(2).fill('The key that I was given is [redacted]. So it is.'),
  )
  assert.ok(!JSON.stringify(events).includes(HALF))
})

test('a key that continues after reasoning or in another part is held back, too; reasoning and calls do not wait for text', async (t) => {
  const { api, id, turnId } = await saying(t, async function* () {
    yield delta('reasoning-delta', 'p1', `thinking of ${HALF}`)
    yield delta('reasoning-delta', 'p2', `${REST}, I reach an`)
    yield delta('text-delta', 'p3', `end: ${HALF}`)
    yield delta('reasoning-delta', 'p4', 'hm')
    yield delta('text-delta', 'p5', `${REST}; and an`)
    yield { type: 'tool-draft', attempt: 1, part: 'p6', tool: 'bash', argumentsBytes: 1 }
    yield delta('text-delta', 'p7', '-other a')
    yield done
  })
  const events = await api.ended(id, turnId)
  const kinds = events.flatMap((event) =>
    event.type === 'text-delta' || event.type === 'reasoning-delta'
      ? [[event.type.slice(0, 4), event.text]]
      : event.type === 'tool-draft'
        ? [['tool', '']]
        : [],
  )
  const runs = kinds.reduce<string[][]>((joined, [kind = '', text = '']) => {
    const last = joined.at(-1)
    if (last?.[0] === kind) last[1] += text
    else joined.push([kind, text])
    return joined
  }, [])
  assert.deepEqual(runs, [
    ['reas', 'thinking of [redacted], I reach an'],
    ['text', 'end: '],
    ['reas', 'hm'],
    ['text', '[redacted]; and an'],
    ['tool', ''],
    ['text', '-other a'],
  ])
  const end = events.at(-1)
  assert.ok(end?.type === 'turn-end')
  assert.equal(end.text, 'end: [redacted]; and an-other a')
  assert.equal(assembled(events).get(1), end.text)
})

test('a turn cancelled while half a key is held back does not show it, neither from an answer nor from a command', async (t) => {
  const answering = await saying(t, async function* ({ signal }) {
    yield delta('text-delta', 'p1', `it is ${HALF}`)
    await new Promise((resolve) => signal?.addEventListener('abort', resolve))
    yield broken()
  })
  await answering.api.events(answering.id, ({ type }) => type === 'text-delta')
  await answering.api.call('POST', `/v1/turns/${answering.turnId}/cancel`, { reason: `it said ${KEY}` })
  const answered = await answering.api.ended(answering.id, answering.turnId)
  assert.equal(assembled(answered).get(1), 'it is ')
  assertNotIn(answering.stateDir, 'unusua')

  const work = join(tempFolder(t), 'work')
  mkdirSync(work)
  const script = inOrder({ calls: [{ tool: 'bash', arguments: { command: HALF_BY_HALF } }] }, { text: 'done' })
  const { options, model } = await optionsFor(t, script)
  const { api } = await rig(t, () => ({}), { ...options, runner: { allowWorkspace: [work] }, model: keyed(model) })
  const { id } = await api.session({ box: { workspace: work } })
  const turnId = await api.prompt(id, 'go')
  await api.events(id, isWarning)
  await api.call('POST', `/v1/turns/${turnId}/cancel`, {})
  const events = await api.ended(id, turnId)
  assert.equal(printed(events, 'stdout'), 'key=[redacted]', 'it was most of a key')
  assert.ok(!resultOf(events).includes(HALF), resultOf(events))
  const end = events.at(-1)
  assert.ok(end?.type === 'turn-error' && end.category === 'cancelled')
})

test('a session keeps its secrets while many others come and go, and has them again when it is loaded again', async (t) => {
  const token = 'Zq7-session-A-9f3b1c77d2'
  const script = inOrder(
    { calls: [{ tool: 'bash', arguments: { command: 'echo "token: $GITHUB_TOKEN"' } }] },
    { text: 'done' },
  )
  const runner = await testRunner(t)
  const lines: string[] = []
  const { api, model } = await rig(t, script, {
    runner: runner.config,
    limits: { sessionsIdleMax: 1 },
    logLevel: 'debug',
    logTo: { write: (line) => void lines.push(line) },
  })
  const { id, title } = await api.session({ title: `deploy with ${token}`, box: { env: { GITHUB_TOKEN: token } } })
  assert.equal(title, 'deploy with [redacted]')
  const use = async (prompt: string): Promise<void> => {
    const turnId = await api.prompt(id, prompt)
    const events = (await api.ended(id, turnId)).filter((event) => event.turnId === turnId)
    assert.equal(printed(events, 'stdout'), 'token: [redacted]\n')
  }
  await use('go')
  for (let n = 0; n < 70; n += 1) {
    const other = await api.session({ box: { env: { API_TOKEN: `tenant-${n}-K3y-${n * 7919}` } } })
    await api.call('PATCH', `/v1/sessions/${other.id}`, { title: 'x' })
  }
  await use(`use ${token}`)
  const untitled = await api.session({ box: { env: { GITHUB_TOKEN: token } } })
  await api.ended(untitled.id, await api.prompt(untitled.id, `use ${token}`))
  const named = await api.call<{ title: string }>('GET', `/v1/sessions/${untitled.id}`)
  assert.equal(named.json.title, 'use [redacted]')
  assert.ok(!JSON.stringify(model.asked).includes(token))
  assert.ok(!lines.join('').includes(token))
})
