/**
 * Asks the owner of a session, another daemon, to do something, and waits for its answer.
 *
 * I1  A command that is not answered in time is withdrawn: then it certainly was not carried out, and certainly will not be.
 */
import { Fault, faultFrom, isFaultReport } from '@breakfall/faults'
import type { CommandRow, NewCommand } from '../store/sharing.ts'
import type { Store } from '../store/store.ts'

/** What the owner did, or why it refused. */
export const answered = (value: unknown): string => JSON.stringify({ ok: value })
export const refused = (fault: Fault): string => JSON.stringify({ fault: fault.report })

export class Asking {
  readonly #store: Store

  constructor(store: Store) {
    this.#store = store
  }

  /** The owner's answer. Throws its refusal, or `journal_unreachable` if it does not answer in time (I1). */
  async ask(command: NewCommand, waitMs: number): Promise<unknown> {
    const row = await this.submit(command)
    if (row.requestHash !== command.requestHash) throw new Fault('idempotency_conflict')
    const outcome = await this.#outcome(row, waitMs)
    if (outcome !== undefined) return valueOf(outcome)
    if (await this.#store.withdraw(row.id))
      throw new Fault('journal_unreachable', {
        errorRaw: `the owner of session ${command.sessionId} did not answer in ${waitMs} ms`,
        retryAfterMs: RETRY_MS,
      })
    return valueOf((await this.#store.getCommand(row.id))?.outcome ?? refused(new Fault('not_found', { facts: GONE })))
  }

  /** Durable from now on; the owner learns of it at once, or within a second. */
  async submit(command: NewCommand): Promise<CommandRow> {
    const row = await this.#store.submit(command)
    this.#store.hints.send({ kind: 'command', sessionId: command.sessionId })
    return row
  }

  /** Resolves when the command has its outcome, or is gone with its session. False if neither happens in time. */
  async isDone(row: CommandRow, waitMs: number): Promise<boolean> {
    return (await this.#outcome(row, waitMs)) !== undefined
  }

  // ---- details ----

  async #outcome(row: CommandRow, waitMs: number): Promise<string | undefined> {
    const until = performance.now() + waitMs
    let found: CommandRow | undefined = row
    for (let pauseMs = PAUSE_MS; found?.outcome === null; pauseMs = Math.min(pauseMs * 2, PAUSE_MS_MAX)) {
      const leftMs = until - performance.now()
      if (leftMs <= 0) return undefined
      await this.#hinted(row.id, Math.min(pauseMs, leftMs))
      found = await this.#store.getCommand(row.id)
    }
    return found?.outcome ?? refused(new Fault('not_found', { facts: GONE }))
  }

  #hinted(commandId: string, ms: number): Promise<void> {
    return new Promise((resolve) => {
      const done = (): void => {
        unlisten()
        clearTimeout(timer)
        resolve()
      }
      const timer = setTimeout(done, ms)
      const unlisten = this.#store.hints.on((hint) => {
        if (hint.kind === 'outcome' && hint.commandId === commandId) done()
      })
    })
  }
}

const GONE = { name: 'such session' } as const
const RETRY_MS = 2_000
const PAUSE_MS = 100
const PAUSE_MS_MAX = 1_000

function valueOf(outcome: string): unknown {
  const parsed: unknown = JSON.parse(outcome)
  if (typeof parsed !== 'object' || parsed === null) return undefined
  if ('fault' in parsed && isFaultReport(parsed.fault)) throw faultFrom(parsed.fault)
  return 'ok' in parsed ? parsed.ok : undefined
}
