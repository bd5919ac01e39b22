/** Who may call: checks Host and Origin (a web page must not reach a local service under a foreign name), and tokens. */
import { createHash, timingSafeEqual } from 'node:crypto'
import type { IncomingMessage } from 'node:http'
import { Fault } from '@breakfall/faults'

/** Refuses foreign names: DNS rebinding makes a foreign name point to 127.0.0.1. */
export function checkHost(req: IncomingMessage, extra: readonly string[]): void {
  const hosts = req.headersDistinct['host'] ?? []
  if (hosts.length !== 1)
    throw new Fault('forbidden', { facts: { detail: hosts.length === 0 ? 'no Host header' : 'two Host headers' } })
  const inTarget = /^https?:\/\/([^/?#]*)/i.exec(req.url ?? '')?.[1] // as sent to proxies; it takes precedence over Host
  for (const host of [...hosts, ...(inTarget === undefined ? [] : [inTarget])])
    if (!isOurs(nameOf(host), req, extra))
      throw new Fault('forbidden', { facts: { detail: `Host ${host.slice(0, 100)}` } })
}

type OriginOptions = {
  /** A page elsewhere may link here. Only for services that do nothing for such a request but show their own page. */
  readonly allowLinks?: boolean | undefined
}

/**
 * Refuses what another site's page sends. Browsers name the page in Origin, though not for a plain GET, as of an image; there they say in
 * Sec-Fetch-Site how the page relates to us. Programs send neither.
 */
export function checkOrigin(req: IncomingMessage, extra: readonly string[], options: OriginOptions = {}): void {
  const { origin, 'sec-fetch-site': site } = req.headers
  const isForeign = site !== undefined && site !== 'none' && site !== 'same-origin'
  if (isForeign && !(options.allowLinks === true && isLink(req)))
    throw new Fault('forbidden', { facts: { detail: `Sec-Fetch-Site ${String(site).slice(0, 100)}` } })
  if (origin === undefined) return
  const name = /^https?:\/\/([^/]+)$/.exec(origin)?.[1]
  const sameHost = name !== undefined && name === req.headers.host
  if (!sameHost || !isOurs(nameOf(name), req, extra))
    throw new Fault('forbidden', { facts: { detail: `Origin ${origin.slice(0, 100)}` } })
}

/** The token of `Authorization: Bearer TOKEN`, if there is one. */
export function bearerToken(req: IncomingMessage): string | undefined {
  return /^Bearer +(\S+)$/i.exec(req.headers.authorization ?? '')?.[1]
}

/** Constant-time comparison. */
export function sameToken(given: string, wanted: string): boolean {
  const digest = (token: string): Buffer => createHash('sha256').update(token).digest()
  return timingSafeEqual(digest(given), digest(wanted))
}

// ---- details ----

/** A user followed a link: the response is the page, not a part of another one. */
const isLink = ({ method, headers }: IncomingMessage): boolean =>
  method === 'GET' && headers['sec-fetch-mode'] === 'navigate' && headers['sec-fetch-dest'] === 'document'

const LOOPBACK = new Set(['localhost', '127.0.0.1', '[::1]'])

const nameOf = (host: string): string => host.toLowerCase().replace(/:\d+$/, '')

function isOurs(name: string, req: IncomingMessage, extra: readonly string[]): boolean {
  if (LOOPBACK.has(name) || extra.includes(name)) return true
  const local = req.socket.localAddress
  return local !== undefined && (name === local || name === `[${local}]` || `::ffff:${name}` === local)
}
