/** The model that a run uses: the configured one, else the first server on this machine that answers. */
import type { ProfileName } from '@breakfall/model/names'
import type { Endpoint, LocalName, ModelSetting, RemoteModel, ServedModel, UnsetModel } from '../config/model.ts'
import { refuseUnusable } from '../config/providers.ts'
import { type ListOptions, NAMED_MS } from './list.ts'

/** A server on this machine that was found, not configured. */
export type DiscoveredModel = Endpoint & {
  readonly kind: 'discovered'
  readonly provider: string
  readonly name: string
  readonly origin: string
}

/** Nothing is set and nothing answers. */
export type NoModel = { readonly kind: 'none' }

export type ModelChoice = ServedModel | RemoteModel | DiscoveredModel | NoModel

/** A choice whose server's address is known before the daemon runs. */
export type ReachableModel = RemoteModel | DiscoveredModel

export const isReachable = (choice: ModelChoice): choice is ReachableModel =>
  choice.kind === 'remote' || choice.kind === 'discovered'

export type ListModels = (baseUrl: string, options?: ListOptions) => Promise<readonly string[] | undefined>

/** A remote model that stays without a name is one whose server did not list any. */
export async function chooseModel(setting: ModelSetting, listModels: ListModels): Promise<ModelChoice> {
  switch (setting.kind) {
    case 'served':
      return setting
    case 'remote':
      return setting.name === undefined ? withListedName(setting, listModels) : setting
    case 'unset':
      return discover(setting, listModels)
  }
}

/** `qwen3 at http://127.0.0.1:8080/v1 (OPENAI_BASE_URL is set)`. */
export function describeModel(choice: ServedModel | ReachableModel): string {
  const { name, origin } = choice
  if (choice.kind === 'served')
    return `${name ?? 'the model'} of ${choice.command[0]}, started by Breakfall (${origin})`
  return `${name ?? 'the first model listed'} at ${choice.baseUrl} (${origin})`
}

/** Whether the server identifies itself as this one. */
export async function identifiesAs(name: LocalName, baseUrl: string): Promise<boolean> {
  if (name === 'Ollama') return (await readText(new URL('/', baseUrl).href))?.text.trim() === 'Ollama is running'
  const list = await readText(`${baseUrl}/models`)
  return list?.server === 'llama.cpp' || /"owned_by"\s*:\s*"llamacpp"/.test(list?.text ?? '')
}

// ---- details, in the order they are used above ----

async function withListedName(setting: RemoteModel, listModels: ListModels): Promise<RemoteModel> {
  refuseUnusable(setting)
  const [name] = (await listModels(setting.baseUrl, { apiKey: setting.apiKey, timeoutMs: NAMED_MS })) ?? []
  return { ...setting, name }
}

async function discover(setting: UnsetModel, listModels: ListModels): Promise<DiscoveredModel | NoModel> {
  for (const server of setting.localServers) {
    const models = await listModels(server.baseUrl)
    const name = setting.name ?? models?.[0]
    if (models === undefined || name === undefined) continue
    const isKnown = await identifiesAs(server.name, server.baseUrl)
    const profile: ProfileName | undefined = isKnown ? LOCAL_PROFILES[server.name] : undefined
    return {
      kind: 'discovered',
      baseUrl: server.baseUrl,
      name,
      api: 'openai-chat',
      apiKey: undefined,
      apiKeyVariable: undefined,
      isKeyStored: false,
      provider: 'default',
      profile: setting.profile ?? profile,
      origin: isKnown
        ? `${server.name} answers ${server.where}`
        : `an OpenAI-compatible server answers at ${new URL(server.baseUrl).host}`,
    }
  }
  return { kind: 'none' }
}

const LOCAL_PROFILES: Readonly<Record<LocalName, ProfileName>> = { Ollama: 'ollama', 'llama-server': 'llama-cpp' }

const IDENTIFY_MS = 2_000

async function readText(url: string): Promise<{ readonly server: string | null; readonly text: string } | undefined> {
  try {
    const response = await fetch(url, { signal: AbortSignal.timeout(IDENTIFY_MS) })
    return { server: response.headers.get('server'), text: await response.text() }
  } catch {
    return undefined // no answer: not a server that we know
  }
}
