/**
 * Chooses a session's provider and model. Pure.
 *
 * I1  What is stored and shown of a provider holds no secret: keys, and addresses with secrets in them, go to `SessionKeys`.
 * I2  A provider that the configuration file defines is known by its name: a corrected address also reaches sessions that use it.
 *     Any other one, from a request, a variable or a flag, is known by its address: its sessions never move to another server.
 */
import { redact } from '@breakfall/faults'
import { API_NAMES, type ApiName, isProfileName, PROFILE_NAMES } from '@breakfall/model/names'
import type { ProviderGiven, TurnProvider } from '@breakfall/wire'
import { invalidRequest, modelFactsOf } from '@breakfall/wire/internal'
import type { LiveConfig, ProviderConfig } from '../options.ts'

export const DEFAULT_PROVIDER = 'default'

export type ModelRequest = { readonly model?: string | undefined; readonly provider?: ProviderGiven | undefined }

export type BoundModel = {
  /** Null: the default model of its provider. */
  readonly model: string | null
  /** Null: the daemon's default provider when the next turn starts. */
  readonly provider: TurnProvider | null
}

/** What only memory may hold. */
export type BroughtSecret = {
  readonly apiKey: string | undefined
  readonly baseUrl: string
  /** It was brought for this turn, so it comes before a key of the daemon. */
  readonly turnId?: string | undefined
}

export type Binding = BoundModel & { readonly secret?: BroughtSecret | undefined }

export function bindModel(request: ModelRequest, live: LiveConfig, current: BoundModel): Binding {
  const { model, provider } = request
  if (provider !== undefined) return { model: model ?? current.model, ...given(provider, live) }
  if (model === undefined) return current
  const named = splitModel(model, live)
  if (named === undefined) return { model, provider: current.provider ?? defaultProvider(live) }
  const config = providersOf(live).get(named.provider)
  return { model: named.model, provider: config === undefined ? null : configured(named.provider, config) }
}

/** Every provider of the configuration, by name. */
export function providersOf({ model, providers = {} }: LiveConfig): ReadonlyMap<string, ProviderConfig> {
  return new Map([...Object.entries(providers), [model.provider ?? DEFAULT_PROVIDER, model]])
}

/** Null if the daemon has no model. */
export function defaultProvider({ model }: LiveConfig): TurnProvider | null {
  return hasServer(model) ? configured(model.provider ?? DEFAULT_PROVIDER, model) : null
}

/** The provider that the configuration has for a bound one now, if it is the same one (I2). */
export function sameProvider(bound: TurnProvider, live: LiveConfig): ProviderConfig | undefined {
  const config = providersOf(live).get(bound.name)
  if (config === undefined || !hasServer(config)) return undefined
  if (config.serve !== undefined) return config
  const isSameName = bound.isNamed === true && config.isFixed !== true
  return isSameName || isSameAddress(bound, config) ? config : undefined
}

export function isSameAddress(
  a: { readonly baseUrl: string; readonly api?: string | undefined },
  b: { readonly baseUrl: string; readonly api?: string | undefined },
): boolean {
  return normalized(a.baseUrl) === normalized(b.baseUrl) && apiOf(a) === apiOf(b)
}

/** The address without what may be secret in it. */
export function shownUrl(address: string): string {
  if (!URL.canParse(address)) return redact(address)
  const url = new URL(address)
  if (url.username === '' && url.password === '') return redact(address)
  url.username = ''
  url.password = ''
  return redact(url.href.replace(/\/$/, ''))
}

export const isApiName = (name: string | undefined): name is ApiName => API_NAMES.some((known) => known === name)

// ---- details, in the order they are used above ----

function given(provider: ProviderGiven, live: LiveConfig): Pick<Binding, 'provider' | 'secret'> {
  refuseUnknownNames(provider)
  const { name = 'inline', baseUrl, apiKey, apiKeyEnv, profile } = provider
  const address = { baseUrl: shownUrl(baseUrl), api: apiOf(provider) }
  const config = providersOf(live).get(name)
  const known = config !== undefined && isSameAddress({ ...address, baseUrl }, config) ? config : undefined
  const hasSecret = apiKey !== undefined || address.baseUrl !== baseUrl // I1
  const isOwn = !hasSecret || (known !== undefined && known.apiKey === apiKey) // the daemon has the same key
  const bound: TurnProvider = {
    name,
    ...address,
    profile,
    ...modelFactsOf(provider),
    apiKeyEnv,
    ...(known !== undefined && known.isFixed !== true ? { isNamed: true } : {}),
    ...(isOwn ? (known?.apiKey === undefined || !hasSecret ? {} : { keyFrom: 'daemon' }) : { keyFrom: 'session' }),
  }
  return isOwn ? { provider: bound } : { provider: bound, secret: { apiKey, baseUrl } }
}

function refuseUnknownNames({ api, profile }: ProviderGiven): void {
  const wrong = (field: string, names: readonly string[], got: string): never => {
    throw invalidRequest([{ field, expected: `one of ${names.join(', ')}`, got: JSON.stringify(got) }])
  }
  if (api !== undefined && !isApiName(api)) wrong('provider.api', API_NAMES, api)
  if (profile !== undefined && !isProfileName(profile)) wrong('provider.profile', PROFILE_NAMES, profile)
}

/** `provider/name`. Undefined if the text is only a name: names of models may have slashes, too. */
function splitModel(text: string, live: LiveConfig): { provider: string; model: string } | undefined {
  const slash = text.indexOf('/')
  if (slash === -1) return undefined
  const [provider, model] = [text.slice(0, slash), text.slice(slash + 1)]
  const known = [...providersOf(live).keys()]
  if (known.includes(provider) && model !== '') return { provider, model }
  if (known.every((name) => name === DEFAULT_PROVIDER)) return undefined
  const expected = `PROVIDER/NAME with one of the providers ${known.join(', ')}`
  throw invalidRequest([{ field: 'model', expected, got: JSON.stringify(text.slice(0, 100)) }])
}

function configured(name: string, config: ProviderConfig): TurnProvider {
  const { baseUrl, profile, apiKey, apiKeyVariable, isFixed, serve } = config
  return {
    name,
    baseUrl: serve === undefined ? shownUrl(baseUrl) : '',
    api: apiOf(config),
    profile,
    ...modelFactsOf(config),
    apiKeyEnv: apiKeyVariable,
    ...(isFixed === true ? {} : { isNamed: true }),
    ...(apiKey === undefined ? {} : { keyFrom: 'daemon' }),
  }
}

function apiOf({ baseUrl, api }: { readonly baseUrl: string; readonly api?: string | undefined }): ApiName {
  if (isApiName(api)) return api
  const host = URL.canParse(baseUrl) ? new URL(baseUrl).hostname : ''
  return host === 'anthropic.com' || host.endsWith('.anthropic.com') ? 'anthropic-messages' : 'openai-chat'
}

const hasServer = ({ baseUrl, serve }: ProviderConfig): boolean => serve !== undefined || /^https?:/.test(baseUrl)

const normalized = (address: string): string => {
  const shown = shownUrl(address)
  return URL.canParse(shown) ? new URL(shown).href.replace(/\/+$/, '') : shown
}
