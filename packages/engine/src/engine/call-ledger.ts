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

export class CallLedger {
  /** The open calls, with how many requests of each may have arrived. */
  readonly #requests = new Map<string, number>()

  constructor(fold: SessionFold, data: Pick<SessionData, 'runnerId' | 'boxReleased'>) {
    const hasBox = data.runnerId !== null && data.boxReleased !== true
    for (const [index, call] of openCalls(fold).entries())
      this.#requests.set(call.callId, index === 0 && mayHaveLeft(call, hasBox) ? 1 : 0) // I2
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

/** These have not left: a call that waits for an approval, a call of a server's tool that was never sent, a write that never reached
 * its file. */
function mayHaveLeft(call: ToolCall, hasBox: boolean): boolean {
  if (call.approval?.decision === null) return false
  if (call.tool.startsWith('mcp__')) return call.sent.times > 0
  return hasBox && !(call.notesFile && call.file === undefined)
}
