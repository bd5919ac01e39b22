/** Talks to a daemon as any client would: JSON over HTTP, events over SSE. */
import assert from 'node:assert/strict'
import { isTerminal, type Session, sessionEventSchema, type SessionEvent, type Turn } from '@breakfall/wire'

import { type Frame, framesOf } from '../../../../test/kit/sse.ts'

export type Answer<T = Record<string, unknown>> = {
  readonly status: number
  readonly json: T
  readonly headers: Headers
}

export class Api {
  readonly url: string
  readonly token: string

  constructor(daemon: { readonly url: string; readonly token: string }) {
    this.url = daemon.url
    this.token = daemon.token
  }

  async call<T = Record<string, unknown>>(
    method: string,
    path: string,
    body?: unknown,
    headers: Record<string, string> = {},
  ): Promise<Answer<T>> {
    const response = await fetch(this.url + path, {
      method,
      headers: {
        authorization: `Bearer ${this.token}`,
        ...(body === undefined ? {} : { 'content-type': 'application/json' }),
        ...headers,
      },
      ...(body === undefined ? {} : { body: JSON.stringify(body) }),
    })
    const text = await response.text()
    return { status: response.status, json: (text === '' ? null : JSON.parse(text)) as T, headers: response.headers }
  }

  async session(create: object = {}): Promise<Session> {
    const { status, json } = await this.call<Session>('POST', '/v1/sessions', create)
    assert.equal(status, 201, JSON.stringify(json))
    return json
  }

  async prompt(
    sessionId: string,
    prompt: string,
    more: object = {},
    headers: Record<string, string> = {},
  ): Promise<string> {
    const { status, json } = await this.call<{ turnId: string }>(
      'POST',
      `/v1/sessions/${sessionId}/turns`,
      { prompt, ...more },
      headers,
    )
    assert.equal(status, 202, JSON.stringify(json))
    return json.turnId
  }

  async turn(turnId: string): Promise<Turn> {
    return (await this.call<Turn>('GET', `/v1/turns/${turnId}`)).json
  }

  /** SSE frames from a cursor, live, until the reader stops. */
  async *frames(sessionId: string, after: string | number = 0, signal?: AbortSignal): AsyncGenerator<Frame> {
    const response = await fetch(`${this.url}/v1/sessions/${sessionId}/events?after=${after}`, {
      headers: { authorization: `Bearer ${this.token}` },
      ...(signal === undefined ? {} : { signal }),
    })
    assert.equal(response.status, 200)
    yield* framesOf(response.body ?? [])
  }

  /** Events up to and including the first that `isLast` accepts; each checked against its schema. */
  async events(
    sessionId: string,
    isLast: (event: SessionEvent) => boolean = isTerminal,
    after: string | number = 0,
  ): Promise<SessionEvent[]> {
    const over = new AbortController()
    const seen: SessionEvent[] = []
    for await (const frame of this.frames(sessionId, after, over.signal)) {
      const event = JSON.parse(frame.data) as SessionEvent
      if (frame.event === 'reset' || frame.event === 'closed') continue
      assert.equal(frame.event, event.type)
      const parsed = sessionEventSchema.safeParse(event)
      assert.ok(parsed.success, `${JSON.stringify(event)}: ${parsed.error?.message ?? ''}`)
      seen.push(event)
      if (isLast(event)) break
    }
    over.abort()
    return seen
  }

  /** The turn's events up to its end. */
  ended(sessionId: string, turnId: string, after: string | number = 0): Promise<SessionEvent[]> {
    return this.events(sessionId, (event) => isTerminal(event) && event.turnId === turnId, after)
  }
}

export const types = (events: readonly SessionEvent[]): string[] => events.map((event) => event.type)

/** The text that a reader has, per step, if it appends deltas and drops discarded parts. */
export function assembled(events: readonly SessionEvent[]): Map<number, string> {
  const parts = new Map<string, { step: number; text: string }>()
  for (const event of events) {
    if (event.type === 'text-delta') {
      const key = `${event.turnId} ${event.step} ${event.attempt} ${event.part}`
      parts.set(key, { step: event.step, text: (parts.get(key)?.text ?? '') + event.text })
    }
    if (event.type === 'part-discarded') parts.delete(`${event.turnId} ${event.step} ${event.attempt} ${event.part}`)
  }
  const steps = new Map<number, string>()
  for (const { step, text } of parts.values()) steps.set(step, (steps.get(step) ?? '') + text)
  return steps
}

export function assertNoGap(events: readonly SessionEvent[]): void {
  assert.deepEqual(
    events.map((event) => event.seq),
    events.map((_, index) => index + 1),
  )
}
