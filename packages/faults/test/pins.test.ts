/** Literal copies of what others see. If one of these changes, say so in the CHANGELOG. */
import assert from 'node:assert/strict'
import test from 'node:test'
import {
  joinMessage,
  messageFor,
  type FaultCategory,
  BOUNDARIES,
  EXIT_CODE_BY_CATEGORY,
  EXIT_CODES,
  exitCodeOf,
  FAULT_CATEGORIES,
  FAULT_CLASSES,
  FAULTS,
  LIMITS,
  NEXT_STEPS,
  POLICY_DEFAULTS,
  PROBLEM_CONTENT_TYPE,
  REASONS,
  SIDE_EFFECTS,
} from '@breakfall/faults'
import { RAW_CHARS_MAX } from '../src/cause.ts'

/** category · http · next · class · boundary · exit code */
const PINNED = `
runner_unreachable        503 resolve transient       runner  125
runner_identity_mismatch  421 resolve transient       runner  125
runner_protocol_error     502 never   internal        runner  1
runner_auth_failed        401 park    needs_action    runner  4
runner_not_available      503 park    needs_action    runner  3
isolation_unavailable     501 never   needs_action    runner  1
box_not_found             404 never   invalid         box     1
box_stopped               409 never   invalid         box     1
box_invalid_state         409 never   invalid         box     1
box_already_exists        409 never   invalid         box     1
quota_exceeded            429 never   throttled       box     7
exec_not_found            404 never   invalid         box     1
exec_conflict             409 never   invalid         box     1
exec_finished             409 never   invalid         box     1
spawn_failed              422 never   invalid         box     1
exec_timed_out            504 never   transient       box     1
exec_outcome_unknown      502 never   unknown_outcome box     1
exec_output_limit         413 never   invalid         box     1
file_not_found            404 never   invalid         box     1
precondition_failed       412 never   invalid         box     1
range_not_satisfiable     416 never   invalid         box     1
checkpoint_not_found      404 never   invalid         box     1
workspace_busy            409 never   invalid         box     1
checkpoint_conflict       409 never   invalid         box     1
lease_lost                409 never   invalid         box     1
model_unreachable         503 retry   transient       model   3
model_stream_interrupted  502 retry   transient       model   3
model_stream_stalled      504 retry   transient       model   3
model_stream_incomplete   502 retry   transient       model   3
tool_call_truncated       502 retry   transient       model   3
model_rate_limited        429 retry   throttled       model   3
model_quota_exhausted     429 park    needs_action    model   3
model_overloaded          503 retry   throttled       model   3
model_server_error        502 retry   transient       model   3
model_auth_failed         401 park    needs_action    model   4
model_bad_request         400 never   invalid         model   1
model_history_invalid     400 never   invalid         model   1
model_context_overflow    413 compact invalid         model   1
model_content_filtered    422 never   invalid         model   1
model_not_found           404 never   invalid         model   1
model_endpoint_invalid    502 never   needs_action    model   1
network_down              503 park    transient       model   3
process_failed            502 restart transient       process 3
process_start_failed      502 never   needs_action    process 1
process_hung              504 restart transient       process 3
crash_loop                503 park    internal        process 1
mcp_server_failed         502 restart transient       mcp     3
mcp_unreachable           503 retry   transient       mcp     3
mcp_auth_failed           401 park    needs_action    mcp     4
mcp_protocol_error        502 never   internal        mcp     1
tool_not_offered          404 never   invalid         mcp     1
approval_needed           409 park    needs_action    daemon  4
steps_spent               409 park    needs_action    daemon  7
journal_full              507 park    transient       journal 3
journal_unreachable       503 retry   transient       journal 3
journal_corrupt           500 never   internal        journal 1
cancelled                 499 never   cancelled       client  130
deadline_exceeded         504 never   transient       daemon  7
daemon_unreachable        503 retry   transient       daemon  125
shutting_down             503 retry   transient       daemon  3
session_busy              409 never   invalid         daemon  1
turn_not_parked           409 never   invalid         daemon  1
idempotency_conflict      409 never   invalid         client  1
invalid_request           400 never   invalid         client  2
unauthorized              401 never   needs_action    client  4
forbidden                 403 never   invalid         client  1
not_found                 404 never   invalid         client  1
method_not_allowed        405 never   invalid         client  1
payload_too_large         413 never   invalid         client  1
unsupported_media_type    415 never   invalid         client  1
other                     500 never   internal        daemon  1
`

test('every category with its status, next step, class, boundary and exit code', () => {
  const rows = FAULT_CATEGORIES.map((category) => {
    const { http, next, class: faultClass, boundary } = FAULTS[category]
    return [category, http, next, faultClass, boundary, EXIT_CODE_BY_CATEGORY[category]].join(' ')
  })
  const pinned = PINNED.trim()
    .split('\n')
    .map((line) => line.trim().split(/\s+/).join(' '))
  assert.deepEqual(rows.toSorted(), pinned.toSorted())
})

test('the vocabulary of a report', () => {
  assert.deepEqual(FAULT_CLASSES, [
    'transient',
    'throttled',
    'needs_action',
    'invalid',
    'cancelled',
    'internal',
    'unknown_outcome',
  ])
  assert.deepEqual(BOUNDARIES, ['client', 'model', 'runner', 'box', 'process', 'journal', 'daemon', 'mcp'])
  assert.deepEqual(NEXT_STEPS, ['never', 'retry', 'resolve', 'restart', 'compact', 'park'])
  assert.deepEqual(SIDE_EFFECTS, ['none', 'completed', 'unknown'])
  assert.equal(PROBLEM_CONTENT_TYPE, 'application/problem+json')
  assert.equal(RAW_CHARS_MAX, 4_096)
})

test('the reasons of a decision', () => {
  assert.deepEqual(REASONS, [
    'transient',
    'retry_after',
    'moved',
    'crashed',
    'context_too_long',
    'output_too_long',
    'next_model',
    'retry_after_too_long',
    'needs_action',
    'waiting_for_recovery',
    'not_retryable',
    'cancelled',
    'deadline_passed',
    'side_effects_unknown',
    'attempts_spent',
    'patience_spent',
    'failures_spent',
    'wait_spent',
    'resolves_spent',
    'restarts_spent',
    'compactions_spent',
    'cannot_compact',
    'cuts_spent',
    'steps_spent',
    'approval_needed',
    'parking_off',
    'parks_spent',
    'park_time_spent',
  ])
})

test('exit codes', () => {
  assert.deepEqual(EXIT_CODES, {
    finished: 0,
    failed: 1,
    usage: 2,
    transient: 3,
    credentials: 4,
    budget: 7,
    unreachable: 125,
    cancelled: 130,
  })
  assert.equal(exitCodeOf({ category: 'model_unreachable' }), 3)
  assert.equal(exitCodeOf({ category: 'model_unreachable', stopped: 'attempts_spent' }), 3)
  for (const stopped of ['failures_spent', 'wait_spent', 'steps_spent'])
    assert.equal(exitCodeOf({ category: 'model_unreachable', stopped }), 7)
})

test('the defaults of a policy', () => {
  assert.deepEqual(POLICY_DEFAULTS, {
    attemptsMax: 6,
    patienceMs: 120_000,
    failuresMax: 60,
    waitMsMax: 1_800_000,
    park: 'auto',
    parkMsMax: 86_400_000,
    outcomeUnknown: 'tell',
    stepsMax: 200,
    repeatsMax: 0,
    compactionsMax: 50,
    deadlineMs: null,
    backoffMs: 500,
    connectMs: 10_000,
    headersMs: 300_000,
    livenessMs: 120_000,
    progressMs: 600_000,
    boxIdleMs: 600_000,
    approve: 'unsafe',
    approveMsMax: 86_400_000,
  })
  assert.deepEqual(LIMITS, {
    backoffMsMax: 30_000,
    freeBackoffMsMax: 5_000,
    freeBackoffMsFirst: 100,
    freeBackoffMsLeast: 1_000,
    retryAfterMsMax: 60_000,
    cutsMax: 3,
    parksMax: 20,
    probeMsFirst: 5_000,
    probeMsMax: 60_000,
    resolvesMax: 8,
    resolveMsMax: 30_000,
    restartsMax: 5,
  })
})

test('every message reads well with no fact and with all of them', () => {
  const facts = {
    address: '127.0.0.1:1',
    status: 500,
    name: 'B1',
    boxState: 'stopping',
    afterMs: 61_000,
    limit: '1 GiB',
    setting: 'boxesMax',
    detail: 'why',
  }
  const seen = new Set<string>()
  for (const category of FAULT_CATEGORIES) {
    for (const message of [messageFor(category), messageFor(category, facts)]) {
      const text = joinMessage(message)
      assert.doesNotMatch(text, /undefined|null|NaN|\[object|  | ,|\(\)|\.\.|\.;/, category)
      assert.ok(text.length >= 9 && text.length < 300, `${category}: ${text}`)
      if (FIXED.has(category)) continue
      for (const fact of [message.happened, message.action, message.advice])
        if (fact !== undefined) assert.match(fact, /^[A-Z].*\.$/, `${category}: ${fact} is not a sentence`)
    }
    seen.add(joinMessage(messageFor(category)))
  }
  assert.equal(seen.size, FAULT_CATEGORIES.length, 'no two categories say the same')
})

test('every message says what you can do, unless there is nothing to do', () => {
  for (const category of FAULT_CATEGORIES) {
    if (FIXED.has(category) || category === 'cancelled') continue
    assert.notEqual(messageFor(category, { name: 'B1' }).advice, undefined, category)
  }
})

/** Their texts are part of the contract. */
const FIXED: ReadonlySet<FaultCategory> = new Set<FaultCategory>(['runner_unreachable', 'box_stopped'])

test('the messages that others quote', () => {
  const box = messageFor('box_stopped', { name: 'b1' })
  assert.equal(joinMessage(box), 'box b1 is stopped; start it, or create it with autoStart')
  assert.match(
    joinMessage(messageFor('runner_unreachable')),
    /^the tool runner is not reachable yet — .*retry in a few seconds\.$/,
  )
})
