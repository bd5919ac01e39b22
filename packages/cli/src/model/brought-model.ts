/**
 * What a run brings to the daemon: the provider, the model and the key of its environment. The daemon keeps the key in memory,
 * for this session only.
 */
import { Fault } from '@breakfall/faults'
import type { ProviderGiven, ProviderView, Session, SessionCreate, SessionPatch, Turn } from '@breakfall/wire'
import { type ModelFacts, modelFactsOf } from '@breakfall/wire/internal'
import { apiOf, type ConfiguredProvider, refuseUnusable } from '../config/providers.ts'
import type { ResolvedConfig } from '../config/resolve.ts'
import { isReachable, type ModelChoice, type ReachableModel } from './choose.ts'

export type BroughtModel = Pick<SessionCreate, 'model' | 'provider'>

type Brings = Pick<ResolvedConfig, 'model' | 'modelName' | 'providers' | 'daemon'>

/** For a new session. If the run chose none, it uses the daemon's provider. */
export function broughtModel(choice: ModelChoice | undefined, config: Brings): BroughtModel {
  if (choice === undefined || choice.kind === 'none') return modelOnly(config.modelName)
  if (isReachable(choice)) return { ...modelOnly(choice.name), provider: givenBy(choice, config) }
  const { provider, name } = choice
  return modelOnly(provider === 'default' || name === undefined ? name : `${provider}/${name}`)
}

/** The session's own provider with this terminal's key for it. Undefined if this terminal has none. */
export function keyFor(provider: ProviderView, config: Brings): ProviderGiven | undefined {
  const { model, providers } = config
  const candidates = [...(model.kind === 'remote' ? [model] : []), ...providers.flatMap(withAddress)]
  const found = candidates.find((candidate) => candidate.apiKey !== undefined && isSameServer(candidate, provider))
  const given = found === undefined ? undefined : givenBy(found, config)
  return given?.apiKey === undefined ? undefined : { ...given, name: provider.name }
}

export type ChangeOptions = {
  readonly choice: ModelChoice | undefined
  readonly config: Brings
  /** A flag names the model or its server. */
  readonly isNamed: boolean
}

/** How a continued session changes before its next turn. Undefined: not at all. The key for an unfinished turn comes with its resume. */
export function changeFor(
  session: Pick<Session, 'provider' | 'turnId'>,
  { choice, config, isNamed }: ChangeOptions,
): SessionPatch | undefined {
  if (isNamed || session.provider == null) {
    const change = broughtModel(choice, config)
    return change.model === undefined && change.provider === undefined ? undefined : change
  }
  const provider = session.turnId === null ? keyFor(session.provider, config) : undefined
  return provider === undefined ? undefined : { provider }
}

/** This terminal's key for the turn's own provider, for a daemon that does not have it, for example after a restart. */
export const keyForTurn = (turn: Pick<Turn, 'provider'>, config: Brings): ProviderGiven | undefined =>
  turn.provider == null ? undefined : keyFor(turn.provider, config)

/** Every way to set a model, in one sentence. */
export function noModelFault(
  config: Pick<ResolvedConfig, 'modelName'> & {
    readonly providers: readonly Pick<ConfiguredProvider, 'name'>[]
    readonly loaded: Pick<ResolvedConfig['loaded'], 'origins'>
  },
  how: string,
): Fault {
  const [set] = [...config.loaded.origins].filter(([key]) => key.startsWith('model.'))
  const [provider] = config.providers
  const known = config.providers.map(({ name }) => name).join(', ')
  const [prefix = '', model] = config.modelName?.split('/') ?? []
  const happened =
    model !== undefined
      ? `There is no provider "${prefix}" for the model ${config.modelName}${known === '' ? '' : `, only ${known}`}, and no other model server is set or answers on this machine.`
      : set === undefined
        ? 'There is no model for this prompt: none is set, and none answers on this machine.'
        : `${set[0]} is set (${set[1]}), but there is no model server: none is set, and none answers on this machine.`
  const advice = [
    ...(provider === undefined
      ? []
      : [
          `Set model = "${provider.name}/${model ?? 'NAME'}" in your config.toml, or pass --model ${provider.name}/${model ?? 'NAME'}.`,
        ]),
    how,
  ]
  return new Fault('invalid_request', {
    message: { happened, action: 'Nothing started, and your prompt was not saved.', advice: advice.join(' ') },
    errorRaw: 'no model',
  })
}

// ---- details, in the order they are used above ----

const modelOnly = (model: string | undefined): BroughtModel => (model === undefined ? {} : { model })

type Server = Pick<ReachableModel, 'baseUrl' | 'api' | 'apiKey' | 'apiKeyVariable' | 'isKeyStored' | 'profile'> &
  ModelFacts & { readonly provider: string }

function givenBy(server: Server, { daemon }: Brings): ProviderGiven {
  const { provider, baseUrl, api, apiKeyVariable, profile } = server
  refuseUnusable(server)
  const apiKey = server.isKeyStored && daemon.kind === 'local' ? undefined : server.apiKey // the daemon has it, too
  return {
    name: provider,
    baseUrl,
    api,
    ...(apiKey === undefined ? {} : { apiKey }),
    ...(apiKeyVariable === undefined ? {} : { apiKeyEnv: apiKeyVariable }),
    ...(profile === undefined ? {} : { profile }),
    ...modelFactsOf(server),
  }
}

function withAddress({ name, baseUrl, api, ...rest }: ConfiguredProvider): readonly Server[] {
  return baseUrl === undefined ? [] : [{ ...rest, provider: name, baseUrl, api: apiOf({ baseUrl, api }) }]
}

const isSameServer = (server: Server, { baseUrl, api }: ProviderView): boolean =>
  server.api === api && normalized(server.baseUrl) === normalized(baseUrl)

/** As the daemon shows it: without user information. */
function normalized(address: string): string {
  if (!URL.canParse(address)) return address
  const url = new URL(address)
  url.username = ''
  url.password = ''
  return url.href.replace(/\/+$/, '')
}
