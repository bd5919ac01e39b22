/**
 * The tokens that this daemon accepts. The file is read again when it changes, so a token can be added or withdrawn without a
 * restart. If it is missing or damaged then, the tokens that were read last stay valid: an edit never locks everyone out.
 */
import { statSync } from 'node:fs'
import { Fault } from '@breakfall/faults'
import { loadTokens, type TokenGrant } from '@breakfall/wire/node'
import type { Logger } from 'pino'
import type { Secrets } from '@breakfall/engine'

export class TokenFile {
  readonly #file: string
  readonly #secrets: Secrets
  readonly #log: Pick<Logger, 'warn'>
  #stamp: string | undefined
  #grants: readonly TokenGrant[]

  /** Creates a missing file. Throws if it cannot be used. */
  constructor(file: string, { secrets, log }: { secrets: Secrets; log: Pick<Logger, 'warn'> }) {
    this.#file = file
    this.#secrets = secrets
    this.#log = log
    this.#stamp = stampOf(file) // before it is read, so no edit is missed
    this.#grants = this.#read()
  }

  /** Those of the file as it is now. */
  get grants(): readonly TokenGrant[] {
    const stamp = stampOf(this.#file)
    if (stamp === undefined || stamp === this.#stamp) return this.#grants
    this.#stamp = stamp // a damaged file is reported once
    try {
      this.#grants = this.#read()
    } catch (err) {
      this.#log.warn({ err }, 'cannot read the token file again; the tokens that were read last stay valid')
    }
    return this.#grants
  }

  #read(): readonly TokenGrant[] {
    const grants = loadTokens(this.#file)
    const limited = grants.flatMap(({ prefixes }) => prefixes ?? [])
    if (limited.length > 0)
      throw new Fault('invalid_request', {
        error: `the token file ${this.#file} limits a token to ${limited.join(', ')}, and a daemon has no tenants: the token would open everything. Remove these words, or start a daemon for each tenant.`,
      })
    this.#secrets.set(
      'tokens',
      grants.map(({ token }) => token),
    )
    return grants
  }
}

/** Changes with every edit of the file. Undefined if there is no file. */
function stampOf(file: string): string | undefined {
  const stats = statSync(file, { bigint: true, throwIfNoEntry: false })
  return stats && [stats.ino, stats.size, stats.mode, stats.mtimeNs, stats.ctimeNs].join(' ')
}
