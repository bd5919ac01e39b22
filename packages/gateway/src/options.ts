/** What a gateway is started with. Resolved once, at the door; inside, nothing is optional. */
import { Fault, type Policy } from '@breakfall/faults'
import { type Hold, HOLDS, isProfileName, isSameHost, type ProfileName, resolvePolicy } from '@breakfall/model'
import type { PolicyInput } from '@breakfall/wire'
import { systemNow } from './clock.ts'
import { type GatewayLog, stderrLogger } from './log.ts'

export type Upstream = {
  /** Up to and including the version: `http://127.0.0.1:9000/v1`. */
  readonly url: string
  readonly profile?: ProfileName | undefined
  /** Asked for in place of the client's model. */
  readonly model?: string | undefined
  /** Laid over the client's: for example this upstream's own key. */
  readonly headers?: Readonly<Record<string, string>> | undefined
  /** Whether the client's own key goes here. Left out: only to hosts of the first upstream's name. */
  readonly passKey?: boolean | undefined
}

export type GatewayOptions = {
  /** One, or several in the order in which they are to be asked. */
  readonly upstream: string | Upstream | readonly (string | Upstream)[]
  readonly port?: number | undefined
  readonly host?: string | undefined
  readonly hold?: Hold | undefined
  /** Of upstreams that name none of their own. */
  readonly profile?: ProfileName | undefined
  readonly policy?: PolicyInput | undefined
  /** Wanted in `x-breakfall-token` of every request. Needed for any address but loopback. */
  readonly token?: string | undefined
  /** Names in `Host` besides loopback and the bound address. */
  readonly hosts?: readonly string[] | undefined
  readonly limits?: Partial<GatewayLimits> | undefined
  /** Told of each request. False for nobody. Left out: lines of JSON on stderr. */
  readonly logger?: GatewayLog | false | undefined
  readonly now?: (() => number) | undefined
  readonly dice?: (() => number) | undefined
}

export const GATEWAY_LIMITS = {
  bodyBytesMax: 64 * 1024 * 1024, // a long conversation with images in it
  requestMs: 300_000, // for a whole request to arrive: 64 MiB at 2 Mbit/s
  requestsMax: 1_024, // under way at once; each holds a connection either side
  holdBytesMax: 16 * 1024 * 1024, // of one answer
  pingMs: 15_000, // until the head goes out without content, and between pings
  clientStuckMs: 300_000, // a client that takes nothing for that long is gone, whatever TCP says
  closeMs: 10_000, // for answers under way when the gateway is stopped
} as const satisfies Record<string, number>

export type GatewayLimits = Readonly<Record<keyof typeof GATEWAY_LIMITS, number>>

export type GatewaySettings = {
  readonly upstreams: readonly (Upstream & { readonly passKey: boolean })[]
  readonly port: number
  readonly host: string
  readonly hold: Hold
  readonly policy: Policy
  readonly token: string | undefined
  readonly hosts: readonly string[]
  readonly limits: GatewayLimits
  readonly logger: GatewayLog | undefined
  readonly now: () => number
  readonly dice: (() => number) | undefined
}

/** Throws `invalid_request` naming the option that is wrong. */
export function resolveOptions(options: GatewayOptions): GatewaySettings {
  const { upstream, profile, host = '127.0.0.1', token, hold = 'tools' } = options
  const list: readonly (string | Upstream)[] = Array.isArray(upstream) ? upstream : [upstream as string | Upstream]
  const upstreams = list.map((entry) =>
    checked(typeof entry === 'string' ? { url: entry, profile } : { profile, ...entry }),
  )
  const [first] = upstreams
  if (first === undefined) throw wrong('upstream', 'at least one URL', 'none')
  if (!HOLDS.includes(hold)) throw wrong('hold', `one of ${HOLDS.join(', ')}`, hold)
  if (!LOOPBACK.has(host) && (token === undefined || token === ''))
    throw wrong('token', `a token, since ${host} can be reached from other machines`, 'none')
  return {
    upstreams: upstreams.map((one) => ({ ...one, passKey: one.passKey ?? isSameHost(one.url, first.url) })),
    port: options.port ?? 0,
    host,
    hold,
    policy: resolvePolicy(options.policy),
    token,
    hosts: [host, ...(options.hosts ?? [])],
    limits: { ...GATEWAY_LIMITS, ...options.limits },
    logger: options.logger === false ? undefined : (options.logger ?? stderrLogger()),
    now: options.now ?? systemNow,
    dice: options.dice,
  }
}

// ---- details ----

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
