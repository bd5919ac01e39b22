/**
 * Which model is set, and by what. Pure: asks no server.
 *
 * Precedence: a base URL from a flag or a variable; the provider that the model's name starts with (`local/qwen3`); a server to be
 * started (`[model.serve]`); a base URL from a file; the variables that other programs use; nothing, which leaves the servers on
 * this machine to be discovered (`model/choose.ts`).
 */
import type { ApiName, ProfileName } from '@breakfall/model/names'
import type { Environment } from '@breakfall/supervisor/platform'
import { type ModelFacts, modelFactsOf } from '@breakfall/wire/internal'
import type { LoadedConfig } from './load.ts'
import { apiOf, type ConfiguredProvider, type Key, keyOf, type ServeSetting, variableKey } from './providers.ts'
import type { Config } from './schema.ts'

export type Endpoint = Key & {
  readonly baseUrl: string
  readonly api: ApiName
  readonly profile: ProfileName | undefined
}

/** A server that the daemon starts. */
export type ServedModel = Key & {
  readonly kind: 'served'
  readonly provider: string
  readonly command: readonly string[]
  /** How it becomes ready, and what it gets. */
  readonly serve?: Pick<ServeSetting, 'healthPath' | 'readyMs' | 'env'> | undefined
  readonly name: string | undefined
  readonly api: ApiName | undefined
  readonly profile: ProfileName | undefined
  readonly origin: string
}

/** A server that runs elsewhere. */
export type RemoteModel = Endpoint &
  ModelFacts & {
    readonly kind: 'remote'
    readonly provider: string
    /** Undefined: the first model that the server lists. */
    readonly name: string | undefined
    readonly origin: string
    /** A configuration file defines it, and not a variable or a flag. */
    readonly isFromFile: boolean
  }

/** Nothing is set, but for what a discovered server would be used with. */
export type UnsetModel = {
  readonly kind: 'unset'
  readonly name: string | undefined
  readonly profile: ProfileName | undefined
  readonly localServers: readonly LocalServer[]
}

export type ModelSetting = ServedModel | RemoteModel | UnsetModel

export const DEFAULT_PROVIDER = 'default'

export function resolveModel(
  { config, origins }: LoadedConfig,
  providers: readonly ConfiguredProvider[],
  env: Environment,
): ModelSetting {
  const model = config.model ?? {}
  const origin = origins.get('model.baseUrl') ?? 'configured'
  const isFromFile = isFileOrigin(origin)
  if (model.baseUrl !== undefined && !isFromFile) return withAddress(model, model.baseUrl, origin, env)
  const { provider, name } = splitName(model.name, providers)
  if (provider !== undefined) return ofProvider(provider, name)
  return fromUsualVariables({ ...model, name }, env) ?? unset({ ...model, name }, env)
}

export type FallbackModel = ModelFacts & {
  readonly baseUrl?: string
  readonly name?: string
  readonly api?: ApiName
  readonly profile?: ProfileName
  readonly apiKey?: string | undefined
}

/** A fallback may be `provider/name`, too. */
export function fallbackModels(
  { model }: Config,
  providers: readonly ConfiguredProvider[],
  env: Environment,
): readonly FallbackModel[] {
  return (model?.fallback ?? []).map(({ apiKeyEnv, ...given }) => {
    const key = apiKeyEnv === undefined ? {} : { apiKey: env[apiKeyEnv] }
    const isNamed = given.baseUrl === undefined && given.name?.includes('/') === true
    const { provider, name } = isNamed ? splitName(given.name, providers) : {}
    if (provider?.baseUrl === undefined || name === given.name) return { ...withoutGaps(given), ...key }
    return { ...withoutGaps({ ...provider, name }), apiKey: provider.apiKey, ...key }
  })
}

export type LocalName = 'Ollama' | 'llama-server'

export type LocalServer = { readonly name: LocalName; readonly baseUrl: string; readonly where: string }

/** On their default ports, or where the variables say that those servers read themselves. */
export function localServers(env: Readonly<Record<string, string | undefined>>): readonly LocalServer[] {
  const ollama = env['OLLAMA_HOST'] ?? ''
  const [host, port] = [env['LLAMA_ARG_HOST'] ?? '', env['LLAMA_ARG_PORT'] ?? '']
  const where = (variable: string): string =>
    variable === '' ? 'on its default port' : 'at the address in its environment variables'
  return [
    { name: 'Ollama', baseUrl: localUrl(ollama, '11434'), where: where(ollama) },
    { name: 'llama-server', baseUrl: localUrl(`${host}:${port}`, '8080'), where: where(host + port) },
  ]
}

// ---- details, in the order they are used above ----

const isFileOrigin = (origin: string): boolean => !/^(?:flag|environment) /.test(origin)

type Given = ModelFacts & {
  readonly baseUrl?: string | undefined
  readonly name?: string | undefined
  readonly api?: ApiName | undefined
  readonly profile?: ProfileName | undefined
}

/** A field that is there overrides the first model's, even if it is undefined. */
const withoutGaps = ({ baseUrl, name, api, profile, ...facts }: Given): FallbackModel => ({
  ...(baseUrl === undefined ? {} : { baseUrl }),
  ...(name === undefined ? {} : { name }),
  ...(api === undefined ? {} : { api }),
  ...(profile === undefined ? {} : { profile }),
  ...modelFactsOf(facts),
})

type ModelTable = NonNullable<Config['model']>

/** The provider that a model's name starts with, or the default one, if there is one. */
function splitName(
  text: string | undefined,
  providers: readonly ConfiguredProvider[],
): { readonly provider: ConfiguredProvider | undefined; readonly name: string | undefined } {
  const named = (wanted: string): ConfiguredProvider | undefined => providers.find(({ name }) => name === wanted)
  const slash = text?.indexOf('/') ?? -1
  const prefix = text?.slice(0, Math.max(0, slash)) ?? ''
  const provider = named(prefix)
  if (text !== undefined && (provider !== undefined || prefix === DEFAULT_PROVIDER))
    return { provider, name: text.slice(slash + 1) }
  return { provider: named(DEFAULT_PROVIDER), name: text }
}

function ofProvider(provider: ConfiguredProvider, name: string | undefined): ServedModel | RemoteModel {
  const { serve, baseUrl, name: providerName, ...rest } = provider
  if (serve !== undefined) return { ...rest, kind: 'served', provider: providerName, command: serve.command, name }
  const api = apiOf({ baseUrl, api: rest.api })
  return { ...rest, kind: 'remote', provider: providerName, baseUrl: baseUrl ?? '', api, name, isFromFile: true }
}

/** The address comes from a flag or a variable. */
function withAddress(model: ModelTable, baseUrl: string, origin: string, env: Environment): RemoteModel {
  const { name, profile } = model
  return {
    kind: 'remote',
    provider: DEFAULT_PROVIDER,
    baseUrl,
    api: apiOf({ baseUrl, api: model.api }),
    ...keyOf(DEFAULT_PROVIDER, { ...model, baseUrl }, env, {}),
    profile,
    ...modelFactsOf(model),
    name,
    origin,
    isFromFile: false,
  }
}

/** The variables that OpenAI's and Anthropic's own clients read. */
function fromUsualVariables(model: ModelTable, env: Environment): RemoteModel | undefined {
  const { name, profile } = model
  const value = (variable: string): string | undefined => env[variable] || undefined // empty counts as unset
  const common = {
    kind: 'remote',
    provider: DEFAULT_PROVIDER,
    ...modelFactsOf(model),
    isFromFile: false,
  } as const
  const openAi = { ...common, api: 'openai-chat', ...variableKey('OPENAI_API_KEY', env) } as const
  const openAiUrl = value('OPENAI_BASE_URL')
  if (openAiUrl !== undefined)
    return {
      ...openAi,
      baseUrl: openAiUrl,
      api: model.api ?? 'openai-chat',
      profile,
      name,
      origin: 'OPENAI_BASE_URL is set',
    }
  if (openAi.apiKey !== undefined)
    return {
      ...openAi,
      baseUrl: 'https://api.openai.com/v1',
      profile: 'openai',
      name: name ?? 'gpt-5',
      origin: 'OPENAI_API_KEY is set',
    }
  if (value('ANTHROPIC_API_KEY') === undefined) return undefined
  return {
    ...common,
    ...variableKey('ANTHROPIC_API_KEY', env),
    baseUrl: value('ANTHROPIC_BASE_URL') ?? 'https://api.anthropic.com',
    api: 'anthropic-messages',
    profile: 'anthropic',
    name: name ?? 'claude-sonnet-5',
    origin: 'ANTHROPIC_API_KEY is set',
  }
}

const unset = ({ name, profile }: ModelTable, env: Environment): UnsetModel => ({
  kind: 'unset',
  name,
  profile,
  localServers: localServers(env),
})

/** Takes `host`, `:port`, `host:port` or a whole URL. A server that binds all addresses is called at loopback. */
function localUrl(given: string, defaultPort: string): string {
  const [, scheme = 'http', host = '', port = ''] = /^(?:(https?):\/\/)?([^/:\s]*):?(\d*)\/?$/.exec(given.trim()) ?? []
  return `${scheme}://${host === '' || host === '0.0.0.0' ? '127.0.0.1' : host}:${port || defaultPort}/v1`
}
