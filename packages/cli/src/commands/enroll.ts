/** `breakfall fleet enroll`: prints a code with which one runner gets its token. It needs the fleet's key and no daemon. */
import { EXIT_CODES, Fault } from '@breakfall/faults'
import { readFleetKey } from '@breakfall/wire/node'
import type { Context } from '../context.ts'
import { cmd } from '../process/command-name.ts'

export type EnrollOptions = { readonly validMs?: number }

const VALID_MS = 3_600_000

export function enrollCommand({ out, config }: Context, { validMs = VALID_MS }: EnrollOptions): Promise<number> {
  const { keyFile } = config.fleet
  if (keyFile === undefined)
    throw usage('The key of the fleet is needed: pass --fleet-key-file, or set [fleet] keyFile.')
  const expiresAt = Date.now() + validMs
  const code = readFleetKey(keyFile).enrolment(expiresAt)
  if (out.json) out.result({ outcome: 'finished', code, expiresAt: new Date(expiresAt).toISOString() })
  else {
    out.line(code)
    out.say(`It works once. On the machine of the runner: ${cmd('runner')} --join http://DAEMON:PORT --enroll CODE`)
  }
  return Promise.resolve(EXIT_CODES.finished)
}

const usage = (error: string): Fault => new Fault('invalid_request', { error })
