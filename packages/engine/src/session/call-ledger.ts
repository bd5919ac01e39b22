/**
 * Which calls of a session's turn may have started. The journal says which calls are open; this process adds what it has sent for them.
 *
 * I1  A call counts as started from before its request leaves. It counts as not started again only if every request of it was
 *     refused for certain.
 * I2  Calls run in order: of those that an earlier process left open, only the first can have started.
 */
import type { SessionEvent } from '@breakfall/wire'
import type { SessionData } from '../rows.ts'
import type { SessionFold, ToolCall } from '../turn/state.ts'

/** Whether a call that an earlier process left open can have left that process. */
export type MayHaveLeft = (call: ToolCall, data: LeftBehind) => boolean

/** What is known of the session of such a call. */
export type LeftBehind = Pick<SessionData, 'runnerId' | 'boxReleased' | 'tools' | 'outside'>

export class CallLedger {
  /** The open calls, with how many requests of each may have arrived. */
  readonly #requests = new Map<string, number>()

  constructor(fold: SessionFold, data: LeftBehind, mayHaveLeft: MayHaveLeft) {
    for (const [index, call] of openCalls(fold).entries()) {
      const isAsking = call.approval?.decision === null && call.approval.question === undefined
      this.#requests.set(call.callId, index === 0 && !isAsking && mayHaveLeft(call, data) ? 1 : 0) // I2
    }
  }

  mayHaveStarted(callId: string): boolean {
    return this.#requests.get(callId) !== 0
  }

  /** A request of the call is about to leave. */
  starting(callId: string): void {
    this.#count(callId, 1) // I1
  }

  /** The request that was starting has certainly had no effect. */
  refused(callId: string): void {
    this.#count(callId, -1)
  }

  /** Follows the journal. `fold` is its state after these events. */
  committed(events: readonly SessionEvent[], fold: SessionFold): void {
    for (const event of events) {
      if (event.type === 'tool-call') this.#requests.set(event.callId, 0)
      if (event.type === 'tool-result') this.#requests.delete(event.callId)
      // What may have started in the old box has its result in the same commit.
      if (event.type === 'box-moved') for (const { callId } of openCalls(fold)) this.#requests.set(callId, 0)
    }
    if (fold.turn === null) this.#requests.clear()
  }

  /** Nothing is known of a call that is not open, so it may have started. */
  #count(callId: string, more: number): void {
    this.#requests.set(callId, (this.#requests.get(callId) ?? 1) + more)
  }
}

// ---- details ----

const openCalls = ({ turn }: SessionFold): readonly ToolCall[] =>
  turn?.calls.filter((call) => call.result === null) ?? []
