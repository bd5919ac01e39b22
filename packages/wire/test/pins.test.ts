/** Literal copies of what others code against. A red pin means: deliberate? Then say so in the CHANGELOG. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { Fault, isFault, toProblem } from '@breakfall/faults'
import { consoleTicketSchema, consoleTokenSchema } from '../src/console-api.ts'
import * as wire from '../src/index.ts'
import { CANCEL_ACTORS, EVENT_TYPES, RETRY_ACTIONS, WS_METHODS } from '../src/names.ts'
import { EXEC_STATES } from '../src/runner-api.ts'

const at = '2026-11-15T12:00:00.000Z'
const fault = new Fault('runner_unreachable', { errorRaw: 'connect ECONNREFUSED 127.0.0.1:54321', at }).report
const usage = { inputTokens: { value: 120, quality: 'known' }, outputTokens: { value: null, quality: 'unknown' } }
const exit = {
  cause: 'exited',
  started: true,
  code: 0,
  signal: null,
  signalGuess: null,
  durationMs: 12,
  survivors: [],
  stdoutBytes: 3,
  stderrBytes: 0,
  truncated: false,
  diagnostics: [],
}
const part = { step: 1, attempt: 1, part: 'p1' }

const EVENTS: Record<wire.EventType, object> = {
  'turn-queued': { prompt: 'x' },
  'turn-start': { prompt: 'x' },
  'step-start': { step: 1, model: 'm' },
  'text-delta': { ...part, text: 'Let me ' },
  'reasoning-delta': { ...part, text: 'hm' },
  'part-discarded': { ...part, because: fault },
  'tool-draft': { ...part, tool: 'bash', argumentsBytes: 120 },
  'tool-call': { step: 1, callId: 'c1', tool: 'bash', arguments: { command: 'ls' }, execId: 'e1' },
  'tool-output': { callId: 'c1', stream: 'stdout', text: 'README.md\n' },
  'tool-result': { callId: 'c1', outcome: 'ok', text: '…', exit },
  retry: {
    step: 1,
    attempt: 1,
    fault,
    action: 'retry',
    delayMs: 420,
    nextAt: at,
    max: 6,
    to: { model: 'm2', provider: { name: 'p', baseUrl: 'http://127.0.0.1:1/v1', api: 'openai-chat' } },
    callId: 'c1',
  },
  compacted: {
    step: 9,
    fromStep: 1,
    toStep: 6,
    droppedResults: 6,
    summaryBytes: 0,
    requestBytesBefore: 400_000,
    requestBytesAfter: 160_000,
  },
  parked: { fault, resumeAt: null },
  resumed: { because: 'time' },
  'taken-over': { epoch: 3 },
  'box-moved': { from: 'r1', to: 'r2', filesKept: true, because: 'dropped' },
  'model-server': { state: 'loading', since: at },
  'approval-requested': { callId: 'c1', tool: 'bash', arguments: { command: 'ls' }, why: '…', expiresAt: at },
  approval: { callId: 'c1', decision: 'allow', actor: 'user', reason: null },
  'turn-end': { text: '…', usage, steps: 3, faultsSurvived: 2 },
  'turn-error': { ...fault, turnId: 't1' },
}

/** Fields that an event of this type may leave out. */
const OPTIONAL: Partial<Record<string, readonly string[]>> = {
  'step-start': ['model'],
  'tool-result': ['exit'],
  retry: ['to', 'callId'],
  'turn-error': ['phase', 'message', 'retry', 'stopped'],
}

test('the names of the events', () => {
  assert.deepEqual(EVENT_TYPES, [
    'turn-queued',
    'turn-start',
    'step-start',
    'text-delta',
    'reasoning-delta',
    'part-discarded',
    'tool-draft',
    'tool-call',
    'tool-output',
    'tool-result',
    'retry',
    'compacted',
    'parked',
    'resumed',
    'taken-over',
    'box-moved',
    'model-server',
    'approval-requested',
    'approval',
    'turn-end',
    'turn-error',
  ])
})

for (const [type, fields] of Object.entries(EVENTS)) {
  test(`the event ${type} has its shape, keeps extra fields and misses none`, () => {
    const event = { type, seq: 1, sessionId: 's1', turnId: 't1', at, ...fields, extra: 1 }
    assert.deepEqual(wire.sessionEventSchema.parse(event), event)
    for (const key of [
      'seq',
      'sessionId',
      'turnId',
      'at',
      ...Object.keys(fields).filter((name) => OPTIONAL[type]?.includes(name) !== true),
    ]) {
      const { [key]: _, ...less } = event as Record<string, unknown>
      assert.equal(wire.sessionEventSchema.safeParse(less).success, false, `${key} is needed`)
    }
  })
}

test('a turn-error has the shape that the first seed fixes', () => {
  const event = wire.sessionEventSchema.parse({
    type: 'turn-error',
    seq: 9,
    sessionId: 's',
    ...fault,
    turnId: 't1',
  })
  assert.equal(event.type, 'turn-error')
  const { category, error, errorRaw, turnId } = event as wire.SessionEventOf<'turn-error'>
  assert.equal(category, 'runner_unreachable')
  assert.match(error, /^the tool runner is not reachable yet — .*retry in a few seconds\.$/)
  assert.equal(errorRaw, 'connect ECONNREFUSED 127.0.0.1:54321')
  assert.equal(turnId, 't1')
})

test('the lists of words', () => {
  assert.deepEqual(wire.BOX_STATES, ['creating', 'running', 'stopping', 'stopped', 'removing', 'failed'])
  assert.deepEqual(wire.EXEC_CAUSES, [
    'exited',
    'signaled',
    'timed_out',
    'oom_killed',
    'killed',
    'box_stopped',
    'output_limit',
    'spawn_failed',
    'runner_lost',
  ])
  assert.deepEqual(EXEC_STATES, ['starting', 'running', 'exited'])
  assert.deepEqual(wire.SPAWN_FAILURES, [
    'not_found',
    'not_executable',
    'bad_interpreter',
    'cwd_missing',
    'cwd_not_directory',
    'argument_too_long',
    'no_process',
    'no_space',
    'sandbox_failed',
  ])
  assert.deepEqual(wire.SESSION_STATES, ['idle', 'busy', 'parked'])
  assert.deepEqual(wire.TURN_STATES, ['queued', 'running', 'retrying', 'parked', 'finished', 'failed', 'cancelled'])
  assert.deepEqual(wire.TOOL_OUTCOMES, ['ok', 'failed', 'unknown', 'cancelled'])
  assert.deepEqual(RETRY_ACTIONS, ['retry', 'resolve', 'resume', 'fallback'])
  assert.deepEqual(wire.RESUME_REASONS, ['time', 'signal', 'person', 'restart'])
  assert.deepEqual(CANCEL_ACTORS, ['user', 'client_lost', 'deadline', 'shutdown', 'superseded'])
  assert.deepEqual(WS_METHODS, [
    'prompt',
    'cancel',
    'resume',
    'subscribe',
    'unsubscribe',
    'sessions',
    'session',
    'watch',
  ])
  assert.deepEqual(wire.POLICY_KEYS, [
    'attemptsMax',
    'patienceMs',
    'failuresMax',
    'waitMsMax',
    'park',
    'parkMsMax',
    'outcomeUnknown',
    'stepsMax',
    'repeatsMax',
    'compactionsMax',
    'deadlineMs',
    'backoffMs',
    'connectMs',
    'headersMs',
    'livenessMs',
    'progressMs',
    'boxIdleMs',
    'approve',
    'approveMsMax',
  ])
  assert.deepEqual(
    [wire.RUNNER_HEADER, wire.EPOCH_HEADER, wire.REQUEST_ID_HEADER, wire.WS_PROTOCOL, wire.WS_TOKEN_PREFIX],
    ['x-breakfall-runner', 'x-breakfall-epoch', 'x-request-id', 'breakfall.v1', 'breakfall.token.'],
  )
})

test('the records of a runner', () => {
  const box = {
    id: 'b1',
    state: 'running',
    createdAt: at,
    workspace: { kind: 'private', path: '/workspace' },
    isolation: { level: 'bwrap', userns: true, pidns: true, netns: true, memoryLimit: true, pidsLimit: true },
    limits: { memoryMb: 1024, pids: 256, cpus: null, execsMax: 32 },
    network: 'none',
    autoStart: false,
    lastTransition: { at, from: 'creating', to: 'running' },
  }
  assert.deepEqual(wire.boxSchema.parse(box), box)
  const exec = {
    execId: 'e1',
    boxId: 'b1',
    state: 'exited',
    command: ['true'],
    startedAt: at,
    endedAt: null,
    stdoutBytes: 3,
    stderrBytes: 0,
    lastSeq: 2,
    exit,
  }
  assert.deepEqual(wire.execSchema.parse(exec), exec)
  const events = [
    { seq: 1, type: 'start', execId: 'e1', pid: 4711, at },
    { seq: 2, type: 'stdout', offset: 0, data: 'hi\n' },
    { seq: 3, type: 'stderr', offset: 0, dataBase64: '/w==' },
    { seq: 9, type: 'gap', stream: 'stdout', from: 0, to: 4096 },
    { seq: 4, type: 'exit', ...exit },
    { seq: 9, type: 'going-away' },
  ]
  for (const event of events) assert.deepEqual(wire.execEventSchema.parse(event), event)
  assert.throws(() =>
    wire.runnerHealthSchema.parse({ status: 'ok', runnerId: 'r', bootId: 'b', version: '1', more: 1 }),
  )
})

test('the records of a daemon', () => {
  const session = {
    id: 's',
    title: null,
    state: 'idle',
    turnId: null,
    model: 'm',
    boxId: 's',
    createdAt: at,
    lastSeq: 0,
  }
  assert.deepEqual(wire.sessionSchema.parse(session), session)
  const turn = {
    id: 't',
    sessionId: 's',
    state: 'parked',
    prompt: 'x',
    steps: 3,
    attempts: 4,
    parked: { category: 'runner_unreachable', since: at, resumeAt: null },
    fault: null,
    result: null,
    usage,
    startedAt: at,
    endedAt: null,
  }
  assert.deepEqual(wire.turnSchema.parse(turn), turn)
})

test('the records of the console', () => {
  const ticket = { ticket: 'T', expiresAt: at }
  assert.deepEqual(consoleTicketSchema.parse(ticket), ticket)
  const token = { token: 'bfc1.…', expiresAt: at }
  assert.deepEqual(consoleTokenSchema.parse(token), token)
})

test('a problem document has the fields of RFC 9457 and of the report', () => {
  const problem = toProblem(
    new Fault('box_stopped', {
      facts: { name: 'b1' },
      errorRaw: 'box b1 in state stopped',
      boxId: 'b1',
      boxState: 'stopped',
      requestId: 'r',
      at,
    }),
  )
  assert.deepEqual(problem, {
    type: 'urn:breakfall:fault:box_stopped',
    title: 'The box is stopped',
    status: 409,
    detail: 'box b1 is stopped; start it, or create it with autoStart',
    category: 'box_stopped',
    class: 'invalid',
    boundary: 'box',
    next: 'never',
    sideEffects: 'none',
    error: 'box b1 is stopped; start it, or create it with autoStart',
    message: { happened: 'box b1 is stopped', advice: 'start it, or create it with autoStart' },
    errorRaw: 'box b1 in state stopped',
    boxId: 'b1',
    boxState: 'stopped',
    diagnostics: [],
    requestId: 'r',
    at,
  })
  wire.problemSchema.parse(problem)
})

test('an event of a newer version is read: unknown fields and unknown types are kept', () => {
  const base = { seq: 1, sessionId: 's', turnId: 't', at }
  const withField = { ...base, type: 'step-start', step: 1, model: 'm' }
  assert.deepEqual(wire.parseEvent(withField), withField)
  assert.equal(wire.isKnownEvent(wire.parseEvent(withField)), true)
  const newType = { ...base, type: 'box-copied', from: 'r1' }
  assert.deepEqual(wire.parseEvent(newType), newType)
  assert.equal(wire.isKnownEvent(wire.parseEvent(newType)), false)
})

test('an event with a missing field is a fault that names the field, and so is anything that is not an event', () => {
  assert.throws(() => wire.parseEvent({ type: 'step-start', seq: 1, sessionId: 's', turnId: 't', at }), /step/)
  assert.throws(() => wire.parseEvent({ type: 'box-copied' }), isFault)
  assert.throws(() => wire.parseEvent('hello'), isFault)
})

test('the browser entry loads without zod', async () => {
  const { execFile } = await import('node:child_process')
  const { promisify } = await import('node:util')
  const script = `import { registerHooks } from 'node:module'
    registerHooks({ resolve: (name, context, next) => { if (name.startsWith('zod')) throw new Error('zod'); return next(name, context) } })
    const { SseDecoder, TURN_STATES } = await import('@breakfall/wire/browser')
    console.log(typeof SseDecoder, TURN_STATES.length)`
  const { stdout } = await promisify(execFile)(process.execPath, ['--input-type=module', '-e', script], {
    cwd: import.meta.dirname,
  })
  assert.equal(stdout.trim(), 'function 7')
})
