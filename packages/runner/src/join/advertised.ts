/** The URL at which daemons reach this runner: as configured, as printed by a command, or the address it listens on. */
import { execFile } from 'node:child_process'
import { addressIn } from '@breakfall/wire/internal'

export type Advertised = {
  readonly url?: string | undefined
  /** Prints the address, for a runner behind a mapping that only its host knows. Run again until daemons reach the runner. */
  readonly command?: readonly string[] | undefined
}

export async function advertisedUrl({ url, command }: Advertised, listening: string): Promise<string> {
  if (url !== undefined) return url.replace(/\/+$/, '')
  if (command === undefined) return listening
  const answer = await outputOf(command)
  const found = addressIn(answer)
  if (found === undefined) throw new Error(`--advertise-command printed no URL: ${answer.trim().slice(0, 200)}`)
  return found
}

// ---- details ----

const COMMAND_MS = 10_000

function outputOf([program = '', ...args]: readonly string[]): Promise<string> {
  return new Promise((resolve, reject) => {
    execFile(program, args, { timeout: COMMAND_MS, killSignal: 'SIGKILL', maxBuffer: 64 * 1024 }, (error, stdout) => {
      if (error === null) resolve(stdout)
      else reject(new Error(`--advertise-command failed: ${error.message.trim().slice(0, 500)}`))
    })
  })
}
