/**
 * Token files: one `TOKEN`, `TOKEN PREFIX…` or `TOKEN scope=read` per line, comments with `#`. A missing file is created with one
 * random token and mode 0600. A token without prefixes is valid for all of them. A token with `scope=read` may only read.
 */
import { randomBytes, randomUUID } from 'node:crypto'
import {
  closeSync,
  existsSync,
  fstatSync,
  linkSync,
  mkdirSync,
  openSync,
  readFileSync,
  rmSync,
  writeFileSync,
} from 'node:fs'
import { dirname } from 'node:path'
import { Fault } from '@breakfall/faults'
import { sameToken } from './guards.ts'

export type TokenGrant = {
  readonly token: string
  readonly prefixes: readonly string[] | null
  /** May only read: `GET` and subscribe. */
  readonly isReadOnly: boolean
}

export function loadTokens(file: string): readonly TokenGrant[] {
  makeSecretFile(file)
  const fd = openSync(file, 'r')
  try {
    const why = whyNotPrivate(fd, file)
    if (why !== undefined) throw new Fault('invalid_request', { error: `the token file ${file} ${why}` })
    const grants = parseTokens(readFileSync(fd, 'utf8'))
    if (grants.length === 0)
      throw new Fault('invalid_request', {
        error: `the token file ${file} contains no token; remove it, and a new one will be created`,
      })
    const scope = grants.flatMap(({ prefixes }) => prefixes ?? []).find((word) => word.startsWith(SCOPE))
    if (scope !== undefined)
      throw new Fault('invalid_request', {
        error: `the token file ${file} names an unknown scope, ${scope}; the only one is scope=read`,
      })
    // It could not be sent in a header, and a damaged file holds no secret worth keeping.
    if (grants.some(({ token }) => !/^[\x21-\x7e]+$/.test(token)))
      throw new Fault('invalid_request', {
        error: `the token file ${file} is damaged: a token consists of printable ASCII characters; remove it, and a new one will be created`,
      })
    return grants
  } finally {
    closeSync(fd)
  }
}

export function parseTokens(text: string): readonly TokenGrant[] {
  return text
    .split(/\r?\n/)
    .map((line) => line.replace(/(?:^|\s)#.*$/, '').trim())
    .filter((line) => line !== '')
    .map((line) => {
      const [token = '', ...words] = line.split(/\s+/)
      const prefixes = words.filter((word) => word !== READ_SCOPE)
      return { token, prefixes: prefixes.length === 0 ? null : prefixes, isReadOnly: words.includes(READ_SCOPE) }
    })
}

/** Throws if the token may only read and the request does more. */
export function refuseIfReadOnly(grant: TokenGrant, method: string | undefined): void {
  if (!grant.isReadOnly || method === 'GET' || method === 'HEAD') return
  throw readOnlyFault()
}

export const readOnlyFault = (): Fault =>
  new Fault('forbidden', {
    error: 'This token may only read (scope=read in the token file). Use a token without that scope.',
    errorRaw: 'the token has scope=read',
  })

/** The grant of a token. Every entry is compared: the time taken reveals nothing. */
export function findGrant(grants: readonly TokenGrant[], token: string | undefined): TokenGrant | undefined {
  let found: TokenGrant | undefined
  for (const grant of grants) if (sameToken(token ?? '', grant.token) && token !== undefined) found = grant
  return found
}

const SCOPE = 'scope='
const READ_SCOPE = `${SCOPE}read`

/** What to do about a file that other users can read; its owner counts, but not root. Undefined if only we can. */
export function whyNotPrivate(fd: number, file: string): string | undefined {
  const { mode, uid } = fstatSync(fd)
  const bits = mode & 0o777
  if ((bits & 0o077) !== 0) return `can be read by others (mode ${bits.toString(8)}); run: chmod 600 ${file}`
  const isOurs = uid === 0 || uid === process.getuid?.()
  return isOurs
    ? undefined
    : `belongs to another user (uid ${uid}), who can read it; remove it, or run: chown ${process.getuid?.() ?? ''} ${file}`
}

/** A file with one random secret, unless there is one already. It appears whole: no other process ever reads it empty. */
export function makeSecretFile(file: string): void {
  if (existsSync(file)) return
  mkdirSync(dirname(file), { recursive: true, mode: 0o700 })
  const draft = `${file}.${randomUUID()}`
  writeFileSync(draft, randomBytes(32).toString('base64url') + '\n', { flag: 'wx', mode: 0o600 })
  try {
    linkSync(draft, file)
  } catch (error) {
    const isThere = error instanceof Error && 'code' in error && error.code === 'EEXIST'
    if (!isThere) throw error // otherwise another process was first
  } finally {
    rmSync(draft, { force: true })
  }
}
