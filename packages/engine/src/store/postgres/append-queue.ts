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
/** Fewer are not divided among connections: each statement has its own sync, and two of 16 rows take longer than one of 32. */
const SESSIONS_TO_DIVIDE = 32

export type Waiting = {
  readonly append: Append
  readonly resolve: () => void
  readonly reject: (fault: Fault) => void
  /** It travels alone, regardless of its contents. */
  readonly isAlone?: boolean
  /** The outcome of an earlier attempt is unknown. */
  readonly mayHaveLanded?: boolean
}

/** What the queue knows of a session. Kept while it is idle: a map that is emptied and filled again all the time is garbage all the time. */
type Line = {
  /** How many of its appends are not answered yet. */
  open: number
  isUnderWay: boolean
  /** The number of the batch that met it last. */
  met: number
}

export class AppendQueue {
  #waiting: Waiting[] = []
  readonly #lines = new Map<string, Line>()
  #linesMax = LINES_MIN
  #batches = 0
  readonly #settled: (() => void)[] = []

  add({ append, resolve, reject }: Waiting): void {
    const line = this.#lineOf(append.sessionId)
    line.open += 1
    this.#waiting.push({ append, resolve: this.#leaving(line, resolve), reject: this.#leaving(line, reject) })
  }

  /** The next batch, if `connections` are free to write. Its sessions are under way until `done`. */
  take(connections: number): readonly Waiting[] {
    const share = Math.max(Math.ceil(this.#waiting.length / connections), SESSIONS_TO_DIVIDE)
    this.#batches += 1
    const [taken, rest]: [Waiting[], Waiting[]] = [[], []]
    let room = CHARS_MAX
    for (const waiting of this.#waiting) {
      const { append } = waiting
      const line = this.#lineOf(append.sessionId)
      const isFull = room < 0 || taken.length >= Math.min(share, SESSIONS_MAX)
      const isLater = line.isUnderWay || line.met === this.#batches // I1: also if the earlier one has to wait
      line.met = this.#batches
      const travelsAlone = waiting.isAlone === true || isAlone(append)
      if (isFull || isLater || (travelsAlone && taken.length > 0)) rest.push(waiting)
      else {
        taken.push(waiting)
        for (const { body } of append.events) room -= body.length
        if (travelsAlone) room = -1 // I2
      }
    }
    this.#waiting = rest
    for (const { append } of taken) this.#lineOf(append.sessionId).isUnderWay = true
    return taken
  }

  done(batch: readonly Waiting[]): void {
    for (const { append } of batch) this.#lineOf(append.sessionId).isUnderWay = false
  }

  /** Behind the other sessions, and before the appends that build on it. */
  putBack(locked: Waiting): void {
    const isSame = ({ append }: Waiting): boolean => append.sessionId === locked.append.sessionId
    this.#waiting = [...this.#waiting.filter((waiting) => !isSame(waiting)), locked, ...this.#waiting.filter(isSame)]
  }

  /** Resolves when every append of this session is answered: calls made at once take effect in their order. */
  async settled(sessionId: string): Promise<void> {
    while ((this.#lines.get(sessionId)?.open ?? 0) > 0)
      await new Promise<void>((resolve) => this.#settled.push(resolve))
  }

  refuseAll(fault: Fault): void {
    for (const { reject } of this.#waiting.splice(0)) reject(fault)
  }

  // ---- details ----

  #lineOf(sessionId: string): Line {
    const known = this.#lines.get(sessionId)
    if (known !== undefined) return known
    if (this.#lines.size >= this.#linesMax) this.#forgetIdle()
    const line = { open: 0, isUnderWay: false, met: 0 }
    this.#lines.set(sessionId, line)
    return line
  }

  #forgetIdle(): void {
    for (const [id, { open, isUnderWay }] of this.#lines) if (open === 0 && !isUnderWay) this.#lines.delete(id)
    this.#linesMax = Math.max(LINES_MIN, this.#lines.size * 2)
  }

  /** A caller that waits for the end of this session's appends checks again. */
  #leaving<A extends readonly unknown[]>(line: Line, answer: (...given: A) => void): (...given: A) => void {
    return (...given) => {
      line.open -= 1
      answer(...given)
      for (const look of this.#settled.splice(0)) look()
    }
  }
}

const LINES_MIN = 4_096
