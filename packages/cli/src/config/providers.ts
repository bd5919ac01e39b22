/**
 * The providers of the configuration files, each with its key. Pure.
 *
 * A provider's key comes from the variable that `apiKeyEnv` names, else from `breakfall login`, else from OPENAI_API_KEY or
 * ANTHROPIC_API_KEY if the provider is `default` or that vendor's server: a key goes to no other server.
 */
import { Fault } from '@breakfall/faults'
import type { ApiName, ProfileName } from '@breakfall/model/names'
import { type ModelFacts, modelFactsOf } from '@breakfall/wire/internal'
import type { Credentials } from './credentials.ts'
import type { Environment } from '@breakfall/supervisor/platform'
import type { LoadedConfig } from './load.ts'
import type { Config } from './schema.ts'
import { cmd } from '../process/command-name.ts'

export type Key = {
  readonly apiKey: string | undefined
  /** The variable that holds the key, or would. */
  readonly apiKeyVariable: string | undefined
  /** `breakfall login` stored it: every daemon of this user has it. */
  readonly isKeyStored: boolean
}

export type ServeSetting = NonNullable<ProviderTable['serve']>

export type ConfiguredProvider = Key &
  ModelFacts & {
    readonly name: string
    /** Undefined if the daemon starts its server. */
    readonly baseUrl: string | undefined
    readonly api: ApiName | undefined
    readonly profile: ProfileName | undefined
    readonly serve: ServeSetting | undefined
    readonly origin: string
  }

/** `[providers.NAME]`, and `[model]` as `default`. A table without an address and a command defines nothing. */
export function configuredProviders(
  { config, origins }: LoadedConfig,
  env: Environment,
  credentials: Credentials,
): readonly ConfiguredProvider[] {
  const fromFile = (key: string): boolean => !/^(?:flag|environment) /.test(origins.get(key) ?? '')
  const model = config.model ?? {}
  const own: ProviderTable = fromFile('model.baseUrl') ? model : { ...model, baseUrl: undefined }
  const tables = [
    ['default', own, 'model'] as const,
    ...Object.entries(config.providers ?? {}).map(([name, table]) => [name, table, `providers.${name}`] as const),
  ]
  return tables.flatMap(([name, table, path]) => {
    const { api, profile, serve } = table
    if (serve === undefined && table.baseUrl === undefined) return []
    const origin = origins.get(`${path}.${serve === undefined ? 'baseUrl' : 'serve.command'}`) ?? 'configured'
    const address = serve === undefined ? table.baseUrl : undefined
    const key = keyOf(name, { ...table, baseUrl: address }, env, credentials)
    return [{ name, baseUrl: address, api, profile, ...modelFactsOf(table), serve, origin, ...key }]
  })
}

type KeyTable = Pick<ProviderTable, 'apiKeyEnv' | 'api'> & { readonly baseUrl: string | undefined }

export function keyOf(name: string, table: KeyTable, env: Environment, credentials: Credentials): Key {
  const { apiKeyEnv } = table
  if (apiKeyEnv !== undefined && (env[apiKeyEnv] ?? '') !== '') return variableKey(apiKeyEnv, env)
  const stored = entryOf(credentials, name)
  const usual = usualVariable(name, table)
  if (stored !== undefined) return { apiKey: stored, apiKeyVariable: apiKeyEnv ?? usual, isKeyStored: true }
  return variableKey(apiKeyEnv ?? usual, env)
}

export function variableKey(variable: string | undefined, env: Environment): Key {
  const apiKey = variable === undefined ? undefined : env[variable] || undefined // empty counts as unset
  return { apiKey, apiKeyVariable: variable, isKeyStored: false }
}

/** Refuses a key that no header can carry before it is used. The message names its variable and never shows the key. */
export function refuseUnusable(key: KeySource): void {
  const problem = unusable(key)
  if (problem === undefined) return
  throw new Fault('invalid_request', {
    message: { happened: `${problem.what}.`, action: 'Nothing started.', advice: `${problem.fix}.` },
  })
}

/** What is wrong with a key, and what to do. Undefined if it can be sent. */
export function unusable({ apiKey, apiKeyVariable }: KeySource): { what: string; fix: string } | undefined {
  if (apiKey === undefined || /^[\x21-\x7e]{1,8192}$/.test(apiKey)) return undefined
  const line = /[\r\n]/.test(apiKey) ? 'a line break' : undefined
  const has = line ?? (/\s/.test(apiKey) ? 'a space' : 'an invalid character, or too many')
  return apiKeyVariable === undefined
    ? { what: `The stored key has ${has}, so it cannot be sent`, fix: `Store it again: ${cmd('login')} PROVIDER` }
    : {
        what: `The key in ${apiKeyVariable} has ${has}, so it cannot be sent`,
        fix: `Set ${apiKeyVariable} again, or unset it`,
      }
}

type KeySource = Pick<Key, 'apiKey' | 'apiKeyVariable'>

export function apiOf({ baseUrl = '', api }: { baseUrl?: string | undefined; api?: ApiName | undefined }): ApiName {
  return api ?? (isHost(baseUrl, 'anthropic.com') ? 'anthropic-messages' : 'openai-chat')
}

/** Where a key comes from. Never the key. */
export function aboutKey({ apiKey, apiKeyVariable, isKeyStored }: Key): string {
  if (isKeyStored) return `with the key that "${cmd('login')}" stored`
  if (apiKey !== undefined && apiKeyVariable !== undefined) return `with the key from ${apiKeyVariable}`
  return apiKeyVariable === undefined ? 'without a key' : `without a key: ${apiKeyVariable} is not set`
}

/** The variable that the configuration names for a model's key, if it is not set and no key is stored. */
export function unsetKeyVariable(
  { provider, apiKey, apiKeyVariable }: KeySource & { readonly provider: string },
  { model, providers = {} }: Config,
): string | undefined {
  const named = (provider === 'default' ? model : entryOf(providers, provider))?.apiKeyEnv
  return apiKey === undefined && named === apiKeyVariable ? named : undefined
}

/** Users choose names, and `constructor` is one. */
export function entryOf<T>(providers: Readonly<Record<string, T>>, name: string): T | undefined {
  return Object.hasOwn(providers, name) ? providers[name] : undefined
}

// ---- details, in the order they are used above ----

type ProviderTable = NonNullable<Config['providers']>[string]

function usualVariable(name: string, table: KeyTable): string | undefined {
  const { baseUrl = '' } = table
  if (baseUrl === '') return undefined // the daemon starts the server: it has no account
  const usual = apiOf(table) === 'anthropic-messages' ? 'ANTHROPIC_API_KEY' : 'OPENAI_API_KEY'
  return name === 'default' || isHost(baseUrl, 'anthropic.com') || isHost(baseUrl, 'openai.com') ? usual : undefined
}

function isHost(address: string, domain: string): boolean {
  const host = URL.canParse(address) ? new URL(address).hostname : ''
  return host === domain || host.endsWith(`.${domain}`)
}
