/** `breakfall fleet enroll`: prints a code with which one runner gets its token. It needs the fleet's key and no daemon. */
import { EXIT_CODES } from '@breakfall/faults'
import type { Context } from '../command-line/context.ts'
import { usageFault } from '../command-line/usage-error.ts'
import { cmd } from '../process/command-name.ts'
import { command } from '../command-line/command.ts'
import { milliseconds } from '../command-line/flags.ts'

export const FLEET = command<EnrollOptions>({
  usage: 'fleet <action>',
  about: 'enroll: print a code with which a runner joins',
  examples: ['breakfall fleet enroll                    a code for: breakfall runner --join URL --enroll CODE'],
  args: { action: { about: 'what to do', choices: ['enroll'] } },
  flags: (fleet) =>
    fleet
      .option('--fleet-key-file <file>', "the fleet's key (default: [fleet] keyFile)")
      .option('--valid-ms <ms>', 'how long the code is valid (default: an hour)', milliseconds),
  run: printCode,
})

// ---- details ----

type EnrollOptions = { readonly validMs?: number }

const VALID_MS = 3_600_000

async function printCode({ out, config }: Context, { validMs = VALID_MS }: EnrollOptions): Promise<number> {
  const { keyFile } = config.fleet
  if (keyFile === undefined)
    throw usageFault('The key of the fleet is needed: pass --fleet-key-file, or set [fleet] keyFile.')
  const { readFleetKey } = await import('@breakfall/wire/node')
  const expiresAt = Date.now() + validMs
  const code = readFleetKey(keyFile).enrolment(expiresAt)
  if (out.json) out.result({ outcome: 'finished', code, expiresAt: new Date(expiresAt).toISOString() })
  else {
    out.line(code)
    out.say(`It works once. On the machine of the runner: ${cmd('runner')} --join http://DAEMON:PORT --enroll CODE`)
  }
  return EXIT_CODES.finished
}
