/**
 * The turning points of a turn as log lines, with the ids that link a line to the journal, the API and the runner. Texts and
 * command output stay in the journal.
 */
import { isCutOff, type SessionEvent } from '@breakfall/wire'
import type { Log } from './log.ts'

export function logEvent(log: Log, event: SessionEvent): void {
  const { sessionId, turnId, seq } = event
  const ids = { sessionId, turnId, seq }
  switch (event.type) {
    case 'turn-start':
      return log.info(ids, 'turn started')
    case 'tool-call':
      return log.info({ ...ids, callId: event.callId, tool: event.tool, execId: event.execId }, 'tool called')
    case 'retry': {
      const { action, attempt, max, delayMs } = event
      return log.info({ ...ids, category: event.fault.category, action, attempt, max, delayMs }, 'retrying')
    }
    case 'compacted': {
      const { step, droppedResults, summaryBytes, requestBytesBefore, requestBytesAfter } = event
      const sizes = { step, droppedResults, summaryBytes, requestBytesBefore, requestBytesAfter }
      return log.info({ ...ids, ...sizes }, 'conversation shortened')
    }
    case 'parked':
      return log.warn({ ...ids, category: event.fault.category, resumeAt: event.resumeAt }, 'turn parked')
    case 'resumed':
      return log.info({ ...ids, because: event.because }, 'turn resumed')
    case 'taken-over':
      return log.info({ ...ids, epoch: event.epoch }, 'turn taken over')
    case 'box-moved':
      return log.warn({ ...ids, from: event.from, to: event.to, filesKept: event.filesKept }, 'box moved')
    case 'model-server':
      return log.info({ ...ids, state: event.state, since: event.since }, 'turn waits for the model server')
    case 'approval-requested':
      return log.warn({ ...ids, tool: event.tool, callId: event.callId }, 'a tool call needs an approval')
    case 'approval':
      return log.info({ ...ids, callId: event.callId, decision: event.decision }, 'approval')
    case 'turn-end': {
      const { steps, faultsSurvived, finish } = event
      if (isCutOff(event)) return log.warn({ ...ids, steps, finish }, "turn ended at the model's token limit")
      return log.info({ ...ids, steps, faultsSurvived, finish }, 'turn ended')
    }
    case 'turn-error':
      return log.info({ ...ids, category: event.category, stopped: event.stopped }, 'turn ended with a fault')
    case 'turn-queued':
    case 'step-start':
    case 'text-delta':
    case 'reasoning-delta':
    case 'part-discarded':
    case 'tool-draft':
    case 'tool-output':
    case 'tool-result':
      return undefined
  }
}
