/** Which model a run talks to, and why: the first of the user's config, the usual variables, a server on its usual port. */
import { classify, Fault } from '@breakfall/faults'
import type { LoadedConfig } from './config/load.ts'

export type ModelChoice = {
  readonly baseUrl: string
  readonly name: string
  readonly api: 'openai-chat' | 'anthropic-messages'
  readonly apiKey: string | undefined
  readonly profile: string | undefined
  /** A sentence for people. */
  readonly because: string
  /** Nobody named the model, and the server did not list any. */
  readonly isGuessed: boolean
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
  listModels: (baseUrl: string, options?: ListOptions) => Promise<readonly string[] | undefined>,
): Promise<ModelChoice | undefined> {
  const { model } = loaded.config
  const named = async (baseUrl: string, apiKey: string | undefined): Promise<{ name: string; isGuessed: boolean }> => {
    const name = model?.name ?? (await listModels(baseUrl, { apiKey, timeoutMs: NAMED_MS }))?.[0]
    return { name: name ?? 'default', isGuessed: name === undefined }
  }
  if (model?.baseUrl !== undefined) {
    const api = model.api ?? (/anthropic\.com/.test(model.baseUrl) ? 'anthropic-messages' : 'openai-chat')
    const apiKey = keyOf(model.apiKeyEnv, api, env)
    const because = loaded.origins.get('model.baseUrl') ?? 'configured'
    return {
      baseUrl: model.baseUrl,
      ...(await named(model.baseUrl, apiKey)),
      api,
      apiKey,
      profile: model.profile,
      because,
    }
  }
  const openAiUrl = env['OPENAI_BASE_URL']
  const openAiKey = env['OPENAI_API_KEY']
  if (openAiUrl !== undefined && openAiUrl !== '') {
    const place = { baseUrl: openAiUrl, api: 'openai-chat', apiKey: openAiKey, profile: model?.profile } as const
    return { ...place, ...(await named(openAiUrl, openAiKey)), because: 'OPENAI_BASE_URL is set' }
  }
  if (openAiKey) {
    const place = {
      baseUrl: 'https://api.openai.com/v1',
      api: 'openai-chat',
      apiKey: openAiKey,
      profile: 'openai',
    } as const
    return { ...place, name: model?.name ?? 'gpt-5', isGuessed: false, because: 'OPENAI_API_KEY is set' }
  }
  const anthropicKey = env['ANTHROPIC_API_KEY']
  if (anthropicKey) {
    const baseUrl = env['ANTHROPIC_BASE_URL'] ?? 'https://api.anthropic.com'
    const place = { baseUrl, api: 'anthropic-messages', apiKey: anthropicKey, profile: 'anthropic' } as const
    return { ...place, name: model?.name ?? 'claude-sonnet-5', isGuessed: false, because: 'ANTHROPIC_API_KEY is set' }
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
      isGuessed: false,
      because: `${server.name} answers on its usual port`,
    }
  }
  return undefined
}

type ListOptions = { readonly apiKey?: string | undefined; readonly timeoutMs?: number | undefined }

const LOCAL_MS = 400 // a server on this machine that is there answers at once
const NAMED_MS = 5_000 // one that somebody named is worth waiting for

/** The names that `GET /models` lists, or undefined where nobody answers in time. */
export async function listModels(baseUrl: string, options: ListOptions = {}): Promise<readonly string[] | undefined> {
  const { apiKey, timeoutMs = LOCAL_MS } = options
  try {
    const response = await fetch(`${baseUrl.replace(/\/$/, '')}/models`, {
      signal: AbortSignal.timeout(timeoutMs),
      headers: apiKey === undefined ? {} : { authorization: `Bearer ${apiKey}` },
    })
    if (!response.ok) return undefined
    const json = (await response.json()) as { data?: readonly { id?: unknown }[] }
    return (json.data ?? []).map((entry) => entry.id).filter((id): id is string => typeof id === 'string')
  } catch {
    return undefined // nobody there, or somebody else: both mean "not a model server"
  }
}

/** Why nobody is there, whatever the answer would be; undefined where somebody is. */
export async function awayFault(baseUrl: string, timeoutMs = NAMED_MS): Promise<Fault | undefined> {
  try {
    const response = await fetch(baseUrl, { signal: AbortSignal.timeout(timeoutMs) })
    await response.body?.cancel()
    return undefined
  } catch (error) {
    const isSilent = error instanceof Error && error.name === 'TimeoutError'
    if (isSilent)
      return new Fault('model_unreachable', { facts: { address: baseUrl, detail: 'no answer came in time' } })
    return classify(error, { boundary: 'model', phase: 'connect', address: baseUrl })
  }
}

function keyOf(variable: string | undefined, api: string, env: Env): string | undefined {
  if (variable !== undefined) return env[variable]
  return api === 'anthropic-messages' ? env['ANTHROPIC_API_KEY'] : env['OPENAI_API_KEY']
}
