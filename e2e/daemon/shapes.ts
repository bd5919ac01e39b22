/** The shapes of the contract as assertions: fault reports, problems, sessions, turns and every event. */
import assert from 'node:assert/strict'
import { type Event, isTerminal, type Json, type Reply } from './client.ts'

const ISO = /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/
const CLASSES = ['transient', 'throttled', 'needs_action', 'invalid', 'cancelled', 'internal', 'unknown_outcome']
const BOUNDARIES = ['client', 'model', 'runner', 'box', 'process', 'journal', 'daemon', 'mcp']
const NEXT = ['never', 'retry', 'resolve', 'restart', 'compact', 'park']

export function isFault(fault: Json, category?: string): void {
  const said = JSON.stringify(fault)
  if (category !== undefined) assert.equal(fault.category, category, said)
  assert.match(fault.category, /^[a-z_]+$/, said)
  assert.ok(CLASSES.includes(fault.class), said)
  assert.ok(BOUNDARIES.includes(fault.boundary), said)
  assert.ok(NEXT.includes(fault.next), said)
  assert.ok(['none', 'completed', 'unknown'].includes(fault.sideEffects), said)
  assert.ok(typeof fault.error === 'string' && fault.error !== '', said)
  assert.equal(typeof fault.errorRaw, 'string', said)
  assert.ok(Array.isArray(fault.diagnostics), said)
  assert.match(fault.at, ISO, said)
}

/** An error over HTTP: problem+json with the report's fields and the request's id. */
export function isProblem(reply: Reply, status: number, category: string): void {
  assert.equal(reply.status, status, reply.text)
  assert.match(String(reply.headers['content-type']), /^application\/problem\+json/)
  isFault(reply.json, category)
  assert.equal(reply.json.type, `urn:breakfall:fault:${category}`)
  assert.equal(reply.json.status, status)
  assert.ok(typeof reply.json.title === 'string' && reply.json.title !== '')
  assert.ok(typeof reply.json.detail === 'string' && reply.json.detail !== '')
  assert.ok(reply.headers['x-request-id'])
  assert.equal(reply.json.requestId, reply.headers['x-request-id'])
}

export function isSession(session: Json): void {
  const said = JSON.stringify(session)
  for (const key of ['id', 'title', 'state', 'turnId', 'model', 'boxId', 'createdAt', 'lastSeq'])
    assert.ok(key in session, `${key} is missing in ${said}`)
  assert.ok(['idle', 'busy', 'parked'].includes(session.state), said)
  assert.match(session.createdAt, ISO)
  assert.ok(Number.isInteger(session.lastSeq), said)
}

export function isTurn(turn: Json, state?: string): void {
  const said = JSON.stringify(turn)
  const keys = ['id', 'sessionId', 'state', 'prompt', 'steps', 'attempts', 'parked', 'fault', 'result', 'usage']
  for (const key of [...keys, 'startedAt', 'endedAt']) assert.ok(key in turn, `${key} is missing in ${said}`)
  assert.ok(['queued', 'running', 'retrying', 'parked', 'finished', 'failed', 'cancelled'].includes(turn.state), said)
  if (state !== undefined) assert.equal(turn.state, state, said)
  assert.ok(Number.isInteger(turn.steps) && Number.isInteger(turn.attempts), said)
  if (['finished', 'failed', 'cancelled'].includes(turn.state)) assert.match(turn.endedAt, ISO, said)
  else assert.equal(turn.endedAt, null, said)
  if (turn.state === 'parked') {
    assert.equal(typeof turn.parked.category, 'string', said)
    assert.match(turn.parked.since, ISO, said)
    assert.ok('resumeAt' in turn.parked, said)
  }
  if (turn.state === 'finished') assert.equal(typeof turn.result.text, 'string', said)
  if (turn.state === 'failed' || turn.state === 'cancelled') isFault(turn.fault)
  if (turn.usage !== null) isUsage(turn.usage)
}

/** Checks a whole journal: seqs, order, and the shape of each event. */
export function isHistory(events: readonly Event[]): void {
  assert.deepEqual(
    events.map(({ seq }) => seq),
    events.map((_, i) => i + 1),
    'seq runs from 1 without a gap',
  )
  for (const event of events) isEvent(event)
  for (const turnId of new Set(events.map((event) => event.turnId)))
    isTurnHistory(events.filter((e) => e.turnId === turnId))
}

export function isEvent(event: Event): void {
  const said = JSON.stringify(event)
  assert.ok(Number.isInteger(event.seq) && event.seq > 0, said)
  assert.ok(typeof event.sessionId === 'string' && typeof event.turnId === 'string', said)
  assert.match(event.at, ISO, said)
  const shape = SHAPES[event.type]
  assert.ok(shape, `an unknown type of event: ${said}`)
  for (const [key, fits] of Object.entries(shape)) assert.ok(fits(event[key]), `${key} in ${said}`)
  if (event.type === 'turn-error') isFault(event)
  if (event.type === 'retry' || event.type === 'parked') isFault(event['fault'])
  if (event.type === 'part-discarded') isFault(event['because'])
}

// ---- the table of events ----

type Fits = (value: unknown) => boolean
const text: Fits = (value) => typeof value === 'string'
const count: Fits = (value) => Number.isInteger(value) && Number(value) >= 0
const ordinal: Fits = (value) => Number.isInteger(value) && Number(value) >= 1
const time: Fits = (value) => typeof value === 'string' && ISO.test(value)
const object: Fits = (value) => typeof value === 'object' && value !== null
const oneOf =
  (...values: string[]): Fits =>
  (value) =>
    values.includes(String(value))
const part = { step: ordinal, attempt: ordinal, part: text }

const SHAPES: Readonly<Record<string, Readonly<Record<string, Fits>>>> = {
  'turn-queued': { prompt: text },
  compacted: {
    step: ordinal,
    fromStep: count,
    toStep: count,
    droppedResults: count,
    summaryBytes: count,
    requestBytesBefore: ordinal,
    requestBytesAfter: ordinal,
  },
  'turn-start': { prompt: text },
  'step-start': { step: ordinal },
  'text-delta': { ...part, text },
  'reasoning-delta': { ...part, text },
  'part-discarded': { ...part, because: object },
  retry: {
    step: ordinal,
    attempt: ordinal,
    fault: object,
    action: oneOf('retry', 'resolve', 'resume', 'fallback'),
    delayMs: count,
    nextAt: time,
    max: ordinal,
  },
  'tool-draft': { ...part, tool: text, argumentsBytes: count },
  'tool-call': { step: ordinal, callId: text, tool: text, arguments: object, execId: text },
  'tool-output': { callId: text, stream: oneOf('stdout', 'stderr'), text },
  'tool-result': { callId: text, outcome: oneOf('ok', 'failed', 'unknown', 'cancelled'), text },
  parked: { fault: object, resumeAt: (value) => value === null || time(value) },
  resumed: { because: oneOf('time', 'signal', 'person', 'restart') },
  'approval-requested': { callId: text, tool: text, why: text },
  approval: { callId: text, decision: text, actor: text },
  'taken-over': { epoch: ordinal },
  'model-server': { state: oneOf('loading', 'ready', 'busy', 'hung', 'restarting', 'given_up'), since: time },
  'turn-end': { text, usage: object, steps: ordinal, faultsSurvived: count },
  'turn-error': { category: text },
}

function isTurnHistory(events: readonly Event[]): void {
  const types = events.map(({ type }) => type)
  const said = types.join(' ')
  const begun = events.filter(({ type }) => type !== 'taken-over')
  assert.ok(['turn-start', 'turn-queued'].includes(String(begun[0]?.type)), said)
  assert.ok(types.filter((type) => type === 'turn-start').length <= 1, said)
  assert.ok(events.filter(isTerminal).length <= 1, `one terminal event at most: ${said}`)
  const end = events.findIndex(isTerminal)
  if (end >= 0) assert.equal(end, events.length - 1, `nothing follows the terminal event: ${said}`)
  const steps = events.filter(({ type }) => type === 'step-start').map((event) => event['step'])
  assert.deepEqual(
    [...new Set(steps)],
    [...new Set(steps)].sort((a, b) => a - b),
    said,
  )
  const calls = events.filter(({ type }) => type === 'tool-call').map((event) => event['callId'])
  assert.equal(new Set(calls).size, calls.length, `call ids are unique: ${said}`)
  for (const [i, event] of events.entries()) {
    if (event.type !== 'tool-output' && event.type !== 'tool-result') continue
    const sameCall = (e: Event): boolean => e['callId'] === event['callId']
    assert.ok(
      events.slice(0, i).some((e) => e.type === 'tool-call' && sameCall(e)),
      `after its call: ${said}`,
    )
    assert.ok(
      !events.slice(0, i).some((e) => e.type === 'tool-result' && sameCall(e)),
      `nothing after a result: ${said}`,
    )
  }
  if (end >= 0)
    for (const callId of calls)
      assert.ok(
        events.some((event) => event.type === 'tool-result' && event['callId'] === callId),
        `every call has its result before the end: ${said}`,
      )
}

function isUsage(usage: Json): void {
  for (const key of ['inputTokens', 'outputTokens']) {
    const said = JSON.stringify(usage)
    assert.ok(['known', 'estimated', 'unknown'].includes(usage[key].quality), said)
    if (usage[key].quality === 'known') assert.ok(Number.isInteger(usage[key].value), said)
  }
}
