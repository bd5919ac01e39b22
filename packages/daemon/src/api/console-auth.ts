/**
 * Lets a browser in without the daemon's own token, which argv and a browser's history would keep: a ticket in the address is
 * exchanged for a token that expires.
 *
 * I1  A ticket is valid once, and for two minutes. Daemons that share a store accept each other's tickets, and the store keeps
 *     which were used. Elsewhere tickets live in memory: after a restart a ticket is void, never valid twice.
 * I2  A console token is signed with the daemon's token: it outlives a killed daemon, works on every daemon with the same token
 *     file, and dies when that file changes.
 * I3  A console token cannot make tickets, so no one can prolong it.
 * I4  Guessing is limited, and a valid ticket is always accepted: no one can lock a person out.
 */
import { createHmac, randomBytes } from 'node:crypto'
import { Fault } from '@breakfall/faults'
import type { ConsoleTicket, ConsoleToken } from '@breakfall/wire'
import { findGrant, newId, sameToken, type TokenGrant } from '@breakfall/wire/node'
import type { RunnerRegistry } from '@breakfall/engine'

const TICKET_MS = 2 * 60_000
const TICKETS_MAX = 1_000 // unused ones; the oldest go first, so the memory stays bounded
const TOKEN_MS = 12 * 3_600_000 // a working day
const GUESSES_MAX = 10
const GUESSES_MS = 60_000

/** Which tickets can still be used. */
export type Tickets = {
  readonly add: (ticket: string) => void
  /** True once for each ticket. */
  readonly use: (ticket: string) => Promise<boolean>
}

/** Of this process alone (I1). */
export function ticketsInMemory(): Tickets {
  const unused = new Set<string>() // oldest first
  return {
    add: (ticket) => {
      for (const oldest of unused) {
        if (unused.size < TICKETS_MAX) break
        unused.delete(oldest)
      }
      unused.add(ticket)
    },
    use: (ticket) => Promise.resolve(unused.delete(ticket)),
  }
}

/** Of all daemons that share a store, where a runner's code is used up in the same way (I1). */
export const ticketsInStore = (registry: Pick<RunnerRegistry, 'enroll'>): Tickets => ({
  add: () => undefined, // its signature says that it was given out
  use: (ticket) => registry.enroll(`console ${ticket}`, newId()),
})

export class ConsoleAuth {
  readonly #grants: () => readonly TokenGrant[]
  readonly #now: () => number
  readonly #tickets: Tickets
  /** Times of wrong tickets. */
  #guesses: readonly number[] = []

  constructor(grants: () => readonly TokenGrant[], now: () => number, tickets: Tickets) {
    this.#grants = grants
    this.#now = now
    this.#tickets = tickets
  }

  /** The grant of a token from the token file, or of a token that was exchanged here. */
  grantOf(token: string | undefined): TokenGrant | undefined {
    return findGrant(this.#grants(), token) ?? this.#consoleGrant(token ?? '')
  }

  ticket(token: string | undefined): ConsoleTicket {
    const grant = findGrant(this.#grants(), token)
    if (grant === undefined) throw notFromConsole() // I3
    const expiresAt = this.#now() + TICKET_MS
    const ticket = sealed('ticket', grant.token, expiresAt)
    this.#tickets.add(ticket)
    return { ticket, expiresAt: iso(expiresAt) }
  }

  async exchange(ticket: string): Promise<ConsoleToken> {
    const grant = this.#sealedBy('ticket', ticket)
    if (grant === undefined || !(await this.#tickets.use(ticket))) throw this.#wrongTicket() // I1, I4
    const expiresAt = this.#now() + TOKEN_MS
    return { token: sealed('token', grant.token, expiresAt), expiresAt: iso(expiresAt) }
  }

  #wrongTicket(): Fault {
    const from = this.#now() - GUESSES_MS
    this.#guesses = [...this.#guesses.filter((at) => at > from), this.#now()].slice(-GUESSES_MAX - 1)
    return this.#guesses.length > GUESSES_MAX ? tooManyTickets() : wrongTicket()
  }

  #consoleGrant(token: string): TokenGrant | undefined {
    const grant = this.#sealedBy('token', token)
    return grant === undefined ? undefined : { ...grant, token }
  }

  /** The grant whose token signed it, unless it has expired. I2: every key is compared, so the time taken reveals nothing. */
  #sealedBy(what: Sealed, text: string): TokenGrant | undefined {
    const [, signed = '', expiresAt = '', mac = ''] = SEALED[what].exec(text) ?? []
    if (signed === '' || Number.parseInt(expiresAt, 36) <= this.#now()) return undefined
    let found: TokenGrant | undefined
    for (const grant of this.#grants()) if (sameToken(mac, signature(what, grant.token, signed))) found = grant
    return found
  }
}

// ---- details ----

/** A ticket goes into an address, so it has no dots: programs that make links of text would cut it there. */
const SEALS = { token: { prefix: 'bfc1', between: '.' }, ticket: { prefix: 'bft1', between: '_' } } as const
type Sealed = keyof typeof SEALS

const SEALED = {
  token: /^(bfc1\.([0-9a-z]{1,11})\.[A-Za-z0-9_-]{16})\.([A-Za-z0-9_-]{43})$/,
  ticket: /^(bft1_([0-9a-z]{1,11})_[A-Za-z0-9_-]{16})_([A-Za-z0-9_-]{43})$/,
} as const

/** Its kind, when it expires, something random, and a signature of these. */
function sealed(what: Sealed, key: string, expiresAt: number): string {
  const { prefix, between } = SEALS[what]
  const signed = [prefix, expiresAt.toString(36), randomBytes(12).toString('base64url')].join(between)
  return `${signed}${between}${signature(what, key, signed)}`
}

const signature = (what: Sealed, key: string, signed: string): string =>
  createHmac('sha256', key).update(`breakfall console ${what}\n${signed}`).digest('base64url')

const iso = (ms: number): string => new Date(ms).toISOString()

const wrongTicket = (): Fault =>
  new Fault('unauthorized', {
    message: {
      happened: 'This ticket was used before, has expired or is not from this daemon.',
      advice: 'Run "breakfall open" for a new one.',
    },
    errorRaw: 'unknown ticket',
  })

const tooManyTickets = (): Fault =>
  new Fault('quota_exceeded', {
    boundary: 'daemon',
    message: {
      happened: `More than ${GUESSES_MAX} wrong tickets came within a minute.`,
      advice: 'Wait a minute, then run "breakfall open" for a new one.',
    },
    errorRaw: 'too many wrong tickets',
    retryAfterMs: GUESSES_MS,
  })

const notFromConsole = (): Fault =>
  new Fault('forbidden', {
    message: {
      happened: "A console's token cannot make tickets.",
      advice: 'Run "breakfall open" on the daemon\'s machine.',
    },
    errorRaw: 'a console token asked for a ticket',
  })
