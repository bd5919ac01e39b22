/**
 * A few connections for reads and short writes. Every statement here may be repeated: it reads, or the second time changes nothing.
 *
 * I1  No caller waits longer than ten seconds, for a free connection and for the answer together: then `journal_unreachable`.
 * I2  Connections are opened at the start and kept. A connection that cannot be reopened is tried last: while the server
 *     has none to spare, the others do the work.
 */
import { performance } from 'node:perf_hooks'
import { Fault, sleep } from '@breakfall/faults'
import type { Row } from '../sqlite-statements.ts'
import { Connection, type PgValue } from './connection.ts'
import { troubleOf, unreachable } from './pg-fault.ts'

const WAIT_MS = 10_000
const AGAIN_MS = 100 // between two attempts while the server is away

export class Pool {
  readonly #all: readonly Connection[]
  readonly #free: Connection[]
  readonly #waiting: ((connection: Connection) => void)[] = []
  #isEnded = false

  constructor(url: string, size: number) {
    this.#all = Array.from({ length: size }, () => new Connection({ url, waitMs: WAIT_MS }))
    this.#free = [...this.#all]
  }

  /** I2: rejects if the server does not give us all of them. */
  async open(): Promise<void> {
    await Promise.all(this.#all.map((connection) => connection.query('SELECT 1')))
  }

  async query(text: string, values: readonly PgValue[] = []): Promise<readonly Row[]> {
    const until = performance.now() + WAIT_MS
    for (;;) {
      const connection = await this.#take(until)
      let isOpen = true
      try {
        return await connection.query(text, values)
      } catch (error) {
        const trouble = troubleOf(error)
        isOpen = trouble !== 'connection'
        if (this.#isEnded) throw closed()
        if (trouble === 'statement') throw error
        if (performance.now() + AGAIN_MS > until) throw unreachable(error) // I1
      } finally {
        this.#give(connection, isOpen)
      }
      if (!isOpen) await sleep(AGAIN_MS)
    }
  }

  get usage(): { readonly size: number; readonly free: number; readonly waiting: number } {
    return { size: this.#all.length, free: this.#free.length, waiting: this.#waiting.length }
  }

  async end(): Promise<void> {
    this.#isEnded = true
    await Promise.all(this.#all.map((connection) => connection.end()))
  }

  async #take(until: number): Promise<Connection> {
    if (this.#isEnded) throw closed()
    const free = this.#free.pop()
    if (free !== undefined) return free
    return new Promise<Connection>((resolve, reject) => {
      const timer = setTimeout(
        () => {
          this.#waiting.splice(this.#waiting.indexOf(take), 1)
          reject(unreachable())
        },
        Math.max(until - performance.now(), 0),
      )
      const take = (connection: Connection): void => {
        clearTimeout(timer)
        resolve(connection)
      }
      this.#waiting.push(take)
    })
  }

  #give(connection: Connection, isOpen: boolean): void {
    const next = this.#waiting.shift()
    if (next !== undefined) next(connection)
    else if (isOpen) this.#free.push(connection)
    else this.#free.unshift(connection) // I2
  }
}

/** Nothing is written after this. */
export const closed = (): Fault => new Fault('shutting_down', { boundary: 'journal', errorRaw: 'the store is closed' })
