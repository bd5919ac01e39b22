/**
 * Appends that wait to be written. Pure: it says which of them travel together.
 *
 * I1  Of one session, only one append is under way at a time, and in the order in which they came: each builds on the one before.
 * I2  An append that can fail without the others (because of a key or a command), or that may have broken a connection, travels alone.
 */
import type { Fault } from '@breakfall/faults'
import type { Append } from '../store.ts'
import { isAlone } from './append-sql.ts'

const SESSIONS_MAX = 1_000
const CHARS_MAX = 4 * 1024 * 1024
/** Fewer are not divided among connections: two statements of 32 rows take half as much CPU time again as one of 64. */
const SESSIONS_TO_DIVIDE = 64

export type Waiting = {
  readonly append: Append
  readonly resolve: () => void
  readonly reject: (fault: Fault) => void
  /** It travels alone, regardless of its contents. */
  readonly isAlone?: boolean
}

export class AppendQueue {
  #waiting: Waiting[] = []
  readonly #underWay = new Set<string>()
  /** How many appends of each session are not answered yet. */
  readonly #open = new Map<string, number>()
  readonly #settled: (() => void)[] = []

  add({ append, resolve, reject }: Waiting): void {
    this.#waiting.push({ append, resolve: this.#leaving(append, resolve), reject: this.#leaving(append, reject) })
    this.#open.set(append.sessionId, (this.#open.get(append.sessionId) ?? 0) + 1)
  }

  /** The next batch, if `connections` are free to write. Its sessions are under way until `done`. */
  take(connections: number): readonly Waiting[] {
    const share = Math.max(Math.ceil(this.#waiting.length / connections), SESSIONS_TO_DIVIDE)
    const seen = new Set(this.#underWay)
    const [taken, rest]: [Waiting[], Waiting[]] = [[], []]
    let room = CHARS_MAX
    for (const waiting of this.#waiting) {
      const { append } = waiting
      const isFull = room < 0 || taken.length >= Math.min(share, SESSIONS_MAX)
      const isLater = seen.has(append.sessionId) // I1: also if the earlier one has to wait
      seen.add(append.sessionId)
      const travelsAlone = waiting.isAlone === true || isAlone(append)
      if (isFull || isLater || (travelsAlone && taken.length > 0)) rest.push(waiting)
      else {
        taken.push(waiting)
        for (const { body } of append.events) room -= body.length
        if (travelsAlone) room = -1 // I2
      }
    }
    this.#waiting = rest
    for (const { append } of taken) this.#underWay.add(append.sessionId)
    return taken
  }

  done(batch: readonly Waiting[]): void {
    for (const { append } of batch) this.#underWay.delete(append.sessionId)
  }

  /** Behind the other sessions, and before the appends that build on it. */
  putBack(locked: Waiting): void {
    const isSame = ({ append }: Waiting): boolean => append.sessionId === locked.append.sessionId
    this.#waiting = [...this.#waiting.filter((waiting) => !isSame(waiting)), locked, ...this.#waiting.filter(isSame)]
  }

  /** Resolves when every append of this session is answered: calls made at once take effect in their order. */
  async settled(sessionId: string): Promise<void> {
    while (this.#open.has(sessionId)) await new Promise<void>((resolve) => this.#settled.push(resolve))
  }

  refuseAll(fault: Fault): void {
    for (const { reject } of this.#waiting.splice(0)) reject(fault)
  }

  // ---- details ----

  /** A caller that waits for the end of this session's appends checks again. */
  #leaving<A extends readonly unknown[]>({ sessionId }: Append, answer: (...given: A) => void): (...given: A) => void {
    return (...given) => {
      const left = (this.#open.get(sessionId) ?? 1) - 1
      if (left > 0) this.#open.set(sessionId, left)
      else this.#open.delete(sessionId)
      answer(...given)
      for (const look of this.#settled.splice(0)) look()
    }
  }
}
