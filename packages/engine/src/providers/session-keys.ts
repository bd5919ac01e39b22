/**
 * Keys that came with sessions. They are in the memory of this process and nowhere else: a restart forgets them. A key belongs to
 * one session and one server, so two sessions at the same server use a key each.
 */
import type { TurnProvider } from '@breakfall/wire'
import type { Secrets, SessionSecrets } from '../secrets.ts'
import type { BroughtSecret } from './bind.ts'

export class SessionKeys {
  readonly #secrets: Secrets
  readonly #bySession = new Map<string, SessionsKeys>()

  constructor(secrets: Secrets) {
    this.#secrets = secrets
  }

  set(sessionId: string, provider: TurnProvider, secret: BroughtSecret): void {
    const known = this.#bySession.get(sessionId) ?? { secrets: this.#secrets.session(sessionId), keys: new Map() }
    known.secrets.set(`key for ${serverOf(provider)}`, [secret.apiKey, ...userInfoOf(secret.baseUrl)])
    known.keys.set(serverOf(provider), secret)
    this.#bySession.set(sessionId, known)
  }

  get(sessionId: string, provider: TurnProvider): BroughtSecret | undefined {
    return this.#bySession.get(sessionId)?.keys.get(serverOf(provider))
  }

  forget(sessionId: string): void {
    this.#bySession.delete(sessionId)
  }
}

// ---- details ----

/** Holding `secrets` keeps them known while the session is not in memory. */
type SessionsKeys = { readonly secrets: SessionSecrets; readonly keys: Map<string, BroughtSecret> }

const serverOf = ({ baseUrl, api }: TurnProvider): string => `${api} ${baseUrl.replace(/\/+$/, '')}`

function userInfoOf(address: string): readonly string[] {
  if (!URL.canParse(address)) return []
  const { username, password } = new URL(address)
  return [username, password]
}
