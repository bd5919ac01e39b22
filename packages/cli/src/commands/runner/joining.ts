/**
 * How a runner gets its token and joins a fleet. Its token is derived from the key of the fleet if that is on this machine, fetched
 * with a one-time code, or already in its token file.
 */
import { existsSync, readFileSync } from 'node:fs'
import { Fault, faultFrom } from '@breakfall/faults'
import type { JoinOptions } from '@breakfall/runner'
import { runnerIdIn } from '@breakfall/runner/internal'
import { replaceFile } from '@breakfall/supervisor/platform'
import { runnerEnrolledSchema } from '@breakfall/wire'
import { parseTokens, readFleetKey } from '@breakfall/wire/node'
import { allowedFolders } from '../../config/allowed-folders.ts'
import type { ResolvedConfig } from '../../config/resolve.ts'
import { cmd } from '../../process/command-name.ts'

type JoiningOptions = {
  readonly stateDir: string
  readonly tokenFile: string
  readonly stopWhenAlone?: number | undefined
  /** A code of `breakfall fleet enroll`. */
  readonly enroll?: string | undefined
}

/** Undefined: it joins no fleet. */
export async function joiningOf(
  { joining, fleet }: ResolvedConfig,
  options: JoiningOptions,
): Promise<JoinOptions | undefined> {
  const { join: urls = [], advertise, advertiseCommand, labels } = joining
  if (urls.length === 0) return undefined
  const { stateDir, tokenFile, stopWhenAlone, enroll } = options
  const runnerId = runnerIdIn(stateDir)
  if (enroll !== undefined && !hasEnrolled(tokenFile)) putToken(tokenFile, await enrolled(urls, runnerId, enroll))
  else if (fleet.keyFile !== undefined) putToken(tokenFile, readFleetKey(fleet.keyFile).tokenOf(runnerId))
  return { urls, advertised: { url: advertise, command: advertiseCommand }, labels, stopWhenAloneMs: stopWhenAlone }
}

/** `shared:DIR` has the same files on every runner. */
export function workspacesOf(named: readonly string[] = []): {
  readonly all: readonly string[]
  readonly shared: readonly string[]
} {
  const isShared = (folder: string): boolean => folder.startsWith(SHARED)
  const all = allowedFolders(
    named.map((folder) => (isShared(folder) ? folder.slice(SHARED.length) : folder)),
    '--allow-workspace',
  )
  return { all, shared: all.filter((_, index) => isShared(named[index] ?? '')) }
}

/** Requests arrive with the advertised host name. */
export const hostIn = (url: string | undefined): readonly string[] => (url === undefined ? [] : [new URL(url).hostname])

// ---- details, in the order they are used above ----

const SHARED = 'shared:'
const ENROLLED = '# enrolled'

/** A code works once, but a service manager that restarts this runner still passes it. */
const hasEnrolled = (tokenFile: string): boolean =>
  existsSync(tokenFile) && readFileSync(tokenFile, 'utf8').includes(ENROLLED)

/** The first token of the file is the fleet's; others stay valid. */
function putToken(tokenFile: string, token: string): void {
  const text = existsSync(tokenFile) ? readFileSync(tokenFile, 'utf8') : ''
  if (parseTokens(text)[0]?.token === token) return
  replaceFile(tokenFile, `${ENROLLED}\n${token}\n${text}`)
}

async function enrolled(urls: readonly string[], runnerId: string, code: string): Promise<string> {
  let problem: unknown
  for (const url of urls) {
    try {
      const answer = await fetch(`${url.replace(/\/+$/, '')}/v1/runners/enroll`, {
        method: 'POST',
        headers: { authorization: `Bearer ${code}`, 'content-type': 'application/json' },
        body: JSON.stringify({ runnerId }),
        signal: AbortSignal.timeout(ENROLL_MS),
      })
      const body: unknown = await answer.json()
      if (answer.ok) return runnerEnrolledSchema.parse(body).token
      problem = answer.status === 401 ? usedUp() : faultFrom(body)
    } catch (cause) {
      problem ??= new Fault('daemon_unreachable', { cause, facts: { address: url } })
    }
  }
  throw problem
}

const ENROLL_MS = 30_000

const usedUp = (): Fault =>
  new Fault('unauthorized', {
    error: `The daemon does not accept this code: it has expired, another runner has used it, or it belongs to another fleet. Make a new one with "${cmd('fleet enroll')}".`,
  })
