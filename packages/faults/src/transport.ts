/**
 * What kind of transport failure a cause chain shows, for any server. Typed codes first; text last, anchored, each pattern
 * beside a message that was really seen. What the kind means depends on the boundary: see `classify.ts`.
 */
import type { CauseLink } from './cause.ts'

export const TRANSPORT_KINDS = [
  'refused', // nothing listens there
  'no_route', // this machine has no route to it
  'name_unknown', // the name does not exist
  'name_unresolved', // the resolver did not answer
  'connect_timeout',
  'headers_timeout',
  'body_timeout',
  'broken', // the connection was established, then ended: reset, closed, broken pipe
  'not_http', // bytes came, but not the protocol
  'untrusted', // a certificate that is not trusted
  'wrong_protocol', // TLS against plain text, or the other way round
  'bad_address', // a URL that cannot be requested
  'disk_full',
  'disk_broken',
  'corrupt',
] as const
export type TransportKind = (typeof TRANSPORT_KINDS)[number]

export function transportKind(chain: readonly CauseLink[]): TransportKind | undefined {
  const typed = chain.map(kindByType).filter((kind) => kind !== undefined)
  // If several addresses were tried, a refusal says more than a missing route: a machine without IPv6 has no route to
  // `::1` and is still online.
  const typedKind = typed.find((kind) => kind !== 'no_route') ?? typed[0]
  return typedKind ?? first(chain, kindByName) ?? first(chain, kindByText)
}

/** Whether it failed before the connection was established. Node shows that by the failed system call. */
export function failedToConnect(chain: readonly CauseLink[]): boolean {
  return chain.some(
    (link) =>
      link.syscall === 'connect' ||
      link.syscall === 'getaddrinfo' ||
      link.code === 'UND_ERR_CONNECT_TIMEOUT' ||
      HANDSHAKE_CUT.test(link.message),
  )
}

// ---- details ----

const KIND_BY_CODE: Readonly<Record<string, TransportKind>> = {
  ECONNREFUSED: 'refused',
  ENETUNREACH: 'no_route',
  ENETDOWN: 'no_route',
  EHOSTUNREACH: 'no_route',
  EHOSTDOWN: 'no_route',
  EADDRNOTAVAIL: 'no_route',
  ENOTFOUND: 'name_unknown',
  EAI_AGAIN: 'name_unresolved',
  EAI_FAIL: 'name_unresolved',
  ETIMEDOUT: 'connect_timeout',
  UND_ERR_CONNECT_TIMEOUT: 'connect_timeout',
  UND_ERR_HEADERS_TIMEOUT: 'headers_timeout',
  UND_ERR_BODY_TIMEOUT: 'body_timeout',
  ECONNRESET: 'broken',
  ECONNABORTED: 'broken',
  EPIPE: 'broken',
  UND_ERR_SOCKET: 'broken',
  UND_ERR_DESTROYED: 'broken',
  UND_ERR_CLOSED: 'broken',
  UND_ERR_RES_CONTENT_LENGTH_MISMATCH: 'broken',
  ERR_STREAM_PREMATURE_CLOSE: 'broken',
  ERR_STREAM_DESTROYED: 'broken',
  Z_BUF_ERROR: 'broken',
  Z_DATA_ERROR: 'broken',
  UND_ERR_HEADERS_OVERFLOW: 'not_http',
  DEPTH_ZERO_SELF_SIGNED_CERT: 'untrusted',
  SELF_SIGNED_CERT_IN_CHAIN: 'untrusted',
  UNABLE_TO_VERIFY_LEAF_SIGNATURE: 'untrusted',
  UNABLE_TO_GET_ISSUER_CERT: 'untrusted',
  UNABLE_TO_GET_ISSUER_CERT_LOCALLY: 'untrusted',
  HOSTNAME_MISMATCH: 'untrusted',
  ERR_TLS_CERT_ALTNAME_INVALID: 'untrusted',
  EPROTO: 'wrong_protocol',
  ERR_INVALID_URL: 'bad_address',
  ERR_INVALID_PROTOCOL: 'bad_address',
  ERR_UNSUPPORTED_PROTOCOL: 'bad_address',
  UND_ERR_INVALID_ARG: 'bad_address',
  ENOSPC: 'disk_full',
  EDQUOT: 'disk_full',
  EROFS: 'disk_broken',
  EIO: 'disk_broken',
}

function first(
  chain: readonly CauseLink[],
  kindOf: (link: CauseLink) => TransportKind | undefined,
): TransportKind | undefined {
  for (const link of chain) {
    const kind = kindOf(link)
    if (kind !== undefined) return kind
  }
  return undefined
}

function kindByType(link: CauseLink): TransportKind | undefined {
  const { code, name, syscall, errcode } = link
  if (code !== undefined) {
    // An established connection that times out during TCP's retransmissions is broken, not unconnected.
    if (code === 'ETIMEDOUT' && (syscall === 'read' || syscall === 'write')) return 'broken'
    const kind = Object.hasOwn(KIND_BY_CODE, code) ? KIND_BY_CODE[code] : undefined
    if (kind !== undefined) return kind
    if (code.startsWith('HPE_')) return 'not_http' // Node 20's parser errors; Node 24 gives only the name
    if (code.startsWith('CERT_') || code.startsWith('ERR_TLS_CERT')) return 'untrusted'
    if (code.startsWith('ERR_SSL_')) return 'wrong_protocol'
    if (code.startsWith('ERR_HTTP2_')) return 'broken'
    if (syscall === 'connect') return 'refused' // a firewall's EACCES or EPERM, a missing socket file
    if (syscall === 'getaddrinfo') return 'name_unresolved'
  }
  if (errcode !== undefined) return SQLITE_KINDS.get(errcode & 0xff)
  return name === 'HTTPParserError' ? 'not_http' : undefined
}

/** An abort or a timeout that is not ours: the answer did not arrive, whatever the reason. */
function kindByName(link: CauseLink): TransportKind | undefined {
  if (link.name === 'AbortError') return 'broken'
  return link.name === 'TimeoutError' ? 'headers_timeout' : undefined
}

function kindByText(link: CauseLink): TransportKind | undefined {
  const code = SYSTEM_TEXT.exec(link.message)?.[1]
  if (code !== undefined && Object.hasOwn(KIND_BY_CODE, code)) return KIND_BY_CODE[code]
  return TEXT_RULES.find((rule) => rule.pattern.test(link.message))?.kind
}

/** SQLite's primary result codes, as `node:sqlite` gives them in `errcode`. */
const SQLITE_KINDS: ReadonlyMap<number, TransportKind> = new Map([
  [10, 'disk_broken'], // SQLITE_IOERR
  [11, 'corrupt'], // SQLITE_CORRUPT
  [13, 'disk_full'], // SQLITE_FULL
  [26, 'corrupt'], // SQLITE_NOTADB
])

/** Node's wording, for errors that crossed a wire as text: `connect ECONNREFUSED 127.0.0.1:54321`. */
const SYSTEM_TEXT = /^(?:connect|read|write|getaddrinfo) (E[A-Z_]{3,30})(?= |$)/

/** A FIN during the TLS handshake has no system call, only this text. */
const HANDSHAKE_CUT = /^Client network socket disconnected before secure TLS connection was established$/

type TextRule = { readonly kind: TransportKind; readonly pattern: RegExp; readonly seen: string }

/** Exported for the test that runs each pattern on its message. */
export const TEXT_RULES: readonly TextRule[] = [
  { kind: 'refused', pattern: /(?:^|: )tcp connect error(?:$|: )/, seen: 'transport error: tcp connect error' },
  {
    kind: 'refused',
    pattern: /(?:^|: )[Cc]onnection refused(?: \(os error \d+\))?$/,
    seen: 'tcp connect error: Connection refused (os error 111)',
  },
  {
    kind: 'refused',
    pattern: /(?:^|: )connect: connection refused$/,
    seen: 'dial tcp 127.0.0.1:54321: connect: connection refused',
  },
  {
    kind: 'broken',
    pattern: /(?:^|: )connection reset by peer(?: \(os error \d+\))?$/i,
    seen: 'read tcp 10.0.0.5:51334->10.0.0.9:443: read: connection reset by peer',
  },
  { kind: 'broken', pattern: /(?:^|: )unexpected EOF$/, seen: 'read SSE stream: unexpected EOF' },
  {
    kind: 'broken',
    pattern: /(?:^|: )broken pipe$/,
    seen: 'write tcp 10.0.0.5:51334->10.0.0.9:443: write: broken pipe',
  },
  { kind: 'broken', pattern: /^socket hang up$/, seen: 'socket hang up' },
  { kind: 'broken', pattern: /^Premature close$/, seen: 'Premature close' },
  { kind: 'broken', pattern: /^terminated$/, seen: 'terminated' },
  {
    kind: 'not_http', // undici asserts that nobody sends a status below 100, or changes the protocol unasked
    pattern: /^The expression evaluated to a falsy value:\s+assert\((?:statusCode >= 100|upgrade)\)\s*$/,
    seen: 'The expression evaluated to a falsy value:\n\n  assert(statusCode >= 100)\n',
  },
  { kind: 'bad_address', pattern: /^(?:unknown scheme|bad port|redirect count exceeded)$/, seen: 'bad port' },
  { kind: 'bad_address', pattern: /^Failed to parse URL from /, seen: 'Failed to parse URL from http://' },
]
