/** Which names a box may reach: `packages.example.org`, `*.example.org:22`, `private:intranet.example`, `*`. Pure. */
import { domainToASCII } from 'node:url'

export type Pattern = {
  /** Without `private:`, the port and capitals. */
  readonly name: string
  /** All subdomains of `name`, and not `name` itself. */
  readonly isWildcard: boolean
  readonly ports: readonly number[]
  /** It may resolve to an address of a private network. */
  readonly isPrivate: boolean
}

/** A name without a port means the web. */
const WEB_PORTS = [80, 443] as const

/** Undefined if it is none. */
export function parsePattern(text: string): Pattern | undefined {
  const [, isPrivate, star, given = '', portText] = /^(private:)?(\*\.?)?([^:*\s/]*)(?::(\d{1,5}))?$/i.exec(text) ?? []
  const port = portText === undefined ? undefined : Number(portText)
  if (port !== undefined && (port < 1 || port > 65_535 || port === DNS_PORT)) return undefined
  const ports = port === undefined ? WEB_PORTS : [port]
  if (star === '*')
    return given === '' ? { name: '', isWildcard: true, ports, isPrivate: isPrivate !== undefined } : undefined
  const name = cleanName(given)
  return name === undefined ? undefined : { name, isWildcard: star === '*.', ports, isPrivate: isPrivate !== undefined }
}

/** The pattern that lets this name through; without a port, on any port. */
export function findAllowed(patterns: readonly Pattern[], name: string, port?: number): Pattern | undefined {
  const found = patterns.filter(
    (pattern) => isMatch(pattern, name) && (port === undefined || pattern.ports.includes(port)),
  )
  return found.find(({ isPrivate }) => isPrivate) ?? found[0]
}

/** In small letters and without the last dot; undefined if it is no name, but an address or nonsense. */
export function cleanName(text: string): string | undefined {
  if (NO_NAME.test(text)) return undefined // of a URL, only the part before them would count
  const name = domainToASCII(text.replace(/\.$/, '')).toLowerCase()
  const labels = name.split('.')
  const isNumber = /^(0x[\da-f]*|\d+)$/.test(labels.at(-1) ?? '') // a name like that is an IPv4 address
  if (name.length > 253 || isNumber || !labels.every((label) => LABEL.test(label))) return undefined
  return labels.at(-1) === 'localhost' ? undefined : name
}

// ---- details ----

const DNS_PORT = 53
const NO_NAME = /[\0- !-,/:-@[-^`{-\x7f]/
const LABEL = /^[a-z0-9_]([a-z0-9_-]{0,61}[a-z0-9_])?$/

const isMatch = ({ name, isWildcard }: Pattern, asked: string): boolean =>
  isWildcard ? name === '' || asked.endsWith(`.${name}`) : asked === name
