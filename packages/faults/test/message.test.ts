/** A fault's message is three facts. They are replaced, never edited, and joined in one place. */
import assert from 'node:assert/strict'
import test from 'node:test'
import { Fault, FAULT_CATEGORIES, faultFrom, type FaultReport, joinMessage, withDecision } from '@breakfall/faults'

const overWire = (report: FaultReport): FaultReport => faultFrom(JSON.parse(JSON.stringify(report))).report

test('facts become sentences, and a fact in lower case continues the sentence before it', () => {
  const happened = 'It broke.'
  assert.equal(joinMessage({ happened }), 'It broke.')
  assert.equal(joinMessage({ happened, advice: 'Fix it.' }), 'It broke. Fix it.')
  assert.equal(joinMessage({ happened, action: 'We wait.', advice: 'Fix it.' }), 'It broke. We wait. Fix it.')
  assert.equal(joinMessage({ happened: 'it broke', action: 'We wait.' }), 'it broke. We wait.')
  assert.equal(joinMessage({ happened: 'it broke', advice: 'fix it' }), 'it broke; fix it')
})

test('the error is joined from the facts, and the facts are in the report', () => {
  const { report } = new Fault('model_unreachable', { facts: { address: 'host:1' } })
  assert.deepEqual(report.message, {
    happened: 'The model server at host:1 is not reachable.',
    advice: 'Check the base URL and that the server is running.',
  })
  assert.equal(
    report.error,
    'The model server at host:1 is not reachable. Check the base URL and that the server is running.',
  )
  assert.equal(new Fault('cancelled').report.message, undefined, 'one fact is the error itself')
})

test('whoever concludes replaces one fact, and the others stay', () => {
  const fault = new Fault('model_unreachable', { facts: { address: 'host:1' } })
  const waiting = fault.with({ message: { action: 'The turn waits.' } })
  assert.equal(
    waiting.error,
    'The model server at host:1 is not reachable. The turn waits. Check the base URL and that the server is running.',
  )
  const stopped = withDecision(waiting, { action: 'stop', because: 'attempts_spent' }, 6)
  assert.equal(
    stopped.error,
    'The model server at host:1 is not reachable. Breakfall stopped after 6 attempts. Check the base URL and that the server is running.',
  )
  assert.equal(stopped.report.stopped, 'attempts_spent')
  assert.equal(stopped.with({ message: { advice: '' } }).error, stopped.error.split(' Check')[0])
})

test('a call that can no longer be approved does not ask for an approval', () => {
  const waits = new Fault('approval_needed', { facts: { name: 'bash' } })
  assert.match(waits.error, /Approve or deny it/)
  for (const because of ['park_time_spent', 'parking_off'] as const) {
    const { error } = withDecision(waits, { action: 'stop', because })
    assert.doesNotMatch(error, /Approve or deny it/)
    assert.match(error, /It can no longer be approved; send another prompt to try again\.$/)
  }
})

test('a journal that is damaged as a whole does not offer a new session, which it could not store', () => {
  assert.match(new Fault('journal_corrupt', { facts: { name: 'session s' } }).error, /start a new session/)
  assert.doesNotMatch(new Fault('journal_corrupt').error, /new session/)
})

test('a runner that is not reachable tells you to retry until something else is decided', () => {
  const fault = new Fault('runner_unreachable', { facts: { address: 'host:1' } })
  const happened =
    'the tool runner is not reachable yet — nothing answers at host:1, so it may still be waking up or may have moved'
  assert.equal(fault.error, `${happened}; retry in a few seconds.`)
  assert.equal(fault.with({ message: { action: 'The turn waits.' } }).error, `${happened}. The turn waits.`)
  const stopped = withDecision(fault, { action: 'stop', because: 'failures_spent' })
  assert.equal(stopped.error, `${happened}. Breakfall stopped: this turn has failed too often.`)
})

test('no message promises a retry unless one was decided, and a stop replaces the promise', () => {
  for (const category of FAULT_CATEGORIES) {
    const fault = new Fault(category)
    assert.doesNotMatch(fault.error, /will retry|tries again|tried again/, category)
    const retried = withDecision(fault, { action: 'retry', delayMs: 0, because: 'transient' })
    assert.match(retried.error, /Breakfall will retry\./, category)
    const ended = withDecision(retried, { action: 'stop', because: 'attempts_spent' }, 1)
    assert.doesNotMatch(ended.error, /will retry|retry in a few seconds/, category)
    assert.match(ended.error, /Breakfall stopped after one attempt\./, category)
  }
})

test('the facts survive a journal or a wire', () => {
  const { report } = withDecision(new Fault('model_unreachable'), { action: 'stop', because: 'deadline_passed' })
  assert.deepEqual(overWire(report), report)
  assert.equal(faultFrom(overWire(report)).with({ message: { action: 'It ends.' } }).report.message?.action, 'It ends.')
})

test('a report without facts, from an older journal or another service, is one fact', () => {
  const { message: _message, ...old } = new Fault('model_unreachable').report
  const { report } = faultFrom({ ...old, error: 'the server is gone' })
  assert.deepEqual([report.error, report.message], ['the server is gone', undefined])
  const stopped = withDecision(faultFrom(report), { action: 'stop', because: 'attempts_spent' }, 2)
  assert.equal(stopped.error, 'the server is gone. Breakfall stopped after 2 attempts.')
})

test('facts that do not belong to the error are dropped, and facts that are not text too', () => {
  const { report } = new Fault('model_unreachable')
  assert.equal(faultFrom({ ...report, error: 'something else' }).error, 'something else')
  for (const message of [null, 4, 'text', [], { happened: 4 }, { action: 'Only this.' }])
    assert.equal(faultFrom({ ...report, message }).error, report.error)
})

test('one text in place of the facts replaces all of them', () => {
  const fault = new Fault('model_unreachable', { error: 'The server is gone.' })
  assert.deepEqual([fault.error, fault.report.message], ['The server is gone.', undefined])
  assert.equal(new Fault('model_unreachable').with({ error: 'The server is gone.' }).error, 'The server is gone.')
})

test('a secret in a fact is redacted, in the fact and in the error', () => {
  const { report } = new Fault('other', { message: { action: 'Sent Bearer abcdefgh12345678.' } })
  assert.ok(!JSON.stringify(report).includes('abcdefgh12345678'))
})
