/** What a runner says about itself when it joins, put together from its parts. */
import { execFile } from 'node:child_process'
import { addressIn } from '@breakfall/wire/internal'
import { loadTokens } from '@breakfall/wire/node'
import { mountNamespace } from '@breakfall/supervisor/platform'
import type { Boxes } from '../box/boxes.ts'
import { countBoxes } from '../box/quota.ts'
import type { RunnerHost } from '../host/host.ts'
import type { Advertised, JoinOptions } from '../host/options.ts'
import type { Identity } from '../host/identity.ts'
import { Joining } from './joining.ts'

export function startJoining(
  options: JoinOptions,
  parts: {
    readonly url: string
    readonly tokenFile: string
    readonly identity: Identity
    readonly host: RunnerHost
    readonly boxes: Boxes
    readonly onProblem: (line: string) => void
  },
): Joining {
  const { identity, host, boxes, tokenFile, url, onProblem } = parts
  const { urls, advertised = {}, labels = [], sharedWorkspaces = [], stopWhenAloneMs } = options
  const joining = new Joining({
    urls,
    runnerId: identity.runnerId,
    token: () => loadTokens(tokenFile)[0]?.token ?? '', // it may be replaced while the runner runs
    facts: async () => ({
      url: await advertisedUrl(advertised, url),
      bootId: identity.bootId,
      capacity: host.limits.boxesMax,
      boxes: countBoxes(boxes.all()).running,
      labels: [...labels],
      workspaces: host.rules.allowed.map((root) => (sharedWorkspaces.includes(root) ? `shared:${root}` : root)),
      isolation: host.isolation.level ?? 'none',
      version: identity.version,
      machine: machineOf(host.clock.machineBootId),
    }),
    clock: host.clock,
    onProblem,
    onJoined: options.onJoined ?? (() => undefined),
    alone: stopWhenAloneMs === undefined ? undefined : { afterMs: stopWhenAloneMs, stop: () => endAll(boxes) },
  })
  joining.start()
  return joining
}

// ---- details, in the order they are used above ----

/** The URL at which daemons reach this runner: as configured, as printed by a command, or the address it listens on. */
async function advertisedUrl({ url, command }: Advertised, listening: string): Promise<string> {
  if (url !== undefined) return url.replace(/\/+$/, '')
  if (command === undefined) return listening
  const answer = await outputOf(command)
  const found = addressIn(answer)
  if (found === undefined) throw new Error(`--advertise-command printed no URL: ${answer.trim().slice(0, 200)}`)
  return found
}

const COMMAND_MS = 10_000

function outputOf([program = '', ...args]: readonly string[]): Promise<string> {
  return new Promise((resolve, reject) => {
    execFile(program, args, { timeout: COMMAND_MS, killSignal: 'SIGKILL', maxBuffer: 64 * 1024 }, (error, stdout) => {
      if (error === null) resolve(stdout)
      else reject(new Error(`--advertise-command failed: ${error.message.trim().slice(0, 500)}`))
    })
  })
}

function endAll(boxes: Boxes): void {
  for (const box of boxes.all()) for (const exec of box.execs.live.values()) void exec.stop('killed')
}

/** Two runners with the same boot of the kernel and the same mounts see the same files. */
function machineOf(bootId: string): string {
  const mounts = mountNamespace()
  return bootId === 'unknown' || mounts === undefined ? '' : `${bootId} ${mounts}`
}
