/** The gateway's options. Resolved once, at the start; inside, nothing is optional. */
import { Fault, type Policy } from '@breakfall/faults'
import { type Hold, HOLDS, isProfileName, type ProfileName, type RepairMode, REPAIRS } from '@breakfall/model'
import { isSameOrigin, resolvePolicy } from '@breakfall/model/internal'
import type { PolicyInput } from '@breakfall/wire'
import { systemNow } from './clock.ts'
import { type GatewayLog, stderrLogger } from './log.ts'

export type Upstream = {
  /** Up to and including the version: `http://127.0.0.1:9000/v1`. */
  readonly url: string
  readonly profile?: ProfileName | undefined
  /**
   * Replaces the model that the client asks for, on the routes that the gateway repairs. A request there whose model cannot be replaced
   * is refused. Other routes, such as `/v1/embeddings`, pass with the client's model.
   */
  readonly model?: string | undefined
  /** Override the client's headers, for example with this upstream's own key. */
  readonly headers?: Readonly<Record<string, string>> | undefined
  /** Whether this upstream gets the client's key. Default: only if scheme, host and port are those of the first upstream. */
  readonly passKey?: boolean | undefined
}

export type GatewayOptions = {
  /** One, or several in the order to ask them. */
  readonly upstream: string | Upstream | readonly (string | Upstream)[]
  readonly port?: number | undefined
  readonly host?: string | undefined
  readonly hold?: Hold | undefined
  /** What an answer without text or call gets: one more request, or none. */
  readonly empty?: 'ask-again' | 'accept' | undefined
  /** Refuse a request whose last steps are the same call with the same result so often. Default: only report it. */
  readonly stopLoops?: number | undefined
  /** For upstreams without a profile. */
  readonly profile?: ProfileName | undefined
  readonly policy?: PolicyInput | undefined
  /** Whether a request is repaired that the upstream refused because of its conversation. Default: `auto`. */
  readonly repair?: RepairMode | undefined
  /** Every request must send it in `x-breakfall-token`. Required on any address but loopback. */
  readonly token?: string | undefined
  /** Names to accept in `Host` besides loopback and the bound address. */
  readonly hosts?: readonly string[] | undefined
  readonly limits?: Partial<GatewayLimits> | undefined
  /** Receives one entry per request; false turns logging off. Default: lines of JSON on stderr. */
  readonly logger?: GatewayLog | false | undefined
  readonly now?: (() => number) | undefined
  readonly dice?: (() => number) | undefined
}

export const GATEWAY_LIMITS = {
  bodyBytesMax: 64 * 1024 * 1024, // a long conversation with images
  requestMs: 300_000, // to receive a whole request: 64 MiB at 2 Mbit/s
  bodySilenceMs: 30_000, // while a body arrives; longer than a mobile connection takes to come back
  requestsMax: 1_024, // at once; each holds a connection on either side
  memoryBytesMax: 192 * 1024 * 1024, // that all requests hold together: bodies, held answers, what is remembered to heal them
  holdBytesMax: 16 * 1024 * 1024, // per answer
  holdMs: 30_000, // `auto`: most steps of an agent are shorter, and no agent's idle limit is
  pingMs: 15_000, // before the headers are sent without content, and between pings
  clientStuckMs: 300_000, // a client that reads nothing for that long is gone
  socketsMax: 256, // WebSockets at once; further clients are sent to HTTP
  socketIdleMs: 600_000, // between two requests of a WebSocket
  closeMs: 10_000, // for running answers when the gateway stops
} as const satisfies Record<string, number>

export type GatewayLimits = Readonly<Record<keyof typeof GATEWAY_LIMITS, number>>

export type GatewaySettings = {
  readonly upstreams: readonly (Upstream & { readonly passKey: boolean })[]
  readonly port: number
  readonly host: string
  readonly hold: Hold
  readonly empty: 'ask-again' | 'accept'
  readonly stopLoops: number
  readonly policy: Policy
  readonly repair: RepairMode
  readonly token: string | undefined
  readonly hosts: readonly string[]
  readonly limits: GatewayLimits
  readonly logger: GatewayLog | undefined
  readonly now: () => number
  readonly dice: (() => number) | undefined
}

/** Throws `invalid_request`, which names the wrong option. */
export function resolveOptions(options: GatewayOptions): GatewaySettings {
  const { upstream, profile, host = '127.0.0.1', token, hold = 'auto', repair = 'auto' } = options
  const list = isList(upstream) ? upstream : [upstream]
  const upstreams = list.map((entry) =>
    checked(typeof entry === 'string' ? { url: entry, profile } : { profile, ...entry }),
  )
  const [first] = upstreams
  if (first === undefined) throw wrong('upstream', 'at least one URL', 'none')
  if (!HOLDS.includes(hold)) throw wrong('hold', `one of ${HOLDS.join(', ')}`, hold)
  if (!REPAIRS.includes(repair)) throw wrong('repair', `one of ${REPAIRS.join(', ')}`, repair)
  if (!LOOPBACK.has(host) && (token === undefined || token === ''))
    throw wrong('token', `a token, because other machines can reach ${host}`, 'none')
  return {
    upstreams: upstreams.map((one) => ({ ...one, passKey: one.passKey ?? isSameOrigin(one.url, first.url) })),
    port: options.port ?? 0,
    host,
    hold,
    empty: options.empty ?? 'ask-again',
    stopLoops: options.stopLoops ?? Number.POSITIVE_INFINITY,
    policy: resolvePolicy(options.policy),
    repair,
    token,
    hosts: [host, ...(options.hosts ?? [])],
    limits: { ...GATEWAY_LIMITS, ...options.limits },
    logger: options.logger === false ? undefined : (options.logger ?? stderrLogger()),
    now: options.now ?? systemNow,
    dice: options.dice,
  }
}

// ---- details ----

const isList = (upstream: GatewayOptions['upstream']): upstream is readonly (string | Upstream)[] =>
  Array.isArray(upstream)

const LOOPBACK = new Set(['127.0.0.1', '::1', 'localhost'])

function checked(upstream: Upstream): Upstream {
  const { url, profile } = upstream
  const scheme = URL.canParse(url) ? new URL(url).protocol : ''
  if (scheme !== 'http:' && scheme !== 'https:') throw wrong('upstream', 'an http or https URL', url)
  if (profile !== undefined && !isProfileName(profile)) throw wrong('profile', 'the name of a server profile', profile)
  return { ...upstream, url: url.replace(/\/+$/, '') }
}

function wrong(field: string, expected: string, got: string): Fault {
  return new Fault('invalid_request', {
    facts: { name: field, detail: `expected ${expected}, got ${got}` },
    errors: [{ field, expected, got }],
  })
}
