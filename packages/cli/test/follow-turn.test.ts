import assert from 'node:assert/strict'
import { test } from 'node:test'
import { Fault } from '@breakfall/faults'
import type { SessionEvent, Turn } from '@breakfall/wire'
import { type FollowInput, followTurn } from '../src/commands/run/follow-turn.ts'
import { afterRehearsal } from '../src/commands/run/rehearse.ts'
import { sessionLine } from '../src/commands/run/run.ts'
import { anEvent, aSession, aSummary, aTurn, capturedOutput, jsonLines } from './samples.ts'

const unused = (): never => assert.fail('not asked for')

/** A daemon whose session has one turn, which ended at that time. */
const input = (endedAt: number): FollowInput => ({
  client: {
    approve: unused,
    createSession: unused,
    session: unused,
    prompt: unused,
    resume: unused,
    releaseBox: () => Promise.resolve(true),
    processes: () => Promise.resolve({ processes: [] }),
    cancel: unused,
    turn: (): Promise<Turn> => Promise.resolve(aTurn({ endedAt: new Date(endedAt).toISOString() })),
    events: async function* (_id, options): AsyncGenerator<SessionEvent> {
      const end = anEvent({ type: 'turn-end', seq: 2, text: 'done', steps: 1, faultsSurvived: 0 })
      for (const event of [anEvent({ type: 'turn-start', seq: 1, prompt: 'p' }), end])
        if (event.seq > Number(options?.after ?? 0)) yield await Promise.resolve(event)
    },
  },
  prompt: undefined,
  create: {},
  session: aSession({ lastSeq: 2, turn: aSummary() }),
  parkWaitMs: 1,
  isLasting: () => false,
  interrupt: {
    throwIfInterrupted: () => undefined,
    onCancel: () => undefined,
    leaveInstead: () => undefined,
    signal: new AbortController().signal,
    hungUp: new AbortController().signal,
  },
})

test('a turn that its daemon finished before the run asked for it is the turn of the run', async () => {
  const { out, text } = capturedOutput({ json: true })
  assert.equal(await followTurn(input(Date.now()), out), 0)
  const result = jsonLines(text()).at(-1)
  assert.deepEqual([result?.['outcome'], result?.['text']], ['finished', 'done'])
})

test('a turn that lost its key and was resumed meanwhile is followed to its end', async () => {
  const { out, text } = capturedOutput({ json: true })
  const fault = new Fault('model_auth_failed', { reason: 'key_missing' }).report
  const { client, ...rest } = input(Date.now())
  const events: typeof client.events = async function* (_id, options) {
    yield await Promise.resolve(anEvent({ type: 'parked', seq: 2, fault, resumeAt: null }))
    if (options?.signal?.aborted !== true)
      yield anEvent({ type: 'turn-end', seq: 3, text: 'done', steps: 1, faultsSurvived: 0 })
  }
  const turn = (): Promise<Turn> => Promise.resolve(aTurn({ parked: null, endedAt: new Date().toISOString() }))
  assert.equal(await followTurn({ ...rest, client: { ...client, events, turn } }, out), 0)
  assert.equal(jsonLines(text()).at(-1)?.['outcome'], 'finished')
})

test('a turn that ended before the run leaves nothing to continue', async () => {
  const { out } = capturedOutput({ json: true })
  await assert.rejects(followTurn(input(0), out), { category: 'invalid_request', error: /has no unfinished turn/ })
})

test('the session line names the model unless the line before did, and its server if it is known', () => {
  const provider = { name: 'default', baseUrl: 'http://127.0.0.1:1/v1', api: 'openai-chat' }
  const session = { id: 's1', model: 'm', provider }
  assert.equal(sessionLine(session, 'm'), 'session: s1')
  assert.equal(sessionLine(session, undefined), 'session: s1, model m at http://127.0.0.1:1/v1')
  assert.equal(sessionLine(session, 'x'), 'session: s1, model m at http://127.0.0.1:1/v1')
  assert.equal(sessionLine({ ...session, provider: null }, undefined), 'session: s1, model m', 'none is known')
})

test('a rehearsal ends with the next command, which works from where the rehearsal was started', () => {
  const [where = '', command, how] = afterRehearsal({ checkout: undefined }, undefined)
  assert.match(where, /scratch folder, which is now removed/)
  assert.equal(command, '  breakfall run "make the failing test pass"')
  const npm = { checkout: '/home/me/break fall' }
  const after = afterRehearsal(npm, undefined)
  assert.equal(after[1], `  npm --prefix '/home/me/break fall' start -- "make the failing test pass"`)
  assert.match(how ?? '', /or see: breakfall config example$/)
  assert.match(after[2] ?? '', /see: npm --prefix '\/home\/me\/break fall' start -- config example$/)
  assert.deepEqual(afterRehearsal(npm, 'gpt-5 at https://x.example (OPENAI_API_KEY is set)').slice(2), [], 'it is set')
})
