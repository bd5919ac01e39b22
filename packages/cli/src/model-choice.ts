/** Which model a run talks to, and why: the first of the user's config, the usual variables, a server on its usual port. */
import type { LoadedConfig } from './config/load.ts'

export type ModelChoice = {
  readonly baseUrl: string
  readonly name: string
  readonly api: 'openai-chat' | 'anthropic-messages'
  readonly apiKey: string | undefined
  readonly profile: string | undefined
  /** A sentence for people. */
  readonly because: string
}

/** Local servers by their usual ports. */
const LOCAL: readonly { readonly name: string; readonly baseUrl: string; readonly profile: string }[] = [
  { name: 'Ollama', baseUrl: 'http://127.0.0.1:11434/v1', profile: 'ollama' },
  { name: 'llama-server', baseUrl: 'http://127.0.0.1:8080/v1', profile: 'llama-cpp' },
]

type Env = Readonly<Record<string, string | undefined>>

/** undefined where nothing is configured and nothing answers: then the rehearsal model is all there is. */
export async function chooseModel(
  loaded: LoadedConfig,
  env: Env,
  listModels: (baseUrl: string) => Promise<readonly string[] | undefined>,
): Promise<ModelChoice | undefined> {
  const { model } = loaded.config
  if (model?.baseUrl !== undefined) {
    const api = model.api ?? (/anthropic\.com/.test(model.baseUrl) ? 'anthropic-messages' : 'openai-chat')
    const name = model.name ?? (await listModels(model.baseUrl))?.[0] ?? 'default'
    return {
      baseUrl: model.baseUrl,
      name,
      api,
      apiKey: keyOf(model.apiKeyEnv, api, env),
      profile: model.profile,
      because: `configured (${loaded.origins.get('model.baseUrl') ?? 'config'})`,
    }
  }
  const openAiUrl = env['OPENAI_BASE_URL']
  if (openAiUrl !== undefined && openAiUrl !== '') {
    const name = model?.name ?? (await listModels(openAiUrl))?.[0] ?? 'default'
    return {
      baseUrl: openAiUrl,
      name,
      api: 'openai-chat',
      apiKey: env['OPENAI_API_KEY'],
      profile: model?.profile,
      because: 'OPENAI_BASE_URL is set',
    }
  }
  if (env['OPENAI_API_KEY']) {
    return {
      baseUrl: 'https://api.openai.com/v1',
      name: model?.name ?? 'gpt-5',
      api: 'openai-chat',
      apiKey: env['OPENAI_API_KEY'],
      profile: 'openai',
      because: 'OPENAI_API_KEY is set',
    }
  }
  if (env['ANTHROPIC_API_KEY']) {
    const baseUrl = env['ANTHROPIC_BASE_URL'] ?? 'https://api.anthropic.com'
    return {
      baseUrl,
      name: model?.name ?? 'claude-sonnet-5',
      api: 'anthropic-messages',
      apiKey: env['ANTHROPIC_API_KEY'],
      profile: 'anthropic',
      because: 'ANTHROPIC_API_KEY is set',
    }
  }
  for (const server of LOCAL) {
    const models = await listModels(server.baseUrl)
    const name = model?.name ?? models?.[0]
    if (models === undefined || name === undefined) continue
    return {
      baseUrl: server.baseUrl,
      name,
      api: 'openai-chat',
      apiKey: undefined,
      profile: server.profile,
      because: `${server.name} answers on its usual port`,
    }
  }
  return undefined
}

/** The names that `GET /models` lists, or undefined where nobody answers within `timeoutMs`. */
export async function listModels(baseUrl: string, timeoutMs = 400): Promise<readonly string[] | undefined> {
  try {
    const response = await fetch(`${baseUrl.replace(/\/$/, '')}/models`, { signal: AbortSignal.timeout(timeoutMs) })
    if (!response.ok) return undefined
    const json = (await response.json()) as { data?: readonly { id?: unknown }[] }
    return (json.data ?? []).map((entry) => entry.id).filter((id): id is string => typeof id === 'string')
  } catch {
    return undefined // nobody there, or somebody else: both mean "not a model server"
  }
}

function keyOf(variable: string | undefined, api: string, env: Env): string | undefined {
  if (variable !== undefined) return env[variable]
  return api === 'anthropic-messages' ? env['ANTHROPIC_API_KEY'] : env['OPENAI_API_KEY']
}
