/**
 * The key of a fleet, and what is derived from it: the token of each runner, and codes with which a runner gets its token once.
 *
 * I1  Daemons derive a runner's token from its id: no daemon stores it, and a stolen token works for that runner only.
 * I2  A code contains its expiry, signed. The caller must make sure that it is used once: `nonce` identifies it.
 */
import { createHmac, randomBytes } from 'node:crypto'
import { closeSync, existsSync, openSync, readFileSync } from 'node:fs'
import { Fault } from '@breakfall/faults'
import { sameToken } from './guards.ts'
import { makeSecretFile, whyNotPrivate } from './tokens.ts'

const KEY_CHARS_MIN = 16

export class FleetKey {
  readonly #key: string

  constructor(key: string) {
    this.#key = key
  }

  /** I1 */
  tokenOf(runnerId: string): string {
    return this.#mac(`runner:${runnerId}`)
  }

  /** Distinguishes daemons with different keys. Reveals nothing about the key. */
  get mark(): string {
    return this.#mac('mark').slice(0, 8)
  }

  /** I2 */
  enrolment(expiresAt: number, nonce = randomBytes(9).toString('base64url')): string {
    const payload = `${nonce}.${expiresAt.toString(36)}`
    return `${ENROLMENT}${payload}.${this.#mac(`enroll:${payload}`)}`
  }

  /** The nonce of a code that is ours and has not expired. */
  nonceOf(code: string, now: number): string | undefined {
    const [nonce = '', expiry = '', mac = '', ...more] = code.startsWith(ENROLMENT)
      ? code.slice(ENROLMENT.length).split('.')
      : []
    const isOurs = sameToken(mac, this.#mac(`enroll:${nonce}.${expiry}`)) && more.length === 0
    return isOurs && Number.parseInt(expiry, 36) > now ? nonce : undefined
  }

  #mac(text: string): string {
    return createHmac('sha256', this.#key).update(text).digest('hex')
  }
}

const ENROLMENT = 'enroll.'

/** A private file with one line. Every daemon of the fleet needs the same key. `isMade`: the file is created if missing. */
export function readFleetKey(file: string, { isMade = false }: { readonly isMade?: boolean } = {}): FleetKey {
  if (isMade) makeSecretFile(file)
  else if (!existsSync(file)) throw wrong(`There is no key file ${file}. Copy it from a daemon of the fleet.`)
  const fd = openSync(file, 'r')
  try {
    const why = whyNotPrivate(fd, file)
    if (why !== undefined) throw wrong(`The fleet's key file ${file} ${why}`)
    const key = readFileSync(fd, 'utf8').trim()
    if (key.length < KEY_CHARS_MIN)
      throw wrong(`The fleet's key file ${file} has fewer than ${KEY_CHARS_MIN} characters. ${MAKE} ${file}`)
    return new FleetKey(key)
  } finally {
    closeSync(fd)
  }
}

// ---- details ----

const MAKE = 'Remove it, and a new one will be created; then copy it to every daemon:'

const wrong = (error: string): Fault => new Fault('invalid_request', { error })
