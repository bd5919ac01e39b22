/**
 * What a failed call to the daemon means: it does not answer, something else answers at its address, or it refused. The daemon
 * reports its own faults; this file covers those it cannot report.
 */
import { endedFault, faultInProblem, isFault, type ReportedFault, reportedFault } from '@breakfall/faults/caller'
import type { DaemonAddress } from './address.ts'

/** `fetch` threw: no response came. */
export function failedCall(thrown: unknown, address: DaemonAddress, signal?: AbortSignal): ReportedFault {
  if (signal?.aborted === true) return endedFault(thrown, 'daemon', signal)
  const { codes, text } = causesOf(thrown, address)
  const url = clean(address.url, address)
  if (codes.includes('ENETUNREACH') && /^http:\/\/(?:127\.|localhost|\[::1\])/.test(url))
    return reportedFault(
      'daemon_unreachable',
      {
        error: `Cannot reach the daemon at ${url}: the loopback interface is down. Bring it up: ip link set lo up`,
        errorRaw: text,
        next: 'never', // neither a retry nor another daemon helps
      },
      thrown,
    )
  if (codes.some((code) => WRONG_SERVER.test(code)) || BAD_REQUEST.test(text))
    return reportedFault(
      'other',
      {
        error: `Cannot call ${url}. Check the URL, its certificate and the token.`,
        errorRaw: text,
        boundary: 'daemon',
      },
      thrown,
    )
  return unreachable(url, text, thrown)
}

/** The connection broke after the response had started. */
export function brokenStream(thrown: unknown, address: DaemonAddress, signal?: AbortSignal): ReportedFault {
  if (signal?.aborted === true) return endedFault(thrown, 'daemon', signal)
  if (isFault(thrown)) return thrown
  return unreachable(clean(address.url, address), causesOf(thrown, address).text, thrown, 'stream')
}

/** An error response: the daemon's fault, or what a proxy in front of it says. */
export function refusedCall(
  {
    status,
    redirected = false,
    url: from = '',
  }: Pick<Response, 'status'> & Partial<Pick<Response, 'redirected' | 'url'>>,
  body: unknown,
  address: DaemonAddress,
): ReportedFault {
  const url = clean(address.url, address)
  const reported = faultInProblem(body)
  const errorRaw = `HTTP ${status} ${clean(typeof body === 'string' ? body : JSON.stringify(body), address)}`.slice(
    0,
    4096,
  )
  if (status === 401 && (reported === undefined || reported.category === 'unauthorized')) {
    const source = address.tokenSource ?? 'this client'
    const error = redirected
      ? `The server at ${url} redirects to ${new URL(from).origin}, which does not get the token. Use that address.`
      : `The daemon at ${url} rejected the token from ${source}. Use one from its token file; its log says if it cannot read that.`
    return reported?.with({ error, status }) ?? reportedFault('unauthorized', { error, errorRaw, status })
  }
  if (reported !== undefined) return reported.with({ status })
  if (isFromProxy(status)) return unreachable(url, errorRaw).with({ status })
  const error = `The server at ${url} answered with status ${status}, but is no daemon. Check the URL.`
  return reportedFault(status === 404 ? 'not_found' : 'other', { error, errorRaw, status, boundary: 'daemon' })
}

// ---- details, in the order they are used above ----

/** What a proxy answers while its daemon is away, or while it has too much to do itself. 520 to 529 are Cloudflare's. */
const isFromProxy = (status: number): boolean =>
  status === 408 || status === 429 || (status >= 502 && status <= 504) || (status >= 520 && status <= 529)

/** A certificate that is not trusted, another protocol, a URL that cannot be requested. */
const WRONG_SERVER =
  /^(?:CERT_|ERR_(?:TLS_CERT|SSL_|INVALID_|UNSUPPORTED_)|HPE_|DEPTH_ZERO_|SELF_SIGNED_|UNABLE_TO_|HOSTNAME_M|EPROTO$|UND_ERR_(?:INVALID_ARG|HEADERS_OVERFLOW)$)/

/** `fetch` rejects these before it sends anything, in Node and in browsers. */
const BAD_REQUEST = /parse URL|URL that includes credentials|invalid (?:header|HTTP header|URL|value)|bad port/i

const CAUSES_MAX = 8

/** The codes in the chain of causes, and its texts without the outermost, which says only that it failed. */
function causesOf(thrown: unknown, address: DaemonAddress): { codes: readonly string[]; text: string } {
  const codes: string[] = []
  const texts: string[] = []
  for (let error = thrown; error instanceof Error && texts.length < CAUSES_MAX; error = error.cause) {
    const code = 'code' in error && typeof error.code === 'string' ? error.code : error.name
    codes.push(code)
    texts.push(error.message.includes(code) ? error.message : `${error.message} (${code})`)
  }
  const told = texts.length > 1 ? texts.slice(1) : texts
  return { codes, text: clean(told.join(': ') || String(thrown), address) }
}

/** The only secrets that a call has: its token, and credentials in its URL. */
const clean = (text: string, { token }: DaemonAddress): string =>
  (token === '' ? text : text.replaceAll(token, '[redacted]')).replaceAll(/\/\/[^/@\s]*@/g, '//[redacted]@')

function unreachable(url: string, errorRaw: string, cause?: unknown, phase?: string): ReportedFault {
  const message = { happened: `The daemon at ${url} does not answer.`, advice: ADVICE }
  const error = `${message.happened} ${message.advice}`
  return reportedFault('daemon_unreachable', { error, message, errorRaw, phase }, cause)
}

const ADVICE = 'Start it with "breakfall up", or check its address.'
