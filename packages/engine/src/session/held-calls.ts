/**
 * Calls of MCP servers' tools that are open in this process. A call stays open while its server waits for a person's answer and the
 * turn is parked.
 *
 * I1  A held call ends with its result, its turn, or the session: then its server gets a cancel.
 */
import type { McpAnswer, McpQuestion } from '@breakfall/mcp'
import type { SessionEvent } from '@breakfall/wire'
import { newId } from '@breakfall/wire/node'
import type { SessionFold } from '../turn/state.ts'
import type { ToolOutcome } from '../turn/tool-outcome.ts'

export type AskedQuestion = McpQuestion & { readonly id: string }

type Ask = (question: McpQuestion) => Promise<McpAnswer>
type Waiting = { readonly question: AskedQuestion; readonly answer: (answer: McpAnswer) => void }

export class HeldCall {
  readonly outcome: Promise<ToolOutcome>
  readonly #stop = new AbortController()
  readonly #waiting: Waiting[] = []
  readonly #onChange: () => void
  #isOver = false
  #changed = Promise.withResolvers<void>()

  /** `run` makes the call. `onChange`: it is over, or a question was put or withdrawn. */
  constructor(run: (ask: Ask, signal: AbortSignal) => Promise<ToolOutcome>, onChange: () => void) {
    this.#onChange = onChange
    this.outcome = run((question) => this.#ask(question), this.#stop.signal).finally(() => {
      this.#isOver = true
      this.#change()
    })
    this.outcome.catch(() => undefined) // whoever asks for it gets it; the turn may have ended before
  }

  /** What its server asks now. Undefined: the call is over. */
  async question(): Promise<AskedQuestion | undefined> {
    for (;;) {
      if (this.#isOver) return undefined
      const [first] = this.#waiting
      if (first !== undefined) return first.question
      await this.#changed.promise
    }
  }

  /** Whether its server still waits for this answer. */
  awaits(id: string): boolean {
    return !this.#isOver && this.#waiting.some(({ question }) => question.id === id)
  }

  answer(id: string, answer: McpAnswer): void {
    const at = this.#waiting.findIndex(({ question }) => question.id === id)
    if (at !== -1) this.#waiting.splice(at, 1)[0]?.answer(answer)
  }

  stop(reason?: unknown): void {
    this.#stop.abort(reason)
  }

  // ---- details ----

  #ask(question: McpQuestion): Promise<McpAnswer> {
    const { promise, resolve } = Promise.withResolvers<McpAnswer>()
    const id = newId()
    this.#waiting.push({ question: { ...question, id }, answer: resolve })
    for (const signal of [question.signal, this.#stop.signal])
      signal.addEventListener('abort', () => {
        this.answer(id, { action: 'cancel' })
        this.#change()
      })
    this.#change()
    return promise
  }

  #change(): void {
    this.#changed.resolve()
    this.#changed = Promise.withResolvers<void>()
    this.#onChange()
  }
}

export class HeldCalls {
  readonly #calls = new Map<string, HeldCall>()

  get(callId: string): HeldCall | undefined {
    return this.#calls.get(callId)
  }

  hold(callId: string, call: HeldCall): HeldCall {
    this.#calls.set(callId, call)
    return call
  }

  /** Follows the journal. `fold` is its state after these events. */
  committed(events: readonly SessionEvent[], fold: SessionFold): void {
    for (const event of events) if (event.type === 'tool-result') this.drop(event.callId) // I1
    if (fold.turn === null) this.dropAll() // I1
  }

  dropAll(): void {
    for (const callId of this.#calls.keys()) this.drop(callId)
  }

  drop(callId: string): void {
    this.#calls.get(callId)?.stop()
    this.#calls.delete(callId)
  }
}
