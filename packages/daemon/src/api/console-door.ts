/**
 * Lets a browser in without the daemon's own token, which argv and a browser's history would keep: a ticket in the address is
 * exchanged for a token that expires.
 *
 * I1  A ticket is valid once, and for two minutes. It lives in memory only: after a restart it is void, never valid twice.
 * I2  A console token is signed with the daemon's token: it outlives a killed daemon, works on every daemon with the same token
 *     file, and dies when that file changes.
 * I3  A console token cannot make tickets, so nobody can prolong it.
 * I4  Guessing is limited, and a valid ticket is always accepted: nobody can lock a person out.
 */
import { createHmac, randomBytes } from 'node:crypto'
import { Fault } from '@breakfall/faults'
import type { ConsoleTicket, ConsoleToken } from '@breakfall/wire'
import { findGrant, sameToken, type TokenGrant } from '@breakfall/wire/node'

const TICKET_MS = 2 * 60_000
const TICKETS_MAX = 1_000 // unused ones; the oldest go first
const TOKEN_MS = 12 * 3_600_000 // a working day
const GUESSES_MAX = 10
const GUESSES_MS = 60_000

export class ConsoleDoor {
  readonly #grants: readonly TokenGrant[]
  readonly #now: () => number
  /** By ticket, oldest first. */
  readonly #tickets = new Map<string, { readonly key: string; readonly expiresAt: number }>()
  /** Times of wrong tickets. */
  #guesses: readonly number[] = []

  constructor(grants: readonly TokenGrant[], now: () => number) {
    this.#grants = grants
    this.#now = now
  }

  /** The grant of a token from the token file, or of a token that this door gave out. */
  grantOf(token: string | undefined): TokenGrant | undefined {
    return findGrant(this.#grants, token) ?? this.#consoleGrant(token ?? '')
  }

  ticket(token: string | undefined): ConsoleTicket {
    const grant = findGrant(this.#grants, token)
    if (grant === undefined) throw notFromConsole() // I3
    const ticket = randomBytes(24).toString('base64url')
    const expiresAt = this.#now() + TICKET_MS
    for (const [oldest, { expiresAt: at }] of this.#tickets) {
      if (at > this.#now() && this.#tickets.size < TICKETS_MAX) break
      this.#tickets.delete(oldest)
    }
    this.#tickets.set(ticket, { key: grant.token, expiresAt })
    return { ticket, expiresAt: iso(expiresAt) }
  }

  exchange(ticket: string): ConsoleToken {
    const known = this.#tickets.get(ticket)
    this.#tickets.delete(ticket) // I1
    if (known === undefined || known.expiresAt <= this.#now()) throw this.#wrongTicket() // I4
    const expiresAt = this.#now() + TOKEN_MS
    const signed = `${PREFIX}.${expiresAt.toString(36)}.${randomBytes(12).toString('base64url')}`
    return { token: `${signed}.${signature(known.key, signed)}`, expiresAt: iso(expiresAt) }
  }

  #wrongTicket(): Fault {
    const from = this.#now() - GUESSES_MS
    this.#guesses = [...this.#guesses.filter((at) => at > from), this.#now()].slice(-GUESSES_MAX - 1)
    return this.#guesses.length > GUESSES_MAX ? tooManyTickets() : wrongTicket()
  }

  /** I2: every key is compared, so the time taken reveals nothing. */
  #consoleGrant(token: string): TokenGrant | undefined {
    const [, signed = '', expiresAt = '', mac = ''] = TOKEN.exec(token) ?? []
    if (signed === '' || Number.parseInt(expiresAt, 36) <= this.#now()) return undefined
    let found: TokenGrant | undefined
    for (const grant of this.#grants) if (sameToken(mac, signature(grant.token, signed))) found = { ...grant, token }
    return found
  }
}

// ---- details ----

const PREFIX = 'bfc1'
const TOKEN = /^(bfc1\.([0-9a-z]{1,11})\.[A-Za-z0-9_-]{16})\.([A-Za-z0-9_-]{43})$/

const signature = (key: string, signed: string): string =>
  createHmac('sha256', key).update(`breakfall console token\n${signed}`).digest('base64url')

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
      advice: 'Run "breakfall open" on the machine of the daemon.',
    },
    errorRaw: 'a console token asked for a ticket',
  })
