/** A consumer as the contract describes it: appends deltas, drops discarded parts, and checks the order of events. */
import assert from 'node:assert/strict'
import type { AnswerEvent, AnswerOptions, AnswerRequest } from '../src/index.ts'
import { streamAnswer } from '../src/index.ts'

export type Collected = {
  readonly events: readonly AnswerEvent[]
  readonly types: readonly string[]
  readonly text: string
  readonly reasoning: string
  readonly calls: readonly Extract<AnswerEvent, { type: 'tool-call' }>[]
  readonly done: Extract<AnswerEvent, { type: 'done' }> | undefined
  readonly fault: Extract<AnswerEvent, { type: 'fault' }> | undefined
  readonly failed: readonly Extract<AnswerEvent, { type: 'attempt-failed' }>[]
}

/** Short waits: no test depends on the clock. */
export const QUICK = { backoffMs: 1 }

export const TOOLS = [
  {
    type: 'function',
    function: {
      name: 'bash',
      description: 'runs a command',
      parameters: { type: 'object', properties: { command: { type: 'string' } }, required: ['command'] },
    },
  },
  { type: 'function', function: { name: 'now', parameters: { type: 'object', properties: {} } } },
] as const

export function ask(
  baseUrl: string,
  request: Partial<AnswerRequest> = {},
  options: AnswerOptions = {},
): Promise<Collected> {
  return collect(
    streamAnswer(
      { baseUrl, model: 'fake-1', messages: [{ role: 'user', content: 'hi' }], tools: TOOLS, ...request },
      { ...options, policy: { ...QUICK, ...options.policy } },
    ),
  )
}

export async function collect(stream: AsyncIterable<AnswerEvent>): Promise<Collected> {
  const events: AnswerEvent[] = []
  for await (const event of stream) events.push(event)
  checkOrder(events)
  return {
    events,
    types: events.map(({ type }) => type),
    text: held(events, 'text-delta'),
    reasoning: held(events, 'reasoning-delta'),
    calls: events.filter((event) => event.type === 'tool-call'),
    done: events.find((event) => event.type === 'done'),
    fault: events.find((event) => event.type === 'fault'),
    failed: events.filter((event) => event.type === 'attempt-failed'),
  }
}

function held(events: readonly AnswerEvent[], type: 'text-delta' | 'reasoning-delta'): string {
  const parts = new Map<string, string>()
  for (const event of events) {
    if (event.type === type) {
      const key = `${event.attempt}/${event.part}`
      parts.set(key, (parts.get(key) ?? '') + event.text)
    }
    if (event.type === 'part-discarded') parts.delete(`${event.attempt}/${event.part}`)
  }
  return [...parts.values()].join('')
}

/** What is true of every stream of events. */
function checkOrder(events: readonly AnswerEvent[]): void {
  const terminal = events.filter(({ type }) => type === 'done' || type === 'fault')
  assert.equal(terminal.length, 1, 'exactly one terminal event')
  const last = events.at(-1)
  assert.equal(last, terminal[0], 'the terminal event is the last')
  assert.ok(last?.type === 'done' || last?.type === 'fault')
  const starts = events.filter(({ type }) => type === 'attempt-start').length
  const failures = events.filter(({ type }) => type === 'attempt-failed').length
  assert.equal(starts, failures + (last.type === 'done' ? 1 : 0), 'no attempt is hidden')
  assert.equal(last.ledger.length, starts, 'each attempt is in the ledger')
  if (last.type === 'fault') {
    assert.equal(held(events, 'text-delta') + held(events, 'reasoning-delta'), '', 'nothing is left after a fault')
    assert.equal(events.filter(({ type }) => type === 'tool-call').length, 0, 'no call is released in a fault')
  }
}
