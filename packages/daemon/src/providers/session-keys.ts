/**
 * Keys that came with sessions. They are in the memory of this process and nowhere else: a restart forgets them. A key belongs to
 * one session and one server, so two sessions at the same server use a key each.
 */
import type { TurnProvider } from '@breakfall/wire'
import type { Secrets } from '../secrets.ts'
import type { BroughtSecret } from './bind.ts'

export class SessionKeys {
  readonly #secrets: Secrets
  readonly #bySession = new Map<string, Map<string, BroughtSecret>>()

  constructor(secrets: Secrets) {
    this.#secrets = secrets
  }

  set(sessionId: string, provider: TurnProvider, secret: BroughtSecret): void {
    this.#secrets.set([secret.apiKey, ...userInfoOf(secret.baseUrl)])
    const keys = this.#bySession.get(sessionId) ?? new Map<string, BroughtSecret>()
    keys.set(serverOf(provider), secret)
    this.#bySession.set(sessionId, keys)
  }

  get(sessionId: string, provider: TurnProvider): BroughtSecret | undefined {
    return this.#bySession.get(sessionId)?.get(serverOf(provider))
  }

  forget(sessionId: string): void {
    this.#bySession.delete(sessionId)
  }
}

// ---- details ----

const serverOf = ({ baseUrl, api }: TurnProvider): string => `${api} ${baseUrl.replace(/\/+$/, '')}`

function userInfoOf(address: string): readonly string[] {
  if (!URL.canParse(address)) return []
  const { username, password } = new URL(address)
  return [username, password]
}
