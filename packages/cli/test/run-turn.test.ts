import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { Session } from '@breakfall/wire'
import { sessionLine } from '../src/commands/run.ts'
import { afterRehearsal } from '../src/run/without-prompt.ts'
import { run, type RunInput } from '../src/run/turn.ts'
import type { ModelChoice } from '../src/model/choose.ts'
import type { Output } from '../src/render/output.ts'

const session = { id: 's1', turnId: null, lastSeq: 2, model: 'm' } as unknown as Session

/** A daemon whose session has one turn, which has ended at that time. */
const input = (endedAt: number): RunInput =>
  ({
    client: {
      goesOnWith: () => undefined,
      turn: () => Promise.resolve({ id: 't1', endedAt: new Date(endedAt).toISOString() }),
      events: async function* (_id: string, { after }: { after: number }) {
        const end = { type: 'turn-end', seq: 2, turnId: 't1', text: 'done', steps: 1, faultsSurvived: 0 }
        for (const event of [{ type: 'turn-start', seq: 1, turnId: 't1', prompt: 'p' }, end])
          if (event.seq > after) yield await Promise.resolve(event)
      },
    },
    prompt: undefined,
    create: {},
    session,
    parkWaitMs: 1,
    interrupt: {
      throwIfAsked: () => undefined,
      reaches: () => undefined,
      leaves: () => undefined,
      signal: new AbortController().signal,
    },
  }) as unknown as RunInput

function lines(): { out: Output; said: Record<string, unknown>[] } {
  const said: Record<string, unknown>[] = []
  const take = (value: Record<string, unknown>): void => void said.push(value)
  return { out: { json: true, data: take, result: take, knows: () => undefined } as unknown as Output, said }
}

test('a turn that its daemon finished before the run asked for it is the turn that was taken up', async () => {
  const { out, said } = lines()
  assert.equal(await run(input(Date.now()), out), 0)
  assert.deepEqual([said.at(-1)?.['outcome'], said.at(-1)?.['text']], ['finished', 'done'])
})

test('a turn that had ended before leaves nothing to go on with', async () => {
  await assert.rejects(run(input(0), lines().out), { category: 'invalid_request', error: /has no turn to go on with/ })
})

test('a model that was named a line above is not named again; one of a session that goes on is, with its server', () => {
  const choice = { name: 'm', baseUrl: 'http://127.0.0.1:1/v1' } as ModelChoice
  assert.equal(sessionLine(session, choice, true), 'session: s1')
  assert.equal(sessionLine(session, choice, false), 'session: s1, model m at http://127.0.0.1:1/v1')
  assert.equal(sessionLine(session, { ...choice, name: 'x' }, true), 'session: s1, model m at http://127.0.0.1:1/v1')
  assert.equal(sessionLine(session, undefined, true), 'session: s1, model m', "a daemon's own model")
})

test('a rehearsal ends with what comes next, as a command that works from where it was started', () => {
  const [where = '', command, how] = afterRehearsal({}, undefined)
  assert.match(where, /scratch folder, which is removed/)
  assert.equal(command, '  breakfall run "make the failing test pass"')
  const npm = { npm_lifecycle_event: 'start', npm_package_json: '/home/me/break fall/package.json' }
  const after = afterRehearsal(npm, undefined)
  assert.equal(after[1], `  npm --prefix '/home/me/break fall' start -- "make the failing test pass"`)
  assert.match(how ?? '', /or see: breakfall config example$/)
  assert.match(after[2] ?? '', /see: '\/home\/me\/break fall\/packages\/cli\/bin\/breakfall\.mjs' config example$/)
  assert.deepEqual(afterRehearsal(npm, 'gpt-5 at https://x.example (OPENAI_API_KEY is set)').slice(2), [], 'it is set')
})
