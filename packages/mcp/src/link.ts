/** What holds the current connection to a server, and brings back a lost one. */
import type { Fault } from '@breakfall/faults'
import type { Connection } from './connection.ts'

export const MCP_STATES = ['starting', 'ready', 'restarting', 'failed'] as const
export type McpState = (typeof MCP_STATES)[number]

/** How the last run of a local server ended. */
export type LastExit = { readonly code: number | null; readonly signal: string | null; readonly error: string }

export type Link = {
  readonly state: McpState
  readonly since: string
  /** The connection that takes calls now. */
  readonly connection: Connection | undefined
  /** Why it is restarting or has failed. */
  readonly fault: Fault | null
  readonly lastExit: LastExit | null
  /** The last lines that it wrote besides the protocol. */
  readonly log: readonly string[]
  start(): void
  /** A connection, through restarts. Rejects with a fault if it has failed or the signal fires. */
  connected(signal: AbortSignal): Promise<Connection>
  /** Resolves when the first start has succeeded or failed. Rejects if the signal fires. */
  tried(signal: AbortSignal): Promise<true>
  /**
   * Resolves when it is ready, has failed, or keeps failing to start. Rejects if the signal fires. One failed start is not enough:
   * the next one may use the other handshake.
   */
  started(signal: AbortSignal): Promise<true>
  /** This connection failed in a call. Resolves with a better reason, if there is one. */
  broken(connection: Connection, fault: Fault): Promise<Fault>
  restart(): Promise<void>
  stop(): Promise<void>
}

export const LOG_LINES_MAX = 200

/** A server that fails so many starts in a row is down: a turn does not wait for its next one. */
export const FAILED_STARTS_MAX = 2

/** The last lines, bounded. */
export class LogTail {
  readonly #lines: string[] = []

  get lines(): readonly string[] {
    return this.#lines
  }

  add(line: string): void {
    this.#lines.push(line.slice(0, 1_000))
    if (this.#lines.length > LOG_LINES_MAX) this.#lines.shift()
  }
}

/** Callers that wait for a change. */
export class Waiters {
  readonly #waiting = new Set<() => void>()

  get count(): number {
    return this.#waiting.size
  }

  wake(): void {
    for (const wake of this.#waiting) wake()
  }

  /** Resolves when `done` returns a value; rejects if it throws or the signal fires. */
  async until<T>(done: () => T | undefined, signal: AbortSignal): Promise<T> {
    const { promise, resolve, reject } = Promise.withResolvers<T>()
    const check = (): void => {
      try {
        const value = done()
        if (value !== undefined) resolve(value)
        else if (signal.aborted) reject(signal.reason)
      } catch (thrown) {
        reject(thrown)
      }
    }
    this.#waiting.add(check)
    signal.addEventListener('abort', check, { once: true })
    check()
    try {
      return await promise
    } finally {
      this.#waiting.delete(check)
      signal.removeEventListener('abort', check)
    }
  }
}
