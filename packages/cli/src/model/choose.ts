/** Which model a run talks to, and why: the first of the user's config, the usual variables, a server on its usual port. */
import { classify, Fault } from '@breakfall/faults'
import type { LoadedConfig } from '../config/load.ts'
import { LOCAL_PROFILES, type LocalName, saysItIs } from './identify.ts'

type Env = Readonly<Record<string, string | undefined>>

export type ModelChoice = {
  readonly baseUrl: string
  readonly name: string
  readonly api: 'openai-chat' | 'anthropic-messages'
  readonly apiKey: string | undefined
  /** The variable that holds the key. */
  readonly apiKeyFrom: string | undefined
  readonly profile: string | undefined
  /** A sentence for people. */
  readonly because: string
  /** Nobody named the model, and the server did not list any. */
  readonly isGuessed: boolean
}

type LocalServer = { readonly name: LocalName; readonly baseUrl: string; readonly where: string }

/** Servers on this machine: on their usual ports, or where the variables say that those servers themselves read. */
export function localServers(env: Env): readonly LocalServer[] {
  const ollama = env['OLLAMA_HOST'] ?? ''
  const [host, port] = [env['LLAMA_ARG_HOST'] ?? '', env['LLAMA_ARG_PORT'] ?? '']
  const where = (variable: string): string => (variable === '' ? 'on its usual port' : 'where its variables say')
  return [
    { name: 'Ollama', baseUrl: localUrl(ollama, '11434'), where: where(ollama) },
    { name: 'llama-server', baseUrl: localUrl(`${host}:${port}`, '8080'), where: where(host + port) },
  ]
}

/** `host`, `:port`, `host:port` or a whole URL; the address that a server binds to reach all is called at loopback. */
function localUrl(given: string, usualPort: string): string {
  const [, scheme = 'http', host = '', port = ''] = /^(?:(https?):\/\/)?([^/:\s]*):?(\d*)\/?$/.exec(given.trim()) ?? []
  return `${scheme}://${host === '' || host === '0.0.0.0' ? '127.0.0.1' : host}:${port || usualPort}/v1`
}

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
    const variable = model.apiKeyEnv ?? (api === 'anthropic-messages' ? 'ANTHROPIC_API_KEY' : 'OPENAI_API_KEY')
    const apiKey = env[variable]
    const because = loaded.origins.get('model.baseUrl') ?? 'configured'
    return {
      baseUrl: model.baseUrl,
      ...(await named(model.baseUrl, apiKey)),
      api,
      apiKey,
      apiKeyFrom: variable,
      profile: model.profile,
      because,
    }
  }
  const openAiUrl = env['OPENAI_BASE_URL']
  const openAiKey = env['OPENAI_API_KEY']
  if (openAiUrl !== undefined && openAiUrl !== '') {
    const key = { apiKey: openAiKey, apiKeyFrom: 'OPENAI_API_KEY' }
    const place = { baseUrl: openAiUrl, api: 'openai-chat', ...key, profile: model?.profile } as const
    return { ...place, ...(await named(openAiUrl, openAiKey)), because: 'OPENAI_BASE_URL is set' }
  }
  if (openAiKey) {
    const place = {
      baseUrl: 'https://api.openai.com/v1',
      api: 'openai-chat',
      apiKey: openAiKey,
      apiKeyFrom: 'OPENAI_API_KEY',
      profile: 'openai',
    } as const
    return { ...place, name: model?.name ?? 'gpt-5', isGuessed: false, because: 'OPENAI_API_KEY is set' }
  }
  const anthropicKey = env['ANTHROPIC_API_KEY']
  if (anthropicKey) {
    const baseUrl = env['ANTHROPIC_BASE_URL'] ?? 'https://api.anthropic.com'
    const key = { apiKey: anthropicKey, apiKeyFrom: 'ANTHROPIC_API_KEY' }
    const place = { baseUrl, api: 'anthropic-messages', ...key, profile: 'anthropic' } as const
    return { ...place, name: model?.name ?? 'claude-sonnet-5', isGuessed: false, because: 'ANTHROPIC_API_KEY is set' }
  }
  for (const server of localServers(env)) {
    const models = await listModels(server.baseUrl)
    const name = model?.name ?? models?.[0]
    if (models === undefined || name === undefined) continue
    const isKnown = await saysItIs(server.name, server.baseUrl)
    return {
      baseUrl: server.baseUrl,
      name,
      api: 'openai-chat',
      apiKey: undefined,
      apiKeyFrom: undefined,
      profile: model?.profile ?? (isKnown ? LOCAL_PROFILES[server.name] : undefined),
      isGuessed: false,
      because: isKnown
        ? `${server.name} answers ${server.where}`
        : `an OpenAI-compatible server answers at ${new URL(server.baseUrl).host}`,
    }
  }
  return undefined
}

type ListOptions = { readonly apiKey?: string | undefined; readonly timeoutMs?: number | undefined }

const LOCAL_MS = 2_000 // where nobody is the connection is refused at once; a server on a busy machine takes its time
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
