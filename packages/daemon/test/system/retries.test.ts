/**
 * The journal leads: a failed attempt is in it before anything follows. If the daemon is killed in between, the next daemon
 * continues exactly there.
 */
import { tempFolder, atEnd } from '../../../../test/kit/folder.ts'
import assert from 'node:assert/strict'
import { join } from 'node:path'
import { test, type TestContext } from 'node:test'
import type { SessionEvent } from '@breakfall/wire'
import { type Api, assembled, assertNoGap, types } from '../support/api.ts'
import { spawnDaemon } from '../support/daemon-process.ts'
import {
  type Asked,
  inOrder,
  type ScriptedAnswer,
  startScriptedModel,
} from '../../../engine/test/support/scripted-model.ts'
import { QUICK, rig } from '../support/setup.ts'

const WHOLE = 'The quick brown fox jumps over the lazy dog, and then it does so again, and once more.'

/** The kept text in a request: an unfinished assistant message at the end. */
function keptOf({ messages }: Asked): string {
  const last = messages.at(-1)
  return last?.role === 'assistant' ? (last.content ?? '') : ''
}

/** The pauses let each piece leave before the connection breaks. */
const BROKEN = { cutAfter: 3, pauseMs: 20 } as const

const promptOf = ({ messages }: Asked): string => messages.findLast(({ role }) => role === 'user')?.content ?? ''

const retries = (events: readonly SessionEvent[]) => events.flatMap((event) => (event.type === 'retry' ? [event] : []))
const actions = (events: readonly SessionEvent[]): string[] => retries(events).map(({ action }) => action)

// ---- in the journal before the next begins ----

type Place = { readonly name: string; readonly answers: readonly ScriptedAnswer[] }
type Setting = {
  readonly says: string
  readonly places: readonly Place[]
  readonly profile?: 'llama-cpp'
  readonly actions: readonly string[]
}

const SETTINGS: readonly Setting[] = [
  {
    says: 'the same model again',
    places: [{ name: 'only', answers: [{ status: 500 }, BROKEN, {}] }],
    actions: ['retry', 'retry'],
  },
  {
    says: 'the next models of a list',
    places: [
      { name: 'first', answers: [{ status: 500 }] },
      { name: 'second', answers: [{ status: 401 }] },
      { name: 'third', answers: [BROKEN, {}] },
    ],
    actions: ['retry', 'retry', 'fallback', 'fallback', 'retry'],
  },
  {
    says: 'a continuation of kept text',
    profile: 'llama-cpp',
    places: [{ name: 'only', answers: [BROKEN, { ...BROKEN, cutAfter: 2 }, { status: 503 }, {}] }],
    actions: ['resume', 'resume', 'resume'],
  },
]

for (const { says, places, profile, actions: expected } of SETTINGS) {
  test(`a failed attempt is in the journal before the next request leaves: ${says}`, async (t) => {
    let requests = 0
    const seen: [requests: number, journalled: number][] = []
    const watched = Promise.withResolvers<{ api: Api; id: string }>()
    /** Looks into the journal at the moment of a request; the answer waits for it. */
    const look = async (): Promise<void> => {
      const n = requests++
      const { api, id } = await watched.promise
      const { json } = await api.call<{ lastSeq: number }>('GET', `/v1/sessions/${id}`)
      const events = await api.events(id, (event) => event.seq === json.lastSeq)
      seen.push([n, retries(events).length])
    }
    const servers = await Promise.all(
      places.map(({ answers }) =>
        startScriptedModel((asked, n) => {
          const given = answers[Math.min(n, answers.length) - 1] ?? {}
          return { text: WHOLE.slice(keptOf(asked).length), ...given, until: look() }
        }),
      ),
    )
    atEnd(t, () => Promise.all(servers.map((server) => server.close())))
    const [first, ...fallback] = servers.map(({ baseUrl }, index) => ({ baseUrl, name: places[index]?.name ?? '' }))
    assert.ok(first !== undefined)
    const { api } = await rig(t, () => ({}), {
      model: { ...first, profile, fallback },
      policy: { attemptsMax: places.length === 1 ? 6 : 3, backoffMs: 1 },
    })
    const { id } = await api.session()
    watched.resolve({ api, id })
    const events = await api.ended(id, await api.prompt(id, 'go'))
    const end = events.at(-1)
    assert.ok(end?.type === 'turn-end', JSON.stringify(end))
    assert.equal(end.text, WHOLE)
    assert.equal(assembled(events).get(1), WHOLE)
    assert.deepEqual(actions(events), expected)
    const servedBy = retries(events).flatMap(({ to }) =>
      to === undefined ? [] : [`${to.model} ${to.provider.baseUrl}`],
    )
    assert.deepEqual(
      servedBy,
      fallback.map(({ name, baseUrl }) => `${name} ${baseUrl}`),
      'who is asked next',
    )
    assert.ok(events.every((event) => event.type !== 'step-start' || event.model === first.name))
    assert.deepEqual(
      seen,
      expected.map((_, n) => [n, n]).concat([[expected.length, expected.length]]),
      'each request finds every failure before it in the journal',
    )
  })
}

test('the turn stays with its fallback model: a dead first model does not use up the budget', async (t) => {
  const steps = 8
  const dead = await startScriptedModel(() => ({ status: 500 }))
  const good = await startScriptedModel(
    inOrder(
      ...Array.from({ length: steps }, (_, n) => ({
        calls: [{ id: `c${n}`, tool: 'read', arguments: { path: 'x' } }],
      })),
      { text: 'done' },
    ),
  )
  atEnd(t, () => Promise.all([dead.close(), good.close()]))
  const { api } = await rig(t, () => ({}), {
    model: { baseUrl: dead.baseUrl, name: 'dead', fallback: [{ baseUrl: good.baseUrl, name: 'good' }] },
    policy: { attemptsMax: 3, failuresMax: 10, backoffMs: 1 },
  })
  const { id } = await api.session()
  const events = await api.ended(id, await api.prompt(id, 'go'))
  assert.equal(events.at(-1)?.type, 'turn-end', JSON.stringify(events.at(-1)))
  assert.deepEqual([dead.asked.length, good.asked.length], [3, steps + 1])
  const again = await api.ended(id, await api.prompt(id, 'another'), events.length)
  assert.equal(again.at(-1)?.type, 'turn-end')
  assert.equal(dead.asked.length, 6, 'the next turn asks the first model again')
})

test('a local model server that was given up does not end the turn while there is another model', async (t) => {
  const good = await startScriptedModel(() => ({ text: 'from the second' }))
  atEnd(t, () => good.close())
  const { api } = await rig(t, () => ({}), {
    model: {
      baseUrl: '',
      name: 'local',
      serve: { command: ['/nowhere/model-server', '{port}'] },
      fallback: [{ baseUrl: good.baseUrl, name: 'second' }],
    },
  })
  const { id } = await api.session()
  const events = await api.ended(id, await api.prompt(id, 'go'))
  const end = events.at(-1)
  assert.ok(end?.type === 'turn-end', JSON.stringify(end))
  assert.equal(end.text, 'from the second')
  assert.deepEqual(
    retries(events).map(({ action, fault }) => [action, fault.category]),
    [['fallback', 'process_start_failed']],
  )
})

test('kept text is discarded and requested again if the configuration no longer allows a continuation', async (t) => {
  let profile: 'llama-cpp' | undefined = 'llama-cpp'
  const model = await startScriptedModel((asked, n) => {
    return { text: WHOLE.slice(keptOf(asked).length), ...(n === 1 ? BROKEN : {}) }
  })
  atEnd(t, () => model.close())
  const { api } = await rig(t, () => ({}), {
    model: { baseUrl: model.baseUrl, name: 'm', profile },
    reload: () => ({ model: { baseUrl: model.baseUrl, name: 'm', profile }, runner: {} }),
    policy: { backoffMs: 2_000 },
    dice: () => {
      profile = undefined // called when the delay is chosen: the file changes during the wait
      return 0.05
    },
  })
  const { id } = await api.session()
  const events = await api.ended(id, await api.prompt(id, 'go'))
  const end = events.at(-1)
  assert.ok(end?.type === 'turn-end', JSON.stringify(end))
  assert.equal(end.text, WHOLE)
  assert.equal(assembled(events).get(1), WHOLE)
  assert.deepEqual(actions(events), ['resume'])
  assert.deepEqual(model.asked.map(keptOf), ['', ''])
})

// ---- killed in between ----

/** Kills a daemon at each of the points in turn, each in a separate session, and lets the next daemon finish it. */
async function killAtEach(
  t: TestContext,
  options: object,
  points: readonly string[],
  check: (events: readonly SessionEvent[], prompt: string, point: string) => void,
): Promise<void> {
  const stateDir = join(tempFolder(t), 'state')
  const all = { stateDir, limits: QUICK, ...options }
  let daemon = await spawnDaemon(all)
  atEnd(t, () => daemon.kill('SIGKILL'))
  for (const point of points) {
    const { id } = await daemon.api.session()
    const prompt = `killed at ${point}`
    await daemon.arm(point)
    const key = { 'idempotency-key': point }
    await daemon.api.prompt(id, prompt, {}, key).catch(() => null)
    assert.equal(await daemon.ended, 'SIGKILL', `died at ${point}`)
    daemon = await spawnDaemon(all)
    const events = await daemon.api.ended(id, await daemon.api.prompt(id, prompt, {}, key))
    try {
      assertNoGap(events)
      assert.ok(types(events).includes('taken-over'))
      check(events, prompt, point)
    } catch (cause) {
      throw new Error(`${prompt}: ${types(events).join(' ')}`, { cause })
    }
  }
  daemon.kill('SIGTERM')
  assert.equal(await daemon.ended, 0)
}

test('killed in the middle of a fallback list, a turn continues at the same model with the attempts that are left', async (t) => {
  const bad = await startScriptedModel(() => ({ status: 500 }))
  const counts = new Map<string, number>()
  const good = await startScriptedModel((asked) => {
    const n = (counts.get(promptOf(asked)) ?? 0) + 1
    counts.set(promptOf(asked), n)
    return n <= 2 ? { status: 503 } : { text: WHOLE }
  })
  atEnd(t, () => Promise.all([bad.close(), good.close()]))
  const options = {
    model: { baseUrl: bad.baseUrl, name: 'first', fallback: [{ baseUrl: good.baseUrl, name: 'second' }] },
    policy: { attemptsMax: 3, backoffMs: 1, park: 'never' },
  }
  const all = ['retry', 'retry', 'fallback', 'retry', 'retry']
  /** An attempt that is not in the journal yet is lost with the daemon, and made again at the same model. */
  const lost: Readonly<Record<string, readonly [bad: number, good: number]>> = {
    'after:retry#1': [0, 0],
    'after:retry#2': [0, 0],
    'before:retry#3': [1, 0],
    'after:retry#3': [0, 0],
    'answer:failed#3': [1, 0],
    'answer:failed#4': [0, -1],
    'after:retry#4': [0, 0],
    'before:retry#5': [0, -1],
    'after:retry#5': [0, 0],
    'answer:text-delta': [0, 1],
  }
  const asks = (model: { asked: readonly Asked[] }, prompt: string): number =>
    model.asked.filter((asked) => promptOf(asked) === prompt).length
  await killAtEach(t, options, Object.keys(lost), (events, prompt, point) => {
    const end = events.at(-1)
    assert.ok(end?.type === 'turn-end', JSON.stringify(end))
    assert.equal(assembled(events).get(1), WHOLE)
    const [badMore = 0, goodMore = 0] = lost[point] ?? []
    // The second model fails twice and no more: a failure that was lost does not happen again.
    const expected = goodMore < 0 ? all.slice(0, goodMore) : all
    assert.deepEqual(actions(events), expected)
    assert.deepEqual([asks(bad, prompt), asks(good, prompt)], [3 + badMore, 3 + Math.max(0, goodMore)])
    assert.equal(end.faultsSurvived, expected.length + 1)
  })
})

test('killed in the middle of a continuation, a turn continues from the text in the journal', async (t) => {
  const counts = new Map<string, number>()
  const model = await startScriptedModel((asked) => {
    const n = (counts.get(promptOf(asked)) ?? 0) + 1
    counts.set(promptOf(asked), n)
    const text = WHOLE.slice(keptOf(asked).length)
    return { text, ...(n <= 2 ? BROKEN : {}) }
  })
  atEnd(t, () => model.close())
  const options = {
    model: { baseUrl: model.baseUrl, name: 'only', profile: 'llama-cpp' },
    policy: { attemptsMax: 3, backoffMs: 1, park: 'never' },
  }
  const points = [
    'after:retry#1',
    'answer:failed#2',
    'before:retry#2',
    'after:retry#2',
    'answer:done',
    'before:turn-end',
  ]
  await killAtEach(t, options, points, (events, prompt, point) => {
    const end = events.at(-1)
    assert.ok(end?.type === 'turn-end', JSON.stringify(end))
    assert.equal(end.text, WHOLE)
    assert.equal(assembled(events).get(1), WHOLE)
    assert.ok(
      actions(events).every((action) => action === 'resume'),
      actions(events).join(' '),
    )
    const kept = model.asked.filter((asked) => promptOf(asked) === prompt).map(keptOf)
    assert.equal(kept[0], '')
    assert.ok(
      kept.slice(1).every((text) => text !== '' && WHOLE.startsWith(text)),
      `${point}: ${JSON.stringify(kept)}`,
    )
    const discarded = events.filter((event) => event.type === 'part-discarded')
    const firstAttempt = Math.min(...events.flatMap((event) => (event.type === 'text-delta' ? [event.attempt] : [])))
    assert.ok(
      discarded.every((event) => event.attempt > firstAttempt),
      'what was kept is never taken back',
    )
  })
})
