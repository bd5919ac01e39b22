/**
 * Which model is set, and by what. Pure: asks no server.
 *
 * Precedence: a base URL from a flag or a variable; a server to be started (`[model.serve]`); a base URL from a file; the variables
 * that other programs use; nothing, which leaves the servers on this machine to be discovered (`model/choose.ts`).
 */
import type { ApiName, ProfileName } from '@breakfall/model/names'
import { type LocalServer, localServers } from '../model/local-servers.ts'
import type { LoadedConfig } from './load.ts'
import type { Env } from './env.ts'
import type { Config } from './schema.ts'

export type Endpoint = {
  readonly baseUrl: string
  readonly api: ApiName
  readonly apiKey: string | undefined
  /** The variable that holds the key. */
  readonly apiKeyVariable: string | undefined
  readonly profile: ProfileName | undefined
}

/** A server that the daemon starts. */
export type ServedModel = {
  readonly kind: 'served'
  readonly command: readonly string[]
  readonly name: string | undefined
  readonly api: ApiName | undefined
  readonly apiKey: string | undefined
  readonly profile: ProfileName | undefined
  readonly origin: string
}

/** A server that runs elsewhere. */
export type RemoteModel = Endpoint & {
  readonly kind: 'remote'
  /** Undefined: the first model that the server lists. */
  readonly name: string | undefined
  readonly origin: string
  /** What names the server. Undefined if only a key is set: keys are set for many programs. */
  readonly serverNamedBy: string | undefined
}

/** Nothing is set, but for what a discovered server would be used with. */
export type UnsetModel = {
  readonly kind: 'unset'
  readonly name: string | undefined
  readonly profile: ProfileName | undefined
  readonly localServers: readonly LocalServer[]
}

export type ModelSetting = ServedModel | RemoteModel | UnsetModel

export function resolveModel({ config, origins }: LoadedConfig, env: Env): ModelSetting {
  const model = config.model ?? {}
  const origin = origins.get('model.baseUrl') ?? 'configured'
  const isFromFile = !/^(?:flag|environment) /.test(origin)
  if (model.serve !== undefined && (model.baseUrl === undefined || isFromFile))
    return {
      kind: 'served',
      command: model.serve.command,
      name: model.name,
      api: model.api,
      apiKey: model.apiKeyEnv === undefined ? undefined : env[model.apiKeyEnv],
      profile: model.profile,
      origin: origins.get('model.serve.command') ?? 'configured',
    }
  if (model.baseUrl !== undefined) return configured(model, model.baseUrl, origin, env)
  return fromUsualVariables(model, env) ?? unset(model, env)
}

export type FallbackModel = {
  readonly baseUrl?: string
  readonly name?: string
  readonly api?: ApiName
  readonly profile?: ProfileName
  readonly apiKey?: string | undefined
}

export function fallbackModels({ model }: Config, env: Env): readonly FallbackModel[] {
  return (model?.fallback ?? []).map(({ baseUrl, name, api, profile, apiKeyEnv }) => ({
    ...(baseUrl === undefined ? {} : { baseUrl }),
    ...(name === undefined ? {} : { name }),
    ...(api === undefined ? {} : { api }),
    ...(profile === undefined ? {} : { profile }),
    ...(apiKeyEnv === undefined ? {} : { apiKey: env[apiKeyEnv] }),
  }))
}

// ---- details, in the order they are used above ----

type ModelTable = NonNullable<Config['model']>

function configured(model: ModelTable, baseUrl: string, origin: string, env: Env): RemoteModel {
  const api = model.api ?? (/anthropic\.com/.test(baseUrl) ? 'anthropic-messages' : 'openai-chat')
  const apiKeyVariable = model.apiKeyEnv ?? (api === 'anthropic-messages' ? 'ANTHROPIC_API_KEY' : 'OPENAI_API_KEY')
  return {
    kind: 'remote',
    baseUrl,
    api,
    apiKey: env[apiKeyVariable],
    apiKeyVariable,
    profile: model.profile,
    name: model.name,
    origin,
    serverNamedBy: origin,
  }
}

/** The variables that OpenAI's and Anthropic's own clients read. */
function fromUsualVariables({ name, profile }: ModelTable, env: Env): RemoteModel | undefined {
  const value = (variable: string): string | undefined => env[variable] || undefined // empty counts as unset
  const openAi = {
    kind: 'remote',
    api: 'openai-chat',
    apiKey: value('OPENAI_API_KEY'),
    apiKeyVariable: 'OPENAI_API_KEY',
  } as const
  const openAiUrl = value('OPENAI_BASE_URL')
  if (openAiUrl !== undefined)
    return {
      ...openAi,
      baseUrl: openAiUrl,
      profile,
      name,
      origin: 'OPENAI_BASE_URL is set',
      serverNamedBy: 'OPENAI_BASE_URL',
    }
  if (openAi.apiKey !== undefined)
    return {
      ...openAi,
      baseUrl: 'https://api.openai.com/v1',
      profile: 'openai',
      name: name ?? 'gpt-5',
      origin: 'OPENAI_API_KEY is set',
      serverNamedBy: undefined,
    }
  const anthropicKey = value('ANTHROPIC_API_KEY')
  if (anthropicKey === undefined) return undefined
  const anthropicUrl = value('ANTHROPIC_BASE_URL')
  return {
    kind: 'remote',
    baseUrl: anthropicUrl ?? 'https://api.anthropic.com',
    api: 'anthropic-messages',
    apiKey: anthropicKey,
    apiKeyVariable: 'ANTHROPIC_API_KEY',
    profile: 'anthropic',
    name: name ?? 'claude-sonnet-5',
    origin: 'ANTHROPIC_API_KEY is set',
    serverNamedBy: anthropicUrl === undefined ? undefined : 'ANTHROPIC_BASE_URL',
  }
}

const unset = ({ name, profile }: ModelTable, env: Env): UnsetModel => ({
  kind: 'unset',
  name,
  profile,
  localServers: localServers(env),
})
