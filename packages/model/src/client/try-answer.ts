/**
 * One attempt at an answer, for a caller that drives the answer machine itself, as the daemon does through its journal.
 *
 * I1  It never throws after it starts, and its last event is `done` or `failed`, exactly one of them.
 * I2  It does not decide, wait or discard anything: what was shown stays until the caller discards it.
 * I3  A tool call is released only when complete and proven, just before `done`.
 */
import assert from 'node:assert/strict'
import { classify, type Policy } from '@breakfall/faults'
import type { AnswerRequest, TryEvent, TryOptions } from '../contract/answer.ts'
import { systemNow } from '../lib/clock.ts'
import { EventQueue } from '../lib/event-queue.ts'
import { Lifetime } from '../lib/lifetime.ts'
import { type AttemptResult, QueuedAttempt } from './queued-attempt.ts'
import { partCounter } from '../dialects/read-answer.ts'
import { resolvePolicy } from '../contract/resolve-policy.ts'
import { canContinue, targetOf } from '../attempt/target.ts'

export function tryAnswer(request: AnswerRequest, options: TryOptions = {}): AsyncIterable<TryEvent> {
  const { kept = '' } = options
  assert(kept === '' || canContinue(targetOf(request), kept), 'this server cannot continue the kept text')
  const policy = resolvePolicy(options.policy)
  return { [Symbol.asyncIterator]: () => begin(request, { ...options, policy }) }
}

// ---- details ----

function begin(request: AnswerRequest, options: TryOptions & { readonly policy: Policy }): EventQueue<TryEvent> {
  const now = options.now ?? systemNow
  const lifetime = new Lifetime(options.signal, options.deadlineAt ?? null, now)
  const events: EventQueue<TryEvent> = new EventQueue<TryEvent>({
    onFull: () => attempt.pause(),
    onRoom: () => attempt.resume(),
    onLeft: () => lifetime.end(),
  })
  const attempt = new QueuedAttempt({
    attempt: options.attempt ?? 1,
    target: targetOf(request),
    kept: options.kept ?? '',
    policy: options.policy,
    signal: lifetime.signal,
    now,
    nextPartId: partCounter(),
    events,
    onBytes: options.onBytes,
    lastFault: options.lastFault,
    trace: options.trace,
  })
  void finish(attempt, events).finally(() => lifetime.dispose())
  return events
}

async function finish(attempt: QueuedAttempt, events: EventQueue<TryEvent>): Promise<void> {
  const result = await attempt.run().catch((bug: unknown) => failedBy(bug)) // I1
  if (result.complete) {
    const { finish: reason, proven } = result
    events.push({ type: 'done', finish: reason, proven, record: attempt.record(null, null, 0) })
  } else {
    const { fault, diverged, contentStarted } = result
    const record = attempt.record(fault.report, null, 0)
    events.push({ type: 'failed', fault: fault.report, diverged, contentStarted, record })
  }
  events.close()
}

const failedBy = (bug: unknown): AttemptResult => ({
  complete: false,
  fault: classify(bug, { boundary: 'daemon' }),
  diverged: false,
  contentStarted: false,
})
