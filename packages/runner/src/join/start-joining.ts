/** What a runner says about itself when it joins, put together from its parts. */
import { loadTokens } from '@breakfall/wire/node'
import { mountNamespace } from '@breakfall/supervisor/platform'
import type { Boxes } from '../box/boxes.ts'
import { countBoxes } from '../box/quota.ts'
import type { RunnerHost } from '../host.ts'
import type { Identity } from '../state/identity.ts'
import { type Advertised, advertisedUrl } from './advertised.ts'
import { Joining } from './joining.ts'

export type JoinOptions = {
  readonly urls: readonly string[]
  readonly advertised?: Advertised | undefined
  readonly labels?: readonly string[] | undefined
  /** Allowed folders that have the same files at every runner. */
  readonly sharedWorkspaces?: readonly string[] | undefined
  /** Ends every exec after this long without an answer from a daemon. */
  readonly stopWhenAloneMs?: number | undefined
  readonly onJoined?: ((daemon: string) => void) | undefined
}

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
      capacity: host.boxesMax,
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

// ---- details ----

function endAll(boxes: Boxes): void {
  for (const box of boxes.all()) for (const exec of box.execs.live.values()) void exec.stop('killed')
}

/** Two runners with the same boot of the kernel and the same mounts see the same files. */
function machineOf(bootId: string): string {
  const mounts = mountNamespace()
  return bootId === 'unknown' || mounts === undefined ? '' : `${bootId} ${mounts}`
}
