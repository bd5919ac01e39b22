/**
 * A command that arrives late: its start is held back, the daemon that sent it loses its database, another daemon takes the turn over
 * and finishes the command. Only then the start arrives at the runner, which must refuse it: that is how late requests come in networks.
 */
import type { DaemonClient } from '@breakfall/client'
import { isTerminal } from '@breakfall/wire'
import type { HeldRequest } from '../../../test/kit/holding-proxy.ts'

export type Late = 'refused' | 'ran' | 'undelivered'

type LateParts = {
  readonly client: DaemonClient
  readonly hold: StartHold
  /** Whether no other daemon could take over from that one. */
  readonly isAlone: (daemon: string) => boolean
  /** Cuts the daemon of that name from the database until the returned function is called. */
  readonly cut: (daemon: string) => Promise<() => Promise<void>>
  readonly signal: AbortSignal
}

const START_MS_MAX = 60_000
const TAKEOVER_MS_MAX = 120_000

/** Undefined: no command was started, or no other daemon could take over, or none did in time. */
export async function lateCommand({ client, hold, isAlone, cut, signal }: LateParts): Promise<Late | undefined> {
  const held = await hold.next(AbortSignal.any([signal, AbortSignal.timeout(START_MS_MAX)]))
  if (held === undefined) return undefined
  let repair: (() => Promise<void>) | undefined
  try {
    const { id, owner, lastSeq } = await client.session(boxOf(held)) // a session's own box has its id
    const hasHeir = owner == null || !isAlone(owner.name)
    if (hasHeir && owner != null) repair = await cut(owner.name)
    const isFinished = hasHeir && (await finishedElsewhere(client, { id, lastSeq }, signal))
    const status = await held.release()
    if (!isFinished) return undefined
    if (status === 0) return 'undelivered' // the runner is gone, too
    return status < 400 ? 'ran' : 'refused'
  } catch {
    await held.release() // no daemon answers: the command was only slow
    return undefined
  } finally {
    await repair?.()
  }
}

/** Takes the next start of a command at any door, if somebody wants it. */
export class StartHold {
  #take: ((held: HeldRequest) => void) | undefined

  /** Undefined if none came before the signal. */
  async next(signal: AbortSignal): Promise<HeldRequest | undefined> {
    const found = Promise.withResolvers<HeldRequest | undefined>()
    this.#take = found.resolve
    signal.addEventListener('abort', () => found.resolve(undefined), { once: true })
    try {
      return await found.promise
    } finally {
      this.#take = undefined
    }
  }

  wants({ method, path }: Pick<HeldRequest, 'method' | 'path'>): boolean {
    return this.#take !== undefined && method === 'POST' && START.test(path)
  }

  take(held: HeldRequest): void {
    this.#take?.(held)
    this.#take = undefined
  }
}

// ---- details ----

const START = /\/boxes\/([^/?]+)\/exec(?:\?|$)/

const boxOf = ({ path }: HeldRequest): string => START.exec(path)?.[1] ?? ''

/** Whether another daemon took over after that event and got the result of the command. */
async function finishedElsewhere(
  client: DaemonClient,
  { id, lastSeq }: { readonly id: string; readonly lastSeq: number },
  signal: AbortSignal,
): Promise<boolean> {
  const limit = AbortSignal.any([signal, AbortSignal.timeout(TAKEOVER_MS_MAX)])
  let isTaken = false
  try {
    for await (const event of client.events(id, { after: lastSeq, signal: limit })) {
      if (event.type === 'taken-over') isTaken = true
      if (event.type === 'tool-result' && isTaken) return true
      if (isTerminal(event)) return false
    }
  } catch {
    // No daemon answers any more: as far as we know, none took over.
  }
  return false
}
