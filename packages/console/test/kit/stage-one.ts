/** A stage with a single session. */
import { Journal } from './journal.ts'
import type { StagedDaemon } from './staged-daemon.ts'

/** A turn that waits for its next attempt. */
export const retryJournal = (delayMs: number, more: Readonly<Record<string, unknown>> = {}): Journal =>
  new Journal('s1', Date.now())
    .turn('t1', 'go')
    .step()
    .say('half an ans', 5)
    .retry('model_overloaded', '503', delayMs, { fault: more })

export function stageOne(staged: StagedDaemon, journal: Journal, state = 'retrying', more: object = {}): void {
  staged.put(
    {
      id: 's1',
      title: 'One',
      state: 'busy',
      model: 'm',
      createdAt: new Date().toISOString(),
      lastSeq: 1,
      policy: {},
      turn: {
        id: 't1',
        state,
        prompt: 'go',
        steps: 1,
        attempts: 1,
        marks: '-x',
        faultsSurvived: 0,
        unknownOutcomes: 0,
        startedAt: new Date().toISOString(),
        endedAt: null,
        fault: null,
        parked: null,
        retry: null,
        ...more,
      },
    },
    journal.events,
  )
}
