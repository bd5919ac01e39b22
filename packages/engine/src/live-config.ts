/** The current configuration. Read again on demand; if reading fails, the last good configuration stays in force. */
import { createHash } from 'node:crypto'
import { readFileSync } from 'node:fs'
import { parseTokens } from '@breakfall/wire/node'
import type { McpServerConfig } from '@breakfall/mcp'
import type { Log } from './log.ts'
import type { EngineOptions, LiveConfig } from './options.ts'
import { type Secrets, secretVariables } from './secrets.ts'

export class ConfigReader {
  readonly #reload: (() => LiveConfig | Promise<LiveConfig>) | undefined
  readonly #secrets: Secrets
  readonly #log: Log
  #last: LiveConfig
  /** Called with every configuration that was read. */
  onRead: (config: LiveConfig) => void = () => undefined

  constructor(options: EngineOptions, parts: { secrets: Secrets; log: Log }) {
    this.#reload = options.reload
    this.#secrets = parts.secrets
    this.#log = parts.log
    const { model, providers, runner = {}, agent, mcp, tools, retention } = options
    this.#last = { model, providers, runner, agent, mcp, tools, retention }
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
      this.onRead(this.#last)
    } catch (err) {
      // Most likely the file is being edited right now.
      this.#log.warn({ err }, 'cannot read the configuration again; the last one stays in force')
    }
    return this.#last
  }

  /**
   * Changes whenever the address, the token or the level of the runner changes, by the configuration that was read last. Folders
   * that a run grants are no such change. Reveals nothing about them.
   */
  get runnerFingerprint(): string {
    const { allowWorkspace: _folders, allowMount: _mounts, ...runner } = this.#last.runner
    const tokens = runner.tokenFile === undefined ? '' : contentOf(runner.tokenFile)
    return fingerprintOf(runner, tokens)
  }

  /** Tells daemons apart that do not have the same configuration. Reveals nothing about it. */
  fingerprint(...more: readonly unknown[]): string {
    const { model, providers, agent, mcp, tools } = this.#last
    return fingerprintOf(model, providers, agent, mcp, tools, more).slice(0, 16)
  }

  #learn(): void {
    this.#secrets.set('configuration', secretsIn(this.#last))
  }
}

export const fingerprintOf = (...values: readonly unknown[]): string =>
  createHash('sha256').update(JSON.stringify(values)).digest('hex')

// ---- details ----

/** API keys, the tokens of a remote runner, and user information in URLs. */
function secretsIn({ model, providers = {}, runner, mcp = {} }: LiveConfig): readonly (string | undefined)[] {
  const models = [model, ...(model.fallback ?? []), ...Object.values(providers)]
  const addresses = [...models.map(({ baseUrl }) => baseUrl), runner.url, runner.resolveUrl]
  const tokens = runner.tokenFile === undefined ? [] : parseTokens(contentOf(runner.tokenFile))
  return [
    ...models.map(({ apiKey }) => apiKey),
    ...tokens.map(({ token }) => token),
    ...Object.values(mcp).flatMap(secretsOfServer),
    ...addresses.flatMap((address) => (address === undefined ? [] : credentialsIn(address))),
  ]
}

/** Its headers, and the variables that sound like keys. */
function secretsOfServer({ headers = {}, env = {}, url }: McpServerConfig): readonly string[] {
  const tokens = Object.values(headers).flatMap((value) => [value, value.replace(/^Bearer /i, '')])
  return [...secretVariables(env), ...tokens, ...(url === undefined ? [] : credentialsIn(url))]
}

/** As written, and percent-decoded. */
function credentialsIn(address: string): readonly string[] {
  if (!URL.canParse(address)) return []
  const { username, password } = new URL(address)
  return [username, password].flatMap((text) => [text, unescaped(text)])
}

function unescaped(text: string): string {
  try {
    return decodeURIComponent(text)
  } catch {
    return text // a bare percent sign
  }
}

function contentOf(file: string): string {
  try {
    return readFileSync(file, 'utf8')
  } catch {
    // Does not exist yet: its creation counts as a change, too.
    return ''
  }
}
