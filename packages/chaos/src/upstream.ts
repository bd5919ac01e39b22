/** The proxy's way to its upstream: the same request, but for the headers that belong to one connection only. */
import { type IncomingMessage, request as httpRequest } from 'node:http'
import { request as httpsRequest } from 'node:https'

/** Resolves with the answer once its headers are there; rejects with the transport's own error. */
export function askUpstream(
  upstream: URL,
  asked: IncomingMessage,
  body: Buffer,
  options: { readonly signal: AbortSignal; readonly isBodyNeededPlain: boolean },
): Promise<IncomingMessage> {
  const send = upstream.protocol === 'https:' ? httpsRequest : httpRequest
  return new Promise((resolve, reject) => {
    const request = send(
      {
        host: upstream.hostname.replace(/^\[|\]$/g, ''),
        port: upstream.port === '' ? (upstream.protocol === 'https:' ? 443 : 80) : Number(upstream.port),
        method: asked.method,
        path: asked.url,
        headers: requestHeaders(asked, upstream, options.isBodyNeededPlain),
        // One connection per request: a stale pooled one would be a fault that no plan asked for.
        agent: false,
        signal: options.signal,
      },
      resolve,
    )
    request.on('error', reject)
    request.end(body)
  })
}

/** The answer's headers as they came, but for those of the connection. `without` names more to leave out. */
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

function requestHeaders(asked: IncomingMessage, upstream: URL, isBodyNeededPlain: boolean): string[] {
  const dropped = HOP_BY_HOP.filter((name) => name !== 'transfer-encoding')
  const headers = filtered(asked.rawHeaders, [
    ...dropped,
    'host',
    'expect', // `100-continue` has been answered by us
    ...(isBodyNeededPlain ? ['accept-encoding'] : []), // a compressed stream has no events that could be counted
  ])
  const hasFraming = asked.headers['content-length'] !== undefined || asked.headers['transfer-encoding'] !== undefined
  if (!hasFraming && asked.method !== 'GET' && asked.method !== 'HEAD') headers.push('Content-Length', '0')
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
