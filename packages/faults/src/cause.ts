/**
 * Reads a thrown value without trusting it. Anything may have been thrown: a string, null, an object whose getters throw,
 * a cause that is its own cause, an AggregateError with a thousand entries.
 *
 * I1  Nothing here throws.
 * I2  Everything here is bounded in depth, count and length.
 * I3  What comes out is redacted, each text before it is cut.
 */
import { isReadable, read } from './read.ts'
import { redactBounded, redactStart } from './redact.ts'

/** What one link of the chain shows about itself. */
export type CauseLink = {
  readonly name: string
  readonly message: string
  readonly code: string | undefined
  readonly syscall: string | undefined
  readonly address: string | undefined
  /** SQLite's result code. */
  readonly errcode: number | undefined
}

const LINKS_MAX = 32 // more than any real chain; a cycle ends earlier
const MESSAGE_CHARS_MAX = 2_000 // of one link
const NAME_CHARS_MAX = 200 // of a name, a code, an address
export const RAW_CHARS_MAX = 4_096 // of the whole `errorRaw`

/** The value and its causes, outermost first, including the `errors[]` of an aggregate. Never empty. */
export function causeChain(thrown: unknown): readonly CauseLink[] {
  const links: CauseLink[] = []
  const seen = new Set<unknown>()
  const queue: unknown[] = [thrown]
  while (queue.length > 0 && links.length < LINKS_MAX) {
    const value = queue.shift()
    if (value === undefined && links.length > 0) continue
    if (isReadable(value)) {
      if (seen.has(value)) continue
      seen.add(value)
      queue.push(...entriesOf(read(value, 'errors')))
      const cause = read(value, 'cause')
      if (cause !== undefined && cause !== null) queue.unshift(cause)
    }
    links.push(linkOf(value))
  }
  return links
}

/** The chain as one line for `errorRaw`: redacted, bounded, outermost first. */
export function describeCause(thrown: unknown): string {
  const texts: string[] = []
  for (const link of causeChain(thrown)) {
    const text = textOf(link)
    if (text !== '' && !texts.some((earlier) => earlier.includes(text))) texts.push(text)
  }
  // All links are wrappers: their own text is all there is.
  return redactBounded(texts.join(': ') || (causeChain(thrown)[0]?.message ?? ''), RAW_CHARS_MAX)
}

// ---- details ----

function entriesOf(errors: unknown): readonly unknown[] {
  try {
    return Array.isArray(errors) ? errors.slice(0, LINKS_MAX) : []
  } catch {
    return [] // I1: a revoked proxy, or an entry whose getter threw
  }
}

/** undici's outer errors say only that something went wrong; the cause below them says what. */
const EMPTY_WRAPPERS = new Set(['fetch failed', 'terminated', 'Failed to fetch'])

function textOf(link: CauseLink): string {
  if (EMPTY_WRAPPERS.has(link.message)) return ''
  const message = link.message === '' ? (link.code ?? link.name) : link.message
  const code = link.code !== undefined && !message.includes(link.code) ? ` (${link.code})` : ''
  return message + code
}

function linkOf(value: unknown): CauseLink {
  if (!isReadable(value)) {
    const message = redactStart(printed(value), MESSAGE_CHARS_MAX)
    return { name: typeof value, message, code: undefined, syscall: undefined, address: undefined, errcode: undefined }
  }
  const message = read(value, 'message')
  const errcode = read(value, 'errcode')
  return {
    name: text(read(value, 'name')) ?? 'Error',
    message: redactStart(typeof message === 'string' ? message : printedObject(value), MESSAGE_CHARS_MAX), // I3
    code: text(read(value, 'code')), // numeric codes (DOMException's 20 and 23, providers' 400) are not error codes
    syscall: text(read(value, 'syscall')),
    address: addressOf(value),
    errcode: typeof errcode === 'number' ? errcode : undefined,
  }
}

function addressOf(value: object): string | undefined {
  const host = text(read(value, 'address')) ?? text(read(value, 'hostname'))
  if (host === undefined) return undefined
  const port = read(value, 'port')
  const shown = host.includes(':') ? `[${host}]` : host
  return typeof port === 'number' ? `${shown}:${port}` : shown
}

const text = (value: unknown): string | undefined =>
  typeof value === 'string' && value !== '' ? redactStart(value, NAME_CHARS_MAX) : undefined

function printed(value: unknown): string {
  try {
    return String(value)
  } catch {
    return typeof value // I1: unlikely for a primitive, but possible for symbols and foreign realms
  }
}

function printedObject(value: object): string {
  try {
    const json = JSON.stringify(value)
    if (typeof json === 'string' && json !== '{}') return json
  } catch {
    // I1: cyclic, or a toJSON that throws; the name below is all there is
  }
  const name = read(value, 'name')
  return typeof name === 'string' && name !== '' ? name : 'an object without a message'
}
