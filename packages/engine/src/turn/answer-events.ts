/** Advances the answer machine by an event of the journal. Events that are not about the answer change nothing. */
import { faultFrom } from '@breakfall/faults'
import { type AnswerState, reduceAnswer } from '@breakfall/model/internal'
import type { SessionEvent } from '@breakfall/wire'
import { countsAsFault, questionOf } from '@breakfall/wire/turn'

export function advanced(answer: AnswerState, event: SessionEvent): AnswerState {
  switch (event.type) {
    case 'step-start':
    case 'text-delta':
    case 'reasoning-delta':
    case 'part-discarded':
    case 'tool-draft':
    case 'tool-call':
    case 'resumed':
    case 'compacted':
    case 'taken-over':
      return reduceAnswer(answer, event)
    case 'parked':
      return reduceAnswer(answer, {
        ...event,
        fault: faultFrom(event.fault).report,
        isFree: !countsAsFault(event),
        isQuestion: questionOf(event) !== undefined,
      })
    case 'retry':
      return reduceAnswer(answer, {
        ...event,
        fault: faultFrom(event.fault).report,
        tells: event.told !== undefined,
      })
    case 'turn-queued':
    case 'turn-start':
    case 'tool-output':
    case 'tool-result':
    case 'box-moved':
    case 'model-server':
    case 'approval-requested':
    case 'approval':
    case 'turn-end':
    case 'turn-error':
      return answer
  }
}
