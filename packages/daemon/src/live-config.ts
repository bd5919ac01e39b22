/** The configuration as it is now. Read again on demand; a reading that fails keeps the last good one. */
import { createHash } from 'node:crypto'
import { readFileSync } from 'node:fs'
import { parseTokens } from '@breakfall/wire/node'
import type { Logger } from 'pino'
import type { DaemonOptions, LiveConfig } from './options.ts'
import type { Secrets } from './secrets.ts'

export class ConfigReader {
  readonly #reload: (() => LiveConfig | Promise<LiveConfig>) | undefined
  readonly #secrets: Secrets
  readonly #log: Logger
  #last: LiveConfig

  constructor(options: DaemonOptions, parts: { secrets: Secrets; log: Logger }) {
    this.#reload = options.reload
    this.#secrets = parts.secrets
    this.#log = parts.log
    this.#last = { model: options.model, runner: options.runner ?? {} }
    this.#learn()
  }

  get last(): LiveConfig {
    return this.#last
  }

  async read(): Promise<LiveConfig> {
    if (this.#reload === undefined) return this.#last
    try {
      this.#last = await this.#reload()
      this.#learn()
    } catch (err) {
      // Somebody is in the middle of editing the file, most likely. What was valid stays in force.
      this.#log.warn({ err }, 'the configuration cannot be read again; the last one stays')
    }
    return this.#last
  }

  /** Changes whenever a setting, a key or the content of a token file does. Says nothing about what they are. */
  async fingerprint(): Promise<string> {
    await this.read()
    return this.lastFingerprint
  }

  /** The same of what was last read, which is what the last calls were made with. */
  get lastFingerprint(): string {
    const { tokenFile } = this.#last.runner
    const tokens = tokenFile === undefined ? '' : contentOf(tokenFile)
    return createHash('sha256').update(JSON.stringify(this.#last)).update(tokens).digest('hex')
  }

  #learn(): void {
    this.#secrets.set(secretsIn(this.#last))
  }
}

// ---- details ----

/** Keys, the tokens of a runner elsewhere, and what stands before the `@` of an address. */
function secretsIn({ model, runner }: LiveConfig): readonly (string | undefined)[] {
  const models = [model, ...(model.fallback ?? [])]
  const addresses = [...models.map(({ baseUrl }) => baseUrl), runner.url, runner.resolveUrl]
  const tokens = runner.tokenFile === undefined ? [] : parseTokens(contentOf(runner.tokenFile))
  return [
    ...models.map(({ apiKey }) => apiKey),
    ...tokens.map(({ token }) => token),
    ...addresses.flatMap((address) => (address === undefined ? [] : credentialsIn(address))),
  ]
}

/** As written, and as meant. */
function credentialsIn(address: string): readonly string[] {
  if (!URL.canParse(address)) return []
  const { username, password } = new URL(address)
  return [username, password].flatMap((text) => [text, unescaped(text)])
}

function unescaped(text: string): string {
  try {
    return decodeURIComponent(text)
  } catch {
    return text // a bare percent sign, which means itself
  }
}

function contentOf(file: string): string {
  try {
    return readFileSync(file, 'utf8')
  } catch {
    // Not there yet: that it appears is a change too.
    return ''
  }
}
