/** Sends a request to the proxy's upstream, unchanged except for hop-by-hop headers. */
import { type IncomingMessage, request as httpRequest } from 'node:http'
import { request as httpsRequest } from 'node:https'

/** Resolves with the answer once its headers are there; rejects with the transport error. */
export function askUpstream(
  upstream: URL,
  received: IncomingMessage,
  body: Buffer,
  options: { readonly signal: AbortSignal; readonly isBodyNeededPlain: boolean },
): Promise<IncomingMessage> {
  const send = upstream.protocol === 'https:' ? httpsRequest : httpRequest
  return new Promise((resolve, reject) => {
    const request = send(
      {
        host: upstream.hostname.replace(/^\[|\]$/g, ''),
        port: upstream.port === '' ? (upstream.protocol === 'https:' ? 443 : 80) : Number(upstream.port),
        method: received.method,
        path: received.url,
        headers: requestHeaders(received, upstream, options.isBodyNeededPlain),
        // One connection per request: a stale pooled connection would be a fault that no plan asked for.
        agent: false,
        signal: options.signal,
      },
      resolve,
    )
    request.on('error', reject)
    request.end(body)
  })
}

/** The answer's headers, unchanged except for hop-by-hop headers and those in `without`. */
export function answerHeaders(answer: IncomingMessage, without: readonly string[] = []): string[] {
  return filtered(answer.rawHeaders, [...HOP_BY_HOP, ...without])
}

// ---- details ----

const HOP_BY_HOP = [
  'connection',
  'keep-alive',
  'proxy-connection',
  'proxy-authenticate',
  'transfer-encoding',
  'upgrade',
]

function requestHeaders(received: IncomingMessage, upstream: URL, isBodyNeededPlain: boolean): string[] {
  const dropped = HOP_BY_HOP.filter((name) => name !== 'transfer-encoding')
  const headers = filtered(received.rawHeaders, [
    ...dropped,
    'host',
    'expect', // the proxy has already answered `100-continue`
    ...(isBodyNeededPlain ? ['accept-encoding'] : []), // events in a compressed stream cannot be counted
  ])
  const hasFraming =
    received.headers['content-length'] !== undefined || received.headers['transfer-encoding'] !== undefined
  if (!hasFraming && received.method !== 'GET' && received.method !== 'HEAD') headers.push('Content-Length', '0')
  return ['Host', upstream.host, ...headers]
}

function filtered(raw: readonly string[], without: readonly string[]): string[] {
  const out: string[] = []
  for (let i = 0; i + 1 < raw.length; i += 2) {
    const name = raw[i] ?? ''
    if (!without.includes(name.toLowerCase())) out.push(name, raw[i + 1] ?? '')
  }
  return out
}
