/**
 * The model servers of this daemon's sessions: which one a session is bound to, its current address, and the key it gets.
 *
 * I1  A turn stays at the provider and the model it started with, whatever changes meanwhile.
 * I2  A session that brought a key uses that key or none: if a restart has forgotten it, the turn parks and says how to bring it.
 */
import { Fault } from '@breakfall/faults'
import { isProfileName } from '@breakfall/model/names'
import type { ProviderGiven, ProviderView, Session, TurnProvider } from '@breakfall/wire'
import { invalidRequest, modelFactsOf } from '@breakfall/wire/internal'
import { type ConfigReader, fingerprintOf } from '../live-config.ts'
import type { LocalModel } from '../model-server.ts'
import type { EngineOptions, LiveConfig, ModelEndpoint, ProviderConfig, ServeConfig } from '../options.ts'
import type { SessionData, SessionRow } from '../rows.ts'
import type { Secrets } from '../secrets.ts'
import { sessionView } from '../turn/view.ts'
import {
  bindModel,
  type BoundModel,
  type BroughtSecret,
  DEFAULT_PROVIDER,
  defaultProvider,
  isApiName,
  isSameAddress,
  type ModelRequest,
  providersOf,
  sameProvider,
  shownUrl,
} from './bind.ts'
import { keyMarker, type MarkKey } from './key-marks.ts'
import { ServedModels } from './served-models.ts'
import { SessionKeys } from './session-keys.ts'

type ModelData = Pick<SessionData, 'model' | 'provider'>

/** What a turn started with. */
type TurnChoice = { readonly id: string; readonly model: string | null; readonly provider: TurnProvider | null }

/** How much a model can read, if that is known. */
type Window = { readonly model: string; readonly contextTokens: number | undefined }

/** Where an attempt goes. */
export type TurnModel = {
  readonly endpoint: ModelEndpoint
  readonly fallback: readonly Partial<ModelEndpoint>[]
  /** The server that this daemon runs for it, if it runs one. */
  readonly served: LocalModel | undefined
  /** The key is gone. */
  readonly missingKey: Fault | undefined
}

type ProviderParts = {
  readonly config: ConfigReader
  readonly keys: SessionKeys
  readonly served: ServedModels
  readonly markKey: MarkKey
  readonly firstModel: EngineOptions['firstModel']
}

export function providersFor(
  { stateDir, modelServer: spec, firstModel }: EngineOptions,
  parts: { readonly config: ConfigReader; readonly secrets: Secrets; readonly probeMsFirst: number },
): Providers {
  const { config, secrets, probeMsFirst } = parts
  const reread = async (provider: string): Promise<ServeConfig | undefined> =>
    providersOf(await config.read()).get(provider)?.serve
  const served = new ServedModels({ reread, stateDir, probeMsFirst, spec })
  return new Providers({ config, keys: new SessionKeys(secrets), served, markKey: keyMarker(stateDir), firstModel })
}

export const KEY_GONE = 'the key is gone'

export class Providers {
  readonly #config: ConfigReader
  readonly #keys: SessionKeys
  readonly #served: ServedModels
  readonly #firstModel: NonNullable<EngineOptions['firstModel']>
  readonly #markKey: MarkKey

  constructor(parts: ProviderParts) {
    this.#firstModel = parts.firstModel ?? (() => Promise.resolve(undefined))
    this.#config = parts.config
    this.#keys = parts.keys
    this.#served = parts.served
    this.#markKey = parts.markKey
    const { model } = parts.config.last
    if (model.serve !== undefined) parts.served.start(model.provider ?? DEFAULT_PROVIDER, model.serve)
  }

  /** What a new or changed session is bound to. */
  async bind(sessionId: string, request: ModelRequest, current: ModelData): Promise<BoundModel> {
    const before = { model: current.model, provider: current.provider ?? null }
    const live = await this.#config.read()
    const { model, provider, secret } = bindModel(request, live, before)
    if (provider === null || secret === undefined) return { model, provider: provider ?? defaultProvider(live) }
    this.#keys.set(sessionId, provider, secret)
    const { apiKey } = secret
    return { model, provider: apiKey === undefined ? provider : { ...provider, keyMark: this.#markKey(apiKey) } }
  }

  /** What the session's next turn uses to its end (I1). */
  async forNextTurn(data: ModelData): Promise<{ readonly model: string; readonly provider: TurnProvider | null }> {
    const live = await this.#config.read()
    const provider = data.provider ?? defaultProvider(live)
    return { model: nameOf(data.model, provider, live), provider }
  }

  /** The session as the API shows it. */
  sessionView(row: SessionRow): Session {
    return sessionView(row, this.modelOf(row.data), this.viewOf(row.data.provider))
  }

  /** For an attempt of a turn. */
  async forTurn(sessionId: string, data: ModelData, turn: TurnChoice): Promise<TurnModel> {
    const live = await this.#config.read()
    const bound = turn.provider ?? defaultProvider(live)
    const config = bound === null ? live.model : sameProvider(bound, live)
    const secret = bound === null ? undefined : this.#secretFor(sessionId, turn, bound, live)
    const provider = bound?.name ?? DEFAULT_PROVIDER
    const served = config?.serve === undefined ? undefined : this.#served.start(provider, config.serve)
    const missingKey = bound !== null && isKeyGone(bound, secret !== undefined, config) ? keyGone(bound) : undefined
    const isDefault = isDefaultProvider(bound, live)
    const server = bound === null ? live.model : endpointOf(bound, config)
    const endpoint = {
      ...server,
      baseUrl: secret?.baseUrl ?? (served === undefined ? server.baseUrl : (served.baseUrl ?? '')),
      apiKey: secret === undefined && bound?.keyFrom !== 'session' ? config?.apiKey : secret?.apiKey,
    }
    const named = (data.model === null ? null : turn.model) ?? data.model
    const name = named ?? (isDefault ? live.model.name : await this.#firstModel(endpoint)) ?? 'default'
    return {
      endpoint: { ...endpoint, name },
      fallback: this.#fallbacks(live, bound),
      served,
      missingKey,
    }
  }

  /** A key for a turn's own provider, which a restart has made the daemon forget. Says nothing about the session's next turn. */
  bring(sessionId: string, turn: TurnChoice, { baseUrl, api, apiKey }: ProviderGiven): void {
    const bound = turn.provider ?? defaultProvider(this.#config.last)
    if (bound === null || !isSameAddress(bound, { baseUrl, api })) {
      const expected =
        bound === null ? 'left out: the turn has no provider' : `the turn's own provider, ${bound.baseUrl}`
      throw invalidRequest([{ field: 'provider.baseUrl', expected, got: JSON.stringify(shownUrl(baseUrl)) }])
    }
    this.#keys.set(sessionId, bound, { apiKey, baseUrl, turnId: turn.id })
  }

  /**
   * Changes with what the turn's next attempt would use: its server, its key, its fallbacks. By the configuration that was read
   * last. `KEY_GONE`: an attempt would only find that the key is gone.
   */
  fingerprint(sessionId: string, data: ModelData, turn: TurnChoice): string {
    const live = this.#config.last
    const bound = turn.provider ?? defaultProvider(live)
    if (bound === null) return fingerprintOf(live.model)
    const config = sameProvider(bound, live)
    const secret = this.#secretFor(sessionId, turn, bound, live)
    if (isKeyGone(bound, secret !== undefined, config)) return KEY_GONE
    return fingerprintOf(data.model, bound, endpointOf(bound, config), config, secret, this.#fallbacks(live, bound))
  }

  /** The models that a turn asks, in order, and how much each can read, by the configuration that was read last. */
  windowsOf(data: ModelData, turn: TurnChoice): readonly Window[] {
    const live = this.#config.last
    const bound = turn.provider ?? defaultProvider(live)
    const config = bound === null ? live.model : sameProvider(bound, live)
    const { contextTokens } = bound === null ? live.model : endpointOf(bound, config)
    const model = (data.model === null ? null : turn.model) ?? nameOf(data.model, bound, live)
    const rest = this.#fallbacks(live, bound).map((other) => {
      const isSame = other.name === undefined && other.baseUrl === undefined
      return { model: other.name ?? model, contextTokens: other.contextTokens ?? (isSame ? contextTokens : undefined) }
    })
    return [{ model, contextTokens }, ...rest]
  }

  viewOf(provider: TurnProvider | null | undefined): ProviderView | null {
    const shown = provider ?? defaultProvider(this.#config.last)
    if (shown === null) return null
    const { name, api } = shown
    const config = sameProvider(shown, this.#config.last)
    const baseUrl = config === undefined ? shown.baseUrl : configuredUrl(config, this.#served.peek(name))
    return { name, baseUrl, api }
  }

  /** The process that serves a provider's models, if this daemon runs one. */
  childOf(provider: TurnProvider | null): LocalModel['child'] | undefined {
    const { name = DEFAULT_PROVIDER } = provider ?? defaultProvider(this.#config.last) ?? {}
    return this.#served.peek(name)?.child
  }

  /** The provider at that address, under the name that the configuration gives it. */
  viewAt(baseUrl: string, api: string): ProviderView {
    const known = [...providersOf(this.#config.last)].find(([, config]) => isSameAddress({ baseUrl, api }, config))
    const host = URL.canParse(baseUrl) ? new URL(baseUrl).host : ''
    return { name: known?.[0] ?? host, baseUrl: shownUrl(baseUrl), api }
  }

  /** The model of a session that may not name one. */
  modelOf({ model, provider = null }: ModelData): string {
    return nameOf(model, provider, this.#config.last)
  }

  /** The session is gone. */
  forget(sessionId: string): void {
    this.#keys.forget(sessionId)
  }

  /** What was brought: for this turn, as the session's own key, or because the daemon has no key of its own (any more). */
  #secretFor(sessionId: string, turn: TurnChoice, bound: TurnProvider, live: LiveConfig): BroughtSecret | undefined {
    const brought = this.#keys.get(sessionId, bound)
    if (brought?.turnId === turn.id) return brought
    if (bound.keyFrom === 'session') return brought ?? this.#sameKey(bound, live)
    const config = sameProvider(bound, live)
    const isNeeded = config === undefined || (config.apiKey === undefined && isSameAddress(bound, config))
    return isNeeded ? brought : undefined
  }

  /** The daemon's own key for that server, if it is the key that the session brought (I2). */
  #sameKey(bound: TurnProvider, live: LiveConfig): BroughtSecret | undefined {
    if (bound.keyFrom !== 'session' || bound.keyMark === undefined) return undefined
    for (const config of providersOf(live).values()) {
      const { apiKey, baseUrl } = config
      if (apiKey !== undefined && isSameAddress(bound, config) && this.#markKey(apiKey) === bound.keyMark)
        return { apiKey, baseUrl }
    }
    return undefined
  }

  /** Without an address, a fallback is another model of the default provider. */
  #fallbacks(live: LiveConfig, bound: TurnProvider | null): readonly Partial<ModelEndpoint>[] {
    const isDefault = bound === null || bound.name === (live.model.provider ?? DEFAULT_PROVIDER)
    return (live.model.fallback ?? []).filter(({ baseUrl }) => baseUrl !== undefined || isDefault)
  }

  stop(): Promise<void> {
    return this.#served.stop()
  }
}

// ---- details, in the order they are used above ----

function nameOf(model: string | null, provider: TurnProvider | null, live: LiveConfig): string {
  if (model !== null) return model
  return isDefaultProvider(provider, live) ? live.model.name : 'default'
}

/** A provider from a terminal's variables may have the same name and another address. */
const isDefaultProvider = (provider: TurnProvider | null, live: LiveConfig): boolean =>
  provider === null ||
  (provider.name === (live.model.provider ?? DEFAULT_PROVIDER) && sameProvider(provider, live) !== undefined)

function endpointOf(bound: TurnProvider, config: ProviderConfig | undefined): ProviderConfig {
  if (config !== undefined && bound.isNamed === true) return config
  const { baseUrl, api, profile, apiKeyEnv } = bound
  return {
    baseUrl,
    apiKeyVariable: apiKeyEnv,
    api: isApiName(api) ? api : undefined,
    profile: isProfileName(profile) ? profile : undefined,
    ...modelFactsOf(bound),
  }
}

/** I2 */
function isKeyGone(bound: TurnProvider, isInMemory: boolean, config: ProviderConfig | undefined): boolean {
  if (isInMemory) return false
  return bound.keyFrom === 'session' || (bound.keyFrom === 'daemon' && config === undefined)
}

function keyGone({ baseUrl, apiKeyEnv }: TurnProvider): Fault {
  const variable = apiKeyEnv === undefined ? 'the key' : apiKeyEnv
  return new Fault('model_auth_failed', {
    message: {
      happened: `The key for the model server at ${baseUrl} is gone: it was only in the memory of a daemon that has stopped.`,
      advice: `Set ${variable} and the base URL ${baseUrl} in your terminal and run "breakfall run --continue" in the session's folder, or "breakfall resume".`,
    },
    errorRaw: `no key for ${baseUrl}`,
    reason: 'key_missing',
  })
}

const configuredUrl = ({ serve, baseUrl }: ProviderConfig, server: LocalModel | undefined): string =>
  serve === undefined ? shownUrl(baseUrl) : (server?.baseUrl ?? '')
